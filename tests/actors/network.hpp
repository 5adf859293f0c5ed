#pragma once

#include "actors/harness.hpp"

#include <gd/actors/remote.hpp>

namespace gd::test {

/// A network of its own for each engine, as processes have.
struct network_config : system_config {
  network_config() {
    gd::actors::add_network_to(*this);
  }
};

} // namespace gd::test
