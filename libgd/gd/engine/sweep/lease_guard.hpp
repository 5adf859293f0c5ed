#pragma once

#include <gd/config.hpp>
#include <gd/pq/database.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace gd {

/// Whether a lease that is over may be taken as such: its node may live, and not have been
/// able to extend it. Pure: no clock of its own.
class lease_guard {
public:
  using clock = database::clock;
  using milliseconds = std::chrono::milliseconds;
  /// Since when there is a connection; nullopt: there is none.
  using connection_time = std::function<std::optional<clock::time_point>()>;

  lease_guard(const config& how, connection_time connected_since)
    : how_(how), connected_since_(std::move(connected_since)) {
    // nop
  }

  // -- what has happened ------------------------------------------------------

  /// A round of probes begins. A process that stood still has not seen who was locked.
  void begin(clock::time_point now) {
    if (now - probe_due_ > how_.lease / 2)
      forget();
  }

  /// It has not seen who is locked.
  void forget() {
    probing_since_.reset();
  }

  /// A unit that was sent then is answered.
  void answered(clock::time_point sent, clock::time_point now) {
    if (now - sent >= how_.heartbeat)
      answered_late_ = now;
  }

  /// Whether what is written waits for a standby, as a probe says.
  void note_standby(bool waits) {
    waits_for_standby_ = waits;
  }

  /// A probe, over all of its pages: who is locked, and whether any lease ends soon.
  void probed(const std::vector<std::int64_t>& locked, bool any_ends,
              clock::time_point now) {
    if (any_ends) {
      bool steady = has_just_probed(now);
      probed_at_ = now;
      if (!steady)
        answered_late_ = now;
    }
    if (!probing_since_)
      probing_since_ = now;
    for (auto& [id, until] : locked_)
      if (!until)
        until = now + grace;
    std::erase_if(locked_, [now](const auto& x) { return *x.second <= now; });
    for (auto id : locked)
      locked_[id] = std::nullopt;
  }

  /// A probe within a heartbeat is needed, whatever the interval is.
  void probe_soon() {
    probe_soon_ = true;
  }

  /// How long until the next probe, which is due then: `usual` at the most.
  milliseconds pause(milliseconds usual, clock::time_point now) {
    // For a standby twice in a heartbeat, so that probes follow each other as
    // has_just_probed() expects, however little a lease has beyond two of them.
    if (std::exchange(probe_soon_, false))
      usual = std::min<milliseconds>(usual, how_.heartbeat
                                              / (waits_for_standby_ ? 2 : 1));
    if (probing_since_ && !knows_locks(now))
      usual = std::min(
        usual, std::chrono::ceil<milliseconds>(*probing_since_ + grace - now));
    probe_due_ = now + usual;
    return usual;
  }

  // -- what may be done -------------------------------------------------------

  /// After an outage of the database every lease looks expired, and every node
  /// silent: living nodes get one heartbeat to say that they live.
  bool may_probe(clock::time_point now) const {
    auto since = connected_since_();
    return since && now - std::max(*since, answered_late_) >= how_.heartbeat;
  }

  /// It has seen for long enough who is locked.
  bool knows_locks(clock::time_point now) const {
    return probing_since_ && now - *probing_since_ >= grace;
  }

  bool may_reap(clock::time_point now) const {
    return may_probe(now) && has_just_probed(now) && knows_locks(now);
  }

  /// Whether a stranger has that row locked, or had just now.
  bool locked(std::int64_t id) const {
    return locked_.contains(id);
  }

  /// All those.
  std::vector<std::int64_t> locked() const {
    std::vector<std::int64_t> ids;
    for (const auto& [id, until] : locked_)
      ids.push_back(id);
    return ids;
  }

private:
  /// What a heartbeat has for a row that a stranger has let go: it tries every
  /// second.
  static constexpr milliseconds grace{3'000};

  /// Where heartbeats wait for a standby, they have not done so for so long that
  /// leases have ended by that: probes, which wait for it, too, were answered.
  bool has_just_probed(clock::time_point now) const {
    return !waits_for_standby_
           || now - probed_at_ <= how_.lease - how_.heartbeat;
  }

  const config& how_;
  connection_time connected_since_;
  /// When the database has last answered so late that others' heartbeats may have
  /// waited, too: for a standby, for example.
  clock::time_point answered_late_{};
  /// Heartbeats wait for a standby; and when the last probe that did so was answered.
  bool waits_for_standby_ = false;
  clock::time_point probed_at_{};
  /// Since when it has seen at each interval which rows are locked. Unset: it has not, and
  /// what it finds may just have been let go.
  std::optional<clock::time_point> probing_since_;
  clock::time_point probe_due_{};
  bool probe_soon_ = false;
  /// Rows that strangers have locked, and until when those are left alone that
  /// they have let go since: unset for those that they have not.
  std::map<std::int64_t, std::optional<clock::time_point>> locked_;
};

} // namespace gd
