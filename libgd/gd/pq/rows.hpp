#pragma once

#include <gd/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pg_result;

namespace gd::pq {

/// The rows that one statement has returned. Columns are read in the type of the
/// SQL file; null reads as a default value or `nullopt`.
class rows {
public:
  rows() = default;
  explicit rows(pg_result* owned);

  /// Whether the server did the statement; else `failure` tells why not.
  bool ok() const;
  error failure() const;

  /// Whether every value has the form of its type. Connections give out no rows
  /// whose server breaks its own protocol.
  result<void> check() const;

  /// Of a commit that the server did: whether it was one. After an error in the
  /// transaction it is a rollback.
  result<void> check_commit() const;

  std::size_t size() const noexcept;
  /// How many rows the statement has affected, or returned.
  std::int64_t affected() const noexcept;
  /// Its position, which is -1 where there is none of that name: read as null.
  int column(std::string_view name) const noexcept;
  bool is_null(std::size_t row, int column) const;

  std::int64_t integer(std::size_t row, int column) const;
  bool boolean(std::size_t row, int column) const;
  /// Valid as long as this object.
  std::string_view text(std::size_t row, int column) const;
  std::vector<std::int64_t> integers(std::size_t row, int column) const;
  std::vector<std::string> texts(std::size_t row, int column) const;

private:
  std::shared_ptr<pg_result> result_;
};

} // namespace gd::pq
