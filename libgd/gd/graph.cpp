#include <gd/graph.hpp>

#include <gd/instance.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

namespace {

using step = machine_graph::step;
using targets = std::optional<std::vector<std::string>>;

/// Calls `f` with the index of each step that is among them.
template <class F>
void each_of(const targets& to, const machine_graph& x, F f) {
  if (!to)
    return;
  for (std::size_t i = 0; i < x.steps.size(); ++i)
    if (std::find(to->begin(), to->end(), x.steps[i].name) != to->end())
      f(i);
}

std::string count_of(const machine_graph& x, const std::string& status,
                     std::int64_t count) {
  return fmt::format("{}{}", x.estimated.contains(status) ? "~" : "", count);
}

std::string counts_of(const step& at, const machine_graph& x) {
  std::vector<std::string> texts;
  for (const auto& [status, count] : at.instances)
    texts.push_back(count_of(x, status, count) + ' ' + printable(status));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string title_of(const machine_graph& x) {
  return fmt::format("{} v{}", printable(x.fsm), x.version);
}

/// Inside of double quotes, where the only escapes are entities.
std::string for_mermaid(std::string_view text) {
  constexpr std::string_view plain = " _-.,:/()";
  std::string out;
  for (auto c : printable(text)) {
    auto code = static_cast<unsigned char>(c);
    bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')
                  || (c >= 'A' && c <= 'Z') || code >= 0x80;
    if (letter || plain.find(c) != plain.npos)
      out += c;
    else
      out += fmt::format("#{};", static_cast<unsigned>(code));
  }
  return out;
}

/// Inside of double quotes.
std::string for_dot(std::string_view text) {
  std::string out;
  for (auto c : printable(text)) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out;
}

/// A step's name and, below it, its counts.
template <class Escape>
std::string label_of(const step& at, const machine_graph& x, Escape escape,
                     std::string_view line_break) {
  auto text = escape(at.name);
  if (!at.known)
    text += fmt::format("{}{}", line_break, escape("(no step of the machine)"));
  for (const auto& [status, count] : at.instances)
    text += fmt::format("{}{} {}", line_break, count_of(x, status, count),
                        escape(status));
  return text;
}

bool anywhere(const step& x) {
  return x.known && !x.to;
}

/// "30d", "90min", "1500ms": in the largest unit of which it is a whole number.
std::string text_of(std::chrono::microseconds x) {
  constexpr std::array<std::pair<std::int64_t, std::string_view>, 6> units{
    {{86'400'000'000, "d"},
     {3'600'000'000, "h"},
     {60'000'000, "min"},
     {1'000'000, "s"},
     {1'000, "ms"},
     {1, "us"}}};
  auto fits = std::find_if(units.begin(), units.end(), [x](const auto& unit) {
    return x.count() % unit.first == 0;
  });
  return fmt::format("{}{}", x.count() / fits->first, fits->second);
}

/// What leads out of a step.
template <class Declared, class Outside, class Deadline>
void each_edge(const step& from, const machine_graph& x, Declared declared,
               Outside outside, Deadline deadline) {
  if (!from.rests) // else it declares what the others are
    each_of(from.to, x, declared);
  each_of(from.outside, x, outside);
  if (from.after)
    each_of(std::vector{from.then}, x,
            [&](auto to) { deadline(to, "after " + text_of(*from.after)); });
}

std::string names_of(const targets& to, const machine_graph& x) {
  std::vector<std::string> names;
  each_of(to, x, [&](auto i) { names.push_back(printable(x.steps[i].name)); });
  return !to             ? "(anywhere)"
         : names.empty() ? "(nowhere)"
                         : fmt::format("{}", fmt::join(names, ", "));
}

/// Of a step that the machine has.
std::string ways_of(const step& from, const machine_graph& x) {
  std::vector<std::string> ways;
  ways.push_back(from.rests  ? "rests"
                 : from.ends ? "ends"
                             : "-> " + names_of(from.to, x));
  if (!from.outside.empty())
    ways.push_back("=> " + names_of(from.outside, x));
  if (from.after)
    ways.push_back(fmt::format("after {} -> {}", text_of(*from.after),
                               names_of(std::vector{from.then}, x)));
  return fmt::format("{}", fmt::join(ways, "; "));
}

} // namespace

void machine_graph::add_instances(std::string_view at,
                                  const std::string& status,
                                  std::int64_t count) {
  auto found = std::find_if(steps.begin(), steps.end(),
                            [at](const auto& x) { return x.name == at; });
  if (found == steps.end())
    found = steps.insert(steps.end(),
                         {.name = std::string{at}, .known = false});
  found->instances[status] += count;
}

machine_graph graph(const machine& of) {
  machine_graph x{.fsm = of.name,
                  .version = of.version,
                  .initial_step = of.initial_step,
                  .handled = of.on_error
                             && (!of.handler_to || !of.handler_to->empty()),
                  .handler_to = of.handler_to};
  for (const auto& step : of.steps) {
    auto& to = x.steps.emplace_back(machine_graph::step{
      .name = step.name, .to = step.to, .outside = step.outside});
    if (step.rests) {
      to.rests = !step.rests->ends;
      to.ends = step.rests->ends;
      to.after = step.rests->after;
      to.then = step.rests->then;
    }
  }
  return x;
}

std::string to_text(const machine_graph& x) {
  const std::string handler = "(handler)";
  auto width = handler.size();
  for (const auto& step : x.steps)
    width = std::max(width, printable(step.name).size());
  auto text = fmt::format("{}, begins at {}\n", title_of(x),
                          printable(x.initial_step));
  auto add = [&](std::string_view name, std::string_view what) {
    text += fmt::format("  {:{}} {}", name, width, what);
  };
  for (const auto& step : x.steps) {
    add(printable(step.name),
        step.known ? ways_of(step, x) : "(no step of the machine)");
    if (!step.instances.empty())
      text += fmt::format("  [{}]", counts_of(step, x));
    text += '\n';
  }
  if (x.handled) {
    add(handler, "-> " + names_of(x.handler_to, x));
    text += '\n';
  }
  return text;
}

std::string to_mermaid(const machine_graph& x) {
  std::string text = "flowchart LR\n";
  std::string edges;
  for (std::size_t i = 0; i < x.steps.size(); ++i) {
    const auto& step = x.steps[i];
    auto [left, right] = step.rests  ? std::pair{"(", ")"}
                         : step.ends ? std::pair{"[[", "]]"}
                                     : std::pair{"[", "]"};
    text += fmt::format("  s{}{}\"{}\"{}{}\n", i, left,
                        label_of(step, x, for_mermaid, "<br/>"), right,
                        anywhere(step) ? ":::anywhere" : "");
    if (step.name == x.initial_step)
      edges += fmt::format("  start(( )) --> s{}\n", i);
    auto add = [&](std::string_view arrow) {
      return [&edges, i, arrow](auto to) {
        edges += fmt::format("  s{} {} s{}\n", i, arrow, to);
      };
    };
    each_edge(step, x, add("-->"), add("==>"), [&](auto to, const auto& when) {
      add(fmt::format("-- \"{}\" -->", when))(to);
    });
  }
  if (x.handled) {
    text += fmt::format("  handler{{{{\"handler\"}}}}{}\n",
                        x.handler_to ? "" : ":::anywhere");
    each_of(x.handler_to, x,
            [&](auto to) { edges += fmt::format("  handler -.-> s{}\n", to); });
  }
  return text + edges + "  classDef anywhere stroke-dasharray: 5 5\n";
}

std::string to_dot(const machine_graph& x) {
  auto text = fmt::format("digraph \"{}\" {{\n  rankdir=LR;\n"
                          "  node [shape=box];\n  start [shape=point];\n",
                          for_dot(title_of(x)));
  std::string edges;
  for (std::size_t i = 0; i < x.steps.size(); ++i) {
    const auto& step = x.steps[i];
    text += fmt::format("  s{} [label=\"{}\"{}];\n", i,
                        label_of(step, x, for_dot, "\\n"),
                        anywhere(step) ? ", style=dashed"
                        : step.rests   ? ", style=rounded"
                        : step.ends    ? ", peripheries=2"
                                       : "");
    if (step.name == x.initial_step)
      edges += fmt::format("  start -> s{};\n", i);
    auto add = [&](std::string_view how) {
      return [&edges, i, how](auto to) {
        edges += fmt::format("  s{} -> s{}{};\n", i, to, how);
      };
    };
    each_edge(step, x, add(""), add(" [style=bold]"),
              [&](auto to, const auto& when) {
      add(fmt::format(" [label=\"{}\"]", when))(to);
    });
  }
  if (x.handled) {
    text += fmt::format("  handler [label=\"handler\", shape=hexagon{}];\n",
                        x.handler_to ? "" : ", style=dashed");
    each_of(x.handler_to, x, [&](auto to) {
      edges += fmt::format("  handler -> s{} [style=dashed];\n", to);
    });
  }
  return text + edges + "}\n";
}

} // namespace gd
