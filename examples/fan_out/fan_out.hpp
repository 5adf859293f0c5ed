#pragma once

#include <gd/instance.hpp>
#include <gd/machine.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Counts the words of many texts: one instance makes another one for each text,
/// and adds up what they tell it. Parent and children are ordinary instances; a
/// child knows its parent's id.

// clang-format off
// [outbox]
/// How steps reach other instances: a client in the program, the harness itself
/// in tests.
struct outbox {
  std::function<std::vector<gd::result<gd::inserted>>(std::vector<gd::insert>)> insert_all;
  std::function<gd::result<gd::signalled>(gd::signal)> signal;
};
// [/outbox]

GD_ENUM(count_step, split, join);

struct count_state {
  std::vector<std::string> texts;
  std::size_t counted = 0;
  std::int64_t words = 0;
  GD_STATE(count_state, texts, counted, words);
};

struct total {
  std::int64_t words = 0;
  GD_STATE(total, words);
};

GD_ENUM(part_step, count, report);

struct part_state {
  std::int64_t parent = 0;
  std::size_t part = 0;
  std::string text;
  std::int64_t words = 0;
  GD_STATE(part_state, parent, part, text, words);
};

/// What a child tells its parent.
struct part_counted {
  std::int64_t words = 0;
  GD_STATE(part_counted, words);
};

// [split]
/// Makes the children. Runs again after a crash, and then finds them there: a
/// child's key is its own for ever, also when it is finished.
inline gd::outcome split(const outbox& out, gd::context<count_state>& ctx) {
  std::vector<gd::insert> parts;
  for (std::size_t i = 0; i < ctx.state.texts.size(); ++i)
    parts.push_back({
      .fsm = "CountPart",
      .state = gd::to_json(part_state{.parent = ctx.id, .part = i, .text = ctx.state.texts[i]}),
      .unique_key = "count/" + std::to_string(ctx.id) + "/" + std::to_string(i),
      .unique_scope = {"runnable", "executing", "awaiting_signal", "done", "failed"}});
  for (const auto& answer : out.insert_all(std::move(parts)))
    if (!answer) // a duplicate is no error
      throw std::runtime_error{to_string(answer.error())};
  return gd::next(count_step::join, ctx.state);
}
// [/split]

// [join]
/// Waits for the children. Each await has a timeout of its own: it is the time
/// without any news.
inline gd::outcome join(std::chrono::milliseconds patience, gd::context<count_state>& ctx) {
  while (auto part = ctx.take<part_counted>("part_counted")) {
    ctx.state.words += part->words;
    ++ctx.state.counted;
  }
  if (ctx.state.counted == ctx.state.texts.size())
    return gd::done(total{ctx.state.words});
  if (ctx.timed_out())
    return gd::stop(std::to_string(ctx.state.texts.size() - ctx.state.counted)
                    + " parts have not reported");
  return gd::await("part_counted", ctx.state).timeout(patience);
}
// [/join]

inline gd::outcome count(gd::context<part_state>& ctx) {
  std::istringstream in{ctx.state.text};
  std::string word;
  while (in >> word)
    ++ctx.state.words;
  return gd::next(part_step::report, ctx.state);
}

// [report]
/// Tells the parent. Runs again after a crash, and then is a duplicate.
inline gd::outcome report(const outbox& out, gd::context<part_state>& ctx) {
  auto told = out.signal({ctx.state.parent, "part_counted",
                          gd::to_json(part_counted{ctx.state.words}),
                          "part/" + std::to_string(ctx.state.part)});
  if (!told && told.error().code != gd::errc::target_finished) // it has given us up
    throw std::runtime_error{to_string(told.error())};
  return gd::done();
}
// [/report]

/// What could not be inserted or told is tried again; so a parent whose inbox is
/// full of its children's signals slows them down.
inline const gd::retry_options try_again{.attempts = 21};

/// Steps that talk to the database wait for it: on threads of their own.
inline gd::machine count_parent(outbox out, std::chrono::milliseconds patience
                                            = std::chrono::minutes{10}) {
  using context = gd::context<count_state>;
  return gd::define<count_state, count_step>("Count", /*version*/ 1)
    .step(count_step::split, {.blocking = true}, [out](context& ctx) { return split(out, ctx); })
    .step(count_step::join, [patience](context& ctx) { return join(patience, ctx); })
    .retry(try_again);
}

inline gd::machine count_part(outbox out) {
  using context = gd::context<part_state>;
  return gd::define<part_state, part_step>("CountPart", /*version*/ 1)
    .step(part_step::count, count)
    .step(part_step::report, {.blocking = true}, [out](context& ctx) { return report(out, ctx); })
    .retry(try_again);
}
// clang-format on
