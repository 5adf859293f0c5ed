#define CAF_SUITE claims

#include "actors/stepped.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/messages.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace claims_suite {

using namespace gd::test;
using namespace gd::actors;
using gd::claim_slots;
using gd::errc;
namespace events = gd::events;

namespace {

constexpr auto claimed = "begin gd_insert_claimed gd_draw_ids commit";
constexpr auto inserted = "begin gd_insert_new gd_draw_ids commit";
constexpr auto done = "begin gd_flush_done commit";

/// A picker that has found nothing, and a gateway beside it.
struct claim_fixture : picker_fixture {
  caf::actor picker;
  caf::actor gateway;
  caf::actor sender;
  int answered = 0;
  int refused = 0;
  /// The notes of the steps that have run.
  std::vector<std::string> ran;

  claim_fixture() {
    machine.first = [this](probe_context& ctx) {
      ran.push_back(ctx.state.note);
      return gd::done();
    };
  }

  ~claim_fixture() {
    home->children.clear();
  }

  void begin(gd::queue_config queue = {"default", 2, 0},
             std::vector<std::size_t> connection_slots = {2}) {
    auto name = queue.name;
    picker = spawn_picker(std::move(queue), std::move(connection_slots));
    home->children.set(role::picker, name, picker);
    gateway = caf::actor_cast<caf::actor>(sys.spawn<gateway_backend>(home));
    actors.push_back(gateway);
    sender = sys.spawn([this](caf::event_based_actor* user) -> caf::behavior {
      return {[this, user](gd::insert& x) {
        user->request(gateway, caf::infinite, std::move(x))
          .then([this](gd::inserted) { ++answered; },
                [this](const caf::error&) { ++refused; });
      }};
    });
    actors.push_back(sender);
    finish_all();
  }

  static gd::insert row(const std::string& note) {
    return {.fsm = "Probe",
            .state = gd::json::raw(R"({"note": ")" + note + "\"}")};
  }

  /// Its group is the next unit.
  void send(gd::insert x) {
    anon(sender, std::move(x));
    sched.run();
    skip_draw();
  }

  void send(std::vector<gd::insert> xs) {
    anon(gateway, gd::insert_all{std::move(xs)});
    sched.run();
    skip_draw();
  }

  /// The picker notices what has ended, and offers what it has.
  void look() {
    anon(picker, rows_claimed{});
    sched.run();
  }

  /// The unit before it is a pick.
  void claim_beside_a_pick(const std::string& note) {
    home->wake({"default"}, true);
    sched.run();
    CAF_CHECK_EQUAL(db->next(), "gd_pick ");
    send(row(note));
    CAF_CHECK_EQUAL(db->newest(), claimed);
  }

  void skip_draw() {
    sched.advance_time(
      1us); // with several senders, the gateway lets others go first
    sched.run();
    if (db->newest() == "gd_draw_ids ") {
      db->run_newest();
      sched.run();
    }
  }

  using names = std::vector<std::string>;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(claim_tests, claim_fixture)

CAF_TEST(an insert into an idle queue runs without a pick
         and not before its commit) {
  begin();
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  CAF_CHECK_EQUAL(ran, names{});
  CAF_CHECK_EQUAL(answered, 0);
  turn();
  CAF_CHECK_EQUAL(answered, 1);
  CAF_CHECK_EQUAL(ran, names{"a"});
  CAF_CHECK_EQUAL(
    count("status = 'executing' and attempt = 0 and "
          "lease_expires_at > clock_timestamp() + interval '50 s' "
          "and locked_by ~ '^a/0/[0-9]+$'"),
    "1");
  CAF_CHECK_EQUAL(db->next(), done);
  turn();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK_EQUAL(db->next(), "nothing");
  CAF_CHECK(home->leases.all().empty());
}

CAF_TEST(as many are claimed as have a slot or none of them) {
  begin({"default", 2, 0});
  send({row("a"), row("b"), row("c")});
  CAF_CHECK_EQUAL(db->next(), inserted);
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"a", "b", "c"}));
  send({row("d"), row("e")});
  CAF_CHECK_EQUAL(db->next(), claimed);
  turn();
  CAF_CHECK_EQUAL(ran, (names{"a", "b", "c", "d", "e"}));
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "5");
}

CAF_TEST(places are not given away twice while their insert is under way) {
  begin({"default", 2, 0});
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 1);
  look();
  CAF_CHECK_EQUAL(home->claims->most(), 1);
  finish_all();
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
  CAF_CHECK_EQUAL(home->claims->most(), 2);
}

CAF_TEST(the most urgent of those that are claimed runs first) {
  begin();
  auto late = row("late");
  late.priority = 5;
  auto soon = row("soon");
  soon.priority = -5;
  send({late, soon});
  CAF_CHECK_EQUAL(db->next(), claimed);
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"soon", "late"}));
}

CAF_TEST(what needs a pick is not overtaken by what comes later) {
  auto keyed = row("first");
  keyed.partition_key = "k";
  auto past = row("first");
  past.eligible_at_us = 1'000'000;
  auto unique = row("first");
  unique.unique_key = "u";
  begin();
  send(row("so that ids are there"));
  finish_all();
  for (const auto& x : {past, unique, keyed}) {
    ran.clear();
    send({x, row("second")});
    while (db->waiting()) {
      CAF_CHECK_NOT_EQUAL(db->next(), claimed);
      turn();
    }
    CAF_CHECK_EQUAL(ran.size(), 2u);
    if (!x.partition_key) // that there are keys, the first pick finds out
      CAF_CHECK_EQUAL(ran, (names{"first", "second"}));
    for (bool overtakes : {true, false}) {
      ran.clear();
      send(x);
      turn();
      CAF_REQUIRE(db->waiting()); // the pick
      send(row("second"));
      if (overtakes) {
        db->run_newest();
        sched.run();
        CAF_CHECK_EQUAL(ran, names{});
      }
      finish_all();
      // Of a key, a pick finds that there is one, and leaves it to the next.
      if (overtakes || !x.partition_key)
        CAF_CHECK_EQUAL(ran, (names{"first", "second"}));
      CAF_CHECK_EQUAL(ran.size(), 2u);
    }
    rows.rows("delete from gen_durable");
  }
}

CAF_TEST(what was claimed during a pick waits for it and runs behind what it has
         found) {
  begin({"default", 3, 0});
  insert(1);
  for (bool overtakes : {true, false}) {
    ran.clear();
    claim_beside_a_pick("claimed");
    if (overtakes) {
      db->run_newest();
      sched.run();
      CAF_CHECK_EQUAL(home->leases.all().size(), 1u);
    }
    look();
    CAF_CHECK_EQUAL(home->claims->most(), 2);
    CAF_CHECK_EQUAL(ran, names{});
    turn();
    if (overtakes) {
      CAF_CHECK_EQUAL(ran, (names{"", "claimed"}));
    } else {
      CAF_CHECK_EQUAL(ran, names{""});
    }
    finish_all();
    CAF_CHECK_EQUAL(ran, (names{"", "claimed"}));
    CAF_CHECK_EQUAL(count("status <> 'done'"), "0");
    insert(1);
  }
}

CAF_TEST(what waits for a pick that leaves something or fails is released) {
  begin({"default", 2, 0});
  for (bool fails : {true, false}) {
    ran.clear();
    insert(3);
    claim_beside_a_pick("claimed");
    db->run_newest();
    sched.run();
    if (fails)
      db->drop_one(errc::unavailable);
    else
      db->run_one();
    sched.run();
    CAF_CHECK_EQUAL(home->claims->most(), 0);
    finish_all();
    CAF_CHECK_EQUAL(count("status = 'executing' or attempt > 0"), "0");
    pass(5s);
    CAF_CHECK_EQUAL(ran, (names{"", "", "", "claimed"}));
    CAF_CHECK_EQUAL(count("status <> 'done'"), "0");
    CAF_CHECK(home->leases.all().empty());
  }
}

CAF_TEST(
  what got in runs when its insert commits whatever a pick has left by then) {
  begin({"default", 2, 0});
  insert(3);
  claim_beside_a_pick("claimed");
  db->drop_one(errc::unavailable);
  sched.run();
  CAF_CHECK_EQUAL(home->claims->most(), 0);
  turn();
  CAF_CHECK_EQUAL(ran, names{"claimed"});
  finish_all();
  send(row("later")); // gets in no more
  CAF_CHECK_EQUAL(db->newest(), inserted);
  finish_all();
  pass(5s);
  CAF_CHECK_EQUAL(ran, (names{"claimed", "", "", "", "later"}));
  CAF_CHECK_EQUAL(count("status <> 'done' or attempt > 0"), "0");
}

CAF_TEST(what got in before a pick began does not wait for it) {
  begin();
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  home->wake({"default"}, false);
  sched.run();
  CAF_CHECK_EQUAL(db->newest(), "gd_pick ");
  turn();
  CAF_CHECK_EQUAL(ran, names{"a"});
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(claim slots that are closed while a pick is under way are opened by a
           later one) {
  claim_slots slots;
  slots.enter("q", [] {});
  slots.offer("q", 3);
  CAF_CHECK_EQUAL(slots.most(), 0); // no pick has begun
  CAF_CHECK_EQUAL(slots.begin_pick("q"), 1u);
  slots.offer("q", 3);
  auto first = slots.take("q", "t/1", 2);
  CAF_REQUIRE(first);
  CAF_CHECK_EQUAL(first->behind, 1u);
  CAF_CHECK(!slots.take("q", "t/2", 2));
  slots.close("q");
  slots.offer("q", 3);
  CAF_CHECK_EQUAL(slots.most(), 0);
  CAF_CHECK_EQUAL(slots.begin_pick("q"), 2u);
  slots.offer("q", 3);
  auto second = slots.take("q", "t/2", 3);
  CAF_REQUIRE(second);
  CAF_CHECK_EQUAL(second->behind, 2u);
  CAF_CHECK_EQUAL(slots.under_way("q"), 5);
  for (auto pick : {1u, 2u}) {
    slots.open("q", pick);
    slots.offer("q", 1);
    auto one = slots.take("q", "t/3", 1);
    CAF_REQUIRE(one);
    // The first began before the slots were closed.
    CAF_CHECK_EQUAL(one->behind, pick == 1 ? 2u : 0u);
  }
  CAF_CHECK_EQUAL(slots.begin_pick("q"), 3u);
  slots.offer("q", 1);
  auto last = slots.take("q", "t/4", 1);
  CAF_REQUIRE(last);
  CAF_CHECK_EQUAL(last->behind, 0u); // it is open, whatever begins now
}

CAF_TEST(what was claimed does not wait until a backlog is worked off) {
  home->config.rows_per_turn = 20;
  begin({"default", 4, 64});
  insert(20);
  home->wake({"default"}, true);
  sched.run();
  finish_all(); // quick steps: there is always a pick under way from now on
  insert(600);
  ran.clear();
  home->wake({"default"}, true);
  sched.run();
  CAF_CHECK_EQUAL(db->next(), "gd_pick ");
  auto urgent = row("urgent");
  urgent.priority = -1;
  send(std::move(urgent));
  CAF_CHECK_EQUAL(db->newest(), claimed);
  finish_all();
  auto at = std::find(ran.begin(), ran.end(), "urgent") - ran.begin();
  CAF_CHECK_EQUAL(ran.size(), 601u);
  CAF_CHECK_LESS(at, 100);
}

CAF_TEST(a backlog is no time for claims) {
  begin({"default", 1, 0});
  insert(3);
  home->wake({"default"}, true);
  sched.run();
  turn(); // full
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush_done gd_pick commit");
  CAF_CHECK_EQUAL(home->claims->most(), 0);
  send(row("last"));
  CAF_CHECK_EQUAL(db->newest(), inserted);
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"", "", "", "last"}));
}

CAF_TEST(what another node or a sweep has made runnable is not overtaken) {
  begin();
  send(row("first"));
  finish_all();
  insert(1);
  home->wake({"default"}, false);
  anon(gateway, row("second"));
  sched.run(); // both mailboxes, in whatever order
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"first", "", "second"}));
}

CAF_TEST(a pick that began before the slots were closed does not open them) {
  begin();
  CAF_CHECK_EQUAL(home->claims->most(), 2);
  home->wake({"default"}, false);
  sched.run();
  CAF_CHECK_EQUAL(db->next(), "gd_pick ");
  home->claims->close("default"); // the hint that follows is on its way
  turn();
  CAF_CHECK_EQUAL(home->claims->most(), 0);
  anon(picker, hint{});
  sched.run();
  turn();
  CAF_CHECK_EQUAL(home->claims->most(), 2);
}

CAF_TEST(
  what comes between two picks is not overtaken by what the second lets in) {
  begin();
  home->wake({"default"}, false);
  sched.run();
  CAF_CHECK_EQUAL(db->next(), "gd_pick ");
  db->run_one(); // it has found nothing, and nobody knows yet
  insert(1);
  claim_beside_a_pick("second");
  db->run_newest();
  sched.run();
  CAF_CHECK_EQUAL(ran, names{});
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"", "second"}));
}

CAF_TEST(what a pick has taken is not overtaken when another ends before it) {
  begin({"default", 100, 0}, {2, 3});
  send(std::vector<gd::insert>(50, row("")));
  CAF_CHECK_EQUAL(db->next(), claimed);
  home->wake({"default"}, false);
  sched.run();
  CAF_CHECK_EQUAL(db->newest(), "gd_pick ");
  turn(); // so many outcomes are worth a second transaction, which picks, too
  CAF_CHECK_EQUAL(db->next(), "gd_pick ");
  CAF_CHECK_EQUAL(db->newest(), "begin gd_flush_done gd_pick commit");
  insert(1);
  db->run_one_and_hold(); // the first pick has it
  ran.clear();
  send(row("second"));
  CAF_CHECK_EQUAL(db->newest(), "begin gd_insert_claimed commit");
  db->run_newest();
  sched.run();
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush_done gd_pick commit");
  turn();
  CAF_CHECK_EQUAL(ran, names{});
  db->deliver();
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"", "second"}));
}

CAF_TEST(a claimed row whose signal has come before it parks does not wait for a poll) {
  machine.first = [this](probe_context& ctx) -> gd::outcome {
    ran.push_back(ctx.state.note);
    if (ctx.take<word>("say"))
      return gd::done();
    return gd::await("say", ctx.state);
  };
  begin();
  send(row("a"));
  turn();
  CAF_CHECK_EQUAL(ran, names{"a"});
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush gd_recheck commit");
  rows.rows("insert into gen_durable_signals (target_id, name, payload) select "
            "id, 'say', "
            "'{\"text\": \"go\"}' from gen_durable");
  turn();
  CAF_CHECK_EQUAL(db->next(), "gd_pick ");
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"a", "a"}));
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(delayed rows need no place and take none) {
  begin({"default", 1, 0});
  auto delayed = row("delayed");
  delayed.delay_us = 60'000'000;
  send({delayed, row("a"), delayed});
  CAF_CHECK_EQUAL(db->next(),
                  "begin gd_insert_new gd_insert_claimed gd_draw_ids "
                  "commit");
  finish_all();
  CAF_CHECK_EQUAL(ran, names{"a"});
  CAF_CHECK_EQUAL(count("status = 'runnable' and eligible_at > "
                        "clock_timestamp()"),
                  "2");
}

CAF_TEST(a stream of inserts keeps no stranger waiting for longer than a poll) {
  begin({"default", 1, 0});
  insert(1); // by a stranger
  send(row("a"));
  sched.advance_time(1s - 100us); // it is nearly time for a poll
  sched.run();
  // As long as each insert commits before the outcome of the one before does,
  // there is a transaction under way whenever the slot is free.
  auto insert_overtakes = [this](const std::string& note, bool claims) {
    send(row(note));
    CAF_CHECK_EQUAL(db->newest() == claimed, claims);
    db->run_newest();
    sched.run();
  };
  turn();
  insert_overtakes("b", true);
  sched.advance_time(1ms); // now it is, and b's outcome waits for a's
  sched.run();
  send(row("c"));
  CAF_CHECK_EQUAL(db->newest(), claimed);
  turn(); // a is done; there is no slot for a pick
  CAF_CHECK_EQUAL(db->newest(), done);
  turn();
  look();
  insert_overtakes("d", false);
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"a", "b", "c", "", "d"}));
  send(row("e"));
  CAF_CHECK_EQUAL(db->next(), claimed);
}

CAF_TEST(rows of a queue or a machine that is not here are not claimed) {
  begin();
  auto elsewhere = row("elsewhere");
  elsewhere.queue = "other";
  send(elsewhere);
  CAF_CHECK_EQUAL(db->next(), inserted);
  finish_all();
  rows.rows("insert into gen_durable_machines values "
            "('Stranger', 1, 'first', 'default', '{first}')");
  send(gd::insert{.fsm = "Stranger"});
  CAF_CHECK_EQUAL(db->next(), "gd_find_machines ");
  turn();
  skip_draw();
  CAF_CHECK_EQUAL(db->next(), inserted);
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "2");
}

CAF_TEST(a claim of unknown fate runs once whether it was committed or not ) {
  begin();
  for (bool committed : {true, false}) {
    ran.clear();
    send(row("a"));
    CAF_CHECK_EQUAL(db->next(), claimed);
    if (committed)
      db->run_one_and_lose_the_answer();
    else
      db->drop_one(errc::unknown_fate);
    sched.run();
    pass(100ms); // the insert is sent again, unclaimed, and the lease released
    pass(1s);
    CAF_CHECK_EQUAL(ran, names{"a"});
    CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "1");
    CAF_CHECK_EQUAL(count("true"), "1");
    rows.rows("delete from gen_durable");
  }
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
  CAF_CHECK_EQUAL(log.all<events::pick_lost>().size(), 2u);
  CAF_CHECK_EQUAL(answered, 2);
  CAF_CHECK_EQUAL(refused, 0);
}

CAF_TEST(a claim that commits long after its answer was lost is released) {
  begin();
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  db->drop_one(errc::unknown_fate);
  sched.run();
  auto token = log.all<events::pick_lost>().front().token;
  finish_all();
  pass(1s); // it is sent again before its patience is over
  pass(10s);
  CAF_CHECK_EQUAL(ran, names{"a"});
  rows.rows("insert into gen_durable (fsm, step, status, locked_by, "
            "lease_expires_at, state) values ('Probe', 'first', 'executing', "
            "$1, clock_timestamp() + interval '60 s', '{\"note\": \"late\"}')",
            {token});
  pass(2s);
  CAF_CHECK_EQUAL(ran, (names{"a", "late"}));
}

CAF_TEST(a claim whose insert fails is tried again and takes no place) {
  begin({"default", 1, 0});
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  db->drop_one(errc::unavailable);
  sched.run();
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
  CAF_CHECK_EQUAL(home->claims->most(), 1);
  send(row("b"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  rows.rows("insert into gen_durable (id, fsm, step) overriding system value "
            "select id, 'Foreign', 'first' from gen_durable_id_seq s, "
            "generate_series(1, s.last_value) id");
  db->run_one(); // its id is somebody else's
  insert(1);
  home->wake({"default"}, false); // and its place is gone
  sched.run();
  skip_draw();
  CAF_CHECK_EQUAL(count("fsm = 'Probe'"), "1");
  finish_all();
  CAF_CHECK_EQUAL(ran, (names{"", "b"}));
  CAF_CHECK_EQUAL(count("fsm = 'Probe' and status = 'done'"), "2");
  CAF_CHECK_EQUAL(answered, 1);
  CAF_CHECK_EQUAL(refused, 1);
}

CAF_TEST(a state that the database does not take fails its own insert) {
  begin();
  auto bad = row("bad\\u0000");
  send({row("a"), bad});
  CAF_CHECK_EQUAL(db->next(), claimed);
  finish_all();
  CAF_CHECK_EQUAL(ran, names{"a"});
  CAF_CHECK_EQUAL(count("true"), "1");
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
}

CAF_TEST(a queue that drains releases what waits for a pick) {
  begin();
  auto sink = sys.spawn([]() -> caf::behavior { return {[](drained&) {}}; });
  actors.push_back(sink);
  claim_beside_a_pick("a");
  db->run_newest();
  sched.run();
  caf::send_as(sink, picker, drain{10s});
  sched.run();
  CAF_CHECK_EQUAL(home->claims->most(), 0);
  finish_all();
  CAF_CHECK_EQUAL(ran, names{});
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 0"), "1");
  CAF_CHECK(home->leases.all().empty());
}

CAF_TEST(a queue that drains waits for what is being claimed and releases it) {
  begin();
  auto sink = sys.spawn([]() -> caf::behavior { return {[](drained&) {}}; });
  actors.push_back(sink);
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  caf::send_as(sink, picker, drain{10s});
  sched.run();
  turn();
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush commit");
  finish_all();
  CAF_CHECK_EQUAL(ran, names{});
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 0 and locked_by is "
                        "null"),
                  "1");
  CAF_CHECK(home->leases.all().empty());
  send(row("b")); // there is nobody any more
  CAF_CHECK_EQUAL(db->next(), inserted);
}

CAF_TEST(what waits for a pick when its picker dies waits for its lease) {
  begin();
  claim_beside_a_pick("a");
  db->run_newest();
  sched.run();
  CAF_CHECK_EQUAL(home->leases.all().size(), 1u);
  anon_send_exit(picker, caf::exit_reason::kill);
  sched.run();
  CAF_CHECK(home->leases.all().empty());
  finish_all();
  CAF_CHECK_EQUAL(ran, names{});
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
}

CAF_TEST(what was claimed for a picker that is gone is released) {
  begin();
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  anon_send_exit(picker, caf::exit_reason::kill);
  sched.run();
  turn();
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  CAF_CHECK_EQUAL(db->next(), "gd_release_lost ");
  turn();
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 0"), "1");
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
}

CAF_TEST(
  what a picker was told of and has not collected when it dies is released) {
  begin();
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  db->run_one();
  sched
    .run_once(); // the gateway has handed the claim in, the picker knows nothing
  CAF_REQUIRE_EQUAL(home->claims->under_way("default"), 1);
  anon_send<caf::message_priority::high>(
    picker, caf::exit_msg{picker.address(), caf::exit_reason::kill});
  sched.run();
  CAF_CHECK_EQUAL(ran, names{});
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 0"), "1");
}

CAF_TEST(what a gateway was claiming when it died is released) {
  begin();
  send(row("a"));
  CAF_CHECK_EQUAL(db->next(), claimed);
  anon_send_exit(gateway, caf::exit_reason::kill);
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(home->claims->under_way("default"), 0);
  pass(1s);
  CAF_CHECK_EQUAL(ran, names{"a"});
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "1");
}

// -- patience -----------------------------------------------------------------

CAF_TEST(what has waited too long is given up and not stored later) {
  begin({"default", 0, 0});
  anon(sender, row("under way"));
  anon(sender, row("waits"));
  sched.run();
  sched.advance_time(1us);
  sched.run();
  CAF_REQUIRE(db->waiting());
  sched.advance_time(home->config.patience - 1ms);
  sched.run();
  CAF_CHECK_EQUAL(refused, 0);
  sched.advance_time(1ms);
  sched.run();
  CAF_CHECK_EQUAL(refused, 1);
  // Of this unit the rows were not sent: it draws their ids.
  CAF_CHECK_EQUAL(db->next(), "gd_draw_ids ");
  finish_all();
  CAF_CHECK_EQUAL(refused, 2);
  CAF_CHECK_EQUAL(count("true"), "0");
}

CAF_TEST(what comes while a unit is lost has its own patience) {
  begin({"default", 0, 0});
  send(row("sent"));
  CAF_REQUIRE_EQUAL(db->newest(), inserted);
  sched.advance_time(home->config.patience);
  sched.run();
  anon(sender, row("waits"));
  sched.run();
  sched.advance_time(home->config.patience - 1ms);
  sched.run();
  CAF_CHECK_EQUAL(refused, 0);
  sched.advance_time(1ms);
  sched.run();
  CAF_CHECK_EQUAL(refused, 1);
  CAF_CHECK_EQUAL(db->newest(), inserted); // still
  finish_all();
  CAF_CHECK_EQUAL(answered, 1);
  CAF_CHECK_EQUAL(count("state->>'note' = 'waits'"), "0");
}

CAF_TEST(a unit that is withdrawn for its oldest request takes no younger one along) {
  begin({"default", 0, 0});
  send(row("first"));
  CAF_CHECK_EQUAL(db->newest(), inserted);
  anon(sender, row("older"));
  sched.run();
  sched.advance_time(home->config.patience / 2);
  anon(sender, row("younger"));
  sched.run();
  while (answered == 0)
    turn();
  sched.advance_time(1us);
  sched.run();
  CAF_REQUIRE(db->waiting());
  sched.advance_time(home->config.patience / 2);
  sched.run();
  CAF_CHECK_EQUAL(refused, 0);
  db->drop_one(errc::unavailable);
  sched.run();
  CAF_CHECK_EQUAL(refused, 1);
  finish_all();
  CAF_CHECK_EQUAL(answered, 2);
  CAF_CHECK_EQUAL(count("state->>'note' = 'older'"), "0");
  CAF_CHECK_EQUAL(count("state->>'note' = 'younger'"), "1");
}

CAF_TEST(
  what may have been stored is not called unavailable when it is given up) {
  begin({"default", 0, 0});
  std::vector<errc> codes;
  actors.push_back(sys.spawn([&](caf::event_based_actor* asker) {
    asker->request(gateway, caf::infinite, row("lost"))
      .then([](gd::inserted) {},
            [&](const caf::error& why) {
      codes.push_back(gd::actors::from_caf(sys, why).code);
      });
  }));
  sched.run();
  turn(); // ids
  db->run_one_and_lose_the_answer();
  sched.run();
  sched.advance_time(home->config.patience);
  sched.run();
  if (db->waiting()) { // sent again
    db->drop_one(errc::unavailable);
    sched.run();
  }
  CAF_REQUIRE_EQUAL(codes.size(), 1u);
  CAF_CHECK(codes.front() == errc::unknown_fate);
  CAF_CHECK_EQUAL(count("true"), "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace claims_suite
