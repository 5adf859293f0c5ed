#include <gd/instance.hpp>

#include <gd/engine/intake/resolve.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace gd {

namespace {

/// The bytes of the well-formed UTF-8 sequence that starts `text`; 0 if none
/// does.
std::size_t sequence_length(std::string_view text) {
  auto at = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto tail = [&at](std::size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  auto lead = at(0);
  if (lead < 0x80)
    return 1;
  if (lead >= 0xc2 && lead < 0xe0 && tail(1))
    return 2;
  if (lead >= 0xe0 && lead < 0xf0 && tail(1) && tail(2)
      && !(lead == 0xe0 && at(1) < 0xa0) && !(lead == 0xed && at(1) >= 0xa0))
    return 3;
  if (lead >= 0xf0 && lead < 0xf5 && tail(1) && tail(2) && tail(3)
      && !(lead == 0xf0 && at(1) < 0x90) && !(lead == 0xf4 && at(1) >= 0x90))
    return 4;
  return 0;
}

/// What a well-formed sequence stands for.
char32_t code_point(std::string_view sequence) {
  constexpr std::array<unsigned, 5> lead_bits{0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t x = static_cast<unsigned char>(sequence.front())
               & lead_bits[sequence.size()];
  for (char c : sequence.substr(1))
    x = x << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return x;
}

/// Whether it could drive a terminal, or turn around what is read after it: the
/// control characters, and those of Unicode's bidirectional algorithm. The same
/// as in _gd_name_fault.
bool controls(char32_t x) {
  return x < 0x20 || (x >= 0x7f && x <= 0x9f) || x == 0x61c || x == 0x200e
         || x == 0x200f || (x >= 0x202a && x <= 0x202e)
         || (x >= 0x2066 && x <= 0x2069);
}

/// The offset of what is no UTF-8, or controls; npos: nothing is.
std::size_t find_unclean(std::string_view text) {
  for (auto rest = text; !rest.empty();) {
    if (rest.front() >= ' ' && rest.front() < '\x7f') {
      rest.remove_prefix(1);
      continue;
    }
    auto n = sequence_length(rest);
    if (n == 0 || controls(code_point(rest.substr(0, n))))
      return text.size() - rest.size();
    rest.remove_prefix(n);
  }
  return std::string_view::npos;
}

/// Whether it may have a number that prints longer than it is, or too long: digits
/// followed by an e, or many of them. Nearly always, they are a number's.
bool may_print_long(std::string_view text) {
  constexpr std::size_t many = max_json_number - 2; // beside a sign and a point
  std::size_t run = 0;
  for (char c : text) {
    if (c >= '0' && c <= '9') {
      if (++run == many)
        return true;
    } else if (c != '.') {
      if (run > 0 && (c | 0x20) == 'e')
        return true;
      run = 0;
    }
  }
  return false;
}

} // namespace

std::string clean_text(std::string_view text, std::size_t most) {
  constexpr std::string_view cut = " [...]";
  auto limit = text.size() > most ? most - std::min(most, cut.size()) : most;
  std::string out;
  while (!text.empty()) {
    auto n = sequence_length(text);
    auto piece = n == 0 || text.front() == '\0' ? std::string_view{"?"}
                                                : text.substr(0, n);
    if (out.size() + piece.size() > limit)
      return out.append(cut);
    out += piece;
    text.remove_prefix(std::max(n, std::size_t{1}));
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    auto n = sequence_length(text);
    if (n == 0)
      out += '?';
    else if (auto x = code_point(text.substr(0, n)); controls(x))
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(x));
    else
      out += text.substr(0, n);
    text.remove_prefix(std::max(n, std::size_t{1}));
  }
  return out;
}

error instance::without_result() const {
  return {errc::invalid_argument,
          fmt::format("instance {} has no result: expected done, got {}", id,
                      printable(status)),
          {}};
}

error awaited::without_result() const {
  return {errc::invalid_argument,
          fmt::format("instance {} has no result: it has failed: {}", id,
                      printable(failure.value_or("nobody says why"))),
          {}};
}

result<void> check_name(std::string_view what, std::string_view name,
                        const limits& bounds) {
  auto refuse = [&](std::string_view got) {
    return error{errc::invalid_argument,
                 fmt::format("{}: expected 1 to {} bytes of UTF-8 without "
                             "control characters, got {}",
                             what, bounds.name, got),
                 {}};
  };
  if (name.empty())
    return refuse("nothing");
  if (name.size() > bounds.name)
    return refuse(fmt::format("{} bytes", name.size()));
  auto at = find_unclean(name);
  if (at == std::string_view::npos)
    return {};
  auto rest = name.substr(at);
  if (auto n = sequence_length(rest); n > 1)
    return refuse(fmt::format(
      "U+{:04X} at offset {}",
      static_cast<std::uint32_t>(code_point(rest.substr(0, n))), at));
  return refuse(fmt::format("byte 0x{:02x} at offset {}",
                            static_cast<unsigned char>(rest.front()), at));
}

std::string key_text(std::string_view key) {
  if (!key.starts_with("\\x") && find_unclean(key) == std::string_view::npos)
    return std::string{key};
  std::string out{"\\x"};
  for (unsigned char c : key)
    out += fmt::format("{:02x}", c);
  return out;
}

result<void> check_address(std::string_view what, std::int64_t id,
                           const std::optional<std::string>& key,
                           const limits& bounds) {
  auto refuse = [](std::string text) {
    return error{errc::invalid_argument, std::move(text), {}};
  };
  if (!key && id == 0)
    return refuse(
      fmt::format("{} or key: expected one of them, got neither", what));
  if (!key)
    return {};
  if (id != 0)
    return refuse(
      fmt::format("{} and key: expected one of them, got both", what));
  if (key->empty() || key->size() > bounds.unique_key)
    return refuse(fmt::format("key: expected 1 to {} bytes, got {}",
                              bounds.unique_key, key->size()));
  return {};
}

std::string address_text(std::int64_t id,
                         const std::optional<std::string>& key) {
  return key ? "with the unique key " + key_text(*key) : std::to_string(id);
}

result<void> check_size(std::string_view what, const json& value,
                        std::size_t most) {
  if (!value.ok())
    return error{value.failure()->code,
                 fmt::format("{}: {}", what, value.failure()->message),
                 {}};
  auto refuse = [&](std::string_view counted, std::size_t got) {
    return error{errc::invalid_argument,
                 fmt::format("{}: expected at most {} bytes of JSON{}, got {}",
                             what, most, counted, got),
                 {}};
  };
  const auto& text = value.text();
  if (text.size() > most)
    return refuse("", text.size());
  // Blanks at most double it, and only numbers with an exponent grow more.
  if (!may_print_long(text) && text.size() <= most / 2)
    return {};
  auto printed = printed_size(text);
  if (!printed)
    return error{printed.error().code,
                 fmt::format("{}: {}", what, printed.error().message),
                 {}};
  if (*printed > most)
    return refuse(" as PostgreSQL prints it", *printed);
  return {};
}

result<void> check_document(std::string_view what, const json& value,
                            std::size_t most) {
  if (auto ok = check_size(what, value, most); !ok)
    return ok;
  if (auto ok = check_json(value.text()); !ok)
    return error{
      ok.error().code, fmt::format("{}: {}", what, ok.error().message), {}};
  return {};
}

result<void> check_traceparent(const std::optional<std::string>& x) {
  if (!x)
    return {};
  auto digits = [&x](std::size_t from, std::size_t n) {
    return std::all_of(x->begin() + static_cast<std::ptrdiff_t>(from),
                       x->begin() + static_cast<std::ptrdiff_t>(from + n),
                       [](char c) {
      return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
    });
  };
  constexpr std::string_view none{"00000000000000000000000000000000"};
  bool fits = x->size() == 55 && (*x)[2] == '-' && (*x)[35] == '-'
              && (*x)[52] == '-' && digits(0, 2) && digits(3, 32)
              && digits(36, 16) && digits(53, 2);
  if (fits && x->compare(0, 2, "ff") != 0 && x->compare(3, 32, none) != 0
      && x->compare(36, 16, none.substr(16)) != 0)
    return {};
  return error{
    errc::invalid_argument,
    fmt::format("traceparent: expected 55 characters as W3C has them "
                "(00-<32 digits>-<16 digits>-<2 digits>, in lower "
                "case, not all of them zero), got {}",
                clean_text(*x, 100)),
    {}};
}

result<void> check(const signal& x, const limits& bounds) {
  if (auto ok = check_address("target", x.target, x.key, bounds); !ok)
    return ok;
  if (auto ok = check_name("signal name", x.name, bounds); !ok)
    return ok;
  if (x.dedup_key) {
    auto names = bounds;
    names.name = bounds.dedup_key;
    if (auto ok = check_name("dedup key", *x.dedup_key, names); !ok)
      return ok;
  }
  if (auto ok = check_traceparent(x.traceparent); !ok)
    return ok;
  return check_document("payload", x.payload, bounds.payload);
}

result<void> check(const await_result& x, const limits& bounds) {
  if (auto ok = check_address("id", x.id, x.key, bounds); !ok)
    return ok;
  if (x.within_us < 0 || x.within_us > longest_wait_us)
    return error{errc::invalid_argument,
                 fmt::format("within_us: expected 0 to {}, got {}",
                             longest_wait_us, x.within_us),
                 {}};
  return {};
}

result<void> check(const transition& x, const limits& bounds) {
  if (auto ok = check_address("target", x.target, x.key, bounds); !ok)
    return ok;
  if (auto ok = check_name("to", x.to, bounds); !ok)
    return ok;
  if (x.from)
    if (auto ok = check_name("from", *x.from, bounds); !ok)
      return ok;
  if (x.seq && *x.seq < 0)
    return error{errc::invalid_argument,
                 fmt::format("seq: expected 0 or more, got {}", *x.seq),
                 {}};
  if (x.state) {
    if (auto ok = check_size("state", *x.state, bounds.state); !ok)
      return ok;
    if (auto ok = check_object(*x.state); !ok)
      return ok;
  }
  if (x.metadata)
    if (auto ok = check_document("metadata", *x.metadata, bounds.metadata); !ok)
      return ok;
  if (x.reason && x.reason->size() > bounds.reason)
    return error{errc::invalid_argument,
                 fmt::format("reason: expected at most {} bytes, got {}",
                             bounds.reason, x.reason->size()),
                 {}};
  if (x.reason && clean_text(*x.reason, bounds.reason) != *x.reason)
    return error{
      errc::invalid_argument, "reason: expected UTF-8 without NUL", {}};
  if (x.by)
    return check_name("by", *x.by, bounds);
  return {};
}

result<void> check_limit(std::int32_t limit) {
  if (limit >= 1 && limit <= 1'000)
    return {};
  return error{errc::invalid_argument,
               "limit: expected 1 to 1000, got " + std::to_string(limit),
               {}};
}

// -- inserts ------------------------------------------------------------------

/// In their order.
constexpr std::array<std::string_view, 5> statuses{
  "runnable", "executing", "awaiting_signal", "done", "failed"};

static error not_insertable(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

static result<void> check_scope(const insert& x) {
  if (!x.unique_key && !x.unique_scope.empty())
    return not_insertable("unique_scope: expected a unique_key beside it");
  if (x.unique_scope.size() > statuses.size())
    return not_insertable(
      fmt::format("unique_scope: expected at most {} statuses, "
                  "got {}",
                  statuses.size(), x.unique_scope.size()));
  auto has = [&x](std::string_view status) {
    return std::find(x.unique_scope.begin(), x.unique_scope.end(), status)
           != x.unique_scope.end();
  };
  for (const auto& status : x.unique_scope)
    if (std::find(statuses.begin(), statuses.end(), status) == statuses.end())
      return not_insertable(
        fmt::format("unique_scope: expected some of {}, got {}",
                    fmt::join(statuses, "|"), status));
  if (has("executing") && !has("runnable"))
    return not_insertable(
      "unique_scope: expected runnable beside executing: what has "
      "been let in must be able to run");
  // One whose lease is over would wait for the key's new holder, and that one for
  // the partition.
  if (x.partition_key && has("runnable") && !has("executing"))
    return not_insertable(
      "unique_scope: expected executing beside runnable where there "
      "is a partition_key");
  return {};
}

result<void> check(const insert& x, const limits& bounds) {
  if (auto ok = check_name("fsm", x.fsm, bounds); !ok)
    return ok;
  if (x.version < 0)
    return not_insertable(fmt::format(
      "version: expected 1 or more, or 0 for the newest, got {}", x.version));
  if (!x.step.empty())
    if (auto ok = check_name("step", x.step, bounds); !ok)
      return ok;
  if (!x.queue.empty())
    if (auto ok = check_name("queue", x.queue, bounds); !ok)
      return ok;
  if (x.partition_key)
    if (auto ok = check_name("partition_key", *x.partition_key,
                             {.name = bounds.partition_key});
        !ok)
      return ok;
  if (x.unique_key
      && (x.unique_key->empty() || x.unique_key->size() > bounds.unique_key))
    return not_insertable(
      fmt::format("unique_key: expected 1 to {} bytes, got {}",
                  bounds.unique_key, x.unique_key->size()));
  if (auto ok = check_scope(x); !ok)
    return ok;
  if (auto ok = check_traceparent(x.traceparent); !ok)
    return ok;
  if (x.delay_us < 0 || x.delay_us > longest_delay.count())
    return not_insertable(
      fmt::format("delay_us: expected 0 to {} (100 years), got {}",
                  longest_delay.count(), x.delay_us));
  constexpr std::int64_t year_3000 = 32'503'680'000'000'000;
  if (x.eligible_at_us
      && (*x.eligible_at_us < 0 || *x.eligible_at_us > year_3000))
    return not_insertable(fmt::format(
      "eligible_at_us: expected microseconds since 1970, at most {}, got {}",
      year_3000, *x.eligible_at_us));
  if (x.eligible_at_us && x.delay_us > 0)
    return not_insertable(
      "eligible_at_us and delay_us: expected one of them, got both");
  if (auto ok = check_size("state", x.state, bounds.state); !ok)
    return ok;
  return {};
}

bool begins_object(const json& state) {
  auto first = state.text().find_first_not_of(" \t\r\n");
  return first != std::string::npos && state.text()[first] == '{';
}

/// Whether a state is the JSON text of an object.
result<void> check_object(const json& state) {
  if (auto ok = check_json(state.text()); !ok)
    return error{ok.error().code, "state: " + ok.error().message, {}};
  if (!begins_object(state))
    return error{errc::codec, "state: $: expected object", {}};
  return {};
}

error of_another_machine(std::string_view key, std::int64_t holder,
                         std::string_view fsm) {
  return {errc::key_of_another_machine,
          fmt::format("unique_key: {} is that of instance {} of {}",
                      key_text(key), holder, fsm),
          {}};
}

} // namespace gd
