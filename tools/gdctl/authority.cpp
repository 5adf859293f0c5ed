#include "authority.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

namespace gdctl {

namespace {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* x) const {
    Free(x);
  }
};

using x509_ptr = std::unique_ptr<X509, freed_by<X509_free>>;
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free>>;
using extension_ptr
  = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;

/// Of hosts whose clocks are a little behind.
constexpr std::time_t begins_before = 3'600;

/// What a certificate is for: OpenSSL's names of extensions, and their values.
using extensions = std::vector<std::pair<int, std::string>>;

gd::error failed(std::string_view what) {
  auto why = ERR_get_error();
  ERR_clear_error();
  const auto* text = why != 0 ? ERR_reason_error_string(why) : nullptr;
  return {gd::errc::invalid_argument,
          fmt::format("{}: {}", what, text ? text : "OpenSSL does not say why"),
          {}};
}

bio_ptr reader_of(const std::string& pem) {
  return bio_ptr{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
}

x509_ptr parse_certificate(const std::string& pem) {
  auto from = reader_of(pem);
  return x509_ptr{PEM_read_bio_X509(from.get(), nullptr, nullptr, nullptr)};
}

key_ptr parse_key(const std::string& pem) {
  auto from = reader_of(pem);
  // Without this it would ask the terminal for the password of a key that has one.
  auto no_password = [](char*, int, int, void*) { return -1; };
  return key_ptr{
    PEM_read_bio_PrivateKey(from.get(), nullptr, no_password, nullptr)};
}

std::string text_of(BIO* from) {
  char* data = nullptr;
  auto size = BIO_get_mem_data(from, &data);
  return {data, static_cast<std::size_t>(size)};
}

gd::result<credentials> to_pem(X509* of, EVP_PKEY* key) {
  bio_ptr cert{BIO_new(BIO_s_mem())};
  bio_ptr secret{BIO_new(BIO_s_secmem())};
  if (!cert || !secret || PEM_write_bio_X509(cert.get(), of) != 1
      || PEM_write_bio_PrivateKey(secret.get(), key, nullptr, nullptr, 0,
                                  nullptr, nullptr)
           != 1)
    return failed("a certificate cannot be written");
  return credentials{text_of(cert.get()), text_of(secret.get())};
}

/// So that no two certificates of an authority are alike, whatever happens.
bool set_serial(X509* to) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    return false;
  bytes[0] = (bytes[0] & 0x3f) | 0x40; // positive, and always as long
  std::unique_ptr<BIGNUM, freed_by<BN_free>> number{
    BN_bin2bn(bytes.data(), bytes.size(), nullptr)};
  return number
         && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(to))
              != nullptr;
}

bool set_name(X509* to, const std::string& name) {
  return X509_NAME_add_entry_by_txt(
           X509_get_subject_name(to), "CN", MBSTRING_ASC,
           reinterpret_cast<const unsigned char*>(name.data()),
           static_cast<int>(name.size()), -1, 0)
         == 1;
}

bool add(X509* to, X509* issuer, const extensions& xs) {
  X509V3_CTX ctx;
  X509V3_set_ctx(&ctx, issuer, to, nullptr, nullptr, 0);
  for (const auto& [what, value] : xs) {
    extension_ptr x{X509V3_EXT_conf_nid(nullptr, &ctx, what, value.c_str())};
    if (!x || X509_add_ext(to, x.get(), -1) != 1)
      return false;
  }
  return true;
}

bool set_times(X509* to, X509* issuer, std::chrono::seconds lasts) {
  auto now = std::time(nullptr);
  auto end = now + static_cast<std::time_t>(lasts.count());
  if (ASN1_TIME_set(X509_getm_notBefore(to), now - begins_before) == nullptr
      || ASN1_TIME_set(X509_getm_notAfter(to), end) == nullptr)
    return false;
  const auto* last = X509_get0_notAfter(issuer);
  return issuer == to || X509_cmp_time(last, &end) == 1
         || X509_set1_notAfter(to, last) == 1;
}

/// Issuer and its key; null: it signs itself.
gd::result<credentials> make(const std::string& name,
                             std::chrono::seconds lasts, const extensions& xs,
                             X509* issuer, EVP_PKEY* issuer_key) {
  key_ptr key{EVP_EC_gen("P-256")};
  x509_ptr x{X509_new()};
  if (!key || !x)
    return failed("a key cannot be made");
  if (issuer == nullptr) {
    issuer = x.get();
    issuer_key = key.get();
  }
  if (X509_set_version(x.get(), X509_VERSION_3) != 1 || !set_serial(x.get())
      || !set_name(x.get(), name) || !set_times(x.get(), issuer, lasts)
      || X509_set_issuer_name(x.get(), X509_get_subject_name(issuer)) != 1
      || X509_set_pubkey(x.get(), key.get()) != 1 || !add(x.get(), issuer, xs)
      || X509_sign(x.get(), issuer_key, EVP_sha256()) == 0)
    return failed("a certificate cannot be made");
  return to_pem(x.get(), key.get());
}

} // namespace

gd::result<credentials> make_authority(std::chrono::seconds lasts) {
  std::array<unsigned char, 4> random{};
  if (RAND_bytes(random.data(), random.size()) != 1)
    return failed("no random numbers");
  // The number is for people, who may have several.
  return make(fmt::format("gen_durable tunnels {:02x}{:02x}{:02x}{:02x}",
                          random[0], random[1], random[2], random[3]),
              lasts,
              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
               {NID_key_usage, "critical,keyCertSign,cRLSign"},
               {NID_subject_key_identifier, "hash"}},
              nullptr, nullptr);
}

gd::result<credentials> make_node(const credentials& authority,
                                  const std::string& name,
                                  std::chrono::seconds lasts) {
  auto issuer = parse_certificate(authority.certificate);
  if (!issuer)
    return failed("the authority's certificate cannot be read");
  auto key = parse_key(authority.key);
  if (!key)
    return failed("the authority's key cannot be read");
  if (X509_check_private_key(issuer.get(), key.get()) != 1)
    return failed("the authority's key is not that of its certificate");
  if (X509_cmp_current_time(X509_get0_notAfter(issuer.get())) != 1)
    return gd::error{gd::errc::rejected,
                     "the authority's certificate has ended: make another one "
                     "(gdctl tls init), and all nodes' anew",
                     {}};
  return make(name, lasts,
              {{NID_basic_constraints, "critical,CA:FALSE"},
               {NID_key_usage, "critical,digitalSignature"},
               {NID_ext_key_usage, "serverAuth,clientAuth"},
               {NID_subject_alt_name, "DNS:" + name},
               {NID_subject_key_identifier, "hash"},
               {NID_authority_key_identifier, "keyid"}},
              issuer.get(), key.get());
}

gd::result<certificate> read_certificate(const std::string& what,
                                         const std::string& pem) {
  auto x = parse_certificate(pem);
  if (!x)
    return failed(what + ": expected a certificate in PEM form");
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(x.get()), NID_commonName,
                            name.data(), name.size());
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(x.get()), &end) != 1)
    return failed(what + ": its end cannot be read");
  return certificate{name.data(), timegm(&end)};
}

} // namespace gdctl
