#pragma once

#include <gd/pq/rows.hpp>
#include <gd/state.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// Rows of a statement as structs: fields of GD_FIELDS are read from columns of the same
/// names. Where these are is found out once for all rows; one that is not there reads as
/// null.
namespace gd::pq {

/// Reads values of one type. Others than these, or of several columns, have a
/// specialization beside them.
template <class T>
struct cell_reader {
  int column;

  cell_reader(const rows& from, std::string_view name)
    : column(from.column(name)) {
    // nop
  }

  bool is_null(const rows& from, std::size_t row) const {
    return from.is_null(row, column);
  }

  T read(const rows& from, std::size_t row) const {
    if constexpr (std::same_as<T, bool>)
      return from.boolean(row, column);
    else if constexpr (std::integral<T>)
      return static_cast<T>(from.integer(row, column));
    else if constexpr (detail::named_enum<T>)
      return enum_from<T>(from.text(row, column)).value_or(T{});
    else if constexpr (std::same_as<T, std::vector<std::int64_t>>)
      return from.integers(row, column);
    else if constexpr (std::same_as<T, std::vector<std::string>>)
      return from.texts(row, column);
    else
      return T{from.text(row, column)};
  }
};

template <class T>
struct cell_reader<std::optional<T>> : cell_reader<T> {
  using cell_reader<T>::cell_reader;

  std::optional<T> read(const rows& from, std::size_t row) const {
    if (this->is_null(from, row))
      return std::nullopt;
    return cell_reader<T>::read(from, row);
  }
};

/// Of references to the members.
template <class Fields>
struct cell_readers;

template <class... Ts>
struct cell_readers<std::tuple<Ts&...>> {
  using type = std::tuple<cell_reader<Ts>...>;

  template <class Names, std::size_t... Is>
  static type find(const rows& from, const Names& names,
                   std::index_sequence<Is...>) {
    return {cell_reader<Ts>{from, names[Is]}...};
  }
};

template <class Row>
class row_reader {
public:
  explicit row_reader(const rows& from)
    : from_(from),
      cells_(
        readers::find(from, names, std::make_index_sequence<names.size()>{})) {
    // nop
  }

  /// Leaves members that are no columns as they are.
  void read(std::size_t row, Row& to) const {
    auto read_cells = [&](const auto&... cells) {
      auto into = [&](auto&... members) {
        ((members = cells.read(from_, row)), ...);
      };
      std::apply(into, to.gd_fields());
    };
    std::apply(read_cells, cells_);
  }

  Row read(std::size_t row) const {
    Row x;
    read(row, x);
    return x;
  }

private:
  static constexpr const auto& names = detail::names_of<Row>;
  using readers = cell_readers<decltype(std::declval<Row&>().gd_fields())>;

  const rows& from_;
  typename readers::type cells_;
};

template <class Row>
std::vector<Row> read(const rows& from) {
  row_reader<Row> reader{from};
  std::vector<Row> xs(from.size());
  for (std::size_t i = 0; i < xs.size(); ++i)
    reader.read(i, xs[i]);
  return xs;
}

/// The first row, if there is one.
template <class Row>
std::optional<Row> read_one(const rows& from) {
  if (from.size() == 0)
    return std::nullopt;
  return row_reader<Row>{from}.read(0);
}

} // namespace gd::pq
