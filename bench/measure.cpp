#include "measure.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace gd::bench {

using namespace std::chrono_literals;

namespace {

std::string environment(const char* name) {
  const char* x = std::getenv(name);
  if (x == nullptr)
    throw std::runtime_error{std::string{name}
                             + " is not set: run tools/bench, or this under "
                               "tools/private-postgres"};
  return x;
}

/// Of this process and of its children that have ended.
double own_cpu() {
  double sum = 0;
  for (auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const auto& t : {used.ru_utime, used.ru_stime})
      sum += static_cast<double>(t.tv_sec)
             + static_cast<double>(t.tv_usec) / 1e6;
  }
  return sum;
}

/// The fields of /proc/PID/stat from the state on; empty: it is gone.
std::vector<std::string> process_fields(const std::filesystem::path& process) {
  std::ifstream stat{process / "stat"};
  std::string line;
  std::getline(stat, line);
  std::istringstream rest{line.substr(line.rfind(')') + 1)};
  std::vector<std::string> fields;
  for (std::string field; rest >> field;)
    fields.push_back(field);
  return fields;
}

/// Of all of the server's processes: those that live, and by the postmaster
/// those that have ended.
double server_cpu() {
  std::ifstream pid_file{environment("GD_TEST_POSTGRES_DATA")
                         + "/postmaster.pid"};
  std::string postmaster;
  std::getline(pid_file, postmaster);
  double ticks = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    auto fields = process_fields(entry.path());
    if (fields.size() < 15)
      continue;
    if (fields[1] == postmaster)
      ticks += std::stod(fields[11]) + std::stod(fields[12]);
    else if (entry.path().filename() == postmaster)
      for (auto i : {11, 12, 13, 14})
        ticks += std::stod(fields[i]);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

} // namespace

std::string conninfo(const std::string& database) {
  auto base = environment("GD_DATABASE");
  return database.empty() ? base : base + " dbname=" + database;
}

// -- session ------------------------------------------------------------------

session::session(const std::string& database)
  : handle_(PQconnectdb(conninfo(database).c_str()), PQfinish) {
  if (PQstatus(get()) != CONNECTION_OK)
    throw std::runtime_error{PQerrorMessage(get())};
}

void session::run(const std::string& text) {
  scalar(text);
}

std::string session::scalar(const std::string& text) {
  std::unique_ptr<PGresult, decltype(&PQclear)> answer{
    PQexec(get(), text.c_str()), PQclear};
  auto status = PQresultStatus(answer.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw std::runtime_error{text + ": " + PQerrorMessage(get())};
  return PQntuples(answer.get()) > 0 ? PQgetvalue(answer.get(), 0, 0) : "";
}

double session::number(const std::string& text) {
  auto cell = scalar(text);
  return cell.empty() ? 0 : std::stod(cell);
}

std::optional<session> old_snapshot(const parameters& how) {
  if (how.snapshot == 0)
    return std::nullopt;
  std::optional<session> x{std::in_place, how.database};
  x->run("begin isolation level repeatable read; select 1");
  return x;
}

double own_memory(std::string_view name) {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;)
    if (double kb = 0; word == name && status >> kb)
      return kb / 1024;
  return 0;
}

// -- meter --------------------------------------------------------------------

meter::meter(std::string database) : database_(std::move(database)) {
  wait_alone();
  commits_ = commits();
  db_.run("checkpoint");
}

void meter::start() {
  db_.run("select pg_stat_statements_reset()");
  began_ = read();
}

void meter::stop() {
  ended_ = read();
}

sample meter::finish(double steps) {
  wait_alone();
  sample out;
  out.steps = steps;
  out.seconds
    = std::chrono::duration<double>(ended_.time - began_.time).count();
  out.client_cpu = ended_.client_cpu - began_.client_cpu;
  out.server_cpu = ended_.server_cpu - began_.server_cpu;
  out.wal_bytes = ended_.wal_bytes - began_.wal_bytes;
  out.commits = commits() - commits_;
  out.statements = db_.number("select sum(calls) from pg_stat_statements "
                              + own_statements());
  out.peak_mb = own_memory("VmHWM:");
  return out;
}

double meter::pages_per_pick() {
  // What finds work says when rows are due, and skips locked ones.
  return db_.number("select sum(shared_blks_hit + shared_blks_read)::float / "
                    "nullif(sum(rows), 0) from pg_stat_statements "
                    + own_statements()
                    + " and query like '%eligible_at <= "
                      "statement_timestamp()%skip locked%'");
}

meter::reading meter::read() {
  reading out;
  out.wal_bytes = db_.number("select pg_current_wal_lsn() - '0/0'::pg_lsn");
  out.server_cpu = server_cpu();
  out.client_cpu = own_cpu();
  out.time = clock::now();
  return out;
}

void meter::wait_alone() {
  while (db_.number(fmt::format(
           "select count(*) from pg_stat_activity where datname = '{}' and "
           "backend_type = 'client backend'",
           database_))
         > 0)
    std::this_thread::sleep_for(10ms);
}

std::string meter::own_statements() const {
  return fmt::format("where dbid = (select oid from pg_database where datname "
                     "= '{}')",
                     database_);
}

double meter::commits() {
  return db_.number(
    fmt::format("select xact_commit from pg_stat_database where datname = '{}'",
                database_));
}

std::int64_t make_room(const parameters& how) {
  if (how.effect == 0)
    return 0;
  session db{how.database};
  db.run("create table bench_entries (id bigint)");
  if (how.effect != 2)
    return 0;
  return std::stoll(db.scalar(fmt::format(
    "with made as (insert into gen_durable (fsm, step, status, awaits, queue) "
    "select 'Target', 'work', 'awaiting_signal', 'never', 'none' from "
    "generate_series(1, {}) returning id) select min(id) from made",
    how.rows * how.carried)));
}

double quantile(std::vector<double> xs, double part) {
  std::sort(xs.begin(), xs.end());
  return xs[std::min(xs.size() - 1, static_cast<std::size_t>(
                                      part * static_cast<double>(xs.size())))];
}

} // namespace gd::bench
