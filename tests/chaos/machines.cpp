#include "chaos/machines.hpp"

#include <caf/send.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>

namespace gd::chaos {

namespace {

using namespace std::chrono_literals;
using context = gd::context<journey>;

/// The state with this step in its trail.
journey after(const context& ctx) {
  auto x = ctx.state;
  x.trail.push_back({ctx.step, ctx.lease_token()});
  return x;
}

/// Whatever it was: the database of the effects may be down, too.
outcome again(const failure&, context& ctx) {
  ++ctx.state.replays;
  return replay(ctx.state, 200ms);
}

template <class Step>
auto go_on(witness& seen, std::optional<Step> to, bool timed = false) {
  return [&seen, to, timed](context& ctx) -> outcome {
    seen.begins(ctx, ctx.state.trail.size());
    if (timed)
      seen.ends(ctx);
    if (to)
      return next(*to, after(ctx));
    return done(after(ctx));
  };
}

machine chain(witness& seen, const char* name, history kept) {
  using enum chain_step;
  return define<journey, chain_step>(name, 1)
    .history(kept)
    .step(one, go_on<chain_step>(seen, two))
    .step(two, go_on<chain_step>(seen, three))
    .step(three, go_on<chain_step>(seen, four))
    .step(four, go_on<chain_step>(seen, std::nullopt))
    .on_error(again)
    .run_ahead(2);
}

machine keyed(witness& seen) {
  using enum keyed_step;
  return define<journey, keyed_step>("Keyed", 1)
    .step(first, go_on<keyed_step>(seen, second, true))
    .step(second, go_on<keyed_step>(seen, std::nullopt, true))
    .on_error(again);
}

machine inbox(witness& seen) {
  return define<journey, inbox_step>("Inbox", 1)
    .history(history::steps)
    .step(inbox_step::collect,
          [&seen](context& ctx) -> outcome {
            seen.begins(ctx, ctx.state.trail.size());
            auto x = after(ctx);
            while (auto some = ctx.take<numbered>("number"))
              x.signals.push_back(some->number);
            if (std::ssize(x.signals) < expected_signals)
              return await("number", x);
            return done(x);
          })
    .on_error(again);
}

machine timer(witness& seen) {
  using enum timer_step;
  return define<journey, timer_step>("Timer", 1)
    .history(history::with_state)
    .step(sleep,
          [&seen](context& ctx) -> outcome {
            seen.begins(ctx, ctx.state.trail.size());
            if (ctx.timed_out())
              return next(wake, after(ctx));
            return await("never", after(ctx)).timeout(300ms);
          })
    .step(wake, go_on<timer_step>(seen, std::nullopt))
    .on_error(again);
}

/// Address space, and not memory: the machine that this runs on stays as it is.
void exhaust_memory() {
  std::vector<std::unique_ptr<char[]>> taken;
  while (true)
    taken.push_back(std::make_unique_for_overwrite<char[]>(256 << 20));
}

void wait_for_stop(const std::stop_token& told) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock guard{mutex};
  changed.wait(guard, told, [] { return false; });
}

machine wild(witness& seen) {
  using enum wild_step;
  auto function = [&seen](context& ctx) -> outcome {
    seen.begins(ctx, ctx.state.trail.size());
    if (ctx.attempt == 0)
      switch (ctx.state.what.value()) {
        case mischief::throw_exception:
          throw std::runtime_error{"wild"};
        case mischief::throw_number:
          throw 42;
        case mischief::exhaust_memory:
          exhaust_memory();
          break;
        case mischief::overrun:
          wait_for_stop(ctx.stop_token());
          break;
        case mischief::never_return:
          while (true)
            pause();
        case mischief::abort_process:
          std::abort();
        default:
          break;
      }
    return done(after(ctx));
  };
  auto start = [&seen](actors::async_context<journey> ctx) {
    seen.begins(*ctx.operator->(), ctx->state.trail.size());
    auto what = ctx->state.what.value();
    if (ctx->attempt == 0 && what == mischief::kill_actor)
      caf::anon_send_exit(ctx.self, caf::exit_reason::kill);
    if (ctx->attempt == 0 && what == mischief::drop_context)
      return;
    ctx.self->delayed_anon_send(ctx.self, 50ms, 0);
    ctx.self->become(
      [ctx](int) { ctx.finish(done(after(*ctx.operator->()))); });
  };
  return define<journey, wild_step>("Wild", 1)
    .history(history::steps)
    .step(plain, {.limit = 10s}, function)
    .step(blocking, {.blocking = true, .limit = 300ms}, function)
    .step(asynchronous, {.limit = 10s}, actors::async(start))
    .on_error(again);
}

/// Whatever happens in a step of these is an effect: nobody is a witness, and the table is
/// what counts.
machine fans() {
  using enum fan_step;
  return define<fan, fan_step>("Fan", 1)
    .step(split,
          [](gd::context<fan>& ctx) -> outcome {
            constexpr std::int64_t at_once = 200;
            auto& x = ctx.state;
            auto n = std::min(at_once, x.leaves - x.made);
            x.made += n;
            auto out = next(x.made < x.leaves ? split : gather, x);
            for (std::int64_t i = 0; i < n; ++i)
              out = std::move(out).insert(
                {.fsm = "Leaf", .state = to_json(leaf{ctx.id})});
            return out;
          })
    .step(gather, [](gd::context<fan>& ctx) -> outcome {
      while (ctx.discard("counted"))
        ++ctx.state.counted;
      if (ctx.state.counted < ctx.state.leaves)
        return await("counted", ctx.state);
      return done(ctx.state);
    });
}

machine leaves() {
  return define<leaf, leaf_step>("Leaf", 1)
    .step(leaf_step::work,
          [](gd::context<leaf>& ctx) -> outcome {
            constexpr auto book = "insert into public.booked (leaf, account, "
                                  "amount) values ($1, $2, $3)";
            return done()
              .signal({.target = ctx.state.parent, .name = "counted"})
              .sql(book, ctx.id, "from", -1)
              .expect_rows(1)
              .sql(book, ctx.id, "to", 1)
              .expect_rows(1);
          })
    // Its parent's inbox may be full for long while processes are killed.
    .on_error([](const failure&, gd::context<leaf>& ctx) -> outcome {
      return replay(ctx.state, 200ms);
    });
}

} // namespace

std::vector<machine> machines(witness& seen) {
  return {chain(seen, "Chain", history::none),
          chain(seen, "Kept", history::with_state),
          keyed(seen),
          inbox(seen),
          timer(seen),
          wild(seen),
          fans(),
          leaves()};
}

} // namespace gd::chaos
