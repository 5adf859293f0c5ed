#include "server.hpp"

#include "database.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace gd::test {

namespace {

using std::filesystem::path;

std::string environment(const char* name) {
  const char* x = std::getenv(name);
  if (x == nullptr)
    throw std::runtime_error{std::string{name}
                             + " is not set: run this under "
                               "tools/private-postgres"};
  return x;
}

void require(bool done, const std::string& what) {
  if (!done)
    throw std::runtime_error{"the server did not " + what};
}

path directory_of_all() {
  return path{environment("GD_TEST_POSTGRES_DATA")}.parent_path();
}

/// A new directory of the server's user.
path make_directory() {
  auto all = directory_of_all().string();
  auto name = all + "/s.XXXXXX";
  struct stat owner {};
  if (mkdtemp(name.data()) == nullptr || stat(all.c_str(), &owner) != 0
      || chown(name.c_str(), owner.st_uid, owner.st_gid) != 0)
    throw std::runtime_error{name + ": cannot be made"};
  return name;
}

/// Runs one of PostgreSQL's programs as the server's user: it refuses to run as root.
bool run(const std::string& program, std::vector<std::string> arguments) {
  auto all = directory_of_all().string();
  arguments.insert(arguments.begin(),
                   environment("GD_TEST_POSTGRES_BIN") + "/" + program);
  std::vector<char*> raw;
  for (auto& x : arguments)
    raw.push_back(x.data());
  raw.push_back(nullptr);
  struct stat owner {};
  if (stat(all.c_str(), &owner) != 0)
    throw std::runtime_error{all + ": no such directory"};
  auto pid = fork();
  if (pid == 0) {
    if (geteuid() == 0
        && (setgid(owner.st_gid) != 0 || setuid(owner.st_uid) != 0))
      _exit(126);
    auto nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    if (chdir("/") == 0)
      execv(raw.front(), raw.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

bool ends_in_time(pid_t pid) {
  auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0)
    return errno == ESRCH; // it has ended
  pollfd ended{fd, POLLIN, 0};
  bool in_time = poll(&ended, 1,
                      static_cast<int>(
                        std::chrono::milliseconds{patience}.count()))
                 > 0;
  close(fd);
  return in_time;
}

server::server(path data, std::string host, bool own)
  : data_(std::move(data)), host_(std::move(host)), own_(own) {
  // nop
}

server::server(server&& other) noexcept
  : data_(std::move(other.data_)),
    host_(std::move(other.host_)),
    own_(std::exchange(other.own_, false)) {
  // nop
}

server::~server() {
  if (!own_)
    return;
  pg_ctl({"stop", "--mode=immediate"});
  std::error_code ignored;
  std::filesystem::remove_all(data_.parent_path(), ignored);
}

server server::of_environment() {
  return {environment("GD_TEST_POSTGRES_DATA"), directory_of_all().string(),
          false};
}

server server::make(const std::string& settings) {
  auto home = make_directory();
  server out{home / "data", home.string(), true};
  require(run("initdb", {"--no-sync", "--encoding=UTF8", "--locale=C.UTF-8",
                         "--username=postgres", "--auth=trust", "-D",
                         out.data_.string()}),
          "begin");
  out.configure("listen_addresses = ''\n" + settings);
  out.start();
  return out;
}

server server::standby_of(const server& primary, const std::string& name) {
  auto home = make_directory();
  server out{home / "data", home.string(), true};
  require(run("pg_basebackup",
              {"--checkpoint=fast", "--no-sync", "--write-recovery-conf",
               "--dbname=host=" + primary.host_
                 + " user=postgres application_name=" + name,
               "-D", out.data_.string()}),
          "become a copy");
  out.configure({});
  out.start();
  return out;
}

void server::configure(const std::string& lines) const {
  // Read last, and written by standbys.
  std::ofstream{data_ / "postgresql.auto.conf", std::ios::app}
    << "unix_socket_directories = '" << host_ << "'\n"
    << lines << '\n';
}

bool server::pg_ctl(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all{"--silent", "--wait", "-D", data_.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run("pg_ctl", std::move(all));
}

void server::start() {
  if (!pg_ctl({"status"}))
    require(
      pg_ctl({"start", "--log=" + (data_.parent_path() / "log").string()}),
      "start");
}

void server::stop(const std::string& mode) {
  require(pg_ctl({"stop", "--mode=" + mode}), "stop");
}

void server::kill() {
  std::ifstream file{data_ / "postmaster.pid"};
  pid_t head = 0;
  if (!(file >> head))
    throw std::runtime_error{"the server does not run"};
  ::kill(head, SIGSTOP); // it starts nobody any more
  std::vector<pid_t> all{head};
  std::ifstream children{"/proc/" + std::to_string(head) + "/task/"
                         + std::to_string(head) + "/children"};
  for (pid_t pid = 0; children >> pid;)
    all.push_back(pid);
  for (auto pid : all)
    ::kill(pid, SIGKILL);
  for (auto pid : all)
    if (!ends_in_time(pid))
      throw std::runtime_error{"the server's processes do not end"};
  file.close();
  std::filesystem::remove(data_
                          / "postmaster.pid"); // the number may be taken yet
}

void server::promote() {
  require(pg_ctl({"promote"}), "become a primary");
}

void server::set(const std::string& name, const std::string& value) {
  session db{conninfo()};
  db.exec("alter system set " + name + " = '" + value + "'");
  db.exec("select pg_reload_conf()");
  auto give_up = std::chrono::steady_clock::now() + patience;
  while (session{conninfo()}.scalar("show " + name) != value)
    if (std::chrono::steady_clock::now() > give_up)
      throw std::runtime_error{"the server does not take over " + name};
}

std::string server::conninfo(const std::string& database,
                             const std::string& user) const {
  return "host=" + host_ + " dbname=" + database + " user=" + user;
}

} // namespace gd::test
