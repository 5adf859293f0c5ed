#include <gd/pq/store_reads.hpp>

#include <gd/pq/bind.hpp>
#include <gd/pq/store.hpp>
#include <gd/sql.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace gd::store {

using pq::make_call;

pq::call look_up(const gd::look_up& what) {
  return make_call(sql::look_up, what.id, longest_text, pq::one_key(what.key));
}

std::optional<instance> read_instance(const pq::rows& rows) {
  auto x = read_one<instance>(rows);
  if (x && x->unique_key)
    x->unique_key = key_text(*x->unique_key);
  return x;
}

error no_instance(std::int64_t id, const std::optional<std::string>& key) {
  return {errc::not_found, "there is no instance " + address_text(id, key), {}};
}

pq::call history(const history_query& what) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  auto from = what.from_seq.value_or(what.newest_first ? most : 0);
  auto edge = !what.newest_first ? std::max<std::int64_t>(from, 0) - 1
              : from < most      ? from + 1
                                 : most;
  return make_call(sql::history, what.id, edge, what.limit, what.newest_first,
                   pq::one_key(what.key));
}

pq::call in_step(const in_step_query& what) {
  return make_call(
    sql::in_step, what.fsm, what.step, what.status,
    what.before.value_or(std::numeric_limits<std::int64_t>::max()), what.limit);
}

pq::call stats() {
  return make_call(sql::stats);
}

} // namespace gd::store
