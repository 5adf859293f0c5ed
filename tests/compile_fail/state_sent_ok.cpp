// Whatever has a JSON form can be sent, containers of optionals included.

#include <gd/json.hpp>

#include <caf/all.hpp>

struct gaps {
  std::vector<std::optional<int>> values;
  std::optional<std::vector<double>> samples;

  GD_STATE(gaps, values, samples);
};

caf::error send(caf::binary_serializer& sink, gaps& x) {
  return sink(x);
}
