#include "args.hpp"
#include "common.hpp"
#include "service.hpp"

#include <gd/client.hpp>
#include <gd/graph.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace gdctl {

namespace {

struct graph_options {
  std::string fsm{};
  std::int32_t version = 0;
  bool mermaid = false;
  bool dot = false;
  bool live = false;
};

int graph(const globals& global, const graph_options& what) {
  auto db = open_database(global, does::read);
  if (!db)
    return fail(db.error());
  auto x = db->graph(what.fsm, what.version, what.live);
  if (!x)
    return fail(db->unknown({.fsm = what.fsm, .version = what.version}),
                x.error());
  return print(what.mermaid ? gd::to_mermaid(*x)
               : what.dot   ? gd::to_dot(*x)
                            : gd::to_text(*x));
}

} // namespace

void add_graph(parser& app) {
  auto opts = std::make_shared<graph_options>();
  auto sub = app.add_command(
    "graph", "Show where the steps of a machine declare that they go");
  sub.add_option("MACHINE,--machine", opts->fsm, "Its name").required();
  sub
    .add_option("--version", opts->version,
                "Its version; default: what inserts take")
    .version();
  auto mermaid = sub.add_flag("--mermaid", opts->mermaid,
                              "As a flowchart of Mermaid's");
  sub.add_flag("--dot", opts->dot, "As a digraph for Graphviz")
    .excludes(mermaid);
  sub.add_flag("--live", opts->live,
               "With how many instances stand at each step, by status; ~: "
               "an estimate");
  sub.describe(
    "As nodes have made it known. \"(anywhere)\", dashed in pictures: "
    "the step declares\nnothing. What the handler declares holds for "
    "each step that fails.",
    {"gdctl graph Checkout",
     "gdctl graph Checkout --dot --live | dot -Tsvg > checkout.svg"});
  sub.runs(opts, graph);
}

} // namespace gdctl
