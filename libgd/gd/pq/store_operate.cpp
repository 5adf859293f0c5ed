#include <gd/pq/store_operate.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

namespace gd::store {

pq::call why(const why_query& what) {
  return pq::make_call(sql::why, what.id, pq::one_key(what.key));
}

} // namespace gd::store
