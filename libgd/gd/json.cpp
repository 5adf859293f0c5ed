#include <gd/json.hpp>

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <iterator>
#include <memory>

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

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back()))
    text.remove_suffix(1);
  return text;
}

error malformed(const json_path& at, std::string_view why) {
  return at.expected("well-formed JSON", why);
}

error malformed(const json_path& at, simdjson::error_code why) {
  return malformed(at, simdjson::error_message(why));
}

/// Takes the digits at the front of `text`.
std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n]))
    ++n;
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

/// Whether something stands behind an array or object at the front of a text that could not
/// be parsed: then the parser may take that for its missing end.
bool has_more(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = text[i];
    if (c == '"')
      i += quoted_size(text.substr(i)) - 1;
    else if (c == '{' || c == '[')
      ++depth;
    else if ((c == '}' || c == ']') && --depth == 0)
      return i + 1 < text.size();
    else if (depth == 0)
      return false;
  }
  return false;
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
    auto ok = result<void>{};
    if (auto why = parser.iterate(padded).get(source_))
      ok = malformed(at, why);
    else
      ok = walk(source_, at);
    if (ok ? doc_.nodes.front().raw.size() != text_.size() : has_more(text_))
      return at.expected("one JSON document", "trailing content");
    return ok;
  }

private:
  /// `value` is the document or a value in it: simdjson tells them apart.
  template <class Value>
  result<void> walk(Value& value, const json_path& at) {
    ondemand::json_type type;
    std::string_view token;
    if (auto why = value.type().get(type))
      return malformed(at, why);
    if (auto why = text_result{value.raw_json_token()}.get(token))
      return malformed(at, why);
    token = trim(token);
    auto add = [&](json_type kind, std::string_view unquoted = {}) {
      doc_.nodes.push_back({kind, at.key, token, unquoted});
    };
    auto check_word = [&](bool known) -> result<void> {
      if (!known)
        return malformed(at, excerpt(token));
      return {};
    };
    switch (type) {
      case ondemand::json_type::array:
        add(json_type::array);
        return walk_children(value.get_array(), at);
      case ondemand::json_type::object:
        add(json_type::object);
        return walk_children(value.get_object(), at);
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
        return check_word(token == "true" || token == "false");
      default:
        add(json_type::null);
        return check_word(token == "null");
    }
  }

  /// Walks an array or object, whose node is the last one.
  template <class Container>
  result<void> walk_children(simdjson::simdjson_result<Container> opened,
                             const json_path& at) {
    auto self = doc_.nodes.size() - 1;
    if (auto ok = detail::check_depth(at); !ok)
      return ok;
    Container children;
    if (auto why = std::move(opened).get(children))
      return malformed(at, why);
    std::size_t index = 0;
    for (auto child : children) {
      json_path here{&at, {}, index++};
      ondemand::value value;
      simdjson::error_code why;
      if constexpr (std::same_as<Container, ondemand::object>) {
        auto key = key_of(child, at);
        if (!key)
          return key.error();
        here.key = *key;
        why = child.value().get(value);
      } else {
        why = child.get(value);
      }
      if (why)
        return malformed(here, why);
      if (auto res = walk(value, here); !res)
        return res;
    }
    return close(self);
  }

  template <class Field>
  result<std::string_view> key_of(Field& field, const json_path& at) {
    ondemand::raw_json_string quoted;
    if (auto why = field.key().get(quoted))
      return malformed(at, why);
    // It comes without its length, from behind the opening quote.
    auto token = text_.substr(
      static_cast<std::size_t>(quoted.raw() - 1 - text_.data()));
    return unquote(token.substr(0, quoted_size(token)), field.unescaped_key(),
                   at);
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
    auto inner = token.substr(1, token.size() - 2);
    bool plain = inner.find('\\') == std::string_view::npos;
    if (!plain && has_lone_surrogate(token))
      return at.expected("Unicode text", "a lone surrogate");
    if (auto why = std::move(parsed).get(text))
      return malformed(at, why);
    if (plain)
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
    } else if (c == '-' || is_digit(c)) {
      taken = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
      auto number = text.substr(0, taken);
      if (auto ok = check_number(number, {}); !ok)
        return ok.error();
      printed += static_cast<std::size_t>(form_of(number).printed);
    } else if (c == ',' || c == ':') {
      printed += 2;
    } else if (!is_blank(c)) {
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
  constexpr std::array names{"null",   "boolean", "number",
                             "string", "array",   "object"};
  std::string got = names[static_cast<std::size_t>(type())];
  if (type() == json_type::boolean || type() == json_type::number
      || type() == json_type::string)
    got += " " + excerpt(raw());
  return at_.expected(what, got);
}

// -- documents ----------------------------------------------------------------

namespace detail {

bool is_below_one(std::string_view number) {
  return form_of(number).before <= 0;
}

namespace {

/// What a thread's last document had, for its next one.
thread_local json_buffers spare;

void swap_with_spare(json_buffers& x) {
  x.source.swap(spare.source);
  x.unescaped.swap(spare.unescaped);
  x.nodes.swap(spare.nodes);
}

} // namespace

json_document::json_document() {
  swap_with_spare(*this);
}

json_document::~json_document() {
  constexpr std::size_t small = 4'096;
  if (source.capacity() > small || unescaped.capacity() > small
      || nodes.capacity() > small / sizeof(json_node))
    return;
  source.clear();
  unescaped.clear();
  nodes.clear();
  swap_with_spare(*this);
}

result<json_document> parse_json(std::string_view text, const json_path& at) {
  json_document doc;
  if (auto res = parse_run{doc}(text, at); !res)
    return res.error();
  return doc;
}

} // namespace detail

} // namespace gd
