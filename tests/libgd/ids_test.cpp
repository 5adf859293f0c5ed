#define CAF_SUITE ids

// Ids that others have: a sequence that stands behind its rows, as behind a switch to a logical replica, a COPY or a setval.

#include <gd/check.hpp>
#include <gd/client.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/testing.hpp>
#include <gd/transaction.hpp>

#include <support/opened.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ids_suite {

using namespace std::literals;

GD_ENUM(ids_step, begin);

struct ids_state {
  std::int64_t order = 0;
  GD_STATE(ids_state, order);
};

namespace {

using gd::test::contains;
using gd::test::session;
using gd::test::sql_error;

constexpr auto behind = "the sequence public.gen_durable_id_seq stands at ";
constexpr auto mended_by = "\"gdctl check --repair\"";

gd::insert order(std::int64_t number, std::optional<std::string> key = {}) {
  return {.fsm = "Order",
          .state = gd::to_json(ids_state{number}),
          .step = "begin",
          .queue = "q",
          .unique_key = std::move(key)};
}

template <class T>
std::string told(const gd::result<T>& answer) {
  return answer ? "accepted" : to_string(answer.error());
}

/// Tells what is wrong, by how much, and what mends it.
void check_told(const std::string& text, const std::string& highest = "2000") {
  CAF_MESSAGE(text);
  CAF_CHECK(contains(text, behind));
  CAF_CHECK(contains(text, "and the highest id there is " + highest + ":"));
  CAF_CHECK(contains(text, mended_by));
}

struct fixture : gd::test::opened_database {
  fixture() {
    db.rows("insert into gen_durable (fsm, step, queue, state) select 'Order', "
            "'begin', 'q', jsonb_build_object('order', n) from "
            "generate_series(1, 2000) n");
    set("gen_durable", 0);
  }

  void set(const std::string& table, int to) {
    db.scalar("select setval('" + table + "_id_seq', "
              + std::to_string(std::max(to, 1)) + ", "
              + (to > 0 ? "true" : "false") + ")");
  }

  /// What a statement is refused with.
  std::string refused(const std::string& sql) {
    try {
      db.rows(sql);
      return "accepted";
    } catch (const sql_error& why) {
      return why.sqlstate() + ": " + why.what();
    }
  }

  std::string found() {
    auto all = gd::check(db.options());
    CAF_REQUIRE(all);
    std::string text;
    for (const auto& x : *all)
      text += x.fault + (x.repairs ? " (repairs)\n" : "\n");
    return text;
  }
};

/// Not what comes before: machines that are looked up, ids that are drawn.
bool sends_rows(const gd::pq::unit& x) {
  return std::any_of(x.calls.begin(), x.calls.end(), [](const auto& call) {
    return call.what == &gd::sql::insert || call.what == &gd::sql::insert_new;
  });
}

constexpr auto by_sql = "select gd_insert('Order', '{\"order\": 100001}', step "
                        "=> 'begin', queue => "
                        "'q'";

} // namespace

CAF_TEST_FIXTURE_SCOPE(ids_tests, fixture)

CAF_TEST(an insert by SQL is never answered with an id that another has) {
  for (auto more : {")", ", unique_key => 'k')"}) {
    auto why = refused(by_sql + std::string{more});
    CAF_CHECK(contains(why, "55000: "));
    check_told(why);
  }
  CAF_CHECK_EQUAL(count(), "2000");
  // Whoever has its key is still told.
  set("gen_durable", 2'000);
  auto holder = db.scalar(by_sql + ", unique_key => 'k')"s);
  CAF_CHECK_EQUAL(holder, "(2001,f)");
  set("gen_durable", 0);
  CAF_CHECK_EQUAL(db.scalar(by_sql + ", unique_key => 'k')"s), "(2001,t)");
  CAF_CHECK_EQUAL(count(), "2001");
}

CAF_TEST(
  an insert by the client is never answered with an id that another has) {
  auto client = this->client();
  check_told(told(client.insert(order(100001))));
  check_told(told(client.insert(order(100001, "k"))));
  set("gen_durable", 0);
  std::vector<gd::insert> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(order(100001));
    many.push_back(order(100001, "k" + std::to_string(i)));
  }
  for (const auto& x : client.insert_all(many))
    check_told(told(x));
  CAF_CHECK_EQUAL(count(), "2000");
}

CAF_TEST(
  an insert in a transaction is never answered with an id that another has) {
  session own{db.conninfo()};
  own.exec("begin");
  gd::transaction tx{own.handle()};
  check_told(told(tx.insert(order(100001))));
  check_told(told(tx.insert(order(100001, "k"))));
  own.exec("commit"); // which goes on as it was
  CAF_CHECK_EQUAL(count(), "2000");
}

CAF_TEST(an insert in a test is never answered with an id that another has) {
  auto run = gd::testing::in_database::connect(
    db.options(),
    {gd::define<ids_state, ids_step>("Order", 1)
       .step(ids_step::begin, [](gd::context<ids_state>&) -> gd::outcome {
         return gd::done();
       })});
  CAF_REQUIRE(run);
  check_told(told(
    run->insert({.fsm = "Order", .state = gd::to_json(ids_state{100001})})));
}

CAF_TEST(an insert finds its way past a few ids that others have) {
  set("gen_durable", 1'999);
  auto made = client().insert(order(100001));
  CAF_REQUIRE(made);
  CAF_CHECK_GREATER(made->id, 2'000);
  set("gen_durable", 1'999);
  db.rows("delete from gen_durable where id > 2000");
  made = client().insert(order(100002, "k"));
  CAF_REQUIRE(made);
  CAF_CHECK_GREATER(made->id, 2'000);
  CAF_CHECK_EQUAL(count("state = '{\"order\": 100002}'"), "1");
}

CAF_TEST(an insert that is sent again tells its own row from that of another) {
  auto now = gd::insert_intake::clock::now();
  for (bool stored : {true, false})
    for (auto key : {std::optional<std::string>{}, std::optional{"key"s}}) {
      set("gen_durable", 2'000);
      db.rows("delete from gen_durable where id > 2000");
      gd::pq::connection on{db.options()};
      CAF_REQUIRE(on.wait_ready());
      gd::insert_intake intake{{}};
      CAF_REQUIRE(intake.add(1, order(100001, key)));
      auto sent = intake.begin(now);
      while (sent && !sends_rows(*sent)) {
        CAF_REQUIRE(intake.finish(on.run(*sent), now).answers.empty());
        sent = intake.begin(now);
      }
      CAF_REQUIRE(sent);
      if (stored)
        CAF_REQUIRE(on.run(*sent).ok());
      else // under its id another's is stored, by a sequence that was set back
        db.rows("insert into gen_durable (id, fsm, step, queue) overriding "
                "system value values (2001, 'Other', 'begin', 'q')");
      auto lost = gd::pq::reply{
        {}, gd::error{gd::errc::unknown_fate, "", {}}, 0};
      CAF_REQUIRE(intake.finish(lost, now).answers.empty());
      decltype(intake.finish(lost, now).answers) answers;
      while (answers.empty()) {
        now = std::max(now, intake.due(now));
        if (auto again = intake.begin(now))
          answers = intake.finish(on.run(*again), now).answers;
      }
      CAF_REQUIRE(answers.front().answer);
      CAF_CHECK(!answers.front().answer->duplicate);
      CAF_CHECK_EQUAL(answers.front().answer->id == 2'001, stored);
      CAF_CHECK_EQUAL(count("state = '{\"order\": 100001}' and id = "
                            + std::to_string(answers.front().answer->id)),
                      "1");
    }
}

CAF_TEST(a signal whose id another has is refused with what mends it) {
  auto client = this->client();
  for (int i = 1; i <= 20; ++i)
    CAF_REQUIRE(client.signal({i, "go"}));
  auto check_signals = [](const std::string& text) {
    CAF_MESSAGE(text);
    CAF_CHECK(contains(
      text, "the sequence public.gen_durable_signals_id_seq stands at "));
    CAF_CHECK(contains(text, "the highest id there is 20:"));
    CAF_CHECK(contains(text, mended_by));
  };
  set("gen_durable_signals", 0);
  check_signals(told(client.signal({21, "go"})));
  check_signals(told(client.signal({21, "go", {}, "dedup"})));
  for (const auto& x : client.signal_all({{22, "go"}, {23, "go"}}))
    check_signals(told(x));
  check_signals(refused("select gd_signal(21, 'go')"));
  check_signals(refused("select gd_signal(21, 'go', dedup_key => 'dedup')"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "20");
  set("gen_durable_signals", 20);
  CAF_CHECK_EQUAL(db.scalar("select gd_signal(21, 'go', dedup_key => 'd')"),
                  "accepted");
  set("gen_durable_signals", 0);
  CAF_CHECK_EQUAL(db.scalar("select gd_signal(21, 'go', dedup_key => 'd')"),
                  "duplicate");
}

CAF_TEST(a fork and a job whose id another has are refused with what mends it) {
  db.rows("update gen_durable set history = 2 where id = 1");
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt, state) values (1, 0, now(), 1, 'insert', "
          "'begin', 0, '{}')");
  check_told(refused("select gd_fork(1, 0)"));
  check_told(told(client().fork({.target = 1, .seq = 0})));
  auto job = "select gd_begin_job('retry', fsm => 'Order', by => 'ann')"s;
  for (int i = 0; i < 3; ++i)
    db.rows(job);
  set("gen_durable_jobs", 0);
  auto why = refused(job);
  CAF_CHECK(contains(
    why, "the sequence public.gen_durable_jobs_id_seq stands at 1, and the "
         "highest id there is 3:"));
  CAF_CHECK(contains(why, mended_by));
}

CAF_TEST(the number of what was erased is not given out again unseen) {
  set("gen_durable", 2'000);
  CAF_CHECK_EQUAL(db.scalar(by_sql + ")"s), "(2001,f)");
  db.rows("select gd_erase(2001, 'request 17')");
  CAF_CHECK_EQUAL(found(), "");
  set("gen_durable", 2'000);
  CAF_CHECK(contains(found(), "the highest id there is 2001"));
}

CAF_TEST(a check finds sequences that stand behind and a repair moves them
           forward and never back) {
  CAF_REQUIRE(client().signal({1, "go"}));
  set("gen_durable_signals", 0);
  auto text = found();
  CAF_CHECK(contains(text, behind + "0, and the highest id there is 2000"s));
  CAF_CHECK(contains(text, "gen_durable_signals.id: "));
  auto done = gd::repair(db.options());
  CAF_REQUIRE(done);
  CAF_CHECK_EQUAL(done->size(), 2u);
  CAF_CHECK_EQUAL(found(), "");
  CAF_CHECK_EQUAL(+client().insert(order(100001))->id, 2'001);
  set("gen_durable", 3'000);
  done = gd::repair(db.options());
  CAF_REQUIRE(done);
  CAF_CHECK(done->empty());
  CAF_CHECK_EQUAL(db.scalar("select nextval('gen_durable_id_seq')"), "3001");
  // Entries that are left of an instance are not another's beginning.
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt) values (9000, 0, now(), 1, 'insert', "
          "'begin', 0)");
  CAF_CHECK(
    contains(found(), behind + "3001, and the highest id there is 9000"s));
}

CAF_TEST(a repair waits for whoever has drawn ids and does not undo that) {
  session drawing{db.conninfo()};
  session repairing{db.conninfo()};
  session behind_it{db.conninfo()};
  drawing.exec("begin");
  drawing.exec("select nextval('gen_durable_id_seq')");
  repairing.start("select _gd_repair()");
  repairing.wait_until_blocked_by(drawing);
  // Nobody draws past it meanwhile: those come behind.
  behind_it.start("select nextval('gen_durable_id_seq')");
  behind_it.wait_until_blocked_by(repairing);
  drawing.exec(
    "select nextval('gen_durable_id_seq') from generate_series(2, 2500)");
  drawing.exec("commit");
  CAF_CHECK(repairing.finish().empty()); // it is at 2500 by then
  auto drawn = behind_it.finish();
  CAF_CHECK_EQUAL(drawn.at(0).at(0).value(), "2501");

  set("gen_durable", 0);
  drawing.exec("begin");
  drawing.exec("select nextval('gen_durable_id_seq')");
  auto why = gd::repair(db.options());
  CAF_REQUIRE(!why);
  CAF_CHECK(why.error().code == gd::errc::busy);
  drawing.exec("rollback");
  CAF_CHECK(gd::repair(db.options()));
  CAF_CHECK_EQUAL(found(), "");
}

CAF_TEST(a check finds what a partial restore leaves out) {
  set("gen_durable", 2'000);
  CAF_CHECK_EQUAL(found(), "");
  db.rows("alter table gen_durable disable trigger gen_durable_changed");
  db.rows("drop index gen_durable_unique");
  db.rows("alter table gen_durable alter id drop identity");
  auto text = found();
  CAF_MESSAGE(text);
  CAF_CHECK(contains(text, "gen_durable.id: no sequence belongs to it"));
  CAF_CHECK(contains(text, "no unique index public.gen_durable_unique"));
  CAF_CHECK(contains(text, "gen_durable enable trigger "
                           "gen_durable_changed"));
  CAF_CHECK(!contains(text, "(repairs)"));
  auto why = "gen_durable.id: no sequence belongs to it";
  CAF_CHECK(contains(told(client().insert(order(100001))), why));
  CAF_CHECK(contains(refused(by_sql + ")"s), why));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace ids_suite
