#pragma once

#include "common.hpp"

#include <string>
#include <string_view>
#include <vector>

/// What is written about commands: the parser's own tree is the one source of help, man
/// pages and completions, so none of them lacks what is parsed.
namespace gdctl {

/// What the options of a command do not say by themselves: text in paragraphs, where lines
/// that begin with two blanks stay as they are, and examples.
void describe(CLI::App& command, std::string_view text,
              const std::vector<std::string_view>& examples,
              std::string_view exit_codes = exit_code_help);

/// manual, completion: all that `app` has when they run.
void add_pages(CLI::App& app, action& chosen);

} // namespace gdctl
