#include "chaos/world.hpp"

#include "support/secret.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <utility>

namespace gd::chaos {

namespace {

/// Waits until a process has ended, and takes its status; false: not in time.
bool reap(pid_t pid, int& status) {
  return gd::test::ends_in_time(pid) && waitpid(pid, &status, 0) == pid;
}

void wait_until(const std::function<bool()>& holds, const char* otherwise) {
  auto give_up = clock::now() + patience;
  while (!holds()) {
    if (clock::now() > give_up)
      throw std::runtime_error{otherwise};
    std::this_thread::sleep_for(20ms);
  }
}

} // namespace

// -- proxy --------------------------------------------------------------------

proxy::proxy(std::string server_socket) : server_(std::move(server_socket)) {
  listen_anywhere();
}

proxy::proxy(int server_port) : server_port_(server_port) {
  listen_anywhere();
}

void proxy::listen_anywhere() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  auto* raw = reinterpret_cast<sockaddr*>(&here);
  if (bind(listener_, raw, size) != 0 || listen(listener_, 100) != 0
      || getsockname(listener_, raw, &size) != 0)
    throw std::runtime_error{"the proxy cannot listen"};
  port_ = ntohs(here.sin_port);
  thread_ = std::thread{[this] { run(); }};
}

proxy::~proxy() {
  stop_ = true;
  thread_.join();
  close(listener_);
}

void proxy::run() {
  std::vector<std::pair<int, int>> pairs; // each in both directions
  std::vector<char> buffer(64 << 10);
  while (!stop_) {
    if (swallow_) {
      std::this_thread::sleep_for(10ms);
      continue;
    }
    std::vector<pollfd> fds{{listener_, POLLIN, 0}};
    for (auto& [from, to] : pairs)
      fds.push_back({from, POLLIN, 0});
    poll(fds.data(), fds.size(), 10);
    if (swallow_)
      continue;
    std::vector<int> ended;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (fds[i + 1].revents == 0)
        continue;
      auto [from, to] = pairs[i];
      auto n = read(from, buffer.data(), buffer.size());
      if (n <= 0
          || send(to, buffer.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL)
               != n)
        ended.insert(ended.end(), {from, to});
    }
    for (auto fd : ended)
      if (std::erase_if(
            pairs, [fd](auto& x) { return x.first == fd || x.second == fd; })
            > 0
          || fcntl(fd, F_GETFD) >= 0)
        close(fd);
    if (fds[0].revents != 0) {
      auto client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (auto server = connect_to_server(); server >= 0) {
        pairs.emplace_back(client, server);
        pairs.emplace_back(server, client);
      } else {
        close(client);
      }
    }
  }
  for (auto& [from, to] : pairs)
    close(from); // each is first once
}

int proxy::connect_to_server() const {
  sockaddr_storage there{};
  socklen_t size = 0;
  if (server_port_ > 0) {
    auto& to = reinterpret_cast<sockaddr_in&>(there);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(server_port_));
    size = sizeof(to);
  } else {
    auto& to = reinterpret_cast<sockaddr_un&>(there);
    to.sun_family = AF_UNIX;
    server_.copy(to.sun_path, sizeof(to.sun_path) - 1);
    size = sizeof(to);
  }
  auto fd = socket(there.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&there), size) == 0)
    return fd;
  close(fd);
  return -1;
}

/// A loopback port that is free now.
static int free_port() {
  auto fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  auto* raw = reinterpret_cast<sockaddr*>(&here);
  if (bind(fd, raw, size) != 0 || getsockname(fd, raw, &size) != 0)
    throw std::runtime_error{"there is no free port"};
  close(fd);
  return ntohs(here.sin_port);
}

// -- world --------------------------------------------------------------------

world::world(world_options how) : how_(std::move(how)) {
  db_ = std::make_unique<test::temporary_database>();
  db_->migrate();
  if (scalar("select count(*) from pg_roles where rolname = 'engine'") == "0")
    rows("create role engine superuser login");
  rows("create table effects (instance bigint not null, number int not null, "
       "step text not null, token text not null, node text not null, "
       "began timestamptz not null default clock_timestamp(), "
       "ended timestamptz, primary key (instance, token, number))");
  if (how_.standby)
    add_standby();
  if (how_.through_proxy)
    proxy_ = std::make_unique<proxy>(main_.host() + "/.s.PGSQL.5432");
  if (how_.links)
    lay_links();
}

void world::lay_links() {
  for (auto name : {"a", "b"})
    ports_[name] = free_port();
  link_ = std::make_unique<proxy>(ports_["a"]);
  workers_.insert(workers_.end(), {"c", "d"});
}

world::~world() {
  for (auto& [name, pid] : processes_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  if (!standby_)
    return;
  // Others go on with the server that was there before.
  session_.reset();
  standby_.reset();
  main_.start();
  if (how_.synchronous)
    main_.set("synchronous_standby_names", "");
}

pid_t world::spawn(const std::string& name,
                   std::vector<std::string> arguments) {
  auto log = (how_.directory / (name + ".log")).string();
  auto pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    std::vector<char*> raw;
    for (auto& x : arguments)
      raw.push_back(x.data());
    raw.push_back(nullptr);
    execv(raw.front(), raw.data());
    _exit(127);
  }
  return pid;
}

void world::start_worker(const std::string& name) {
  auto database = proxy_ ? fmt::format("host=127.0.0.1 port={} dbname={} "
                                       "user=engine",
                                       proxy_->port(), db_->name())
                         : conninfo("engine");
  std::vector<std::string> arguments;
  if (name == "b" && how_.wrong_clock)
    arguments = {"/usr/bin/env",
                 "LD_PRELOAD=/usr/$LIB/faketime/libfaketimeMT.so.1",
                 "FAKETIME=+1h", "DONT_FAKE_MONOTONIC=1"};
  arguments.insert(arguments.end(),
                   {GD_CHAOS_WORKER, "--database", database, "--effects",
                    conninfo(), "--node", name, "--lease",
                    std::to_string(how_.lease.count()), "--seed",
                    std::to_string(how_.seed)});
  if (inserting_)
    arguments.insert(arguments.end(), {"--log", accepted_log()});
  if (how_.wild)
    arguments.emplace_back("--wild");
  if (how_.links)
    arguments.insert(arguments.end(), {"--secret", test::port_secret()});
  if (auto port = ports_.find(name); port != ports_.end())
    arguments.insert(arguments.end(),
                     {"--publish", std::to_string(port->second)});
  else if (how_.links)
    arguments.insert(arguments.end(),
                     {"--join",
                      fmt::format("127.0.0.1:{}",
                                  name == "c" ? link_->port() : ports_.at("a")),
                      "--join", fmt::format("127.0.0.1:{}", ports_.at("b"))});
  processes_[name] = spawn(name, std::move(arguments));
}

void world::signal_worker(const std::string& name, int signal) {
  if (auto found = processes_.find(name); found != processes_.end())
    kill(found->second, signal);
}

void world::kill_worker(const std::string& name) {
  if (auto found = processes_.find(name); found != processes_.end()) {
    kill(found->second, SIGKILL);
    waitpid(found->second, nullptr, 0);
    processes_.erase(found);
  }
}

int world::revive_workers() {
  int dead = 0;
  for (const auto& name : workers_) {
    auto found = processes_.find(name);
    if (found == processes_.end()
        || waitpid(found->second, nullptr, WNOHANG) != found->second)
      continue;
    ++dead;
    start_worker(name);
  }
  return dead;
}

void world::start_load(const std::string& name, double rate,
                       std::int64_t first) {
  std::vector<std::string> arguments{GD_CHAOS_WORKER,
                                     "--database",
                                     conninfo("engine"),
                                     "--node",
                                     name,
                                     "--load",
                                     std::to_string(rate),
                                     "--first",
                                     std::to_string(first),
                                     "--log",
                                     accepted_log()};
  if (how_.wild)
    arguments.emplace_back("--wild");
  processes_[name] = spawn(name, std::move(arguments));
}

bool world::end_load(const std::string& name) {
  auto pid = processes_.at(name);
  kill(pid, SIGTERM);
  int status = 0;
  if (!reap(pid, status))
    return false;
  processes_.erase(name);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool world::end_inserts() {
  inserting_ = false;
  std::vector<pid_t> told;
  for (auto name : {"a", "b"})
    if (auto found = processes_.find(name); found != processes_.end()) {
      kill(found->second, SIGHUP);
      told.push_back(found->second);
    }
  // The last one may be under way, and be stored when everything else has ended.
  auto give_up = clock::now() + patience;
  while (!std::all_of(told.begin(), told.end(),
                      [&](auto pid) { return has_ended_inserts(pid); })) {
    if (clock::now() > give_up)
      return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

bool world::has_ended_inserts(pid_t pid) const {
  siginfo_t dead{};
  if (waitid(P_PID, static_cast<id_t>(pid), &dead, WEXITED | WNOHANG | WNOWAIT)
        != 0
      || dead.si_pid == pid)
    return true;
  std::ifstream log{accepted_log()};
  auto last = fmt::format("ended {} 0", pid);
  for (std::string line; std::getline(log, line);)
    if (line == last)
      return true;
  return false;
}

bool world::end_workers() {
  bool well = true;
  for (const auto& name : workers_) {
    auto found = processes_.find(name);
    if (found == processes_.end())
      continue;
    kill(found->second, SIGTERM);
    int status = 0;
    if (reap(found->second, status)) {
      well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      processes_.erase(found);
    } else {
      well = false;
      kill_worker(name);
    }
  }
  return well;
}

std::string world::accepted_log() const {
  return (how_.directory / "accepted").string();
}

void world::stop_server(const std::string& mode) {
  main_.stop(mode);
}

void world::start_server() {
  main_.start();
}

void world::add_standby() {
  standby_.emplace(test::server::standby_of(main_, "chaos"));
  if (!how_.synchronous)
    return;
  main_.set("synchronous_standby_names", "chaos");
  wait_until(
    [&] {
    return scalar("select count(*) from pg_stat_replication where sync_state = "
                  "'sync'")
           == "1";
    },
    "the standby does not follow");
}

void world::cut_off_standby() {
  standby_->set("primary_conninfo", "host=/nowhere");
  wait_until(
    [&] { return scalar("select count(*) from pg_stat_replication") == "0"; },
    "the standby still follows");
  // It looks for more only when it has replayed everything.
  wait_until(
    [&] {
    return scalar_of_standby("select wait_event from pg_stat_activity where "
                             "backend_type = 'startup'")
           == "RecoveryRetrieveRetryInterval";
    },
    "the standby does not look for more");
}

std::string world::scalar_of_standby(const std::string& sql) const {
  return test::session{standby_->conninfo(db_->name())}.scalar(sql);
}

std::string world::conninfo(const std::string& user) const {
  auto out = db_->conninfo(user);
  if (standby_)
    out += fmt::format(" host={},{} target_session_attrs=read-write",
                       main_.host(), standby_->host());
  return out;
}

void world::fail_over() {
  main_.kill();
  standby_->promote();
}

std::string world::fail_over_behind(std::chrono::milliseconds lag,
                                    const std::string& sql) {
  constexpr auto position = "select pg_last_wal_replay_lsn()";
  cut_off_standby();
  std::this_thread::sleep_for(lag);
  main_.kill();
  auto out = scalar_of_standby(sql);
  auto last = scalar_of_standby(position);
  standby_->promote();
  if (scalar_of_standby(position) != last)
    throw std::runtime_error{"the standby had more than it was asked for"};
  return out;
}

test::row_list world::rows_of_the_dead(const std::string& sql) {
  main_.start();
  auto out = test::session{main_.conninfo(db_->name())}.exec(sql);
  main_.stop("fast");
  return out;
}

void world::terminate_engines() {
  rows("select pg_terminate_backend(pid) from pg_stat_activity where "
       "application_name like 'gen_durable%' and datname = current_database()");
}

test::row_list world::rows(const std::string& sql,
                           const test::session::parameters& params) {
  auto give_up = clock::now() + patience;
  while (true) {
    try {
      if (!session_) {
        session_ = std::make_unique<test::session>(conninfo());
        session_->exec("set default_transaction_read_only = off");
      }
      return session_->exec(sql, params);
    } catch (const std::exception& why) {
      // Faults of the scenario are waited out; ours are not.
      auto* refused = dynamic_cast<const test::sql_error*>(&why);
      auto kind = refused != nullptr ? refused->sqlstate().substr(0, 2) : "";
      session_.reset();
      if (clock::now() > give_up
          || (refused != nullptr && !kind.empty() && kind != "53"
              && kind != "57" && kind != "08" && kind != "25"))
        throw;
      std::this_thread::sleep_for(50ms);
    }
  }
}

std::string world::scalar(const std::string& sql,
                          const test::session::parameters& params) {
  return rows(sql, params).at(0).at(0).value_or("");
}

} // namespace gd::chaos
