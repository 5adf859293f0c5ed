#pragma once

/// Small machines for what many need: one for each recipe of docs/guide/recipes.md.

#include <gd/instance.hpp>
#include <gd/machine.hpp>

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
inline instant next_night(instant now) {
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
    .retry({.attempts = 6, .backoff = {1min, 30min}})
    .on_error([](const gd::failure&, context& ctx) {
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
      ctx.state.due = ctx.now() + 24h;
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
      with.book(key_of(ctx, ctx.step), ctx.step);
      ctx.state.booked.push_back(ctx.step);
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
      ctx.state.booked.push_back(ctx.step); // it may be: perhaps only the answer was lost
      ctx.state.why = why.message();
      return gd::next(undo, ctx.state);
    });
}
// [/saga]

// -- at most three at a time, on all nodes together ---------------------------

// [lanes]
GD_ENUM(scan_step, work);

struct scan_state {
  std::int64_t document = 0;
  GD_STATE(scan_state, document);
};

/// One of three lanes: of a lane, one step runs at a time, wherever that is.
inline gd::insert scan_of(std::int64_t document) {
  return {.fsm = "Scan",
          .state = gd::to_json(scan_state{document}),
          .partition_key = "scan/" + std::to_string(document % 3)};
}

inline gd::machine scan(std::function<void(std::int64_t)> work) {
  return gd::define<scan_state, scan_step>("Scan", 1)
    .step(scan_step::work, {.blocking = true},
          [work = std::move(work)](gd::context<scan_state>& ctx) {
            work(ctx.state.document);
            return gd::done();
          });
}
// [/lanes]

// -- at most ten in a second, on all nodes together ---------------------------

// [rate]
GD_ENUM(mailer_step, take);

struct mail {
  std::string to{};
  GD_STATE(mail, to);
};

struct mailer_state {
  std::int64_t sent = 0;
  GD_STATE(mailer_state, sent);
};

/// One instance that lives for ever, and is sent what it has to do: each "mail" with a
/// dedup key, so that whoever sends it again does not send two.
inline gd::insert the_mailer() {
  return {.fsm = "Mailer", .state = gd::to_json(mailer_state{}), .unique_key = "mailer"};
}

inline gd::machine mailer(std::function<void(const std::string& key, const mail&)> send) {
  using enum mailer_step;
  using context = gd::context<mailer_state>;
  return gd::define<mailer_state, mailer_step>("Mailer", 1)
    .forget_dedup_after(24h)
    .step(take, {.blocking = true}, [send = std::move(send)](context& ctx) -> gd::outcome {
      auto next = ctx.take<mail>("mail");
      if (!next)
        return gd::await("mail", ctx.state);
      send(std::to_string(ctx.state.sent++), *next); // the same key in every execution
      return gd::next(take, ctx.state).after(100ms);
    })
    .on_error([](const gd::failure&, context& ctx) {
      return gd::replay(ctx.state, gd::backoff(ctx.failures()));
    });
}
// [/rate]

// -- cancelling work that is under way ----------------------------------------

// [cancel]
GD_ENUM(report_step, part, clean_up);

struct report_state {
  std::int32_t parts = 10;
  std::int32_t written = 0;
  GD_STATE(report_state, parts, written);
};

/// Asks between two parts whether it is still wanted.
inline gd::machine report(std::function<void(std::int32_t)> write, std::function<void()> remove) {
  using enum report_step;
  using context = gd::context<report_state>;
  return gd::define<report_state, report_step>("Report", 1)
    .step(part, {.blocking = true},
          [write = std::move(write)](context& ctx) -> gd::to<part, clean_up> {
            if (ctx.discard("cancel"))
              return gd::next<clean_up>(ctx.state);
            write(ctx.state.written++); // seconds, not hours
            if (ctx.state.written == ctx.state.parts)
              return gd::done(ctx.state);
            return gd::next<part>(ctx.state);
          })
    .step(clean_up, {.blocking = true}, [remove = std::move(remove)](context&) {
      remove();
      return gd::stop("cancelled");
    });
}
// [/cancel]

// -- what has become of order 42? ---------------------------------------------

// [status]
GD_ENUM(order_step, take_payment, wait_for_parcel, ship);

struct order_state {
  std::int64_t number = 0;
  GD_STATE(order_state, number);
};

inline std::string key_of(std::int64_t number) {
  return "order/" + std::to_string(number);
}

/// Its key leads to it for ever: the scope has all statuses.
inline gd::insert order_of(std::int64_t number) {
  return {.fsm = "Order",
          .state = gd::to_json(order_state{number}),
          .unique_key = key_of(number),
          .unique_scope = {"runnable", "executing", "awaiting_signal", "done", "failed"}};
}

inline gd::machine order(std::function<void(std::int64_t)> charge) {
  using enum order_step;
  using context = gd::context<order_state>;
  return gd::define<order_state, order_step>("Order", 1)
    .step(take_payment, {.blocking = true},
          [charge = std::move(charge)](context& ctx) {
            charge(ctx.state.number);
            return gd::next<wait_for_parcel>(ctx.state);
          })
    .step(wait_for_parcel, [](context& ctx) -> gd::to<ship> {
      if (ctx.discard("packed"))
        return gd::next<ship>(ctx.state);
      return gd::await("packed", ctx.state);
    })
    .step(ship, [](context&) { return gd::done(); });
}

/// For the customer, who knows the order's number and no id. `Db`: a `gd::client`, or a
/// simulation.
template <class Db>
std::string status_of(Db& db, std::int64_t number) {
  auto x = db.look_up({.key = key_of(number)});
  if (!x)
    return x.error().code == gd::errc::not_found ? "unknown" : "ask again later";
  if (x->status == "done")
    return "shipped";
  if (x->status == "failed")
    return "we will call you";
  return x->step == "take_payment" ? "to be paid" : "paid, to be packed";
}
// [/status]
// clang-format on
