#include <gd/client.hpp>

#include <gd/client/client_impl.hpp>
#include <gd/machine.hpp>
#include <gd/store/ends.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace gd {

namespace {

using clock_type = database::clock;

/// How often a read is sent again.
constexpr int read_tries = 5;

std::chrono::milliseconds delay_after(int failures) {
  return backoff(failures - 1, std::chrono::milliseconds{100},
                 std::chrono::seconds{2});
}

intake_settings settings_of(client_settings x) {
  return {.machines = std::move(x.machines),
          .limits = x.limits,
          .rows = x.rows,
          .bytes = x.bytes};
}

} // namespace

std::shared_ptr<store::queue_scans> share_queue_scans() {
  return std::make_shared<store::queue_scans>();
}

client::client(std::unique_ptr<impl> x) : impl_(std::move(x)) {
  // nop
}

client::client(client&&) noexcept = default;
client& client::operator=(client&&) noexcept = default;
client::~client() = default;

result<client> client::connect(pq::options opts, const client_settings& how) {
  if (auto ok = check_name("schema", opts.schema, {.name = 63}); !ok)
    return ok.error();
  auto made = std::make_unique<impl>(
    std::move(opts), settings_of(how), how.reconnects, how.poll,
    how.queue_scans ? how.queue_scans : share_queue_scans());
  if (auto ok = made->open(); !ok)
    return ok.error();
  return client{std::move(made)};
}

result<void> client::impl::open() {
  before_ = db_ ? db_->for_next() : before_;
  db_ = std::make_unique<pq::connection>(opts_, before_);
  auto ok = store::check_schema(db_->run({{store::schema_version()}, false}),
                                opts_.schema);
  before_ = db_->for_next();
  if (ok)
    return ok;
  db_.reset();
  auto why = ok.error();
  if (why.code == errc::unknown_fate)
    why.code = errc::unavailable; // a read has no effect to be unsure of
  return why;
}

result<void> client::impl::open_again() {
  for (int failures = 0;;) {
    auto ok = open();
    if (ok || !retryable(ok.error().code) || ++failures >= reconnects_)
      return ok;
    std::this_thread::sleep_for(delay_after(failures));
  }
}

template <class Meanwhile>
pq::reply client::impl::run(const pq::unit& work, Meanwhile meanwhile) {
  if (db_)
    db_->pump(); // notices a connection that was lost while it was idle
  if (!gave_up_ && (!db_ || db_->state() == pq::connection::phase::dead))
    if (auto ok = open_again(); !ok)
      gave_up_ = ok.error();
  if (gave_up_)
    return {{}, gave_up_, 0};
  db_->send(work);
  meanwhile();
  return db_->wait_reply();
}

template <class Answer, class Intake, class Request>
std::vector<result<Answer>> client::impl::drive(Intake& intake,
                                                std::vector<Request> requests) {
  gave_up_.reset();
  std::vector<std::optional<result<Answer>>> answers(requests.size());
  std::size_t next = 0;
  std::size_t waiting = 0;
  auto add_more = [&](std::size_t most) {
    auto first = next;
    for (; next < requests.size() && waiting < most; ++next)
      if (auto ok = intake.add(next, std::move(requests[next])))
        ++waiting;
      else
        answers[next].emplace(ok.error());
    return next > first;
  };
  while (next < requests.size() || !intake.idle()) {
    auto now = clock_type::now();
    if (auto work = intake.begin(now)) {
      // The server works on this group while the next one is checked.
      auto reply = run(*work, [&] { add_more(2 * rows_); });
      auto report = intake.finish(std::move(reply), clock_type::now());
      waiting -= report.answers.size();
      for (auto& x : report.answers)
        answers[x.ticket].emplace(std::move(x.answer));
    } else if (!add_more(intake.idle() ? rows_ : 2 * rows_)) {
      std::this_thread::sleep_until(intake.due(now));
    }
  }
  std::vector<result<Answer>> out;
  out.reserve(answers.size());
  for (auto& x : answers)
    out.push_back(std::move(*x));
  return out;
}

std::vector<result<inserted>> client::insert_all(std::vector<gd::insert> rows) {
  return impl_->drive<inserted>(impl_->inserts_, std::move(rows));
}

std::vector<result<signalled>>
client::signal_all(std::vector<gd::signal> signals) {
  return impl_->drive<signalled>(impl_->signals_, std::move(signals));
}

std::vector<result<transitioned>>
client::transition_all(std::vector<gd::transition> transitions) {
  return impl_->drive<transitioned>(impl_->transitions_,
                                    std::move(transitions));
}

result<inserted> client::insert(gd::insert what) {
  return std::move(insert_all(just(std::move(what))).front());
}

result<signalled> client::signal(gd::signal what) {
  return std::move(signal_all(just(std::move(what))).front());
}

result<transitioned> client::transition(gd::transition what) {
  return std::move(transition_all(just(std::move(what))).front());
}

template <class Again>
result<pq::rows> client::impl::ask_while(const pq::unit& work, Again again) {
  gave_up_.reset();
  for (int failures = 0;;) {
    auto reply = run(work, [] {});
    if (reply.ok())
      return std::move(reply.results.back());
    auto why = std::move(*reply.failure);
    // 57014: a statement took too long, and would again.
    if (gave_up_ || why.sqlstate == "57014" || !again(why.code)
        || ++failures == read_tries)
      return why;
    std::this_thread::sleep_for(delay_after(failures));
  }
}

result<pq::rows> client::impl::ask(const pq::unit& work) {
  auto rows = ask_while(work, [](errc code) { // a lock was waited for
    return retryable(code) && code != errc::busy;
  });
  if (rows || rows.error().code != errc::unknown_fate)
    return rows;
  auto why = rows.error();
  why.code = errc::unavailable;
  return why;
}

result<pq::rows> client::impl::ask_once(const pq::unit& work) {
  return ask_while(work, [](errc code) {
    return code == errc::unavailable || code == errc::conflict;
  });
}

result<instance> client::look_up(const gd::look_up& what) {
  if (auto ok = check_address("id", what.id, what.key, impl_->limits_); !ok)
    return ok.error();
  auto found = read_found(store::read_instance,
                          store::no_instance(what.id, what.key),
                          impl_->read(store::look_up(what)));
  if (found || what.key || found.error().code != errc::not_found)
    return found;
  // Who may not know what was erased is told that there is none.
  if (auto rows = impl_->read(store::gone(what.id)))
    return store::told_gone(*rows);
  return found;
}

result<awaited> client::await_result(const gd::await_result& what) {
  return std::move(await_result_all({what}).front());
}

std::vector<result<awaited>>
client::await_result_all(const std::vector<gd::await_result>& what) {
  std::vector<result<awaited>> out(what.size(), error{});
  auto take = [&out](end_watch::answers all) {
    for (auto& x : all)
      out[x.ticket] = std::move(x.what);
  };
  auto how = impl_->watch_;
  how.ids = std::make_shared<awaited_ids>();
  end_watch watch{std::move(how)};
  for (std::size_t i = 0; i < what.size(); ++i)
    if (auto ok = watch.add(i, what[i], clock_type::now()); !ok)
      out[i] = ok.error();
  for (impl_->gave_up_.reset(); !watch.empty();) {
    auto now = clock_type::now();
    take(watch.give_up_late(now));
    if (auto lookup = watch.begin(now)) {
      auto reply = impl_->run({{std::move(*lookup)}, false}, [] {});
      if (impl_->gave_up_) // as others are told that it has
        reply.failure = impl_->gave_up_;
      take(watch.finish(reply, clock_type::now()));
      if (impl_->gave_up_)
        for (std::size_t i = 0; i < what.size(); ++i)
          if (watch.remove(i))
            out[i] = *impl_->gave_up_;
    } else if (!watch.empty()) {
      std::this_thread::sleep_until(watch.due());
    }
  }
  return out;
}

result<std::vector<inbox_row>>
client::inbox(std::int64_t id, std::int32_t limit, bool consumed) {
  if (auto ok = check_limit(limit); !ok)
    return ok.error();
  return read_as<inbox_row>(impl_->read(store::unread(id, limit, consumed)));
}

result<std::vector<ledger_entry>> client::history(const history_query& what) {
  if (auto ok = check_address("id", what.id, what.key, impl_->limits_); !ok)
    return ok.error();
  if (auto ok = check_limit(what.limit); !ok)
    return ok.error();
  return read_as<ledger_entry>(impl_->read(store::history(what)));
}

result<std::vector<in_step_row>> client::in_step(const in_step_query& what) {
  if (auto ok = check_limit(what.limit); !ok)
    return ok.error();
  if (auto ok = check_names({{"fsm", what.fsm}, {"step", what.step}}); !ok)
    return ok.error();
  return read_as<in_step_row>(impl_->read(store::in_step(what)));
}

} // namespace gd
