#include "ledger.hpp"

#include <gd/pq/text.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

namespace gd::bench {

namespace {

/// Of an engine's connections. A pipeline is a transaction without a begin or a
/// commit.
constexpr const char* settings = R"(
  set enable_seqscan = off;
  set jit = off;
  set plan_cache_mode = force_generic_plan;
  set gd.trusted = 'all')";

constexpr const char* token
  = "bench:12345/0123456789abcdef0123456789abcdef/123";

// -- a connection -------------------------------------------------------------

/// An array of texts that need no quotes.
std::string list(const std::vector<std::string>& xs) {
  return fmt::format("{{{}}}", fmt::join(xs, ","));
}

/// The same for each row of a transaction.
std::string each(std::int64_t size, const std::string& x) {
  return list({static_cast<std::size_t>(size), x});
}

class connection {
public:
  explicit connection(const std::string& database) : db_(database) {
    db_.run(settings);
    check(PQenterPipelineMode(db_.get()) == 1);
  }

  void prepare(const std::string& name, const std::string& text) {
    check(PQsendPrepare(db_.get(), name.c_str(), text.c_str(), 0, nullptr)
          == 1);
    commit();
  }

  void prepare(const gd::sql::statement& x) {
    prepare(std::string{x.name}, gd::pq::substitute_schema(x.text, "public"));
  }

  void call(std::string_view name, const std::vector<std::string>& args) {
    std::vector<const char*> values;
    for (const auto& x : args)
      values.push_back(x.c_str());
    check(PQsendQueryPrepared(db_.get(), std::string{name}.c_str(),
                              static_cast<int>(args.size()), values.data(),
                              nullptr, nullptr, 0)
          == 1);
  }

  void commit() {
    check(PQpipelineSync(db_.get()) == 1);
    for (bool under_way = true; under_way;) {
      std::unique_ptr<PGresult, decltype(&PQclear)> answer{
        PQgetResult(db_.get()), PQclear};
      if (!answer)
        continue; // between the answers of two statements
      auto status = PQresultStatus(answer.get());
      check(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
            || status == PGRES_PIPELINE_SYNC);
      under_way = status != PGRES_PIPELINE_SYNC;
    }
  }

private:
  void check(bool well) {
    if (!well)
      throw std::runtime_error{std::string{"transitions: "}
                               + PQerrorMessage(db_.get())};
  }

  session db_;
};

// -- the two layouts ----------------------------------------------------------

/// How transitions of some instances are written.
struct layout {
  std::function<void(session&)> fill; ///< and each instance has its first entry
  std::function<void(connection&)> prepare;
  /// Of these, each for the `n`th time.
  std::function<void(connection&, const std::vector<std::string>&,
                     std::int64_t n)>
    move;
  std::string entries; ///< counts them, and those that are the newest
};

/// The instances execute, so that only what is measured writes their rows.
void fill_engine(session& db, const parameters& how) {
  db.run(fmt::format(
    R"(insert into gen_durable (fsm, step, state, status, locked_by,
         lease_expires_at, history, ledger_step)
       select 'CountDown', 'work', '{{"left": 12345}}', 'executing', '{}',
         now() + interval '1 hour', {}, case when {} > 0 then 'work' end
       from generate_series(1, {});
       insert into gen_durable_ledger (instance_id, seq, at, fsm_version,
         outcome, to_step, attempt, state)
       select id, 0, now(), 1, 'insert', 'work', 0,
         case when history = 2 then state end
       from gen_durable where history > 0)",
    token, how.history, how.history, how.rows));
}

/// `next`, of rows that run ahead or that are picked again in the same
/// transaction.
layout engine(const parameters& how, bool ahead) {
  using namespace gd::sql;
  const auto& write = ahead
                        ? (how.history > 0 ? flush_advance_ledger
                                           : flush_advance)
                        : (how.history > 0 ? flush_next_ledger : flush_next);
  return {
    .fill = [how](session& db) { fill_engine(db, how); },
    .prepare =
      [write, ahead](connection& to) {
    to.prepare(write);
    if (!ahead)
      to.prepare(pick);
    },
    .move =
      [write, ahead, how](connection& to, const std::vector<std::string>& ids,
                          std::int64_t) {
    auto n = static_cast<std::int64_t>(ids.size());
    std::vector<std::string> args{list(ids), each(n, token), each(n, "work"),
                                  each(n, R"("{\"left\": 12345}")")};
    if (ahead)
      args.insert(args.end(), {"{}", token});
    if (how.history > 0)
      args.push_back("{}");
    to.call(write.name, args);
    if (!ahead)
      to.call(pick.name, {token, "100", "60000000", "default",
                          std::to_string(n), "{CountDown}", "{1}", "{-32768}",
                          "{-1}", "{-1}", std::to_string(2 * n)});
    },
    .entries = how.history > 0
                 ? "select count(*) || ' ' || count(*) filter (where "
                   "most_recent) from gen_durable_transitions"
                 : "select sum(seq + 1) || ' ' || count(*) from gen_durable"};
}

/// Where the entry that is the newest says so.
layout statesman(const parameters& how) {
  return {.fill =
            [how](session& db) {
    db.run(fmt::format(
      R"(create table payments (id bigint generated always as identity primary key);
         create table payment_transitions (
           id bigint generated always as identity primary key,
           payment_id bigint not null references payments (id),
           to_state text not null,
           most_recent boolean not null,
           sort_key int not null,
           metadata jsonb not null default '{{}}',
           created_at timestamptz not null default now(),
           updated_at timestamptz not null default now());
         create unique index on payment_transitions (payment_id, most_recent)
           where most_recent;
         create unique index on payment_transitions (payment_id, sort_key);
         insert into payments select from generate_series(1, {});
         insert into payment_transitions (payment_id, to_state, most_recent,
           sort_key)
         select id, 'work', true, 0 from payments)",
      how.rows));
          },
          .prepare =
            [](connection& to) {
    to.prepare("flip", "update payment_transitions set most_recent = false, "
                       "updated_at = clock_timestamp() where most_recent and "
                       "payment_id = any($1::bigint[]) returning sort_key");
    to.prepare("append",
               "insert into payment_transitions (payment_id, to_state, "
               "most_recent, sort_key) select id, 'work', true, $2::int from "
               "unnest($1::bigint[]) id");
          },
    .move =
      [](connection& to, const std::vector<std::string>& ids, std::int64_t n) {
    to.call("flip", {list(ids)});
    to.call("append", {list(ids), std::to_string(10 * n)});
    },
    .entries = "select count(*) || ' ' || count(*) filter (where most_recent) "
               "from payment_transitions"};
}

layout layout_of(const std::string& kind, const parameters& how) {
  if (kind == "statesman")
    return statesman(how);
  if (kind == "ahead" || kind == "picked")
    return engine(how, kind == "ahead");
  throw std::runtime_error{"transitions: unknown kind " + kind};
}

// -- the measurement ----------------------------------------------------------

/// All instances, in an order that is not that of their places.
void move_all(connection& by, const layout& how, const parameters& sizes,
              std::int64_t n) {
  constexpr std::int64_t stride = 7'919;
  for (std::int64_t i = 0; i < sizes.rows;) {
    std::vector<std::string> ids;
    for (auto end = std::min(sizes.rows, i + sizes.turn); i < end; ++i)
      ids.push_back(std::to_string(i * stride % sizes.rows + 1));
    how.move(by, ids, n);
    by.commit();
  }
}

} // namespace

sample measure_transitions(const std::string& kind, const parameters& how) {
  auto by = layout_of(kind, how);
  // Warm: of each instance one transition has been made.
  {
    session db{how.database};
    by.fill(db);
    connection to{how.database};
    by.prepare(to);
    move_all(to, by, how, 1);
    db.run("vacuum analyze");
  }
  meter m{how.database};
  session watch;
  auto written = [&] {
    return watch.number("select pg_current_wal_lsn() - '0/0'::pg_lsn");
  };
  double wal = 0;
  {
    connection to{how.database};
    by.prepare(to);
    m.start();
    for (std::int64_t n = 2; n < how.steps + 2; ++n) {
      wal = written();
      move_all(to, by, how, n);
    }
    wal = written() - wal;
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows * how.steps));
  // Behind a checkpoint the first change of a page writes all of it.
  out.more["WAL bytes without full pages"] = wal
                                             / static_cast<double>(how.rows);
  auto found = session{how.database}.scalar(by.entries);
  if (found != fmt::format("{} {}", how.rows * (how.steps + 2), how.rows))
    throw std::runtime_error{"transitions: expected other entries than "
                             + found};
  return out;
}

} // namespace gd::bench
