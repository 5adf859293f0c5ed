#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// \file
/// What an engine's node and a worker without a database say to each other, and how it
/// travels: fields, each a tag, a length and a value. The tag is the field's position in
/// its struct's GD_FIELDS, so new ones are appended and none is taken out. Fields that a
/// reader does not know are skipped, what is empty or zero is left out.
namespace gd::link {

/// Grows when a message no longer means what it did.
inline constexpr std::int32_t protocol = 1;

/// Elements of one list at the most.
inline constexpr std::size_t most_elements = 100'000;

enum class kind : std::uint8_t {
  join = 1, ///< worker to engine, as are those of which nothing else is said
  joined,   ///< engine to worker
  denied,   ///< engine to worker
  credit,
  heard, ///< engine to worker
  work,  ///< engine to worker
  outcome,
  crashed,
  released,
  over,
  lost, ///< engine to worker
  leaving,
  closing,   ///< engine to worker
  completed, ///< engine to worker
};

/// A message as it travels.
struct packet {
  std::int32_t type = 0;
  std::int32_t version = protocol;
  std::string bytes{};
};

/// An execution: a token is a pick's, and a pick takes an instance once.
struct held_id {
  std::int64_t id = 0;
  std::string token{};

  auto operator<=>(const held_id&) const = default;

  GD_FIELDS(id, token);
};

/// Of a message that belongs to one joining: which, and the how manyth it is in its
/// direction, so that one that has got lost, or comes twice, is noticed.
struct position {
  std::uint64_t epoch = 0;
  std::uint64_t nr = 0;
};

/// What is said of one execution.
struct about : position {
  std::int64_t id = 0;
  std::string token{};

  held_id which() const {
    return {id, token};
  }
};

struct offered_machine {
  std::string fsm{};
  std::int32_t version = 0;
  /// As `store::definition` has it.
  std::vector<std::string> definition{};

  GD_FIELDS(fsm, version, definition);
};

struct room {
  std::string queue{};
  std::int32_t rows = 0;

  GD_FIELDS(queue, rows);
};

struct join {
  static constexpr kind type = kind::join;
  std::vector<std::int64_t> protocols{};
  std::string incarnation{};
  std::string node{};
  std::vector<offered_machine> machines{};
  std::vector<std::string> queues{};
  std::vector<held_id> holds{};

  GD_FIELDS(protocols, incarnation, node, machines, queues, holds);
};

struct joined {
  static constexpr kind type = kind::joined;
  std::uint64_t epoch = 0;
  std::string node{};
  std::int64_t ping_us = 0;    ///< a credit comes at least so often
  std::int64_t silence_us = 0; ///< who has said nothing for so long is gone
  std::vector<held_id> resumed{};
  /// Of the worker's machines, those that the engine has, too.
  std::vector<offered_machine> machines{};
  struct limits limits {}; ///< the engine's

  GD_FIELDS(epoch, node, ping_us, silence_us, resumed, machines, limits);
};

struct denied {
  static constexpr kind type = kind::denied;
  std::string why{};
  std::vector<std::int64_t> protocols{};

  GD_FIELDS(why, protocols);
};

/// Asking for work is the sign of life.
struct credit : position {
  static constexpr kind type = kind::credit;
  std::uint64_t number = 0; ///< the credit's
  /// The number of the last work that has come: what was sent since is to be subtracted.
  std::uint64_t seq = 0;
  std::int64_t bytes = 0; ///< of rows, for all queues
  std::vector<room> rooms{};

  GD_FIELDS(epoch, nr, number, seq, bytes, rooms);
};

/// Answers each credit: so that a worker knows, too, who is there, and how long leases
/// are in force that nothing else tells of.
struct heard : position {
  static constexpr kind type = kind::heard;
  std::uint64_t echo = 0;   ///< the number of the last credit
  std::int64_t left_us = 0; ///< of all leases that the worker holds, at least

  GD_FIELDS(epoch, nr, echo, left_us);
};

struct work : about {
  static constexpr kind type = kind::work;
  std::uint64_t number = 0; ///< the work's
  std::uint64_t echo = 0;   ///< the number of the last credit
  std::int64_t left_us = 0; ///< of the lease
  std::string queue{};
  /// Without its partition key, which stays with the engine.
  store::picked_row row{};

  GD_FIELDS(epoch, nr, id, token, number, echo, left_us, queue, row);
};

/// What events tell of an execution that has an outcome.
struct told {
  std::string fsm{};
  std::int32_t version = 0;
  std::string step{};
  std::int32_t attempt = 0;
  std::int64_t seq = 0;
  std::int64_t took_us = 0;
  bool handled = false;  ///< the handler was called
  std::string failure{}; ///< what it was given, without what is stored
  std::string end{};     ///< why the instance fails, the same

  GD_FIELDS(fsm, version, step, attempt, seq, took_us, handled, failure, end);
};

struct outcome : about {
  static constexpr kind type = kind::outcome;
  bool resent = false;
  std::int32_t tries = 0; ///< how many outcomes of this execution were refused
  bool over = false;      ///< the step's function has returned
  std::string queue{};
  store::outcome_row row{};
  link::told told{};

  GD_FIELDS(epoch, nr, id, token, resent, tries, over, queue, row, told);
};

/// The step's actor went down: there will be no outcome.
struct crashed : about {
  static constexpr kind type = kind::crashed;
  std::string why{};
  std::int64_t took_us = 0;

  GD_FIELDS(epoch, nr, id, token, why, took_us);
};

/// The step has not begun, and will not.
struct released : about {
  static constexpr kind type = kind::released;
  GD_FIELDS(epoch, nr, id, token);
};

/// The function of a step that has an outcome already has returned at last.
struct over : about {
  static constexpr kind type = kind::over;
  GD_FIELDS(epoch, nr, id, token);
};

/// The lease is another's.
struct lost : about {
  static constexpr kind type = kind::lost;
  GD_FIELDS(epoch, nr, id, token);
};

struct leaving : position {
  static constexpr kind type = kind::leaving;
  GD_FIELDS(epoch, nr);
};

struct closing : position {
  static constexpr kind type = kind::closing;
  std::string why{};
  GD_FIELDS(epoch, nr, why);
};

enum class verdict : std::uint8_t {
  applied,
  stale,     ///< another lease is in force, nothing was changed
  unknown,   ///< sent twice; applied the first time, or stale
  refused,   ///< the database does not take it: the handler's turn
  collided,  ///< the same, for its unique key, which `holder` has
  overloaded ///< nothing was tried: to be sent again later
};

/// What has become of an outcome.
struct completed : about {
  static constexpr kind type = kind::completed;
  link::verdict what = link::verdict::applied;
  std::int32_t tries = 0; ///< the outcome's
  std::uint8_t code = 0;  ///< an `errc`: why it was refused
  std::string why{};
  std::string why_told{}; ///< without what is stored
  std::string sqlstate{};
  std::int64_t holder = 0;
  /// The instance goes on with its next step, under this token, and is shown this
  /// inbox; empty: it does not.
  std::string next_token{};
  std::vector<raw_signal> inbox{};
  std::uint64_t echo = 0;   ///< of the last credit, as with work
  std::int64_t left_us = 0; ///< of the lease
  /// What of it is refused, if not all.
  struct refused_effect {
    std::uint64_t number = 0; ///< see `effect_refused`
    effect_kind kind{};

    GD_FIELDS(number, kind);
  };
  std::optional<refused_effect> effect{};

  GD_FIELDS(epoch, nr, id, token, what, tries, code, why, why_told, sqlstate,
            holder, next_token, inbox, echo, left_us, effect);
};

template <class T>
packet pack(const T& x);

/// An error says which field cannot be read. Takes no more memory than the bytes, and
/// a bounded number of elements, account for.
template <class T>
result<T> unpack(const packet& x);

/// A duration as the other side tells it, which may tell anything: a year either way at
/// the most.
std::chrono::microseconds duration_of(std::int64_t us);

/// Of machines of this program.
std::vector<offered_machine> offered(const std::vector<machine>& machines);

/// A worker's outcome as its engine writes it, under the token of its execution. An error:
/// no worker decides that.
result<store::outcome_row> outcome_of(const held_id& which,
                                      store::outcome_row row);

/// About how many bytes it takes: what both ends count against the credit.
template <class Row>
std::int64_t size_of(const Row& x) {
  constexpr std::int64_t beside_text = 512;
  return beside_text + static_cast<std::int64_t>(x.bytes());
}

} // namespace gd::link
