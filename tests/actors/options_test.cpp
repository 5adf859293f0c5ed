// Settings of an engine as options of CAF: from a program's command line and its file.

#define CAF_SUITE options

#include "actors/harness.hpp"
#include "actors/remote_nodes.hpp"
#include "support/words.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>

#include <caf/test/unit_test.hpp>

#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace options_suite {

using namespace gd::test;

namespace {

struct options_config : caf::actor_system_config {
  options_config() {
    gd::actors::add_to(*this);
    gd::actors::add_options_to(*this);
  }
};

struct worker_config : caf::actor_system_config {
  worker_config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
    gd::actors::add_worker_options_to(*this);
  }
};

gd::result<gd::actors::worker_settings>
tell_worker(std::vector<std::string> line, const std::string& file = {},
            gd::actors::worker_settings settings = {}) {
  worker_config cfg;
  std::istringstream in{file};
  if (auto why = cfg.parse(std::move(line), in))
    return gd::error{
      gd::errc::invalid_argument, caf::actor_system_config::render(why), {}};
  return gd::actors::configured_worker(cfg, std::move(settings));
}

/// What an engine is told by a command line and a file, on top of the program's settings;
/// else the sentence that refuses it, CAF's or ours.
struct told {
  gd::config settings{};
  std::string refused{};
};

told tell(std::vector<std::string> line, const std::string& file = {},
          gd::config settings = {}) {
  options_config cfg;
  std::istringstream in{file};
  if (auto why = cfg.parse(std::move(line), in))
    return {.refused = caf::actor_system_config::render(why)};
  auto all = gd::actors::configured(cfg, std::move(settings));
  if (!all)
    return {.refused = to_string(all.error())};
  return {.settings = std::move(*all)};
}

std::string queues_of(const gd::config& x) {
  std::string text;
  for (const auto& queue : x.queues)
    text += queue.name + ':' + std::to_string(queue.slots) + ':'
            + std::to_string(queue.prefetch) + ' ';
  return text;
}

void check_each_kind(const told& x) {
  CAF_CHECK_EQUAL(x.refused, "");
  CAF_CHECK_EQUAL(x.settings.database, "host=db dbname=shop");
  CAF_CHECK_EQUAL(queues_of(x.settings),
                  "mail:20:3000 bulk:2:0 default:10:3000 ");
  CAF_CHECK(x.settings.stop_grace == 90s);
  CAF_CHECK(x.settings.poll == 50ms);
  CAF_CHECK(x.settings.lease == 2min);
  CAF_CHECK(x.settings.single_sweeper);
  CAF_CHECK_EQUAL(x.settings.jitter, 0.25);
  CAF_CHECK_EQUAL(x.settings.connections, 7);
  CAF_CHECK_EQUAL(x.settings.bytes_waiting, std::int64_t{4} << 30);
  CAF_CHECK_EQUAL(x.settings.limits.state, 65'536u);
  CAF_CHECK_EQUAL(x.settings.limits.dedup_key, 64u);
}

} // namespace

CAF_TEST(each kind of setting arrives from the command line) {
  check_each_kind(tell(
    {"--gd.engine.database=host=db dbname=shop",
     "--gd.engine.queues=[\"mail:20\", \"bulk:2:0\", \"default\"]",
     "--gd.engine.stop-grace=90s", "--gd.engine.poll=50ms",
     "--gd.engine.lease=2min", "--gd.engine.single-sweeper",
     "--gd.engine.jitter=0.25", "--gd.engine.connections=7",
     "--gd.engine.bytes-waiting=4294967296", "--gd.engine.limits.state=65536",
     "--gd.engine.limits.dedup-key=64"}));
}

CAF_TEST(each kind of setting arrives from a file) {
  const std::string settings = R"(
    database = "host=db dbname=shop"
    queues = ["mail:20", "bulk:2:0", "default"]
    stop-grace = 90s
    poll = 50ms
    lease = 2min
    single-sweeper = true
    jitter = 0.25
    connections = 7
    bytes-waiting = 4294967296
    limits = { state = 65536, dedup-key = 64 }
)";
  CAF_MESSAGE("in a section");
  check_each_kind(tell({}, "[gd.engine]\n" + settings));
  CAF_MESSAGE("in braces, which CAF 1.x knows, too");
  check_each_kind(tell({}, "gd {\n engine {\n" + settings + "}\n}\n"));
}

CAF_TEST(
  the command line comes before the file and the file before the program) {
  auto x = tell(
    {"--gd.engine.schema=line"},
    "[gd.engine]\nschema = \"file\"\nnode = \"file\"\n",
    {.database = "program", .schema = "program", .node = "program"});
  CAF_CHECK_EQUAL(x.refused, "");
  CAF_CHECK_EQUAL(x.settings.database, "program");
  CAF_CHECK_EQUAL(x.settings.node, "file");
  CAF_CHECK_EQUAL(x.settings.schema, "line");
}

CAF_TEST(what nobody has said stays as the program has it) {
  auto x = tell({}, {}, {.queues = {{"a", 1, 2}}, .poll = 3ms});
  CAF_CHECK_EQUAL(x.refused, "");
  CAF_CHECK_EQUAL(queues_of(x.settings), "a:1:2 ");
  CAF_CHECK(x.settings.poll == 3ms);
  CAF_CHECK(x.settings.lease == gd::config{}.lease);
}

CAF_TEST(a value of another type is refused with the option the value and what
           was expected) {
  auto refused = [](const std::string& line) {
    return tell({}, "[gd.engine]\n" + line + "\n").refused;
  };
  auto sentence = [](const std::string& text) {
    return "gd::invalid_argument: gd.engine." + text;
  };
  const std::string times
    = "a time in whole milliseconds, as 250ms, 5s or 10min";
  CAF_CHECK_EQUAL(refused("poll = \"soon\""),
                  sentence("poll: expected " + times + ", got \"soon\""));
  CAF_CHECK_EQUAL(refused("poll = 50"),
                  sentence("poll: expected " + times + ", got 50"));
  CAF_CHECK_EQUAL(refused("probe = 500us"),
                  sentence("probe: expected " + times + ", got 500us"));
  CAF_CHECK_EQUAL(
    refused("connections = 4294967296"),
    sentence("connections: expected a whole number of 32 bits, got "
             "4294967296"));
  CAF_CHECK_EQUAL(refused("single-sweeper = 1"),
                  sentence("single-sweeper: expected true or false, got 1"));
  CAF_CHECK_EQUAL(refused("jitter = true"),
                  sentence("jitter: expected a number, got true"));
  CAF_CHECK_EQUAL(
    refused("limits = { state = -1 }"),
    sentence("limits.state: expected a whole number, not below 0, "
             "got -1"));
  CAF_CHECK_EQUAL(refused("queues = 5"),
                  sentence("queues: expected a list such as [\"mail:10\", "
                           "\"default\"], got 5"));
  for (std::string text :
       {"mail:ten", "mail:", ":5", "", "mail:1:2:3", "mail:1:"})
    CAF_CHECK_EQUAL(refused("queues = [\"default\", \"" + text + "\"]"),
                    sentence("queues: expected name, name:slots or "
                             "name:slots:prefetch, got \""
                             + text + "\""));
}

CAF_TEST(a connection string of another type is refused without being shown) {
  CAF_CHECK_EQUAL(
    tell({}, "[gd.engine]\ndatabase = ['geheim']\n").refused,
    "gd::invalid_argument: gd.engine.database: expected a string, got "
    "another type");
}

CAF_TEST(a name that is no option is refused wherever it stands) {
  CAF_CHECK_EQUAL(
    tell({}, "[gd.engine]\npol = 50ms\n").refused,
    "gd::invalid_argument: gd.engine.pol: there is no such option");
  CAF_CHECK_EQUAL(
    tell({}, "[gd.engine]\nlimits = { states = 1 }\n").refused,
    "gd::invalid_argument: gd.engine.limits.states: there is no such "
    "option");
  CAF_CHECK_EQUAL(tell({}, "[gd]\nengine = 5\n").refused,
                  "gd::invalid_argument: gd.engine: there is no such option");
  CAF_CHECK(contains(tell({"--gd.engine.pol=50ms"}).refused, "gd.engine.pol"));
  CAF_CHECK(
    contains(tell({"--gd.engine.machines=x"}).refused, "gd.engine.machines"));
}

CAF_TEST(what CAF cannot read on the command line is refused with the option) {
  for (std::string option :
       {"--gd.engine.poll=soon", "--gd.engine.connections=many"})
    CAF_CHECK(contains(tell({option}).refused, option));
}

CAF_TEST(bounds are those that a start checks) {
  options_config cfg;
  caf::actor_system sys{cfg};
  auto x = tell({"--gd.engine.connections=2"});
  CAF_CHECK_EQUAL(x.refused, "");
  auto engine = gd::actors::start(sys, x.settings);
  CAF_REQUIRE(!engine);
  CAF_CHECK_EQUAL(
    to_string(engine.error()),
    "gd::invalid_argument: connections: expected 3 to 100, got 2");
}

CAF_TEST(
  the settings of a worker arrive from line and file as those of an engine) {
  auto check = [](const gd::result<gd::actors::worker_settings>& told) {
    const auto& x = must(told);
    CAF_CHECK(x.addresses
              == (std::vector<std::string>{"unix:/run/a", "127.0.0.1:4711"}));
    CAF_REQUIRE_EQUAL(x.queues.size(), 2u);
    CAF_CHECK_EQUAL(x.queues[0].slots, 8);
    CAF_CHECK_EQUAL(x.queues[0].prefetch, 20);
    CAF_CHECK_EQUAL(x.queues[1].prefetch, 5);
    CAF_CHECK_EQUAL(x.how.node, "w");
    CAF_CHECK_EQUAL(x.how.secret, "/etc/secret");
    CAF_CHECK_EQUAL(x.how.bytes, 1'000);
    CAF_CHECK(x.how.patience == 1s);
    CAF_CHECK(x.how.first_pause == 2ms);
    CAF_CHECK(x.how.longest_pause == 3s);
    CAF_CHECK(x.how.stop_grace == 4s);
  };
  check(tell_worker(
    {"--gd.worker.addresses=[\"unix:/run/a\", \"127.0.0.1:4711\"]",
     "--gd.worker.queues=[\"mail:8\", \"bulk:2:5\"]", "--gd.worker.node=w",
     "--gd.worker.secret=/etc/secret", "--gd.worker.bytes=1000",
     "--gd.worker.patience=1s", "--gd.worker.first-pause=2ms",
     "--gd.worker.longest-pause=3s", "--gd.worker.stop-grace=4s"}));
  check(tell_worker({}, R"(gd { worker {
    addresses = ["unix:/run/a", "127.0.0.1:4711"]
    queues = ["mail:8", "bulk:2:5"]
    node = "w"
    secret = "/etc/secret"
    bytes = 1000
    patience = 1s
    first-pause = 2ms
    longest-pause = 3s
    stop-grace = 4s
} }
)"));
  CAF_MESSAGE("what nobody has said stays as the program has it");
  auto x = must(tell_worker({}, {}, {.addresses = {"unix:/run/b"}}));
  CAF_CHECK_EQUAL(x.addresses.front(), "unix:/run/b");
  CAF_CHECK_EQUAL(x.queues.front().name, "default");
  CAF_CHECK_EQUAL(x.queues.front().prefetch, 20);
  CAF_CHECK(x.how.patience == gd::actors::join_options{}.patience);
}

CAF_TEST(
  an option of a worker that does not fit is refused with what was expected) {
  auto refused = [](const std::string& line) {
    auto told = tell_worker({}, "[gd.worker]\n" + line + "\n");
    return told ? "not refused" : to_string(told.error());
  };
  const std::string worker = "gd::invalid_argument: gd.worker.";
  CAF_CHECK_EQUAL(refused("addresses = 5"),
                  worker + "addresses: expected a list of texts, got 5");
  CAF_CHECK_EQUAL(refused("lease = 5s"),
                  worker + "lease: there is no such option");
  worker_config cfg;
  caf::actor_system sys{cfg};
  auto joined = gd::actors::join(sys, must(tell_worker({})));
  CAF_REQUIRE(!joined);
  CAF_CHECK_EQUAL(to_string(joined.error()),
                  "gd::invalid_argument: join: expected an address");
}

CAF_TEST(of the scheduler only the policy is set and only where nobody has) {
  using caf::content;
  caf::actor_system_config ours;
  gd::actors::add_to(ours);
  const auto& group = caf::get<caf::settings>(content(ours), "scheduler");
  CAF_CHECK_EQUAL(group.size(), 1u);
  CAF_CHECK(caf::get<caf::atom_value>(group, "policy") == caf::atom("sharing"));
  caf::actor_system_config theirs;
  theirs.set("scheduler.policy", caf::atom("stealing"));
  gd::actors::add_to(theirs);
  CAF_CHECK(caf::get<caf::atom_value>(content(theirs), "scheduler.policy")
            == caf::atom("stealing"));
}

CAF_TEST(an error of ours is readable as CAF itself prints it) {
  auto text = to_string(
    gd::actors::to_caf({gd::errc::unavailable, "the server is away", "08006"}));
  for (const char* part : {"unavailable", "the server is away", "08006"})
    CAF_CHECK(contains(text, part));
  CAF_MESSAGE(text);
}

CAF_TEST(the example of what people do who know CAF does what its page says) {
  temporary_database db;
  db.migrate();
  socket_folder sockets;
  talking_process example{
    {GD_CAF_HABITS, "--gd.engine.database=" + db.conninfo(),
     "--gd.engine.queues=checkout:2", "--socket=" + sockets.next()}};
  CAF_CHECK_EQUAL(example.hear(), "receive: order 42 is stored");
  std::set<std::string> paid{example.hear(), example.hear()};
  CAF_CHECK(paid
            == (std::set<std::string>{"then: order 43 is paid",
                                      "then: order 44 is paid"}));
  // The clerk's answer comes among those of the others.
  std::vector<std::string> lines;
  for (int i = 0; i < 6; ++i)
    lines.push_back(example.hear());
  CAF_CHECK_EQUAL(std::erase(lines, "await: instance 1 is of Checkout"), 1u);
  CAF_CHECK(lines
            == (std::vector<std::string>{
              "actor_cast: order 45 is stored", "pool: order 46 is stored",
              "pool: order 47 is stored", "reach: order 48 is stored",
              "remote_lookup: twice 21 is 42"}));
  // Which of the two hears it first is not said.
  auto down = example.hear();
  auto late = example.hear();
  if (down.starts_with("reach"))
    std::swap(down, late);
  CAF_CHECK(down.starts_with("monitor: the gateway is down: "));
  CAF_CHECK(late.starts_with("reach: gd::unavailable: "));
  CAF_CHECK_EQUAL(example.hear(), "(the end)");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where "
                            "priority = 1"),
                  "1");
}

} // namespace options_suite
