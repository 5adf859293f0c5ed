#define CAF_SUITE outcome_rows

// What every statement leaves in the rows: all columns, before and after.

#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/state.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <support/database.hpp>
#include <support/opened.hpp>
#include <support/outcomes.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace outcome_rows_suite {

using namespace std::literals;

namespace {

namespace store = gd::store;
namespace pq = gd::pq;

using store::outcome_row;
using store::signal_answer;
using store::write_kind;

using ids = std::vector<std::int64_t>;

struct edges {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::uint64_t all_bits = std::numeric_limits<std::uint64_t>::max();
  double huge = std::numeric_limits<double>::max();
  double tiny = std::numeric_limits<double>::denorm_min();
  double inexact = 0.1;
  double googol = 1e100;
  std::string text = "\u00e4\n\t\"\\/\U0001f600";

  GD_STATE(edges, most, least, all_bits, huge, tiny, inexact, googol, text);
};

/// A column's value: text as SQL shows it, times in microseconds since 1970.
using columns = std::map<std::string, std::optional<std::string>>;

/// A time that lies between two readings of the server's clock, both moved by
/// `offset`.
struct moment {
  std::chrono::microseconds offset{0};
};

struct change {
  change(std::nullopt_t) {
    // nop
  }
  change(const char* x) : text(x) {
    // nop
  }
  change(std::string x) : text(std::move(x)) {
    // nop
  }
  change(moment x) : time(x) {
    // nop
  }

  std::optional<std::string> text;
  std::optional<moment> time;
};

using changes = std::map<std::string, change>;

constexpr std::chrono::microseconds hundred_years = std::chrono::hours{24}
                                                    * 36'525;

struct fixture : gd::test::engine_database {
  using engine_database::run;

  std::vector<pq::rows> run(std::vector<pq::call> calls) {
    return run_all(*engine, std::move(calls));
  }

  /// A row with something in every column that an outcome could spoil.
  std::int64_t insert_row(const std::string& status) {
    return std::stoll(db.scalar(
      "insert into gen_durable (fsm, fsm_version, step, status, state, awaits, "
      "queue, priority,"
      " eligible_at, attempt, last_error, locked_by, lease_expires_at, "
      "inserted_at, updated_at,"
      " deadline, wake_reason)"
      " values ('Order', 3, 'collect', $1::text::gen_durable_status, '{\"n\": "
      "1}',"
      " case when $1 = 'awaiting_signal' then 'paid' end, 'checkout', 7, now() "
      "- interval '1 hour', 4,"
      " 'an old one', case when $1 = 'executing' then 'node/1/1' end,"
      " case when $1 = 'executing' then now() + interval '1 minute' end,"
      " now() - interval '2 hours', now() - interval '30 minutes',"
      " now() - interval '10 minutes', 'timeout') returning id",
      {status}));
  }

  std::int64_t executing() {
    return insert_row("executing");
  }

  columns row(std::int64_t id) {
    columns xs;
    for (auto& x : db.rows(
           "select key, case when value ~ '^\\d{4}-\\d\\d-\\d\\dT' then"
           " (extract(epoch from value::timestamptz) * 1000000)::bigint::text "
           "else value end"
           " from gen_durable g, jsonb_each_text(to_jsonb(g)) where id = $1"
           " and key <> 'failed_id'", // which the database makes of two others
           {std::to_string(id)}))
      xs.emplace(x[0].value(), x[1]);
    CAF_REQUIRE_EQUAL(xs.size(), 33u);
    return xs;
  }

  std::int64_t now() {
    return std::stoll(db.scalar(
      "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"));
  }

  /// Runs the calls; the row may change as told, and in no other column.
  template <class F>
  void check(std::int64_t id, F f, const changes& expected) {
    auto before = row(id);
    auto since = now();
    f();
    auto until = now();
    auto after = row(id);
    for (const auto& [name, value] : after) {
      CAF_MESSAGE("column " << name);
      auto found = expected.find(name);
      if (found == expected.end()) {
        CAF_CHECK_EQUAL(value.value_or("null"), before[name].value_or("null"));
      } else if (found->second.time) {
        CAF_REQUIRE(value);
        auto offset = found->second.time->offset.count();
        CAF_CHECK_GREATER_OR_EQUAL(std::stoll(*value), since + offset);
        CAF_CHECK_LESS_OR_EQUAL(std::stoll(*value), until + offset);
      } else {
        CAF_CHECK_EQUAL(value.value_or("null"),
                        found->second.text.value_or("null"));
      }
    }
  }

  /// Writes one outcome, to which no failure has led if nothing else is expected.
  void
  check(const outcome_row& written, changes expected,
        pq::call (*write)(const store::row_refs<outcome_row>&) = store::flush) {
    if (written.what != write_kind::release)
      expected.insert({{"last_error", std::nullopt}, {"seq", "1"}});
    expected.insert({{"locked_by", std::nullopt},
                     {"lease_expires_at", std::nullopt},
                     {"updated_at", moment{}}});
    check(
      written.id,
      [&] {
      auto flushed = store::read_flush(run(write({written})));
      CAF_REQUIRE_EQUAL(flushed.size(), 1u);
      CAF_CHECK_EQUAL(flushed.front().id, written.id);
      CAF_CHECK(flushed.front().applied);
      },
      expected);
  }

  outcome_row outcome(write_kind what) {
    outcome_row x;
    x.id = executing();
    x.token = "node/1/1";
    x.what = what;
    bool moves = what == write_kind::next || what == write_kind::park
                 || what == write_kind::finish || what == write_kind::later;
    if (moves || what == write_kind::replay || what == write_kind::await)
      x.state = R"({"n": 2})";
    if (moves)
      x.step = "ship";
    if (what == write_kind::await)
      x.awaits = "paid";
    if (what == write_kind::done)
      x.result = R"({"ok": true})";
    if (what == write_kind::stop)
      x.reason = "enough";
    return x;
  }

  std::string signal(std::int64_t id) {
    auto xs = db.rows("select s::text from gen_durable_signals s where id = $1",
                      {std::to_string(id)});
    return xs.empty() ? "none" : xs.front().front().value();
  }

  std::vector<store::picked_row> pick(std::int32_t limit = 10,
                                      std::int32_t inbox = 1'000) {
    return store::read_pick(run(store::pick({.queue = "checkout",
                                             .limit = limit,
                                             .machines = {{"Order", 3}},
                                             .token = "node/1/9",
                                             .lease = 60s,
                                             .inbox = inbox})))
      .rows;
  }

  std::vector<store::signal_row> send(const std::vector<gd::signal>& signals,
                                      std::int32_t limit = 1'000) {
    return store::read<store::signal_row>(
      run({store::lock_targets(signals), store::send_signals(signals, limit)})
        .back());
  }
};

gd::signal to(std::int64_t target, std::string name,
              std::optional<std::string> dedup = {},
              std::string payload = "{}") {
  return {.target = target,
          .name = std::move(name),
          .payload = gd::json::raw(std::move(payload)),
          .dedup_key = std::move(dedup)};
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(outcome_rows_tests, fixture)

// -- outcomes (spec section 3) ------------------------------------------------

CAF_TEST(to a step where the row rests it is parked there of no signal) {
  changes expected{{"status", "awaiting_signal"},
                   {"step", "ship"},
                   {"state", "{\"n\": 2}"},
                   {"attempt", "0"},
                   {"awaits", ""},
                   {"deadline", std::nullopt},
                   {"wake_reason", std::nullopt}};
  check(outcome(write_kind::park), expected);
  auto x = outcome(write_kind::park);
  x.timeout_us = 2'000'000;
  expected.insert_or_assign("deadline", moment{2s});
  check(x, expected);
}

CAF_TEST(to a step that ends it the row is done with an empty result) {
  check(outcome(write_kind::finish), {{"status", "done"},
                                      {"step", "ship"},
                                      {"state", "{\"n\": 2}"},
                                      {"result", "{}"},
                                      {"attempt", "0"},
                                      {"deadline", std::nullopt},
                                      {"wake_reason", std::nullopt}});
}

CAF_TEST(await parks with attempt 0 and leaves eligible_at alone) {
  check(outcome(write_kind::await), {{"status", "awaiting_signal"},
                                     {"state", "{\"n\": 2}"},
                                     {"awaits", "paid"},
                                     {"attempt", "0"},
                                     {"deadline", std::nullopt},
                                     {"wake_reason", std::nullopt}});
}

CAF_TEST(a later next is a next that is due after its delay) {
  auto x = outcome(write_kind::later);
  x.delay_us = 90'000'000;
  changes expected{{"status", "runnable"},       {"step", "ship"},
                   {"state", "{\"n\": 2}"},      {"attempt", "0"},
                   {"eligible_at", moment{90s}}, {"deadline", std::nullopt},
                   {"wake_reason", std::nullopt}};
  CAF_CHECK(!store::is_plain_next(x));
  check(x, expected);
  x = outcome(write_kind::later);
  x.delay_us = hundred_years.count();
  expected.insert_or_assign("eligible_at", moment{hundred_years});
  check(x, expected);
}

CAF_TEST(await of several names keeps the first apart and the others in order) {
  changes parked{{"status", "awaiting_signal"},
                 {"state", "{\"n\": 2}"},
                 {"awaits", "paid"},
                 {"awaits_also", R"(["z", "a\"\\,{}'", "null", "é"])"},
                 {"attempt", "0"},
                 {"deadline", std::nullopt},
                 {"wake_reason", std::nullopt}};
  auto x = outcome(write_kind::await);
  x.awaits_also = {"z", R"(a"\,{}')", "null", "é"};
  check(x, parked);
}

CAF_TEST(whatever parks a row forgets the names that it awaited before) {
  // As nothing of ours leaves them there.
  auto stale = [this](outcome_row x) {
    db.rows("update gen_durable set awaits = 'old', awaits_also = '{older}' "
            "where id = $1",
            {std::to_string(x.id)});
    run(store::flush({x}));
    return db.scalar("select concat(awaits, ' ', awaits_also) from gen_durable "
                     "where id = $1",
                     {std::to_string(x.id)});
  };
  CAF_CHECK_EQUAL(stale(outcome(write_kind::await)), "paid ");
  CAF_CHECK_EQUAL(stale(outcome(write_kind::park)), " ");
}

CAF_TEST(whatever ends a wait forgets all of its names) {
  db.rows("insert into gen_durable_machines (fsm, version, initial_step, "
          "queue, steps, outside) values ('Order', 3, 'collect', 'checkout', "
          "'{collect,camp}', '{\"collect\": {\"to\": [\"camp\", "
          "\"collect\"]}, \"camp\": {\"to\": [], \"rests\": true}}')");
  auto parked = [this](const std::string& more) {
    auto id = std::to_string(insert_row("awaiting_signal"));
    db.rows("update gen_durable set awaits_also = '{cancelled,refunded}', "
            "deadline = now() - interval '1 s', history = 2, wake_reason = "
            "null"
              + more + " where id = $1",
            {id});
    db.rows("insert into gen_durable_ledger (instance_id, seq, at, "
            "fsm_version, outcome, to_step, attempt, state) values ($1, 0, "
            "now(), 3, 'insert', 'collect', 0, '{}')",
            {id});
    return id;
  };
  using way = std::function<void(const std::string&)>;
  auto after = [&](const way& end, const std::string& more = "") {
    auto id = parked(more);
    end(id);
    auto text = db.scalar("select concat_ws(' ', status, '[' || awaits || ']', "
                          "awaits_also) from gen_durable where id = $1",
                          {id});
    db.rows("delete from gen_durable");
    return text;
  };
  auto by_sql = [this](const std::string& call) {
    return [=, this](const std::string& id) { db.scalar(call, {id}); };
  };
  way send_it = [this](const std::string& id) {
    send({to(std::stoll(id), "cancelled")});
  };
  way wake_it = [this](const std::string&) { run(store::wake_due(10)); };
  way return_it = [this](const std::string& id) {
    run(store::return_row(std::stoll(id), true));
  };
  way signal_it = by_sql("select gd_signal($1, 'refunded')");
  for (const auto& end : {send_it, wake_it, return_it, signal_it,
                          way{by_sql("select gd_rewind($1, 0)")},
                          way{by_sql("select gd_transition($1, 'collect')")}})
    CAF_CHECK_EQUAL(after(end), "runnable");
  CAF_CHECK_EQUAL(after(by_sql("select gd_transition($1, 'camp')")),
                  "awaiting_signal []");
  CAF_MESSAGE("and a wake-up that is owed keeps all of them");
  const auto* owed = ", unique_key = 'k', unique_scope = '{runnable}'";
  for (const auto& end : {send_it, signal_it, wake_it}) {
    CAF_CHECK_EQUAL(after(end, owed),
                    "awaiting_signal [paid] {cancelled,refunded}");
    auto both = [&](const std::string& id) {
      end(id);
      return_it(id);
    };
    CAF_CHECK_EQUAL(after(both, owed), "runnable");
  }
  CAF_MESSAGE("and no other signal ends it");
  CAF_CHECK_EQUAL(after(by_sql("select gd_signal($1, 'noted')")),
                  "awaiting_signal [paid] {cancelled,refunded}");
}

CAF_TEST(done records the result and leaves the state as it is) {
  check(outcome(write_kind::done), {{"status", "done"},
                                    {"result", "{\"ok\": true}"},
                                    {"deadline", std::nullopt},
                                    {"wake_reason", std::nullopt}});
  // Whatever else the row carries.
  auto x = outcome(write_kind::done);
  x.state = R"({"n": 99})";
  x.step = "ship";
  x.reason = "none";
  check(x, {{"status", "done"},
            {"result", "{\"ok\": true}"},
            {"deadline", std::nullopt},
            {"wake_reason", std::nullopt}});
}

CAF_TEST(a completion is a done with an empty result) {
  auto x = outcome(write_kind::done);
  x.result = "{}";
  CAF_CHECK(store::is_plain_done(x));
  changes expected{{"status", "done"},
                   {"result", "{}"},
                   {"deadline", std::nullopt},
                   {"wake_reason", std::nullopt}};
  check(x, expected, store::flush_done);
  x.id = executing();
  check(x, expected, store::flush);
}

CAF_TEST(a next that consumes nothing is written by itself as among others) {
  auto x = outcome(write_kind::next);
  CAF_CHECK(store::is_plain_next(x));
  changes expected{{"status", "runnable"},       {"step", x.step},
                   {"state", x.state},           {"attempt", "0"},
                   {"eligible_at", moment{}},    {"deadline", std::nullopt},
                   {"wake_reason", std::nullopt}};
  check(x, expected, store::flush_next);
  x.id = executing();
  check(x, expected, store::flush);
  x.may_collide = true;
  CAF_CHECK(!store::is_plain_next(x));
  x.may_collide = false;
  x.consumed = {1};
  CAF_CHECK(!store::is_plain_next(x));
  for (auto what : {write_kind::replay, write_kind::await, write_kind::done,
                    write_kind::stop, write_kind::release, write_kind::advance,
                    write_kind::park, write_kind::finish})
    CAF_CHECK(!store::is_plain_next(outcome(what)));
}

CAF_TEST(what needs more than its status written does not complete) {
  for (auto what : {write_kind::next, write_kind::replay, write_kind::await,
                    write_kind::stop, write_kind::release, write_kind::advance,
                    write_kind::park, write_kind::finish}) {
    auto x = outcome(what);
    x.result = "{}";
    CAF_CHECK(!store::is_plain_done(x));
  }
  auto with_result = outcome(write_kind::done);
  CAF_CHECK(!store::is_plain_done(with_result));
  auto x = outcome(write_kind::done);
  x.result = "{}";
  CAF_CHECK(store::is_plain_done(x));
  x.may_collide = true;
  CAF_CHECK(!store::is_plain_done(x));
  x.may_collide = false;
  x.consumed = {1};
  CAF_CHECK(!store::is_plain_done(x));
}

CAF_TEST(
  stop records the reason and leaves the state and the inputs as they are) {
  check(outcome(write_kind::stop),
        {{"status", "failed"}, {"last_error", "enough"}});
}

CAF_TEST(every outcome forgets the crashes and a replay keeps the failures) {
  for (auto what : {write_kind::next, write_kind::replay, write_kind::await,
                    write_kind::done, write_kind::stop, write_kind::release,
                    write_kind::park, write_kind::finish}) {
    auto x = outcome(what);
    auto id = std::to_string(x.id);
    db.rows("update gen_durable set crashes = 2, excused = 1, trials = 2 where "
            "id = "
            + id);
    run(store::flush({x}));
    // Of four tries one was the step's own failure.
    const auto* left = what == write_kind::replay    ? "2 0 0"
                       : what == write_kind::release ? "4 2 1 2"
                       : what == write_kind::done || what == write_kind::stop
                         ? "4 0 0"
                         : "0 0 0";
    CAF_CHECK_EQUAL(db.scalar("select concat_ws(' ', attempt, crashes, "
                              "excused, trials) from gen_durable where id = "
                              + id),
                    left);
  }
}

CAF_TEST(the short ways to write an outcome forget the crashes as well) {
  auto counts_after = [&](write_kind what, auto write) {
    auto x = outcome(what);
    if (what == write_kind::done)
      x.result = "{}";
    auto id = std::to_string(x.id);
    db.rows("update gen_durable set crashes = 2, excused = 1, trials = 2 where "
            "id = "
            + id);
    run(write(x));
    return db.scalar("select concat_ws(' ', attempt, crashes, excused, trials, "
                     "seq) from gen_durable where id = "
                     + id);
  };
  CAF_CHECK_EQUAL(
    counts_after(write_kind::next,
                 [](outcome_row& x) { return store::flush_next({x}); }),
    "0 0 0 1");
  CAF_CHECK_EQUAL(
    counts_after(write_kind::done,
                 [](outcome_row& x) { return store::flush_done({x}); }),
    "4 0 0 1");
  CAF_CHECK_EQUAL(counts_after(
                    write_kind::next,
                    [](outcome_row& x) {
    x.what = write_kind::advance;
    return store::flush_advance({x}, "node/1/2");
                    }),
                  "0 0 0 1");
}

CAF_TEST(an outcome that a failure led to keeps it as the last error until the
           next one clears it) {
  for (auto what : {write_kind::next, write_kind::replay, write_kind::await,
                    write_kind::done, write_kind::park, write_kind::finish}) {
    auto x = outcome(what);
    if (what == write_kind::done)
      x.result = "{}";
    x.failure = "no stock";
    CAF_CHECK(!store::is_plain_next(x) && !store::is_plain_done(x));
    run(store::flush({x}));
    auto last_error = [&] { return row(x.id)["last_error"].value_or("none"); };
    CAF_CHECK_EQUAL(last_error(), "no stock");
    db.rows("update gen_durable set status = 'executing', locked_by = $2, "
            "lease_expires_at = now() + interval '1 minute' where id = "
            "$1::bigint",
            {std::to_string(x.id), x.token});
    x.failure.reset();
    run(what == write_kind::next   ? store::flush_next({x})
        : what == write_kind::done ? store::flush_done({x})
                                   : store::flush({x}));
    CAF_CHECK_EQUAL(last_error(), "none");
  }
}

CAF_TEST(a failure without words is the last error too) {
  auto x = outcome(write_kind::replay);
  x.failure = "";
  run(store::flush({x}));
  CAF_CHECK_EQUAL(row(x.id)["last_error"].value_or("none"), "");
}

CAF_TEST(a release undoes the pick and nothing else) {
  check(outcome(write_kind::release), {{"status", "runnable"}});
}

CAF_TEST(an advance is a next that keeps its row executing under a new token) {
  auto row = outcome(write_kind::next);
  row.what = write_kind::advance;
  check(
    row.id,
    [&] {
    auto written = store::read_flush(
      run(store::flush_advance({row}, "node/1/2")));
    CAF_REQUIRE_EQUAL(written.size(), 1u);
    CAF_CHECK(written.front().applied);
    },
    {{"seq", "1"},
     {"step", "ship"},
     {"state", R"({"n": 2})"},
     {"attempt", "0"},
     {"last_error", std::nullopt},
     {"deadline", std::nullopt},
     {"wake_reason", std::nullopt},
     {"locked_by", "node/1/2"},
     {"updated_at", moment{}}});
  CAF_MESSAGE("the old token has lost its right");
  check(
    row.id,
    [&] {
    auto written = store::read_flush(
      run(store::flush_advance({row}, "node/1/3")));
    CAF_REQUIRE_EQUAL(written.size(), 1u);
    CAF_CHECK(!written.front().applied);
    },
    {});
}

CAF_TEST(
  an advance changes no column that an index knows and stays on its page) {
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(distinct a.attname, ',') from pg_index i join "
              "pg_attribute a on a.attrelid = i.indrelid where i.indrelid = "
              "'gen_durable'::regclass and a.attname in ('step', 'state', "
              "'attempt', 'locked_by', 'updated_at', 'seq', 'history') and "
              "(a.attnum = "
              "any(i.indkey) or pg_get_expr(i.indpred, i.indrelid) ~ "
              "('\\y' || a.attname || '\\y'))"),
    "");
  constexpr gd::sql::statement hot{
    "hot", "select pg_stat_get_xact_tuples_hot_updated(oid) from pg_class "
           "where relname = 'gen_durable'"};
  auto row = outcome(write_kind::next);
  row.what = write_kind::advance;
  // Clears the deadline, which an index has.
  run(store::flush_advance({row}, "node/1/2"));
  row.token = "node/1/2";
  auto answers = run(
    {{&hot, {}}, store::flush_advance({row}, "node/1/3"), {&hot, {}}});
  CAF_CHECK_EQUAL(answers[2].integer(0, 0) - answers[0].integer(0, 0), 1);
}

CAF_TEST(an inbox behind an advance has what came and not what went) {
  auto row = outcome(write_kind::next);
  row.what = write_kind::advance;
  auto quiet = outcome(write_kind::next);
  quiet.what = write_kind::advance;
  auto id = std::to_string(row.id);
  auto send = [&](const std::string& values) {
    return std::stoll(
      db.scalar("insert into gen_durable_signals (target_id, name, payload,"
                " dedup_key) values ("
                + id + ", " + values + ") returning id"));
  };
  row.consumed = {send("'paid', '1', null"), send("'paid', '2', 'evt'")};
  auto left = send("'other', '{\"n\": 3}', null");
  auto answers = run({store::flush_advance({row, quiet}, "node/1/2"),
                      store::inbox({row, quiet}, 1'000)});
  auto inboxes = store::read<store::inbox_row>(answers.back());
  CAF_REQUIRE_EQUAL(inboxes.size(), 1u);
  CAF_CHECK_EQUAL(inboxes.front().id, row.id);
  const auto& inbox = inboxes.front().inbox;
  CAF_REQUIRE_EQUAL(inbox->size(), 1u);
  CAF_CHECK_EQUAL(inbox->front().id, left);
  CAF_CHECK_EQUAL(inbox->front().name, "other");
  CAF_CHECK_EQUAL(inbox->front().payload, R"({"n": 3})");
  CAF_MESSAGE("a dedup key outlives its signal");
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(dedup_key, ',') from gen_durable_signals "
              "where consumed_at is not null"),
    "evt");
  CAF_MESSAGE("who has lost the lease removes nothing");
  row.consumed = {left};
  run(store::flush_advance({row}, "node/1/3"));
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable_signals where consumed_at is "
              "null"),
    "1");
}

CAF_TEST(a group of all outcomes leaves each row as it would alone) {
  std::vector<outcome_row> rows;
  for (auto what : {write_kind::next, write_kind::replay, write_kind::await,
                    write_kind::done, write_kind::stop, write_kind::release,
                    write_kind::park, write_kind::finish})
    rows.push_back(outcome(what));
  rows[6].timeout_us = 60'000'000;
  rows[1].delay_us = 60'000'000;
  rows[1].failure = "no stock";
  rows[2].timeout_us = 60'000'000;
  auto flushed = run(store::flush(rows));
  CAF_CHECK_EQUAL(store::read_flush(flushed).size(), 8u);
  std::string all;
  for (const auto& x :
       db.rows("select concat_ws(' ', seq, step, status, state, "
               "result, awaits, attempt, last_error,"
               " deadline > now(), wake_reason, eligible_at > "
               "now(), locked_by, lease_expires_at)"
               " from gen_durable order by id"))
    all += x.front().value() + "\n";
  CAF_CHECK_EQUAL(all,
                  "1 ship runnable {\"n\": 2} 0 f\n"
                  "1 collect runnable {\"n\": 2} 5 no stock f timeout t\n"
                  "1 collect awaiting_signal {\"n\": 2} paid 0 t f\n"
                  "1 collect done {\"n\": 1} {\"ok\": true} 4 f\n"
                  "1 collect failed {\"n\": 1} 4 enough f timeout f\n"
                  "0 collect runnable {\"n\": 1} 4 an old one f timeout f\n"
                  "1 ship awaiting_signal {\"n\": 2}  0 t f\n"
                  "1 ship done {\"n\": 2} {} 0 f\n"s);
}

// -- delays -------------------------------------------------------------------

CAF_TEST(delays and timeouts of sixty days and a hundred years arrive to the
           microsecond) {
  for (std::chrono::microseconds d :
       {0us, 1us, 999'999us, std::chrono::microseconds{25 * 24h},
        std::chrono::microseconds{60 * 24h}, hundred_years}) {
    CAF_MESSAGE("delay " << d.count());
    auto x = outcome(write_kind::replay);
    x.delay_us = d.count();
    check(x, {{"status", "runnable"},
              {"state", "{\"n\": 2}"},
              {"attempt", "5"},
              {"eligible_at", moment{d}}});
    x = outcome(write_kind::await);
    x.timeout_us = d.count();
    check(x, {{"status", "awaiting_signal"},
              {"state", "{\"n\": 2}"},
              {"awaits", "paid"},
              {"attempt", "0"},
              {"deadline", moment{d}},
              {"wake_reason", std::nullopt}});
  }
}

CAF_TEST(points in time arrive to the microsecond) {
  for (std::int64_t us :
       {-1'000'001LL, -1LL, 0LL, 1LL, 4'938'271'560'000'001LL}) {
    auto x = outcome(write_kind::await);
    x.until_us = us;
    check(x, {{"status", "awaiting_signal"},
              {"state", "{\"n\": 2}"},
              {"attempt", "0"},
              {"awaits", "paid"},
              {"deadline", std::to_string(us)},
              {"wake_reason", std::nullopt}});
  }
}

// -- picking and releasing --------------------------------------------------

CAF_TEST(a pick takes a lease and changes nothing else) {
  auto id = insert_row("runnable");
  check(
    id,
    [&] {
    auto picked = pick();
    CAF_REQUIRE_EQUAL(picked.size(), 1u);
    const auto& x = picked.front();
    CAF_CHECK_EQUAL(x.id, id);
    CAF_CHECK_EQUAL(x.fsm, "Order"s);
    CAF_CHECK_EQUAL(x.fsm_version, 3);
    CAF_CHECK_EQUAL(x.step, "collect"s);
    CAF_CHECK_EQUAL(x.state, "{\"n\": 1}"s);
    CAF_CHECK_EQUAL(x.attempt, 4);
    CAF_CHECK_EQUAL(x.wake_reason, "timeout"s);
    CAF_CHECK(x.inbox.empty());
    },
    {{"status", "executing"},
     {"locked_by", "node/1/9"},
     {"lease_expires_at", moment{60s}},
     {"updated_at", moment{}}});
}

CAF_TEST(a pick leaves what is not for this node) {
  insert_row("runnable");
  using version = gd::machine_version;
  auto picked = [&](const std::string& queue, std::vector<version> machines) {
    auto reply = engine->run({{store::pick({.queue = queue,
                                            .limit = 10,
                                            .machines = machines,
                                            .token = "node/1/9",
                                            .lease = 60s,
                                            .inbox = 1'000})}});
    CAF_REQUIRE(reply.ok());
    return store::read_pick(reply.results.front()).rows.size();
  };
  CAF_CHECK_EQUAL(picked("default", {version{"Order", 3}}), 0u);
  CAF_CHECK_EQUAL(picked("checkout", {version{"Order", 2}, version{"Order", 33},
                                      version{"order", 3}}),
                  0u);
  CAF_CHECK_EQUAL(picked("checkout", {}), 0u);
  db.rows("update gen_durable set eligible_at = now() + interval '1 hour'");
  CAF_CHECK_EQUAL(picked("checkout", {version{"Order", 3}}), 0u);
  db.rows("update gen_durable set eligible_at = now()");
  for (const auto* status :
       {"executing", "awaiting_signal", "done", "failed"}) {
    db.rows("update gen_durable set status = $1, awaits = 'paid', locked_by = "
            "'node/9/1', lease_expires_at = now()",
            {status});
    CAF_CHECK_EQUAL(picked("checkout", {version{"Order", 3}}), 0u);
  }
  db.rows("update gen_durable set status = 'runnable'");
  CAF_CHECK_EQUAL(
    picked("checkout", {version{"Other", 1}, version{"Order", 3}}), 1u);
}

CAF_TEST(
  a pick brings the inbox in order without tombstones and up to its bound) {
  auto id = insert_row("runnable");
  auto first = received(id, "paid");
  auto gone = received(id, "paid", "evt-1");
  auto second = received(id, "noted", "evt-2");
  auto third = received(id, "paid");
  db.rows("update gen_durable_signals set consumed_at = now() where id = $1",
          {std::to_string(gone)});
  auto inbox = [&](std::int32_t bound) {
    ids xs;
    auto picked = pick(1, bound);
    for (const auto& x : picked.front().inbox)
      xs.push_back(x.id);
    db.rows("update gen_durable set status = 'runnable'");
    return xs;
  };
  CAF_CHECK(inbox(1'000) == (ids{first, second, third}));
  CAF_CHECK(inbox(2) == (ids{first, second}));
}

CAF_TEST(an inbox of any size can be picked) {
  auto id = insert_row("runnable");
  db.rows("insert into gen_durable_signals (target_id, name, payload) "
          "select $1, 'big', to_jsonb(repeat('x', 1000000)) from "
          "generate_series(1, 20)",
          {std::to_string(id)});
  auto picked = pick(1);
  CAF_REQUIRE_EQUAL(picked.size(), 1u);
  CAF_CHECK(!picked.front().shown);
  auto shown = store::read<store::shown_row>(
    run(store::show({{id, "node/1/9"}}, 1'000, 1'000)));
  CAF_REQUIRE_EQUAL(shown.size(), 1u);
  CAF_CHECK_EQUAL(shown.front().inbox.size(), 9u);
}

CAF_TEST(the reaper counts the end of a process if the one that had the lease is
           gone) {
  gd::test::session living{db.conninfo()};
  living.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
              "hashtext('host:7/abc'))");
  auto with = [&](const std::string& token) {
    auto id = executing();
    db.rows("update gen_durable set locked_by = $2, lease_expires_at = now() - "
            "interval '1 ms' where id = $1",
            {std::to_string(id), token});
    return id;
  };
  auto alive = with("host:7/abc/12");
  auto gone = with("host:7/abd/12");
  auto alone = with("host:7/abe/1");
  run(store::return_row(alone, true));
  CAF_CHECK_EQUAL(run(store::reap(10)).size(), 2u);
  auto counts = [&](std::int64_t id) {
    return db.scalar("select concat_ws(' ', status, attempt, crashes, seq) "
                     "from gen_durable where id = $1",
                     {std::to_string(id)});
  };
  CAF_CHECK_EQUAL(counts(alive), "runnable 5 0 1");
  CAF_CHECK_EQUAL(counts(gone), "runnable 5 1 1");
  CAF_CHECK_EQUAL(counts(alone), "runnable 5 1 1");
}

CAF_TEST(the reaper counts an attempt and keeps reason and deadline) {
  auto id = executing();
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 ms'");
  auto process = db.scalar(
    "select to_jsonb(array[hashtextextended(regexp_replace(locked_by,"
    " '/[^/]*$', ''), 0)])::text from gen_durable");
  check(
    id,
    [&] {
    auto moved = store::read<store::reaped_row>(run(store::reap(10)));
    CAF_REQUIRE_EQUAL(moved.size(), 1u);
    CAF_CHECK_EQUAL(moved.front().id, id);
    CAF_CHECK_EQUAL(moved.front().queue, "checkout"s);
    },
    {{"status", "runnable"},
     {"seq", "1"},
     {"attempt", "5"},
     {"crashes", "1"},
     {"crashed_in", process},
     {"locked_by", std::nullopt},
     {"lease_expires_at", std::nullopt},
     {"updated_at", moment{}}});
}

CAF_TEST(the reaper leaves living leases and takes the longest dead first) {
  auto living = executing();
  std::vector<std::int64_t> dead;
  for (const auto* ago : {"1 s", "3 s", "2 s"}) {
    dead.push_back(executing());
    db.rows("update gen_durable set lease_expires_at = now() - $2::interval "
            "where id = $1",
            {std::to_string(dead.back()), ago});
  }
  auto reaped = [&] {
    ids xs;
    for (const auto& x : store::read<store::reaped_row>(run(store::reap(1))))
      xs.push_back(x.id);
    return xs;
  };
  CAF_CHECK(reaped() == (ids{dead[1]}));
  CAF_CHECK(reaped() == (ids{dead[2]}));
  CAF_CHECK(reaped() == (ids{dead[0]}));
  CAF_CHECK(reaped().empty());
  check(living, [&] { reaped(); }, {});
}

CAF_TEST(what a lost pick took is released as if it had not been picked) {
  auto id = executing();
  check(
    id,
    [&] {
    CAF_CHECK_EQUAL(run(store::release_lost({"node/1/0", "node/1/1"})).size(),
                    1u);
    },
    {{"status", "runnable"},
     {"locked_by", std::nullopt},
     {"lease_expires_at", std::nullopt},
     {"updated_at", moment{}}});
}

CAF_TEST(a heartbeat extends the lease and changes nothing else) {
  auto id = executing();
  check(
    id,
    [&] {
    auto beats = store::read<store::beat>(run(
      store::heartbeat({std::make_shared<gd::lease>(id, "node/1/1")}, 90s)));
    CAF_REQUIRE_EQUAL(beats.size(), 1u);
    CAF_CHECK(beats.front().extended);
    CAF_CHECK_EQUAL(beats.front().token, "node/1/1"s);
    },
    {{"lease_expires_at", moment{90s}}});
}

CAF_TEST(a heartbeat of two leases of one row extends the living one) {
  auto id = executing();
  auto beats = store::read<store::beat>(
    run(store::heartbeat({std::make_shared<gd::lease>(id, "node/1/0"),
                          std::make_shared<gd::lease>(id, "node/1/1")},
                         90s)));
  CAF_REQUIRE_EQUAL(beats.size(), 2u);
  for (const auto& x : beats)
    CAF_CHECK_EQUAL(x.extended, x.token == "node/1/1");
}

// -- waking -------------------------------------------------------------------

CAF_TEST(a signal wakes with its reason and keeps the deadline) {
  auto id = insert_row("awaiting_signal");
  check(
    id,
    [&] {
    auto answer = send({to(id, "paid")}).front();
    CAF_CHECK(answer.answer == signal_answer::accepted);
    CAF_CHECK_EQUAL(answer.woken_queue, "checkout"s);
    },
    {{"status", "runnable"},
     {"awaits", std::nullopt},
     {"wake_reason", "signal"},
     {"eligible_at", moment{}},
     {"updated_at", moment{}}});
}

CAF_TEST(a deadline wakes with its reason) {
  auto id = insert_row("awaiting_signal");
  check(
    id,
    [&] {
    auto moved = store::read<store::moved_row>(run(store::wake_due(10)));
    CAF_REQUIRE_EQUAL(moved.size(), 1u);
    CAF_CHECK_EQUAL(moved.front().queue, "checkout"s);
    },
    {{"status", "runnable"},
     {"awaits", std::nullopt},
     {"wake_reason", "timeout"},
     {"eligible_at", moment{}},
     {"updated_at", moment{}}});
  // Once.
  check(id, [&] { CAF_CHECK_EQUAL(run(store::wake_due(10)).size(), 0u); }, {});
}

CAF_TEST(a signal that came before the park wakes with its reason) {
  auto x = outcome(write_kind::await);
  x.timeout_us = 5'000'000;
  received(x.id, "paid");
  check(
    x.id,
    [&] {
    auto results = run({store::flush({x}), *store::recheck({x})});
    CAF_CHECK_EQUAL(results.back().size(), 1u);
    },
    {{"status", "runnable"},
     {"state", "{\"n\": 2}"},
     {"seq", "1"},
     {"attempt", "0"},
     {"last_error", std::nullopt},
     {"wake_reason", "signal"},
     {"deadline", moment{5s}},
     {"eligible_at", moment{}},
     {"locked_by", std::nullopt},
     {"lease_expires_at", std::nullopt},
     {"updated_at", moment{}}});
}

CAF_TEST(a signal of another name
         or to a row that does not wait wakes nothing) {
  for (const auto* status : {"awaiting_signal", "runnable", "executing"}) {
    auto id = insert_row(status);
    auto* name = status == "awaiting_signal"s ? "refunded" : "paid";
    check(
      id,
      [&] {
      auto answer = send({to(id, name)}).front();
      CAF_CHECK(answer.answer == signal_answer::accepted);
      CAF_CHECK_EQUAL(answer.woken_queue, ""s);
      },
      {});
  }
}

// -- signals ------------------------------------------------------------------

CAF_TEST(exactly the consumed signals go and those with a dedup key leave a
           tombstone) {
  for (auto what : {write_kind::next, write_kind::await, write_kind::done}) {
    auto x = outcome(what);
    auto plain = received(x.id, "paid");
    auto dedup = received(x.id, "paid", "evt-1");
    auto left = received(x.id, "paid");
    auto left_dedup = received(x.id, "noted", "evt-2");
    auto stranger = executing();
    auto not_its = received(stranger, "paid");
    x.consumed = {plain, dedup, not_its};
    auto before = signal(left) + signal(left_dedup) + signal(not_its);
    run(store::flush({x}));
    CAF_CHECK_EQUAL(signal(plain), "none"s);
    CAF_CHECK_EQUAL(signal(left) + signal(left_dedup) + signal(not_its),
                    before);
    CAF_CHECK_EQUAL(
      db.scalar(
        "select concat_ws(' ', target_id = $2, name, payload, dedup_key,"
        " consumed_at > now() - interval '1 minute') from gen_durable_signals "
        "where id = "
        "$1",
        {std::to_string(dedup), std::to_string(x.id)}),
      "t paid {} evt-1 t");
    db.rows("delete from gen_durable_signals");
  }
}

CAF_TEST(a signal is stored as it is sent) {
  auto id = executing();
  send({to(id, "paid", "evt-1", R"({"a":  [1, "x"]})")});
  CAF_CHECK_EQUAL(
    db.scalar(
      "select concat_ws(' ', target_id, name, payload, dedup_key, consumed_at,"
      " inserted_at > now() - interval '1 minute') from gen_durable_signals"),
    std::to_string(id) + " paid {\"a\": [1, \"x\"]} evt-1 t");
}

CAF_TEST(every signal of a group gets its own answer in the order given) {
  auto parked = insert_row("awaiting_signal");
  auto running = executing();
  auto finished = insert_row("done");
  auto failed = insert_row("failed");
  received(running, "paid", "old");
  auto gone = received(running, "paid", "tombstone");
  db.rows("update gen_durable_signals set consumed_at = now() where id = $1",
          {std::to_string(gone)});
  auto xs = send({to(running, "noted"), to(999'999, "paid"),
                  to(parked, "refunded", "a"), to(finished, "paid"),
                  to(running, "paid", "old"), to(parked, "paid", "b"),
                  to(running, "paid", "new"), to(running, "other", "new"),
                  to(failed, "paid"), to(running, "paid", "tombstone"),
                  to(parked, "paid", "c"), to(running, "noted")});
  std::vector<signal_answer> answers;
  for (const auto& x : xs)
    answers.push_back(x.answer);
  using enum signal_answer;
  CAF_CHECK(answers
            == (std::vector{accepted, no_such_target, accepted, target_finished,
                            duplicate, accepted, accepted, duplicate,
                            target_finished, duplicate, accepted, accepted}));
  CAF_CHECK_EQUAL(
    db.scalar(
      "select string_agg(concat_ws(':', target_id, name, dedup_key), ' "
      "' order by target_id, id)"
      " from gen_durable_signals where inserted_at > (select inserted_at from "
      "gen_durable_signals where id = $1)",
      {std::to_string(gone)}),
    std::to_string(parked) + ":refunded:a " + std::to_string(parked)
      + ":paid:b " + std::to_string(parked) + ":paid:c "
      + std::to_string(running) + ":noted " + std::to_string(running)
      + ":paid:new " + std::to_string(running) + ":noted");
  CAF_CHECK_EQUAL(db.scalar("select status from gen_durable where id = $1",
                            {std::to_string(parked)}),
                  "runnable");
}

CAF_TEST(of a group only what is new takes room in an inbox) {
  auto id = executing();
  received(id, "noted");
  received(id, "noted", "known");
  using enum signal_answer;
  auto check = [&](const std::vector<gd::signal>& signals,
                   const std::vector<signal_answer>& expected) {
    std::vector<signal_answer> answers;
    for (const auto& x : send(signals, 4))
      answers.push_back(x.answer);
    CAF_CHECK(answers == expected);
  };
  check({to(id, "noted", "known"), to(id, "noted", "known"),
         to(id, "noted", "first"), to(id, "noted", "first"),
         to(id, "noted", "known"), to(id, "noted")},
        {duplicate, duplicate, accepted, duplicate, duplicate, accepted});
  check({to(id, "noted", "late"), to(id, "noted", "known"), to(id, "noted"),
         to(id, "noted", "late")},
        {inbox_full, duplicate, inbox_full, inbox_full});
  db.rows("delete from gen_durable_signals where dedup_key = 'first'");
  check({to(id, "noted", "known"), to(id, "noted", "late"),
         to(id, "noted", "later"), to(id, "noted", "late"),
         to(id, "noted", "later")},
        {duplicate, accepted, inbox_full, duplicate, inbox_full});
}

CAF_TEST(an inbox takes signals up to its limit and tombstones do not count) {
  auto id = executing();
  auto answers = [&](int n) {
    std::string out;
    for (const auto& x :
         send(std::vector(static_cast<std::size_t>(n), to(id, "noted")), 3))
      out += x.answer == signal_answer::accepted     ? 'a'
             : x.answer == signal_answer::inbox_full ? 'f'
                                                     : '?';
    return out;
  };
  CAF_CHECK_EQUAL(answers(2), "aa"s);
  CAF_CHECK_EQUAL(answers(3), "aff"s);
  CAF_CHECK_EQUAL(answers(1), "f"s);
  // A duplicate of what is stored is no news, however full the inbox.
  db.rows("update gen_durable_signals set dedup_key = 'evt-1' where id = "
          "(select min(id) "
          "from gen_durable_signals)");
  CAF_CHECK(send({to(id, "noted", "evt-1")}, 3).front().answer
            == signal_answer::duplicate);
  db.rows("update gen_durable_signals set consumed_at = now() where dedup_key "
          "= 'evt-1'");
  CAF_CHECK_EQUAL(answers(2), "af"s);
}

// -- inserts ------------------------------------------------------------------

CAF_TEST(an insert leaves the row as given and everything else at its default) {
  auto since = now();
  auto drawn = store::read<store::drawn_id>(run(store::draw_ids(2)));
  CAF_REQUIRE_EQUAL(drawn.size(), 2u);
  store::insert_row x{.id = drawn[0].id,
                      .drawn_us = drawn[0].drawn_us,
                      .fsm = "Order",
                      .version = std::numeric_limits<std::int32_t>::max(),
                      .step = "collect",
                      .state = R"({"n": 1})",
                      .queue = "checkout",
                      .priority = std::numeric_limits<std::int16_t>::min()};
  run(store::insert({x}));
  auto row = this->row(x.id);
  auto until = now();
  CAF_CHECK_EQUAL(row["inserted_at"].value(), std::to_string(x.drawn_us));
  for (const auto* name : {"eligible_at", "inserted_at", "updated_at"}) {
    CAF_CHECK_GREATER_OR_EQUAL(std::stoll(row[name].value()), since);
    CAF_CHECK_LESS_OR_EQUAL(std::stoll(row[name].value()), until);
    row.erase(name);
  }
  CAF_CHECK(row
            == (columns{{"id", std::to_string(drawn[0].id)},
                        {"fsm", "Order"},
                        {"fsm_version", "2147483647"},
                        {"step", "collect"},
                        {"status", "runnable"},
                        {"state", "{\"n\": 1}"},
                        {"result", std::nullopt},
                        {"awaits", std::nullopt},
                        {"traceparent", std::nullopt},
                        {"expires_at", std::nullopt},
                        {"awaits_also", std::nullopt},
                        {"queue", "checkout"},
                        {"priority", "-32768"},
                        {"partition_key", std::nullopt},
                        {"attempt", "0"},
                        {"crashes", "0"},
                        {"crashed_in", std::nullopt},
                        {"excused", std::nullopt},
                        {"trials", "0"},
                        {"last_error", std::nullopt},
                        {"locked_by", std::nullopt},
                        {"lease_expires_at", std::nullopt},
                        {"unique_key", std::nullopt},
                        {"unique_scope", "[]"},
                        {"unique_guard", std::nullopt},
                        {"deadline", std::nullopt},
                        {"wake_reason", std::nullopt},
                        {"seq", "0"},
                        {"history", std::nullopt},
                        {"ledger_step", std::nullopt}}));

  x.id = drawn[1].id;
  x.at_us = 1'234'567'890'123'456;
  x.priority = std::numeric_limits<std::int16_t>::max();
  run(store::insert({x}));
  row = this->row(x.id);
  CAF_CHECK_EQUAL(row["eligible_at"].value(), "1234567890123456");
  CAF_CHECK_EQUAL(row["priority"].value(), "32767");
}

CAF_TEST(rows that are inserted together get their own values or those of all) {
  using change = void (*)(store::insert_row&);
  for (change one : {change{[](auto&) {}}, change{[](auto& x) { x.fsm = "A"; }},
                     change{[](auto& x) { x.version = 7; }},
                     change{[](auto& x) { x.step = "B"; }},
                     change{[](auto& x) { x.state = R"({"n": 2})"; }},
                     change{[](auto& x) { x.queue = "C"; }},
                     change{[](auto& x) { x.priority = 3; }},
                     change{[](auto& x) { x.drawn_us += 7; }},
                     change{[](auto& x) { x.token = "node/1/2"; }}})
    for (int how = 0; how < 3; ++how) {
      std::vector<store::insert_row> rows;
      for (const auto& drawn :
           store::read<store::drawn_id>(run(store::draw_ids(3))))
        rows.push_back({.id = drawn.id,
                        .drawn_us = drawn.drawn_us,
                        .fsm = "Order",
                        .version = 1,
                        .step = "collect",
                        .state = R"({"n": 1})",
                        .queue = "default",
                        .priority = 2,
                        .token = "node/1/1"});
      one(rows[1]);
      run(how == 0   ? store::insert(rows)
          : how == 1 ? store::insert_new(rows)
                     : store::insert_claimed(rows, 60s));
      for (const auto& x : rows) {
        auto row = this->row(x.id);
        CAF_CHECK_EQUAL(row["fsm"].value(), x.fsm);
        CAF_CHECK_EQUAL(row["fsm_version"].value(), std::to_string(x.version));
        CAF_CHECK_EQUAL(row["step"].value(), x.step);
        CAF_CHECK_EQUAL(row["state"].value(), x.state);
        CAF_CHECK_EQUAL(row["queue"].value(), x.queue);
        CAF_CHECK_EQUAL(row["priority"].value(), std::to_string(x.priority));
        CAF_CHECK_EQUAL(row["inserted_at"].value(), std::to_string(x.drawn_us));
        CAF_CHECK_EQUAL(row["locked_by"].value_or(""), how == 2 ? x.token : "");
      }
    }
}

CAF_TEST(an insert may wait for a hundred years) {
  for (auto d : {std::chrono::microseconds{60 * 24h}, hundred_years}) {
    auto id = store::read_ids(run(store::draw_ids(1))).front();
    auto since = now();
    store::insert_row x{.id = id,
                        .fsm = "Order",
                        .version = 1,
                        .step = "collect",
                        .state = "{}",
                        .queue = "default",
                        .delay_us = d.count()};
    run(store::insert({x}));
    auto at = std::stoll(row(id)["eligible_at"].value());
    CAF_CHECK_GREATER_OR_EQUAL(at, since + d.count());
    CAF_CHECK_LESS_OR_EQUAL(at, now() + d.count());
  }
}

CAF_TEST(six thousand rows go in and out in one statement each) {
  auto drawn = store::read_ids(run(store::draw_ids(6'000)));
  std::vector<store::insert_row> rows;
  for (auto id : drawn)
    rows.push_back({.id = id,
                    .fsm = "Order",
                    .version = 3,
                    .step = "collect",
                    .state = "{}",
                    .queue = "checkout"});
  run(store::insert(rows));
  CAF_CHECK_EQUAL(run(store::inserted(rows)).size(), 6'000u);
  auto picked = pick(10'000);
  CAF_CHECK_EQUAL(picked.size(), 6'000u);
  std::vector<outcome_row> outcomes;
  for (const auto& x : picked) {
    outcomes.push_back(
      {.id = x.id, .token = "node/1/9", .what = write_kind::done});
    outcomes.back().result = "{}";
  }
  CAF_CHECK_EQUAL(store::read_flush(run(store::flush(outcomes))).size(),
                  6'000u);
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable where status = 'done'"),
    "6000");
}

CAF_TEST(nothing at all is a valid batch) {
  CAF_CHECK_EQUAL(run(store::insert({})).size(), 0u);
  CAF_CHECK_EQUAL(run(store::inserted({})).size(), 0u);
  CAF_CHECK_EQUAL(store::read_flush(run(store::flush({}))).size(), 0u);
  CAF_CHECK_EQUAL(store::read_flush(run(store::flush_done({}))).size(), 0u);
  CAF_CHECK_EQUAL(store::read_flush(run(store::flush_next({}))).size(), 0u);
  CAF_CHECK_EQUAL(run(store::heartbeat({}, 60s)).size(), 0u);
  CAF_CHECK(send({}).empty());
}

// -- [A8] JSON ----------------------------------------------------------------

CAF_TEST(every write path stores JSON and not a string with JSON in it) {
  auto object = R"({"n": "2"})"s;
  auto type =
    [&](const std::string& what, const std::string& table, std::int64_t id) {
    return db.scalar("select jsonb_typeof(" + what + ") || ' ' || (" + what
                       + " ->> 'n') from " + table + " where id = $1",
                     {std::to_string(id)});
  };
  auto drawn = store::read_ids(run(store::draw_ids(1))).front();
  store::insert_row made{.id = drawn,
                         .fsm = "Order",
                         .version = 1,
                         .step = "collect",
                         .state = object,
                         .queue = "default"};
  run(store::insert({made}));
  CAF_CHECK_EQUAL(type("state", "gen_durable", drawn), "object 2");
  for (auto what : {write_kind::next, write_kind::replay, write_kind::await}) {
    auto x = outcome(what);
    x.state = object;
    run(store::flush({x}));
    CAF_CHECK_EQUAL(type("state", "gen_durable", x.id), "object 2");
  }
  auto x = outcome(write_kind::done);
  x.result = object;
  run(store::flush({x}));
  CAF_CHECK_EQUAL(type("result", "gen_durable", x.id), "object 2");
  send({to(drawn, "paid", {}, object)});
  CAF_CHECK_EQUAL(
    type("payload", "gen_durable_signals",
         std::stoll(db.scalar("select id from gen_durable_signals"))),
    "object 2");
  // And what is a string stays one.
  send({to(drawn, "text", {}, R"("a \"b\"")")});
  CAF_CHECK_EQUAL(
    db.scalar(
      "select payload #>> '{}' from gen_durable_signals where name = 'text'"),
    "a \"b\"");
}

CAF_TEST(numbers and text at the edges survive the way through the database) {
  auto x = outcome(write_kind::next);
  auto encoded = gd::to_json(edges{});
  CAF_REQUIRE(encoded.ok());
  x.state = encoded.text();
  run(store::flush({x}));
  send({to(x.id, "paid", {}, encoded.text())});
  auto picked = pick(1);
  CAF_REQUIRE_EQUAL(picked.size(), 1u);
  auto state = gd::from_json<edges>(picked.front().state);
  CAF_REQUIRE(state);
  CAF_CHECK(*state == edges{});
  auto payload = gd::from_json<edges>(picked.front().inbox.front().payload);
  CAF_REQUIRE(payload);
  CAF_CHECK(*payload == edges{});
}

CAF_TEST(a look up shows the row as it is) {
  auto id = executing();
  received(id, "paid");
  db.rows("update gen_durable_signals set consumed_at = now() where id = $1",
          {std::to_string(received(id, "paid", "evt-1"))});
  auto found = store::read_instance(run(store::look_up({.id = id})));
  CAF_REQUIRE(found);
  auto columns = row(id);
  CAF_CHECK_EQUAL(found->id, id);
  CAF_CHECK_EQUAL(found->fsm, "Order"s);
  CAF_CHECK_EQUAL(found->version, 3);
  CAF_CHECK_EQUAL(found->step, "collect"s);
  CAF_CHECK_EQUAL(found->status, "executing"s);
  CAF_CHECK_EQUAL(found->state.text(), "{\"n\": 1}"s);
  CAF_CHECK(!found->result);
  CAF_CHECK(!found->awaits);
  CAF_CHECK_EQUAL(found->queue, "checkout"s);
  CAF_CHECK_EQUAL(found->priority, 7);
  CAF_CHECK_EQUAL(found->attempt, 4);
  CAF_CHECK(found->last_error == "an old one");
  CAF_CHECK(found->locked_by == "node/1/1");
  CAF_CHECK(found->wake_reason == "timeout");
  CAF_CHECK_EQUAL(found->inbox, 1);
  CAF_CHECK_EQUAL(found->seq, 0);
  CAF_CHECK_EQUAL(std::to_string(found->eligible_at_us),
                  columns["eligible_at"].value());
  CAF_CHECK_EQUAL(std::to_string(found->deadline_us.value()),
                  columns["deadline"].value());
  CAF_CHECK_EQUAL(std::to_string(found->lease_expires_at_us.value()),
                  columns["lease_expires_at"].value());
  CAF_CHECK_EQUAL(std::to_string(found->inserted_at_us),
                  columns["inserted_at"].value());
  CAF_CHECK_EQUAL(std::to_string(found->updated_at_us),
                  columns["updated_at"].value());
  CAF_CHECK(!store::read_instance(run(store::look_up({.id = id + 1}))));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace outcome_rows_suite
