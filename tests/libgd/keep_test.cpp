#define CAF_SUITE keep

// Instances that have ended are deleted when their machine says so: not before their time,
// nor while what has made them may still be sent again, and whoever is in the way.

#include <gd/client.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/engine/step/run.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/store/ends.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <support/database.hpp>
#include <support/opened.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace keep_suite {

using namespace std::literals;

GD_ENUM(parcel_step, pack, wait, delivered);

namespace {

namespace pq = gd::pq;
namespace store = gd::store;

using gd::errc;
using gd::test::session;
using gd::test::text;
using store::outcome_row;
using store::write_kind;
using verdict = gd::turn::flushed::verdict;
using ids = std::vector<std::int64_t>;

constexpr auto resend = 18s;

struct parcel {
  int n = 0;
  GD_STATE(parcel, n);
};

auto parcels() {
  using enum parcel_step;
  return gd::define<parcel, parcel_step>("Parcel", 1)
    .history(gd::history::with_state)
    .step(pack, [](gd::context<parcel>&) { return gd::done(); })
    .rest(wait, {pack, delivered})
    .outside(pack, {delivered})
    .final(delivered);
}

/// As a step of a machine that keeps it for so long ends it.
outcome_row ending(std::int64_t id, write_kind how,
                   std::chrono::microseconds kept) {
  outcome_row x{.id = id, .token = "node/1/1", .what = how};
  x.keep_us = kept.count();
  x.erase = kept == 0s;
  if (how == write_kind::done)
    x.result = "{}";
  if (how == write_kind::stop)
    x.reason = "no stock";
  if (how == write_kind::finish) {
    x.step = "delivered";
    x.state = R"({"n": 2})";
  }
  return x;
}

gd::turn make_turn() {
  return gd::turn{{.queue = "default",
                   .incarnation = "node/1",
                   .first_pick = 7,
                   .machines = {},
                   .resend = resend}};
}

struct fixture : gd::test::engine_database {
  void make_known(gd::machine x) {
    run(store::register_machines(store::known({std::move(x)}, resend)));
  }

  /// Who executes, inserted so long ago.
  std::int64_t instance(const std::string& ago = "1 h", bool history = false,
                        const std::string& status = "executing") {
    auto id = db.scalar(
      "insert into gen_durable (fsm, step, status, locked_by, "
      "lease_expires_at, inserted_at, history, ledger_step, awaits) select "
      "'Parcel', 'pack', s, case s when 'executing' then 'node/1/1' end, case "
      "s when 'executing' then now() + interval '1 min' end, now() - "
      "$1::interval, case when $3 = '1' then 2 end, case when $3 = '1' then "
      "'pack' end, case s when 'awaiting_signal' then '' end "
      "from (values ($2::gen_durable_status)) x (s) returning id",
      {ago, status, history ? "1" : "0"});
    if (history)
      db.rows("insert into gen_durable_ledger (instance_id, seq, at, "
              "fsm_version, outcome, to_step, attempt) values ($1, 0, now(), "
              "1, 'insert', 'pack', 0)",
              {id});
    return std::stoll(id);
  }

  /// Who has ended, and is to be deleted in so long.
  std::int64_t ended(const std::string& expires_in, bool history = false,
                     const std::string& since = "1 h") {
    auto id = instance("2 h", history, "done");
    db.rows("update gen_durable set expires_at = now() + $2::interval, "
            "updated_at = now() - $3::interval where id = $1",
            {text(id), expires_in, since});
    return id;
  }

  void signal(std::int64_t target, const std::string& ago) {
    db.rows("insert into gen_durable_signals (target_id, name, dedup_key, "
            "inserted_at, "
            "consumed_at) values ($1, 'paid', 'k', now() - $2::interval, "
            "now())",
            {text(target), ago});
  }

  /// In how many seconds it is deleted, rounded; "": never.
  std::string goes_in(std::int64_t id) {
    return of(id, "round(extract(epoch from expires_at - clock_timestamp()))");
  }

  std::string count(const std::string& table, std::int64_t id) {
    auto column = table == "gen_durable"           ? "id"
                  : table == "gen_durable_signals" ? "target_id"
                                                   : "instance_id";
    return db.scalar("select count(*) from " + table + " where " + column
                       + " = $1",
                     {text(id)});
  }

  ids applied(const pq::rows& answer) {
    ids out;
    for (const auto& x : store::read_flush(answer))
      if (x.applied)
        out.push_back(x.id);
    return out;
  }

  /// What a turn makes of it, with as many transactions as it takes.
  std::vector<gd::turn::flushed> write(std::vector<outcome_row> rows,
                                       int transactions = 3) {
    auto writing = make_turn();
    for (auto& x : rows)
      writing.add(std::move(x));
    std::vector<gd::turn::flushed> out;
    auto now = gd::turn::clock::now();
    for (int i = 0; i < transactions && !writing.empty(); ++i) {
      auto started = writing.begin(0, now);
      if (!started)
        break;
      auto report = writing.finish(0, engine->run(started->work), now);
      for (auto& x : report.rows)
        out.push_back(std::move(x));
    }
    CAF_CHECK(writing.empty());
    return out;
  }

  store::erased_row erase(const ids& which) {
    return store::read_one<store::erased_row>(run(store::erase(which))).value();
  }

  ids expired(std::int32_t limit = 1'000) {
    ids out;
    for (const auto& x :
         store::read<store::expired_row>(run(store::expired(limit))))
      out.push_back(x.id);
    return out;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(keep_tests, fixture)

CAF_TEST(whatever ends an instance says when it is deleted) {
  for (auto how : {write_kind::done, write_kind::stop, write_kind::finish})
    for (bool history : {false, true})
      for (bool plain : {false, true}) {
        auto id = instance("1 h", history);
        auto x = ending(id, how, 1h);
        x.has_history = history;
        if (how == write_kind::done && !plain)
          x.result = R"({"n": 1})";
        auto told = write({x});
        CAF_REQUIRE_EQUAL(told.size(), 1u);
        CAF_CHECK(told.front().what == verdict::applied);
        CAF_CHECK_EQUAL(goes_in(id), "3600");
        CAF_CHECK_EQUAL(of(id, "status"),
                        how == write_kind::stop ? "failed" : "done");
        CAF_CHECK_EQUAL(of(id, "seq"), "1");
        CAF_CHECK_EQUAL(of(id, "ledger_step is null"), history ? "f" : "t");
        CAF_CHECK_EQUAL(count("gen_durable_ledger", id), history ? "2" : "0");
      }
}

CAF_TEST(nothing that may come again is deleted before it cannot) {
  struct {
    std::chrono::seconds kept;
    std::string inserted, signalled, expected;
  } const cases[] = {
    {1s, "1 h", "", "1"},   {1s, "8 s", "", "10"},    {1s, "1 h", "3 s", "15"},
    {17s, "1 s", "", "17"}, {17s, "0 s", "", "18"},   {20s, "0 s", "0 s", "20"},
    {0s, "8 s", "", "10"},  {0s, "1 h", "3 s", "15"}, {0s, "1 h", "17 s", "1"},
  };
  for (const auto& x : cases)
    for (auto how : {write_kind::done, write_kind::stop}) {
      auto id = instance(x.inserted);
      if (!x.signalled.empty())
        signal(id, x.signalled);
      write({ending(id, how, x.kept)});
      CAF_CHECK_EQUAL(goes_in(id), x.expected);
    }
}

CAF_TEST(an outcome that was sent twice and has deleted its row is unknown) {
  auto id = instance();
  auto writing = make_turn();
  writing.add(ending(id, write_kind::done, 0s));
  auto now = gd::turn::clock::now();
  auto first = writing.begin(0, now);
  CAF_REQUIRE(first);
  CAF_REQUIRE(engine->run(first->work).ok());
  pq::reply lost;
  lost.failure = gd::error{errc::unknown_fate, "the connection is lost", {}};
  writing.finish(0, std::move(lost), now);
  std::vector<gd::turn::flushed> told;
  for (int i = 0; i < 20 && told.empty(); ++i) {
    now += 1s;
    if (auto next = writing.begin(0, now))
      told = writing.finish(0, engine->run(next->work), now).rows;
  }
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(told.front().what == verdict::unknown);
}

CAF_TEST(an insert of a signal that a stranger leaves open delays no end) {
  auto held = instance();
  auto free = instance();
  session stranger{db.conninfo()};
  stranger.exec(
    "begin; insert into gen_durable_signals (target_id, name) values ("
    + text(held) + ", 'paid')");
  // All in the time of a statement or two: nothing waits for the stranger.
  auto told = write(
    {ending(held, write_kind::done, 0s), ending(free, write_kind::done, 0s)},
    2);
  CAF_CHECK_EQUAL(told.size(), 2u);
  CAF_CHECK_EQUAL(of(held, "status"), "done");
  CAF_CHECK_EQUAL(of(held, "expires_at is not null"), "t");
  CAF_CHECK_EQUAL(count("gen_durable", free), "0");
  stranger.exec("commit");
  CAF_CHECK_EQUAL(count("gen_durable_signals", held), "1");
}

CAF_TEST(a foreign key of somebody is no failure of a step) {
  db.rows("create table app_orders (instance bigint references gen_durable)");
  auto referred = instance("1 h", true);
  auto free = instance();
  db.rows("insert into app_orders values ($1)", {text(referred)});
  auto told = write({ending(referred, write_kind::done, 0s),
                     ending(free, write_kind::stop, 0s)});
  CAF_REQUIRE_EQUAL(told.size(), 2u);
  for (const auto& x : told)
    CAF_CHECK(x.what == verdict::applied);
  CAF_CHECK_EQUAL(of(referred, "status"), "done");
  CAF_CHECK_EQUAL(of(free, "status"), "failed");
  CAF_CHECK_EQUAL(count("gen_durable_ledger", referred), "1");
  CAF_CHECK_EQUAL(expired().size(), 2u);
}

CAF_TEST(a signal that a stranger has locked is waited for briefly and once) {
  auto id = instance();
  signal(id, "1 min");
  session stranger{db.conninfo()};
  stranger.exec("begin; select from gen_durable_signals for update");
  auto told = write({ending(id, write_kind::done, 0s)});
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(told.front().what == verdict::applied);
  CAF_CHECK_EQUAL(of(id, "status"), "done");
}

CAF_TEST(rows that are erased share no transaction with others) {
  auto writing = make_turn();
  auto now = gd::turn::clock::now();
  std::vector<std::int64_t> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(instance());
    auto x = ending(all.back(), write_kind::done, i % 2 == 0 ? 0s : 1h);
    writing.add(std::move(x));
  }
  std::vector<std::size_t> groups;
  while (auto started = writing.begin(0, now)) {
    auto report = writing.finish(0, engine->run(started->work), now);
    groups.push_back(report.rows.size());
    bool erased = report.rows.front().row->erase;
    for (const auto& x : report.rows)
      CAF_CHECK_EQUAL(x.row->erase, erased);
  }
  CAF_CHECK_EQUAL(groups, (std::vector<std::size_t>{2, 2}));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "2");
}

CAF_TEST(what was moved to its end from outside is deleted in time) {
  for (auto [kept, expected] : {std::pair{3600s, "3600"}, {0s, "18"}}) {
    make_known(parcels().keep(kept));
    auto id = instance("1 h", false, "runnable");
    db.rows("select gd_transition($1::bigint, 'delivered')", {text(id)});
    CAF_CHECK_EQUAL(of(id, "status"), "done");
    CAF_CHECK_EQUAL(goes_in(id), expected);
  }
}

CAF_TEST(a row that cannot be picked is deleted as one that has failed) {
  make_known(parcels().keep(gd::final_status::failed, 1h));
  auto id = instance("1 h", false, "runnable");
  run(store::fail_row({.id = id, .place = of(id, "ctid")}, "unreadable"));
  CAF_CHECK_EQUAL(of(id, "status"), "failed");
  CAF_CHECK_EQUAL(goes_in(id), "3600");
}

CAF_TEST(
  what an operator stops is deleted in time and what is tried again is not) {
  make_known(parcels().keep(gd::final_status::failed, 1h));
  for (const auto* status : {"executing", "runnable", "awaiting_signal"}) {
    auto id = instance("1 h", false, status);
    db.rows("select gd_stop($1::bigint, 'poison')", {text(id)});
    CAF_CHECK_EQUAL(of(id, "status"), "failed");
    CAF_CHECK_EQUAL(goes_in(id), "3600");
    db.rows("update gen_durable set expires_at = now() - interval '1 s'");
    auto chosen = expired();
    CAF_CHECK_EQUAL(chosen, ids{id});
    db.rows("select gd_retry($1::bigint)", {text(id)});
    CAF_CHECK_EQUAL(goes_in(id), "");
    CAF_CHECK_EQUAL(erase(chosen).erased, 0);
    CAF_CHECK_EQUAL(count("gen_durable", id), "1");
  }
}

CAF_TEST(what fails and gets another queue keeps its time) {
  make_known(parcels().keep(gd::final_status::failed, 1h));
  auto id = instance("1 h", false, "runnable");
  db.rows("select gd_stop($1::bigint)", {text(id)});
  db.rows("select gd_requeue($1::bigint, 'slow', force => true)", {text(id)});
  CAF_CHECK_EQUAL(goes_in(id), "3600");
}

CAF_TEST(what is put back is not deleted) {
  make_known(parcels().keep(1h));
  auto id = ended("-1 s", true);
  db.rows("update gen_durable_ledger set state = '{}'");
  auto chosen = expired();
  CAF_CHECK_EQUAL(chosen, ids{id});
  db.rows("select gd_rewind($1::bigint, 0)", {text(id)});
  CAF_CHECK_EQUAL(of(id, "status"), "runnable");
  CAF_CHECK_EQUAL(goes_in(id), "");
  CAF_CHECK_EQUAL(erase(chosen).erased, 0);
  CAF_CHECK_EQUAL(count("gen_durable", id), "1");
}

CAF_TEST(a sweep deletes what is over with all that it has and nothing else) {
  auto over = ended("-1 s", true);
  auto younger = ended("1 h", true);
  auto kept = instance("1 h", true, "done");
  auto running = instance("1 h", true);
  db.rows("update gen_durable set expires_at = now() - interval '1 d' where id "
          "= $1",
          {text(running)});
  for (auto id : {over, younger, kept, running})
    signal(id, "1 min");
  CAF_CHECK_EQUAL(expired(), ids{over});
  CAF_CHECK_EQUAL(erase({over, younger, kept, running}).erased, 1);
  for (auto* table :
       {"gen_durable", "gen_durable_signals", "gen_durable_ledger"}) {
    CAF_CHECK_EQUAL(count(table, over), "0");
    for (auto id : {younger, kept, running})
      CAF_CHECK_EQUAL(count(table, id), "1");
  }
}

CAF_TEST(a sweep passes over rows that strangers hold in any way) {
  auto locked = ended("-3 s");
  auto shared = ended("-2 s");
  auto free = ended("-1 s");
  session stranger{db.conninfo()};
  stranger.exec(
    "begin; select from gen_durable where id = " + text(locked)
    + " for no key update; insert into gen_durable_signals (target_id, name) "
      "values ("
    + text(shared) + ", 'paid')");
  auto page = expired();
  CAF_CHECK_EQUAL(page, (ids{locked, shared, free}));
  CAF_CHECK_EQUAL(erase(page).erased, 1);
  stranger.exec("commit");
  CAF_CHECK_EQUAL(erase(page).erased, 2);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "0");
}

CAF_TEST(a sweep comes past what it cannot delete) {
  for (int i = 3; i > 0; --i)
    ended(text(-i) + " s");
  auto first = store::read<store::expired_row>(run(store::expired(2)));
  CAF_REQUIRE_EQUAL(first.size(), 2u);
  auto second = store::read<store::expired_row>(
    run(store::expired(2, first.back())));
  CAF_REQUIRE_EQUAL(second.size(), 1u);
  CAF_CHECK(second.front().id > first.back().id);
}

CAF_TEST(what cannot be deleted is put off for as long as it has waited) {
  struct {
    std::string since, expected;
  } const cases[] = {{"1 s", "60"}, {"10 min", "600"}, {"40 d", "86400"}};
  for (const auto& x : cases) {
    auto id = ended("-1 s", false, x.since);
    run(store::put_off({id}));
    CAF_CHECK_EQUAL(goes_in(id), x.expected);
  }
}

CAF_TEST(a trigger that keeps an instance is told) {
  auto kept = ended("-2 s");
  auto free = ended("-1 s");
  db.rows("create function keep() returns trigger language plpgsql as $$ begin "
          "return null; end $$; create trigger keep before delete on "
          "gen_durable for each row when (old.id = "
          + text(kept) + ") execute function keep()");
  auto did = erase({kept, free});
  CAF_CHECK_EQUAL(did.erased, 1);
  CAF_CHECK_EQUAL(did.kept, ids{kept});
}

CAF_TEST(a key cannot stay taken by what is kept for no time) {
  make_known(parcels().keep(gd::final_status::done, 0s));
  auto insert = [](std::vector<std::string> scope) {
    return gd::insert{.fsm = "Parcel",
                      .state = gd::to_json(parcel{}),
                      .unique_key = "k",
                      .unique_scope = std::move(scope)};
  };
  auto c = client();
  auto refused = c.insert(insert({"runnable", "executing", "done"}));
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().code, errc::invalid_argument);
  CAF_CHECK_EQUAL(refused.error().message,
                  "unique_scope: Parcel v1 keeps no instances that are done, "
                  "expected a scope without done, got "
                  "runnable,executing,done");
  CAF_CHECK(c.insert(insert({"runnable", "executing", "failed"})));
}

CAF_TEST(an execution says how long its instance is kept by how it ends) {
  auto of = std::make_shared<const gd::machine>(
    parcels().keep(1h).keep(gd::final_status::done, 0s));
  auto run = [&of](std::string state, std::vector<std::string> scope = {}) {
    gd::run x{std::make_shared<gd::held_row>(
      gd::held_row{of,
                   {.id = 1,
                    .fsm = "Parcel",
                    .step = "pack",
                    .state = std::move(state),
                    .unique_scope = std::move(scope)},
                   std::make_shared<gd::lease>(1, "t"),
                   {}})};
    return x.execute();
  };
  auto done = run(R"({"n": 1})");
  CAF_CHECK(done->what == write_kind::done && done->erase
            && done->keep_us == 0);
  auto failed = run("[]");
  CAF_CHECK(failed->what == write_kind::stop && !failed->erase);
  CAF_CHECK(failed->keep_us == std::chrono::microseconds{1h}.count());
  // A key that was let in before the machine kept nothing.
  CAF_CHECK(!run(R"({"n": 1})", {"done"})->erase);
}

CAF_TEST(a time that cannot be is an error of the machine) {
  auto check_refused = [](auto time) {
    gd::machine x = parcels().keep(time);
    auto ok = x.validate();
    CAF_REQUIRE(!ok);
    CAF_CHECK_EQUAL(ok.error().message,
                    "Parcel v1: instances are kept for 0 to 100 years");
  };
  check_refused(-1us);
  check_refused(36526 * 24h + 1us);
  // In microseconds they would be others.
  check_refused(std::chrono::hours::max());
  check_refused(std::chrono::days{215'000'000});
}

CAF_TEST(a prune deletes what it is about and nothing else) {
  auto add = [this](const std::string& fsm, int version,
                    const std::string& status, const std::string& since) {
    auto id = instance("9 d", true, status);
    db.rows("update gen_durable set fsm = $2, fsm_version = $3::int, "
            "updated_at = now() - $4::interval where id = $1",
            {text(id), fsm, std::to_string(version), since});
    return id;
  };
  auto old = add("Parcel", 1, "done", "8 d");
  auto failed = add("Parcel", 1, "failed", "8 d");
  auto young = add("Parcel", 1, "done", "6 d");
  auto running = add("Parcel", 1, "runnable", "8 d");
  auto version = add("Parcel", 2, "done", "8 d");
  auto other = add("Other", 1, "done", "8 d");
  auto c = client();
  gd::prune what{.fsm = "Parcel",
                 .version = 1,
                 .status = "done",
                 .age_us = std::chrono::microseconds{7 * 24h}.count()};
  auto counting = what;
  counting.only_count = true;
  auto counted = c.prune(counting);
  CAF_REQUIRE(counted);
  CAF_CHECK_EQUAL(counted->found, 1);
  CAF_CHECK_EQUAL(counted->deleted, 0);
  CAF_CHECK_EQUAL(counted->examined, 6);
  CAF_CHECK(!counted->last);
  CAF_CHECK_EQUAL(count("gen_durable", old), "1");
  auto did = c.prune(what);
  CAF_REQUIRE(did);
  CAF_CHECK_EQUAL(did->deleted, 1);
  CAF_CHECK_EQUAL(count("gen_durable", old), "0");
  CAF_CHECK_EQUAL(count("gen_durable_ledger", old), "0");
  for (auto id : {failed, young, running, version, other})
    CAF_CHECK_EQUAL(count("gen_durable", id), "1");
  // Of any machine and status, page by page.
  gd::prune all{.age_us = what.age_us, .page = 2};
  std::int64_t deleted = 0;
  int pages = 0;
  for (bool more = true; more; ++pages) {
    auto page = c.prune(all);
    CAF_REQUIRE(page);
    deleted += page->deleted;
    all.after = page->last.value_or(0);
    more = page->last.has_value();
  }
  CAF_CHECK_EQUAL(deleted, 3);
  CAF_CHECK_EQUAL(pages, 3);
}

CAF_TEST(a prune comes past what something refers to) {
  db.rows("create table app_orders (instance bigint references gen_durable)");
  for (int i = 0; i < 9; ++i) {
    auto id = ended("1 h", false, "1 h");
    if (i % 4 == 1)
      db.rows("insert into app_orders values ($1)", {text(id)});
  }
  auto did = client().prune({.age_us = 60'000'000});
  CAF_REQUIRE(did);
  CAF_CHECK_EQUAL(did->found, 9);
  CAF_CHECK_EQUAL(did->deleted, 7);
  CAF_CHECK_EQUAL(did->refused, 2);
}

CAF_TEST(a prune that cannot be is refused) {
  auto c = client();
  auto refusal = [&c](const gd::prune& x) {
    auto did = c.prune(x);
    CAF_REQUIRE(!did);
    return to_string(did.error());
  };
  CAF_CHECK_EQUAL(refusal({.status = "runnable", .age_us = 60'000'000}),
                  "gd::invalid_argument: status: expected done or failed, got "
                  "runnable");
  CAF_CHECK_EQUAL(
    refusal({.age_us = 59'999'999}),
    "gd::invalid_argument: age_us: expected a minute to 100 years "
    "(60000000 to 3155760000000000), got 59999999");
  CAF_CHECK_EQUAL(refusal({.age_us = 60'000'000, .page = 0}),
                  "gd::invalid_argument: page: expected 1 to 10000, got 0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace keep_suite
