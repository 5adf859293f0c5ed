// gdctl secret: what both sides of a published port have.

#include "args.hpp"
#include "common.hpp"
#include "service.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

namespace gdctl {

namespace {

constexpr std::string_view secret_exit_codes
  = "Exit codes:\n"
    "  0  all is well\n"
    "  1  refused: something is there already\n"
    "  2  usage: an option, argument or file that cannot be used\n";

int new_secret(const std::string& file) {
  if (auto ok = make_secret(file); !ok)
    return fail(ok.error());
  return print(
    fmt::format("{}: a new secret. Whoever reads it may do at the port what a "
                "node may: copy it as it is, mode 0600, to where programs "
                "connect from.\n",
                gd::printable(file)));
}

} // namespace

void add_secret(parser& app) {
  auto sub = app.add_command(
    "secret", "Make the secret of a gateway that is published at a port");
  sub.requires_command();
  sub.describe(
    "Both sides of a port show that they have the same secret. A Unix "
    "socket needs\nnone. Needs no database.",
    {"gdctl secret new /etc/gen_durable/secret"}, secret_exit_codes);
  auto file = std::make_shared<std::string>();
  auto make = sub.add_command("new", "Make one");
  make.add_option("FILE", *file, "Where to: nothing may be there")
    .type_name("FILE")
    .required();
  make.describe(
    "Writes 32 random bytes, as hexadecimal digits, to a file that only "
    "this user can\nread.",
    {"gdctl secret new /etc/gen_durable/secret"}, secret_exit_codes);
  make.runs(file, new_secret);
}

} // namespace gdctl
