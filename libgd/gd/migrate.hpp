#pragma once

#include <gd/error.hpp>
#include <gd/options.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gd {

/// The schema's version that this library was written for, and the newest that
/// it can install.
int newest_schema() noexcept;

/// An instance that nobody could ever run, and why.
struct unrunnable {
  std::int64_t id = 0; ///< of its row
  std::string why{};   ///< a sentence
};

/// Installs what is missing of the migrations up to number `to`, and the schema
/// itself if there is none; returns how many were applied. All in one
/// transaction: a migration that fails leaves nothing behind. Of several that
/// migrate at the same time one does it, the others wait and find it done. A
/// schema that is newer than this library is left alone if it works with it.
///
/// The libraries before this one go on working beside a schema with instances
/// until it is activated; one without is activated at once. With the newest
/// version, rows that strangers have stored and nobody could ever run are failed,
/// each with a sentence: those are added to `failed`, if it is not null.
result<int> migrate_up(pq::options opts, int to = newest_schema(),
                       std::vector<unrunnable>* failed = nullptr);

/// Takes migrations back until number `to` is the last; returns how many. With
/// 0 everything goes, with all instances; the schema itself stays. Only a
/// library that knows a migration can take it back. Where there are instances it is
/// an error, `invalid_argument`, unless `with_instances`.
result<int> migrate_down(pq::options opts, int to, bool with_instances = false);

/// From now on only libraries that know the newest version may work with it. Needs
/// the table for itself for a moment, and tries for seconds to get it, holding up
/// nobody for longer than 200 ms. Errors, after which nothing has changed: `busy`,
/// unless `anyway`, while nodes of older ones live, which it names; `busy`, if a
/// transaction goes on using the table; `schema_mismatch`, if the newest version
/// is not installed.
result<void> migrate_activate(pq::options opts, bool anyway = false);

/// What is installed, and what could be.
struct schema_status {
  int installed = 0;  ///< the schema's version; 0: there is none
  int works_from = 0; ///< the oldest library version that can work with it
  int newest = 0;     ///< the newest version that this library knows
  std::vector<std::string> names; ///< of the migrations from 1 to newest

  /// Whether this library can work with it as it is.
  bool usable() const noexcept {
    return installed >= newest && works_from <= newest;
  }
};

/// Reads what is installed; changes nothing.
result<schema_status> migration_status(pq::options opts);

} // namespace gd
