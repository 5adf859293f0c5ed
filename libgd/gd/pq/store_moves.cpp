#include <gd/pq/store_moves.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <optional>
#include <string>

namespace gd::store {

using pq::make_call;

/// Cut to what the functions take.
static std::string why(const std::optional<std::string>& reason) {
  return clean_text(reason.value_or(""), limits{}.reason);
}

pq::call rewind(const gd::rewind& what) {
  return make_call(sql::rewind, what.target, what.seq, why(what.reason),
                   what.by.value_or(""), pq::one_key(what.key));
}

pq::call fork(const gd::fork& what) {
  return make_call(sql::fork, what.target, what.seq, what.queue,
                   why(what.reason), what.by.value_or(""),
                   pq::one_key(what.key));
}

} // namespace gd::store
