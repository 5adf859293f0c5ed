#pragma once

#include <gd/actors/async.hpp>
#include <gd/machine.hpp>

#include <caf/send.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

GD_ENUM(link_step, plain, limited, blocking, asynchronous, chain, chained,
        throws, overruns, overruns_long, collides, listens, holds, dies, aborts,
        sends);
GD_ENUM(local_step, block);

/// Who has run it last, and how often.
struct link_state {
  std::int64_t pid = 0;
  std::int64_t n = 0;
  std::string note{};
  GD_STATE(link_state, pid, n, note);
};

namespace gd::test {

inline bool is_there(const std::string& file) {
  struct stat found {};
  return stat(file.c_str(), &found) == 0;
}

/// Is there when an instance's `overruns_long` has begun.
inline std::string begun_file(const std::string& release, std::int64_t id) {
  return release + "." + std::to_string(id);
}

/// What both the engine's node and the worker run. Steps that hold do so until there is
/// that file, or they are told to stop.
inline machine link_machine(std::string release, std::int32_t version = 1) {
  using namespace std::chrono_literals;
  using context = gd::context<link_state>;
  auto mark = [](context& ctx) {
    ctx.state.pid = getpid();
    ++ctx.state.n;
  };
  auto end = [mark](context& ctx) -> outcome {
    mark(ctx);
    return gd::done(ctx.state);
  };
  auto hold = [release](context& ctx) {
    while (!is_there(release) && !ctx.stop_token().stop_requested())
      std::this_thread::sleep_for(1ms);
    if (!is_there(release))
      ctx.state.note = "stopped";
  };
  using enum link_step;
  return gd::define<link_state, link_step>("Link", version)
    .run_ahead(10)
    .step(plain, end)
    .step(limited, {.limit = 10s}, end)
    .step(blocking, {.blocking = true}, end)
    .step(asynchronous,
          gd::actors::async([](gd::actors::async_context<link_state> ctx) {
            ctx->state.pid = getpid();
            ++ctx->state.n;
            ctx.self->delayed_send(ctx.self, 5ms, 1);
            ctx.self->become([ctx](int) { ctx.finish(gd::done(ctx->state)); });
          }))
    .step(chain,
          [mark](context& ctx) -> outcome {
            mark(ctx);
            return ctx.state.n < 5 ? gd::next(chain, ctx.state)
                                   : gd::next(chained, ctx.state);
          })
    .step(chained, end)
    .step(throws,
          [](context&) -> outcome { throw std::runtime_error("as it should"); })
    .step(overruns, {.blocking = true, .limit = 50ms},
          [hold](context& ctx) -> outcome {
            hold(ctx);
            return gd::done();
          })
    .step(overruns_long, {.blocking = true, .limit = 50ms},
          [release](context& ctx) -> outcome {
            std::fclose(std::fopen(begun_file(release, ctx.id).c_str(), "w"));
            while (!is_there(release))
              std::this_thread::sleep_for(1ms);
            return gd::done();
          })
    .step(collides,
          [mark](context& ctx) -> outcome {
            mark(ctx);
            return gd::next(plain, ctx.state);
          })
    .step(listens,
          [mark](context& ctx) -> outcome {
            if (auto said = ctx.take<std::string>("word")) {
              mark(ctx);
              ctx.state.note = *said;
              return gd::done(ctx.state);
            }
            return gd::await("word", ctx.state);
          })
    .step(holds, {.blocking = true},
          [mark, hold](context& ctx) -> outcome {
            mark(ctx);
            hold(ctx);
            return gd::done(ctx.state);
          })
    .step(
      dies,
      gd::actors::async([](const gd::actors::async_context<link_state>& ctx) {
        if (ctx->attempt == 0)
          caf::anon_send_exit(ctx.self, caf::exit_reason::kill);
        else
          ctx.finish(gd::done(ctx->state));
      }))
    .step(aborts, [](context&) -> outcome { std::abort(); })
    .step(sends, // the note tells to whom
          [mark](context& ctx) -> outcome {
            mark(ctx);
            return gd::done(ctx.state)
              .insert({.fsm = "Link",
                       .state = gd::to_json(link_state{.n = 1}),
                       .step = "chain",
                       .queue = "later"})
              .signal({.name = "word",
                       .payload = gd::to_json(std::string{"sent"}),
                       .key = ctx.state.note})
              .sql("insert into sent values ($1, $2)", ctx.id, ctx.state.pid)
              .expect_rows(1);
          })
    .on_error([](const failure& why, context& ctx) -> outcome {
      if (const auto* refused = why.refused()) {
        ctx.state.note = std::string{to_string(refused->kind)} + ' '
                         + std::to_string(refused->number);
        return gd::done(ctx.state);
      }
      ctx.state.pid = getpid();
      return gd::stop("handled by " + std::to_string(getpid()) + ": "
                      + why.message());
    });
}

} // namespace gd::test
