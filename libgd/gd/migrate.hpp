#pragma once

#include <gd/error.hpp>
#include <gd/options.hpp>

#include <string>
#include <vector>

namespace gd {

/// The schema's version that this library was written for, and the newest that
/// it can install.
int newest_schema() noexcept;

/// Installs what is missing of the migrations up to number `to`, and the schema
/// itself if there is none; returns how many were applied. All in one
/// transaction: a migration that fails leaves nothing behind. Of several that
/// migrate at the same time one does it, the others wait and find it done. A
/// schema that is newer than this library is left alone if it works with it.
///
/// Libraries of earlier versions go on working beside most migrations. One that
/// takes away what they need is an error, `busy`, which names them, while nodes
/// live that it would cut off, unless `force`.
result<int> migrate_up(pq::options opts, int to = newest_schema(),
                       bool force = false);

/// Takes migrations back until number `to` is the last; returns how many. With
/// 0 everything goes, with all instances; the schema itself stays. Only a
/// library that knows a migration can take it back. Where there are instances it is
/// an error, `invalid_argument`, unless `with_instances`.
result<int> migrate_down(pq::options opts, int to, bool with_instances = false);

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
