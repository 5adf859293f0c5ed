#include <gd/cipher.hpp>

#include <gd/instance.hpp>
#include <gd/machine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace gd {

namespace {

constexpr std::string_view base64_digits{
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty();
       bytes.remove_prefix(std::min(bytes.size(), std::size_t{3}))) {
    auto n = std::min(bytes.size(), std::size_t{3});
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < n ? static_cast<unsigned char>(bytes[i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      out += i <= n ? base64_digits[bits >> (18 - 6 * i) & 0x3f] : '=';
  }
  return out;
}

/// Without the signs that fill it up.
std::string_view unfilled(std::string_view text) {
  if (text.size() % 4 == 0)
    for (int i = 0; i < 2 && text.ends_with('='); ++i)
      text.remove_suffix(1);
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (char c : unfilled(text)) {
    auto digit = base64_digits.find(c);
    if (digit == std::string_view::npos)
      return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>(bits >> held & 0xff);
    }
  }
  return out;
}

// -- how it is stored -----------------------------------------------------------

constexpr std::size_t longest_key = 255;

bool is_key(std::string_view name) {
  return !name.empty() && name.size() <= longest_key
         && std::all_of(name.begin(), name.end(),
                        [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
           || (c >= '0' && c <= '9')
           || std::string_view{"._-:/"}.find(c) != std::string_view::npos;
            });
}

struct envelope {
  std::string_view key;
  std::string_view content; ///< base64
  bool whole = false;
};

/// As it was written here, or as PostgreSQL prints it: its blanks.
bool take_part(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what))
    return false;
  text.remove_prefix(what.size());
  if (text.starts_with(' '))
    text.remove_prefix(1);
  return true;
}

/// Up to the next quote; all that there is, if there is none.
std::string_view take_text(std::string_view& text) {
  auto out = text.substr(0, text.find('"'));
  text.remove_prefix(out.size());
  return out;
}

std::optional<envelope> read_envelope(std::string_view text) {
  if (!take_part(text, "{\"gd.key\":") || !text.starts_with('"'))
    return std::nullopt;
  text.remove_prefix(1);
  envelope out;
  out.key = take_text(text);
  if (!is_key(out.key) || !take_part(text, "\",")
      || !take_part(text, "\"gd.encrypted\":") || !text.starts_with('"'))
    return std::nullopt;
  text.remove_prefix(1);
  out.content = take_text(text);
  out.whole = text == "\"}";
  if (!out.whole && !text.empty())
    return std::nullopt;
  return out;
}

/// What a cipher says, or throws.
template <class F>
result<std::string> answer_of_cipher(F f) {
  try {
    return f();
  } catch (...) {
    return error{errc::cipher, detail::describe_exception(), {}};
  }
}

error cipher_error(std::string text) {
  return {errc::cipher, std::move(text), {}};
}

} // namespace

cipher::~cipher() = default;

json encrypted(json plain, const cipher& by) {
  if (!plain.ok() || is_encrypted(plain.text()))
    return plain;
  auto key = answer_of_cipher([&] { return by.key(); });
  if (!key)
    return json::failed(
      cipher_error("the cipher tells no key: " + key.error().message));
  if (key->empty())
    return plain;
  if (!is_key(*key))
    return json::failed(cipher_error(
      fmt::format("expected a key's name of 1 to {} letters, digits "
                  "and ._-:/, got {}",
                  longest_key, clean_text(printable(*key), 100))));
  auto bytes = answer_of_cipher([&] { return by.encrypt(plain.text(), *key); });
  if (!bytes)
    return json::failed(
      cipher_error(fmt::format("the cipher does not encrypt with key {}: {}",
                               *key, bytes.error().message)));
  return json::raw(fmt::format(R"({{"gd.key":"{}","gd.encrypted":"{}"}})", *key,
                               base64(*bytes)));
}

result<json> decrypted(json stored, const cipher& by) {
  if (const auto* why = stored.failure())
    return *why;
  if (!is_encrypted(stored.text()))
    return stored;
  auto read = read_envelope(stored.text());
  auto bytes = read && read->whole ? from_base64(read->content) : std::nullopt;
  if (!bytes)
    return cipher_error("expected encrypted JSON, {\"gd.key\": its name, "
                        "\"gd.encrypted\": base64}, got another object");
  auto plain = answer_of_cipher(
    [&] { return by.decrypt(*bytes, std::string{read->key}); });
  if (!plain)
    return cipher_error(
      fmt::format("expected JSON that the cipher decrypts, got "
                  "some with key {}: {}",
                  read->key, plain.error().message));
  return json::raw(std::move(*plain));
}

std::optional<encryption> encryption_of(std::string_view text) {
  auto read = read_envelope(text);
  if (!read)
    return std::nullopt;
  return encryption{.key = std::string{read->key},
                    .bytes = unfilled(read->content).size() * 3 / 4,
                    .whole = read->whole};
}

error detail::still_encrypted(std::string_view text) {
  auto read = read_envelope(text);
  return cipher_error(fmt::format("expected JSON as it is, got some that is "
                                  "encrypted with key {}: it takes the cipher",
                                  read ? read->key : "(none)"));
}

error detail::without_content(error why) {
  if (why.code == errc::codec)
    return {errc::invalid_argument,
            "what is encrypted is JSON that does not fit: where is not told, "
            "for that might repeat it",
            {}};
  return why;
}

} // namespace gd
