#pragma once

#include <gd/machine.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// \file
/// What a machine's steps may lead to, as data and as pictures.
namespace gd {

/// The steps of a machine and the transitions that they declare: of one that the
/// program has (`graph`), or as nodes have made it known (`client::graph`).
struct machine_graph {
  /// One of its steps.
  struct step {
    std::string name{}; ///< its enumerator's
    /// Where its `next` may go; nullopt: it declares nothing, and may go anywhere.
    std::optional<std::vector<std::string>> to{};
    bool rests = false; ///< instances rest there; it has no function
    bool ends = false;  ///< arriving there ends an instance; it has no function
    /// Where something outside may move an instance from there.
    std::vector<std::string> outside{};
    /// How long an instance rests there at the most, and with which step it goes on then.
    std::optional<std::chrono::microseconds> after{};
    std::string then{}; ///< empty: it rests for ever
    /// False: the machine has no such step, but instances stand at it.
    bool known = true;
    /// How many stand at it, by status, if they were counted.
    std::map<std::string, std::int64_t> instances{};
  };

  std::string fsm{};          ///< the machine's name
  std::int32_t version = 1;   ///< the machine's version
  std::string initial_step{}; ///< of inserts that name none
  std::vector<step> steps{};  ///< in the order of the enumerators
  bool handled = false;       ///< it has a handler that may go on with a step
  /// Where the handler's `next` may go, whichever step has failed; nullopt: anywhere.
  std::optional<std::vector<std::string>> handler_to{};
  /// Statuses whose counts are estimates: some pages of a large table speak for all.
  std::set<std::string> estimated{};

  /// Adds to what stands at a step, which may be none of the machine's.
  void add_instances(std::string_view at, const std::string& status,
                     std::int64_t count);
};

/// What the machine declares.
machine_graph graph(const machine& of);

// Steps and edges in the order of the steps; names as `printable` has them.

/// A line for each step. "=>": what is open to those outside.
std::string to_text(const machine_graph& x);

/// A flowchart of Mermaid's. Dashed: what may go anywhere, and what the handler does.
/// Rounded: where instances rest; doubled: where they end. Thick: what is open to those
/// outside. With a text: what a deadline does.
std::string to_mermaid(const machine_graph& x);

/// A digraph of Graphviz'. The same.
std::string to_dot(const machine_graph& x);

} // namespace gd
