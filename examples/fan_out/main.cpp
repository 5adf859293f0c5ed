/// Counts the words of files: an instance for each, and one that adds up.

#include "fan_out.hpp"

#include <gd/actors/engine.hpp>
#include <gd/client.hpp>

#include <CLI/CLI.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;

int fail(const gd::error& why) {
  std::cerr << "fan_out: " << to_string(why) << '\n';
  return EXIT_FAILURE;
}

int count_words(const std::string& database, const std::string& schema,
                const count_state& texts) {
  auto db = gd::client::connect({.database = database, .schema = schema});
  if (!db)
    return fail(db.error());
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys,
                                  {.database = database,
                                   .schema = schema,
                                   .machines = {count_parent(), count_part()},
                                   .poll = 100ms});
  if (!engine)
    return fail(engine.error());

  // With the step and queue that an engine makes known a moment later.
  auto parent = db->insert({.fsm = "Count",
                            .state = gd::to_json(texts),
                            .step = "split",
                            .queue = "default"});
  if (!parent)
    return fail(parent.error());
  auto end = db->await_result({parent->id});
  if (!end)
    return fail(end.error());
  auto sum = end->result_as<total>();
  if (!sum)
    return fail(sum.error());
  std::cout << sum->words << " words in " << texts.texts.size() << " texts\n";
  return EXIT_SUCCESS;
}

} // namespace

int main(int argc, char** argv) {
  std::string database;
  std::string schema = "public";
  std::vector<std::string> files;
  CLI::App app{"Counts the words of files, each in an instance of its own."};
  app
    .add_option("--database", database,
                "libpq connection string or URI; else PG* variables")
    ->envname("GD_DATABASE");
  app.add_option("--schema", schema, "where the tables are")
    ->envname("GD_SCHEMA");
  app.add_option("FILE", files)->required()->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  count_state texts;
  for (const auto& name : files) {
    std::ifstream in{name};
    texts.texts.emplace_back(std::istreambuf_iterator<char>{in},
                             std::istreambuf_iterator<char>{});
  }
  return count_words(database, schema, texts);
}
