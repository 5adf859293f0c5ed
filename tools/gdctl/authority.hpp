#pragma once

#include <gd/error.hpp>

#include <chrono>
#include <cstdint>
#include <string>

/// Certificates of tunnels: those of an authority that signs itself, and of nodes
/// that it signs. Everything is PEM text; nothing here touches a file.
namespace gdctl {

/// A certificate and the key that belongs to it.
struct credentials {
  std::string certificate;
  std::string key;
};

/// A new key, and an authority's certificate for it.
gd::result<credentials> make_authority(std::chrono::seconds lasts);

/// A new key, and a certificate of that name for both sides of a tunnel. It ends with
/// the authority's at the latest.
gd::result<credentials> make_node(const credentials& authority,
                                  const std::string& name,
                                  std::chrono::seconds lasts);

/// What a certificate says.
struct certificate {
  std::string name;
  std::int64_t ends = 0; ///< seconds since 1970
};
/// `what` begins the error's sentence. Of several certificates, the first.
gd::result<certificate> read_certificate(const std::string& what,
                                         const std::string& pem);

} // namespace gdctl
