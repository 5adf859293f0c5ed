#pragma once

#include "database.hpp"

#include <caf/test/dsl.hpp>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

/// gdctl as a shell runs it; of sources that have GD_GDCTL.
namespace gd::test {

struct ended {
  int code = 0;
  std::string said; ///< to both streams
};

/// In a shell.
inline ended run_command(const std::string& command) {
  auto* out = popen((command + " 2>&1").c_str(), "r");
  if (out == nullptr)
    throw std::runtime_error{"no process"};
  ended x;
  std::array<char, 4'096> some;
  while (auto n = fread(some.data(), 1, some.size(), out))
    x.said.append(some.data(), n);
  auto status = pclose(out);
  x.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  CAF_MESSAGE(command << ": " << x.code << "\n" << x.said);
  return x;
}

inline ended run_gdctl(const std::string& arguments) {
  return run_command(GD_GDCTL " " + arguments);
}

/// A database that gdctl finds in its environment.
struct database_of_gdctl {
  std::string server = std::getenv("GD_DATABASE");
  temporary_database db;

  database_of_gdctl() {
    db.migrate();
    setenv("GD_DATABASE", db.conninfo().c_str(), 1);
  }

  ~database_of_gdctl() {
    setenv("GD_DATABASE", server.c_str(), 1);
  }

  static ended run(const std::string& arguments) {
    return run_gdctl(arguments);
  }
};

} // namespace gd::test
