#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// clang-format off

/// \file
/// States, and other structs and enums that are stored as JSON.

/// Describes a struct once: its JSON form, CAF's inspect and `operator==`. Stands
/// in a public part of the struct `Type`, which may be nested in a class but not in
/// a function, and lists every field, or none where there is none:
///
///     struct payment {
///       std::int64_t amount = 0;
///       GD_STATE(payment, amount);
///     };
///
/// The names in JSON are those of the fields. What types fields can have: see
/// gd::json_codec.
///
/// A forgotten field would be lost without a word on the next step, so it is a compile
/// error, which names the struct, what is listed, and both counts. Where the fields
/// cannot be counted (the struct is no aggregate), the structured binding's own: "only 2
/// names provided while 'order' decomposes into 3 elements".
#define GD_STATE(Type, ...)                                                    \
  GD_STATE_PARTIAL(Type __VA_OPT__(, ) __VA_ARGS__);                           \
  _Pragma("GCC diagnostic push")                                               \
  _Pragma("GCC diagnostic ignored \"-Wshadow\"")                               \
  static void gd_all_fields_listed([[maybe_unused]] const Type& gd_x_) {       \
    static_assert(!gd_names().empty() || std::is_empty_v<Type>,                \
                  "GD_STATE(" #Type                                            \
                  ") lists no field, but the struct has some");                \
    static_assert(::gd::detail::count_names(gd_names())                        \
                    >= ::gd::detail::count_fields<Type>(),                     \
                  "GD_STATE(" #Type __VA_OPT__(", ") #__VA_ARGS__              \
                  ") does not list every field of the struct");                \
    __VA_OPT__([[maybe_unused]] const auto& [__VA_ARGS__] = gd_x_;)            \
  }                                                                            \
  _Pragma("GCC diagnostic pop")                                                \
  static_assert(true, "require a trailing semicolon")

/// Like #GD_STATE, but unlisted fields are transient: neither stored nor sent, nor
/// compared.
#define GD_STATE_PARTIAL(Type, ...)                                            \
  using gd_type = Type;                                                        \
  GD_FIELDS(__VA_ARGS__);                                                      \
  template <std::same_as<Type> Gd>                                             \
  friend bool operator==(const Gd& gd_a_, const Gd& gd_b_) {                   \
    return gd_a_.gd_fields() == gd_b_.gd_fields();                             \
  }                                                                            \
  template <class GdInspector, std::same_as<Type> Gd>                          \
  friend auto inspect(GdInspector& gd_f_, Gd& gd_x_) {                         \
    return ::gd::detail::inspect_fields(gd_f_, gd_x_);                         \
  }                                                                            \
  static_assert(true, "require a trailing semicolon")

/// Declares the scoped enum `Name`, whose JSON form is the enumerator's name:
///
///     GD_ENUM(checkout_step, start, await_pay, ship);
///
/// Numbers are never stored, so enumerators may be reordered and added; one that is
/// renamed or removed makes stored rows undecodable. They take no values of their
/// own. Namespace scope only. Makes `to_string`, too; the other way is
/// gd::enum_from.
#define GD_ENUM(Name, ...)                                                     \
  enum class Name { __VA_ARGS__ };                                             \
  constexpr std::string_view gd_enum_names(Name) { return #__VA_ARGS__; }      \
  inline std::string to_string(Name x) {                                       \
    return ::gd::detail::enum_to_string(x);                                    \
  }                                                                            \
  template <::gd::detail::object_inspector<Name> GdInspector>                  \
  bool inspect(GdInspector& f, Name& x) {                                      \
    return ::gd::detail::inspect_enum(f, x);                                   \
  }                                                                            \
  static_assert(std::string_view{#__VA_ARGS__}.find('=')                       \
                  == std::string_view::npos,                                   \
                "GD_ENUM stores names, not numbers: drop the '= value'")

/// \cond
// Lists fields of a struct that has no form as JSON: those that are read from columns
// of their names, or that cross a link to a worker, there in this order.
#define GD_FIELDS(...)                                                         \
  auto gd_fields() noexcept { return std::tie(__VA_ARGS__); }                  \
  auto gd_fields() const noexcept { return std::tie(__VA_ARGS__); }            \
  static constexpr std::string_view gd_names() { return #__VA_ARGS__; }        \
  static_assert(true, "require a trailing semicolon")
/// \endcond

// clang-format on

namespace gd::detail {

// -- names --------------------------------------------------------------------

/// Splits the stringified macro arguments "a, b, c".
template <std::size_t N>
consteval std::array<std::string_view, N> split_names(std::string_view list) {
  std::array<std::string_view, N> names{};
  for (auto& name : names) {
    auto comma = list.find(',');
    name = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size()
                                                       : comma + 1);
    while (name.starts_with(' '))
      name.remove_prefix(1);
    while (name.ends_with(' '))
      name.remove_suffix(1);
  }
  return names;
}

consteval std::size_t count_names(std::string_view list) {
  std::size_t n = list.empty() ? 0 : 1;
  for (char c : list)
    n += c == ',';
  return n;
}

template <class T>
inline constexpr auto names_of
  = split_names<count_names(T::gd_names())>(T::gd_names());

template <class T>
inline constexpr auto enum_names_of
  = split_names<count_names(gd_enum_names(T{}))>(gd_enum_names(T{}));

template <class T>
std::string enum_to_string(T x) {
  auto i = static_cast<std::size_t>(x);
  return i < enum_names_of<T>.size() ? std::string{enum_names_of<T>[i]}
                                     : std::to_string(i);
}

// -- kinds of types -----------------------------------------------------------

/// Has a GD_STATE of its own; an inherited one does not count.
template <class T>
concept described = std::same_as<T, typename T::gd_type>;

template <class T>
concept named_enum = std::is_enum_v<T> && requires {
  gd_enum_names(T{});
};

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;

template <class T>
concept map_like = requires {
  typename T::mapped_type;
};

template <class T>
concept sequence = !map_like<T> && requires(T & xs, typename T::value_type x) {
  xs.clear();
  xs.insert(xs.end(), std::move(x));
};

/// The fields of a described struct, as a tuple of references.
template <class T>
auto fields_of(T& x) {
  // A member of a class template is checked when it is first named.
  if constexpr (requires { T::gd_all_fields_listed(x); })
    static_cast<void>(&T::gd_all_fields_listed);
  return x.gd_fields();
}

// -- forgotten fields ---------------------------------------------------------

/// Stands for the value of any field of `Owner`, where only types matter.
template <class Owner>
struct any_field {
  template <class T>
    requires(!std::is_base_of_v<T, Owner>)
  operator T() const;
};

template <class T, class... Fields>
concept braced = requires {
  T{Fields{}...};
};

/// Whether there are so many fields, or more.
template <class T, std::size_t... Is>
consteval bool has_fields(std::index_sequence<Is...>) {
  return braced<T, std::enable_if_t<Is != ~std::size_t{0}, any_field<T>>...>;
}

template <class>
inline constexpr bool holds_array = false;
template <class... Ts>
inline constexpr bool
  holds_array<std::tuple<Ts&...>> = (std::is_array_v<Ts> || ...);

/// How many fields an aggregate has, if it has more than are listed. Else, and where
/// they cannot be counted (an array stands for all of its elements), no more than are
/// listed.
template <class T, std::size_t N = count_names(T::gd_names())>
consteval std::size_t count_fields() {
  if constexpr (std::is_aggregate_v<T> && N > 0
                && !holds_array<decltype(std::declval<T&>().gd_fields())>) {
    if constexpr (has_fields<T>(std::make_index_sequence<N + 1>{}))
      return count_fields<T, N + 1>();
  }
  return N;
}

// -- CAF ----------------------------------------------------------------------

/// Tells the inspectors of CAF 1.x, which want fields by name, from those of
/// CAF 0.17, which take them in order.
template <class Inspector, class T>
concept object_inspector = requires(Inspector& f, T& x) {
  f.object(x);
};

template <class Inspector>
consteval bool loads() {
  if constexpr (requires { Inspector::writes_state; }) // CAF 0.17
    return Inspector::writes_state;
  else
    return Inspector::is_loading;
}

/// CAF 0.17 answers with an error, CAF 1.x with whether it went well.
inline bool failed(bool ok) {
  return !ok;
}

template <class Error>
bool failed(const Error& why) {
  return static_cast<bool>(why);
}

/// Whether a CAF has no or a broken form for T: 0.17 hangs on an infinity, knows
/// no std::optional and reads a vector's enums through an uninitialized one;
/// 1.x knows no enum without an inspect of its own.
template <class Inspector, class T>
consteval bool needs_wire() {
  if constexpr (described<T>)
    return false;
  else if constexpr (map_like<T>)
    return needs_wire<Inspector, typename T::mapped_type>();
  else if constexpr (
    std::is_enum_v<T> || (is_optional<T> && !object_inspector<Inspector, T>))
    return true;
  else if constexpr (is_optional<T> || is_array<T> || sequence<T>)
    return needs_wire<Inspector, typename T::value_type>();
  else
    return std::same_as<T, float> || std::same_as<T, double>;
}

/// Stands for a value that CAF cannot be handed as it is.
template <class T>
struct wire {
  T& ref;
};

template <class Inspector, class T>
decltype(auto) on_wire(T& x) {
  if constexpr (needs_wire<Inspector, T>())
    return wire<T>{x};
  else
    return (x);
}

template <class Inspector, class T>
auto inspect_value(Inspector& f, T& x) {
  auto&& sent = on_wire<Inspector>(x);
  return f.apply(sent);
}

/// Sends the underlying value. CAF 1.x refuses one that names no enumerator;
/// with CAF 0.17, whose errors take its headers, encoding refuses it later.
template <class Inspector, class T>
auto inspect_enum(Inspector& f, T& x) {
  using number = std::underlying_type_t<T>;
  auto set = [&x](number n) {
    x = static_cast<T>(n);
    if constexpr (named_enum<T>)
      return static_cast<std::size_t>(n) < enum_names_of<T>.size();
    else
      return true;
  };
  if constexpr (object_inspector<Inspector, T>) {
    return f.apply([&x] { return static_cast<number>(x); }, set);
  } else {
    auto n = static_cast<number>(x);
    auto res = f.apply(n);
    if constexpr (loads<Inspector>())
      set(n);
    return res;
  }
}

/// Floating-point numbers travel as their bits, an optional as a sequence of
/// none or one, a map as a sequence of keys and values in turn. Saving must not
/// write to `x`: other threads may be reading the same message.
template <class Inspector, class T>
auto inspect(Inspector& f, wire<T>& sent) {
  auto& x = sent.ref;
  if constexpr (!requires(std::size_t n) { f.begin_sequence(n); }) {
    // The renderer of CAF 0.17 takes values and returns nothing.
    if constexpr (!is_optional<T>)
      f(x);
    else if (x)
      f(on_wire<Inspector>(*x));
    else
      f(static_cast<const bool*>(nullptr));
  } else if constexpr (std::is_floating_point_v<T>) {
    using bits
      = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    auto n = std::bit_cast<bits>(x);
    auto res = f.apply(n);
    if constexpr (loads<Inspector>())
      x = std::bit_cast<T>(n);
    return res;
  } else if constexpr (std::is_enum_v<T>) {
    return inspect_enum(f, x);
  } else if constexpr (is_optional<T>) {
    std::size_t n = x ? 1 : 0;
    auto res = f.begin_sequence(n);
    if constexpr (loads<Inspector>()) {
      x.reset();
      if (!failed(res) && n > 0)
        x.emplace();
    }
    if (!failed(res) && x)
      res = inspect_value(f, *x);
    return failed(res) ? std::move(res) : f.end_sequence();
  } else {
    constexpr std::size_t per_item = map_like<T> ? 2 : 1;
    auto n = x.size() * per_item;
    auto res = f.begin_sequence(n);
    auto next = [&f, &res](auto& item) {
      if (!failed(res))
        res = inspect_value(f, item);
    };
    if constexpr (!loads<Inspector>() || is_array<T>) {
      for (auto& item : x) {
        if constexpr (map_like<T>) {
          next(const_cast<typename T::key_type&>(item.first));
          next(item.second);
        } else {
          next(const_cast<typename T::value_type&>(item));
        }
      }
    } else {
      x.clear();
      for (; n >= per_item && !failed(res); n -= per_item) {
        if constexpr (map_like<T>) {
          typename T::key_type key{};
          typename T::mapped_type item{};
          next(key);
          next(item);
          x.insert_or_assign(std::move(key), std::move(item));
        } else {
          typename T::value_type item{};
          next(item);
          x.insert(x.end(), std::move(item));
        }
      }
    }
    return failed(res) ? std::move(res) : f.end_sequence();
  }
}

/// Hands the members of `x` to either CAF.
template <class Inspector, class T, std::size_t N, class... Ts>
auto inspect_members(
  Inspector& f, T& x,
  [[maybe_unused]] const std::array<std::string_view, N>& names,
  std::tuple<Ts&...> members) {
  auto call = [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    std::tuple<decltype(on_wire<Inspector>(std::get<Is>(members)))...> sent{
      on_wire<Inspector>(std::get<Is>(members))...};
    if constexpr (object_inspector<Inspector, T>)
      return f.object(x).fields(f.field(names[Is], std::get<Is>(sent))...);
    else
      return f(std::get<Is>(sent)...);
  };
  return call(std::make_index_sequence<N>{});
}

template <class Inspector, described T>
auto inspect_fields(Inspector& f, T& x) {
  return inspect_members(f, x, names_of<T>, fields_of(x));
}

} // namespace gd::detail

namespace gd {

/// The enumerator of this name, if the GD_ENUM has one.
template <detail::named_enum T>
std::optional<T> enum_from(std::string_view name) {
  const auto& names = detail::enum_names_of<T>;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return static_cast<T>(i);
  return std::nullopt;
}

} // namespace gd
