#include <gd/pq/store_crashes.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

namespace gd::store {

using pq::make_call;

pq::call open_crashes() {
  return make_call(sql::open_crashes);
}

pq::call exonerate(const std::vector<std::int64_t>& processes,
                   const exonerated_page& after, std::int32_t limit) {
  return make_call(sql::exonerate, processes, after.queue, after.fsm,
                   after.version, after.priority, after.eligible_at, after.id,
                   limit);
}

} // namespace gd::store
