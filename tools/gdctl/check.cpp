#include "args.hpp"
#include "common.hpp"

#include <gd/check.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace gdctl {

namespace {

std::string line_of(const std::string& text) {
  return gd::printable(text) + '\n';
}

int check(const globals& global, bool repairs) {
  auto where = global.connection();
  if (!where)
    return fail(where.error());
  std::string text;
  if (repairs) {
    auto done = gd::repair(*where);
    if (!done)
      return fail(done.error());
    for (const auto& x : *done)
      text += line_of(x);
  }
  auto found = gd::check(*where);
  if (!found)
    return fail(found.error());
  for (const auto& x : *found)
    text += line_of(x.fault);
  if (found->empty())
    text += "nothing is wrong\n";
  return print(text, found->empty() ? ok : refused);
}

} // namespace

void add_check(parser& app) {
  auto repairs = std::make_shared<bool>(false);
  auto sub = app.add_command(
    "check", "Look for what a restore or a switch to a replica has broken");
  sub.add_flag("--repair", *repairs,
               "Move sequences that stand behind their rows, as the tables' "
               "owner");
  sub.describe(
    "Sequences that would give out ids which others have, ids without "
    "a sequence, indexes that\nare missing or not valid, triggers that "
    "are switched off. Reads little. A line for each,\nwith what mends "
    "it; ends with 1 if there is one, after --repair if one is left.",
    {"gdctl check", "gdctl check --repair"});
  sub.runs(repairs, check);
}

} // namespace gdctl
