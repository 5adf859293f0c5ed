// What those get who ask for little while others ask for all that they can.

#define CAF_SUITE floods

#include "actors/network.hpp"
#include "actors/raw_node.hpp"
#include "support/connect.hpp"

#include <gd/actors/remote.hpp>

#include <caf/io/all.hpp>
#include <caf/test/unit_test.hpp>

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace floods_suite {

using namespace gd::test;

namespace {

using gd::actors::gateway;
using std::chrono::milliseconds;
using clock_type = std::chrono::steady_clock;
namespace events = gd::events;

/// Of several hundred, not all are let in in time under TSan.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t many = 20;
#else
constexpr std::uint32_t many = 300;
#endif

/// How long each flood lasts; longer where figures are wanted.
milliseconds flood_time() {
  const auto* seconds = std::getenv("GD_FLOOD_SECONDS");
  return seconds != nullptr ? std::chrono::seconds{std::atoi(seconds)}
                            : milliseconds{500};
}

/// Ask for the same, again and again, for as long as anything is taken from them.
class flood {
public:
  flood(const std::string& endpoint, std::uint32_t clients,
        std::string_view type, const std::string& value, bool reads) {
    for (std::uint32_t i = 0; i < clients; ++i) {
      auto& x = nodes_.emplace_back(endpoint, basp::node(++numbers));
      if (!x.greeted)
        throw std::runtime_error("not greeted");
      std::string all;
      for (std::uint64_t n = 1; n <= 100; ++n)
        all += x.request(type, value, n).bytes();
      says_.push_back(all);
      fcntl(x.socket.fd(), F_SETFL, O_NONBLOCK);
    }
    thread_ = std::thread{[this, reads] { run(reads); }};
  }

  ~flood() {
    stops_ = true;
    thread_.join();
  }

  flood(const flood&) = delete;
  flood& operator=(const flood&) = delete;

  /// Bytes, so far.
  std::size_t asked() const {
    return asked_;
  }
  std::size_t answered() const {
    return answered_;
  }

private:
  /// No two have had the same name.
  static inline std::uint32_t numbers = 0;

  void run(bool reads) {
    std::vector<pollfd> waits;
    std::vector<std::size_t> at(nodes_.size());
    std::vector<char> some(256 << 10);
    while (!stops_) {
      waits.clear();
      for (auto& x : nodes_)
        waits.push_back({x.socket.fd(),
                         static_cast<short>(POLLOUT | (reads ? POLLIN : 0)),
                         0});
      poll(waits.data(), waits.size(), 50);
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if ((waits[i].revents & POLLIN) != 0) {
          auto n = recv(waits[i].fd, some.data(), some.size(), 0);
          answered_ += n > 0 ? static_cast<std::size_t>(n) : 0;
        }
        if ((waits[i].revents & POLLOUT) == 0)
          continue;
        auto n = send(waits[i].fd, says_[i].data() + at[i],
                      says_[i].size() - at[i], MSG_NOSIGNAL);
        if (n <= 0)
          continue;
        asked_ += static_cast<std::size_t>(n);
        at[i] = (at[i] + static_cast<std::size_t>(n)) % says_[i].size();
      }
    }
  }

  std::vector<raw_node> nodes_;
  std::vector<std::string> says_;
  std::atomic<std::size_t> asked_ = 0;
  std::atomic<std::size_t> answered_ = 0;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

struct floods_fixture {
  temporary_database db;
  socket_folder sockets;
  event_log log;
  network_config cfg;
  caf::actor_system sys{cfg};
  /// The good client's.
  caf::actor_system other{cfg};
  gd::actors::engine engine = start();
  std::string endpoint = open();
  gateway good = find();

  gd::actors::engine start() {
    db.migrate();
    gd::config x;
    x.database = db.conninfo();
    x.patience = patience;
    x.machines = {probe{}};
    x.on_event = log.sink();
    auto made = gd::actors::start(sys, std::move(x));
    if (!made)
      throw std::runtime_error(to_string(made.error()));
    return std::move(*made);
  }

  std::string open() {
    auto at = gd::actors::publish(
      engine,
      {.socket = sockets.next(), .connections = 1'000, .silence = patience});
    if (!at)
      throw std::runtime_error(to_string(at.error()));
    return *at;
  }

  gateway find() {
    auto x = gd::test::connect(other, endpoint, patience, patience);
    if (!x)
      throw std::runtime_error(to_string(x.error()));
    return *x;
  }

  /// The id of one that has ended, with so long a state.
  std::string made_with(std::size_t bytes) {
    return db.scalar("insert into gen_durable (fsm, step, status, state) "
                     "values ('Probe', 'first', 'done', "
                     "jsonb_build_object('note', repeat('x', $1::int))) "
                     "returning id",
                     {std::to_string(bytes)});
  }

  template <class T>
  std::string as_caf_writes(T x) {
    std::vector<char> bytes;
    caf::binary_serializer to{sys, bytes};
    static_cast<void>(to(x));
    return {bytes.begin(), bytes.end()};
  }

  /// One insert after the other: each is accepted, whatever others ask for.
  void insert_meanwhile(const std::string& what, const flood* beside) {
    std::vector<milliseconds> took;
    caf::scoped_actor self{other};
    auto begin = clock_type::now();
    std::string refused;
    while (took.size() < 3 || clock_type::now() - begin < flood_time()) {
      auto since = clock_type::now();
      self->request(good, patience, gd::insert{.fsm = "Probe"})
        .receive([](const gd::inserted&) {},
                 [&](const caf::error& why) {
        refused = gd::actors::render(other, why);
        });
      took.push_back(
        std::chrono::duration_cast<milliseconds>(clock_type::now() - since));
    }
    std::sort(took.begin(), took.end());
    CAF_MESSAGE(what << ": " << took.size() << " inserts, half of them within "
                     << took[took.size() / 2].count() << " ms, the worst "
                     << took.back().count() << " ms; others asked for "
                     << (beside ? beside->asked() : 0) / 1'024
                     << " KiB and were answered "
                     << (beside ? beside->answered() : 0) / 1'024 << " KiB");
    CAF_CHECK_EQUAL(refused, "");
  }

  template <class Request>
  void flood_with(const std::string& what, std::string_view type,
                  const Request& x, bool reads = true) {
    for (auto clients : {1u, many}) {
      flood others{endpoint, clients, type, as_caf_writes(x), reads};
      insert_meanwhile(what + " by " + std::to_string(clients), &others);
    }
    insert_meanwhile("behind " + what, nullptr);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(floods_tests, floods_fixture)

CAF_TEST(nobody is kept from inserting by those who look) {
  insert_meanwhile("alone", nullptr);
  auto small = std::stoll(made_with(10));
  flood_with("look-ups", "gd::look_up", gd::look_up{.id = small});
}

CAF_TEST(nobody is kept from inserting by those who ask why) {
  auto small = std::stoll(made_with(10));
  flood_with("why", "gd::why_query", gd::why_query{.id = small});
}

CAF_TEST(nobody is kept from inserting by long answers) {
  auto large = std::stoll(made_with(900'000));
  flood_with("900 KB read", "gd::look_up", gd::look_up{.id = large});
  flood_with("900 KB unread", "gd::look_up", gd::look_up{.id = large}, false);
}

CAF_TEST(nobody is kept from inserting by long histories) {
  auto id = made_with(10);
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt, state) select $1::bigint, n, now(), 1, "
          "'next', 'first', 0, jsonb_build_object('note', repeat('x', 100000)) "
          "from generate_series(1, 80) n",
          {id});
  flood_with("histories", "gd::history_query",
             gd::history_query{.id = std::stoll(id), .limit = 100});
}

CAF_TEST(nobody is kept from inserting by those who signal) {
  made_with(10);
  flood_with("signals", "gd::signal", gd::signal{.target = 1, .name = "go"});
}

CAF_TEST(nobody is kept from inserting by those who insert) {
  flood_with("inserts of 20 KB", "gd::insert",
             gd::insert{.fsm = "Probe",
                        .state = gd::json::raw(
                          "{\"note\": \"" + std::string(20'000, 'x') + "\"}")});
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace floods_suite
