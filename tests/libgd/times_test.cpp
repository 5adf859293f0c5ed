#define CAF_SUITE times

// Times and durations are exact, or refused with a sentence: of any type, by every door.

#include <gd/client.hpp>
#include <gd/config.hpp>
#include <gd/testing.hpp>
#include <gd/time.hpp>

#include <support/database.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace times_suite {

using namespace std::literals;
using gd::test::contains;

GD_ENUM(times_step, wait);

struct times_state {
  std::chrono::sys_time<std::chrono::microseconds> until{};
  GD_STATE(times_state, until);
};

namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::sys_days;
using std::chrono::sys_time;
using std::chrono::year;

gd::machine waiting() {
  return gd::define<times_state, times_step>("Far", 1)
    .step(times_step::wait,
          [](gd::context<times_state>& ctx) -> gd::outcome {
            if (ctx.timed_out())
              return gd::done();
            return gd::await("go", ctx.state).until(ctx.state.until);
          })
    .on_error([](const gd::failure& why, gd::context<times_state>&) {
      return gd::stop(why.message());
    });
}

gd::instance park(gd::testing::harness& in, sys_time<microseconds> until) {
  auto made = in.insert(
    {.fsm = "Far", .state = gd::to_json(times_state{until})});
  CAF_REQUIRE(made);
  CAF_REQUIRE(in.drain());
  auto now = in.instance(made->id);
  CAF_REQUIRE(now);
  return *now;
}

std::string status_of(gd::testing::harness& in, std::int64_t id) {
  auto now = in.instance(id);
  CAF_REQUIRE(now);
  return now->status;
}

gd::testing::in_database connect(gd::test::temporary_database& db) {
  auto made = gd::testing::in_database::connect(db.options(), {waiting()});
  CAF_REQUIRE(made);
  return std::move(*made);
}

sys_time<microseconds> end_of(int y) {
  return sys_days{year{y} / 12 / 31} + 24h - 1us;
}

} // namespace

CAF_TEST(a point in time of any type is exact in microseconds or none) {
  using gd::to_microseconds;
  // A sum, as a check keeps references longer than a result lives.
  CAF_CHECK_EQUAL(+to_microseconds(sys_days{year{2999} / 1 / 1}).value(),
                  sys_time<microseconds>{sys_days{year{2999} / 1 / 1}}
                    .time_since_epoch()
                    .count());
  CAF_CHECK_EQUAL(+to_microseconds(end_of(9999)).value(),
                  253'402'300'799'999'999);
  // What is finer goes to the microsecond that has begun, before 1970 as well.
  CAF_CHECK_EQUAL(
    +to_microseconds(sys_time<std::chrono::nanoseconds>{1'999ns}).value(), 1);
  CAF_CHECK_EQUAL(
    +to_microseconds(sys_time<std::chrono::nanoseconds>{-1ns}).value(), -1);
  CAF_CHECK_EQUAL(
    +to_microseconds(std::chrono::system_clock::time_point::max()).value(),
    std::numeric_limits<std::int64_t>::max() / 1'000);
  CAF_CHECK(!to_microseconds(end_of(9999) + 1us));
  CAF_CHECK(!to_microseconds(sys_time<microseconds>::max()));
  CAF_CHECK(!to_microseconds(sys_time<microseconds>::min()));
  CAF_CHECK(!to_microseconds(sys_time<hours>::max()));
  CAF_CHECK(!to_microseconds(sys_time<days>::min()));
  using in_double = sys_time<std::chrono::duration<double>>;
  CAF_CHECK_EQUAL(+to_microseconds(in_double{0.25s}).value(), 250'000);
  CAF_CHECK(!to_microseconds(in_double{
    std::chrono::duration<double>{std::numeric_limits<double>::quiet_NaN()}}));
  CAF_CHECK(!to_microseconds(hours::max()));
  CAF_CHECK(!to_microseconds(-1us));
}

CAF_TEST(a deadline that is far away waits and one that is past fires) {
  gd::test::temporary_database db;
  db.migrate();
  gd::testing::simulation sim{{waiting()}};
  auto stored = connect(db);
  for (auto* in : std::initializer_list<gd::testing::harness*>{&sim, &stored}) {
    std::vector<std::int64_t> far;
    for (int y : {2100, 2261, 2263, 2400, 2999, 3001, 9999}) {
      CAF_MESSAGE(y);
      auto x = park(*in, end_of(y));
      CAF_CHECK_EQUAL(x.status, "awaiting_signal");
      CAF_CHECK_EQUAL(x.deadline_us.value_or(0),
                      end_of(y).time_since_epoch().count());
      far.push_back(x.id);
    }
    std::vector<std::int64_t> past;
    for (int y : {1969, 1600, 1})
      past.push_back(park(*in, end_of(y)).id);
    CAF_REQUIRE(in->run_for(1h));
    for (auto id : far)
      CAF_CHECK_EQUAL(status_of(*in, id), "awaiting_signal");
    for (auto id : past)
      CAF_CHECK_EQUAL(status_of(*in, id), "done");
  }
}

CAF_TEST(a deadline that no database keeps is refused with a sentence) {
  gd::testing::simulation sim;
  std::string why;
  CAF_REQUIRE(
    sim.add(gd::define<times_state, times_step>("Never", 1)
              .step(times_step::wait,
                    [](gd::context<times_state>& ctx) -> gd::outcome {
                      return gd::await("go", ctx.state)
                        .until(sys_time<microseconds>::max());
                    })
              .on_error([&](const gd::failure& x, gd::context<times_state>&) {
                why = x.message();
                return gd::stop(x.message());
              })));
  CAF_REQUIRE(
    sim.insert({.fsm = "Never", .state = gd::to_json(times_state{})}));
  CAF_REQUIRE(sim.drain());
  CAF_MESSAGE(why);
  CAF_CHECK(contains(why, "the time of await: expected the years 0 to 9999"));
}

CAF_TEST(the clock of a simulation goes on behind the year 2262) {
  gd::testing::simulation sim{{waiting()}, {.start = end_of(2399)}};
  CAF_CHECK(sim.now() == end_of(2399));
  auto later = park(sim, end_of(2400)).id;
  auto soon = park(sim, end_of(2399) + 30min).id;
  CAF_REQUIRE(sim.run_for(1h));
  CAF_CHECK_EQUAL(status_of(sim, later), "awaiting_signal");
  CAF_CHECK_EQUAL(status_of(sim, soon), "done");
  CAF_CHECK(sim.advance_to(sys_days{year{2450} / 1 / 1}));
  CAF_CHECK(sim.now() == sys_days{year{2450} / 1 / 1});
  CAF_CHECK(!sim.advance_to(sys_time<hours>::max()));
  gd::testing::simulation never{{waiting()},
                                {.start = sys_time<microseconds>::max()}};
  CAF_CHECK(!never.insert({.fsm = "Far"}));
}

CAF_TEST(times that somebody has written as infinite are shown and wait) {
  gd::test::temporary_database db;
  db.migrate();
  auto stored = connect(db);
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  for (auto at : {"infinity", "-infinity"}) {
    auto id = std::stoll(
      db.scalar("insert into gen_durable (fsm, step, queue, status, awaits, "
                "deadline, eligible_at, state) values ('Far', 'wait', "
                "'default', 'awaiting_signal', 'go', $1, $1, '{\"until\": "
                "\"2100-01-01T00:00:00Z\"}') returning id",
                {at}));
    auto shown = client->look_up({.id = id});
    CAF_REQUIRE(shown);
    CAF_CHECK_EQUAL(shown->deadline_us.value_or(0),
                    at[0] == '-' ? -62'135'596'800'000'000
                                 : 253'402'300'799'999'999);
    CAF_REQUIRE(stored.run_for(1h));
    CAF_CHECK_EQUAL(std::string{stored.instance(id)->status},
                    at[0] == '-' ? "done" : "awaiting_signal");
  }
}

CAF_TEST(a time limit that a server cannot have is refused with its name) {
  gd::test::temporary_database db;
  db.migrate();
  for (auto time : {milliseconds::max(), milliseconds{1LL << 31}, -1ms}) {
    auto opts = db.options();
    opts.statement_timeout = time;
    auto refused = gd::client::connect(opts);
    CAF_REQUIRE(!refused);
    CAF_CHECK_EQUAL(refused.error().message,
                    "statement_timeout: expected 0 to 2147483647 ms, got "
                      + std::to_string(time.count()));
  }
  auto opts = db.options();
  opts.statement_timeout = opts.lock_timeout = opts.connect_timeout
    = gd::longest_statement;
  CAF_CHECK(gd::client::connect(opts));
  gd::config how;
  how.database = "dbname=x";
  how.statement_timeout = gd::longest_statement + 1ms;
  auto ok = how.validate();
  CAF_REQUIRE(!ok);
  CAF_CHECK(contains(ok.error().message,
                     "statement_timeout: expected 100 to 2147483647 ms"));
}

CAF_TEST(a pause between tries is one that can be waited for) {
  auto most = gd::backoff(62, milliseconds::max(), milliseconds::max());
  CAF_CHECK(most >= gd::longest_delay / 2 && most <= gd::longest_delay);
}

} // namespace times_suite
