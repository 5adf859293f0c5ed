#include <gd/store/transitions.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <optional>
#include <string_view>

namespace gd::store {

using pq::column;

template <class Rows>
static pq::call lock_by_names(const Rows& rows, bool waits) {
  return pq::make_call(sql::lock_named, pq::ids_of(rows), pq::keys_of(rows),
                       waits);
}

pq::call lock_named(const std::vector<target_name>& targets, bool waits) {
  return lock_by_names(targets, waits);
}

pq::call lock_named(const row_refs<signal>& signals, bool waits) {
  return lock_by_names(signals, waits);
}

static pq::call move_by(const sql::statement& what,
                        const row_refs<transition>& xs) {
  auto text_of = [](std::optional<json> transition::*member) {
    return [member](const transition& x) {
      const auto& value = x.*member;
      return value ? std::optional<std::string_view>{value->text()}
                   : std::nullopt;
    };
  };
  return pq::make_call(
    what, pq::ids_of(xs), column(xs, &transition::to),
    column(xs, &transition::from), column(xs, &transition::seq),
    column(xs, text_of(&transition::state)),
    column(xs, text_of(&transition::metadata)), column(xs, &transition::reason),
    column(xs, &transition::by));
}

pq::call move_targets(const row_refs<transition>& xs) {
  return move_by(sql::transition, xs);
}

pq::call move_named(const row_refs<transition>& xs, bool waits) {
  auto x = move_by(sql::transition_named, xs);
  x.args.add(pq::keys_of(xs)).add(waits);
  return x;
}

} // namespace gd::store
