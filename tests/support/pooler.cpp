#include "support/pooler.hpp"

#include "support/database.hpp"

#include <libpq-fe.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <memory>
#include <poll.h>
#include <pwd.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gd::test {

namespace {

/// Where the server is, in PgBouncer's syntax.
std::string server_line() {
  const char* text = std::getenv("GD_DATABASE");
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed{
    PQconninfoParse(text != nullptr ? text : "", nullptr), PQconninfoFree};
  if (!parsed)
    throw std::runtime_error{"GD_DATABASE is not a connection string"};
  std::string out = "* =";
  for (const auto* x = parsed.get(); x->keyword != nullptr; ++x) {
    std::string_view key = x->keyword;
    if (x->val != nullptr
        && (key == "host" || key == "port" || key == "user"
            || key == "password"))
      out.append(" ").append(key).append("=").append(x->val);
  }
  return out;
}

} // namespace

transaction_pooler::transaction_pooler() {
  directory_ = "/tmp/gd-pooler.XXXXXX";
  if (mkdtemp(directory_.data()) == nullptr)
    throw std::runtime_error{"no temporary directory"};
  auto file = directory_ + "/pgbouncer.ini";
  std::ofstream{file} << "[databases]\n"
                      << server_line() << "\n[pgbouncer]\n"
                      << "listen_addr =\nlisten_port = 6432\n"
                      << "unix_socket_dir = " << directory_ << "\n"
                      << "logfile = " << directory_ << "/log\n"
                      << "auth_type = any\npool_mode = transaction\n"
                      << "default_pool_size = 1\n";
  // It refuses to run as root.
  const auto* owner = geteuid() == 0 ? getpwnam("postgres") : nullptr;
  if (owner != nullptr
      && (chown(directory_.c_str(), owner->pw_uid, owner->pw_gid) != 0
          || chown(file.c_str(), owner->pw_uid, owner->pw_gid) != 0))
    throw std::runtime_error{"the pooler's directory has no owner"};
  auto parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    if (owner != nullptr
        && (setgroups(0, nullptr) != 0 || setgid(owner->pw_gid) != 0
            || setuid(owner->pw_uid) != 0))
      _exit(126);
    // A test that is killed leaves none behind.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(126);
    execlp("pgbouncer", "pgbouncer", "-q", file.c_str(), nullptr);
    execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", file.c_str(), nullptr);
    _exit(127);
  }
  auto give_up = std::chrono::steady_clock::now() + patience;
  for (;;) {
    try {
      session{conninfo("postgres")};
      return;
    } catch (const std::exception& why) {
      int status = 0;
      if (waitpid(process_, &status, WNOHANG) == process_)
        process_ = -1;
      if (process_ < 0 || std::chrono::steady_clock::now() > give_up) {
        stop();
        throw std::runtime_error{
          "pgbouncer does not run (tools/setup installs it): "
          + std::string{why.what()}};
      }
      poll(nullptr, 0, 5);
    }
  }
}

transaction_pooler::~transaction_pooler() {
  stop();
}

std::string transaction_pooler::conninfo(const std::string& database) const {
  return "host=" + directory_ + " port=6432 user=anybody dbname=" + database;
}

void transaction_pooler::stop() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

} // namespace gd::test
