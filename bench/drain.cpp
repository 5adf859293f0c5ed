/// How many steps per second one node commits: inserts ROWS instances of STEPS
/// steps each, then runs an engine until all are done. To be run under
/// tools/private-postgres; prints one line with the CPU time of both sides.

#include <gd/actors/engine.hpp>
#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/migrate.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

GD_ENUM(count_step, work);

struct counter {
  std::int64_t left = 0;
  GD_STATE(counter, left);
};

namespace {

gd::machine count_down() {
  return gd::define<counter, count_step>("CountDown", 1)
    .step(count_step::work, [](gd::context<counter>& ctx) {
      if (--ctx.state.left > 0)
        return gd::next(count_step::work, ctx.state);
      return gd::done();
    });
}

/// User and system seconds of this process.
double own_cpu() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// User and system seconds of the server's living processes.
double server_cpu(const std::string& data_directory) {
  std::ifstream pid_file{data_directory + "/postmaster.pid"};
  std::string postmaster;
  std::getline(pid_file, postmaster);
  double ticks = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    std::ifstream stat{entry.path() / "stat"};
    std::string line;
    if (!std::getline(stat, line))
      continue;
    std::istringstream rest{line.substr(line.rfind(')') + 1)};
    std::vector<std::string> fields;
    for (std::string field; rest >> field;)
      fields.push_back(field);
    if (fields.size() > 12 && fields[1] == postmaster)
      ticks += std::stod(fields[11]) + std::stod(fields[12]);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int fail(const gd::error& why) {
  fmt::print(stderr, "drain: {}\n", to_string(why));
  return EXIT_FAILURE;
}

} // namespace

int main(int argc, char** argv) {
  const char* database = std::getenv("GD_DATABASE");
  const char* data = std::getenv("GD_TEST_POSTGRES_DATA");
  if (argc < 3 || argc > 4 || database == nullptr || data == nullptr) {
    fmt::print(
      stderr,
      "usage: tools/private-postgres run -- drain ROWS STEPS [SLOTS]\n");
    return 2;
  }
  auto rows = std::stoul(argv[1]);
  auto steps = std::stol(argv[2]);
  gd::config options;
  options.database = database;
  options.machines = {count_down()};
  if (argc == 4)
    options.queues = {{"default", std::stoi(argv[3])}};

  if (auto ok = gd::migrate_up(options.connection_options()); !ok)
    return fail(ok.error());
  auto machines = std::make_shared<gd::registry>(options.machines);
  auto client = gd::client::connect(options.connection_options(),
                                    {.machines = machines});
  if (!client)
    return fail(client.error());
  gd::insert one{.fsm = "CountDown", .state = gd::to_json(counter{steps})};
  auto began_inserting = std::chrono::steady_clock::now();
  for (const auto& answer : client->insert_all(std::vector(rows, one)))
    if (!answer)
      return fail(answer.error());
  std::chrono::duration<double> inserting = std::chrono::steady_clock::now()
                                            - began_inserting;

  std::mutex mutex;
  std::condition_variable finished;
  std::size_t done = 0;
  options.on_event = [&, log = gd::log_to_stderr()](const gd::event& what) {
    if (auto* x = std::get_if<gd::events::step_committed>(&what);
        x != nullptr && x->outcome == "done") {
      std::lock_guard guard{mutex};
      if (++done == rows)
        finished.notify_all();
    }
    log(what);
  };
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  auto cpu = own_cpu();
  auto server = server_cpu(data);
  auto began = std::chrono::steady_clock::now();
  auto engine = gd::actors::start(sys, options);
  if (!engine)
    return fail(engine.error());
  {
    std::unique_lock guard{mutex};
    finished.wait(guard, [&] { return done == rows; });
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now()
                                          - began;
  cpu = own_cpu() - cpu;
  server = server_cpu(data) - server;
  fmt::print("{} x {} steps: {:.0f} steps/s ({:.2f} s; CPU: worker {:.2f} s, "
             "server {:.2f} s); inserted {:.0f}/s\n",
             rows, steps,
             static_cast<double>(rows) * static_cast<double>(steps)
               / seconds.count(),
             seconds.count(), cpu, server,
             static_cast<double>(rows) / inserting.count());
  return EXIT_SUCCESS;
}
