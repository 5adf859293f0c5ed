#pragma once

#include <gd/engine/queue/claim_slots.hpp>
#include <gd/instance.hpp>
#include <gd/pq/database.hpp>
#include <gd/registry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// How inserts, signals and transitions of many senders share transactions. Plain state
/// machines like the turn, driven by the gateway actor and by the blocking
/// client alike: send what `begin` returns, hand the reply to `finish`.
namespace gd {

struct intake_settings {
  /// Machines that this program has; others are looked up in the database.
  std::shared_ptr<const registry> machines = std::make_shared<registry>();
  struct limits limits {};
  std::size_t rows = 2'000;
  std::size_t bytes = 8 << 20;
  /// False: what is locked, or failed and might pass, is told at once instead of
  /// being tried again.
  bool patient = true;
  /// Under which leases inserts may begin, and where they ask for it.
  struct claims {
    std::shared_ptr<claim_slots> slots;
    /// "<node>/<incarnation>"; numbers are appended, from this one on.
    std::string incarnation;
    std::uint64_t next = 1;
    std::chrono::milliseconds lease{60'000};
  };
  /// Nullopt: what is inserted waits for a pick.
  std::optional<claims> claiming{};
};

/// A request by itself.
template <class T>
std::vector<T> just(T x) {
  std::vector<T> one;
  one.push_back(std::move(x));
  return one;
}

/// One request's answer. `ticket` is the sender's own number for it; numbers
/// grow.
template <class T>
struct answered_request {
  std::uint64_t ticket;
  result<T> answer;
};

/// What all intakes share: how long after which failure it is tried again.
class intake_base {
public:
  using clock = database::clock;

  bool under_way() const noexcept {
    return under_way_;
  }

  /// Nothing is sent before that, as what was sent last has failed.
  bool backs_off(clock::time_point now) const noexcept {
    return now < not_before_;
  }

  /// What a request with this JSON takes of a group, but for its keys. JSON
  /// counts as it is, or as PostgreSQL prints it.
  static std::size_t bytes_with(const json& content);

protected:
  /// Locked by strangers for so many tries, and the sender is told.
  static constexpr int locked_tries_at_most = 40;

  /// `why` as the answer to something that may have been stored, or cannot have
  /// been: another failure of a later attempt does not tell what became of an
  /// earlier one.
  static error with_fate(error why, bool may_be_stored);

  /// The end of an entry.
  template <class Report, class Entry, class Answer>
  static void answer(Report& to, const Entry& x, Answer what) {
    to.answers.push_back({x.ticket, std::move(what)});
  }

  /// Whether the group should be sent again; if not, its entries are answered
  /// with `why`.
  bool try_again(const error& why, clock::time_point now);

  bool under_way_ = false;
  int failures_ = 0;
  clock::time_point not_before_{};
};

} // namespace gd
