#pragma once

/// A cipher for docs/guide/history-and-retention.md, with OpenSSL's AES-256-GCM.

#include <gd/cipher.hpp>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

// clang-format off
namespace guide {

// [aes_gcm]
class aes_gcm : public gd::cipher {
public:
  using keys = std::map<std::string, std::string>; // 32 bytes each, by name

  aes_gcm(keys all, std::string now) : keys_(std::move(all)), now_(std::move(now)) {}

  std::string key() const override { return now_; }

  gd::result<std::string> encrypt(std::string_view plain, const std::string& key) const override {
    std::string out(nonce_bytes, '\0');
    if (RAND_bytes(bytes(out.data()), nonce_bytes) != 1)
      return refused("there are no random bytes");
    auto made = run(key, out, plain, true, nullptr);
    return made ? out + *made : made; // nonce, what is encrypted, tag
  }

  gd::result<std::string> decrypt(std::string_view stored, const std::string& key) const override {
    if (stored.size() < nonce_bytes + tag_bytes)
      return refused("too short");
    auto tag = std::string{stored.substr(stored.size() - tag_bytes)};
    stored.remove_suffix(tag_bytes);
    return run(key, std::string{stored.substr(0, nonce_bytes)}, stored.substr(nonce_bytes), false, tag.data());
  }

private:
  static constexpr int nonce_bytes = 12;
  static constexpr int tag_bytes = 16;

  static gd::error refused(std::string why) { return {gd::errc::cipher, std::move(why), {}}; }
  static unsigned char* bytes(char* x) { return reinterpret_cast<unsigned char*>(x); }
  static const unsigned char* bytes(const char* x) { return reinterpret_cast<const unsigned char*>(x); }

  gd::result<std::string> run(const std::string& name, const std::string& nonce, std::string_view in,
                              bool encrypts, char* tag) const {
    auto key = keys_.find(name);
    if (key == keys_.end() || key->second.size() != 32)
      return refused("no such key");
    std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> ctx{EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free};
    std::string out(in.size() + tag_bytes, '\0');
    int n = 0;
    int rest = 0;
    bool ok = ctx
      && EVP_CipherInit_ex(ctx.get(), EVP_aes_256_gcm(), nullptr, bytes(key->second.data()), bytes(nonce.data()), encrypts) == 1
      && EVP_CipherUpdate(ctx.get(), bytes(out.data()), &n, bytes(in.data()), static_cast<int>(in.size())) == 1
      && (encrypts || EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_SET_TAG, tag_bytes, tag) == 1)
      && EVP_CipherFinal_ex(ctx.get(), bytes(out.data()) + n, &rest) == 1
      && (!encrypts || EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_GET_TAG, tag_bytes, out.data() + n + rest) == 1);
    if (!ok)
      return refused(encrypts ? "OpenSSL does not encrypt" : "it has been changed, or is another key's");
    out.resize(static_cast<std::size_t>(n + rest + (encrypts ? tag_bytes : 0)));
    return out;
  }

  keys keys_;
  std::string now_;
};
// [/aes_gcm]

} // namespace guide
// clang-format on
