#pragma once

#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// What `store` is for the rest, for ends of processes that some rows are charged with and
/// another has caused.
namespace gd::store {

/// Those of which that has come to light: rows of `open_crash`.
pq::call open_crashes();
struct open_crash {
  std::int64_t process = 0; ///< a hash of its incarnation

  GD_COLUMNS(process);
};

/// Where a page of suspects ended, and what became of it.
struct exonerated_page {
  std::string queue{};
  std::string fsm{};
  std::int32_t version = std::numeric_limits<std::int32_t>::min();
  std::int32_t priority = std::numeric_limits<std::int16_t>::min();
  std::string eligible_at{"-infinity"}; ///< as the session prints it
  std::int64_t id = std::numeric_limits<std::int64_t>::min();
  std::int64_t looked_at = 0;  ///< suspects of the page
  std::int64_t exonerated = 0; ///< of these: charged with fewer ends now

  GD_COLUMNS(queue, fsm, version, priority, eligible_at, id, looked_at,
             exonerated);
};
/// Of a page of suspects behind that one, those that are charged with the end of one of
/// these processes are charged with it no more. No row: there were none.
pq::call exonerate(const std::vector<std::int64_t>& processes,
                   const exonerated_page& after, std::int32_t limit);

} // namespace gd::store
