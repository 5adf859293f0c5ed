#pragma once

#include <gd/engine/intake/intake.hpp>
#include <gd/engine/queue/batch.hpp>
#include <gd/engine/queue/claim_slots.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gd {

/// Inserts: resolve what was left open, draw ids, insert under those. An insert
/// of unknown fate is sent again without duplicating. Those with a unique
/// key go in groups of their own: they may wait for a stranger's insert.
///
/// Each group draws as many ids as it has used, for the next one, so that most
/// groups take one unit. An id is used only after its draw's commit was heard of.
///
/// Rows that are due are claimed for their queue's picker if it has room for all of
/// the queue's in the group: the others then need not overtake any.
class insert_intake : public intake_base {
public:
  using request = insert;

  explicit insert_intake(intake_settings how);

  /// An error: refused at once, and no answer comes.
  result<void> add(std::uint64_t ticket, insert what);
  std::optional<pq::unit> begin(clock::time_point now);

  struct report {
    std::vector<answered_request<inserted>> answers;
    /// Queues that have new rows that may be due, for hints.
    std::vector<std::string> queues;
    /// Some rows are eligible since a time that was named, not since now.
    bool anywhere = false;
    /// How many ids it has drawn, less one for each row that is not due yet: to
    /// others, of whom nobody tells the pickers, those are the rest.
    std::int64_t drawn = 0;
    /// Of rows that were stored, or may have been: to be handed in to `claim_slots`.
    std::vector<claim_slots::claim> claims;
  };
  /// `withdrawn`: the unit was not sent, for the sake of its oldest requests; they
  /// all wait again.
  report finish(pq::reply reply, clock::time_point now, bool withdrawn = false);

  /// Answers requests up to `last` that wait to be sent.
  std::vector<answered_request<inserted>> give_up(std::uint64_t last, error why,
                                                  clock::time_point now);

  /// The oldest ticket of the unit under way.
  std::uint64_t oldest_sent() const;

  bool idle() const noexcept {
    return !under_way_ && unresolved_.empty() && resolved_.empty()
           && group_.entries.empty();
  }
  clock::time_point due(clock::time_point now) const;

  /// Of an owner that ends in the middle: nobody will read the answer.
  std::vector<claim_slots::claim> abandon();

private:
  struct entry {
    std::uint64_t ticket;
    /// The row's id is zero until it is sent.
    store::insert_row row;
    std::size_t size;
    int id_tries = 0;
    int locked_tries = 0;
    clock::time_point not_before{};

    std::int64_t key() const noexcept {
      return static_cast<std::int64_t>(ticket);
    }
    std::size_t bytes() const noexcept {
      return size;
    }
    bool unsure() const noexcept {
      return row.unique_key.has_value();
    }
  };

  /// An insert whose machine the program does not have, or whose version may be
  /// another, or that came behind one.
  struct unresolved_entry {
    std::uint64_t ticket;
    store::insert_row row;
    std::size_t size;
  };

  pq::unit send(std::size_t missing);
  void claim();
  std::vector<claim_slots::claim> end_claims(std::vector<entry>& group,
                                             const pq::reply& reply,
                                             bool drawing,
                                             clock::time_point now);
  /// Whether the failure is for the sake of some entries of the group: the others
  /// go on without them.
  bool fail_some(report& to, batcher<entry>::group& failed, const error& why,
                 clock::time_point now);
  /// A failure for nobody's sake: all try again, or are answered.
  void fail_all(report& to, std::vector<unresolved_entry> looking_up,
                std::vector<entry> group, const error& why, bool again);
  /// A version of the group is not to be inserted: they are looked up.
  void look_up_versions(std::vector<entry> group);
  void resolve_all(report& to, std::vector<unresolved_entry> looked_up,
                   const pq::reply& reply);
  /// `told`: what became of each row; null: they are all there.
  void read_group(report& to, std::vector<entry> group, const pq::rows* told);

  intake_settings how_;
  std::vector<unresolved_entry> unresolved_;
  /// Names of which a version is pinned or retired: all their inserts are looked up.
  std::set<std::string, std::less<>> looked_up_first_;
  batcher<entry> resolved_;
  /// Drawn and not used yet, and until when they are good.
  std::deque<store::drawn_id> ids_;
  clock::time_point ids_until_{};
  /// What the database's clock showed when ids were drawn last, and ours.
  struct {
    std::int64_t us = 0;
    clock::time_point at{};
  } clock_read_;
  // The unit under way:
  std::vector<unresolved_entry> looking_up_;
  bool drawing_ = false; ///< with its last call
  bool sending_ = false; ///< the group's rows
  /// Sent, or waiting for ids to be sent next.
  batcher<entry>::group group_;
  /// The unit tells what became of each row.
  bool asking_ = false;
  /// The group's claims, by queue.
  std::map<std::string, claim_slots::claim, std::less<>> claims_;
};

} // namespace gd
