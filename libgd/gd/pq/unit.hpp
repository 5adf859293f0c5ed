#pragma once

#include <gd/error.hpp>
#include <gd/pq/params.hpp>
#include <gd/pq/rows.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd::sql {
struct statement;
} // namespace gd::sql

namespace gd::pq {

/// One statement with its parameters.
struct call {
  const sql::statement* what = nullptr;
  params args;
  /// Of `sql::of_user`: what the user wrote. Its parameters are texts, and so are its results.
  std::shared_ptr<const std::string> text{};
};

/// What is sent in one go, in one pipeline with one sync. Without a begin and a commit it
/// is a transaction as well, which ends with the sync.
struct unit {
  std::vector<call> calls;
  bool transaction = true;
  /// From this call on, a failure may leave something in the session that a
  /// rollback does not undo: the connection is closed then.
  std::size_t leaves_traces_from = static_cast<std::size_t>(-1);
  /// If set: the transaction is committed, in a round trip of its own, only if this says so of
  /// the calls' results. It is called on whatever thread drives the connection.
  std::function<bool(const std::vector<rows>&)> accept{};

  /// The call's position.
  int add(call x) {
    calls.push_back(std::move(x));
    return static_cast<int>(calls.size()) - 1;
  }
};

/// What became of a unit.
struct reply {
  /// One entry for each call when there was no failure, or the unit was declined. Of one
  /// with `accept`: for each call before the failure.
  std::vector<rows> results;
  /// `unknown_fate`: the connection died in between, the server may have
  /// committed; or it has, a standby may not have it (`unreplicated`), and the
  /// connection was ended. Any other: nothing of the unit has happened.
  std::optional<error> failure;
  /// Which call failed, where one did; `calls.size()` stands for the commit.
  std::size_t failed_call = 0;
  /// The server says that it has not waited until a synchronous standby had it.
  bool unreplicated = false;
  /// `unit::accept` has said no: nothing of the unit has happened.
  bool declined = false;

  bool ok() const noexcept {
    return !failure;
  }
};

} // namespace gd::pq
