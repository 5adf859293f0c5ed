#pragma once

#include <gd/error.hpp>
#include <gd/state.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
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
  static json raw(std::string text) {
    return {std::move(text), {}};
  }

  /// Stands for a value that has no JSON form.
  static json failed(error why) {
    return {{}, std::move(why)};
  }

  /// Empty for a failed one.
  const std::string& text() const& noexcept {
    return text_;
  }

  /// The same, moved out.
  std::string text() && noexcept {
    return std::move(text_);
  }

  /// Whether there is a text.
  bool ok() const noexcept {
    return why_.code == errc{};
  }

  /// Why the encoding failed, or null.
  const error* failure() const noexcept {
    return ok() ? nullptr : &why_;
  }

  /// The encoding's failure, or what `check_json` says of the text.
  result<void> check() const;

  /// Whether text and failure are equal; the text is compared as it is.
  bool operator==(const json&) const = default;

  template <class Inspector>
  friend auto inspect(Inspector& f, json& x) {
    return detail::inspect_members(
      f, x, std::array<std::string_view, 3>{"text", "code", "message"},
      std::tie(x.text_, x.why_.code, x.why_.message));
  }

private:
  json(std::string text, error why)
    : text_(std::move(text)), why_(std::move(why)) {
    // nop
  }

  std::string text_ = "{}";
  error why_;
};

/// Whether `text` is one JSON document that is fit for a jsonb column: well-formed,
/// valid UTF-8, at most `max_json_depth` levels, no NUL, no lone surrogate and
/// no number that prints more than `max_json_number` characters. The error, `codec`,
/// says where it is not.
result<void> check_json(std::string_view text);

/// More levels of arrays and objects are refused, in either direction.
inline constexpr std::size_t max_json_depth = 512;

/// Whether it is what `encrypted` makes of a value, as far as its beginning tells: no field
/// of a struct has such a name.
constexpr bool is_encrypted(std::string_view text) noexcept {
  return text.starts_with("{\"gd.key\":");
}

/// PostgreSQL writes numbers out: 1e131071 has 131,072 digits wherever it is
/// shown. Those that print more characters are refused; each double prints less.
inline constexpr std::size_t max_json_number = 400;

/// How many bytes PostgreSQL prints for well-formed JSON, or a few more: with its
/// numbers written out, and with its blanks. An error: a number prints more
/// characters than `max_json_number`.
result<std::size_t> printed_size(std::string_view text);

// -- conversions --------------------------------------------------------------

/// The JSON text of `x`; or the reason why it has none, which whoever is handed it
/// reports.
template <class T>
json to_json(const T& x);

/// Decodes what is stored: unknown keys are skipped and missing ones keep the
/// member's default, so that the rows of older and newer programs decode. What is
/// encrypted is an error, `cipher`, unless it is decoded as a `json`.
template <class T>
result<T> from_json(std::string_view text);

/// The same of a `json`; of a failed one, why it is.
template <class T>
result<T> from_json(const json& x);

/// Decodes what a person wrote: unknown and repeated keys are refused.
template <class T>
result<T> from_json_strict(std::string_view text);

// -- what codecs see ----------------------------------------------------------

/// One step of the path from the document's root. Lives on the stack and is
/// rendered only when something fails.
struct json_path {
  const json_path* up = nullptr; ///< the step above; null: the root
  std::string_view key = {};     ///< of an object's member, else without data
  std::size_t index = 0;         ///< of an array's element
  std::size_t depth = up == nullptr ? 0 : up->depth + 1; ///< 0: the root

  /// For instance `$.items[2].qty`; fit to be shown and stored, whatever the
  /// keys are.
  std::string to_string() const;

  /// "<path>: expected <what>, got <got>"
  error expected(std::string_view what, std::string_view got) const;
};

/// What a JSON value is.
enum class json_type : std::uint8_t {
  null,    ///< `null`
  boolean, ///< `true` or `false`
  number,  ///< integers and others
  string,  ///< text
  array,   ///< a sequence of values
  object   ///< a set of named values
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

/// What a document is made of; the views point into the texts.
struct json_buffers {
  std::vector<char> source;
  std::vector<char> unescaped;
  std::vector<json_node> nodes;
};

/// A document that passed `check_json`. Small ones leave their memory to the next one of
/// their thread.
struct json_document : json_buffers {
  json_document();
  json_document(json_document&&) = default;
  json_document& operator=(json_document&&) = default;
  ~json_document();
};

result<json_document> parse_json(std::string_view text, const json_path& at);

/// Of what is encrypted, where it is decoded as it is: with the key's name.
error still_encrypted(std::string_view text);

} // namespace detail

/// A JSON value on its way into a C++ value.
class json_value {
public:
  /// Made by `from_json`.
  json_value(const detail::json_node& node, const json_path& at,
             bool strict) noexcept
    : node_(&node), at_(at), strict_(strict) {
    // nop
  }

  /// What it is.
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

  /// Where it stands in its document.
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

template <class T, class... Ts>
concept any_of = (std::same_as<T, Ts> || ...);

template <class T>
concept character = any_of<T, char, wchar_t, char8_t, char16_t, char32_t>;

/// Does not compile. The compiler's message shows what it was made for: the type, and
/// the struct and the name of the field that has it.
template <class T, class... Field>
result<void> no_json_form() {
  static_assert(!std::is_enum_v<T>, "declare the enum with GD_ENUM");
  static_assert(!character<T>,
                "a character is neither text nor a number: use std::string, "
                "std::int8_t or std::uint8_t");
  static_assert(std::is_enum_v<T> || character<T>,
                "no JSON form: add GD_STATE(...) to the struct or specialize "
                "gd::json_codec<T>");
  return {};
}

} // namespace detail

/// Gives a type its JSON form, in the manner of fmt::formatter. These have one:
///
/// - `bool`, integers, `float`, `double` (what is not finite has none);
/// - `std::string`, `std::string_view` (to JSON only): UTF-8;
/// - enums of #GD_ENUM: the enumerator's name; structs with #GD_STATE: an object;
/// - `std::optional`: the value, or null; sequences and `std::array`: an array; maps
///   with keys of `std::string`: an object;
/// - integral `std::chrono` durations: a count of their own ticks; points in time of
///   the system clock: RFC 3339 text in UTC with microseconds, what is finer is cut
///   off;
/// - gd::json: as it is.
///
/// Specialize it for other types, with two static members:
///
/// `result<void> write(std::string& out, const T& x, const json_path& at)`
/// appends JSON text;
///
/// `result<void> read(const json_value& in, T& x)` may leave anything in `x`
/// when it fails.
template <class T>
struct json_codec {
  /// \cond
  using gd_none = T;
  static result<void> write(std::string&, const T&, const json_path&) {
    return detail::no_json_form<T>();
  }
  static result<void> read(const json_value&, T&) {
    return detail::no_json_form<T>();
  }
  /// \endcond
};

/// Appends the JSON text of `x`, as its codec does. The error, `codec`, names the
/// path `at`.
template <class T>
result<void> write_json(std::string& out, const T& x, const json_path& at) {
  return json_codec<T>::write(out, x, at);
}

/// Decodes `in`, as the codec of T does; when it fails, with `codec`, anything may
/// be in `x`.
template <class T>
result<void> read_json(const json_value& in, T& x) {
  return json_codec<T>::read(in, x);
}

} // namespace gd

// The codecs of standard types, enums and structs; and the conversions.
#include <gd/json_codecs.hpp>
