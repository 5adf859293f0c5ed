#include <gd/config.hpp>

#include <gd/pq/text.hpp>
#include <gd/store/store.hpp>
#include <gd/time.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <random>
#include <set>
#include <tuple>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

template <class T>
result<void> check_range(std::string_view field, T value, T least, T most) {
  if (value >= least && value <= most)
    return {};
  return error{
    errc::invalid_argument,
    fmt::format("{}: expected {} to {}, got {}", field, least, most, value),
    {}};
}

/// The engine's, and those of steps.
result<void> check_statements(milliseconds own, const effect_settings& x) {
  for (auto ok :
       {check_time("statement_timeout", own, milliseconds{100},
                   longest_statement),
        check_time("effects.statement_timeout", x.statement_timeout,
                   milliseconds{1}, longest_statement),
        check_time("effects.lock_timeout", x.lock_timeout, milliseconds{1},
                   longest_statement),
        check_range("effects.connections", x.connections, 1, 1'000),
        x.role.empty() ? result<void>{}
                       : check_name("effects.role", x.role, {.name = 63})})
    if (!ok)
      return ok;
  return {};
}

void check_counts(const limits& x, std::vector<result<void>>& to) {
  to.push_back(check_range("limits.inbox", x.inbox, 1, 1'000'000));
  to.push_back(check_range("limits.effects", x.effects, 1, 10'000));
  to.push_back(check_range<std::size_t>("limits.effect_bytes", x.effect_bytes,
                                        1, 512 << 20));
}

} // namespace

result<void> config::validate() const {
  auto refuse = [](std::string text) {
    return error{errc::invalid_argument, std::move(text), {}};
  };
  std::vector<result<void>> checks;
  checks.push_back(pq::check_conninfo(database));
  checks.push_back(check_name("schema", schema, {.name = 63}));
  if (!node.empty())
    checks.push_back(check_name("node", node, limits));
  if (node.find('/') != std::string::npos)
    return refuse("node: expected a name without '/', got " + node);
  using time = std::tuple<std::string_view, milliseconds, int>;
  for (auto [field, value, least] :
       {time{"lease", lease, 100}, time{"heartbeat", heartbeat, 10},
        time{"poll", poll, 1}, time{"probe", probe, 0},
        time{"reaper", reaper, 10}, time{"stop_grace", stop_grace, 0},
        time{"patience", patience, 1}, time{"worker_ping", worker_ping, 10},
        time{"worker_silence", worker_silence, 20},
        time{"connect_timeout", connect_timeout, 100},
        time{"connect_within", connect_within, 0}})
    checks.push_back(check_time(field, value, milliseconds{least}));
  checks.push_back(check_statements(statement_timeout, effects));
  checks.push_back(check_range("jitter", jitter, 0.0, 1.0));
  checks.push_back(check_range("sweep_backoff", sweep_backoff, 1, 1'000));
  checks.push_back(check_range("max_crashes", max_crashes, 0, 1'000));
  checks.push_back(check_range("connections", connections, 3, 100));
  checks.push_back(check_range("rows_per_turn", rows_per_turn, 1, 10'000));
  checks.push_back(
    check_range<std::int64_t>("bytes_per_turn", bytes_per_turn, 1, 512 << 20));
  for (auto [field, bytes] : {std::pair{"bytes_held", bytes_held},
                              std::pair{"bytes_waiting", bytes_waiting}})
    checks.push_back(
      check_range<std::int64_t>(field, bytes, 1, std::int64_t{4} << 30));
  for (auto [field, bytes] : {std::pair{"limits.state", limits.state},
                              std::pair{"limits.payload", limits.payload},
                              std::pair{"limits.metadata", limits.metadata}})
    checks.push_back(
      check_range<std::size_t>(field, bytes, 1, store::longest_text));
  checks.push_back(check_range<std::size_t>("limits.name", limits.name, 1,
                                            store::longest_name));
  check_counts(limits, checks);
  if (heartbeat * 2 >= lease)
    return refuse(fmt::format("heartbeat: expected less than half of the lease "
                              "({} ms), got {} ms",
                              lease.count(), heartbeat.count()));
  if (worker_ping * 2 > worker_silence)
    return refuse(fmt::format("worker_silence: expected at least twice "
                              "worker_ping ({} ms), got {} ms",
                              worker_ping.count(), worker_silence.count()));
  std::set<std::string> names;
  for (const auto& queue : queues) {
    checks.push_back(check_name("queue", queue.name, limits));
    checks.push_back(
      check_range("queue " + queue.name + ": slots", queue.slots, 1, 10'000));
    checks.push_back(check_range("queue " + queue.name + ": prefetch",
                                 queue.prefetch, 0, 10'000));
    if (!names.insert(queue.name).second)
      return refuse("queues: " + queue.name + " is named twice");
  }
  std::set<std::pair<std::string, std::int32_t>> known;
  for (const auto& machine : machines) {
    checks.push_back(machine.validate());
    if (!known.emplace(machine.name, machine.version).second)
      return refuse("machines: " + machine.title() + " is registered twice");
  }
  for (const auto& check : checks)
    if (!check)
      return check;
  return {};
}

pq::options config::connection_options(const std::string& incarnation) const {
  auto random = incarnation.substr(incarnation.rfind('/') + 1);
  auto prefix = std::string{random.empty() ? "" : "/"} + random;
  return {.database = database,
          .schema = schema,
          .application_name = fmt::format("gen_durable{} {}", prefix, node),
          .statement_timeout = statement_timeout,
          .lock_timeout = std::chrono::seconds{1},
          .connect_timeout = connect_timeout};
}

std::string default_node_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0)
    host = {"unknown"};
  return fmt::format("{}:{}", host.data(), getpid());
}

std::string make_incarnation(const std::string& node) {
  std::random_device random;
  return fmt::format("{}/{:08x}{:08x}{:08x}{:08x}", node, random(), random(),
                     random(), random());
}

} // namespace gd
