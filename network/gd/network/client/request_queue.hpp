#pragma once

#include <gd/actors/node/size.hpp>
#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/operate.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// What a program without a database has asked a gateway elsewhere, over connections that
/// come and go.
namespace gd {

/// What becomes of a request that is sent a second time.
enum class asked_twice : std::uint8_t {
  reads,   ///< nothing: it only asks
  repeats, ///< the same: a key tells that it has been there
  acts,    ///< it may happen a second time
};

/// Which keys are trusted with that.
enum class keys_trusted : std::uint8_t {
  all, ///< also those that an instance leaves when it ends
  /// Those that no end of an instance frees: dedup keys of signals by id, unique keys whose
  /// scope has `done` and `failed`.
  lasting,
};

/// What has to be known of a request while it is not answered.
struct pending_request {
  asked_twice twice = asked_twice::acts;
  std::size_t bytes = 0; ///< about; that it takes while it waits
  /// It waits for something to happen, for so long at the most.
  std::optional<std::chrono::microseconds> waits{};
};

/// Of a request: its entry, and its promise.
inline constexpr std::size_t bytes_beside = 1'024;

pending_request pending_request_of(const insert& x, keys_trusted which);
pending_request pending_request_of(const insert_all& x, keys_trusted which);
pending_request pending_request_of(const signal& x, keys_trusted which);
pending_request pending_request_of(const transition& x, keys_trusted which);
template <class Query>
pending_request pending_request_of(const Query& x, keys_trusted) {
  pending_request out{asked_twice::reads, bytes_beside + about_bytes(x)};
  if constexpr (waits_long<Query>)
    out.waits = std::chrono::microseconds{
      // what is refused must not overflow
      std::clamp(x.within_us, std::int64_t{0}, longest_wait_us)};
  return out;
}

/// How an answer is to be read.
struct sent_request {
  asked_twice twice = asked_twice::acts;
  /// It was sent before, and what became of that is unknown.
  bool sent_before = false;
};

/// An error, as whoever has asked is to be told: what refuses the second sending says nothing
/// about the first.
error corrected(error why, const sent_request& of);

/// What an answer says that is no error, likewise.
inline void correct(inserted&, const sent_request&) {
  // Whose the instance with the key is cannot be told.
}
void correct(inserted_all& x, const sent_request& of);
inline void correct(signalled& x, const sent_request& of) {
  x.duplicate = x.duplicate && !of.sent_before; // it may well be its own
}
template <class Answer>
void correct(Answer&, const sent_request&) {
  // The others are not sent again, or change nothing.
}

/// The requests of a gateway's client that are not answered, and its connection: at most one,
/// to one of several addresses, each tried in turn, one attempt at a time. Requests wait for a
/// connection and go out in the order in which they came. When it is lost, those that may be
/// sent twice wait for the next one, and the others are answered `unknown_fate`. Each is
/// answered once. Those that wait for something to happen have as much more patience as
/// they wait, also for their answer, and do not count as open. A plain state machine with the clock of its driver, which calls `step` after
/// whatever it has told, and at `due`.
class request_queue {
public:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;
  using milliseconds = std::chrono::milliseconds;

  struct settings {
    /// How long a request may wait to be sent, and sent again, from its arrival on.
    milliseconds patience{8'000};
    /// How long its answer may take while the remote node lives.
    milliseconds answer_within{60'000};
    /// How long a remote node may say nothing until it is asked whether it lives.
    milliseconds ping{1'000};
    /// A remote node that has been asked something, and says nothing for so long, is
    /// lost.
    milliseconds silence{3'000};
    /// Between rounds of attempts; doubled each time, and with jitter.
    milliseconds first_pause{50};
    milliseconds longest_pause{5'000};
    std::size_t addresses = 1;
    /// That is tried first.
    std::size_t first_address = 0;
    /// Not answered, at the most.
    std::size_t requests = 10'000;
    /// The same, in bytes; one alone may have more.
    std::size_t bytes = 16 << 20;
    /// Of these, sent and not answered.
    std::size_t open = 500;
    /// Of the jitter.
    std::uint64_t seed = 0;
  };

  explicit request_queue(settings how)
    : how_(how), random_(how.seed), address_(how.first_address) {
    // nop
  }

  /// A request that is to be answered with this.
  struct ended {
    std::uint64_t ticket = 0;
    error why{};
  };

  // -- what has happened ------------------------------------------------------

  /// A request has come; tickets grow. `overloaded`: it is not taken.
  result<void> add(std::uint64_t ticket, pending_request what, time_point now);

  /// The attempt has found a gateway. Returns the connection's number.
  std::uint64_t connected(time_point now);

  /// It has found none.
  void failed(error why, time_point now);

  /// The connection is gone: who is to be told. Of one that is gone already: nobody.
  std::vector<ended> lost(std::uint64_t connection, const error& why,
                          time_point now);

  /// The gateway has answered, with an error if `why` is not null. Nullopt: nobody is to be
  /// told; nobody waits for it, or it is sent again.
  std::optional<sent_request> answered(std::uint64_t connection,
                                       std::uint64_t ticket, const error* why,
                                       time_point now);

  /// The gateway lives.
  void heard(std::uint64_t connection, time_point now);

  /// There will be no other connection: everybody is to be told.
  std::vector<ended> stop();

  // -- what is to be done -----------------------------------------------------

  struct todo {
    /// Why the connection is given up, if it is: nothing that comes of it counts.
    std::optional<error> let_go{};
    /// Which address is to be tried.
    std::optional<std::size_t> connect{};
    /// Whether the remote node is to be asked for a sign of life.
    bool ping = false;
    /// What is to be sent, in this order.
    std::vector<std::uint64_t> send{};
    /// Who is to be told.
    std::vector<ended> told{};
  };
  todo step(time_point now);

  /// When `step` has something to do, if nothing happens before; max(): never.
  time_point due() const;

  // -- what there is ----------------------------------------------------------

  /// Zero: there is none.
  std::uint64_t connection() const noexcept {
    return connection_;
  }

  /// How long it is until the next attempt, while there is none under way.
  milliseconds retry_in(time_point now) const {
    return std::max(std::chrono::ceil<milliseconds>(next_attempt_ - now),
                    milliseconds{0});
  }

  /// Requests that are not answered.
  std::size_t unanswered() const noexcept {
    return entries_.size();
  }

  /// What is left of the time of one that waits for something to happen; nullopt: it is
  /// none.
  std::optional<std::chrono::microseconds> time_left(std::uint64_t ticket,
                                                     time_point now) const;

  /// Of these, sent over the connection that there is, but for those that wait for
  /// something to happen.
  std::size_t open() const noexcept {
    return sent_.size();
  }

  std::size_t bytes() const noexcept {
    return bytes_;
  }

private:
  enum class state : std::uint8_t {
    waits, ///< to be sent
    rests, ///< to wait again in a moment
    open,  ///< at the remote node
  };

  struct entry {
    pending_request what;
    time_point expires;
    state at = state::waits;
    time_point sent{};
    /// It may have happened: what came of an earlier sending is unknown.
    bool sent_before = false;
    /// It was at the remote node.
    bool was_there = false;
  };
  using entries = std::map<std::uint64_t, entry>;
  using timed = std::pair<time_point, std::uint64_t>;

  /// How long after an answer that says "not now" a request is sent again.
  static constexpr milliseconds rest{100};

  void wait_again(entries::iterator x, state where, time_point now);
  /// It is not at the remote node any more; `unknown`: that may have done it.
  void call_back(entries::iterator x, bool unknown);
  void end(std::vector<ended>& to, entries::iterator x, error why);
  void forget(entries::iterator x);
  /// It is not sent any more.
  static error given_up(const entry& x, const std::string& why);
  void turn_to_next_address(error why);
  void give_up_late(todo& to, time_point now);
  void notice_silence(todo& to, time_point now);
  void send(todo& to, time_point now);
  milliseconds pause_between(std::size_t rounds);

  settings how_;
  std::mt19937_64 random_;
  entries entries_;
  std::size_t bytes_ = 0;
  /// Those that wait, in the order of their arrival, and so of their ends.
  std::set<std::uint64_t> waiting_;
  /// The same of those that wait for something to happen; and when the time of all of
  /// those is over.
  std::set<std::uint64_t> long_ones_;
  std::set<timed> ends_;
  /// Those that rest, in the order in which they are due.
  std::deque<timed> resting_;
  /// Those that are open, in the order in which they were sent.
  std::set<timed> sent_;

  std::uint64_t connection_ = 0;
  std::uint64_t connections_ = 0;
  bool attempting_ = false;
  std::size_t address_;
  /// Attempts that have failed, and connections that were lost early, in a row.
  std::size_t failures_ = 0;
  time_point next_attempt_{};
  time_point connected_at_{};
  time_point heard_at_{};
  /// Since when the remote node owes a word.
  std::optional<time_point> owes_since_;
  bool pinged_ = false;
  bool stopped_ = false;
  std::optional<error> why_not_;
};

} // namespace gd
