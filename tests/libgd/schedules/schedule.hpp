#pragma once

#include <gd/store/store.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// Schedules as data: what happens in one, how it is told, how one is made of a seed.
namespace schedules_suite {

using namespace std::literals;
using write_kind = gd::store::write_kind;

inline constexpr std::size_t node_count = 3;
inline constexpr std::size_t sender_count = 2;
inline constexpr std::size_t party_count = node_count + sender_count;
inline constexpr std::size_t slot_count = 6; // of instances

enum class act : std::uint8_t {
  insert,
  outcome,
  turn,
  heartbeat,
  signal,
  cut,
  late,
  crash,
  elapse,
  reap,
  wake,
  expire,   ///< sweeps: what is to be deleted,
  forget,   ///< and dedup keys
  move,     ///< a transition from outside
  operate,  ///< an operator's verb
  job,      ///< the same for all that fit
  rewind,   ///< back to an entry of its history
  pause,    ///< of the queue; or it goes on
  hand_out, ///< a row goes to a worker
  report,   ///< what that one says comes in, twice maybe
};

/// What a schedule may be about beside what each is. Of a seed some are: where all are
/// in each, none gets far.
enum class feature : std::uint8_t {
  keep,    ///< instances that are deleted some time after their end, or with it
  outside, ///< transitions
  verbs,   ///< of operators, jobs too
  rewinds,
  keys, ///< targets that are named by their unique key
  pauses,
  workers,
  sends, ///< outcomes that carry signals
};

using features = unsigned;
constexpr features only(feature x) {
  return 1U << static_cast<unsigned>(x);
}
constexpr bool has(features all, feature x) {
  return (all & only(x)) != 0;
}

/// What the numbers mean depends on `what`; each is taken modulo what there is
/// to choose from. One that does not apply does nothing.
struct action {
  act what = act::turn;
  unsigned who = 0;   ///< node, sender or either
  unsigned which = 0; ///< instance, or number of a row that the node holds
  unsigned a = 0;
  unsigned b = 0;
  /// Zero without a feature: of an insert, how its instance is kept; of what has a target,
  /// whether that is named by its key; of an outcome, whom it signals.
  unsigned c = 0;
};

using schedule = std::vector<action>;

inline constexpr std::array keys{"", "", "k", "l"};
/// Statuses in which the one unique key is taken.
inline constexpr std::array scopes{"", "", "runnable,executing,awaiting_signal",
                                   "runnable", "runnable,awaiting_signal"};
inline constexpr std::array names{"paid", "sent"};
inline constexpr std::array write_kinds{
  write_kind::next,   write_kind::next,  write_kind::next,
  write_kind::replay, write_kind::await, write_kind::await,
  write_kind::done,   write_kind::stop,  write_kind::release};

/// With a partition key, an instance keeps its unique key while it executes.
inline std::string scope_of(const action& x) {
  std::string scope = scopes[x.b % scopes.size()];
  bool keyed = *keys[x.a % keys.size()] != '\0';
  return keyed && !scope.empty() ? scopes[2] : scope;
}

/// Whether an insert begins under a lease, if its node hears of it.
inline bool claims(const action& x) {
  return *keys[x.a % keys.size()] == '\0' && scope_of(x).empty()
         && x.b / 8 % 2 == 1;
}

/// What is kept of an instance's transitions: a `gd::history`.
inline std::int16_t history_of(const action& x) {
  constexpr std::array<std::int16_t, 4> histories{0, 0, 1, 2};
  return claims(x) ? 0 : histories[x.b / 64 % histories.size()];
}

inline bool loses_claim(const action& x) {
  return x.b / 16 % 3 == 0;
}

inline write_kind write_kind_of(const action& x) {
  return write_kinds[x.a % write_kinds.size()];
}

/// How an instance is kept that has ended, by the version of its machine.
struct kept {
  const char* title;
  /// For how long, in minutes; -1: for ever.
  int minutes;
};
inline constexpr std::array kept_by_version{
  kept{"", -1}, kept{", kept for 90 minutes", 90},
  kept{", deleted with its end", 0}, kept{", kept for 10 minutes", 10}};
/// Nothing is deleted that is younger; nor is a dedup key forgotten.
inline constexpr int young_minutes = 60;

inline std::int32_t version_of(const action& x) {
  return 1 + static_cast<std::int32_t>(x.c % kept_by_version.size());
}

/// What an operator does.
inline constexpr std::array acts{"retry", "stop", "run_now", "move"};
inline std::string act_of(const action& x) {
  return acts[x.a % acts.size()];
}

/// A step where an instance rests, and one that ends it: transitions lead there.
inline constexpr auto resting_step = "s900";
inline constexpr auto final_step = "s990";
inline constexpr std::array steps_outside{"s0", resting_step, final_step, "s5",
                                          "nowhere"};

/// Of an outcome that signals somebody: whom, under what name, and whether one that has ended
/// refuses it.
struct sending {
  std::size_t target;
  const char* name;
  bool or_fail;
};
inline sending sending_of(unsigned c) {
  return {(c - 1) % slot_count, names[c & 1U], (c - 1) / slot_count % 2 == 1};
}

inline std::string party_name(std::size_t i) {
  return i < node_count ? "node " + std::to_string(i)
                        : "sender " + std::to_string(i - node_count);
}

inline std::string told_insert(const action& x, const std::string& node) {
  std::string out;
  if (std::string key = keys[x.a % keys.size()]; !key.empty())
    out += ", partition key " + key;
  if (auto scope = scope_of(x); !scope.empty())
    out += ", unique while " + scope;
  if (auto history = history_of(x); history > 0)
    out += history == 1 ? ", with history" : ", with states in its history";
  out += kept_by_version[x.c % kept_by_version.size()].title;
  if (claims(x))
    return out + ", claimed by " + node
           + (loses_claim(x) ? ", which loses the answer" : "");
  return out + (x.who % 4 == 3 ? ", sent twice" : "");
}

/// What is told of those that only features bring.
inline std::string told_more(const action& x, const std::string& instance,
                             const std::string& pause) {
  auto number = [](std::size_t n) { return std::to_string(n); };
  auto node = party_name(x.who % node_count);
  switch (x.what) {
    case act::expire:
      return "what is over is deleted";
    case act::forget:
      return "dedup keys are forgotten";
    case act::move:
      return party_name(node_count + x.who % sender_count) + ": " + instance
             + " moves to " + steps_outside[x.a % steps_outside.size()]
             + " (choices " + number(x.b) + ")" + pause;
    case act::operate:
      return act_of(x) + " " + instance;
    case act::job:
      return act_of(x) + " all";
    case act::rewind:
      return "rewind " + instance + " to its entry " + number(x.b);
    case act::pause:
      return "the queue is paused, or goes on";
    case act::hand_out:
      return node + ": its row " + number(x.which) + " goes to a worker";
    case act::report:
      return node + ": a worker says of row " + number(x.which) + " "
             + std::string{gd::store::to_string(write_kind_of(x))}
             + " (choices " + number(x.b) + ")"
             + (x.c % 2 == 1 ? ", twice" : "");
    default:
      return {};
  }
}

inline std::string to_string(const action& x) {
  auto number = [](std::size_t n) { return std::to_string(n); };
  auto node = party_name(x.who % node_count);
  auto party = party_name(x.who % party_count);
  auto instance = "instance " + number(x.which % slot_count);
  auto pause = [&](unsigned n) {
    return n == 0 ? ", to its end"s : ", " + number(n) + " statements of it";
  };
  bool named = x.c % 2 == 1;
  auto target = named ? "who has the key" : instance;
  switch (x.what) {
    case act::insert:
      return "insert " + instance + told_insert(x, node);
    case act::outcome: {
      auto out = node + ": its row " + number(x.which) + " ends with "
                 + std::string{gd::store::to_string(write_kind_of(x))};
      if (write_kind_of(x) == write_kind::await)
        out += " "s + names[(x.b >> 8U) & 1U]
               + ((x.b >> 8U & 8U) != 0 ? ", or any" : "");
      if (x.c > 0) {
        auto [whom, name, or_fail] = sending_of(x.c);
        out += ", signals "s + name + " to instance " + number(whom)
               + (or_fail ? ", or fails" : "");
      }
      return out + " (choices " + number(x.b) + ")";
    }
    case act::turn:
      return node + ": turn on line " + number(x.b % 2) + ", wants "
             + number(x.which % 4) + pause(x.a % 8);
    case act::heartbeat:
      return node + ": heartbeat" + (x.a % 2 == 1 ? ", lost rows dropped" : "");
    case act::signal:
      return party_name(node_count + x.who % sender_count) + ": signal "
             + names[x.a & 1U] + " to " + target
             + ((x.a >> 1U) % 3 > 0 ? ", dedup key " + number((x.a >> 1U) % 3)
                                    : ""s)
             + (x.a >= 12 && !named ? ", and one to the next" : "")
             + pause(x.b % 3);
    case act::cut:
      return party + ": connection " + number(x.b % 2) + " lost, "
             + std::array{"rolled back", "committed all the same",
                          "the server is still at it"}[x.a % 3];
    case act::late:
      return party + ": what was cut off on line " + number(x.b % 2) + " is "
             + (x.a % 2 == 0 ? "rolled back" : "committed") + " now";
    case act::crash:
      return node + ": crash"
             + (x.a % 2 == 1 ? ", the last pick released" : "");
    case act::elapse:
      return "two hours pass for " + instance;
    case act::reap:
      return "reap";
    case act::wake:
      return "wake";
    default:
      return told_more(x, target, pause(x.b % 3));
  }
}

/// What features are about begins where an instance has been woken, has failed at its second
/// try, or has had a signal with a dedup key: many schedules begin so.
inline void add_beginning(schedule& to, features which, std::uint64_t seed) {
  std::mt19937_64 random{seed ^ 0x517cc1b727220a95U};
  auto roll = [&random](std::size_t n) {
    return static_cast<unsigned>(random() % n);
  };
  auto moved = only(feature::outside) | only(feature::verbs)
               | only(feature::rewinds);
  unsigned node = roll(node_count);
  unsigned name = roll(2);
  action pick{act::turn, node, 3};
  action awaits{act::outcome, node, 0, 4, name << 8U};
  action takes{act::outcome, node, 0, roll(9), 0xffU};
  action again{act::outcome, node, 0, 3};
  action stops{act::outcome, node, 0, 7};
  action writes{act::turn, node, 0};
  action paid{act::signal, 0, to.front().which, name | roll(3) << 1U};
  schedule begin;
  auto how = roll(4);
  if ((which & moved) != 0 && how < 2)
    begin = {pick, awaits, writes, paid};
  else if ((which & moved) != 0 && how == 2)
    begin = {pick, again, writes, pick, stops, writes};
  else if (has(which, feature::keep) && roll(2) == 0)
    begin = {paid, pick, takes, writes};
  to.insert(to.end(), begin.begin(), begin.end());
}

/// Of the features of a schedule, so many actions more, behind the first that it `begun`
/// with.
inline void add_features(schedule& to, std::size_t begun, features which,
                         std::uint64_t seed) {
  std::mt19937_64 random{seed ^ 0x9e3779b97f4a7c15U};
  auto roll = [&random](std::size_t n) {
    return static_cast<unsigned>(random() % n);
  };
  // Mostly behind one of these, if there are any, of the same instance: what it has just
  // begun is what may go wrong.
  auto add = [&](act what, act behind, unsigned c = 0) {
    std::size_t at = 0;
    for (int tries = 0; tries < 5; ++tries) {
      at = begun + roll(to.size() + 1 - begun);
      if (at > 0 && to[at - 1].what == behind)
        break;
    }
    action x{what, roll(60), roll(slot_count), roll(36), roll(4096), c};
    if (at > 0 && to[at - 1].what == act::signal)
      x.which = to[at - 1].which;
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(at), x);
  };
  bool named = has(which, feature::keys);
  for (auto& x : to) {
    if (x.what == act::insert && has(which, feature::keep))
      x.c = roll(kept_by_version.size());
    if (x.what == act::signal && named)
      x.c = roll(2);
    if (x.what == act::insert && has(which, feature::rewinds) && roll(2) == 0)
      x.b |= 3U << 6U; // so that there are entries with states
    if (x.what == act::insert && named && roll(2) == 0)
      x.b = x.b - x.b % scopes.size() + 2 + roll(3); // so that there is one
  }
  for (unsigned i = 0, n = 2 + roll(4); i < n; ++i) {
    if (has(which, feature::keep)) {
      add(act::expire, act::elapse);
      add(act::forget, act::turn);
      if (roll(2) == 0)
        add(act::elapse, act::turn);
    }
    if (has(which, feature::outside))
      add(act::move, act::signal, named ? roll(2) : 0);
    if (has(which, feature::verbs))
      add(roll(4) == 0 ? act::job : act::operate, act::signal,
          named ? roll(2) : 0);
    if (has(which, feature::rewinds))
      add(act::rewind, act::signal, named ? roll(2) : 0);
    if (has(which, feature::pauses))
      add(act::pause, act::turn);
    if (has(which, feature::workers)) {
      add(act::hand_out, act::turn);
      add(act::report, act::turn, roll(2));
    }
  }
  if (has(which, feature::sends))
    for (auto& x : to)
      if (x.what == act::outcome && roll(2) == 0)
        x.c = 1 + roll(2 * slot_count);
}

/// Those of a seed: each is in half of all schedules.
inline features features_of(std::uint64_t seed) {
  std::mt19937_64 random{~seed};
  auto sends = only(feature::sends);
  auto others = static_cast<features>(random() % sends);
  return others | (random() % 2 == 0 ? sends : 0);
}

inline schedule make_schedule(std::uint64_t seed, features which) {
  std::mt19937_64 random{seed};
  auto roll = [&random](std::size_t n) {
    return static_cast<unsigned>(random() % n);
  };
  schedule out;
  auto add = [&](act what) {
    out.push_back({what, roll(60), roll(slot_count), roll(36), roll(4096)});
  };
  for (unsigned i = 0, n = 1 + roll(3); i < n; ++i) {
    add(act::insert);
    out.back().which = i;
  }
  if (roll(3) == 0) {
    // A node has two outcomes, and begins one transaction beside the other.
    auto node = roll(node_count);
    for (auto what :
         {act::turn, act::outcome, act::turn, act::outcome, act::turn}) {
      add(what);
      out.back().who = node;
      out.back().b |= 1U;
    }
    auto& first = out[out.size() - 5];
    first.which = 3;
    first.a = 0;
    out[out.size() - 3].a = 1 + roll(3);
  } else {
    add_beginning(out, which, seed);
  }
  auto begun = out.size();
  // Shorter ones say as much in less time.
  auto length = out.size() + 10 + std::min(roll(29), roll(29));
  while (out.size() < length) {
    auto dice = roll(100);
    if (dice < 5)
      add(act::insert);
    else if (dice < 27)
      add(act::outcome);
    else if (dice < 57)
      add(act::turn);
    else if (dice < 61)
      add(act::heartbeat);
    else if (dice < 75)
      add(act::signal);
    else if (dice < 79)
      add(act::cut);
    else if (dice < 81)
      add(act::late);
    else if (dice < 82)
      add(act::crash);
    else if (dice < 90)
      add(act::elapse);
    else if (dice < 95)
      add(act::reap);
    else
      add(act::wake);
    if (out.back().what == act::turn && roll(3) > 0)
      out.back().a = 0; // most are not interrupted
  }
  add_features(out, begun, which, seed);
  return out;
}

} // namespace schedules_suite
