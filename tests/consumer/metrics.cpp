// Keeps metrics of a node, and shows them.

#include <gd/metrics.hpp>

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <iostream>
#include <memory>

int main() {
  auto registry = std::make_shared<prometheus::Registry>();
  auto tell = gd::metrics::sink(registry);
  if (!tell)
    return 1;
  (*tell)(gd::events::node_started{"a"});
  std::cout << prometheus::TextSerializer{}.Serialize(registry->Collect());
}
