#pragma once

#include <gd/effect.hpp>
#include <gd/event.hpp>
#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/options.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gd {

/// A queue that a node serves.
struct queue_config {
  std::string name = "default"; ///< as rows know it
  /// Steps that run at the same time on this node. 1 to 10,000.
  std::int32_t slots = 10;
  /// Prefetched rows at the most, for steps that end faster than a
  /// transaction takes: a few times as many as end in one. 0 to 10,000.
  std::int32_t prefetch = 3'000;
};

/// Everything that can be set about a node, with its defaults.
struct config {
  /// A libpq connection string or URI; empty means libpq's own defaults (PG*).
  std::string database{};
  /// Where the tables are.
  std::string schema = "public";
  /// This node's name in lease tokens and logs; empty means "host:pid".
  std::string node{};
  /// What this node can run. Rows of other machines and versions are left
  /// alone.
  std::vector<machine> machines{};
  /// The queues that this node serves; no other rows are picked.
  std::vector<queue_config> queues = {{}};

  /// How long a row stays with a node that has gone silent.
  std::chrono::milliseconds lease{60'000};
  /// How often leases are extended; below half of the lease.
  std::chrono::milliseconds heartbeat{20'000};
  /// How often an idle queue looks for work, and deadlines are swept.
  std::chrono::milliseconds poll{1'000};
  /// How often a node looks, between these, whether anybody has made a row due: by
  /// one statement for all of its queues. Zero: not at all.
  std::chrono::milliseconds probe{125};
  /// How often expired leases are looked for.
  std::chrono::milliseconds reaper{30'000};
  /// How much longer than its interval a sweep may wait, at random, so that
  /// nodes do not sweep in step: a part of it, 0 to 1.
  double jitter = 0.1;
  /// How many times longer the intervals of sweeps grow while they find nothing.
  /// 1 to 1,000; 1: not at all.
  std::int32_t sweep_backoff = 1;
  /// Whether one node sweeps for all that share the schema; another takes over
  /// when it goes.
  bool single_sweeper = false;
  /// How many trials of a step may end with its process, or executions with the
  /// step's own actor, until its instance is failed unrun. 0 to 1,000; 0: any
  /// number.
  std::int32_t max_crashes = 5;
  /// What a stop gives to steps that are under way.
  std::chrono::milliseconds stop_grace{10'000};
  /// How long a request to the gateway may wait until it is sent to the database,
  /// from its arrival on; shorter than its senders wait for an answer.
  std::chrono::milliseconds patience{8'000};

  /// How often a worker that has joined says that it lives, and what it wants.
  std::chrono::milliseconds worker_ping{1'000};
  /// After so long without a word a worker is taken to be gone, and it takes this node to
  /// be; at least twice as long as `worker_ping`.
  std::chrono::milliseconds worker_silence{5'000};

  /// Connections of this node: one for control, one for the gateway, the rest
  /// for queues. 3 to 100. The gateway's reads have one more, and `stats` another, until
  /// there has been nothing to read for 30 s.
  std::int32_t connections = 4;
  /// By the server, for each statement.
  std::chrono::milliseconds statement_timeout{30'000};
  /// For each attempt to connect.
  std::chrono::milliseconds connect_timeout{10'000};
  /// After a start without any connection for so long the engine gives up, and
  /// says why. Zero: it tries for ever.
  std::chrono::milliseconds connect_within{0};

  /// Rows in one transaction: outcomes, picks, inserts, signals. 1 to 10,000.
  std::int32_t rows_per_turn = 1'000;
  /// Bytes of states and payloads in one transaction, unless one row has more.
  std::int64_t bytes_per_turn = 8 << 20;
  /// Bytes of states and inboxes that all queues together hold of prefetched rows, and of
  /// outcomes to be written, unless one row has more; half is theirs in equal shares. 1 to 4 GiB.
  std::int64_t bytes_held = 16 << 20;
  /// Bytes of what the gateway is asked and has not answered, of three quarters of which a
  /// sender may have three times what is free; and half of what a peer of a published gateway may leave
  /// unread. Beyond them, requests are answered `overloaded`. 1 to 4 GiB.
  std::int64_t bytes_waiting = 64 << 20;
  /// Bounds of what a row may hold; more is refused.
  struct limits limits {};
  /// How statements of steps run.
  effect_settings effects{};

  /// Gets everything that happens.
  event_sink on_event = log_to_stderr();

  /// How old a request, and what has come of it, has to be that nobody sends it again:
  /// a gateway's client is patient, then the gateway, and ids are drawn a little ahead.
  std::chrono::microseconds resend_window() const noexcept {
    return 2 * patience + std::chrono::seconds{2};
  }

  /// The first thing that cannot work, as a sentence with field, value and what
  /// was expected: `invalid_argument`.
  result<void> validate() const;

  /// `incarnation` is what leases are told by: a node that has lost one can then
  /// be told by its sessions, too.
  pq::options connection_options(const std::string& incarnation = {}) const;
};

/// "host:pid".
std::string default_node_name();

/// "<node>/<random 128 bits>", the beginning of all lease tokens of a process.
std::string make_incarnation(const std::string& node);

} // namespace gd
