// How values are read that are not simply one column's.

#include <gd/json_codecs.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <fmt/format.h>

#include <utility>

namespace gd::pq {

cell_reader<std::vector<raw_signal>>::cell_reader(const rows& from,
                                                  std::string_view)
  : ids(from.column("ids")),
    names(from.column("names")),
    payloads(from.column("payloads")),
    traces(from.column("traces")) {
  // nop
}

bool cell_reader<std::vector<raw_signal>>::is_null(const rows& from,
                                                   std::size_t row) const {
  return from.is_null(row, ids);
}

/// None of the columns is longer than the others. If one is, nothing is shown:
/// what is not shown is not lost.
std::vector<raw_signal>
cell_reader<std::vector<raw_signal>>::read(const rows& from,
                                           std::size_t row) const {
  auto numbers = from.integers(row, ids);
  auto named = from.texts(row, names);
  auto texts = from.texts(row, payloads);
  auto traced = from.texts(row, traces);
  std::vector<raw_signal> xs;
  auto n = numbers.size();
  if (named.size() != n || texts.size() != n || traced.size() != n)
    return xs;
  xs.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    xs.push_back({numbers[i], std::move(named[i]), std::move(texts[i]),
                  std::move(traced[i])});
  return xs;
}

json cell_reader<json>::read(const rows& from, std::size_t row) const {
  auto text = cell_reader<std::string>::read(from, row);
  if (!text.empty())
    return json::raw(std::move(text));
  return json::failed(
    {errc::codec,
     fmt::format("longer than {} bytes as PostgreSQL prints it",
                 store::longest_text),
     {}});
}

store::outside_steps
cell_reader<store::outside_steps>::read(const rows& from,
                                        std::size_t row) const {
  auto x = from_json<store::outside_steps>(from.text(row, column));
  return x ? std::move(*x) : store::outside_steps{};
}

store::retention cell_reader<store::retention>::read(const rows& from,
                                                     std::size_t row) const {
  auto x = from_json<store::retention>(from.text(row, column));
  return x ? *x : store::retention{};
}

} // namespace gd::pq
