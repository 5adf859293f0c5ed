#pragma once

#include <gd/actors/node/node.hpp>

#include <gd/pq/complaints.hpp>

#include <caf/event_based_actor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gd::actors {

/// Extends all leases of the node, a few statements per interval, and says that
/// the node lives. Detached, and straight through the reactor: user code on CAF's
/// threads cannot starve it.
class heartbeat_actor : public caf::event_based_actor {
public:
  heartbeat_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.heartbeat";
  }

private:
  /// All leases; those of rows that strangers have locked; one of these, waiting
  /// for the lock.
  enum class kind : std::uint8_t { regular, locked, alone };
  struct beat_under_way {
    std::vector<lease_ptr> leases;
    kind what = kind::regular;
    database::clock::time_point sent{};
  };

  bool has_under_way(bool of_regular) const;
  void begin_beat();
  void extend_all();
  void extend_again();
  void extend_locked();
  void extend(std::vector<lease_ptr> which, kind what);
  void submit_beat(beat_under_way what);
  void say_alive();
  void finish(std::uint64_t ticket, pq::reply reply);
  void fail(beat_under_way which, const error& why);
  void complain(std::string_view about, const error& why);
  void lose(std::vector<lease_ptr> which);

  node_ptr home_;
  /// Those below the number of connection slots are of connection slots that say that the
  /// node lives.
  std::uint64_t tickets_;
  std::unordered_map<std::uint64_t, beat_under_way> under_way_;
  /// Until a beat that has failed is tried again; zero: none has since the last
  /// regular one.
  std::int64_t failures_ = 0;
  /// Since when all leases are being extended; nullopt: some could not be.
  std::optional<database::clock::time_point> extending_since_;
  bool retrying_ = false;
  /// Rows that have failed each by itself since the last regular beat.
  std::size_t refused_ = 0;
  /// Connection slots that have not answered yet when they were to say that the node
  /// lives.
  std::set<std::size_t> saying_;
  /// Of what is tried again and again.
  complaints complaints_;
  /// Of rows that strangers have locked: each once, those first that have waited
  /// for their lock longest ago.
  std::vector<lease_ptr> locked_;
};

} // namespace gd::actors
