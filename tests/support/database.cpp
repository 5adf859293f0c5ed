#include "support/database.hpp"

#include <gd/migrate.hpp>
#include <gd/migrations.hpp>

#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>

namespace gd::test {

namespace {

using clock = std::chrono::steady_clock;
using result_ptr = std::unique_ptr<PGresult, decltype(&PQclear)>;

/// The rows, or what the server refuses, thrown.
row_list read(const PGresult* raw) {
  auto status = PQresultStatus(raw);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    const char* state = PQresultErrorField(raw, PG_DIAG_SQLSTATE);
    throw sql_error{state != nullptr ? state : "", PQresultErrorMessage(raw)};
  }
  row_list xs;
  for (int i = 0; i < PQntuples(raw); ++i) {
    auto& x = xs.emplace_back();
    for (int j = 0; j < PQnfields(raw); ++j)
      if (PQgetisnull(raw, i, j) != 0)
        x.emplace_back();
      else
        x.emplace_back(PQgetvalue(raw, i, j));
  }
  return xs;
}

/// The connection string of GD_DATABASE, with some keywords replaced.
std::string
server(const std::vector<std::pair<std::string, std::string>>& replaced) {
  const char* text = std::getenv("GD_DATABASE");
  if (text == nullptr || *text == '\0')
    throw std::runtime_error{
      "GD_DATABASE is not set: these tests need a PostgreSQL server that they "
      "may make databases on. Run them through tools/test, or a single one as "
      "tools/private-postgres run -- <executable> -n -s '^<suite>$'"};
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed{
    PQconninfoParse(text, nullptr), PQconninfoFree};
  if (!parsed)
    throw std::runtime_error{"GD_DATABASE is not a connection string"};
  std::string out;
  auto append = [&out](std::string_view key, std::string_view value) {
    out.append(key).append("='");
    for (char c : value) {
      if (c == '\'' || c == '\\')
        out += '\\';
      out += c;
    }
    out += "' ";
  };
  for (const auto* x = parsed.get(); x->keyword != nullptr; ++x) {
    bool ours = false;
    for (const auto& [key, value] : replaced)
      ours = ours || key == x->keyword;
    if (!ours && x->val != nullptr)
      append(x->keyword, x->val);
  }
  for (const auto& [key, value] : replaced)
    append(key, value);
  out.pop_back();
  return out;
}

std::string unique_name() {
  static std::atomic<int> counter = 0;
  return "gd_test_" + std::to_string(getpid()) + "_" + std::to_string(++counter)
         + "_" + std::to_string(std::random_device{}());
}

/// Of a database with the newest schema, which is made once for all tests on a server.
const std::string& migrated() {
  static const auto name = [] {
    std::string text;
    for (const auto& x : sql::migrations)
      text += x.up;
    return "gd_migrated_" + std::to_string(std::hash<std::string>{}(text));
  }();
  return name;
}

void make_migrated() {
  session on_server{server({})};
  auto mine = unique_name();
  on_server.exec("create database " + quoted_name(mine));
  if (auto done = migrate_up({.database = server({{"dbname", mine}})}); !done)
    throw std::runtime_error{to_string(done.error())};
  try {
    on_server.exec("alter database " + quoted_name(mine) + " rename to "
                   + quoted_name(migrated()));
  } catch (const sql_error&) { // another process was first
    on_server.exec("drop database " + quoted_name(mine));
  }
}

/// Drops databases while the next test runs already: the server writes all that it has to
/// the disk for each.
class dropper {
public:
  ~dropper() {
    finish();
  }

  void drop(const std::string& name) {
    std::lock_guard held{mutex_};
    finish();
    on_server_ = std::make_unique<session>(server({}));
    on_server_->start("drop database if exists " + quoted_name(name)
                      + " with (force)");
  }

private:
  void finish() noexcept {
    try {
      if (on_server_)
        on_server_->finish();
    } catch (const std::exception&) {
      // The cluster is a test's own and goes next.
    }
    on_server_.reset();
  }

  std::mutex mutex_;
  std::unique_ptr<session> on_server_;
};

[[noreturn]] void out_of_patience(const std::string& what) {
  throw std::runtime_error{what + ": did not happen within "
                           + std::to_string(patience.count()) + " s"};
}

} // namespace

std::string why_refused(session& in, const std::string& sql,
                        const session::parameters& params) {
  try {
    in.exec(sql, params);
    return "";
  } catch (const sql_error& why) {
    std::string text = why.what();
    text = text.substr(0, text.find('\n'));
    return why.sqlstate() + " " + text.substr(text.find(":  ") + 3);
  }
}

std::string sqlstate_of(session& in, const std::string& sql,
                        const session::parameters& params) {
  return why_refused(in, sql, params).substr(0, 5);
}

std::string quoted_name(std::string_view name) {
  std::string out = "\"";
  for (char c : name) {
    if (c == '"')
      out += c;
    out += c;
  }
  return out + '"';
}

// -- sessions -----------------------------------------------------------------

void session::closer::operator()(pg_conn* handle) const noexcept {
  PQfinish(handle);
}

session::session(std::string conninfo)
  : conninfo_(std::move(conninfo)), handle_(PQconnectdb(conninfo_.c_str())) {
  if (PQstatus(handle_.get()) != CONNECTION_OK)
    throw std::runtime_error{PQerrorMessage(handle_.get())};
  PQsetNoticeReceiver(
    handle_.get(), [](void*, const PGresult*) {}, nullptr);
  pid_ = PQbackendPID(handle_.get());
}

row_list session::exec(const std::string& sql, const parameters& params) {
  start(sql, params);
  return finish();
}

std::string session::scalar(const std::string& sql, const parameters& params) {
  auto xs = exec(sql, params);
  if (xs.size() != 1 || xs.front().size() != 1)
    throw std::runtime_error{"not one row of one column: " + sql};
  return xs.front().front().value_or("");
}

void session::start(const std::string& sql, const parameters& params) {
  std::vector<const char*> values;
  for (const auto& x : params)
    values.push_back(x ? x->c_str() : nullptr);
  auto sent = params.empty()
                ? PQsendQuery(handle_.get(), sql.c_str())
                : PQsendQueryParams(handle_.get(), sql.c_str(),
                                    static_cast<int>(values.size()), nullptr,
                                    values.data(), nullptr, nullptr, 0);
  if (sent != 1)
    throw std::runtime_error{PQerrorMessage(handle_.get())};
}

row_list session::finish() {
  result_ptr last{nullptr, PQclear};
  while (auto* raw = PQgetResult(handle_.get())) {
    // Of several statements the first that fails is the last that runs.
    last.reset(raw);
  }
  if (!last)
    throw std::logic_error{"finish: no statement was started"};
  return read(last.get());
}

bool session::finished() {
  if (PQconsumeInput(handle_.get()) != 1)
    throw std::runtime_error{PQerrorMessage(handle_.get())};
  return PQisBusy(handle_.get()) == 0;
}

session& session::observer() {
  if (!observer_)
    observer_ = std::make_unique<session>(conninfo_);
  return *observer_;
}

void session::wait_until_blocked_by(std::int64_t pid) {
  auto give_up = clock::now() + patience;
  while (observer().scalar("select $1::int = any(pg_blocking_pids($2::int))",
                           {std::to_string(pid), std::to_string(pid_)})
         != "t") {
    // A statement that ends was never blocked, or is not any more.
    pollfd answer{PQsocket(handle_.get()), POLLIN, 0};
    if (poll(&answer, 1, 1) > 0 && finished())
      throw std::runtime_error{"the statement ended instead of being blocked"};
    if (clock::now() > give_up)
      out_of_patience("being blocked by " + std::to_string(pid));
  }
}

std::int64_t session::wait_until_someone_is_blocked() {
  auto give_up = clock::now() + patience;
  for (;;) {
    auto found = observer().exec("select pid from pg_stat_activity"
                                 " where $1::int = any(pg_blocking_pids(pid))",
                                 {std::to_string(pid_)});
    if (!found.empty())
      return std::stoll(found.front().front().value());
    if (clock::now() > give_up)
      out_of_patience("blocking someone");
  }
}

void session::terminate(std::int64_t pid) {
  exec("select pg_terminate_backend($1::int, 10000)", {std::to_string(pid)});
}

// -- databases ----------------------------------------------------------------

long_lock_waits::long_lock_waits(std::string conninfo)
  : looks_([this, conninfo = std::move(conninfo)] {
      session observer{conninfo};
      while (!ended_)
        for (const auto& one :
             observer.exec("select format('%s %s', pid, query_start) from "
                           "pg_stat_activity where wait_event_type = 'Lock' "
                           "and datname = current_database() and "
                           "clock_timestamp() - query_start > '1 s'"))
          seen_.insert(one.at(0).value());
    }) {
  // nop
}

long_lock_waits::~long_lock_waits() {
  end();
}

std::size_t long_lock_waits::end() {
  ended_ = true;
  if (looks_.joinable())
    looks_.join();
  return seen_.size();
}

temporary_database::temporary_database(std::string schema)
  : schema_(std::move(schema)), name_(unique_name()) {
  // nop
}

temporary_database::~temporary_database() {
  static dropper all;
  inspector_.reset();
  try {
    if (made_)
      all.drop(name_);
  } catch (const std::exception&) {
    // The cluster is a test's own and goes next.
  }
}

void temporary_database::make(const std::string& like) const {
  if (made_)
    return;
  // The other strategy writes all of it to the log: three times as long.
  session{server({})}.exec("create database " + quoted_name(name_)
                           + " template " + quoted_name(like)
                           + " strategy file_copy");
  made_ = true;
}

std::string temporary_database::conninfo(const std::string& user,
                                         const std::string& password) const {
  make();
  std::vector<std::pair<std::string, std::string>> replaced{{"dbname", name_}};
  if (!user.empty())
    replaced.emplace_back("user", user);
  if (!password.empty())
    replaced.emplace_back("password", password);
  return server(replaced);
}

pq::options temporary_database::options() const {
  return {.database = conninfo(), .schema = schema_};
}

void temporary_database::migrate() {
  if (!made_ && schema_ == "public")
    try {
      return make(migrated());
    } catch (const sql_error& why) {
      if (why.sqlstate() != "3D000")
        throw;
      make_migrated();
      return make(migrated());
    }
  if (auto done = migrate_up(options()); !done)
    throw std::runtime_error{to_string(done.error())};
}

void temporary_database::note_version(int version, int works_from) {
  rows("update gen_durable_schema set version = $1::int, works_from = $2::int",
       {std::to_string(version), std::to_string(works_from)});
}

void temporary_database::add_silent_node(const std::string& incarnation,
                                         std::int64_t pid) {
  rows("insert into gen_durable_nodes (incarnation, node, host, process, "
       "library, lease, slots, queues, machines, sessions, seen_at) select $1, "
       "'silent', 'host', 1, '0', interval '1 s', 1, '[]', '[]', "
       "jsonb_build_array(jsonb_build_object('process', a.pid, 'began', "
       "a.backend_start, 'role', a.usename)), now() - interval '1 hour' from "
       "pg_stat_activity a "
       "where a.pid = $2::int",
       {incarnation, std::to_string(pid)});
}

session& temporary_database::inspector() {
  if (!inspector_) {
    inspector_ = std::make_unique<session>(conninfo());
    inspector_->exec("select set_config('search_path', $1, false)",
                     {quoted_name(schema_)});
  }
  return *inspector_;
}

std::string temporary_database::scalar(const std::string& sql,
                                       const session::parameters& params) {
  return inspector().scalar(sql, params);
}

row_list temporary_database::rows(const std::string& sql,
                                  const session::parameters& params) {
  return inspector().exec(sql, params);
}

void temporary_database::terminate_engines() {
  rows("select pg_terminate_backend(pid, 10000) from pg_stat_activity where "
       "application_name like 'gen_durable%' and datname = current_database()");
}

void temporary_database::wait_until(const std::string& sql,
                                    std::string_view expected) {
  auto give_up = clock::now() + patience;
  while (scalar(sql) != expected)
    if (clock::now() > give_up)
      out_of_patience(sql + " being " + std::string{expected});
}

} // namespace gd::test
