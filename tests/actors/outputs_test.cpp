#define CAF_SUITE outputs

#include "support/database.hpp"
#include "support/process.hpp"

#include <caf/test/unit_test.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace outputs_suite {

using namespace std::literals;
using namespace gd::test;

namespace {

/// A named pipe, and its reader, which may end.
class named_pipe {
public:
  named_pipe() {
    if (mkdtemp(folder_.data()) == nullptr || mkfifo(path().c_str(), 0600) != 0)
      throw std::runtime_error{"no named pipe"};
  }

  ~named_pipe() {
    close_reader();
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }

  named_pipe(const named_pipe&) = delete;
  named_pipe& operator=(const named_pipe&) = delete;

  std::string path() const {
    return folder_ + "/log";
  }

  void open_reader() {
    reader_ = open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }

  void close_reader() {
    if (reader_ >= 0)
      close(std::exchange(reader_, -1));
  }

  /// Reads until that was among it, up to `patience`.
  bool read_until(const std::string& text) {
    std::string all;
    auto give_up = std::chrono::steady_clock::now() + patience;
    while (all.find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > give_up)
        return false;
      pollfd ready{reader_, POLLIN, 0};
      poll(&ready, 1, 1'000);
      std::array<char, 65'536> buffer;
      if (auto n = read(reader_, buffer.data(), buffer.size()); n > 0)
        all.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return true;
  }

private:
  std::string folder_ = "/tmp/gd_test_XXXXXX";
  int reader_ = -1;
};

struct outputs_fixture {
  temporary_database db;

  outputs_fixture() {
    db.migrate();
  }

  /// A worker whose shell has set up its streams like that.
  process start(const std::string& streams) {
    return process{{"/bin/sh", "-c", "exec \"$0\" \"$@\" " + streams,
                    GD_TEST_WORKER, db.conninfo(), "n", "loud"}};
  }

  /// Rows that take three steps each, all done in the end.
  void walk(int count) {
    db.rows("insert into gen_durable (fsm, step) select 'Walk', 'one' from "
            "generate_series(1, $1::int)",
            {std::to_string(count)});
    db.wait_until("select count(*) from gen_durable where status <> 'done'",
                  "0");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(outputs_tests, outputs_fixture)

CAF_TEST(a worker goes on when the reader of its log has ended and tells the
           next one how much is missing) {
  named_pipe log;
  log.open_reader();
  auto worker = start("2> " + log.path());
  CAF_CHECK(log.read_until("node n started"));
  log.close_reader();
  walk(50);
  CAF_CHECK(!worker.has_ended());
  log.open_reader();
  walk(1);
  CAF_CHECK(log.read_until(" lines of this log could not be written: Broken "
                           "pipe"));
  CAF_CHECK_EQUAL(worker.end(SIGTERM), 0);
}

CAF_TEST(a worker waits for nobody to read its log) {
  named_pipe log;
  log.open_reader();
  auto worker = start("2> " + log.path());
  // Far more lines than the pipe, and what waits for it, can have.
  walk(5'000);
  CAF_CHECK(log.read_until(" lines of this log could not be written: nobody "
                           "has read them in time"));
  walk(2'000);
  CAF_CHECK_EQUAL(worker.end(SIGTERM), 0);
}

CAF_TEST(a worker goes on when its log is full or closed) {
  for (const auto* streams :
       {"2> /dev/full", "2>&-", "> /dev/full 2>&-", "0<&- >&- 2>&-"}) {
    CAF_MESSAGE(streams);
    auto worker = start(streams);
    walk(50);
    CAF_CHECK_EQUAL(worker.end(SIGTERM), 0);
  }
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace outputs_suite
