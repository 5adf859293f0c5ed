// Steps without a function: where instances rest until something outside moves
// them, or a deadline passes, and where they end. However they arrive there, the
// row is the same.

#define CAF_SUITE resting

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/step/run.hpp>
#include <gd/graph.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/registry.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>
#include <gd/transaction.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::literals;

namespace resting {

GD_ENUM(order_step, check, submitted, reminded, expired, paid, cancelled);
GD_ENUM(door_step, open, closed, gone);
GD_ENUM(other_step, open, paid);

struct order {
  std::int64_t n = 0;
  GD_STATE(order, n);
};

} // namespace resting

namespace resting_suite {

namespace {

namespace store = gd::store;

using gd::errc;
using gd::test::contains;
using gd::test::message_of;
using gd::test::must;
using gd::test::session;
using gd::test::temporary_database;
using gd::testing::harness;
using resting::door_step;
using resting::order;
using resting::order_step;
using resting::other_step;
using store::write_kind;
using enum order_step;

using context = gd::context<order>;
using texts = std::vector<std::string>;

/// Checks, and goes where the state says.
gd::outcome go_on(context& ctx) {
  switch (ctx.state.n) {
    case 0:
      return gd::next(submitted, order{1});
    case 1:
      return gd::next(paid, order{2});
    case 2:
      return gd::await("", ctx.state);
    default:
      throw std::runtime_error{"no stock"};
  }
}

gd::machine order_machine(
  gd::history history = gd::history::none,
  std::function<gd::outcome(context&)> at_the_end = [](context& ctx) {
    return gd::done(ctx.state);
  }) {
  return gd::define<order, order_step>("Order", 1)
    .history(history)
    .step(check, {.to = {submitted, paid}}, go_on)
    .rest(submitted, {paid, cancelled}, {.after = 30 * 24h, .then = reminded})
    .rest(reminded, {paid, cancelled}, {.after = 5 * 24h, .then = expired})
    .step(expired, {.to = {cancelled}}, std::move(at_the_end))
    .final(paid)
    .final(cancelled)
    .on_error({.to = {submitted, cancelled}},
              [](const gd::failure&, context& ctx) {
    return gd::next(ctx.state.n == 3 ? submitted : cancelled, ctx.state);
    });
}

/// Needs no engine.
gd::machine door_machine(std::string name = "Door") {
  return gd::define<order, door_step>(std::move(name), 1)
    .rest(door_step::open, {door_step::closed})
    .rest(door_step::closed, {door_step::open, door_step::gone})
    .final(door_step::gone)
    .declared_only();
}

gd::insert in_step(std::string step, std::int64_t n = 0) {
  return {
    .fsm = "Order", .state = gd::to_json(order{n}), .step = std::move(step)};
}

std::string refusal(const gd::machine& x) {
  auto ok = x.validate();
  return ok ? "" : ok.error().message;
}

/// What there is to see of an instance: "awaiting_signal submitted {"n": 1} []".
std::string seen(harness& in, std::int64_t id) {
  auto x = must(in.instance(id));
  auto text = x.status + " " + x.step + " " + x.state.text();
  if (x.awaits)
    text += " [" + *x.awaits + "]";
  if (x.result)
    text += " -> " + x.result->text();
  if (x.last_error)
    text += ", " + *x.last_error;
  if (x.deadline_us)
    text += ", until some time";
  return text;
}

texts lines(const std::vector<gd::testing::executed>& xs) {
  texts out;
  for (const auto& x : xs)
    out.push_back(to_string(x));
  return out;
}

gd::testing::in_database kit_in(temporary_database& db,
                                std::vector<gd::machine> machines) {
  return must(
    gd::testing::in_database::connect(db.options(), std::move(machines)));
}

/// The same in memory and in a database.
void in_both(const std::vector<gd::machine>& machines,
             const std::function<void(harness&)>& play) {
  CAF_MESSAGE("in memory");
  gd::testing::simulation sim{machines};
  play(sim);
  CAF_MESSAGE("in a database");
  temporary_database db;
  db.migrate();
  auto real = kit_in(db, machines);
  play(real);
}

/// What an engine makes of the row; no state fits into its limits.
store::outcome_row run(store::picked_row picked) {
  auto x = order_machine();
  picked.id = 1;
  picked.fsm = x.name;
  gd::run one{std::make_shared<gd::held_row>(
    gd::held_row{std::make_shared<const gd::machine>(std::move(x)),
                 std::move(picked),
                 std::make_shared<gd::lease>(1, "token"),
                 {.state = 1}})};
  return std::move(*one.execute());
}

std::shared_ptr<const gd::registry> registry_of(std::vector<gd::machine> xs) {
  return std::make_shared<gd::registry>(std::move(xs));
}

/// The statements of a unit.
std::string names_of(const gd::pq::unit& work) {
  std::string out;
  for (const auto& x : work.calls)
    out += std::string{x.what->name} + ' ';
  return out;
}

struct fixture {
  temporary_database db;

  fixture() {
    db.migrate();
  }

  gd::client connect(std::vector<gd::machine> own = {}) {
    return must(gd::client::connect(db.options(),
                                    {.machines = registry_of(std::move(own))}));
  }

  /// What arriving sets, of all instances.
  std::string rows(const std::string& more = "") {
    return db.scalar(
      "select string_agg(concat_ws(' ', step, status, '[' || awaits || ']',"
      " result, attempt, wake_reason, locked_by, round(extract(epoch from"
      " deadline - updated_at) / 86400) || ' d'"
      + more + "), ', ' order by id) from gen_durable");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(resting_tests, fixture)

// -- what a machine may say ---------------------------------------------------

CAF_TEST(a step that rests declares its list and where its deadline leads) {
  auto x = order_machine();
  CAF_CHECK_EQUAL(refusal(x), "");
  CAF_CHECK(x.find_step("submitted")->to
            == (texts{"paid", "cancelled", "reminded"}));
  CAF_CHECK(x.find_step("submitted")->outside == (texts{"paid", "cancelled"}));
  CAF_CHECK(x.find_step("paid")->to == texts{});
  CAF_MESSAGE("so a machine that insists is content, and may begin there");
  CAF_CHECK_EQUAL(refusal(door_machine()), "");
  CAF_CHECK_EQUAL(door_machine().initial_step, "open");
}

CAF_TEST(a step that rests needs a way out and a deadline that can be) {
  auto with =
    [](gd::step_list to, std::optional<std::chrono::microseconds> after = {}) {
    auto x = gd::define<order, door_step>("Door", 1)
               .final(door_step::closed)
               .final(door_step::gone);
    return refusal(
      after ? std::move(x).rest(door_step::open, std::move(to),
                                {.after = *after, .then = door_step::gone})
            : std::move(x).rest(door_step::open, std::move(to)));
  };
  CAF_CHECK_EQUAL(with({door_step::gone}), "");
  CAF_CHECK_EQUAL(with(gd::nowhere, 1h), "");
  for (const auto& to : {gd::step_list{}, gd::step_list(gd::nowhere)})
    CAF_CHECK_EQUAL(with(to), "Door v1: step open rests, and nothing leads "
                              "from there: expected steps, a deadline, or "
                              ".final(open)");
  for (auto after : {0us, 999us, -1us, gd::longest_delay + 1us})
    CAF_CHECK_EQUAL(with(gd::nowhere, after),
                    "Door v1: step open rests for "
                      + std::to_string(after.count())
                      + " us, expected 1 ms to 100 years");
  for (auto after : {1'000us, gd::longest_delay})
    CAF_CHECK_EQUAL(with(gd::nowhere, after), "");
}

CAF_TEST(a step is defined once and all are) {
  auto half = [] {
    return gd::define<order, door_step>("Door", 1)
      .rest(door_step::open, {door_step::gone})
      .final(door_step::gone);
  };
  CAF_CHECK_EQUAL(refusal(half()),
                  "Door v1: step closed has no function, expected "
                  ".step(closed, ...), .rest(...) or .final(...)");
  auto twice = "Door v1: step open is defined twice"s;
  CAF_CHECK_EQUAL(refusal(half()
                            .final(door_step::closed)
                            .rest(door_step::open, {door_step::closed})),
                  twice);
  CAF_CHECK_EQUAL(
    refusal(half().final(door_step::closed).final(door_step::open)), twice);
  CAF_CHECK_EQUAL(
    refusal(half()
              .final(door_step::closed)
              .step(door_step::open, [](context&) { return gd::done(); })),
    twice);
}

CAF_TEST(a list of another machine is refused) {
  CAF_CHECK_EQUAL(refusal(gd::define<order, door_step>("Door", 1)
                            .rest(door_step::open, {other_step::open})
                            .final(door_step::closed)
                            .final(door_step::gone)),
                  "Door v1: step open declares a list of steps of another "
                  "machine");
}

// -- outcomes -----------------------------------------------------------------

CAF_TEST(next to such a step parks or ends the instance there) {
  in_both({order_machine()}, [](harness& in) {
    auto parked = must(in.insert(in_step("check", 0))).id;
    auto ended = must(in.insert(in_step("check", 1))).id;
    CAF_CHECK_EQUAL(must(in.drain()), 2u);
    CAF_CHECK_EQUAL(seen(in, parked), "awaiting_signal submitted {\"n\": 1} "
                                      "[], until some time");
    CAF_CHECK_EQUAL(seen(in, ended), "done paid {\"n\": 2} -> {}");
    CAF_CHECK(lines(in.history(parked)) == texts{"check: next submitted"});
    CAF_CHECK(lines(in.history(ended)) == texts{"check: next paid"});
  });
}

CAF_TEST(the outcome of a handler parks and ends as well) {
  in_both({order_machine()}, [](harness& in) {
    auto parked = must(in.insert(in_step("check", 3))).id;
    auto ended = must(in.insert(in_step("check", 4))).id;
    must(in.drain());
    CAF_CHECK_EQUAL(seen(in, parked), "awaiting_signal submitted {\"n\": 3} "
                                      "[], no stock, until some time");
    CAF_CHECK_EQUAL(seen(in, ended),
                    "done cancelled {\"n\": 4} -> {}, no stock");
  });
}

CAF_TEST(a step that has a function cannot rest by itself) {
  in_both({order_machine()}, [](harness& in) {
    auto id = must(in.insert(in_step("check", 2))).id;
    must(in.drain());
    CAF_CHECK(contains(seen(in, id), "done cancelled"));
    CAF_CHECK(contains(seen(in, id),
                       "outcome await of step check: signal name: expected"));
  });
}

CAF_TEST(an outcome that parks
         or ends may collide where its status takes the key) {
  store::picked_row parks{.unique_scope = {"awaiting_signal"}};
  store::picked_row ends{.unique_scope = {"done"}};
  store::picked_row runs{.unique_scope = {"runnable"}};
  CAF_CHECK(store::may_collide(parks, write_kind::park));
  CAF_CHECK(store::may_collide(ends, write_kind::finish));
  for (const auto* x : {&ends, &runs})
    CAF_CHECK(!store::may_collide(*x, write_kind::park));
  for (const auto* x : {&parks, &runs})
    CAF_CHECK(!store::may_collide(*x, write_kind::finish));
}

// -- signals and deadlines ----------------------------------------------------

CAF_TEST(signals wake nothing that rests and are kept) {
  in_both({order_machine()}, [](harness& in) {
    auto id = must(in.insert(in_step("submitted"))).id;
    must(in.signal({.target = id, .name = "paid"}));
    CAF_CHECK_EQUAL(must(in.drain()), 0u);
    CAF_CHECK(contains(seen(in, id), "awaiting_signal submitted"));
    CAF_CHECK_EQUAL(must(in.instance(id)).inbox, 1);
    CAF_MESSAGE("nor what was sent before it came to rest");
    auto other = must(in.insert(in_step("check"))).id;
    must(in.signal({.target = other, .name = "paid"}));
    CAF_CHECK_EQUAL(must(in.drain()), 1u);
    CAF_CHECK(contains(seen(in, other), "awaiting_signal submitted"));
    CAF_CHECK_EQUAL(must(in.instance(other)).inbox, 1);
  });
}

CAF_TEST(
  when a deadline has passed the instance goes on from one step to the next) {
  in_both({order_machine()}, [](harness& in) {
    auto id = must(in.insert(in_step("submitted", 7))).id;
    CAF_CHECK_EQUAL(must(in.run_for(30 * 24h - 1min)), 0u);
    CAF_CHECK(contains(seen(in, id), "submitted"));
    CAF_CHECK_EQUAL(must(in.run_for(2min)), 1u);
    CAF_CHECK_EQUAL(seen(in, id), "awaiting_signal reminded {\"n\": 7} [], "
                                  "until some time");
    CAF_CHECK_EQUAL(must(in.run_for(5 * 24h)), 2u);
    CAF_CHECK_EQUAL(seen(in, id), "done expired {\"n\": 7} -> {\"n\": 7}");
    CAF_CHECK(lines(in.history(id))
              == (texts{"submitted, timeout: next reminded",
                        "reminded, timeout: next expired", "expired: done"}));
  });
}

CAF_TEST(a deadline may lead to an end) {
  auto x = gd::define<order, door_step>("Door", 1)
             .rest(door_step::open, gd::nowhere,
                   {.after = 1h, .then = door_step::gone})
             .final(door_step::closed)
             .final(door_step::gone);
  in_both({std::move(x)}, [](harness& in) {
    auto id = must(in.insert({.fsm = "Door"})).id;
    CAF_CHECK_EQUAL(must(in.run_for(2h)), 1u);
    CAF_CHECK_EQUAL(seen(in, id), "done gone {} -> {}");
  });
}

CAF_TEST(a crash at a deadline does it again) {
  in_both({order_machine()}, [](harness& in) {
    auto id = must(in.insert(in_step("submitted"))).id;
    in.crash_next(id, 2);
    must(in.run_for(30 * 24h));
    CAF_CHECK(lines(in.history(id))
              == (texts{"submitted, timeout: crash",
                        "submitted, attempt 1, timeout: crash",
                        "submitted, attempt 2, timeout: next reminded"}));
    CAF_CHECK_EQUAL(must(in.instance(id)).attempt, 0);
  });
}

CAF_TEST(where none runs the outcome has the state as it was picked) {
  auto row = run(
    {.step = "submitted", .state = "[no JSON", .wake_reason = "timeout"});
  CAF_CHECK(row.what == write_kind::park);
  CAF_CHECK_EQUAL(row.step, "reminded");
  CAF_CHECK_EQUAL(row.state, "[no JSON");
  CAF_CHECK_EQUAL(row.timeout_us.value_or(0) / 86'400'000'000, 5);
  CAF_MESSAGE("one that a signal has woken rests again");
  row = run(
    {.step = "submitted", .state = "[no JSON", .wake_reason = "signal"});
  CAF_CHECK(row.what == write_kind::await);
  CAF_CHECK_EQUAL(row.awaits, "");
  CAF_CHECK_EQUAL(row.state, "[no JSON");
  CAF_CHECK_EQUAL(row.timeout_us.value_or(0) / 86'400'000'000, 30);
  row = run({.step = "paid", .state = "[no JSON"});
  CAF_CHECK(store::is_plain_done(row));
}

CAF_TEST(a deadline leaves the state as it is whatever it holds) {
  auto kit = must(gd::testing::in_database::connect(
    db.options(), {order_machine()}, {.limits = {.state = 20}}));
  auto id = must(kit.insert(in_step("submitted"))).id;
  db.rows("update gen_durable set state = '{\"n\": \"x\", \"more\": [1]}'");
  must(kit.run_for(30 * 24h));
  CAF_CHECK_EQUAL(seen(kit, id), "awaiting_signal reminded {\"n\": \"x\", "
                                 "\"more\": [1]} [], until some time");
}

CAF_TEST(a row that is due where none runs is parked or ended) {
  auto kit = kit_in(db, {order_machine()});
  db.rows("insert into gen_durable (fsm, step) values ('Order', 'submitted'),"
          " ('Order', 'paid'), ('Order', 'reminded')");
  CAF_CHECK_EQUAL(must(kit.drain()), 3u);
  CAF_CHECK_EQUAL(rows(), "submitted awaiting_signal [] 0 30 d, paid done {} "
                          "0, reminded awaiting_signal [] 0 5 d");
}

// -- inserts ------------------------------------------------------------------

CAF_TEST(an insert is the same row however it is made) {
  kit_in(db, {order_machine(), door_machine()});
  auto knowing = connect({order_machine(), door_machine()});
  auto unknowing = connect();
  auto add = [](auto& by) {
    for (auto x : {in_step("submitted"), in_step("paid"), in_step("check"),
                   gd::insert{.fsm = "Door"}})
      must(by.insert(std::move(x)));
  };
  auto expected = "submitted awaiting_signal [] 0 30 d 0, paid done {} 0 0, "
                  "check runnable 0 0, open awaiting_signal [] 0 0"s;
  add(knowing);
  CAF_CHECK_EQUAL(rows(", seq"), expected);
  db.rows("delete from gen_durable");
  add(unknowing);
  CAF_CHECK_EQUAL(rows(", seq"), expected);
  db.rows("delete from gen_durable");
  session own{db.conninfo()};
  own.exec("begin");
  gd::transaction with{own.handle()};
  add(with);
  own.exec("commit");
  CAF_CHECK_EQUAL(rows(", seq"), expected);
  db.rows("delete from gen_durable");
  for (const auto& arguments :
       {"'Order', step => 'submitted'"s, "'Order', step => 'paid'"s, "'Order'"s,
        "'Door'"s})
    db.rows("select gd_insert(" + arguments + ")");
  CAF_CHECK_EQUAL(rows(", seq"), expected);
  db.rows("delete from gen_durable");
  auto kit = kit_in(db, {order_machine(), door_machine()});
  add(kit);
  CAF_CHECK_EQUAL(rows(", seq"), expected);
}

CAF_TEST(many inserts of all kinds at once are each as they would be alone) {
  auto client = connect({order_machine(), door_machine()});
  std::vector<gd::insert> many;
  for (int i = 0; i < 30; ++i) {
    many.push_back(in_step("submitted", i));
    many.push_back(in_step("check", i));
    many.push_back(in_step("reminded", i));
    many.push_back({.fsm = "Door", .step = "gone"});
    many.push_back({.fsm = "Door", .unique_key = "k" + std::to_string(i)});
  }
  for (auto& x : client.insert_all(many))
    CAF_CHECK(x && !x->duplicate);
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(concat_ws(' ', n, step, status, d), ', ' "
              "order by step) from (select count(*) as n, step, status, "
              "round(extract(epoch from deadline - updated_at) / 86400) as d "
              "from gen_durable group by 2, 3, 4) x"),
    "30 check runnable, 30 gone done, 30 open awaiting_signal, 30 reminded "
    "awaiting_signal 5, 30 submitted awaiting_signal 30");
}

CAF_TEST(a unique key counts in the status in which the instance arrives) {
  in_both({order_machine()}, [](harness& in) {
    auto add = [&in](std::string step, texts scope) {
      auto x = in_step(std::move(step));
      x.unique_key = "k";
      x.unique_scope = std::move(scope);
      return must(in.insert(std::move(x)));
    };
    auto first = add("submitted", {"awaiting_signal"});
    CAF_CHECK(!first.duplicate);
    auto again = add("reminded", {"awaiting_signal"});
    CAF_CHECK(again.duplicate);
    CAF_CHECK_EQUAL(again.id, first.id);
    CAF_MESSAGE("what has ended is in nobody's way, if its scope does not say");
    CAF_CHECK(!add("paid", {}).duplicate);
    CAF_CHECK(!add("paid", {"runnable", "executing"}).duplicate);
  });
  in_both({order_machine()}, [](harness& in) {
    auto ended = in_step("paid");
    ended.unique_key = "k";
    ended.unique_scope = {"done"};
    CAF_CHECK(!must(in.insert(ended)).duplicate);
    CAF_CHECK(must(in.insert(ended)).duplicate);
  });
}

CAF_TEST(nobody can say when an instance comes to rest) {
  kit_in(db, {order_machine()});
  auto knowing = connect({order_machine()});
  auto unknowing = connect();
  for (const auto* step : {"submitted", "paid"}) {
    auto why = "no function runs in step "s + step
               + " of Order v1, expected neither";
    auto delayed = in_step(step);
    delayed.delay_us = 1;
    auto timed = in_step(step);
    timed.eligible_at_us = 1;
    for (auto* by : {&knowing, &unknowing})
      for (const auto& x : {delayed, timed}) {
        auto refused = by->insert(x);
        CAF_REQUIRE(!refused);
        CAF_CHECK(refused.error().code == errc::invalid_argument);
        CAF_CHECK_EQUAL(refused.error().message,
                        "eligible_at_us and delay_us: " + why);
      }
    for (const auto& when : {"delay => '1 s'"s, "eligible_at => now()"s})
      try {
        db.rows("select gd_insert('Order', step => '"s + step + "', " + when
                + ")");
        CAF_ERROR("it is not refused");
      } catch (const gd::test::sql_error& e) {
        CAF_CHECK_EQUAL(e.sqlstate(), "22023");
        CAF_CHECK(contains(e.what(), "eligible_at and delay: " + why));
      }
  }
  gd::testing::simulation sim{{order_machine()}};
  auto delayed = in_step("submitted");
  delayed.delay_us = 1;
  CAF_CHECK(!sim.insert(delayed));
  CAF_MESSAGE("a delay of nothing is none");
  db.rows("select gd_insert('Order', step => 'submitted', delay => '0')");
  CAF_CHECK_EQUAL(rows(), "submitted awaiting_signal [] 0 30 d");
}

CAF_TEST(only where an instance rests an insert takes another statement) {
  gd::insert_intake intake{
    {.machines = registry_of({order_machine(), door_machine()})}};
  auto on = gd::pq::connection{db.options()};
  CAF_REQUIRE(on.wait_ready());
  auto now = gd::database::clock::now();
  auto statements = [&](std::vector<gd::insert> rows) {
    for (std::uint64_t i = 0; i < rows.size(); ++i)
      must(intake.add(i, rows[i]));
    std::string names;
    while (auto work = intake.begin(now)) {
      names += names_of(*work);
      intake.finish(on.run(*work), now);
    }
    return names;
  };
  CAF_CHECK_EQUAL(statements({in_step("check")}),
                  "gd_draw_ids gd_insert_new gd_draw_ids ");
  auto keyed = in_step("check");
  keyed.unique_key = "k";
  CAF_CHECK(contains(statements({keyed}), " gd_insert gd_inserted "));
  CAF_CHECK(
    contains(statements({in_step("submitted")}), "gd_insert_new_ledger "));
  keyed = in_step("submitted");
  keyed.unique_key = "l";
  CAF_CHECK(contains(statements({keyed}), " gd_insert_ledger gd_inserted "));
}

CAF_TEST(what rests is claimed by nobody and hinders no claim) {
  auto slots = std::make_shared<gd::claim_slots>();
  slots->enter("default", [] {});
  slots->open("default", slots->begin_pick("default"));
  slots->offer("default", 10);
  gd::insert_intake intake{
    {.machines = registry_of({order_machine(), door_machine()}),
     .claiming = gd::intake_settings::claims{.slots = slots,
                                             .incarnation = "node/1"}}};
  auto on = gd::pq::connection{db.options()};
  CAF_REQUIRE(on.wait_ready());
  auto now = gd::database::clock::now();
  std::uint64_t ticket = 0;
  for (const auto* step : {"submitted", "check", "check", "submitted"})
    must(intake.add(ticket++, in_step(step)));
  std::vector<gd::claim_slots::claim> claims;
  while (auto work = intake.begin(now)) {
    auto report = intake.finish(on.run(*work), now);
    for (auto& x : report.claims)
      claims.push_back(std::move(x));
    CAF_CHECK(report.queues.empty());
  }
  CAF_REQUIRE_EQUAL(claims.size(), 1u);
  CAF_CHECK_EQUAL(claims.front().rows.size(), 2u);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(step || ' ' || status, ', ' "
                            "order by step) from gen_durable"),
                  "check executing, check executing, submitted "
                  "awaiting_signal, submitted awaiting_signal");
}

// -- the ledger ---------------------------------------------------------------

CAF_TEST(the history of an instance tells where it rested and ended) {
  auto kit = kit_in(db, {order_machine(gd::history::with_state)});
  auto entries = [&](std::int64_t id) {
    std::string out;
    for (const auto& x : must(connect().history({.id = id})))
      out += x.outcome + " " + x.from_step.value_or("") + ">" + x.to_step + " "
             + x.state.value_or(gd::json{}).text() + "\n";
    return out;
  };
  auto id = must(kit.insert(in_step("check"))).id;
  must(kit.run_for(40 * 24h));
  CAF_CHECK_EQUAL(entries(id), "insert >check {\"n\": 0}\n"
                               "next check>submitted {\"n\": 1}\n"
                               "next submitted>reminded {\"n\": 1}\n"
                               "next reminded>expired {\"n\": 1}\n"
                               "done expired>expired {\"n\": 1}\n");
  id = must(kit.insert(in_step("check", 1))).id;
  must(kit.drain());
  CAF_CHECK_EQUAL(entries(id), "insert >check {\"n\": 1}\n"
                               "next check>paid {\"n\": 2}\n");
  CAF_MESSAGE("an insert there is one entry, by SQL as well");
  auto parked = must(kit.insert(in_step("submitted"))).id;
  CAF_CHECK_EQUAL(entries(parked), "insert >submitted {\"n\": 0}\n");
  auto ended = std::stoll(db.scalar("select id from gd_insert('Order', "
                                    "'{\"n\": 5}', step => 'paid')"));
  CAF_CHECK_EQUAL(entries(ended), "insert >paid {\"n\": 5}\n");
  CAF_CHECK_EQUAL(
    must(connect().in_step({.fsm = "Order", .step = "paid"})).size(), 2u);
}

// -- without an engine --------------------------------------------------------

CAF_TEST(a machine whose steps all rest needs no engine) {
  auto app = connect();
  must(app.make_known({door_machine()}));
  auto id = must(app.insert({.fsm = "Door"})).id;
  db.rows("select gd_insert('Door', step => 'closed'), gd_insert('Door', step "
          "=> 'gone')");
  CAF_CHECK_EQUAL(rows(), "open awaiting_signal [] 0, closed awaiting_signal "
                          "[] 0, gone done {} 0");
  CAF_CHECK_EQUAL(must(app.look_up(id)).awaits.value_or("none"), "");
  CAF_CHECK(must(app.not_served()).empty());
  CAF_MESSAGE("states are looked into by who has the machine");
  auto misspelt = gd::insert{.fsm = "Door",
                             .state = gd::json::raw(R"({"m": 1})")};
  CAF_CHECK(app.insert(misspelt));
  auto strict = gd::client::connect(
    db.options(), {.machines = registry_of({door_machine()})});
  CAF_REQUIRE(strict);
  auto told = strict->insert(misspelt);
  CAF_REQUIRE(!told);
  CAF_CHECK(told.error().code == errc::codec);
  CAF_MESSAGE("what cannot be, or what a node has otherwise, is refused");
  CAF_CHECK(contains(
    message_of(app.make_known({gd::define<order, door_step>("Door", 1)})),
    "step open has no function"));
  session node{db.conninfo()};
  node.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
            "hashtext('ghost/0'))");
  db.rows("insert into gen_durable_nodes (incarnation, node, host, process, "
          "library, lease, slots, queues, machines) values ('ghost/0', "
          "'ghost', 'h', 1, '0', interval '1 min', 1, '[]', '[{\"name\": "
          "\"Door\", \"version\": 1, \"steps\": [\"open\"]}]')");
  auto refused = app.make_known({door_machine()});
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.error().code == errc::machine_differs);
  CAF_CHECK(app.make_known({door_machine("Gate")}));
}

// -- what is known to others --------------------------------------------------

CAF_TEST(a definition tells who rests for how long who ends and what is open) {
  auto known = store::known({order_machine(), door_machine()});
  auto told = store::definition(known[0]);
  auto tells = [&](const std::string& what) {
    return std::find(told.begin(), told.end(), what) != told.end();
  };
  CAF_CHECK(tells("submitted rests 2592000000000 us -> reminded"));
  CAF_CHECK(tells("submitted -> paid (outside)"));
  CAF_CHECK(tells("paid ends"));
  CAF_CHECK(!tells("check -> paid (outside)"));
  told = store::definition(known[1]);
  CAF_CHECK(tells("open rests"));
}

CAF_TEST(what anybody has written of a machine is no hindrance) {
  kit_in(db, {order_machine()});
  for (const auto& junk : {"5"s, "{\"submitted\": 5}"s, "[]"s,
                           "{\"submitted\": {\"rests\": \"perhaps\"}}"s}) {
    CAF_MESSAGE(junk);
    db.rows("update gen_durable_machines set outside = $1::jsonb", {junk});
    CAF_CHECK(connect().insert(in_step("submitted")));
    CAF_CHECK(connect().graph("Order"));
  }
  db.rows("update gen_durable_machines set outside = null");
  CAF_CHECK(connect().insert(in_step("submitted")));
  db.rows("select gd_insert('Order', step => 'submitted')");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'runnable'"),
                  "6");
}

CAF_TEST(a graph shows where instances rest and end and what is open) {
  auto text = "Order v1, begins at check\n"
              "  check     -> submitted, paid\n"
              "  submitted rests; => paid, cancelled; after 30d -> reminded\n"
              "  reminded  rests; => paid, cancelled; after 5d -> expired\n"
              "  expired   -> cancelled; => cancelled\n"
              "  paid      ends\n"
              "  cancelled ends\n"
              "  (handler) -> submitted, cancelled\n"s;
  gd::machine open = order_machine();
  open.steps[3].outside = {"cancelled"};
  CAF_CHECK_EQUAL(gd::to_text(gd::graph(open)), text);
  kit_in(db, {open});
  CAF_CHECK_EQUAL(gd::to_text(must(connect().graph("Order"))), text);
  auto mermaid = gd::to_mermaid(gd::graph(open));
  for (const auto& part :
       {"  s0[\"check\"]\n"s, "  s1(\"submitted\")\n"s, "  s4[[\"paid\"]]\n"s,
        "  s0 --> s1\n"s, "  s1 ==> s4\n"s, "  s1 -- \"after 30d\" --> s2\n"s,
        "  s3 --> s5\n  s3 ==> s5\n"s})
    CAF_CHECK(contains(mermaid, part));
  CAF_CHECK(!contains(mermaid, "s1 --> "));
  auto dot = gd::to_dot(gd::graph(open));
  for (const auto& part :
       {"  s0 [label=\"check\"];\n"s,
        "  s1 [label=\"submitted\", style=rounded];\n"s,
        "  s4 [label=\"paid\", peripheries=2];\n"s, "  s0 -> s1;\n"s,
        "  s1 -> s4 [style=bold];\n"s, "  s1 -> s2 [label=\"after 30d\"];\n"s})
    CAF_CHECK(contains(dot, part));
  CAF_CHECK_EQUAL(must(connect().graph("Order")).steps[1].after->count(),
                  std::chrono::microseconds{30 * 24h}.count());
}

CAF_TEST(a deadline is shown in the largest unit that fits) {
  gd::machine_graph x{.fsm = "Door", .initial_step = "open"};
  x.steps.push_back({.name = "open", .rests = true, .then = "open"});
  for (const auto& [after, text] :
       std::vector<std::pair<std::chrono::microseconds, std::string>>{
         {48h, "2d"},
         {36h, "36h"},
         {90min, "90min"},
         {90s, "90s"},
         {1500ms, "1500ms"},
         {1us, "1us"}}) {
    x.steps.front().after = after;
    CAF_CHECK(contains(gd::to_text(x), "after " + text + " -> open\n"));
  }
}

// -- strangers ----------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace resting_suite
