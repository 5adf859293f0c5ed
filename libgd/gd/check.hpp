#pragma once

#include <gd/error.hpp>
#include <gd/options.hpp>
#include <gd/state.hpp>

#include <string>
#include <vector>

/// \file
/// What is wrong with a database that works otherwise.
namespace gd {

/// What a partial restore, a switch to a logical replica, or somebody's hand has broken.
struct finding {
  std::string fault{};  ///< a sentence, with what mends it
  bool repairs = false; ///< `repair` does

  GD_STATE(finding, fault, repairs);
};

/// Looks, without reading much, for what is broken: sequences of ids that stand behind
/// the rows, so that what is new would get others' ids; ids without a sequence; indexes
/// that are missing or not valid; triggers that are switched off. Empty: nothing was
/// found. With the rights of any role. Errors: `unavailable`, `schema_mismatch`.
result<std::vector<finding>> check(pq::options opts);

/// Mends what can be mended, as the tables' owner, beside whatever runs: moves sequences
/// forward, never back. Nobody draws ids meanwhile, and transactions that have drawn some
/// are waited for, a fifth of a second at a time. A sentence for each that was moved.
/// Errors: those of `check`; `busy`, if such a transaction does not end; `sql`, if the
/// role may not.
result<std::vector<std::string>> repair(pq::options opts);

} // namespace gd
