#pragma once

#include <gd/machine.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

/// What `store` is for instances and signals, for machines and nodes.
namespace gd::store {

using pq::read;
using pq::read_one;

// -- machines -----------------------------------------------------------------

pq::call register_machines(const std::vector<machine>& machines);

struct known_machine {
  std::string fsm{};
  std::int32_t version = 1;
  std::string initial_step{};
  std::string queue{};
  std::vector<std::string> steps{};

  GD_COLUMNS(fsm, version, initial_step, queue, steps);
};
pq::call find_machines(const std::vector<std::string>& names);

// -- nodes --------------------------------------------------------------------

/// What a node tells of itself.
struct node_record {
  std::string incarnation{};
  std::string node{};
  std::string host{};
  std::int32_t process = 0;
  std::string library{};
  std::chrono::microseconds lease{0};
  std::int32_t slots = 0;
  std::string queues{};   ///< JSON
  std::string machines{}; ///< JSON
};
/// For each session of a node, before it does anything else.
pq::call register_session(const node_record& what);
/// `wait`: for an older session of the same node to end.
pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait);
pq::call leave_nodes(const std::string& incarnation);
pq::call forget_nodes();

pq::call silent_sessions(const std::string& incarnation);
struct silent_session {
  std::string incarnation{};
  std::string node{};
  std::int32_t process = 0;
  std::string began{};
  bool may_end = false;

  GD_COLUMNS(incarnation, node, process, began, may_end);
};
/// A row: it has been asked to end.
pq::call end_silent_session(const silent_session& which);

pq::call foreign_sessions(const std::string& incarnation);
struct foreign_session {
  std::string node{};

  GD_COLUMNS(node);
};

} // namespace gd::store
