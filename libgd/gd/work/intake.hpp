#pragma once

#include <gd/instance.hpp>
#include <gd/pq/store.hpp>
#include <gd/registry.hpp>
#include <gd/work/batch.hpp>
#include <gd/work/claim.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// How inserts and signals of many senders share transactions. Plain state
/// machines like the turn, driven by the gateway actor and by the blocking
/// client alike: send what `begin` returns, hand the reply to `finish`.
namespace gd {

struct intake_settings {
  /// Machines that this program has; others are looked up in the database.
  std::shared_ptr<const registry> machines = std::make_shared<registry>();
  struct limits limits {};
  std::size_t rows = 2'000;
  std::size_t bytes = 8 << 20;
  /// Bytes that wait here at the most, what is under way included: beyond them,
  /// what comes is `overloaded`. One alone may have more.
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
  /// False: what is busy, or failed and might pass, is told at once instead of
  /// being tried again.
  bool patient = true;
  /// Under which leases inserts may begin, and where they ask for it.
  struct claims {
    std::shared_ptr<claim_desk> desk;
    /// "<node>/<incarnation>"; numbers are appended, from this one on [A1].
    std::string incarnation;
    std::uint64_t next = 1;
    std::chrono::milliseconds lease{60'000};
  };
  /// Nullopt: what is inserted waits for a pick.
  std::optional<claims> claiming{};
};

/// The end of one request. `ticket` is the sender's own number for it; numbers
/// grow.
template <class T>
struct settled_request {
  std::uint64_t ticket;
  result<T> answer;
};

/// What both intakes share: what waits, counted, and how long after which failure
/// it is tried again.
class intake_base {
public:
  using clock = database::clock;

  bool under_way() const noexcept {
    return under_way_;
  }

  /// Of what is accepted and not answered.
  std::size_t waiting_bytes() const noexcept {
    return waiting_bytes_;
  }

protected:
  explicit intake_base(std::size_t most_bytes) : most_bytes_(most_bytes) {
    // nop
  }

  /// `overloaded`: that much does not fit beside what waits.
  result<void> room_for(std::size_t bytes) const;

  /// The end of an entry.
  template <class Report, class Entry, class Answer>
  void answer(Report& to, const Entry& x, Answer what) {
    waiting_bytes_ -= x.size;
    to.answers.push_back({x.ticket, std::move(what)});
  }

  /// Whether the group should be sent again; if not, its entries are answered
  /// with `why`.
  bool try_again(const error& why, clock::time_point now);

  bool under_way_ = false;
  int failures_ = 0;
  clock::time_point not_before_{};
  std::size_t most_bytes_;
  std::size_t waiting_bytes_ = 0;
};

/// Inserts: resolve what was left open, draw ids, insert under those. An insert
/// of unknown fate is sent again without duplicating [A11]. Those with a unique
/// key go in groups of their own: they may wait for a stranger's insert [A7].
///
/// Each group draws as many ids as it has used, for the next one, so that most
/// groups take one unit. An id is used only after its draw's commit was heard of.
///
/// Rows that are due are claimed for their queue's picker if it has room for all of
/// the queue's in the group: the others then need not overtake any.
class insert_intake : public intake_base {
public:
  explicit insert_intake(intake_settings how);

  /// An error: refused at once, and no answer comes.
  result<void> add(std::uint64_t ticket, insert what);
  std::optional<pq::unit> begin(clock::time_point now);

  struct report {
    std::vector<settled_request<inserted>> answers;
    /// Queues that have new rows that may be due, for hints.
    std::vector<std::string> queues;
    /// Some are eligible since a time that was named, not since now.
    bool anywhere = false;
    /// Of the rows that it has stored, or may have: to be settled at the desk.
    std::vector<claim_desk::claim> claims;
  };
  /// `withdrawn`: the unit was not sent, for the sake of its oldest requests; they
  /// all wait again.
  report finish(pq::reply reply, clock::time_point now, bool withdrawn = false);

  /// Answers requests up to `last` that wait to be sent.
  std::vector<settled_request<inserted>> give_up(std::uint64_t last, error why,
                                                 clock::time_point now);

  /// Of the unit under way.
  std::uint64_t oldest_sent() const;

  bool idle() const noexcept {
    return !under_way_ && unresolved_.empty() && resolved_.empty()
           && group_.entries.empty();
  }
  clock::time_point due(clock::time_point now) const;

  /// Of an owner that ends in the middle: nobody will read the answer.
  std::vector<claim_desk::claim> abandon();

private:
  struct entry {
    std::uint64_t ticket;
    /// Its id is zero until it is sent.
    store::insert_row row;
    std::size_t size;
    /// It has been sent before, and its fate is unknown.
    bool resent = false;
    int id_tries = 0;
    int busy_tries = 0;
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

  /// An insert whose machine the program does not have, or that came behind one.
  struct unresolved_entry {
    std::uint64_t ticket;
    insert what;
    std::size_t size;
  };

  result<void> check(const insert& x) const;
  static result<store::insert_row> resolve(insert x, const machine& by);
  static result<store::insert_row>
  resolve(insert x, const std::vector<store::known_machine>& known);
  pq::unit send(std::size_t missing);
  void claim();
  std::vector<claim_desk::claim>
  end_claims(std::vector<entry>& group, const pq::reply& reply, bool drawing);

  intake_settings how_;
  std::vector<unresolved_entry> unresolved_;
  batcher<entry> resolved_;
  /// Drawn and not used yet, and until when they are good.
  std::deque<store::drawn_id> ids_;
  clock::time_point ids_until_{};
  // The unit under way:
  std::vector<unresolved_entry> looking_up_;
  bool drawing_ = false; ///< with its last call
  bool sending_ = false; ///< the group's rows
  /// Sent, or to be sent next: it waits for ids.
  batcher<entry>::group group_;
  /// It tells what became of each row.
  bool asking_ = false;
  /// By queue: those of its rows.
  std::map<std::string, claim_desk::claim, std::less<>> claims_;
};

/// Signals: lock the targets, store, wake [A2].
class signal_intake : public intake_base {
public:
  explicit signal_intake(intake_settings how);

  /// An error: refused at once, and no answer comes.
  result<void> add(std::uint64_t ticket, signal what);
  std::optional<pq::unit> begin(clock::time_point now);

  struct report {
    std::vector<settled_request<signalled>> answers;
    /// Queues that may have something to pick, for hints.
    std::vector<std::string> queues;
    /// It is eligible since now.
    static constexpr bool anywhere = false;
  };
  /// `withdrawn`: the unit was not sent, for the sake of its oldest requests; they
  /// all wait again.
  report finish(pq::reply reply, clock::time_point now, bool withdrawn = false);

  /// Answers requests up to `last` that wait to be sent.
  std::vector<settled_request<signalled>> give_up(std::uint64_t last,
                                                  error why);

  /// Of the unit under way.
  std::uint64_t oldest_sent() const;

  bool idle() const noexcept {
    return !under_way_ && waiting_.empty();
  }
  clock::time_point due(clock::time_point now) const;

private:
  struct entry {
    std::uint64_t ticket;
    signal what;
    std::size_t size;
    /// Makes every signal its own key: several to one target share a group.
    std::int64_t number;
    /// It has been sent before, and its fate is unknown.
    bool resent = false;
    int busy_tries = 0;
    clock::time_point not_before{};

    std::int64_t key() const noexcept {
      return number;
    }
    std::size_t bytes() const noexcept {
      return size;
    }
    bool unsure() const noexcept {
      return false;
    }
  };

  intake_settings how_;
  batcher<entry> waiting_;
  batcher<entry>::group group_;
  std::int64_t numbers_ = 0;
};

} // namespace gd
