#include <gd/pq/rows.hpp>

#include <gd/pq/text.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>

namespace gd::pq {

namespace {

// -- the binary format --------------------------------------------------------

// The server's numbers of types.
constexpr Oid oid_bool = 16;
constexpr Oid oid_int8 = 20;
constexpr Oid oid_int2 = 21;
constexpr Oid oid_int4 = 23;
constexpr Oid oid_text_array = 1009;
constexpr Oid oid_int8_array = 1016;

template <class T>
T read_big_endian(const char* in) {
  std::make_unsigned_t<T> bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bits = static_cast<std::make_unsigned_t<T>>(
      (static_cast<std::uint64_t>(bits) << 8)
      | static_cast<unsigned char>(in[i]));
  return static_cast<T>(bits);
}

/// Calls `f` with each element of an array of one dimension; null is empty.
/// False: its counts and lengths are not those of its bytes.
template <class F>
bool each_element(std::string_view array, F f) {
  constexpr std::size_t before_dimensions = 12;
  constexpr std::size_t before_elements = 20;
  constexpr std::size_t before_bytes = 4;
  if (array.size() < before_dimensions)
    return false;
  auto dimensions = read_big_endian<std::int32_t>(array.data());
  if (dimensions == 0)
    return array.size() == before_dimensions;
  if (dimensions != 1 || array.size() < before_elements)
    return false;
  auto count = read_big_endian<std::int32_t>(array.data() + before_dimensions);
  array.remove_prefix(before_elements);
  for (std::int32_t i = 0; i < count; ++i) {
    if (array.size() < before_bytes)
      return false;
    auto length = read_big_endian<std::int32_t>(array.data());
    auto size = static_cast<std::size_t>(std::max(length, std::int32_t{0}));
    array.remove_prefix(before_bytes);
    if (length < -1 || size > array.size())
      return false;
    f(array.substr(0, size));
    array.remove_prefix(size);
  }
  return count >= 0 && array.empty();
}

/// The length of each value of a type, of those that we read; -1: they differ.
int length_of(Oid type) {
  switch (type) {
    case oid_bool:
      return 1;
    case oid_int2:
      return 2;
    case oid_int4:
      return 4;
    case oid_int8:
      return 8;
    default:
      return -1;
  }
}

/// Whether a value has the form of its type, as far as we read such values. No type
/// that has one takes the empty value.
bool well_formed(Oid type, std::string_view value) {
  if (auto length = length_of(type); length >= 0)
    return std::cmp_equal(value.size(), length);
  switch (type) {
    case oid_int8_array: {
      bool all = true;
      auto look = [&all](std::string_view x) {
        all = all && x.size() == sizeof(std::int64_t);
      };
      return each_element(value, look) && all;
    }
    case oid_text_array:
      return each_element(value, [](std::string_view) {});
    default:
      return true;
  }
}

} // namespace

// -- rows ---------------------------------------------------------------------

rows::rows(pg_result* owned) : result_(owned, PQclear) {
  // nop
}

std::size_t rows::size() const noexcept {
  return result_ ? static_cast<std::size_t>(PQntuples(result_.get())) : 0;
}

std::int64_t rows::affected() const noexcept {
  return result_ ? std::strtoll(PQcmdTuples(result_.get()), nullptr, 10) : 0;
}

int rows::column(std::string_view name) const noexcept {
  auto columns = result_ ? PQnfields(result_.get()) : 0;
  for (int column = 0; column < columns; ++column)
    if (PQfname(result_.get(), column) == name)
      return column;
  return -1;
}

bool rows::is_null(std::size_t row, int column) const {
  return column < 0
         || PQgetisnull(result_.get(), static_cast<int>(row), column) != 0;
}

std::int64_t rows::integer(std::size_t row, int column) const {
  auto value = text(row, column);
  switch (value.size()) {
    case 2:
      return read_big_endian<std::int16_t>(value.data());
    case 4:
      return read_big_endian<std::int32_t>(value.data());
    case 8:
      return read_big_endian<std::int64_t>(value.data());
    default:
      return 0;
  }
}

bool rows::boolean(std::size_t row, int column) const {
  auto value = text(row, column);
  return !value.empty() && value.front() != '\0';
}

std::string_view rows::text(std::size_t row, int column) const {
  if (column < 0)
    return {};
  auto r = static_cast<int>(row);
  return {PQgetvalue(result_.get(), r, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), r, column))};
}

std::vector<std::int64_t> rows::integers(std::size_t row, int column) const {
  std::vector<std::int64_t> xs;
  auto take = [&xs](std::string_view x) {
    if (x.size() == sizeof(std::int64_t))
      xs.push_back(read_big_endian<std::int64_t>(x.data()));
  };
  if (!each_element(text(row, column), take))
    xs.clear();
  return xs;
}

std::vector<std::string> rows::texts(std::size_t row, int column) const {
  std::vector<std::string> xs;
  auto take = [&xs](std::string_view x) { xs.emplace_back(x); };
  if (!each_element(text(row, column), take))
    xs.clear();
  return xs;
}

bool rows::ok() const {
  auto status = PQresultStatus(result_.get());
  return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

error rows::failure() const {
  auto field = [this](int code) {
    const char* text = PQresultErrorField(result_.get(), code);
    return std::string{text != nullptr ? text : ""};
  };
  auto state = field(PG_DIAG_SQLSTATE);
  auto message = field(PG_DIAG_MESSAGE_PRIMARY);
  if (message.empty())
    message = one_line(PQresultErrorMessage(result_.get()));
  return {code_of_sqlstate(state), std::move(message), std::move(state)};
}

result<void> rows::check_commit() const {
  if (std::string_view{PQcmdStatus(result_.get())} == "COMMIT")
    return {};
  return error{errc::sql, "the server rolled the transaction back", {}};
}

result<void> rows::check() const {
  auto count = result_ ? PQnfields(result_.get()) : 0;
  struct form {
    int column;
    Oid type;
    int length;
  };
  std::vector<form> forms; // of columns whose type has one
  for (int column = 0; column < count; ++column)
    if (auto type = PQftype(result_.get(), column); !well_formed(type, {}))
      forms.push_back({column, type, length_of(type)});
  for (std::size_t row = 0; row < size(); ++row)
    for (const auto& [column, type, length] : forms)
      if (PQgetlength(result_.get(), static_cast<int>(row), column) != length
          && !is_null(row, column) && !well_formed(type, text(row, column)))
        return error{errc::unavailable,
                     fmt::format("the server's answer is malformed: column {} "
                                 "of row {}",
                                 column + 1, row + 1),
                     {}};
  return {};
}

} // namespace gd::pq
