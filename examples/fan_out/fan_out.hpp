#pragma once

#include <gd/instance.hpp>
#include <gd/machine.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// Counts the words of many texts: one instance makes another one for each text,
/// and adds up what they tell it. Parent and children are ordinary instances; a
/// child knows its parent's id.

// clang-format off
GD_ENUM(count_step, split, join);

struct count_state {
  std::vector<std::string> texts;
  std::size_t made = 0;
  std::size_t counted = 0;
  std::int64_t words = 0;
  GD_STATE(count_state, texts, made, counted, words);
};

struct total {
  std::int64_t words = 0;
  GD_STATE(total, words);
};

GD_ENUM(part_step, count, report);

struct part_state {
  std::int64_t parent = 0;
  std::string text;
  std::int64_t words = 0;
  GD_STATE(part_state, parent, text, words);
};

/// What a child tells its parent.
struct part_counted {
  std::int64_t words = 0;
  GD_STATE(part_counted, words);
};

// [split]
/// Makes the children, some with each outcome: in the transaction that commits it, so once.
inline gd::outcome split(gd::context<count_state>& ctx) {
  constexpr std::size_t at_once = 500;
  auto& x = ctx.state;
  auto first = std::exchange(x.made, std::min(x.made + at_once, x.texts.size()));
  auto out = gd::next(x.made < x.texts.size() ? count_step::split : count_step::join, x);
  for (auto i = first; i < x.made; ++i)
    out = std::move(out).insert(
      {.fsm = "CountPart",
       .state = gd::to_json(part_state{.parent = ctx.id, .text = x.texts[i]})});
  return out;
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
/// Tells the parent, once. One that has given up has ended: what it is told is dropped.
inline gd::outcome report(gd::context<part_state>& ctx) {
  return gd::done().signal({.target = ctx.state.parent,
                            .name = "part_counted",
                            .payload = gd::to_json(part_counted{ctx.state.words})});
}
// [/report]

/// A parent whose inbox stays full of its children's signals slows them down.
inline const gd::retry_options try_again{.attempts = 21};

inline gd::machine count_parent(std::chrono::milliseconds patience = std::chrono::minutes{10}) {
  using context = gd::context<count_state>;
  return gd::define<count_state, count_step>("Count", /*version*/ 1)
    .step(count_step::split, split)
    .step(count_step::join, [patience](context& ctx) { return join(patience, ctx); });
}

inline gd::machine count_part() {
  return gd::define<part_state, part_step>("CountPart", /*version*/ 1)
    .step(part_step::count, count)
    .step(part_step::report, report)
    .retry(try_again);
}
// clang-format on
