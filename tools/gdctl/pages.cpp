#include "args.hpp"

#include "lines.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gdctl {

namespace {

constexpr std::string_view codes_heading = "Exit codes:\n";

// -- the tree -----------------------------------------------------------------

/// "gdctl", "gdctl jobs", "gdctl jobs run".
std::string path_of(const CLI::App& x) {
  const auto* above = x.get_parent();
  return above == nullptr ? x.get_name() : path_of(*above) + ' ' + x.get_name();
}

std::vector<const CLI::App*> commands_of(const CLI::App& x) {
  return x.get_subcommands([](const CLI::App*) { return true; });
}

/// Those of its options that have a place, or a name: some have both.
std::vector<const CLI::Option*> options_of(const CLI::App& x, bool placed) {
  return x.get_options([placed](const CLI::Option* option) {
    return placed ? option->get_positional() : option->nonpositional();
  });
}

template <class F>
void walk(const CLI::App& x, F f) {
  f(x);
  for (const auto* below : commands_of(x))
    walk(*below, f);
}

bool has_value(const CLI::Option& x) {
  return x.get_items_expected_max() > 0;
}

/// FILE, of "FILE", or TEXT, of "TEXT:{done,failed}".
std::string kind_of(const CLI::Option& x) {
  auto type = x.get_type_name();
  return type.substr(0, type.find(':'));
}

/// Of "TEXT:{done,failed}" done and failed; nothing, if it may be anything.
std::string values_of(const CLI::Option& x) {
  auto type = x.get_type_name();
  auto begin = type.find('{');
  auto end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos)
    return {};
  auto values = type.substr(begin + 1, end - begin - 1);
  std::replace(values.begin(), values.end(), ',', ' ');
  return values;
}

/// What `describe` has made of text, examples and exit codes.
struct description {
  std::string text;
  std::string examples;
  std::string exit_codes;
};

description description_of(const CLI::App& x) {
  auto all = x.get_footer();
  auto examples = all.find(examples_heading);
  auto codes = all.find(codes_heading, examples);
  auto behind = examples + examples_heading.size();
  return {all.substr(0, examples), all.substr(behind, codes - behind),
          all.substr(codes + codes_heading.size())};
}

// -- man pages ----------------------------------------------------------------

/// So that nothing in it means anything to roff.
std::string for_roff(std::string_view text) {
  std::string out;
  for (auto c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else
      out += c;
  }
  return out;
}

/// Paragraphs; lines that are indented stay as they are.
std::string roff_text(std::string_view text) {
  std::string out;
  bool as_it_is = false;
  for (const auto& line : CLI::detail::split(std::string{text}, '\n')) {
    bool indented = line.starts_with("  ");
    if (indented != as_it_is && !line.empty())
      out += indented ? ".PP\n.nf\n" : ".fi\n";
    as_it_is = line.empty() ? as_it_is : indented;
    out += line.empty() ? "" : for_roff(line) + '\n';
    if (line.empty() && !out.empty() && !out.ends_with(".PP\n") && !as_it_is)
      out += ".PP\n";
  }
  if (out.ends_with(".PP\n"))
    out.resize(out.size() - 4);
  return out + (as_it_is ? ".fi\n" : "");
}

std::string roff_option(const CLI::Option& x, bool placed) {
  auto text = x.get_description();
  auto values = values_of(x);
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += ".";
  if (!values.empty())
    text += fmt::format("\nOne of: {}.", values);
  auto type = x.get_type_name();
  if (auto range = type.find('['); range != std::string::npos)
    text += fmt::format("\nIn {}.", type.substr(range));
  if (!x.get_default_str().empty())
    text += fmt::format("\nDefault: {}.", x.get_default_str());
  if (!x.get_envname().empty())
    text += fmt::format("\nIn the environment: {}.", x.get_envname());
  if (x.get_required() && (placed || !x.get_positional()))
    text += "\nRequired.";
  auto name = placed ? x.get_name(true) : x.get_name(false, true);
  if (!placed && has_value(x))
    return fmt::format(".TP\n.BR {} \" {}\"\n{}\n", for_roff(name),
                       for_roff(kind_of(x)), for_roff(text));
  return fmt::format(".TP\n.B {}\n{}\n", for_roff(name), for_roff(text));
}

std::string synopsis_of(const CLI::App& x) {
  auto text = fmt::format(".B {}\n[OPTIONS]", for_roff(path_of(x)));
  for (const auto* option : options_of(x, true)) {
    auto name = option->get_name(true);
    text += option->get_required() ? ' ' + name : fmt::format(" [{}]", name);
  }
  if (!commands_of(x).empty())
    text += x.get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
  return text + '\n';
}

std::string file_of(const CLI::App& x) {
  auto path = path_of(x);
  std::replace(path.begin(), path.end(), ' ', '-');
  return path;
}

/// Pages of what it belongs to, has, and speaks of.
std::string see_also(const CLI::App& root, const CLI::App& x) {
  auto text = x.get_footer();
  std::vector<std::string> names;
  walk(root, [&](const CLI::App& other) {
    auto path = path_of(other);
    auto at = text.find(path);
    bool told = at != std::string::npos
                && (at + path.size() == text.size()
                    || std::string_view{" \n,.)"}.find(text[at + path.size()])
                         != std::string_view::npos);
    if (&other != &x
        && (&other == &root || told || other.get_parent() == &x
            || x.get_parent() == &other))
      names.push_back(fmt::format(".BR {} (1)", for_roff(file_of(other))));
  });
  return fmt::format("{}\n", fmt::join(names, ",\n"));
}

std::string exit_codes_of(const std::string& lines) {
  std::string out;
  for (const auto& line : CLI::detail::split(lines, '\n'))
    if (line.size() > 5 && line[2] != ' ')
      out += fmt::format(".TP\n.B {}\n{}\n", line[2], for_roff(line.substr(5)));
    else if (!line.empty())
      out += for_roff(line.substr(5)) + '\n';
  return out;
}

std::string man_page(const CLI::App& root, const CLI::App& x) {
  auto told = description_of(x);
  auto text = fmt::format(
    ".TH {} 1 \"\" \"gdctl {}\" \"gen_durable\"\n"
    ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}.\n{}",
    for_roff(file_of(x)), GD_VERSION, for_roff(file_of(x)),
    for_roff(x.get_description()), synopsis_of(x),
    for_roff(x.get_description()),
    told.text.empty() ? "" : ".PP\n" + roff_text(told.text));
  auto section = [&text](std::string_view title, const auto& xs, auto f) {
    if (!xs.empty())
      text += fmt::format(".SH {}\n", title);
    for (const auto* one : xs)
      text += f(*one);
  };
  section("ARGUMENTS", options_of(x, true),
          [](const CLI::Option& one) { return roff_option(one, true); });
  section("COMMANDS", commands_of(x), [](const CLI::App& below) {
    return fmt::format(".TP\n.B {}\n{}.\n", for_roff(below.get_name()),
                       for_roff(below.get_description()));
  });
  section("OPTIONS", options_of(x, false),
          [](const CLI::Option& one) { return roff_option(one, false); });
  if (&x != &root)
    text += ".PP\nThe options of\n.BR gdctl (1)\nmay stand here, too.\n";
  return text + ".SH EXAMPLES\n" + roff_text(told.examples)
         + ".SH \"EXIT STATUS\"\n" + exit_codes_of(told.exit_codes)
         + ".SH \"SEE ALSO\"\n" + see_also(root, x);
}

int write_manual(const CLI::App& root, const std::string& folder) {
  int code = ok;
  walk(root, [&](const CLI::App& x) {
    auto path = fmt::format("{}/{}.1", folder, file_of(x));
    std::ofstream file{path};
    if (code == ok && !(file << man_page(root, x) && file.flush()))
      code = fail(system_error(path, errno));
  });
  return code;
}

// -- completion ---------------------------------------------------------------

constexpr std::string_view bash = R"(
_gdctl() {
  local at=gdctl last= word i cur=${COMP_WORDS[COMP_CWORD]}
  local subs opts valued args may
  for ((i = 1; ; ++i)); do
    _gdctl_of "$at"
    ((i < COMP_CWORD)) || break
    word=${COMP_WORDS[i]}
    if [[ " $valued " == *" $word "* ]]; then
      [[ ${COMP_WORDS[i + 1]} != = ]] || ((++i))
      ((++i < COMP_CWORD)) || { last=$word; break; }
    elif [[ " $subs " == *" $word "* ]]; then
      at+=" $word"
    fi
  done
  [[ $cur != = ]] || cur=
  if [[ $last ]]; then
    may=$(_gdctl_values "$at $last")
  elif [[ $cur == -* || ! $subs$args ]]; then
    may=$opts
  else
    may="$subs $args"
  fi
  case $may in
    *FILE) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2> /dev/null ;;
    *DIR) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2> /dev/null ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$may" -- "$cur") ;;
  esac
}
complete -F _gdctl gdctl
)";

constexpr std::string_view zsh = R"(
_gdctl() {
  local at=gdctl last= word valued args may
  local -a subs opts names
  local -i i
  for ((i = 2; ; ++i)); do
    _gdctl_of "$at"
    names=(${subs%%:*})
    ((i < CURRENT)) || break
    word=$words[i]
    if [[ " $valued " == *" $word "* ]]; then
      ((++i < CURRENT)) || { last=$word; break }
    elif (($names[(Ie)$word])); then
      at+=" $word"
    fi
  done
  if [[ ! $last && $PREFIX == --*=* ]]; then
    last=${PREFIX%%=*}
    compset -P '*='
  fi
  if [[ $last ]]; then
    may=$(_gdctl_values "$at $last")
  elif [[ $PREFIX == -* || (-z $subs && -z $args) ]]; then
    _describe option opts
    return
  else
    may=$args
    ((! $#subs)) || _describe command subs
  fi
  case $may in
    FILE) _files ;;
    DIR) _files -/ ;;
    ?*) compadd -- ${=may} ;;
  esac
}
if [[ $funcstack[1] == _gdctl ]]; then
  _gdctl "$@"
else
  compdef _gdctl gdctl
fi
)";

constexpr std::string_view fish = R"(
function __gdctl_is_at
    set -l at gdctl
    set -l words (commandline -opc)
    while set -e words[1]; and set -q words[1]
        if contains -- "$at $words[1]" $__gdctl_commands
            set at "$at $words[1]"
        else if contains -- "$at $words[1]" $__gdctl_valued
            set -e words[1]
        end
    end
    test $at = $argv[1]
end

complete -c gdctl -f
)";

/// The fixed values that it takes; or what kind of file.
std::string may_be(const CLI::Option& x) {
  auto kind = kind_of(x);
  return kind == "FILE" || kind == "DIR" ? kind : values_of(x);
}

/// A command or an option: what it is, and what may follow.
struct word {
  std::string name;
  std::string what;
  bool valued = false;
  std::string values;
};

/// What may stand in a command.
struct choice {
  std::string path;
  std::vector<word> subs;
  std::vector<word> opts; // its own, and those of gdctl
  std::vector<std::string> args;
};

std::vector<choice> choices_of(const CLI::App& root) {
  std::vector<choice> all;
  walk(root, [&](const CLI::App& x) {
    auto& made = all.emplace_back(choice{path_of(x), {}, {}, {}});
    for (const auto* below : commands_of(x))
      made.subs.push_back(
        {below->get_name(), below->get_description(), false, {}});
    for (const auto* from : {&x, &root})
      for (const auto* option : options_of(*from, false)) {
        auto name = option->get_name();
        if (std::none_of(made.opts.begin(), made.opts.end(),
                         [&](const word& own) { return own.name == name; }))
          made.opts.push_back({name, option->get_description(),
                               has_value(*option), may_be(*option)});
      }
    for (const auto* option : options_of(x, true))
      if (auto may = may_be(*option); !may.empty())
        made.args.push_back(may);
    for (auto* words : {&made.subs, &made.opts})
      for (auto& one : *words)
        std::replace(one.what.begin(), one.what.end(), '\n', ' ');
  });
  return all;
}

/// In single quotes, as bash and zsh read them.
std::string in_quotes(std::string_view text) {
  std::string out;
  for (auto c : text)
    out += c == '\'' ? "'\\''" : std::string{c};
  return '\'' + out + '\'';
}

/// Commands or options with what they are: bash takes the names alone.
std::string list_of(bool for_zsh, const std::vector<word>& xs) {
  std::vector<std::string> out;
  out.reserve(xs.size());
  for (const auto& [name, what, valued, values] : xs)
    out.push_back(for_zsh ? in_quotes(fmt::format("{}:{}", name, what)) : name);
  return for_zsh ? fmt::format("({})", fmt::join(out, " "))
                 : in_quotes(fmt::format("{}", fmt::join(out, " ")));
}

/// As the functions of bash and zsh read it.
std::string completion(const CLI::App& root, bool for_zsh) {
  std::string of;
  std::string values;
  for (const auto& x : choices_of(root)) {
    std::vector<std::string> valued;
    for (const auto& option : x.opts) {
      if (option.valued)
        valued.push_back(option.name);
      if (!option.values.empty())
        values += fmt::format("    '{} {}') echo {} ;;\n", x.path, option.name,
                              in_quotes(option.values));
    }
    of += fmt::format("    '{}')\n      subs={}\n      opts={}\n"
                      "      valued='{}' args='{}' ;;\n",
                      x.path, list_of(for_zsh, x.subs),
                      list_of(for_zsh, x.opts), fmt::join(valued, " "),
                      fmt::join(x.args, " "));
  }
  return fmt::format("{}# Completes the command line of gdctl {}.\n"
                     "_gdctl_of() {{\n  case $1 in\n{}  esac\n}}\n\n"
                     "_gdctl_values() {{\n  case $1 in\n{}  esac\n}}\n{}",
                     for_zsh ? "#compdef gdctl\n" : "", GD_VERSION, of, values,
                     for_zsh ? zsh : bash);
}

/// In single quotes, as fish reads them.
std::string in_fish_quotes(std::string_view text) {
  std::string out;
  for (auto c : text)
    out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return '\'' + out + '\'';
}

/// What `complete` is told of values: files only where they may stand.
std::string fish_values(std::string_view values) {
  if (values == "FILE")
    return " -F";
  if (values == "DIR")
    return " -f -a '(__fish_complete_directories)'";
  return fmt::format(" -f -a '{}'", values);
}

/// As fish has it: a line for each thing that may stand somewhere.
std::string fish_completion(const CLI::App& root) {
  std::string lines;
  std::vector<std::string> commands;
  std::vector<std::string> valued;
  for (const auto& x : choices_of(root)) {
    auto here = fmt::format("complete -c gdctl -n '__gdctl_is_at \"{}\"'",
                            x.path);
    for (const auto& sub : x.subs) {
      commands.push_back(in_fish_quotes(x.path + ' ' + sub.name));
      lines += fmt::format("{} -a {} -d {}\n", here, sub.name,
                           in_fish_quotes(sub.what));
    }
    for (const auto& option : x.opts) {
      if (option.valued)
        valued.push_back(in_fish_quotes(x.path + ' ' + option.name));
      lines += fmt::format("{} -l {}{} -d {}\n", here, option.name.substr(2),
                           option.valued ? " -r" + fish_values(option.values)
                                         : "",
                           in_fish_quotes(option.what));
    }
    for (const auto& arg : x.args)
      lines += here + fish_values(arg) + '\n';
  }
  return fmt::format(
    "# Completes the command line of gdctl {}.\n"
    "set -g __gdctl_commands {}\nset -g __gdctl_valued {}\n{}{}",
    GD_VERSION, fmt::join(commands, " "), fmt::join(valued, " "), fish, lines);
}

} // namespace

void add_pages(parser& app) {
  const auto& tree = app.tree();
  auto folder = std::make_shared<std::string>();
  auto manual = app.add_command("manual", "Write the man pages");
  manual.add_option("DIR", *folder, "The folder that they are written to")
    .required()
    .type_name("DIR");
  manual.describe(
    "A page for each command. An installation has them: man gdctl-list.",
    {"gdctl manual /usr/local/share/man/man1"});
  manual.runs(
    [folder, &tree](const globals&) { return write_manual(tree, *folder); });
  auto shell = std::make_shared<std::string>();
  auto complete = app.add_command("completion",
                                  "Print what completes command lines");
  complete.add_option("SHELL", *shell, "For this shell")
    .required()
    .one_of({"bash", "zsh", "fish"});
  complete.describe(
    "Of commands, options and fixed values; it asks no database. An "
    "installation has\nall of them where the shells look for them.",
    {"source <(gdctl completion bash)",
     "gdctl completion zsh > ~/.zfunc/_gdctl",
     "gdctl completion fish > ~/.config/fish/completions/gdctl.fish"});
  complete.runs([shell, &tree](const globals&) {
    return print(*shell == "fish" ? fish_completion(tree)
                                  : completion(tree, *shell == "zsh"));
  });
}

} // namespace gdctl
