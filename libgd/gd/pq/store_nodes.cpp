#include <gd/pq/store_nodes.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

namespace gd::store {

using pq::column;
using pq::make_call;

// -- machines -----------------------------------------------------------------

pq::call register_machines(const std::vector<machine>& machines) {
  auto joined = [](const machine& m) {
    std::string names;
    for (const auto& step : m.steps)
      names += (names.empty() ? "" : ",") + step.name;
    return names;
  };
  return make_call(sql::register_machines, column(machines, &machine::name),
                   column(machines, &machine::version),
                   column(machines, &machine::initial_step),
                   column(machines, &machine::queue), column(machines, joined));
}

pq::call find_machines(const std::vector<std::string>& names) {
  return make_call(sql::find_machines, names);
}

// -- nodes --------------------------------------------------------------------

pq::call register_session(const node_record& what) {
  return make_call(sql::register_session, what.incarnation, what.node,
                   what.host, what.process, what.library, what.lease,
                   what.slots, what.queues, what.machines);
}

pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait) {
  return make_call(sql::node_lock, incarnation, std::int64_t{wait.count()});
}

pq::call leave_nodes(const std::string& incarnation) {
  return make_call(sql::leave_nodes, incarnation);
}

pq::call forget_nodes() {
  return make_call(sql::forget_nodes);
}

pq::call silent_sessions(const std::string& incarnation) {
  return make_call(sql::silent_sessions, incarnation);
}

pq::call end_silent_session(const silent_session& which) {
  return make_call(sql::end_silent_session, which.incarnation, which.process,
                   which.began);
}

pq::call foreign_sessions(const std::string& incarnation) {
  return make_call(sql::foreign_sessions, incarnation);
}

} // namespace gd::store
