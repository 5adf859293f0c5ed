#pragma once

#include <gd/network/wire/frames.hpp>
#include <gd/network/wire/secret.hpp>
#include <gd/network/wire/sockets.hpp>

#include <gd/event.hpp>
#include <gd/pq/complaints.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gd::actors {

/// How many messages of a peer an actor has taken out of its mailbox. The actor counts,
/// and wakes the relay at the number that it waits for.
struct peer_count {
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> wake_at{0};
  /// It has asked for more than its share: for a while it is read slowly.
  std::atomic<bool> refused{false};
};

/// How a peer is treated.
struct peer_rules {
  frame_rules frames{};
  /// The actor that takes what peers send, and counts.
  std::uint64_t counts = 0;
  /// A peer that says nothing for longer is gone, or frozen.
  std::chrono::milliseconds silence{20'000};
};

/// What a relay for those that come is told.
struct relay_settings {
  peer_rules rules{};
  /// Peers that have said who they are: of more, the idlest makes room.
  std::size_t connections = 64;
  /// How soon they have to say it, and before that to have shown the secret. Of those that
  /// have not, the oldest make room.
  std::chrono::milliseconds handshake{3'000};
  /// What they have to show; without one, where the system tells who they are, nothing.
  std::optional<shared_secret> secret{};
  /// Bytes of long messages, of all peers together: beyond them, the peer with the
  /// longest is cut off.
  std::size_t bytes = 16 << 20;
  /// Gives CAF its end of a connection to a node, which is named as it has named itself.
  std::function<std::shared_ptr<peer_count>(descriptor, const std::string&)>
    hand_over{};
  /// Nothing is left of the last connection of a node that was let in.
  std::function<void(const std::string&)> gone = [](const auto&) {};
  event_sink tell{};
};

/// A connection that this process has made.
struct made_connection {
  descriptor peer;
  /// The other end of what CAF has.
  descriptor caf;
  peer_rules rules;
  std::chrono::milliseconds handshake;
  /// Set when it ends, before CAF hears of that.
  std::shared_ptr<std::atomic<bool>> ends;
  /// Kept, or broken, when nothing is left of it.
  std::promise<void> over;
};

/// Stands between the sockets of all peers and CAF, on one thread: CAF sees one end of a
/// pair of sockets for each peer that has been let in and has said who it is, and there
/// whole frames. No peer can make it hold more than its share of memory or descriptors.
class relay {
public:
  /// With settings, it takes peers from a listener.
  relay();
  relay(relay_settings settings, descriptor listener);

  /// Ends all connections at once.
  ~relay();

  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  /// What is returned ends it, at any time and by any thread, also when there is no relay any
  /// more.
  std::function<void()> adopt(made_connection made);

  /// Takes no more peers. Those that there are stay.
  void close_listener();

  /// Takes nothing more from peers, lets CAF say what it has to say, and ends when they
  /// have read it, or read nothing for as long as `patience`.
  void finish(std::chrono::milliseconds patience);

  /// An actor has counted.
  void wake() const;

private:
  using clock = std::chrono::steady_clock;
  struct link;
  /// What one peer may have of what all of them have.
  struct shares {
    std::size_t window = 0;
    std::size_t slow_messages = 0;
  };
  using link_ptr = std::unique_ptr<link>;

  void run();
  /// What others have asked for; false: it ends.
  bool obey(clock::time_point now);
  void forget_those_gone();
  void share_out(clock::time_point now);
  void wait();
  void accept_some(clock::time_point now);
  void welcome(descriptor peer, clock::time_point now);
  void refuse_one(clock::time_point now);
  bool is_alone(const link& x, clock::time_point now);
  bool has_twin(const link& x) const;
  void admit(link& x, clock::time_point now);
  static bool is_stranger(const link_ptr& x);
  bool cut_idlest(clock::time_point now);
  void cut_oldest_stranger(clock::time_point now);
  void read_peer(link& x, clock::time_point now);
  void pass_frame(link& x, clock::time_point now);
  void read_caf(link& x, clock::time_point now);
  void write_peer(link& x, clock::time_point now);
  static void write_caf(link& x);
  void keep_to_times(link& x, clock::time_point now);
  void keep_to_bytes(clock::time_point now);
  /// The peer is gone, or is to go.
  void lose_peer(link& x, clock::time_point now);
  void cut(link& x, const std::string& why, clock::time_point now);
  void complain(const std::string& peer, const std::string& why,
                clock::time_point now);
  void lose_caf(link& x, clock::time_point now);

  std::optional<relay_settings> settings_;
  std::shared_ptr<const descriptor> wake_;

  std::mutex mutex_;
  std::vector<link_ptr> adopted_;
  bool listens_ = true;
  bool stops_ = false;
  std::optional<std::chrono::milliseconds> finishes_;

  // Of the thread alone.
  descriptor listener_;
  /// Given up for a moment where there is no other descriptor.
  descriptor spare_;
  clock::time_point accepts_at_;
  clock::time_point checked_at_;
  std::vector<link_ptr> links_;
  shares shares_;
  complaints complaints_;

  std::thread thread_;
};

} // namespace gd::actors
