#pragma once

#include <gd/engine/queue/quarantine.hpp>
#include <gd/registry.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace gd {

/// Whether anything may begin in a queue now, and why not: whoever lets something
/// begin asks here, and minds all reasons but those that the question leaves out. How
/// many may begin, `pace` says. Sends nothing, and keeps no rows.
class gate {
public:
  enum class reason : std::uint8_t {
    draining,  ///< the node stops
    paused,    ///< operators have paused the queue
    withdrawn, ///< the node does not serve its machine any more, or none at all
    trial,     ///< a suspect of this process runs alone, or is to
    crashes,   ///< the row has had its last trial: it is not run again
    no_slot,   ///< all are taken
  };
  /// Nullopt: it may.
  using answer = std::optional<reason>;

  struct settings {
    std::int32_t slots = 1;
    /// 0: rows are run however often their process ends.
    std::int32_t max_crashes = 0;
    std::shared_ptr<const registry> machines;
    /// Of the whole node.
    std::shared_ptr<const quarantine> suspects;
  };

  explicit gate(settings how)
    : how_(std::move(how)), serves_(!how_.machines->keys().empty()) {
    // nop
  }

  // -- what has happened ------------------------------------------------------

  void drain() {
    draining_ = true;
  }

  /// Operators have, or have not, paused the queue. Returns whether they had.
  bool pause(bool now) {
    return std::exchange(paused_, now);
  }

  /// Some machines are withdrawn: rows of theirs may still come in.
  void withdraw() {
    some_withdrawn_ = true;
    serves_ = !how_.machines->keys().empty();
  }

  // -- what follows from that -------------------------------------------------

  /// Rows that lie in the table.
  answer why_not_pick() const {
    return serves_ ? why_not_any() : reason::withdrawn;
  }

  /// Rows of inserts of this node. One that stops has closed the slots, and rows of
  /// machines that are withdrawn are not inserted any more.
  answer why_not_claim() const {
    if (paused_)
      return reason::paused;
    return why_not_beside_trial();
  }

  /// A row that was picked, or the next step of one. `on_trial`: it is what all others
  /// wait for. Whether there is a slot is another question: a worker may have it.
  answer why_not_begin(const store::picked_row& row,
                       bool on_trial = false) const {
    if (auto why = on_trial ? why_not_here() : why_not_any())
      return why;
    // None was withdrawn, mostly: no row is looked up for that.
    if (some_withdrawn_ && !how_.machines->find(row.fsm, row.fsm_version))
      return reason::withdrawn;
    // Whoever has begun the step anew by hand may have left the trials of the last one.
    if (how_.max_crashes > 0
        && std::min(row.trials, row.attempt) >= how_.max_crashes)
      return reason::crashes;
    return {};
  }

  /// Another step beside so many that have a slot. A worker that holds nothing makes up
  /// for one.
  answer why_no_slot(std::int32_t taken, bool idle_worker = false) const {
    if (taken < how_.slots || idle_worker)
      return {};
    return reason::no_slot;
  }

private:
  answer why_not_here() const {
    if (draining_)
      return reason::draining;
    if (paused_)
      return reason::paused;
    return {};
  }

  answer why_not_beside_trial() const {
    if (how_.suspects->held())
      return reason::trial;
    return {};
  }

  answer why_not_any() const {
    auto why = why_not_here();
    return why ? why : why_not_beside_trial();
  }

  settings how_;
  bool serves_;
  bool draining_ = false;
  bool paused_ = false;
  bool some_withdrawn_ = false;
};

} // namespace gd
