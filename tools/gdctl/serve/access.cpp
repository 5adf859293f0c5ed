#include "serve/access.hpp"

#include "common.hpp"

#include <fmt/format.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>

namespace gdctl::serve {

namespace {

std::string lower(std::string_view text) {
  std::string out{text};
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

answer invalid(std::string_view why) {
  return refusal(400, "invalid_argument", why);
}

answer forbidden(std::string_view why) {
  return refusal(403, "forbidden", why);
}

} // namespace

digest digest_of(std::string_view token) {
  digest out{};
  EVP_Digest(token.data(), token.size(), out.data(), nullptr, EVP_sha256(),
             nullptr);
  return out;
}

/// What a proxy may have understood otherwise: where this request ends.
static answer refuse_framing(const request& what) {
  for (auto name : {"host", "origin", "authorization", "content-type",
                    "content-length", "transfer-encoding", "sec-fetch-site"})
    if (what.twice(name))
      return invalid(fmt::format("{}: expected one such header", name));
  for (const auto& [name, value] : what.headers)
    if (name.find_first_of(" \t") != name.npos)
      return invalid("expected headers with no blank in their names");
  auto coding = what.header("transfer-encoding");
  if (!coding.empty() && lower(coding) != "chunked")
    return invalid("Transfer-Encoding: expected chunked");
  if (!coding.empty() && !what.header("content-length").empty())
    return invalid("expected one of Content-Length and Transfer-Encoding");
  return nullptr;
}

answer refuse_stranger(const request& what, const access& who, bool to_all) {
  if (auto why = refuse_framing(what))
    return why;
  auto host = lower(what.header("host"));
  auto origin = lower(what.header("origin"));
  auto ours = [&](auto is) {
    return std::any_of(who.names.begin(), who.names.end(), is);
  };
  // Whatever name leads here in the browser of somebody: it is none of ours.
  if (!ours([&](const known_as& x) { return x.host == host; }))
    return forbidden("Host: expected one that this server listens as, or that "
                     "--behind-proxy names");
  if (!origin.empty() && !ours([&](const known_as& x) {
        return x.host == host && x.origin == origin;
      }))
    return forbidden("Origin: another site may not ask");
  auto site = what.header("sec-fetch-site");
  if (!to_all && !site.empty() && site != "same-origin" && site != "none")
    return forbidden("Sec-Fetch-Site: another site may not ask");
  return nullptr;
}

bool is_authorized(const request& what, const access& who) {
  constexpr std::string_view scheme = "Bearer ";
  auto given = what.header("authorization");
  if (!who.writes || !who.token || !given.starts_with(scheme))
    return false;
  auto one = digest_of(given.substr(scheme.size()));
  return CRYPTO_memcmp(one.data(), who.token->data(), one.size()) == 0;
}

answer refuse_write(const request& what, const access& who) {
  if (!who.writes)
    return refusal(403, "read_only",
                   "this server is read only: it was started without "
                   "--allow-writes");
  // Browsers say so with each POST; whatever does not, is no page of ours.
  if (what.header("origin").empty())
    return forbidden("Origin: expected this server's");
  if (!is_authorized(what, who))
    return refusal(401, "no_token",
                   "Authorization: expected Bearer and the token of "
                   "--token-file");
  auto type = lower(what.header("content-type"));
  if (type != "application/json" && !type.starts_with("application/json;"))
    return refusal(415, "content_type",
                   "Content-Type: expected application/json");
  return nullptr;
}

answer refusal(int status, std::string_view code, std::string_view why,
               std::string_view allow) {
  return std::make_shared<response>(
    response{.status = status,
             .body = fmt::format("{{\"error\":{},\"code\":\"{}\"}}\n",
                                 json_string(why), code),
             .allow = allow,
             .code = code});
}

} // namespace gdctl::serve
