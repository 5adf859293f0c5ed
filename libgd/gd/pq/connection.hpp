#pragma once

#include <gd/error.hpp>
#include <gd/options.hpp>
#include <gd/pq/own_texts.hpp>
#include <gd/pq/text.hpp>
#include <gd/pq/unit.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

struct pg_conn;

namespace gd::pq {

/// What a connection has to know of the one before it.
struct predecessor {
  std::size_t host = 0; ///< is tried first, from 0; the others follow in turn
  /// Its server's process, which may still be in a commit that waits for a standby; 0: none.
  /// Where it is, there is no other connection yet: each would wait like that, and stay.
  std::int64_t backend = 0;
};

/// One connection, non-blocking, in pipeline mode; at most one unit at a time.
/// Whoever drives it polls `fd()` for `events()` and calls `pump()`. Where there are
/// several hosts, it tries one after the other, each for `connect_timeout`: one that
/// does not answer does not keep it from the next, and a standby is not what it wants,
/// unless the options say so.
class connection {
public:
  enum class phase : std::uint8_t {
    connecting, ///< waits for the server, then pins the session
    idle,       ///< ready for a unit
    working,    ///< a unit is under way
    dead,       ///< lost or refused; `why_dead()` tells
  };

  explicit connection(options opts, predecessor before = {});
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  phase state() const noexcept {
    return phase_;
  }
  int fd() const;
  /// POLLIN, POLLOUT or both.
  short events() const noexcept;
  const error& why_dead() const noexcept {
    return why_dead_;
  }
  /// The server's process, to be found in pg_stat_activity.
  std::int64_t backend() const noexcept {
    return backend_;
  }
  /// Of the one that follows. Its host is that of this one, or the last that was tried.
  predecessor for_next() const noexcept {
    return {host_, left_behind_};
  }

  /// Sends a unit. Only when idle.
  void send(const unit& work);
  /// Reads and writes what is ready. A finished unit's reply waits in
  /// `take_reply()`; a connection that dies with a unit under way leaves a reply
  /// of unknown fate there.
  void pump();
  std::optional<reply> take_reply();
  /// Gives up: the connection is dead from now on.
  void abandon(error why);

  // -- for programs that may block: gdctl, the client, migrations -------------

  /// Waits until the connection is idle or dead, which it is when `end_fd` gets
  /// readable.
  result<void> wait_ready(int end_fd = -1);
  /// Waits for the reply of the unit that was sent.
  reply wait_reply();
  /// Sends a unit and waits for its reply.
  reply run(const unit& work);
  /// Runs a text of one or more statements without parameters, such as a
  /// migration. Its results are dropped.
  result<void> execute(std::string_view text);

  // -- for users' code --------------------------------------------------------

  /// What has become of the transaction in which a handle was lent.
  enum class transaction_state : std::uint8_t {
    none,
    open,
    failed, ///< it can only be rolled back
  };

  /// libpq's own, which may block, and is in no pipeline: its user may do with it what
  /// libpq lets him, but end it, until `take_back`. Only when idle.
  pg_conn* lend();
  /// The connection is idle. An error: it cannot be used any more, and is dead.
  result<transaction_state> take_back();

private:
  enum class expected : std::uint8_t { prepared, result, commit, sync, closed };

  void establish();
  void establish_again();
  void listen_to_notices();
  std::string start_options() const;
  bool try_without_timeout();
  bool try_next_host(const error& why);
  void take_notice(const pg_result* told);
  void pin_session();
  void finish_pinning(const reply& pinned);
  bool queue_call(const call& what, expected kind);
  bool queue_own(const call& what);
  bool close_own();
  bool send_calls(const unit& work);
  bool queue_sync();
  void judge();
  void flush();
  void read_results();
  void take_result(pg_result* raw);
  void finish_pipeline();
  void die(error why);
  error last_error() const;
  error why_refused() const;

  options opts_;
  std::vector<conninfo> hosts_;
  std::size_t host_;
  std::size_t tried_ = 0;
  std::string refusals_; ///< of hosts that were tried
  pg_conn* handle_ = nullptr;
  phase phase_ = phase::connecting;
  bool pinning_ = false;
  bool ended_by_transaction_timeout_ = false;
  bool in_rollback_ = false;
  bool transaction_ = false;
  bool has_transaction_timeout_ = false; ///< the server, which is 17 or newer
  std::size_t leaves_traces_from_ = 0;
  short events_ = 0;
  std::int64_t backend_ = 0;
  std::int64_t left_behind_;
  error why_dead_;
  struct awaited {
    expected kind;
    const sql::statement* what;
    /// Of a text of the user's, and its name.
    std::shared_ptr<const std::string> text{};
    std::string name{};
  };
  std::vector<awaited> awaited_;
  std::size_t next_ = 0;
  reply current_;
  /// What the server says of a commit for which it has not waited.
  std::optional<error> unreplicated_;
  std::optional<reply> done_;
  std::unordered_set<const sql::statement*> prepared_;
  own_texts own_;
  /// Of the unit under way, until it has been asked.
  std::function<bool(const std::vector<rows>&)> accept_;
  /// It has that: what was answered before a failure is kept.
  bool keeps_answers_ = false;
  /// By when the server must have answered a connection attempt.
  std::chrono::steady_clock::time_point connect_by_;
};

} // namespace gd::pq
