// A link's two ends, by a simulated clock: what is told of an execution comes to its
// owner once, whatever gets lost, and nothing is lost but with a crash.

#define CAF_SUITE link

#include <gd/network/workers/link_codec.hpp>
#include <gd/network/workers/link_host.hpp>
#include <gd/network/workers/link_worker.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace link_suite {

using namespace std::literals;

using gd::link_host;
using gd::link_worker;
namespace link_ns = gd::link;

namespace {

using key = link_ns::held_id;
using time_point = link_host::clock::time_point;

int schedules() {
  const auto* more = std::getenv("GD_LINK_SCHEDULES");
  return more != nullptr ? std::atoi(more) : 600;
}

link_ns::offered_machine machine() {
  return {"m", 1, {"a", "a -> b", "b"}};
}

link_worker::settings worker_settings(std::string incarnation) {
  return {.incarnation = std::move(incarnation),
          .node = "w",
          .machines = {machine()},
          .queues = {{"q", 3, 2}},
          .bytes = 64 << 10,
          .patience = 500ms,
          .pause = 50ms};
}

link_host::settings host_settings() {
  return {.node = "e",
          .machines = {machine()},
          .queues = {"q"},
          .ping = 100ms,
          .silence = 400ms,
          .slack = 100ms};
}

/// An engine, a worker and what lies between them, all of it simulated. The database
/// is a map: who holds which token, and which outcome was applied.
struct world {
  struct instance {
    std::string token{};
    std::string owner_of_lease{};
    time_point lease{};
    bool done = false;
    int applied = 0;
    int crashes = 0;
    int begun = 0; ///< executions
  };
  /// What the engine's picker knows.
  struct entry_of {
    key which;
    bool extended = true;
    bool away = true;
    bool ended = false;
  };
  /// What the worker's steps do.
  struct step_of {
    bool begun = false;
    bool function = true; ///< has not returned
    bool outcome = false;
    /// Not asked for: it was refused, or goes on.
    bool extra = false;
  };
  enum class to : bool { host, worker };
  struct flying {
    to whom;
    std::uint64_t connection;
    link_ns::packet what;
  };

  std::mt19937 random;
  time_point now{1h};
  std::chrono::milliseconds lease{2'000};
  std::map<std::int64_t, instance> rows;
  std::uint64_t picks = 0;
  std::uint64_t tags = 0;
  std::uint64_t epochs = 0;
  std::map<std::uint64_t, entry_of> entries;
  std::vector<std::string> wrong;

  std::optional<link_host> host;
  std::string engine = "e1";
  int engines = 1;
  std::optional<link_worker> worker;
  int workers = 1;
  std::map<key, step_of> steps;
  std::uint64_t connection = 0; ///< 0: none
  std::uint64_t connections = 0;
  std::uint64_t host_connection = 0;
  std::deque<flying> network;
  int lossy = 0; ///< percent
  bool left = false;
  bool dying = true;
  int outstanding_most = 0;

  explicit world(unsigned seed) : random(seed) {
    worker.emplace(worker_settings("w/1"));
    for (std::int64_t id = 1; id <= 12; ++id)
      rows[id] = {};
  }

  bool chance(int percent) {
    return static_cast<int>(random() % 100) < percent;
  }

  void complain(const std::string& what) {
    wrong.push_back(what);
  }

  // -- the network --------------------------------------------------------------

  void send(to whom, std::vector<link_ns::packet> packets) {
    for (auto& x : packets) {
      if (connection == 0 || chance(lossy))
        continue;
      network.push_back({whom, connection, x});
      if (chance(lossy))
        network.push_back({whom, connection, std::move(x)});
      if (lossy > 0 && network.size() > 1 && chance(lossy))
        std::swap(network.back(), network[network.size() - 2]);
    }
  }

  void connect() {
    if (connection != 0)
      return;
    connection = ++connections;
    worker->connected(now);
  }

  void disconnect() {
    if (connection == 0)
      return;
    connection = 0;
    // Each end learns of it by itself.
    worker->cut();
    if (host && chance(50))
      host->cut(true);
  }

  void deliver() {
    if (network.empty())
      return;
    auto x = std::move(network.front());
    network.pop_front();
    if (x.whom == to::worker) {
      if (x.connection == connection)
        worker->receive(x.what, now);
      return;
    }
    if (x.what.type == static_cast<std::int32_t>(link_ns::kind::join)) {
      auto join = link_ns::unpack<link_ns::join>(x.what);
      if (!join || x.connection < host_connection)
        return;
      if (auto why = link_host::refusal(*join, host_settings())) {
        complain("refused: " + *why);
        return;
      }
      if (host && host->incarnation() != join->incarnation) {
        host->cut(true); // a new incarnation
        give_up_host();
      }
      if (!host)
        host.emplace(join->incarnation, host_settings());
      else
        host->cut(false);
      collect();
      host_connection = x.connection;
      host->join(*join, ++epochs, now);
    } else if (host) {
      host->receive(x.what, now);
    }
  }

  /// The worker's successor has come: its rows wait for their leases.
  void give_up_host() {
    collect();
    for (auto& [tag, x] : entries)
      x.extended = false;
    host.reset();
    entries.clear();
  }

  // -- the engine -----------------------------------------------------------------

  instance* fenced(const key& which) {
    auto& x = rows[which.id];
    return x.token == which.token && !x.done ? &x : nullptr;
  }

  /// One of them, or nothing.
  void pick() {
    if (!host)
      return;
    for (auto& [id, x] : rows)
      if (x.token.empty() && !x.done && host->takes("q", "m", 1, 100)) {
        x.token = engine + "/" + std::to_string(++picks);
        x.lease = now + lease;
        key which{id, x.token};
        auto tag = ++tags;
        entries[tag] = {which};
        host->hand_out(
          "q", tag, which,
          {.fsm = "m", .fsm_version = 1, .step = "a", .state = "{}"}, x.lease,
          now);
        return;
      }
  }

  void beat() {
    for (auto& [tag, x] : entries)
      if (x.extended && !x.ended)
        if (auto* found = fenced(x.which))
          found->lease = now + lease;
    if (host)
      host->extended(now, now + lease);
  }

  void reap() {
    for (auto& [id, x] : rows)
      if (!x.token.empty() && !x.done && x.lease < now) {
        x.token.clear();
        ++x.crashes;
      }
  }

  void collect() {
    if (!host)
      return;
    for (auto& x : host->take_reports()) {
      using what = link_host::report::what;
      auto found = entries.find(x.tag);
      if (x.tag != 0 && found == entries.end()) {
        if (x.kind != what::over)
          complain("told of what is not known");
        continue;
      }
      switch (x.kind) {
        case what::outcome: {
          link_ns::completed answer;
          answer.id = x.which.id;
          answer.token = x.which.token;
          answer.tries = x.outcome.tries;
          auto* row = fenced(x.which);
          if (row != nullptr && chance(20)) {
            answer.what = link_ns::verdict::refused;
          } else if (row != nullptr && x.tag != 0 && chance(30)) {
            // It runs ahead.
            answer.next_token = engine + "/" + std::to_string(++picks);
            row->token = answer.next_token;
            row->lease = now + lease;
            auto tag = ++tags;
            key next{x.which.id, answer.next_token};
            found->second.ended = true;
            if (host->complete(answer, tag, row->lease, now))
              entries[tag] = {next};
            else
              row->token.clear(); // goes on here
            break;
          } else if (row != nullptr) {
            row->done = true;
            ++row->applied;
          } else {
            answer.what = link_ns::verdict::stale;
          }
          if (x.tag != 0 && answer.what != link_ns::verdict::refused)
            found->second.ended = true;
          host->complete(answer, x.tag, now + lease, now);
          break;
        }
        case what::crashed:
          if (found->second.ended)
            complain("a crash of what has an outcome");
          found->second.ended = true;
          break;
        case what::released:
          found->second.ended = true;
          found->second.away = false;
          if (auto* row = fenced(x.which))
            row->token.clear();
          break;
        case what::over:
          if (found != entries.end())
            found->second.away = false;
          break;
        case what::suspended:
          found->second.extended = false;
          break;
        case what::resumed:
          found->second.extended = true;
          break;
      }
      if (found != entries.end() && found->second.ended && !found->second.away)
        entries.erase(found);
    }
    send(to::worker, host->take_packets());
  }

  /// Another process takes the engine's place; it knows nothing.
  void replace_engine() {
    connection = 0;
    worker->cut();
    host.reset();
    entries.clear();
    engine = "e" + std::to_string(++engines);
  }

  // -- the worker -------------------------------------------------------------------

  void work() {
    for (auto& x : worker->take_orders()) {
      using action = link_worker::order::action;
      switch (x.what) {
        case action::begin:
          if (steps.contains(x.which))
            complain("an execution is begun twice");
          steps[x.which] = {};
          if (left)
            complain("work begins after leaving");
          break;
        case action::release:
          if (auto found = steps.find(x.which);
              found != steps.end() && !found->second.begun) {
            worker->release(x.which);
            steps.erase(found);
          }
          break;
        case action::stop:
          break; // a step may, or may not
        case action::complete: {
          auto found = steps.find(x.which);
          if (found == steps.end())
            break;
          if (x.answer.what == link_ns::verdict::refused) {
            found->second.outcome = false;
            found->second.extra = true;
          } else {
            if (!x.answer.next_token.empty())
              steps[{x.which.id, x.answer.next_token}].extra = true;
            if (!found->second.function)
              steps.erase(found);
          }
          break;
        }
      }
    }
    send(to::host, worker->take_packets());
  }

  void act() {
    if (steps.empty())
      return;
    auto i = steps.begin();
    std::advance(i, random() % steps.size());
    auto& [which, x] = *i;
    if (!x.begun) {
      x.begun = true;
      ++rows[which.id].begun;
    } else if (!x.outcome && dying && chance(10)) {
      worker->crash(which, "died", 1ms);
      steps.erase(i);
    } else if (!x.outcome) {
      x.outcome = true;
      bool over = chance(70);
      x.function = x.function && !over;
      worker->report(
        which, {.what = gd::store::write_kind::done, .result = "{}"}, {}, over);
      if (over)
        worker->function_over(which);
    } else if (x.function && chance(50)) {
      x.function = false;
      worker->function_over(which);
      if (!worker->holds(which))
        steps.erase(i);
    }
  }

  void replace_worker() {
    connection = 0;
    steps.clear();
    if (host && chance(70))
      host->cut(true);
    worker.emplace(worker_settings("w/" + std::to_string(++workers)));
  }

  // -- driving -------------------------------------------------------------------

  void check() {
    for (const auto& [id, x] : rows)
      if (x.applied > 1)
        complain("an outcome was applied twice");
    if (worker->bytes() < 0)
      complain("bytes below zero");
    auto running = std::count_if(steps.begin(), steps.end(), [](const auto& x) {
      return !x.second.outcome && !x.second.extra;
    });
    outstanding_most = std::max(outstanding_most, static_cast<int>(running));
  }

  void step_once() {
    now += std::chrono::milliseconds{random() % 20};
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        for (int i = 0; i < 4; ++i)
          deliver();
        break;
      case 3:
        act();
        break;
      case 4:
        pick();
        break;
      case 5:
        beat();
        break;
      case 6:
        reap();
        break;
      default:
        if (worker->now() == link_worker::phase::alone) {
          disconnect();
          connect();
        }
    }
    worker->tick(now);
    if (host)
      host->tick(now);
    collect();
    work();
    check();
  }

  /// Without faults from now on, until all is done.
  bool settle(int steps_at_most = 30'000) {
    lossy = 0;
    for (int i = 0; i < steps_at_most; ++i) {
      step_once();
      if (std::all_of(rows.begin(), rows.end(),
                      [](const auto& x) { return x.second.done; })
          && worker->holds() == 0)
        return true;
    }
    return false;
  }
};

/// Says of an execution, in a joining, what `x` says.
template <class T>
T of(std::uint64_t nr, T x) {
  x.epoch = 7;
  x.nr = nr;
  if constexpr (std::derived_from<T, link_ns::about>) {
    x.id = -5;
    x.token = std::string("a\0b", 3);
  }
  return x;
}

link_ns::credit some_credit() {
  link_ns::credit x;
  x.number = 4;
  x.seq = 9;
  x.bytes = -1;
  x.rooms = {{"q", 5}, {"r", 0}};
  return x;
}

link_ns::heard some_heard() {
  link_ns::heard x;
  x.echo = 4;
  x.left_us = 300'000;
  return x;
}

link_ns::work some_work() {
  link_ns::work x;
  x.number = 10;
  x.echo = 4;
  x.left_us = 1;
  x.queue = "q";
  x.row = {.id = -5,
           .fsm = "m",
           .fsm_version = 2,
           .step = "a",
           .state = "{}",
           .attempt = 3,
           .crashes = 1,
           .trials = 1,
           .wake_reason = "signal",
           .inbox = {{1, "s", "1", "00-a-b-01"}, {2, "", "", ""}},
           .partition_key = "k",
           .unique_scope = {"runnable", "done"},
           .history = 1,
           .seq = 6,
           .traceparent = "00-c-d-01",
           .due_us = 1'700'000'000'000'000,
           .now_us = 1'700'000'000'000'001};
  return x;
}

link_ns::outcome some_outcome() {
  link_ns::outcome x;
  x.resent = true;
  x.tries = 1;
  x.over = true;
  x.queue = "q";
  x.row = {.what = gd::store::write_kind::stop,
           .step = "b",
           .state = "{}",
           .result = "1",
           .delay_us = 5,
           .awaits = "s",
           .awaits_also = {"t"},
           .timeout_us = 0,
           .until_us = 1,
           .reason = "why",
           .failure = "",
           .consumed = {1, 2, 0},
           .seen = {3},
           .may_collide = true,
           .has_history = true,
           .metadata = "[]"};
  x.row.carried = std::make_shared<gd::effects>();
  x.row.carried->inserts.push_back({.fsm = "c",
                                    .state = gd::json::raw("{}"),
                                    .version = 2,
                                    .step = "w",
                                    .queue = "q",
                                    .priority = 3,
                                    .eligible_at_us = 4,
                                    .delay_us = 5,
                                    .partition_key = "p",
                                    .unique_key = "u",
                                    .unique_scope = {"done"},
                                    .traceparent = "t"});
  x.row.carried->signals.push_back({{.target = 1,
                                     .name = "s",
                                     .payload = gd::json::raw("1"),
                                     .dedup_key = "d",
                                     .key = "k",
                                     .traceparent = "t"},
                                    true});
  x.row.carried->statements.push_back({"select 1", {{true, "x"}}, 1});
  x.row.carried->newest = {1};
  x.told = {"m", 2, "a", 3, 6, 250, true, "x", "y"};
  return x;
}

link_ns::crashed some_crash() {
  link_ns::crashed x;
  x.why = "it threw";
  x.took_us = 9;
  return x;
}

link_ns::closing some_closing() {
  link_ns::closing x;
  x.why = "it stops";
  return x;
}

link_ns::completed some_completed() {
  link_ns::completed x;
  x.what = link_ns::verdict::collided;
  x.tries = 1;
  x.code = 4;
  x.why = "taken";
  x.why_told = "taken by one";
  x.sqlstate = "23505";
  x.holder = 12;
  x.next_token = "n";
  x.inbox = {{1, "s", "1", ""}};
  x.echo = 4;
  x.left_us = 8;
  x.effect = {2, gd::effect_kind::sql};
  return x;
}

/// Calls `f` with each message, with something in each field.
template <class F>
void for_each_message(F f) {
  f(link_ns::join{.protocols = {1, 2},
                  .incarnation = "w/1",
                  .node = "w",
                  .machines = {machine()},
                  .queues = {"q", "r"},
                  .holds = {{1, "t"}, {2, "u"}}});
  f(link_ns::joined{.epoch = 7,
                    .node = "e",
                    .ping_us = 100,
                    .silence_us = 400,
                    .resumed = {{1, "t"}},
                    .machines = {machine()},
                    .limits = {.name = 1,
                               .dedup_key = 2,
                               .partition_key = 3,
                               .unique_key = 4,
                               .state = 5,
                               .result = 6,
                               .payload = 7,
                               .metadata = 8,
                               .reason = 9,
                               .inbox = 10,
                               .effects = 11,
                               .effect_bytes = 12}});
  f(link_ns::denied{.why = "no", .protocols = {1}});
  f(of(1, some_credit()));
  f(of(2, some_heard()));
  f(of(3, some_work()));
  f(of(4, some_outcome()));
  f(of(5, some_crash()));
  f(of(6, link_ns::released{}));
  f(of(7, link_ns::over{}));
  f(of(8, link_ns::lost{}));
  f(of(9, link_ns::leaving{}));
  f(of(10, some_closing()));
  f(of(11, some_completed()));
}

std::vector<link_ns::packet> samples() {
  std::vector<link_ns::packet> xs;
  for_each_message([&](const auto& x) { xs.push_back(link_ns::pack(x)); });
  return xs;
}

/// The packet of what it says, if it can be read.
std::optional<link_ns::packet> repacked(const link_ns::packet& x) {
  std::optional<link_ns::packet> out;
  for_each_message([&]<class T>(const T&) {
    if (x.type == static_cast<std::int32_t>(T::type))
      if (auto message = link_ns::unpack<T>(x))
        out = link_ns::pack(*message);
  });
  return out;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (unsigned char c : bytes) {
    out += digits[c >> 4];
    out += digits[c & 15];
  }
  return out;
}

/// What the messages were when this was written, in the order of the kinds.
constexpr std::array stored{
  "01080100000000000000010802000000000000000203772f31030177041b01016d020801"
  "00000000000000030161030661202d3e2062030162050171050172060d01080100000000"
  "000000020174060d01080200000000000000020175"sv,
  "010807000000000000000201650308640000000000000004089001000000000000050d01"
  "080100000000000000020174061b01016d02080100000000000000030161030661202d3e"
  "206203016207780108010000000000000002080200000000000000030803000000000000"
  "000408040000000000000005080500000000000000060806000000000000000708070000"
  "000000000008080800000000000000090809000000000000000a080a000000000000000b"
  "080b000000000000000c080c00000000000000"sv,
  "01026e6f02080100000000000000"sv,
  "010807000000000000000208010000000000000003080400000000000000040809000000"
  "000000000508ffffffffffffffff060d010171020805000000000000000603010172"sv,
  "0108070000000000000002080200000000000000030804000000000000000408e0930400"
  "00000000"sv,
  "01080700000000000000020803000000000000000308fbffffffffffffff040361006205"
  "080a00000000000000060804000000000000000708010000000000000008017109b30101"
  "08fbffffffffffffff02016d0308020000000000000004016105027b7d06080300000000"
  "000000070801000000000000000808010000000000000009067369676e616c0a1b010801"
  "00000000000000020173030131040930302d612d622d30310a0a01080200000000000000"
  "0b016b0c0872756e6e61626c650c04646f6e650d0801000000000000000e080600000000"
  "0000000f0930302d632d642d3031100800401e18240a0600110801401e18240a0600"sv,
  "01080700000000000000020804000000000000000308fbffffffffffffff040361006205"
  "0801000000000000000608010000000000000007080100000000000000080171099e0201"
  "08040000000000000002016203027b7d0401310508050000000000000006017307017408"
  "080000000000000000090801000000000000000a037768790b000c080100000000000000"
  "0c0802000000000000000c0800000000000000000d0803000000000000000e0801000000"
  "000000000f08010000000000000010025b5d119c01014401016302027b7d030802000000"
  "000000000401770501710608030000000000000007080400000000000000080805000000"
  "000000000901700a01750b04646f6e650c01740225011901080100000000000000020173"
  "03013104016405016b060174020801000000000000000323010873656c6563742031020d"
  "0108010000000000000002017803080100000000000000040801000000000000000a3e01"
  "016d02080200000000000000030161040803000000000000000508060000000000000006"
  "08fa0000000000000007080100000000000000080178090179"sv,
  "01080700000000000000020805000000000000000308fbffffffffffffff040361006205"
  "08697420746872657706080900000000000000"sv,
  "01080700000000000000020806000000000000000308fbffffffffffffff0403610062"sv,
  "01080700000000000000020807000000000000000308fbffffffffffffff0403610062"sv,
  "01080700000000000000020808000000000000000308fbffffffffffffff0403610062"sv,
  "0108070000000000000002080900000000000000"sv,
  "0108070000000000000002080a00000000000000030869742073746f7073"sv,
  "0108070000000000000002080b000000000000000308fbffffffffffffff040361006205"
  "0804000000000000000608010000000000000007080400000000000000080574616b656e"
  "090c74616b656e206279206f6e650a0532333530350b080c000000000000000c016e0d10"
  "010801000000000000000201730301310e0804000000000000000f080800000000000000"
  "10140108020000000000000002080200000000000000"sv};

/// The sample has something in each field, those of its structs, too.
template <class T>
bool is_full(const T& x) {
  if constexpr (requires { x.gd_fields(); })
    return std::apply(
      [](const auto&... fields) { return (is_full(fields) && ...); },
      x.gd_fields());
  else if constexpr (requires { x.has_value(); })
    return x.has_value();
  else if constexpr (requires { x.empty(); })
    return !x.empty();
  else
    return x != T{};
}

} // namespace

CAF_TEST(what is packed is unpacked as it was) {
  for (const auto& x : samples()) {
    auto again = repacked(x);
    CAF_REQUIRE(again);
    CAF_CHECK_EQUAL(hex(again->bytes), hex(x.bytes));
  }
  auto work = link_ns::unpack<link_ns::work>(samples()[5]);
  CAF_REQUIRE(work);
  CAF_CHECK_EQUAL(work->id, -5);
  CAF_CHECK_EQUAL(work->token, std::string("a\0b", 3));
  CAF_REQUIRE_EQUAL(work->row.inbox.size(), 2u);
  CAF_CHECK_EQUAL(work->row.inbox[1].id, 2);
  auto outcome = link_ns::unpack<link_ns::outcome>(samples()[6]);
  CAF_REQUIRE(outcome);
  CAF_CHECK_EQUAL(outcome->row.timeout_us, std::optional<std::int64_t>{0});
  CAF_CHECK_EQUAL(outcome->row.failure, std::optional<std::string>{""});
  CAF_CHECK_EQUAL(outcome->row.consumed, (std::vector<std::int64_t>{1, 2, 0}));
  // What is left out was zero, whatever the struct begins with.
  link_ns::outcome empty;
  empty.row.what = gd::store::write_kind{};
  auto arrived = link_ns::unpack<link_ns::outcome>(link_ns::pack(empty));
  CAF_REQUIRE(arrived);
  CAF_CHECK(arrived->row.what == gd::store::write_kind{});
  CAF_CHECK(
    !link_ns::unpack<link_ns::outcome>(link_ns::pack(empty))->row.until_us);
}

CAF_TEST(fields are appended and what was sent before means what it meant) {
  auto now = samples();
  CAF_REQUIRE_EQUAL(now.size(), stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    CAF_CHECK_EQUAL(now[i].type, static_cast<int>(i) + 1);
    CAF_CHECK_EQUAL(hex(now[i].bytes), stored[i]);
  }
  for_each_message([](const auto& x) {
    if (!is_full(x))
      CAF_ERROR("message " << static_cast<int>(x.type) << " lacks a field");
  });
}

CAF_TEST(what a worker may not decide is refused) {
  using gd::store::write_kind;
  for (auto what : {write_kind::release, write_kind::advance,
                    static_cast<write_kind>(10)}) {
    link_ns::outcome x;
    x.row.what = what;
    auto arrived = link_ns::unpack<link_ns::outcome>(link_ns::pack(x));
    CAF_REQUIRE(arrived);
    CAF_CHECK(!link_ns::outcome_of({1, "t"}, arrived->row));
  }
  auto taken = link_ns::outcome_of(
    {1, "t"}, {.id = 2, .token = "another's", .what = write_kind::done});
  CAF_REQUIRE(taken);
  CAF_CHECK_EQUAL(taken->id, 1);
  CAF_CHECK_EQUAL(taken->token, "t");
}

CAF_TEST(fields that a reader does not know are skipped) {
  link_ns::heard x;
  x.epoch = 3;
  x.left_us = 9;
  auto newer = link_ns::pack(x);
  newer.bytes += "\xc8\x03"
                 "abc"; // tag 200
  auto read = link_ns::unpack<link_ns::heard>(newer);
  CAF_REQUIRE(read);
  CAF_CHECK_EQUAL(read->epoch, 3u);
  CAF_CHECK_EQUAL(read->left_us, 9);
}

CAF_TEST(garbage is refused
         or read and takes no more memory than it has bytes) {
  std::mt19937 random{25};
  auto originals = samples();
  for (int i = 0; i < 200 * schedules(); ++i) {
    auto x = originals[random() % originals.size()];
    for (auto n = random() % 4 + 1; n > 0 && !x.bytes.empty(); --n)
      switch (random() % 4) {
        case 0:
          x.bytes[random() % x.bytes.size()] = static_cast<char>(random());
          break;
        case 1:
          x.bytes.resize(random() % x.bytes.size());
          break;
        case 2:
          x.bytes.insert(random() % x.bytes.size(), 1,
                         static_cast<char>(random()));
          break;
        default:
          x.bytes += x.bytes.substr(random() % x.bytes.size());
      }
    repacked(x); // no crash
  }
  // A length that claims more than there is.
  link_ns::packet huge{.type = static_cast<std::int32_t>(link_ns::kind::work),
                       .bytes = "\x04\xff\xff\xff\xff\x0f"};
  auto refused = link_ns::unpack<link_ns::work>(huge);
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().code, gd::errc::codec);
  // Elements that cost nothing.
  link_ns::packet many{.type = static_cast<std::int32_t>(link_ns::kind::join)};
  for (std::size_t i = 0; i <= link_ns::most_elements; ++i)
    many.bytes += std::string("\x06\0", 2);
  auto bounded = link_ns::unpack<link_ns::join>(many);
  CAF_REQUIRE(!bounded);
  CAF_CHECK(bounded.error().message.find("100000") != std::string::npos);
}

CAF_TEST(
  no outcome is applied twice and none is lost whatever gets lost between) {
  for (int seed = 1; seed <= schedules(); ++seed) {
    world w{static_cast<unsigned>(seed)};
    w.lossy = static_cast<int>(w.random() % 3) * 3;
    auto steps = 200 + w.random() % 600;
    for (std::size_t i = 0; i < steps; ++i) {
      if (w.chance(1))
        w.disconnect();
      if (w.random() % 400 == 0)
        w.replace_engine();
      if (w.random() % 400 == 0)
        w.replace_worker();
      w.step_once();
    }
    if (!w.settle())
      w.complain("rows are left, or the worker holds some: "
                 + std::to_string(w.worker->holds()));
    if (w.outstanding_most > 5)
      w.complain("more runs than was asked for: "
                 + std::to_string(w.outstanding_most));
    if (!w.wrong.empty()) {
      CAF_ERROR("seed " << seed << ": " << w.wrong.front());
      return;
    }
  }
  CAF_CHECK(true);
}

CAF_TEST(what is held without faults never crashes) {
  for (int seed = 1; seed <= schedules() / 3; ++seed) {
    world w{static_cast<unsigned>(seed)};
    w.dying = false;
    for (int i = 0; i < 1'000; ++i)
      w.step_once();
    for (const auto& [id, x] : w.rows)
      if (x.crashes > 0)
        w.complain("a row was reaped");
    if (!w.wrong.empty()) {
      CAF_ERROR("seed " << seed << ": " << w.wrong.front());
      return;
    }
  }
  CAF_CHECK(true);
}

CAF_TEST(whatever either end is sent it goes on) {
  for (int seed = 1; seed <= schedules() / 3; ++seed) {
    world w{static_cast<unsigned>(seed)};
    for (int i = 0; i < 400; ++i) {
      w.step_once();
      if (!w.network.empty() && w.chance(20)) {
        auto& x = w.network[w.random() % w.network.size()].what;
        if (w.chance(30))
          x.type = static_cast<std::int32_t>(w.random() % 20);
        else if (!x.bytes.empty())
          x.bytes[w.random() % x.bytes.size()] = static_cast<char>(w.random());
      }
    }
    CAF_CHECK(w.worker->bytes() >= 0);
  }
}

CAF_TEST(who leaves gives back what has not begun and gets no more) {
  for (int seed = 1; seed <= schedules() / 3; ++seed) {
    world w{static_cast<unsigned>(seed)};
    for (int i = 0; i < 100; ++i)
      w.step_once();
    w.left = true;
    w.worker->leave();
    for (int i = 0; i < 20'000 && !w.worker->has_left(); ++i)
      w.step_once();
    if (!w.worker->has_left())
      w.complain("it never leaves");
    if (!w.wrong.empty()) {
      CAF_ERROR("seed " << seed << ": " << w.wrong.front());
      return;
    }
  }
  CAF_CHECK(true);
}

namespace {

/// Both ends, and no network.
struct pair {
  time_point now{1h};
  link_host host{"w/1", host_settings()};
  link_worker worker{worker_settings("w/1")};

  void join() {
    worker.connected(now);
    auto packets = worker.take_packets();
    CAF_REQUIRE_EQUAL(packets.size(), 1u);
    auto x = link_ns::unpack<link_ns::join>(packets.front());
    CAF_REQUIRE(x);
    static std::uint64_t epochs = 0;
    host.join(*x, ++epochs, now);
    exchange();
  }

  void exchange() {
    for (int i = 0; i < 4; ++i) {
      for (const auto& x : host.take_packets())
        worker.receive(x, now);
      for (const auto& x : worker.take_packets())
        host.receive(x, now);
    }
  }

  void hand_out(std::int64_t id, std::string token = "t",
                std::chrono::milliseconds lease = 2s) {
    host.hand_out("q", static_cast<std::uint64_t>(id), {id, std::move(token)},
                  {.fsm = "m", .fsm_version = 1, .step = "a", .state = "{}"},
                  now + lease, now);
  }

  std::vector<link_host::report::what> told() {
    std::vector<link_host::report::what> xs;
    for (const auto& x : host.take_reports())
      xs.push_back(x.kind);
    return xs;
  }
};

using what = link_host::report::what;

} // namespace

CAF_TEST_FIXTURE_SCOPE(link_ends, pair)

CAF_TEST(credit counts what was sent since and never goes below) {
  join();
  CAF_CHECK_EQUAL(host.room("q"), 5);
  CAF_CHECK_EQUAL(host.room("other"), 0);
  for (int id = 1; id <= 5; ++id)
    hand_out(id);
  CAF_CHECK_EQUAL(host.room("q"), 0);
  CAF_CHECK(!host.takes("q", "m", 1, 1));
  exchange();
  now += 100ms;
  worker.tick(now);
  exchange();
  CAF_CHECK_EQUAL(host.room("q"), 0); // they have no outcome yet
  worker.report({1, "t"}, {.what = gd::store::write_kind::done}, {}, true);
  worker.report({2, "t"}, {.what = gd::store::write_kind::done}, {}, true);
  worker.tick(now);
  exchange();
  CAF_CHECK_EQUAL(host.room("q"), 2);
}

CAF_TEST(a partition key stays with the engine) {
  join();
  host.hand_out("q", 1, {1, "t"}, some_work().row, now + 2s, now);
  auto packets = host.take_packets();
  CAF_REQUIRE_EQUAL(packets.size(), 1u);
  auto sent = link_ns::unpack<link_ns::work>(packets.front());
  CAF_REQUIRE(sent);
  CAF_CHECK(!sent->row.partition_key);
  CAF_CHECK_EQUAL(sent->row.step, some_work().row.step);
}

CAF_TEST(an engine that says what cannot be ends the joining or nothing) {
  join();
  hand_out(1, "");
  exchange();
  worker.report({1, ""}, {.what = gd::store::write_kind::done}, {}, true);
  link_ns::completed done;
  done.id = 1;
  host.complete(done, 0, now, now);
  exchange();
  CAF_CHECK_EQUAL(worker.holds(), 0u); // under a token that is empty
  // It is to go on with what it holds already.
  hand_out(2, "t");
  hand_out(2, "u");
  exchange();
  worker.report({2, "t"}, {.what = gd::store::write_kind::next}, {}, true);
  link_ns::completed twice;
  twice.id = 2;
  twice.token = "t";
  twice.next_token = "u";
  host.complete(twice, 3, now + 2s, now);
  exchange();
  CAF_CHECK(worker.now() == link_worker::phase::alone);
  CAF_CHECK_EQUAL(worker.holds(), 2u);
  worker.connected(now);
  worker.receive(link_ns::pack(link_ns::joined{.epoch = 0}), now);
  CAF_CHECK(worker.now() == link_worker::phase::alone);
}

CAF_TEST(whatever a worker has room for it is no less than nothing) {
  join();
  hand_out(1);
  auto last = link_ns::unpack<link_ns::work>(host.take_packets().front());
  CAF_REQUIRE(last);
  link_ns::credit x;
  x.epoch = last->epoch;
  x.nr = 2; // behind the one by which it joined
  x.bytes = std::numeric_limits<std::int64_t>::min();
  x.rooms = {{"q", 5}};
  host.receive(link_ns::pack(x), now);
  CAF_CHECK(host.joined());
  CAF_CHECK_EQUAL(host.room("q"), 0);
}

CAF_TEST(bytes bound what is sent but for one row) {
  join();
  CAF_CHECK(host.takes("q", "m", 1, 1 << 20)); // alone, whatever it has
  hand_out(1);
  CAF_CHECK(!host.takes("q", "m", 1, 64 << 10));
  CAF_CHECK(host.takes("q", "m", 1, 1 << 10));
  CAF_CHECK(!host.takes("q", "m", 2, 1)); // another version
}

CAF_TEST(a step is told to stop before its lease can be another nodes) {
  join();
  hand_out(1);
  exchange();
  CAF_REQUIRE_EQUAL(worker.take_orders().size(), 1u); // to begin it
  // The engine extends it, and is heard.
  now += 300ms;
  host.extended(now, now + 2s);
  worker.tick(now);
  exchange();
  auto until = now + 2s;
  // And then it is frozen.
  while (now < until - 100ms) {
    worker.tick(now);
    worker.take_packets();
    now += 10ms;
    if (auto orders = worker.take_orders(); !orders.empty()) {
      CAF_CHECK(orders.front().what == link_worker::order::action::stop);
      CAF_CHECK(now >= until - 120ms);
      return;
    }
  }
  worker.tick(now);
  auto orders = worker.take_orders();
  CAF_REQUIRE_EQUAL(orders.size(), 1u);
  CAF_CHECK(orders.front().what == link_worker::order::action::stop);
}

CAF_TEST(
  a silent worker has its leases run out and what it names stands again) {
  join();
  hand_out(1);
  hand_out(2);
  exchange();
  worker.crash({2, "t"}, "died", 1ms); // of which the engine does not hear
  now += 400ms;
  host.tick(now);
  CAF_CHECK(!host.joined());
  CAF_CHECK_EQUAL(told(), (std::vector{what::suspended, what::suspended}));
  worker.cut();
  join();
  CAF_CHECK_EQUAL(told(),
                  (std::vector{what::resumed, what::crashed, what::over}));
  CAF_CHECK_EQUAL(host.holds(), 1u);
}

CAF_TEST(a worker that never comes back has crashed when its leases are over) {
  join();
  hand_out(1);
  exchange();
  host.cut(true);
  auto reports = host.take_reports();
  CAF_REQUIRE_EQUAL(reports.size(), 1u);
  CAF_CHECK(reports.front().process_gone);
  now += 2s;
  host.tick(now);
  CAF_CHECK(told().empty());
  now += 200ms;
  host.tick(now);
  CAF_CHECK_EQUAL(told(), (std::vector{what::crashed, what::over}));
  CAF_CHECK_EQUAL(host.holds(), 0u);
}

CAF_TEST(an outcome is sent again to the next engine under its token) {
  join();
  hand_out(1);
  exchange();
  worker.cut();
  worker.report({1, "t"}, {.what = gd::store::write_kind::done}, {}, true);
  CAF_CHECK(worker.take_packets().empty());
  host = link_host{"w/1", host_settings()}; // knows nothing
  join();
  auto reports = host.take_reports();
  CAF_REQUIRE_EQUAL(reports.size(), 1u);
  CAF_CHECK(reports.front().kind == what::outcome);
  CAF_CHECK_EQUAL(reports.front().tag, 0u);
  CAF_CHECK(reports.front().outcome.resent);
  link_ns::completed stale;
  stale.id = 1;
  stale.token = "t";
  stale.what = link_ns::verdict::stale;
  host.complete(stale, 0, now, now);
  exchange();
  CAF_CHECK_EQUAL(worker.holds(), 0u);
}

CAF_TEST(a message that is missing ends the joining) {
  join();
  hand_out(1);
  CAF_REQUIRE_EQUAL(host.take_packets().size(), 1u); // lost
  hand_out(2);
  exchange();
  CAF_CHECK(worker.now() == link_worker::phase::alone);
  CAF_CHECK(worker.why().find("missing") != std::string::npos);
  join();
  CAF_CHECK_EQUAL(told(), (std::vector{what::crashed, what::over, what::crashed,
                                       what::over}));
}

CAF_TEST(a key goes when the function has returned and not before) {
  join();
  hand_out(1);
  exchange();
  worker.report({1, "t"}, {.what = gd::store::write_kind::done}, {},
                false); // of a handler actor
  exchange();
  CAF_CHECK_EQUAL(told(), std::vector{what::outcome});
  link_ns::completed done;
  done.id = 1;
  done.token = "t";
  host.complete(done, 0, now, now);
  exchange();
  CAF_CHECK_EQUAL(host.holds(), 1u);
  worker.function_over({1, "t"});
  exchange();
  CAF_CHECK_EQUAL(told(), std::vector{what::over});
  CAF_CHECK_EQUAL(host.holds(), 0u);
  CAF_CHECK_EQUAL(worker.holds(), 0u);
}

CAF_TEST(a worker with another definition of a machine is refused with the
           difference) {
  link_ns::join x{.protocols = {1},
                  .incarnation = "w/1",
                  .machines = {{"m", 1, {"a", "c"}}},
                  .queues = {"q"}};
  auto why = link_host::refusal(x, host_settings());
  CAF_REQUIRE(why);
  CAF_CHECK(why->find("m v1") != std::string::npos);
  CAF_CHECK(why->find("a|c") != std::string::npos);
  x.machines = {{"m", 2, {"a"}}};
  why = link_host::refusal(x, host_settings());
  CAF_REQUIRE(why); // no machine that both have
  x.machines.push_back(machine());
  CAF_CHECK(!link_host::refusal(x, host_settings()));
  x.queues = {"other"};
  CAF_CHECK(link_host::refusal(x, host_settings()));
  x.protocols = {2, 3};
  CAF_CHECK(link_host::refusal(x, host_settings())->find("protocol")
            != std::string::npos);
}

CAF_TEST(an engine that closes gets back what has not begun
         and all else is settled) {
  join();
  hand_out(1);
  hand_out(2);
  exchange();
  worker.take_orders();
  host.close("it stops");
  CAF_CHECK_EQUAL(host.room("q"), 0);
  exchange();
  auto orders = worker.take_orders();
  CAF_REQUIRE_EQUAL(orders.size(), 2u);
  CAF_CHECK(orders.front().what == link_worker::order::action::release);
  worker.release({1, "t"});
  worker.report({2, "t"}, {.what = gd::store::write_kind::done}, {}, true);
  worker.tick(now);
  CAF_CHECK(worker.now() == link_worker::phase::parting);
  exchange();
  CAF_CHECK_EQUAL(told(),
                  (std::vector{what::released, what::outcome, what::over}));
  link_ns::completed done;
  done.id = 2;
  done.token = "t";
  host.complete(done, 2, now, now);
  exchange();
  worker.tick(now);
  CAF_CHECK(worker.now() == link_worker::phase::alone);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace link_suite
