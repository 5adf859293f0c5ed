#pragma once

/// Small machines for what many need: one for each recipe of docs/guide.md.

#include <gd/machine.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// clang-format off
using namespace std::chrono_literals;

/// A point in time, as states hold it.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

// -- every day at 03:00 -------------------------------------------------------

// [recurring]
GD_ENUM(nightly_step, wait, run);

struct nightly_state {
  instant due{}; ///< of the next run
  std::int64_t runs = 0;
  GD_STATE(nightly_state, due, runs);
};

/// The next 03:00 UTC after `now`.
inline instant next_night(std::chrono::system_clock::time_point now) {
  auto today = std::chrono::floor<std::chrono::days>(now);
  return now < today + 3h ? today + 3h : today + std::chrono::days{1} + 3h;
}

/// Does `work` every night, for ever, until it is told to stop.
inline gd::machine nightly(std::function<void(instant)> work) {
  using enum nightly_step;
  using context = gd::context<nightly_state>;
  return gd::define<nightly_state, nightly_step>("Nightly", 1)
    .step(wait, [](context& ctx) -> gd::outcome {
      if (ctx.discard("stop"))
        return gd::done(ctx.state);
      if (ctx.timed_out())
        return gd::next(run, ctx.state);
      ctx.state.due = next_night(ctx.now()); // not "in 24 hours": nothing drifts
      return gd::await("stop", ctx.state).until(ctx.state.due);
    })
    .step(run, {.blocking = true}, [work = std::move(work)](context& ctx) {
      work(ctx.state.due); // which night it is: the same in every execution
      ++ctx.state.runs;
      return gd::next(wait, ctx.state);
    })
    .on_error([](const gd::failure&, context& ctx) -> gd::outcome {
      if (ctx.failures() < 5)
        return gd::replay(ctx.state, gd::backoff(ctx.failures(), 1min, 30min));
      return gd::next(wait, ctx.state); // this night is given up, and not the next one
    });
}
// [/recurring]

// -- a reminder every day for a week ------------------------------------------

// [reminder]
GD_ENUM(survey_step, begin, ask);

struct survey_state {
  std::string customer{};
  instant due{};  ///< of the next reminder
  instant ends{}; ///< then nobody is asked any more
  GD_STATE(survey_state, customer, due, ends);
};

/// Reminds a customer once a day, until there is an answer, or a week is over.
inline gd::machine survey(std::function<void(const std::string&)> remind) {
  using enum survey_step;
  using context = gd::context<survey_state>;
  return gd::define<survey_state, survey_step>("Survey", 1)
    .step(begin, [](context& ctx) {
      ctx.state.due = std::chrono::floor<std::chrono::microseconds>(ctx.now()) + 24h;
      ctx.state.ends = ctx.state.due + 6 * 24h;
      return gd::next(ask, ctx.state);
    })
    .step(ask, {.blocking = true}, [remind = std::move(remind)](context& ctx) -> gd::outcome {
      if (ctx.discard("answered"))
        return gd::done();
      if (ctx.timed_out() && ctx.state.due >= ctx.state.ends)
        return gd::stop("no answer");
      if (ctx.timed_out()) {
        remind(ctx.state.customer);
        ctx.state.due += 24h; // by the plan, however late this one was
      }
      return gd::await("answered", ctx.state).until(ctx.state.due);
    });
}
// [/reminder]

// -- any of several signals ---------------------------------------------------

// [any]
GD_ENUM(offer_step, open);

struct offer_state {
  std::string ended_by{};
  GD_STATE(offer_state, ended_by);
};

/// Whatever comes first ends it.
inline gd::machine offer() {
  using enum offer_step;
  using context = gd::context<offer_state>;
  return gd::define<offer_state, offer_step>("Offer", 1)
    .step(open, [](context& ctx) -> gd::outcome {
      for (const auto* name : {"withdrawn", "accepted"}) // of two that are there, this one counts
        if (ctx.discard(name))
          return gd::done(offer_state{name});
      if (ctx.timed_out())
        return gd::done(offer_state{"time"});
      return gd::await({"accepted", "withdrawn"}, ctx.state).timeout(14 * 24h);
    });
}
// [/any]

// -- all of several signals ---------------------------------------------------

// [all]
GD_ENUM(parcel_step, wait, ship);

struct parcel_state {
  std::int64_t order = 0;
  GD_STATE(parcel_state, order);
};

/// Goes on when all have come, in whatever order.
inline gd::machine parcel() {
  using enum parcel_step;
  using context = gd::context<parcel_state>;
  return gd::define<parcel_state, parcel_step>("Parcel", 1)
    .step(wait, [](context& ctx) -> gd::to<ship> {
      if (ctx.timed_out())
        return gd::stop("not ready in time");
      for (const auto* name : {"packed", "invoiced", "labelled"})
        if (ctx.peek_all(name).empty()) // the others wait in the inbox
          return gd::await(name, ctx.state).timeout(24h);
      for (const auto* name : {"packed", "invoiced", "labelled"})
        ctx.discard(name);
      return gd::next<ship>(ctx.state);
    })
    .step(ship, [](context& ctx) { return gd::done(ctx.state); });
}
// [/all]

// -- a saga -------------------------------------------------------------------

// [saga]
GD_ENUM(trip_step, flight, hotel, payment, undo);

struct trip_state {
  std::vector<std::string> booked{}; ///< what has to be undone, the last first
  std::string why{};                 ///< why it is undone
  GD_STATE(trip_state, booked, why);
};

/// What the steps do to others; both bear repeats of the same key.
struct agency {
  std::function<void(const std::string& key, const std::string& what)> book;
  std::function<void(const std::string& key, const std::string& what)> cancel;
};

inline std::string key_of(const gd::context<trip_state>& ctx, const std::string& what) {
  return std::to_string(ctx.id) + "/" + what;
}

/// Books all, or in the end nothing.
inline gd::machine trip(const agency& with) {
  using enum trip_step;
  using context = gd::context<trip_state>;
  auto booking = [with](trip_step then) {
    return [with, then](context& ctx) {
      if (ctx.state.booked.empty() || ctx.state.booked.back() != ctx.step)
        ctx.state.booked.push_back(ctx.step);
      with.book(key_of(ctx, ctx.step), ctx.step);
      return gd::next(then, ctx.state);
    };
  };
  return gd::define<trip_state, trip_step>("Trip", 1)
    .step(flight, {.blocking = true, .to = {hotel}}, booking(hotel))
    .step(hotel, {.blocking = true, .to = {payment}}, booking(payment))
    .step(payment, {.blocking = true, .to = gd::nowhere}, [with](context& ctx) -> gd::outcome {
      with.book(key_of(ctx, ctx.step), ctx.step);
      return gd::done(ctx.state);
    })
    .step(undo, {.blocking = true, .to = {undo}}, [with](context& ctx) -> gd::outcome {
      if (ctx.state.booked.empty())
        return gd::stop(ctx.state.why);
      auto last = ctx.state.booked.back();
      with.cancel(key_of(ctx, last), last);
      ctx.state.booked.pop_back();
      return gd::next(undo, ctx.state); // one at a time: each is committed
    })
    .on_error({.to = {undo}}, [](const gd::failure& why, context& ctx) -> gd::outcome {
      if (ctx.at(undo) || ctx.failures() < 3) // what has to be undone is never given up
        return gd::replay(ctx.state, gd::backoff(ctx.failures()));
      // It may have been booked although it failed: the answer was lost.
      if (ctx.state.booked.empty() || ctx.state.booked.back() != ctx.step)
        ctx.state.booked.push_back(ctx.step);
      ctx.state.why = why.message();
      return gd::next(undo, ctx.state);
    });
}
// [/saga]
// clang-format on
