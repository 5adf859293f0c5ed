#include <gd/pq/params.hpp>

#include <array>
#include <cstddef>
#include <type_traits>

namespace gd::pq {

namespace {

// -- the binary format --------------------------------------------------------

template <class T>
  requires std::is_integral_v<T>
void append(std::string& out, T x) {
  auto bits = static_cast<std::make_unsigned_t<T>>(x);
  std::array<char, sizeof(T)> bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = static_cast<char>(bits >> (sizeof(T) - 1 - i) * 8);
  out.append(bytes.data(), bytes.size());
}

void append(std::string& out, std::string_view x) {
  out += x;
}

template <class T>
std::size_t size_of(const T& x) {
  if constexpr (std::is_integral_v<T>)
    return sizeof(T);
  else
    return x.size();
}

/// An element of an array; null if it is absent.
template <class T>
const T* present(const T& x) {
  return &x;
}

template <class T>
const T* present(const std::optional<T>& x) {
  return x ? &*x : nullptr;
}

// The server's numbers of types.
constexpr std::int32_t oid_of_bytea = 17;
constexpr std::int32_t oid_of_int8 = 20;
constexpr std::int32_t oid_of_int2 = 21;
constexpr std::int32_t oid_of_int4 = 23;
constexpr std::int32_t oid_of_text = 25;

template <class T>
constexpr std::int32_t oid_of = oid_of_text;
template <>
constexpr std::int32_t oid_of<bytes> = oid_of_bytea;
template <>
constexpr std::int32_t oid_of<std::int16_t> = oid_of_int2;
template <>
constexpr std::int32_t oid_of<std::int32_t> = oid_of_int4;
template <>
constexpr std::int32_t oid_of<std::int64_t> = oid_of_int8;
template <class T>
constexpr std::int32_t oid_of<std::optional<T>> = oid_of<T>;

template <class T>
std::string encode_array(const std::vector<T>& xs) {
  std::size_t bytes = 20; // in front of the elements
  bool has_null = false;
  for (const auto& x : xs) {
    auto* value = present(x);
    bytes += sizeof(std::int32_t) + (value ? size_of(*value) : 0);
    has_null = has_null || value == nullptr;
  }
  std::string out;
  out.reserve(bytes);
  append(out, std::int32_t{!xs.empty()}); // dimensions
  append(out, std::int32_t{has_null});
  append(out, oid_of<T>);
  if (xs.empty())
    return out;
  append(out, static_cast<std::int32_t>(xs.size()));
  append(out, std::int32_t{1}); // lower bound
  for (const auto& x : xs)
    if (auto* value = present(x)) {
      append(out, static_cast<std::int32_t>(size_of(*value)));
      append(out, *value);
    } else {
      append(out, std::int32_t{-1});
    }
  return out;
}

} // namespace

// -- parameters ---------------------------------------------------------------

params& params::add(bool x) {
  values_.emplace_back(1, x ? '\1' : '\0');
  return *this;
}

params& params::add(std::int32_t x) {
  append(values_.emplace_back(), x);
  return *this;
}

params& params::add(std::int64_t x) {
  append(values_.emplace_back(), x);
  return *this;
}

params& params::add(std::string_view x) {
  values_.emplace_back(x);
  return *this;
}

template <class T>
params& params::add(const std::vector<T>& xs) {
  values_.push_back(encode_array(xs));
  return *this;
}

template params& params::add(const std::vector<std::int16_t>&);
template params& params::add(const std::vector<std::int32_t>&);
template params& params::add(const std::vector<std::int64_t>&);
template params& params::add(const std::vector<std::string>&);
template params& params::add(const std::vector<std::string_view>&);
template params& params::add(const std::vector<std::optional<std::int64_t>>&);
template params&
params::add(const std::vector<std::optional<std::string_view>>&);
template params& params::add(const std::vector<std::optional<std::string>>&);
template params& params::add(const std::vector<std::optional<bytes>>&);

params& params::add_text(const std::string* x) {
  values_.emplace_back(x != nullptr ? *x : std::string{});
  nulls_.push_back(x == nullptr);
  return *this;
}

bound_params::bound_params(const params& args)
  : formats(args.values().size(), args.texts() ? 0 : 1) {
  for (const auto& value : args.values()) {
    data.push_back(args.is_null(data.size()) ? nullptr : value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
}

} // namespace gd::pq
