#pragma once

#include <gd/machine.hpp>

#include <cstdint>
#include <vector>

/// A machine that walks, in three versions, of which each converts the states of those before
/// it: for tests that upgrade what runs.
namespace gd::test {

GD_ENUM(walk_step, walk, wait);

inline constexpr std::int64_t way = 20;

/// Counts its steps, and how often it was converted.
struct walk_v1 {
  std::int64_t done = 0;
  std::int64_t moved = 0;
  GD_STATE(walk_v1, done, moved);
};

struct walk_v2 {
  std::int64_t walked = 0;
  std::int64_t moved = 0;
  GD_STATE(walk_v2, walked, moved);
};

struct walk_v3 {
  std::int64_t left = way;
  std::int64_t moved = 0;
  GD_STATE(walk_v3, left, moved);
};

inline walk_v2 second_walk(walk_v1 x) {
  return {x.done, x.moved + 1};
}

inline walk_v3 third_walk(walk_v2 x) {
  return {way - x.walked, x.moved + 1};
}

template <class State, class F>
gd::machine_builder<State, walk_step> walks(std::int32_t version, F go) {
  using context = gd::context<State>;
  return gd::define<State, walk_step>("Walks", version)
    .step(
      walk_step::walk,
      [go](context& ctx) {
    return gd::next(go(ctx.state) ? walk_step::walk : walk_step::wait,
                    ctx.state);
      })
    .step(walk_step::wait, [](context& ctx) -> gd::outcome {
      if (ctx.take_raw("end"))
        return gd::done(ctx.state);
      return gd::await("end", ctx.state);
    });
}

inline std::vector<gd::machine> all_walks() {
  return {walks<walk_v1>(1, [](walk_v1& x) { return ++x.done < way; }),
          walks<walk_v2>(2, [](walk_v2& x) { return ++x.walked < way; })
            .from<walk_v1, 1>(second_walk),
          walks<walk_v3>(3, [](walk_v3& x) { return --x.left > 0; })
            .from<walk_v1, 1>(second_walk)
            .from<walk_v2, 2>(third_walk)};
}

} // namespace gd::test
