#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/registry.hpp>

#include <memory>
#include <string>
#include <vector>

struct pg_conn;

namespace gd {

/// What a `transaction` goes by.
struct transaction_settings {
  /// Where the tables are.
  std::string schema = "public";
  /// Machines that this program has; others are looked up in the database.
  std::shared_ptr<const registry> machines = std::make_shared<registry>();
  /// Bounds of what a row may hold; more is refused.
  struct limits limits {};
};

/// Inserts, signals and transitions in the caller's own transaction, on its own connection:
/// they are committed or rolled back together with its data. Nothing of the
/// session is changed: neither the connection's modes nor its settings.
///
/// The transaction must be open when a call begins, and is open when it ends. A
/// row that is refused leaves it usable, and stores nothing; only an answer that
/// says that the transaction is lost means what it says.
///
/// A call waits for what other transactions hold, once, as long as the caller's
/// `lock_timeout` lets it; what is still held then is answered with `busy`. Two
/// transactions that signal or move the same instances in opposite order may end in a
/// deadlock, for one of them `conflict`, so do it in one `signal_all` or
/// `transition_all`, which lock in order, or in `retry_conflicts`; the same holds for
/// unique keys and `insert_all`.
/// Engines do not wait for the rows that the transaction holds, but get no
/// further with them, so do not keep it open for long.
class transaction {
public:
  /// The connection must outlive this object, and belongs to the caller: a
  /// transaction is not thread-safe. One object may serve many transactions.
  explicit transaction(pg_conn* connection, transaction_settings how = {});

  /// Makes an instance, if the caller commits. Errors as those of the client, and
  /// `busy`, `conflict`.
  result<inserted> insert(gd::insert what);
  /// Each row is accepted or refused by itself. Answers are in the order of the
  /// rows.
  std::vector<result<inserted>> insert_all(std::vector<gd::insert> rows);

  /// Puts a signal into an inbox, if the caller commits. Needs the isolation level
  /// READ COMMITTED.
  result<signalled> signal(gd::signal what);
  /// Like `insert_all`.
  std::vector<result<signalled>> signal_all(std::vector<gd::signal> signals);

  /// Moves an instance, if the caller commits. Needs READ COMMITTED. Errors as those
  /// of the client, and `conflict`.
  result<transitioned> transition(gd::transition what);
  /// Like `insert_all`. Those of the same instance go one after the other.
  std::vector<result<transitioned>>
  transition_all(std::vector<gd::transition> transitions);

private:
  class visit;

  pg_conn* connection_;
  transaction_settings how_;
  /// This library can work with the schema.
  bool checked_ = false;
};

} // namespace gd
