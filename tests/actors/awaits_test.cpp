// Who waits for ends through a gateway: what is told, when, and how many statements that takes.

#define CAF_SUITE awaits

#include "actors/stepped.hpp"
#include "support/words.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/messages.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace awaits_suite {

using namespace gd::test;
using namespace gd::actors;

namespace {

constexpr std::int64_t second = 1'000'000;

/// What those have been told who ask: by request, a status or a code; and, behind that, a
/// result, a failure or a sentence.
using told = std::vector<std::string>;

/// A gateway, its backend, the database when the test says so, and the picker of a queue.
struct awaits_fixture : picker_fixture {
  gateway handle;
  caf::actor backend;
  told heard;

  void begin(std::int64_t bytes_waiting = 64 << 20) {
    prepare();
    home->config.bytes_waiting = bytes_waiting;
    auto made = sys.spawn<gateway_backend>(home);
    backend = caf::actor_cast<caf::actor>(made);
    actors.push_back(backend);
    home->children.set(role::backend, {}, backend);
    handle = caf::actor_cast<gateway>(sys.spawn<gateway_server>(home, made));
    sched.run();
  }

  ~awaits_fixture() {
    home->children.clear();
    backend = nullptr;
    if (handle)
      anon(caf::actor_cast<caf::actor>(handle), close_gateway{});
    sched.run();
  }

  /// One who asks for all of these.
  void ask(std::vector<gd::await_result> all) {
    auto first = heard.size();
    heard.resize(first + all.size());
    actors.push_back(sys.spawn(
      [this, first, all](caf::event_based_actor* asker) -> caf::behavior {
        for (std::size_t i = 0; i < all.size(); ++i)
          asker->request(handle, caf::infinite, all[i])
            .then(
              [this, at = first + i](const gd::awaited& x) {
          heard[at] = x.status + ' '
                      + (x.result ? x.result->text() : x.failure.value_or(""));
              },
              [this, at = first + i](const caf::error& why) {
          auto x = from_caf(sys, why);
          heard[at] = std::string{to_string(x.code)} + ' ' + x.message;
            });
        return {[](int) {}};
      }));
    sched.run();
  }
  void ask(std::int64_t id, std::int64_t within_us = 3'600 * second) {
    ask({{.id = id, .within_us = within_us}});
  }

  /// What the only one has been told; empty: nothing.
  const std::string& only() const {
    return heard.at(0);
  }

  /// As if another node had run it.
  void end_elsewhere(std::int64_t id, const std::string& status,
                     const std::string& more) {
    auto what = status == "done" ? std::string{"result = $3::jsonb"}
                                 : std::string{"last_error = $3"};
    rows.rows("update gen_durable set status = $2::gen_durable_status, seq = "
              "seq + 1, "
                + what + " where id = $1::bigint",
              {std::to_string(id), status, more});
  }
};

constexpr auto look = "gd_awaited ";

} // namespace

CAF_TEST_FIXTURE_SCOPE(awaits_tests, awaits_fixture)

CAF_TEST(an instance that has ended before is told by one look) {
  begin();
  insert(2);
  end_elsewhere(1, "done", "{\"n\": 1}");
  end_elsewhere(2, "failed", "the card was refused");
  ask(1);
  CAF_CHECK_EQUAL(finish_all(), look);
  ask(2);
  CAF_CHECK_EQUAL(finish_all(), look);
  CAF_CHECK_EQUAL(heard,
                  (told{"done {\"n\": 1}", "failed the card was refused"}));
}

CAF_TEST(an end that this node commits is told without a look) {
  machine.first = [](probe_context& ctx) {
    return ctx.state.n == 1 ? gd::stop("why not") : gd::done(word{"well"});
  };
  begin();
  rows.rows("insert into gen_durable (fsm, step, state, eligible_at) select "
            "'Probe', 'first', jsonb_build_object('n', n), now() + interval '1 "
            "h' from generate_series(1, 3) n");
  ask(1);
  ask(2);
  CAF_CHECK_EQUAL(finish_all(), std::string{look} + look);
  CAF_CHECK_EQUAL(heard, (told{"", ""}));
  rows.rows("update gen_durable set eligible_at = now()");
  spawn_picker({"default", 8, 8});
  auto statements = finish_all();
  CAF_CHECK_EQUAL(count("status in ('done', 'failed')"), "3");
  CAF_CHECK(!contains(statements, look));
  CAF_CHECK_EQUAL(heard, (told{"failed why not", "done {\"text\":\"well\"}"}));
  CAF_CHECK(!home->awaited->any());
}

CAF_TEST(nobody is told of an end before its commit) {
  begin();
  rows.rows("insert into gen_durable (fsm, step, eligible_at) values "
            "('Probe', 'first', now() + interval '1 h')");
  ask(1);
  finish_all();
  rows.rows("update gen_durable set eligible_at = now()");
  spawn_picker({"default", 1, 0});
  turn(); // the pick
  CAF_REQUIRE(contains(db->next(), "gd_flush"));
  CAF_CHECK_EQUAL(only(), "");
  db->run_one_and_hold();
  sched.run();
  CAF_CHECK_EQUAL(only(), "");
  db->deliver();
  sched.run();
  CAF_CHECK_EQUAL(only(), "done {}");
  finish_all();
}

CAF_TEST(an end somewhere else is told by the next poll) {
  begin();
  insert(2);
  ask(1);
  ask(2);
  finish_all();
  end_elsewhere(2, "done", "{}");
  pass(999ms);
  CAF_CHECK_EQUAL(heard, (told{"", ""}));
  pass(1ms);
  CAF_CHECK_EQUAL(heard, (told{"", "done {}"}));
}

CAF_TEST(ten thousand wait with one statement in each poll) {
  constexpr int all = 10'000;
  begin();
  insert(all);
  std::vector<gd::await_result> some;
  for (int id = 1; id <= all; ++id) {
    some.push_back({.id = id, .within_us = 3'600 * second});
    if (some.size() == 2'500) // of four senders
      ask(std::exchange(some, {}));
  }
  // The first comes alone; the others while that is looked for, or the second.
  auto submitted = db->submitted;
  finish_all();
  CAF_MESSAGE("looks for those who come: " << db->submitted - submitted + 1);
  CAF_CHECK_LESS_OR_EQUAL(db->submitted - submitted, 1);
  for (int poll = 1; poll <= 5; ++poll) {
    submitted = db->submitted;
    sched.advance_time(1s);
    sched.run();
    CAF_CHECK_EQUAL(finish_all(), look);
    CAF_CHECK_EQUAL(db->submitted - submitted, 1);
  }
  CAF_MESSAGE("who have ended together are told by one look");
  rows.rows("update gen_durable set status = 'done', result = '{}', seq = 1");
  submitted = db->submitted;
  pass(1s);
  CAF_CHECK_EQUAL(db->submitted - submitted, 1);
  CAF_CHECK(heard == told(all, "done {}"));
  CAF_MESSAGE("nobody waits any more, and nothing is asked");
  submitted = db->submitted;
  pass(1min);
  CAF_CHECK_EQUAL(db->submitted - submitted, 0);
}

CAF_TEST(long results come in as many looks as they need) {
  begin();
  home->config.poll = 1h;
  insert(40);
  rows.rows("update gen_durable set status = 'done', seq = 1, result = "
            "to_jsonb((select string_agg(md5(n::text || id), '') from "
            "generate_series(1, 30000) n))"); // 960 KB each
  std::vector<gd::await_result> some;
  for (int id = 1; id <= 40; ++id)
    some.push_back({.id = id});
  ask(some);
  finish_all();
  for (const auto& x : heard)
    CAF_CHECK_EQUAL(x.size(), std::string_view{"done \"\""}.size() + 960'000);
}

CAF_TEST(an instance that is deleted while somebody waits is told as erased) {
  begin();
  insert(1);
  ask(1);
  ask(77);
  finish_all();
  CAF_CHECK_EQUAL(heard, (told{"", "no_such_target there is no instance 77"}));
  rows.rows("delete from gen_durable");
  pass(1s);
  CAF_CHECK(only().starts_with("erased "));
}

CAF_TEST(an end is told that leaves no row) {
  other = gd::define<probe_state, probe_step>("Probe", 1)
            .keep(0s)
            .step(probe_step::first,
                  [](probe_context&) { return gd::done(word{"gone"}); })
            .step(probe_step::second, [](probe_context&) { return gd::done(); })
            .step(probe_step::third, [](probe_context&) { return gd::done(); })
            .on_error(machine.handler);
  begin();
  rows.rows("insert into gen_durable (fsm, step, eligible_at, inserted_at) "
            "values ('Probe', 'first', now() + interval '1 h', now() - "
            "interval '1 h')");
  ask(1);
  finish_all();
  rows.rows("update gen_durable set eligible_at = now()");
  spawn_picker({"default", 1, 0});
  finish_all();
  CAF_CHECK_EQUAL(only(), "done {\"text\":\"gone\"}");
}

CAF_TEST(a key is looked for once and its instance awaited then) {
  begin();
  rows.rows(
    "insert into gen_durable (fsm, step, unique_key, unique_scope) values "
    "('Probe', 'first', 'k', '{runnable}')");
  ask({{.key = "nobody"}, {.key = "k"}});
  finish_all();
  CAF_CHECK_EQUAL(heard.at(0), "no_such_target there is no instance with the "
                               "unique key nobody");
  CAF_CHECK_EQUAL(heard.at(1), "");
  // It leaves its key as it ends, and another one takes that.
  end_elsewhere(1, "done", "{\"n\": 7}");
  rows.rows(
    "insert into gen_durable (fsm, step, unique_key, unique_scope) values "
    "('Probe', 'first', 'k', '{runnable}')");
  pass(1s);
  CAF_CHECK_EQUAL(heard.at(1), "done {\"n\": 7}");
}

CAF_TEST(whoever waits has a time and the others wait on) {
  begin();
  insert(1);
  ask(1, 0);
  ask(1, 3 * second);
  ask(1, 10 * second);
  CAF_CHECK_EQUAL(heard, (told{"", "", ""}));
  finish_all();
  CAF_CHECK_EQUAL(heard.at(0),
                  "timed_out instance 1 has not ended within 0 ms");
  pass(2'999ms);
  CAF_CHECK_EQUAL(heard.at(1), "");
  pass(1ms);
  CAF_CHECK_EQUAL(heard.at(1),
                  "timed_out instance 1 has not ended within 3000 ms");
  end_elsewhere(1, "done", "{}");
  pass(1s);
  CAF_CHECK_EQUAL(heard.at(2), "done {}");
}

CAF_TEST(what cannot be awaited is refused at once) {
  begin();
  auto day = 86'400 * second;
  ask({{},
       {.id = 1, .key = "k"},
       {.id = 1, .within_us = -1},
       {.id = 1, .within_us = day + 1}});
  CAF_CHECK_EQUAL(finish_all(), "");
  for (const auto& x : heard)
    CAF_CHECK(x.starts_with("invalid_argument "));
}

CAF_TEST(a look that fails is made again and who had no other is told why) {
  begin();
  insert(1);
  ask(1, 500'000);
  ask(1);
  db->drop_one(gd::errc::unavailable);
  sched.run();
  pass(500ms);
  CAF_CHECK_EQUAL(heard.at(0),
                  "unavailable instance 1 has not ended within 500 ms, and "
                  "could not be looked for: by the test");
  CAF_CHECK_EQUAL(heard.at(1), "");
  end_elsewhere(1, "done", "{}");
  pass(500ms);
  CAF_CHECK_EQUAL(heard.at(1), "done {}");
}

CAF_TEST(an instance that was put back is awaited until its next end) {
  begin();
  insert(1);
  end_elsewhere(1, "failed", "first");
  ask(1);
  finish_all();
  rows.rows("update gen_durable set status = 'runnable', seq = 2");
  ask(1);
  // The node tells late of the end before.
  home->see_end({.id = 1, .status = "failed", .failure = "first", .seq = 1});
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(heard, (told{"failed first", ""}));
  home->see_end({.id = 1, .status = "failed", .failure = "first", .seq = 1});
  sched.run();
  CAF_CHECK_EQUAL(heard.at(1), "");
  home->see_end({.id = 1, .status = "failed", .failure = "again", .seq = 3});
  sched.run();
  CAF_CHECK_EQUAL(heard.at(1), "failed again");
}

CAF_TEST(an end between the request and its first look is not missed) {
  begin();
  insert(1);
  ask(1);
  db->run_one_and_hold(); // it runs, then
  home->see_end({.id = 1, .status = "done", .result = gd::json{}, .seq = 1});
  sched.run();
  CAF_CHECK_EQUAL(only(), "");
  db->deliver();
  sched.run();
  CAF_CHECK_EQUAL(only(), "done {}");
}

CAF_TEST(
  whoever comes while a look is under way is not told what that has seen) {
  begin();
  ask(1);
  db->run_one_and_hold(); // it is not there
  rows.rows("insert into gen_durable (id, fsm, step) overriding system value "
            "values (1, 'Probe', 'first')");
  ask(1);
  db->deliver();
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(heard, (told{"no_such_target there is no instance 1", ""}));
}

CAF_TEST(those who wait are bounded as all who ask and others have room) {
  begin(100'000);
  insert(1);
  ask(std::vector<gd::await_result>(100, {.id = 1}));
  finish_all();
  auto refused = std::count_if(heard.begin(), heard.end(), [](const auto& x) {
    return x.starts_with("overloaded ");
  });
  CAF_CHECK_LESS(refused, 100);
  CAF_CHECK_GREATER(refused, 0);
  ask(1, 0); // of another sender
  finish_all();
  CAF_CHECK(heard.back().starts_with("timed_out "));
  CAF_MESSAGE("who has been answered has room again");
  end_elsewhere(1, "done", "{}");
  pass(1s);
  heard.clear();
  ask(std::vector<gd::await_result>(10, {.id = 1}));
  finish_all();
  CAF_CHECK_EQUAL(heard, told(10, "done {}"));
}

CAF_TEST(whoever waits is told that the engine stops) {
  begin();
  insert(1);
  ask(1);
  finish_all();
  anon(backend, drain{1s});
  sched.run();
  CAF_CHECK_EQUAL(only(), "stopped the engine has stopped");
  CAF_CHECK(!home->awaited->any());
}

CAF_TEST(whoever waits is told of a crash of the gateway and may ask again) {
  begin();
  insert(1);
  ask(1);
  finish_all();
  anon_send_exit(backend, caf::exit_reason::kill);
  sched.run();
  CAF_CHECK(only().starts_with("unknown_fate the gateway is down"));
  CAF_CHECK(!home->awaited->any());
  end_elsewhere(1, "done", "{}");
  begin();
  ask(1);
  finish_all();
  CAF_CHECK_EQUAL(heard.at(1), "done {}");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace awaits_suite
