#include <gd/json.hpp>

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <memory>
#include <system_error>

namespace gd {

namespace {

namespace ondemand = simdjson::ondemand;
using text_result = simdjson::simdjson_result<std::string_view>;

/// A start of `text` that is fit for an error message.
std::string excerpt(std::string_view text) {
  constexpr std::size_t most = 40;
  auto is_continuation = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
  };
  auto n = text.size();
  if (n > most)
    for (n = most; n > 0 && is_continuation(text[n]);)
      --n;
  std::string out{text.substr(0, n)};
  bool utf8 = simdjson::validate_utf8(out);
  for (auto& c : out) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !utf8))
      c = '?';
  }
  if (n < text.size())
    out += "...";
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\n\r";
  auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

error malformed(const json_path& at, std::string_view why) {
  return at.expected("well-formed JSON", why);
}

error malformed(const json_path& at, simdjson::error_code why) {
  return malformed(at, simdjson::error_message(why));
}

error too_deep(const json_path& at) {
  return at.expected(fmt::format("at most {} levels", max_json_depth), "more");
}

/// Takes the digits at the front of `text`.
std::string_view take_digits(std::string_view& text) {
  auto n = std::min(text.find_first_not_of("0123456789"), text.size());
  auto digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

/// How a number is written.
struct number_form {
  bool ok = false;
  /// Characters that PostgreSQL prints.
  std::ptrdiff_t printed = 0;
  /// Digits before the point, if written out; 0 or less: it is below one.
  std::ptrdiff_t before = 0;
};

/// simdjson looks at a number only when it is read as one.
number_form form_of(std::string_view token) {
  number_form form;
  bool negative = token.starts_with('-');
  if (negative)
    token.remove_prefix(1);
  auto whole = take_digits(token);
  form.ok = whole.size() == 1 || (whole.size() > 1 && whole[0] != '0');
  std::string_view fraction;
  if (token.starts_with('.')) {
    token.remove_prefix(1);
    fraction = take_digits(token);
    form.ok = form.ok && !fraction.empty();
  }
  std::ptrdiff_t exponent = 0;
  if (token.starts_with('e') || token.starts_with('E')) {
    token.remove_prefix(1);
    bool below = token.starts_with('-');
    if (below || token.starts_with('+'))
      token.remove_prefix(1);
    auto digits = take_digits(token);
    form.ok = form.ok && !digits.empty();
    // Saturates far beyond what anything accepts.
    for (char c : digits)
      exponent = std::min(exponent * 10 + (c - '0'), std::ptrdiff_t{1} << 40);
    if (below)
      exponent = -exponent;
  }
  form.ok = form.ok && token.empty();
  form.before = exponent + std::ssize(whole);
  if (whole == "0") {
    auto zeros = fraction.find_first_not_of('0');
    // Zero is below one, whatever its exponent.
    form.before = zeros == std::string_view::npos
                    ? 0
                    : exponent - static_cast<std::ptrdiff_t>(zeros);
  }
  auto after = std::ssize(fraction) - exponent;
  form.printed = std::max(form.before, std::ptrdiff_t{1})
                 + (after > 0 ? after + 1 : 0) + (negative ? 1 : 0);
  return form;
}

result<void> check_number(std::string_view token, const json_path& at) {
  auto form = form_of(token);
  if (!form.ok)
    return malformed(at, "number " + excerpt(token));
  if (form.printed > std::ptrdiff_t{max_json_number})
    return at.expected(
      fmt::format("a number that PostgreSQL prints with at most {} characters",
                  max_json_number),
      excerpt(token));
  return {};
}

/// The length of the string at the front of `text`, with its quotes.
std::size_t quoted_size(std::string_view text) {
  std::size_t i = 1;
  while (i < text.size() && text[i] != '"')
    i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

/// Turns a document into nodes and checks all of it on the way. The nesting
/// of walk() is bounded by `max_json_depth`.
class parse_run {
public:
  explicit parse_run(detail::json_document& doc) : doc_(doc) {
    // nop
  }

  result<void> operator()(std::string_view text, const json_path& at) {
    // The parser keeps its buffers for the next document, within reason.
    thread_local ondemand::parser parser;
    if (parser.capacity() > std::size_t{1} << 20)
      parser = ondemand::parser{};
    auto& buffer = doc_.source;
    buffer.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    buffer.assign(text.begin(), text.end());
    buffer.resize(buffer.size() + simdjson::SIMDJSON_PADDING);
    text_ = trim({buffer.data(), text.size()});
    if (text_.empty())
      return malformed(at, "nothing");
    simdjson::padded_string_view padded{buffer.data(), text.size(),
                                        buffer.size()};
    if (auto why = parser.iterate(padded).get(source_))
      return malformed(at, why);
    if (auto res = walk(source_, {}, at); !res)
      return res;
    if (doc_.nodes.front().raw.size() != text_.size())
      return at.expected("one JSON document", "trailing content");
    return {};
  }

private:
  /// `value` is the document or a value in it: simdjson tells them apart.
  template <class Value>
  result<void> walk(Value& value, std::string_view key, const json_path& at) {
    ondemand::json_type type;
    std::string_view token;
    if (auto why = value.type().get(type))
      return malformed(at, why);
    if (auto why = text_result{value.raw_json_token()}.get(token))
      return malformed(at, why);
    token = trim(token);
    auto add = [&](json_type kind, std::string_view unquoted = {}) {
      doc_.nodes.push_back({kind, key, token, unquoted});
    };
    switch (type) {
      case ondemand::json_type::array:
        add(json_type::array);
        return walk_array(value, at);
      case ondemand::json_type::object:
        add(json_type::object);
        return walk_object(value, at);
      case ondemand::json_type::string: {
        // Reading it also moves simdjson on: it would skip a string together
        // with a colon behind it.
        auto unquoted = unquote(token, value.get_string(), at);
        if (!unquoted)
          return unquoted.error();
        add(json_type::string, *unquoted);
        return {};
      }
      case ondemand::json_type::number:
        add(json_type::number);
        return check_number(token, at);
      case ondemand::json_type::boolean:
        add(json_type::boolean);
        if (token != "true" && token != "false")
          return malformed(at, excerpt(token));
        return {};
      default:
        add(json_type::null);
        if (token != "null")
          return malformed(at, excerpt(token));
        return {};
    }
  }

  template <class Value>
  result<void> walk_array(Value& value, const json_path& at) {
    auto self = doc_.nodes.size() - 1;
    if (at.depth >= max_json_depth)
      return too_deep(at);
    ondemand::array array;
    if (auto why = value.get_array().get(array))
      return malformed(at, why);
    std::size_t index = 0;
    for (auto element : array) {
      json_path here{&at, {}, index++};
      ondemand::value child;
      if (auto why = element.get(child))
        return malformed(here, why);
      if (auto res = walk(child, {}, here); !res)
        return res;
    }
    return close(self);
  }

  template <class Value>
  result<void> walk_object(Value& value, const json_path& at) {
    auto self = doc_.nodes.size() - 1;
    if (at.depth >= max_json_depth)
      return too_deep(at);
    ondemand::object object;
    if (auto why = value.get_object().get(object))
      return malformed(at, why);
    for (auto field : object) {
      ondemand::raw_json_string quoted;
      if (auto why = field.key().get(quoted))
        return malformed(at, why);
      // A key comes without its length, from behind the opening quote.
      auto token = text_.substr(
        static_cast<std::size_t>(quoted.raw() - 1 - text_.data()));
      auto key = unquote(token.substr(0, quoted_size(token)),
                         field.unescaped_key(), at);
      if (!key)
        return key.error();
      json_path here{&at, *key};
      ondemand::value child;
      if (auto why = field.value().get(child))
        return malformed(here, why);
      if (auto res = walk(child, *key, here); !res)
        return res;
    }
    return close(self);
  }

  /// Completes the node of an array or object.
  result<void> close(std::size_t index) {
    auto& node = doc_.nodes[index];
    node.size = doc_.nodes.size() - index;
    // What follows is known, or that nothing does.
    const char* next = nullptr;
    if (source_.current_location().get(next) != simdjson::SUCCESS)
      next = end();
    auto first = node.raw.data();
    node.raw = trim({first, static_cast<std::size_t>(next - first)});
    return {};
  }

  /// Takes a string out of its quotes; `parsed` is what simdjson makes of it.
  result<std::string_view> unquote(std::string_view token, text_result parsed,
                                   const json_path& at) {
    std::string_view text;
    if (token.size() < 2 || !token.ends_with('"'))
      return malformed(at, excerpt(token));
    if (has_lone_surrogate(token))
      return at.expected("Unicode text", "a lone surrogate");
    if (auto why = std::move(parsed).get(text))
      return malformed(at, why);
    auto inner = token.substr(1, token.size() - 2);
    if (inner.find('\\') == std::string_view::npos)
      return inner;
    if (text.find('\0') != std::string_view::npos)
      return at.expected("text without NUL", "\\u0000");
    // Text is shorter than its source, so this reserves once and for all: the
    // views stay good.
    auto& buffer = doc_.unescaped;
    buffer.reserve(doc_.source.size());
    auto first = buffer.insert(buffer.end(), text.begin(), text.end());
    return std::string_view{std::to_address(first), text.size()};
  }

  static bool has_lone_surrogate(std::string_view text) {
    auto unit_at = [text](std::size_t i) {
      unsigned unit = 0;
      if (i < text.size() && text.substr(i, 2) == "\\u") {
        auto digits = text.substr(i + 2, 4);
        std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
      }
      return unit;
    };
    auto is_low = [](unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; };
    std::size_t i = 0;
    while ((i = text.find('\\', i)) != std::string_view::npos) {
      auto unit = unit_at(i);
      bool is_high = unit >= 0xD800 && unit < 0xDC00;
      if (is_high ? !is_low(unit_at(i + 6)) : is_low(unit))
        return true;
      i += is_high ? 12 : 2;
    }
    return false;
  }

  const char* end() const {
    return text_.data() + text_.size();
  }

  detail::json_document& doc_;
  std::string_view text_;
  ondemand::document source_;
};

} // namespace

// -- json ---------------------------------------------------------------------

json json::raw(std::string text) {
  json x;
  x.text_ = std::move(text);
  return x;
}

json json::failed(error why) {
  json x;
  x.text_.clear();
  x.why_ = std::move(why);
  return x;
}

result<void> json::check() const {
  return ok() ? check_json(text_) : why_;
}

result<void> check_json(std::string_view text) {
  if (auto doc = detail::parse_json(text, {}); !doc)
    return doc.error();
  return {};
}

result<std::size_t> printed_size(std::string_view text) {
  std::size_t printed = 0;
  while (!text.empty()) {
    auto c = text.front();
    std::size_t taken = 1;
    if (c == '"') {
      taken = quoted_size(text);
      printed += taken; // escapes are as long, or shorter
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      taken = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
      auto number = text.substr(0, taken);
      if (auto ok = check_number(number, {}); !ok)
        return ok.error();
      printed += static_cast<std::size_t>(form_of(number).printed);
    } else if (c == ',' || c == ':') {
      printed += 2;
    } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      printed += 1;
    }
    text.remove_prefix(taken);
  }
  return printed;
}

// -- json_path ----------------------------------------------------------------

std::string json_path::to_string() const {
  constexpr std::size_t shown = 8; // of the first and of the last steps
  std::vector<const json_path*> steps(depth);
  auto step = this;
  for (auto i = depth; i > 0; step = step->up)
    steps[--i] = step;
  std::string out = "$";
  for (std::size_t i = 0; i < depth; ++i) {
    if (i == shown && depth > 2 * shown) {
      out += "...";
      i = depth - shown;
    }
    if (steps[i]->key.data() != nullptr)
      out += "." + excerpt(steps[i]->key);
    else
      out += fmt::format("[{}]", steps[i]->index);
  }
  return out;
}

error json_path::expected(std::string_view what, std::string_view got) const {
  return {errc::codec,
          fmt::format("{}: expected {}, got {}", to_string(), what, got),
          {}};
}

// -- json_value ---------------------------------------------------------------

std::size_t json_value::count() const {
  std::size_t n = 0;
  for (auto i = node_ + 1; i != node_ + node_->size; i += i->size)
    ++n;
  return n;
}

error json_value::expected(std::string_view what) const {
  switch (type()) {
    case json_type::null:
      return at_.expected(what, "null");
    case json_type::boolean:
      return at_.expected(what, "boolean " + excerpt(raw()));
    case json_type::number:
      return at_.expected(what, "number " + excerpt(raw()));
    case json_type::string:
      return at_.expected(what, "string " + excerpt(raw()));
    case json_type::array:
      return at_.expected(what, "array");
    case json_type::object:
      return at_.expected(what, "object");
  }
  return at_.expected(what, "nothing");
}

// -- codecs -------------------------------------------------------------------

result<void> json_codec<json>::write(std::string& out, const json& x,
                                     const json_path& at) {
  if (auto why = x.failure()) {
    // Its own path, if it has one, goes on from here.
    std::string_view tail = why->message;
    if (!tail.starts_with('$'))
      return at.expected("a value with a JSON form", tail);
    tail.remove_prefix(1);
    return error{why->code, at.to_string().append(tail), why->sqlstate};
  }
  if (auto doc = detail::parse_json(x.text(), at); !doc)
    return doc.error();
  out += x.text();
  return {};
}

namespace detail {

result<json_document> parse_json(std::string_view text, const json_path& at) {
  json_document doc;
  if (auto res = parse_run{doc}(text, at); !res)
    return res.error();
  return doc;
}

template <class T>
result<void> write_number(std::string& out, T x, const json_path& at) {
  if (!std::isfinite(x))
    return at.expected("finite number", fmt::to_string(x));
  fmt::format_to(std::back_inserter(out), "{}", x);
  return {};
}

template result<void> write_number(std::string&, float, const json_path&);
template result<void> write_number(std::string&, double, const json_path&);

result<void> write_string(std::string& out, std::string_view x,
                          const json_path& at) {
  if (!simdjson::validate_utf8(x))
    return at.expected("UTF-8 text", "invalid bytes");
  out += '"';
  while (!x.empty()) {
    auto special = std::find_if(x.begin(), x.end(), [](unsigned char c) {
      return c < 0x20 || c == '"' || c == '\\';
    });
    auto plain = static_cast<std::size_t>(special - x.begin());
    out += x.substr(0, plain);
    x.remove_prefix(plain);
    if (x.empty())
      break;
    if (x[0] == '\0') // jsonb refuses \u0000
      return at.expected("text without NUL", "a NUL byte");
    if (x[0] == '"' || x[0] == '\\')
      (out += '\\') += x[0];
    else
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", x[0]);
    x.remove_prefix(1);
  }
  out += '"';
  return {};
}

result<void> open(std::string& out, char bracket, const json_path& at) {
  if (at.depth >= max_json_depth)
    return too_deep(at);
  out += bracket;
  return {};
}

void separate(std::string& out, char bracket) {
  if (out.back() != bracket)
    out += ',';
}

result<void> write_key(std::string& out, std::string_view key,
                       const json_path& at) {
  separate(out, '{');
  auto res = write_string(out, key, at);
  out += ':';
  return res;
}

template <class T>
result<T> read_integer(const json_value& in, T min, T max) {
  auto token = in.raw();
  auto end = token.data() + token.size();
  T x{};
  auto [stop, why] = std::from_chars(token.data(), end, x);
  if (in.type() != json_type::number || why != std::errc{} || stop != end
      || x < min || x > max)
    return in.expected(fmt::format("integer in [{}, {}]", min, max));
  return x;
}

template result<std::int64_t> read_integer(const json_value&, std::int64_t,
                                           std::int64_t);
template result<std::uint64_t> read_integer(const json_value&, std::uint64_t,
                                            std::uint64_t);

template <class T>
result<void> read_number(const json_value& in, T& x) {
  if (in.type() != json_type::number)
    return in.expected("number");
  auto token = in.raw();
  auto res = std::from_chars(token.data(), token.data() + token.size(), x);
  if (res.ec == std::errc::result_out_of_range) {
    // Too large, or too small, which is as good as zero.
    if (form_of(token).before > 0)
      return in.expected(fmt::format("number of magnitude up to {}",
                                     std::numeric_limits<T>::max()));
    x = 0;
  }
  return {};
}

template result<void> read_number(const json_value&, float&);
template result<void> read_number(const json_value&, double&);

result<void> write_time(std::string& out,
                        std::chrono::sys_time<std::chrono::microseconds> x,
                        const json_path& at) {
  using namespace std::chrono;
  auto day = floor<days>(x);
  if (day < sys_days{year{0} / 1 / 1} || day >= sys_days{year{10000} / 1 / 1})
    return at.expected(
      "time in the years 0 to 9999",
      fmt::format("{} microseconds after 1970", x.time_since_epoch().count()));
  year_month_day date{day};
  hh_mm_ss time{x - day};
  fmt::format_to(
    std::back_inserter(out), "\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z\"",
    static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
    static_cast<unsigned>(date.day()), time.hours().count(),
    time.minutes().count(), time.seconds().count(), time.subseconds().count());
  return {};
}

/// Takes a number of exactly `n` digits that follows `before`.
static bool take_field(std::string_view& text, std::string_view before,
                       std::size_t n, int& x) {
  if (!text.starts_with(before))
    return false;
  text.remove_prefix(before.size());
  auto digits = text.substr(0, n);
  if (take_digits(digits).size() != n)
    return false;
  std::from_chars(text.data(), text.data() + n, x);
  text.remove_prefix(n);
  return true;
}

/// Parses RFC 3339 text, which may be of any offset.
static std::optional<std::chrono::sys_time<std::chrono::microseconds>>
parse_time(std::string_view text) {
  using namespace std::chrono;
  int y = 0, mon = 0, d = 0, h = 0, min = 0, s = 0, off_h = 0, off_min = 0;
  if (!take_field(text, "", 4, y) || !take_field(text, "-", 2, mon)
      || !take_field(text, "-", 2, d) || !take_field(text, "T", 2, h)
      || !take_field(text, ":", 2, min) || !take_field(text, ":", 2, s))
    return std::nullopt;
  std::int64_t us = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    auto digits = take_digits(text);
    if (digits.empty())
      return std::nullopt;
    for (std::size_t i = 0; i < 6; ++i)
      us = us * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  bool west = text.starts_with('-');
  if (text == "Z")
    text = {};
  else if (!take_field(text, west ? "-" : "+", 2, off_h)
           || !take_field(text, ":", 2, off_min))
    return std::nullopt;
  year_month_day date{year{y}, month{static_cast<unsigned>(mon)},
                      day{static_cast<unsigned>(d)}};
  if (!text.empty() || !date.ok() || h > 23 || min > 59 || s > 59 || off_h > 23
      || off_min > 59)
    return std::nullopt;
  auto offset = hours{off_h} + minutes{off_min};
  return sys_days{date} + hours{h} + minutes{min} + seconds{s}
         + microseconds{us} - (west ? -offset : offset);
}

result<std::chrono::sys_time<std::chrono::microseconds>>
read_time(const json_value& in, std::chrono::microseconds min,
          std::chrono::microseconds max) {
  auto x = parse_time(in.text());
  if (!x)
    return in.expected("time like \"2024-02-29T12:00:00.000000Z\"");
  if (auto t = x->time_since_epoch(); t < min || t > max)
    return in.expected("time within the range of the clock");
  return *x;
}

std::string one_of(std::span<const std::string_view> names) {
  if (names.empty())
    return "none";
  return fmt::format("one of {}", fmt::join(names, "|"));
}

error unknown_key(const json_value& in,
                  std::span<const std::string_view> names) {
  return {errc::codec,
          fmt::format("{}: unknown key, expected {}", in.path().to_string(),
                      one_of(names)),
          {}};
}

error repeated_key(const json_value& in) {
  return in.path().expected("a key once", "it again");
}

} // namespace detail

} // namespace gd
