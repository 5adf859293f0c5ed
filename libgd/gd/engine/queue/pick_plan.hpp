#pragma once

#include <gd/pq/database.hpp>
#include <gd/store/store.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace gd {

/// What a queue's picks ask for, by what those before have answered: where they
/// begin, how deep they look, how many rows they want where there are keys, and
/// which keys they leave alone. Pure: no clock of its own.
class pick_plan {
public:
  using clock = database::clock;

  /// What is known of a pick until its answer comes.
  struct one {
    std::int32_t wanted = 0;
    /// It takes rows with a partition key, too.
    bool keyed = false;
    /// Some rows are left out, whose place is that of others.
    bool left_out = false;
    /// How often marks had been forgotten when it began.
    std::uint64_t forgotten = 0;
  };

  /// The next pick scans everything, as one does every two seconds. Others
  /// begin where the rows of the one before began, less a second for those whose
  /// insert commits late: what was worked off since the last vacuum, or was
  /// locked by strangers, is not passed over again and again.
  void scan_everything() {
    forget_marks();
    visit_ = false;
  }

  void forget_marks() {
    from_.clear();
    ++forgotten_;
  }

  /// Rows that a pick has taken may be back in their places. Whether keys are
  /// visited stays: what it took is asked for in the same way.
  void failed() {
    forget_marks();
    plenty_ = false;
  }

  /// The last pick took as many rows as it wanted, and saw none with a key: there
  /// may be more than those under way take.
  bool plenty() const noexcept {
    return plenty_;
  }

  /// There are rows with a key: they cost three statements more.
  bool keyed() const noexcept {
    return keyed_;
  }

  one begin(std::int32_t want, bool keyed, clock::time_point now);

  /// Fills in all that depends on picks before.
  void ask(store::pick_request& what, const one& x,
           clock::time_point now) const;

  /// Whether there may be more than it took.
  bool note(const one& x, const store::pick_answer& answer);

  /// Somebody else has the locks of these keys.
  void note_locked(const std::vector<std::string>& keys, clock::time_point now);

  /// It was picked.
  void note_free(const std::string& key) {
    locked_.erase(key);
  }

private:
  /// No hot loop.
  struct locked_key {
    int tries = 0;
    clock::time_point until{};
  };

  void remember(const one& x, const store::pick_answer& answer);

  /// Where picks begin, by priority.
  std::map<std::int32_t, store::mark> from_;
  /// How many rows a pick is to merge at least, and whether it is to visit keys in
  /// turn: strangers had locked those that it found at first.
  std::int32_t depth_ = 0;
  bool visit_ = false;
  /// Where there are keys, what a pick passes over is mostly rows of keys that execute.
  /// If looking deeper has not found twice as many, it is not done for two seconds,
  /// unless nothing at all is found.
  bool depth_pays_ = true;
  std::int32_t found_before_ = 0;
  /// How often marks were forgotten. A pick that began before tells nothing of what
  /// has come since.
  std::uint64_t forgotten_ = 0;
  clock::time_point full_scan_at_{};
  bool plenty_ = false;
  bool keyed_ = false;
  /// What a pick with keys wants at the most: twice as much as the last one if that
  /// was full, or a little more than it found. It looks at twice as many rows, and
  /// at as many keys if those have fewer, mostly in vain: of a key that executes.
  std::int32_t keyed_pick_ = std::numeric_limits<std::int32_t>::max();
  std::map<std::string, locked_key> locked_;
  std::string last_key_;
};

} // namespace gd
