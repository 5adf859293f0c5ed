#pragma once

/// What a scenario is played in: a server of its own, a database, processes
/// that work on it and one that sends, and everything that can happen to them.

#include "support/database.hpp"
#include "support/server.hpp"

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gd::chaos {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// A guard against hangs: how long anything is waited for that has to happen.
inline constexpr std::chrono::seconds patience{180};

/// Between the engine and the server, or a worker and the engine: can swallow all bytes,
/// without a reset.
class proxy {
public:
  explicit proxy(std::string server_socket);
  explicit proxy(int server_port);
  ~proxy();

  int port() const noexcept {
    return port_;
  }

  /// While on, nothing goes through, and whoever connects waits.
  void swallow(bool yes) {
    swallow_ = yes;
  }

private:
  void listen_anywhere();
  void run();
  /// -1: nobody is there.
  int connect_to_server() const;

  std::string server_;
  int server_port_ = 0;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> swallow_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct world_options {
  unsigned seed = 1;
  bool wild = false;
  bool through_proxy = false;
  /// Worker b lives an hour ahead.
  bool wrong_clock = false;
  /// The workers c and d have no database: they join a, or b where that is gone, c through
  /// a proxy.
  bool links = false;
  /// There is a standby, which may take the server's place. Everybody knows both.
  bool standby = false;
  /// Commits wait for it.
  bool synchronous = false;
  std::chrono::milliseconds lease = 3s;
  std::filesystem::path directory{};
};

class world {
public:
  explicit world(world_options how);
  ~world();

  // -- processes --

  /// "a" and "b" work; "c" and "d" for them, where there are links.
  void start_worker(const std::string& name);
  void signal_worker(const std::string& name, int signal);
  /// Workers make no more instances of their own. False: one still might.
  bool end_inserts();
  /// Kills it, and waits until it is gone.
  void kill_worker(const std::string& name);
  /// Starts those again that have died by themselves, as systemd would; how
  /// many there have been.
  int revive_workers();
  /// A process that inserts so many instances per second, numbered from `first`.
  void start_load(const std::string& name, double rate, std::int64_t first = 0);
  /// Waits until everything that it has made is accepted. False: not in time.
  bool end_load(const std::string& name);
  bool end_workers();

  // -- server --

  /// "fast" or "immediate".
  void stop_server(const std::string& mode);
  /// Does nothing if it runs.
  void start_server();
  /// Where there is one.
  test::server& standby() {
    return *standby_;
  }
  /// The server dies as in a power failure, and the standby takes its place.
  void fail_over();
  /// The same, when the standby has got nothing for so long. Returns what it answers, one
  /// cell, when there is no server.
  std::string fail_over_behind(std::chrono::milliseconds lag,
                               const std::string& sql);
  /// What the server that has died had: it runs by itself for this, and stops again, so
  /// that nobody else finds it.
  test::row_list rows_of_the_dead(const std::string& sql);
  /// Of the engines; not those that note effects.
  void terminate_engines();

  // -- looking --

  /// Survives restarts of the server.
  test::row_list rows(const std::string& sql,
                      const test::session::parameters& params = {});
  std::string scalar(const std::string& sql,
                     const test::session::parameters& params = {});

  test::temporary_database& database() {
    return *db_;
  }
  proxy* wire() {
    return proxy_.get();
  }
  /// Between c and a, where there are links.
  proxy* link() {
    return link_.get();
  }
  const world_options& options() const {
    return how_;
  }
  std::string accepted_log() const;

private:
  void lay_links();
  void add_standby();
  /// Returns when it has replayed all that it will ever get.
  void cut_off_standby();
  std::string scalar_of_standby(const std::string& sql) const;
  std::string conninfo(const std::string& user = {}) const;
  bool has_ended_inserts(pid_t pid) const;
  pid_t spawn(const std::string& name, std::vector<std::string> arguments);

  world_options how_;
  bool inserting_ = true;
  test::server main_ = test::server::of_environment();
  std::unique_ptr<test::temporary_database> db_;
  std::optional<test::server> standby_;
  std::unique_ptr<proxy> proxy_;
  std::unique_ptr<proxy> link_;
  std::map<std::string, int> ports_; ///< of a and b, where there are links
  std::vector<std::string> workers_{"a", "b"};
  std::unique_ptr<test::session> session_;
  std::map<std::string, pid_t> processes_;
};

} // namespace gd::chaos
