#include "serve/routes.hpp"

#include "common.hpp"
#include "serve/query.hpp"
#include "serve/verbs.hpp"
#include "serve/views.hpp"

#include <gd/migrate.hpp>
#include <gdctl/page.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace gdctl::serve {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::string_view plain = "text/plain; charset=utf-8";
constexpr std::string_view verbs_path = "/api/verb";

/// What is told to whoever asks, and costs nothing.
struct fixed {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};

const std::array<fixed, 4> all_fixed{{
  {"/", "text/html; charset=utf-8", page::index_html},
  {"/page.css", "text/css; charset=utf-8", page::page_css},
  {"/page.js", "text/javascript; charset=utf-8", page::page_js},
  {"/healthz", plain, "ok\n"},
}};

/// What the database is asked for.
struct looked {
  std::string_view path;
  std::vector<std::string_view> names; ///< of parameters
  gd::result<std::string> (*ask)(gd::client&, const parameters&);
  /// What costs milliseconds is told again for so long; the rest is asked for anew.
  milliseconds kept = 0ms;
};

const std::array<looked, 7> all_looked{{
  {"/api/machines", {}, machines, 1s},
  {"/api/machine", {"name", "version"}, machine, 1s},
  {"/api/instances",
   {"machine", "version", "step", "status", "queue", "older", "failure",
    "before", "limit"},
   instances},
  {"/api/instance", {"id", "key", "key_hex"}, instance},
  {"/api/history", {"id", "before", "limit"}, history},
  {"/api/jobs", {}, jobs},
  {"/api/job", {"id"}, job},
}};

/// The rest of those that are read.
constexpr std::array<std::string_view, 4> others{"/api/overview", "/api/about",
                                                 "/metrics", "/readyz"};

template <class Rows>
const auto* find(const Rows& rows, std::string_view path) {
  auto found = std::find_if(rows.begin(), rows.end(),
                            [&](const auto& x) { return x.path == path; });
  return found == rows.end() ? nullptr : &*found;
}

std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

std::string_view query_of(std::string_view target) {
  auto path = path_of(target);
  return target.substr(std::min(path.size() + 1, target.size()));
}

bool is_read(std::string_view path) {
  return find(all_fixed, path) != nullptr || find(all_looked, path) != nullptr
         || std::find(others.begin(), others.end(), path) != others.end();
}

answer text_answer(std::string_view type, std::string text, int status = 200) {
  return std::make_shared<response>(
    response{.status = status, .type = type, .body = std::move(text)});
}

/// Who only looks is in nobody's way: what is locked is as good as away.
gd::result<response> json_body(gd::result<std::string> body) {
  if (body)
    return response{.body = std::move(*body)};
  auto why = body.error();
  if (why.code == gd::errc::busy)
    why.code = gd::errc::unavailable;
  return why;
}

bool has_body(const request& what) {
  auto size = what.header("content-length");
  return !what.header("transfer-encoding").empty()
         || (!size.empty() && size != "0");
}

bool is_too_long(std::string_view size) {
  std::size_t bytes = 0;
  auto [end, failed] = std::from_chars(size.data(), size.data() + size.size(),
                                       bytes);
  return !size.empty()
         && (failed != std::errc{} || end != size.data() + size.size()
             || bytes > bounds{}.body);
}

} // namespace

routes::routes(gd::pq::options database, access who)
  : database_(std::move(database)),
    who_(std::move(who)),
    sampler_(database_),
    runner_([this] {
      auto patient = database_;
      patient.statement_timeout = gd::pq::options{}.statement_timeout;
      patient.lock_timeout = gd::pq::options{}.lock_timeout;
      return patient;
    }()),
    requests_(database_) {
  // nop
}

void routes::stop() {
  requests_.stop();
}

answer routes::refuse(const request& what) {
  auto path = path_of(what.target);
  if (auto why = refuse_stranger(what, who_, path == "/"))
    return why;
  bool writes = path == verbs_path;
  if (!writes && !is_read(path))
    return refusal(404, "not_found", "there is nothing of that name");
  bool reads = what.method == "GET" || what.method == "HEAD";
  if (writes ? what.method != "POST" : !reads)
    return refusal(405, "method",
                   writes ? "expected POST" : "expected GET or HEAD",
                   writes ? "POST" : "GET, HEAD");
  if (!writes)
    return has_body(what)
             ? refusal(413, "too_large", "expected a request without a body")
             : nullptr;
  if (auto why = refuse_write(what, who_))
    return why;
  if (is_too_long(what.header("content-length")))
    return refusal(413, "too_large",
                   fmt::format("expected at most {} bytes", bounds{}.body));
  return nullptr;
}

std::variant<answer, later> routes::handle(request what) {
  auto path = path_of(what.target);
  auto query = query_of(what.target);
  if (path == verbs_path)
    return verb(what);
  if (const auto* x = find(all_fixed, path))
    return text_answer(x->type, std::string{x->text});
  if (find(all_looked, path) != nullptr)
    return look(what, path, query);
  if (!query.empty())
    return told(bad_usage("expected no query"));
  if (path == "/api/about")
    return about(what);
  if (path == "/readyz")
    return ready(what);
  if (path == "/metrics")
    return metrics(what);
  if (auto known = requests_.known(what.target))
    return known;
  return later{[this, from = what.from, key = what.target](reply to) {
    requests_.ask(
      from, key, 1s,
      [this](gd::client& db) {
      return json_body(overview(db, sampler_.told()));
      },
      std::move(to));
  }};
}

routes::next routes::look(const request& what, std::string_view path,
                          std::string_view query) {
  const auto& x = *find(all_looked, path);
  auto how = read_query(query, x.names);
  if (!how)
    return told(how.error());
  std::erase_if(*how, [](const auto& one) { return one.second.empty(); });
  if (auto known = requests_.known(what.target))
    return known;
  return later{[this, from = what.from, key = what.target, &x,
                how = std::move(*how)](reply to) {
    requests_.ask(
      from, key, x.kept,
      [&x, how](gd::client& db) { return json_body(x.ask(db, how)); },
      std::move(to));
  }};
}

routes::next routes::verb(const request& what) {
  if (!query_of(what.target).empty())
    return told(bad_usage("expected no query"));
  auto does = read_verb(what.body, runner_);
  if (!does)
    return told(does.error());
  return later{[this, from = what.from, does = std::move(*does)](reply to) {
    requests_.act(from, does, std::move(to));
  }};
}

routes::next routes::ready(const request& what) {
  if (auto known = requests_.known(what.target))
    return known;
  return later{[this, from = what.from, target = what.target](reply to) {
    requests_.ask(
      from, target, 1s,
      [this](gd::client&) -> gd::result<response> {
        // Anew: another schema may be there by now.
        auto db = gd::client::connect(database_, {.reconnects = 1});
        if (!db)
          return db.error();
        return response{.type = plain, .body = "ready\n"};
      },
      [to = std::move(to)](const answer& now) {
      if (now->status == 200)
        to(now);
      else
        to(text_answer(plain, now->body, 503));
      });
  }};
}

routes::next routes::metrics(const request& what) {
  constexpr std::string_view type = "text/plain; version=0.0.4; charset=utf-8";
  if (auto known = requests_.known(what.target))
    return known;
  return later{[this, from = what.from, target = what.target, type](reply to) {
    requests_.ask(
      from, target, 5s,
      [type](gd::client& db) -> gd::result<response> {
        auto text = serve::metrics(db);
        if (!text)
          return text.error();
        return response{.type = type, .body = std::move(*text)};
      },
      [to = std::move(to), type](const answer& now) {
      // Who has not been asked is not away.
      bool asked = now->code != "overloaded" && now->code != "stopped";
      to(now->status == 200 || !asked
           ? now
           : text_answer(type, metrics_without_database()));
      });
  }};
}

answer routes::about(const request& what) const {
  auto now = std::chrono::duration_cast<std::chrono::microseconds>(
    std::chrono::system_clock::now().time_since_epoch());
  return text_answer(
    response{}.type,
    fmt::format("{{\"version\":\"{}\",\"schema\":{},\"writes\":{},"
                "\"authorized\":{},\"now_us\":{}}}\n",
                GD_VERSION, json_string(database_.schema), who_.writes,
                is_authorized(what, who_), now.count()));
}

} // namespace gdctl::serve
