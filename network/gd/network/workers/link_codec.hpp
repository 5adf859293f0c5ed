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
/// travels: fields, each a tag, a length and a value. Fields that a reader does not know
/// are skipped, what is empty or zero is left out.
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
  returned,
  over,
  lost, ///< engine to worker
  leaving,
  closing, ///< engine to worker
  settled, ///< engine to worker
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

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.id);
    v(2, x.token);
  }
};

/// Of a message that belongs to one joining: which, and the how manyth it is in its
/// direction, so that one that has got lost, or comes twice, is noticed.
struct place {
  std::uint64_t epoch = 0;
  std::uint64_t nr = 0;

  template <class X, class V>
  static void place_fields(X& x, V&& v) {
    v(1, x.epoch);
    v(2, x.nr);
  }
};

/// What is said of one execution.
struct about : place {
  std::int64_t id = 0;
  std::string token{};

  held_id which() const {
    return {id, token};
  }

  template <class X, class V>
  static void about_fields(X& x, V&& v) {
    place_fields(x, v);
    v(3, x.id);
    v(4, x.token);
  }
};

struct offered_machine {
  std::string fsm{};
  std::int32_t version = 0;
  /// As `store::definition` has it.
  std::vector<std::string> definition{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.fsm);
    v(2, x.version);
    v(3, x.definition);
  }
};

struct room {
  std::string queue{};
  std::int32_t rows = 0;

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.queue);
    v(2, x.rows);
  }
};

struct join {
  static constexpr kind type = kind::join;
  std::vector<std::int64_t> protocols{};
  std::string incarnation{};
  std::string node{};
  std::vector<offered_machine> machines{};
  std::vector<std::string> queues{};
  std::vector<held_id> holds{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.protocols);
    v(2, x.incarnation);
    v(3, x.node);
    v(4, x.machines);
    v(5, x.queues);
    v(6, x.holds);
  }
};

struct joined {
  static constexpr kind type = kind::joined;
  std::uint64_t epoch = 0;
  std::string node{};
  std::int64_t ping_us = 0;    ///< a credit comes at least so often
  std::int64_t silence_us = 0; ///< who has said nothing for so long is gone
  std::vector<held_id> stand{};
  /// Of the worker's machines, those that the engine has, too.
  std::vector<offered_machine> machines{};
  std::int64_t most_state = 0; ///< the engine's limits, in bytes
  std::int64_t most_result = 0;
  std::int64_t most_metadata = 0;
  std::int64_t most_reason = 0;
  std::int64_t most_name = 0;

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.epoch);
    v(2, x.node);
    v(3, x.ping_us);
    v(4, x.silence_us);
    v(5, x.stand);
    v(6, x.machines);
    v(7, x.most_state);
    v(8, x.most_result);
    v(9, x.most_metadata);
    v(10, x.most_reason);
    v(11, x.most_name);
  }
};

struct denied {
  static constexpr kind type = kind::denied;
  std::string why{};
  std::vector<std::int64_t> protocols{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.why);
    v(2, x.protocols);
  }
};

/// Asking for work is the sign of life.
struct credit : place {
  static constexpr kind type = kind::credit;
  std::uint64_t number = 0; ///< the credit's
  /// The number of the last work that has come: what was sent since is to be subtracted.
  std::uint64_t seq = 0;
  std::int64_t bytes = 0; ///< of rows, for all queues
  std::vector<room> rooms{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    place_fields(x, v);
    v(3, x.number);
    v(4, x.seq);
    v(5, x.bytes);
    v(6, x.rooms);
  }
};

/// Answers each credit: so that a worker knows, too, who is there, and how long leases
/// are in force that nothing else tells of.
struct heard : place {
  static constexpr kind type = kind::heard;
  std::uint64_t echo = 0;   ///< the number of the last credit
  std::int64_t left_us = 0; ///< of all leases that the worker holds, at least

  template <class X, class V>
  static void fields(X& x, V&& v) {
    place_fields(x, v);
    v(3, x.echo);
    v(4, x.left_us);
  }
};

struct inbox_signal {
  std::int64_t id = 0;
  std::string name{};
  std::string payload{};
  std::string traceparent{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.id);
    v(2, x.name);
    v(3, x.payload);
    v(4, x.traceparent);
  }
};

/// A `store::picked_row`, but for its partition key, which stays with the engine.
struct row {
  std::string fsm{};
  std::int32_t version = 0;
  std::string step{};
  std::string state{};
  std::int32_t attempt = 0;
  std::int32_t crashes = 0;
  std::string wake_reason{};
  std::vector<inbox_signal> inbox{};
  std::vector<std::string> unique_scope{};
  std::int32_t history = 0;
  std::int64_t seq = 0;
  std::int64_t now_us = 0;
  std::int64_t due_us = 0;
  std::string traceparent{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.fsm);
    v(2, x.version);
    v(3, x.step);
    v(4, x.state);
    v(5, x.attempt);
    v(6, x.crashes);
    v(7, x.wake_reason);
    v(8, x.inbox);
    v(9, x.unique_scope);
    v(10, x.history);
    v(11, x.seq);
    v(12, x.now_us);
    v(13, x.due_us);
    v(14, x.traceparent);
  }
};

struct work : about {
  static constexpr kind type = kind::work;
  std::uint64_t number = 0; ///< the work's
  std::uint64_t echo = 0;   ///< the number of the last credit
  std::int64_t left_us = 0; ///< of the lease
  std::string queue{};
  link::row row{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
    v(5, x.number);
    v(6, x.echo);
    v(7, x.left_us);
    v(8, x.queue);
    v(9, x.row);
  }
};

/// A `store::outcome_row`, but for id and token.
struct written {
  std::uint8_t what = 0;
  std::string step{};
  std::string state{};
  std::string result{};
  std::int64_t delay_us = 0;
  std::string awaits{};
  std::vector<std::string> awaits_also{};
  std::optional<std::int64_t> timeout_us{};
  std::optional<std::int64_t> until_us{};
  std::string reason{};
  std::optional<std::string> failure{};
  std::vector<std::int64_t> consumed{};
  std::vector<std::int64_t> seen{};
  bool may_collide = false;
  bool has_history = false;
  std::string metadata{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.what);
    v(2, x.step);
    v(3, x.state);
    v(4, x.result);
    v(5, x.delay_us);
    v(6, x.awaits);
    v(7, x.awaits_also);
    v(8, x.timeout_us);
    v(9, x.until_us);
    v(10, x.reason);
    v(11, x.failure);
    v(12, x.consumed);
    v(13, x.seen);
    v(14, x.may_collide);
    v(15, x.has_history);
    v(16, x.metadata);
  }
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

  template <class X, class V>
  static void fields(X& x, V&& v) {
    v(1, x.fsm);
    v(2, x.version);
    v(3, x.step);
    v(4, x.attempt);
    v(5, x.seq);
    v(6, x.took_us);
    v(7, x.handled);
    v(8, x.failure);
    v(9, x.end);
  }
};

struct outcome : about {
  static constexpr kind type = kind::outcome;
  bool resent = false;
  std::int32_t tries = 0; ///< how many outcomes of this execution were refused
  bool over = false;      ///< the step's function has returned
  std::string queue{};
  written row{};
  link::told told{};

  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
    v(5, x.resent);
    v(6, x.tries);
    v(7, x.over);
    v(8, x.queue);
    v(9, x.row);
    v(10, x.told);
  }
};

/// The step's actor went down: there will be no outcome.
struct crashed : about {
  static constexpr kind type = kind::crashed;
  std::string why{};
  std::int64_t took_us = 0;

  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
    v(5, x.why);
    v(6, x.took_us);
  }
};

/// The step has not begun, and will not.
struct returned : about {
  static constexpr kind type = kind::returned;
  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
  }
};

/// The function of a step that has an outcome already has returned at last.
struct over : about {
  static constexpr kind type = kind::over;
  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
  }
};

/// The lease is another's.
struct lost : about {
  static constexpr kind type = kind::lost;
  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
  }
};

struct leaving : place {
  static constexpr kind type = kind::leaving;
  template <class X, class V>
  static void fields(X& x, V&& v) {
    place_fields(x, v);
  }
};

struct closing : place {
  static constexpr kind type = kind::closing;
  std::string why{};
  template <class X, class V>
  static void fields(X& x, V&& v) {
    place_fields(x, v);
    v(3, x.why);
  }
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
struct settled : about {
  static constexpr kind type = kind::settled;
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
  std::vector<inbox_signal> inbox{};
  std::uint64_t echo = 0;   ///< of the last credit, as with work
  std::int64_t left_us = 0; ///< of the lease

  template <class X, class V>
  static void fields(X& x, V&& v) {
    about_fields(x, v);
    v(5, x.what);
    v(6, x.tries);
    v(7, x.code);
    v(8, x.why);
    v(9, x.why_told);
    v(10, x.sqlstate);
    v(11, x.holder);
    v(12, x.next_token);
    v(13, x.inbox);
    v(14, x.echo);
    v(15, x.left_us);
  }
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

// -- rows ---------------------------------------------------------------------

row row_of(const store::picked_row& x);
store::picked_row to_picked(std::int64_t id, row x);

written written_of(store::outcome_row x);
/// An error: it is no outcome.
result<store::outcome_row> to_outcome(const held_id& which, written x);

/// About how many bytes it takes: what both ends count against the credit.
std::int64_t size_of(const row& x);
std::int64_t size_of(const written& x);

std::vector<inbox_signal> inbox_of(std::vector<raw_signal> xs);
std::vector<raw_signal> to_inbox(std::vector<inbox_signal> xs);

} // namespace gd::link
