#pragma once

#include <gd/error.hpp>
#include <gd/state.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gd {

// -- the text -----------------------------------------------------------------

/// The text of one JSON value, or the reason why there is none: whoever is
/// handed a `json` that failed to encode reports the error. Travels in CAF
/// messages.
class json {
public:
  /// An object without members.
  json() = default;

  /// Takes the text as it is; `check` says whether it is JSON.
  static json raw(std::string text);

  /// Stands for a value that has no JSON form.
  static json failed(error why);

  /// Empty for a failed one.
  const std::string& text() const& noexcept {
    return text_;
  }

  std::string text() && noexcept {
    return std::move(text_);
  }

  bool ok() const noexcept {
    return why_.code == errc{};
  }

  /// Why the encoding failed, or null.
  const error* failure() const noexcept {
    return ok() ? nullptr : &why_;
  }

  /// The encoding's failure, or what `check_json` says of the text.
  result<void> check() const;

  bool operator==(const json&) const = default;

  template <class Inspector>
  friend auto inspect(Inspector& f, json& x) {
    return detail::inspect_members(
      f, x, std::array<std::string_view, 3>{"text", "code", "message"},
      std::tie(x.text_, x.why_.code, x.why_.message));
  }

private:
  std::string text_ = "{}";
  error why_;
};

/// Whether `text` is one JSON document that is fit for a jsonb column: well-formed,
/// valid UTF-8, at most `max_json_depth` levels, no NUL, no lone surrogate and
/// no number that prints more than `max_json_number` characters.
result<void> check_json(std::string_view text);

/// More levels of arrays and objects are refused, in either direction.
inline constexpr std::size_t max_json_depth = 512;

/// PostgreSQL writes numbers out: 1e131071 has 131,072 digits wherever it is
/// shown. Those that print more characters are refused; each double prints less.
inline constexpr std::size_t max_json_number = 400;

/// How many bytes PostgreSQL prints for well-formed JSON, or a few more: with its
/// numbers written out, and with its blanks. An error: a number prints more
/// characters than `max_json_number`.
result<std::size_t> printed_size(std::string_view text);

// -- what codecs see ----------------------------------------------------------

/// One step of the path from the document's root. Lives on the stack and is
/// rendered only when something fails.
struct json_path {
  const json_path* up = nullptr;
  std::string_view key = {}; ///< of an object's member, else without data
  std::size_t index = 0;     ///< of an array's element
  std::size_t depth = up == nullptr ? 0 : up->depth + 1;

  /// For instance `$.items[2].qty`; fit to be shown and stored, whatever the
  /// keys are.
  std::string to_string() const;

  /// "<path>: expected <what>, got <got>"
  error expected(std::string_view what, std::string_view got) const;
};

enum class json_type : std::uint8_t {
  null,
  boolean,
  number,
  string,
  array,
  object
};

namespace detail {

/// A value of a parsed document. The nodes of its children follow it.
struct json_node {
  json_type type;
  std::string_view key;  ///< if it is an object's member
  std::string_view raw;  ///< its JSON text
  std::string_view text; ///< of a string, without quotes and escapes
  std::size_t size = 1;  ///< nodes, with itself
};

/// A document that passed `check_json`; the views point into its buffers.
struct json_document {
  std::vector<char> source;
  std::vector<char> unescaped;
  std::vector<json_node> nodes;
};

result<json_document> parse_json(std::string_view text, const json_path& at);

} // namespace detail

/// A JSON value on its way into a C++ value.
class json_value {
public:
  json_value(const detail::json_node& node, const json_path& at,
             bool strict) noexcept
    : node_(&node), at_(at), strict_(strict) {
    // nop
  }

  json_type type() const noexcept {
    return node_->type;
  }

  /// The value's JSON text.
  std::string_view raw() const noexcept {
    return node_->raw;
  }

  /// The text of a string, without quotes and escapes.
  std::string_view text() const noexcept {
    return node_->text;
  }

  /// The member's name, if the value is a member.
  std::string_view key() const noexcept {
    return node_->key;
  }

  /// Whether unknown and repeated keys are errors.
  bool strict() const noexcept {
    return strict_;
  }

  const json_path& path() const noexcept {
    return at_;
  }

  /// How many elements or members it has.
  std::size_t count() const;

  /// "<path>: expected <what>, got <this value>"
  error expected(std::string_view what) const;

  /// Calls `f(child)` for the elements of an array or the members of an object
  /// until one fails. A child must not outlive this value.
  template <class F>
  result<void> each(F f) const {
    std::size_t index = 0;
    for (auto i = node_ + 1; i != node_ + node_->size; i += i->size, ++index)
      if (auto res = f(json_value{*i, {&at_, i->key, index}, strict_}); !res)
        return res;
    return {};
  }

private:
  const detail::json_node* node_;
  json_path at_;
  bool strict_;
};

namespace detail {

template <class T>
inline constexpr bool is_character = false;
template <>
inline constexpr bool is_character<char> = true;
template <>
inline constexpr bool is_character<wchar_t> = true;
template <>
inline constexpr bool is_character<char8_t> = true;
template <>
inline constexpr bool is_character<char16_t> = true;
template <>
inline constexpr bool is_character<char32_t> = true;

} // namespace detail

/// Gives a type its JSON form, in the manner of fmt::formatter. Specialize it
/// for other types, with two static members:
///
/// `result<void> write(std::string& out, const T& x, const json_path& at)`
/// appends JSON text;
///
/// `result<void> read(const json_value& in, T& x)` may leave anything in `x`
/// when it fails.
template <class T>
struct json_codec {
  static_assert(!std::is_enum_v<T>, "declare the enum with GD_ENUM");
  static_assert(!detail::is_character<T>,
                "a character is neither text nor a number: use std::string, "
                "std::int8_t or std::uint8_t");
  static_assert(std::is_enum_v<T> || detail::is_character<T>,
                "no JSON form: add GD_STATE(...) to the struct or specialize "
                "gd::json_codec<T>");
};

template <class T>
result<void> write_json(std::string& out, const T& x, const json_path& at) {
  return json_codec<T>::write(out, x, at);
}

template <class T>
result<void> read_json(const json_value& in, T& x) {
  return json_codec<T>::read(in, x);
}

// -- conversions --------------------------------------------------------------

/// The JSON text of `x`.
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
  auto doc = parse_json(text, {});
  if (!doc)
    return doc.error();
  T x{};
  if (auto res = read_json(json_value{doc->nodes.front(), {}, strict}, x); !res)
    return res.error();
  return x;
}

} // namespace detail

/// Decodes what is stored: unknown keys are skipped and missing ones keep the
/// member's default, so that the rows of older and newer programs decode.
template <class T>
result<T> from_json(std::string_view text) {
  return detail::decode_json<T>(text, false);
}

/// Decodes what a person wrote: unknown and repeated keys are refused.
template <class T>
result<T> from_json_strict(std::string_view text) {
  return detail::decode_json<T>(text, true);
}

// -- codecs -------------------------------------------------------------------

namespace detail {

/// For float and double.
template <class T>
result<void> write_number(std::string& out, T x, const json_path& at);
template <class T>
result<void> read_number(const json_value& in, T& x);

/// For the two 64-bit integers.
template <class T>
result<T> read_integer(const json_value& in, T min, T max);

result<void> write_string(std::string& out, std::string_view x,
                          const json_path& at);
result<void> write_time(std::string& out,
                        std::chrono::sys_time<std::chrono::microseconds> x,
                        const json_path& at);

/// Calls `f` with the constants from 0 to N - 1 until it returns false.
template <std::size_t N, class F>
void all_below([[maybe_unused]] F f) {
  auto call = [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    return (f(std::integral_constant<std::size_t, Is>{}) && ...);
  };
  call(std::make_index_sequence<N>{});
}

/// Appends the bracket of an array or object, unless it is one level too deep.
result<void> open(std::string& out, char bracket, const json_path& at);

/// Appends a comma, unless what follows is the first after the bracket.
void separate(std::string& out, char bracket);

/// Appends the name of a member, after a comma if it is not the first one.
result<void> write_key(std::string& out, std::string_view key,
                       const json_path& at);

result<std::chrono::sys_time<std::chrono::microseconds>>
read_time(const json_value& in, std::chrono::microseconds min,
          std::chrono::microseconds max);

/// "one of a|b|c"
std::string one_of(std::span<const std::string_view> names);

error unknown_key(const json_value& in,
                  std::span<const std::string_view> names);
error repeated_key(const json_value& in);

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
};

template <std::integral T>
  requires(!detail::is_character<T>)
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
};

/// The shortest text that reads back as the same number.
template <class T>
  requires(std::same_as<T, float> || std::same_as<T, double>)
struct json_codec<T> {
  static result<void> write(std::string& out, T x, const json_path& at) {
    return detail::write_number(out, x, at);
  }

  static result<void> read(const json_value& in, T& x) {
    return detail::read_number(in, x);
  }
};

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
};

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
};

template <class T>
struct json_codec<std::optional<T>> {
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
};

namespace detail {

template <class T>
result<void> write_array(std::string& out, const T& xs, const json_path& at) {
  if (auto res = open(out, '[', at); !res)
    return res;
  std::size_t index = 0;
  for (const typename T::value_type& x : xs) { // by type: vector<bool>
    separate(out, '[');
    if (auto res = write_json(out, x, {&at, {}, index++}); !res)
      return res;
  }
  out += ']';
  return {};
}

} // namespace detail

template <detail::sequence T>
struct json_codec<T> {
  static result<void> write(std::string& out, const T& xs,
                            const json_path& at) {
    return detail::write_array(out, xs, at);
  }

  static result<void> read(const json_value& in, T& xs) {
    if (in.type() != json_type::array)
      return in.expected("array");
    xs.clear();
    return in.each([&xs](const json_value& child) -> result<void> {
      typename T::value_type x{};
      if (auto res = read_json(child, x); !res)
        return res;
      xs.insert(xs.end(), std::move(x));
      return {};
    });
  }
};

template <class T, std::size_t N>
struct json_codec<std::array<T, N>> {
  static result<void> write(std::string& out, const std::array<T, N>& xs,
                            const json_path& at) {
    return detail::write_array(out, xs, at);
  }

  static result<void> read(const json_value& in, std::array<T, N>& xs) {
    if (in.type() != json_type::array)
      return in.expected("array");
    if (auto n = in.count(); n != N)
      return in.path().expected(std::to_string(N) + " elements",
                                std::to_string(n));
    auto x = xs.begin();
    return in.each(
      [&x](const json_value& child) { return read_json(child, *x++); });
  }
};

template <detail::map_like T>
struct json_codec<T> {
  static_assert(std::same_as<typename T::key_type, std::string>,
                "JSON objects have string keys");

  static result<void> write(std::string& out, const T& xs,
                            const json_path& at) {
    if (auto res = detail::open(out, '{', at); !res)
      return res;
    for (const auto& [key, x] : xs) {
      json_path here{&at, key};
      if (auto res = detail::write_key(out, key, here); !res)
        return res;
      if (auto res = write_json(out, x, here); !res)
        return res;
    }
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
};

template <detail::described T>
struct json_codec<T> {
  static constexpr auto& names = detail::names_of<T>;

  static result<void> write(std::string& out, const T& x, const json_path& at) {
    auto res = detail::open(out, '{', at);
    if (!res)
      return res;
    [[maybe_unused]] auto fields = detail::fields_of(x);
    detail::all_below<names.size()>([&](auto i) {
      json_path here{&at, names[i]};
      if (res = detail::write_key(out, names[i], here); res)
        res = write_json(out, std::get<i>(fields), here);
      return static_cast<bool>(res);
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
    if (!res)
      return res;
    [[maybe_unused]] auto fields = detail::fields_of(x);
    detail::all_below<names.size()>([&](auto i) {
      if (found[i])
        res = read_json(*found[i], std::get<i>(fields));
      return static_cast<bool>(res);
    });
    return res;
  }
};

} // namespace gd
