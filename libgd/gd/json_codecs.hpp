#pragma once

// The codecs behind gd/json.hpp, which is the header to include: of numbers,
// text, times, containers, GD_ENUM and GD_STATE.

#include <gd/json.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

/// \cond
namespace gd {

// -- conversions --------------------------------------------------------------

template <class T>
json to_json(const T& x) {
  std::string out;
  if (auto res = write_json(out, x, {}); !res)
    return json::failed(res.error());
  return json::raw(std::move(out));
}

namespace detail {

template <class T>
result<T> decode_json(std::string_view text, bool strict) {
  if constexpr (!std::same_as<T, json>)
    if (is_encrypted(text)) // its members would be skipped
      return still_encrypted(text);
  auto doc = parse_json(text, {});
  if (!doc)
    return doc.error();
  T x{};
  if (auto res = read_json(json_value{doc->nodes.front(), {}, strict}, x); !res)
    return res.error();
  return x;
}

} // namespace detail

template <class T>
result<T> from_json(std::string_view text) {
  return detail::decode_json<T>(text, false);
}

template <class T>
result<T> from_json(const json& x) {
  if (const auto* why = x.failure())
    return *why;
  return from_json<T>(std::string_view{x.text()});
}

template <class T>
result<T> from_json_strict(std::string_view text) {
  return detail::decode_json<T>(text, true);
}

// -- shapes -------------------------------------------------------------------

namespace detail {

/// Writes what a type reads as JSON Schema: of `type`, `properties`,
/// `additionalProperties`, `items`, `minItems`, `maxItems`, `minimum`, `maximum`, `enum`,
/// `format` and `anyOf` (a value, or null) as much as `gd_insert(strict => true)` knows.
class shape_writer {
public:
  /// A type with a codec of the user's, and one within itself, reads anything, as far as
  /// this tells.
  template <class T>
  void add() {
    constexpr std::type_identity<T> which{};
    if constexpr (requires { json_codec<T>::shape(*this, which); })
      json_codec<T>::shape(*this, which);
    else
      text += "{}";
  }

  /// Of a struct that may have fields of its own type.
  template <class F>
  void add_once(std::type_index type, F f) {
    if (std::find(within_.begin(), within_.end(), type) != within_.end()) {
      text += "{}";
      return;
    }
    within_.push_back(type);
    f();
    within_.pop_back();
  }

  std::string text;

private:
  std::vector<std::type_index> within_;
};

/// As text.
template <class T>
std::string shape_of() {
  shape_writer to;
  to.add<T>();
  return std::move(to.text);
}

} // namespace detail

// -- numbers ------------------------------------------------------------------

namespace detail {

/// For the two 64-bit integers.
template <class T>
result<T> read_integer(const json_value& in, T min, T max);

/// For float and double.
template <class T>
result<void> write_number(std::string& out, T x, const json_path& at);
template <class T>
result<void> read_number(const json_value& in, T& x);

/// Whether a number, written out, has only zeros before its point.
bool is_below_one(std::string_view number);

} // namespace detail

template <>
struct json_codec<bool> {
  static result<void> write(std::string& out, bool x, const json_path&) {
    out += x ? "true" : "false";
    return {};
  }

  static result<void> read(const json_value& in, bool& x) {
    if (in.type() != json_type::boolean)
      return in.expected("boolean");
    x = in.raw() == "true";
    return {};
  }

  static void shape(detail::shape_writer& to, std::type_identity<bool>) {
    to.text += R"({"type":"boolean"})";
  }
};

template <std::integral T>
  requires(!detail::character<T>)
struct json_codec<T> {
  using wide
    = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  using limits = std::numeric_limits<T>;

  static result<void> write(std::string& out, T x, const json_path&) {
    out += std::to_string(x);
    return {};
  }

  static result<void> read(const json_value& in, T& x) {
    auto n = detail::read_integer(in, wide{limits::min()}, wide{limits::max()});
    if (!n)
      return n.error();
    x = static_cast<T>(*n);
    return {};
  }

  static void shape(detail::shape_writer& to, std::type_identity<T>) {
    to.text += R"({"type":"integer","minimum":)" + std::to_string(limits::min())
               + R"(,"maximum":)" + std::to_string(limits::max()) + '}';
  }
};

/// The shortest text that reads back as the same number.
template <class T>
  requires detail::any_of<T, float, double>
struct json_codec<T> {
  static result<void> write(std::string& out, T x, const json_path& at) {
    return detail::write_number(out, x, at);
  }

  static result<void> read(const json_value& in, T& x) {
    return detail::read_number(in, x);
  }

  static void shape(detail::shape_writer& to, std::type_identity<T>) {
    to.text += R"({"type":"number"})";
  }
};

// -- text ---------------------------------------------------------------------

namespace detail {

result<void> write_string(std::string& out, std::string_view x,
                          const json_path& at);

/// "one of a|b|c"
std::string one_of(std::span<const std::string_view> names);

} // namespace detail

template <>
struct json_codec<std::string_view> {
  static result<void> write(std::string& out, std::string_view x,
                            const json_path& at) {
    return detail::write_string(out, x, at);
  }
};

template <>
struct json_codec<std::string> : json_codec<std::string_view> {
  static result<void> read(const json_value& in, std::string& x) {
    if (in.type() != json_type::string)
      return in.expected("string");
    x = in.text();
    return {};
  }

  static void shape(detail::shape_writer& to, std::type_identity<std::string>) {
    to.text += R"({"type":"string"})";
  }
};

/// JSON within JSON, as it is.
template <>
struct json_codec<json> {
  static result<void> write(std::string& out, const json& x,
                            const json_path& at);

  static result<void> read(const json_value& in, json& x) {
    x = json::raw(std::string{in.raw()});
    return {};
  }
};

template <detail::named_enum T>
struct json_codec<T> {
  static result<void> write(std::string& out, T x, const json_path& at) {
    if (static_cast<std::size_t>(x) >= detail::enum_names_of<T>.size())
      return at.expected("a declared enumerator", to_string(x));
    return detail::write_string(out, to_string(x), at);
  }

  static result<void> read(const json_value& in, T& x) {
    if (in.type() == json_type::string)
      if (auto found = enum_from<T>(in.text())) {
        x = *found;
        return {};
      }
    return in.expected(detail::one_of(detail::enum_names_of<T>));
  }

  static void shape(detail::shape_writer& to, std::type_identity<T>) {
    to.text += R"({"enum":[)";
    for (std::string_view before; auto name : detail::enum_names_of<T>) {
      to.text.append(before).append(1, '"').append(name).append(1, '"');
      before = ",";
    }
    to.text += "]}";
  }
};

// -- times --------------------------------------------------------------------

namespace detail {

using json_time = std::chrono::sys_time<std::chrono::microseconds>;

result<void> write_time(std::string& out, json_time x, const json_path& at);
result<json_time> read_time(const json_value& in, std::chrono::microseconds min,
                            std::chrono::microseconds max);

} // namespace detail

/// A count of the duration's own ticks.
template <std::integral Rep, class Period>
struct json_codec<std::chrono::duration<Rep, Period>> {
  using duration = std::chrono::duration<Rep, Period>;

  static result<void> write(std::string& out, duration x, const json_path& at) {
    return write_json(out, x.count(), at);
  }

  static result<void> read(const json_value& in, duration& x) {
    Rep count{};
    auto res = read_json(in, count);
    x = duration{count};
    return res;
  }

  static void shape(detail::shape_writer& to, std::type_identity<duration>) {
    to.add<Rep>();
  }
};

/// RFC 3339 text in UTC with microseconds; what is finer is cut off.
template <class Rep, class Period>
  requires(std::ratio_less_equal_v<Period, std::micro>)
struct json_codec<std::chrono::sys_time<std::chrono::duration<Rep, Period>>> {
  using duration = std::chrono::duration<Rep, Period>;
  using time_point = std::chrono::sys_time<duration>;
  using microseconds = std::chrono::microseconds;

  static result<void> write(std::string& out, time_point x,
                            const json_path& at) {
    return detail::write_time(out, std::chrono::floor<microseconds>(x), at);
  }

  static result<void> read(const json_value& in, time_point& x) {
    auto t = detail::read_time(
      in, std::chrono::ceil<microseconds>(duration::min()),
      std::chrono::floor<microseconds>(duration::max()));
    if (!t)
      return t.error();
    x = time_point{t->time_since_epoch()};
    return {};
  }

  static void shape(detail::shape_writer& to, std::type_identity<time_point>) {
    to.text += R"({"type":"string","format":"date-time"})";
  }
};

// -- containers ---------------------------------------------------------------

namespace detail {

/// An error: `at` is too deep for an array or object.
result<void> check_depth(const json_path& at);

/// Appends the bracket of an array or object, unless it is one level too deep.
result<void> open(std::string& out, char bracket, const json_path& at);

/// Appends a comma, unless what follows is the first after the bracket.
void separate(std::string& out, char bracket);

/// Appends the name of a member, after a comma if it is not the first one.
result<void> write_key(std::string& out, std::string_view key,
                       const json_path& at);

template <class T>
result<void> write_member(std::string& out, std::string_view key, const T& x,
                          const json_path& of) {
  json_path at{&of, key};
  if (auto res = write_key(out, key, at); !res)
    return res;
  return write_json(out, x, at);
}

error unknown_key(const json_value& in,
                  std::span<const std::string_view> names);
error repeated_key(const json_value& in);

} // namespace detail

template <class T>
struct json_codec<std::optional<T>> {
  using gd_element = T;
  static_assert(!detail::is_optional<T>,
                "JSON has only one null: wrap the inner std::optional in a "
                "GD_STATE struct");

  static result<void> write(std::string& out, const std::optional<T>& x,
                            const json_path& at) {
    if (x)
      return write_json(out, *x, at);
    out += "null";
    return {};
  }

  static result<void> read(const json_value& in, std::optional<T>& x) {
    if (in.type() != json_type::null)
      return read_json(in, x.emplace());
    x.reset();
    return {};
  }

  static void shape(detail::shape_writer& to,
                    std::type_identity<std::optional<T>>) {
    to.text += R"({"anyOf":[)";
    to.add<T>();
    to.text += R"(,{"type":"null"}]})";
  }
};

template <class T>
  requires(detail::sequence<T> || detail::is_array<T>)
struct json_codec<T> {
  using gd_element = typename T::value_type;

  static result<void> write(std::string& out, const T& xs,
                            const json_path& at) {
    if (auto res = detail::open(out, '[', at); !res)
      return res;
    std::size_t index = 0;
    for (const typename T::value_type& x : xs) { // by type: vector<bool>
      detail::separate(out, '[');
      if (auto res = write_json(out, x, {&at, {}, index++}); !res)
        return res;
    }
    out += ']';
    return {};
  }

  static result<void> read(const json_value& in, T& xs) {
    if (in.type() != json_type::array)
      return in.expected("array");
    if constexpr (detail::is_array<T>) {
      if (auto n = in.count(); n != xs.size())
        return in.path().expected(std::to_string(xs.size()) + " elements",
                                  std::to_string(n));
      auto x = xs.begin();
      return in.each(
        [&x](const json_value& child) { return read_json(child, *x++); });
    } else {
      xs.clear();
      return in.each([&xs](const json_value& child) -> result<void> {
        typename T::value_type x{};
        if (auto res = read_json(child, x); !res)
          return res;
        xs.insert(xs.end(), std::move(x));
        return {};
      });
    }
  }

  static void shape(detail::shape_writer& to, std::type_identity<T>) {
    to.text += R"({"type":"array","items":)";
    to.add<typename T::value_type>();
    if constexpr (detail::is_array<T>) {
      auto count = std::to_string(std::tuple_size_v<T>);
      to.text += R"(,"minItems":)" + count + R"(,"maxItems":)" + count;
    }
    to.text += '}';
  }
};

template <detail::map_like T>
struct json_codec<T> {
  using gd_element = typename T::mapped_type;

  static_assert(std::same_as<typename T::key_type, std::string>,
                "JSON objects have string keys");

  static result<void> write(std::string& out, const T& xs,
                            const json_path& at) {
    if (auto res = detail::open(out, '{', at); !res)
      return res;
    for (const auto& [key, x] : xs)
      if (auto res = detail::write_member(out, key, x, at); !res)
        return res;
    out += '}';
    return {};
  }

  static result<void> read(const json_value& in, T& xs) {
    if (in.type() != json_type::object)
      return in.expected("object");
    xs.clear();
    return in.each([&xs](const json_value& child) -> result<void> {
      typename T::mapped_type x{};
      if (auto res = read_json(child, x); !res)
        return res;
      auto [pos, added] = xs.insert_or_assign(std::string{child.key()},
                                              std::move(x));
      if (!added && child.strict())
        return detail::repeated_key(child);
      return {};
    });
  }

  static void shape(detail::shape_writer& to, std::type_identity<T>) {
    to.text += R"({"type":"object","additionalProperties":)";
    to.add<typename T::mapped_type>();
    to.text += '}';
  }
};

namespace detail {

/// T, or the element of it, that has no JSON form; void: all have one.
template <class T>
struct formless {
  using type = void;
};
template <class T>
using formless_t = typename formless<T>::type;
template <class T>
  requires requires {
    typename json_codec<T>::gd_none;
  }
struct formless<T> {
  using type = T;
};
template <class T>
  requires requires {
    typename json_codec<T>::gd_element;
  }
struct formless<T> : formless<typename json_codec<T>::gd_element> {};

/// A name as an argument of a template.
template <std::size_t N>
struct text {
  char chars[N + 1] = {};

  consteval explicit text(std::string_view name) {
    std::copy_n(name.begin(), N, chars);
  }
};

/// For the compiler's message.
template <class Struct, text Name>
struct field;

/// The field with that number has a type without JSON form.
template <class T, std::size_t I, class Form>
result<void> no_json_form_of_field() {
  constexpr auto name = names_of<T>[I];
  return no_json_form<Form, field<T, text<name.size()>{name}>>();
}

template <class T, std::size_t I>
void add_field(shape_writer& to) {
  using fields = decltype(std::declval<T&>().gd_fields());
  to.text.append(I > 0 ? ",\"" : "\"").append(names_of<T>[I]).append("\":");
  to.add<std::remove_cvref_t<std::tuple_element_t<I, fields>>>();
}

template <class T>
void add_fields(shape_writer& to) {
  to.text += R"({"type":"object","properties":{)";
  [&to]<std::size_t... Is>(std::index_sequence<Is...>) {
    (add_field<T, Is>(to), ...);
  }
  (std::make_index_sequence<names_of<T>.size()>{});
  to.text += R"(},"additionalProperties":false})";
}

} // namespace detail

template <detail::described T>
struct json_codec<T> {
  static constexpr auto& names = detail::names_of<T>;

  static result<void> write(std::string& out, const T& x, const json_path& at) {
    auto res = detail::open(out, '{', at);
    each_field(x, [&](std::size_t i, const auto& field) {
      if (res)
        res = detail::write_member(out, names[i], field, at);
    });
    out += '}';
    return res;
  }

  static result<void> read(const json_value& in, T& x) {
    if (in.type() != json_type::object)
      return in.expected("object");
    // Of repeated keys the last one counts, as in jsonb.
    std::array<std::optional<json_value>, names.size()> found;
    auto res = in.each([&found](const json_value& child) -> result<void> {
      auto i = std::find(names.begin(), names.end(), child.key());
      if (i == names.end())
        return child.strict() ? detail::unknown_key(child, names)
                              : result<void>{};
      auto& slot = found[static_cast<std::size_t>(i - names.begin())];
      if (slot && child.strict())
        return detail::repeated_key(child);
      slot = child;
      return {};
    });
    each_field(x, [&]([[maybe_unused]] std::size_t i, auto& field) {
      if (res && found[i])
        res = read_json(*found[i], field);
    });
    return res;
  }

  static void shape(detail::shape_writer& to, std::type_identity<T>) {
    to.add_once(typeid(T), [&to] { detail::add_fields<T>(to); });
  }

private:
  /// Calls `f` with the number and the value of each field.
  template <class U, class F>
  static void each_field(U& x, F f) {
    auto fields = detail::fields_of(x);
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      (visit<Is>(f, std::get<Is>(fields)), ...);
    }
    (std::make_index_sequence<names.size()>{});
  }

  template <std::size_t I, class Field, class F>
  static void visit(F& f, Field& field) {
    using form = detail::formless_t<std::remove_const_t<Field>>;
    if constexpr (std::is_void_v<form>)
      f(I, field);
    else
      static_cast<void>(detail::no_json_form_of_field<T, I, form>());
  }
};

} // namespace gd
/// \endcond
