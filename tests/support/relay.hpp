#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gd::test {

/// A network between two programs: takes connections at a loopback port, hands what comes on
/// to another one, and does worse if it is told to.
class relay {
public:
  relay();
  ~relay();
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  std::uint16_t port() const noexcept {
    return port_;
  }

  /// Where connections lead from now on; zero: they are closed at once.
  void lead_to(std::uint16_t port);

  /// What clients say, or what they are answered, is kept back; or flows again.
  void hold_requests(bool held);
  void hold_answers(bool held);

  /// Waits until something is kept back, since the last call.
  bool wait_until_held();

  /// All connections end, and what is kept back is lost.
  void cut();

private:
  struct side {
    int fd = -1;
    /// To be written to it.
    std::string out{};
  };
  struct pair {
    side client;
    side server;
  };

  void run();
  void accept_one();
  bool move(side& from, side& to, bool held);
  void wake() const;

  std::uint16_t port_ = 0;
  int listener_;
  int wake_;
  std::mutex mutex_;
  std::uint16_t target_ = 0;
  bool requests_held_ = false;
  bool answers_held_ = false;
  bool ending_ = false;
  std::list<pair> pairs_;
  std::thread thread_;
};

} // namespace gd::test
