#include <gd/effect.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gd {

namespace {

constexpr std::array<std::string_view, 6> beginnings{
  "insert", "update", "delete", "merge", "select", "with"};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'
         || c == '\v';
}

bool is_letter(char c) {
  auto lower = static_cast<char>(c | 0x20);
  return (lower >= 'a' && lower <= 'z') || c == '_'
         || static_cast<unsigned char>(c) >= 0x80;
}

bool is_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '$';
}

/// Goes through a statement's text, past what is quoted and what is a comment. The server
/// itself takes no text with two statements: this is to say so before it is sent.
class scanner {
public:
  explicit scanner(std::string_view text) : text_(text) {
    // nop
  }

  /// Past spaces and comments; whether there is anything left.
  bool skip_blank() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_]))
        ++at_;
      else if (begins("--"))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (begins("/*"))
        skip_comment();
      else
        return true;
    }
    return false;
  }

  /// The word that begins here, which may be empty.
  std::string_view word() {
    auto first = at_;
    while (at_ < text_.size() && is_word(text_[at_]))
      ++at_;
    return text_.substr(first, at_ - first);
  }

  /// Past one token; whether it was a semicolon.
  bool skip_token() {
    auto c = text_[at_];
    if (is_letter(c)) {
      auto prefix = word();
      bool escapes = prefix == "e" || prefix == "E";
      if (at_ < text_.size() && text_[at_] == '\'')
        skip_quoted('\'', escapes);
    } else if (c == '\'' || c == '"') {
      skip_quoted(c, false);
    } else if (c == '$') {
      skip_dollar();
    } else {
      ++at_;
    }
    return c == ';';
  }

private:
  bool begins(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }

  void skip_comment() {
    int depth = 0;
    do {
      if (begins("/*"))
        ++depth;
      else if (begins("*/"))
        --depth;
      else {
        ++at_;
        continue;
      }
      at_ += 2;
    } while (depth > 0 && at_ < text_.size());
  }

  void skip_quoted(char quote, bool escapes) {
    for (++at_; at_ < text_.size(); ++at_) {
      if (escapes && text_[at_] == '\\')
        ++at_;
      else if (text_[at_] == quote)
        break;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  /// A parameter, or a text between dollar signs.
  void skip_dollar() {
    auto first = at_++;
    if (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '$')) {
      while (at_ < text_.size() && is_word(text_[at_]) && text_[at_] != '$')
        ++at_;
      if (at_ < text_.size() && text_[at_] == '$') {
        auto tag = text_.substr(first, ++at_ - first);
        auto end = text_.find(tag, at_);
        at_ = end == std::string_view::npos ? text_.size() : end + tag.size();
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

error unusable_text(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

std::size_t size_of_text(const std::optional<std::string>& x) {
  return x ? x->size() : 0;
}

} // namespace

std::string_view to_string(effect_kind kind) noexcept {
  switch (kind) {
    case effect_kind::insert:
      return "insert";
    case effect_kind::signal:
      return "signal";
    case effect_kind::sql:
      return "sql";
  }
  return "unknown";
}

std::size_t effects::bytes() const noexcept {
  constexpr std::size_t beside_text = 256;
  auto n = beside_text * size();
  for (const auto& x : inserts)
    n += x.state.text().size() + size_of_text(x.partition_key)
         + size_of_text(x.unique_key);
  for (const auto& x : signals)
    n += x.what.payload.text().size() + size_of_text(x.what.dedup_key)
         + size_of_text(x.what.key);
  for (const auto& x : statements) {
    n += x.text.size();
    for (const auto& value : x.values)
      n += value.text.size();
  }
  return n;
}

std::string effect_refused::message() const {
  if (number == 0)
    return fmt::format("{}, with the commit: {}", to_string(kind), why.message);
  return fmt::format("{} {}: {}", to_string(kind), number, why.message);
}

result<void> check_statement(std::string_view text) {
  if (text.find('\0') != std::string_view::npos)
    return unusable_text("expected a statement without zero bytes");
  scanner at{text};
  at.skip_blank();
  std::string first{at.word()};
  for (auto& c : first)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c | 0x20);
  if (std::find(beginnings.begin(), beginnings.end(), first)
      == beginnings.end())
    return unusable_text(
      fmt::format("expected a statement that begins with insert, "
                  "update, delete, merge, select or with, got {}",
                  first.empty() ? "none" : printable(first)));
  while (at.skip_blank())
    if (at.skip_token() && at.skip_blank())
      return unusable_text("expected one statement, got several");
  return {};
}

std::string detail::timestamp_text(std::int64_t us) {
  using namespace std::chrono;
  sys_time<microseconds> at{microseconds{us}};
  auto day = floor<days>(at);
  year_month_day date{day};
  hh_mm_ss time{at - day};
  return fmt::format(
    "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}+00",
    static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
    static_cast<unsigned>(date.day()), time.hours().count(),
    time.minutes().count(), time.seconds().count(), time.subseconds().count());
}

} // namespace gd
