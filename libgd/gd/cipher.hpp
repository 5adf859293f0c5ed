#pragma once

#include <gd/error.hpp>
#include <gd/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// \file
/// What encrypts the content of a machine's instances: a user's hook.
namespace gd {

/// Encrypts and decrypts for a machine (`machine_builder::encrypted_by`), and for those who
/// send to its instances or read of them. The user's: this library has no cryptography. Called
/// by several threads at once, and before each step: what waits for others holds up all. An
/// error's message, or what is thrown, is stored and logged: it is not to repeat content.
class cipher {
public:
  virtual ~cipher();

  /// The name of the key that encrypts from now on: 1 to 255 letters, digits and ._-:/ of
  /// ASCII. It is stored beside what it has encrypted. Empty: none does, what is written
  /// stays as it is.
  virtual std::string key() const = 0;

  /// The bytes that stand for `plain`, JSON text, under that key.
  virtual result<std::string> encrypt(std::string_view plain,
                                      const std::string& key) const = 0;

  /// What `encrypt` was given for these bytes, under that key, which may be an older one.
  virtual result<std::string> decrypt(std::string_view bytes,
                                      const std::string& key) const = 0;
};

/// A value as it is stored: `{"gd.key": "2026-11", "gd.encrypted": "<base64>"}`, under the
/// cipher's key. What is encrypted already, or has failed, stays as it is, and so does all
/// while the cipher has no key. A failed one, `cipher`: it does not encrypt.
///
///     client.signal({.target = id, .name = "paid",
///                    .payload = gd::encrypted(gd::to_json(x), cipher)})
json encrypted(json plain, const cipher& by);

/// The value as it was. What is not encrypted stays as it is. Errors: `cipher`, it does not
/// decrypt it, with the key's name; why it is a failed one.
result<json> decrypted(json stored, const cipher& by);

/// Decodes what is stored, as `from_json` does, encrypted or not.
template <class T>
result<T> from_json(const json& stored, const cipher& by) {
  auto plain = decrypted(stored, by);
  return plain ? from_json<T>(*plain) : plain.error();
}

/// What is known of an encrypted value by everybody.
struct encryption {
  std::string key{}; ///< the key's name
  std::size_t bytes
    = 0; ///< that were encrypted to; of a cut text, as far as it goes
  bool whole = false; ///< the text is not cut
};

/// What a text, which may be cut at its end, tells of its encryption; nullopt: it is not what
/// `encrypted` has made.
std::optional<encryption> encryption_of(std::string_view text);

namespace detail {

/// An error without what it may repeat of a content that was encrypted.
error without_content(error why);

} // namespace detail

} // namespace gd
