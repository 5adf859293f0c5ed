#pragma once

#include <gd/network/wire/secret.hpp>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace gd::test {

/// The file of a secret for ports, the same one for this process and those that it starts:
/// GD_SECRET names it.
inline std::string port_secret() {
  struct folder {
    std::string name = "/tmp/gd-secret-XXXXXX";

    folder() {
      if (mkdtemp(name.data()) == nullptr
          || !actors::shared_secret::make(name + "/secret"))
        throw std::runtime_error("no secret for ports");
      setenv("GD_SECRET", (name + "/secret").c_str(), 1);
    }

    ~folder() {
      std::filesystem::remove_all(name);
    }
  };
  if (const auto* given = std::getenv("GD_SECRET"))
    return given;
  static const folder own;
  return own.name + "/secret";
}

} // namespace gd::test
