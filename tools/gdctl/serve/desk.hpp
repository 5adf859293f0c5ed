#pragma once

#include "serve/http.hpp"

#include <gd/client.hpp>
#include <gd/error.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gdctl::serve {

/// Asks the database, or changes something.
using errand = std::function<gd::result<response>(gd::client&)>;

/// What an error is to those who have asked over HTTP.
answer told(const gd::error& why);

/// Between those who ask and some connections to the database. Who asks what another is
/// asking already waits for that one's answer, and an answer may be told again for a while:
/// a hundred open pages ask no more than one.
class desk {
public:
  /// Connects when it is first asked.
  explicit desk(gd::pq::options database);
  ~desk();
  desk(const desk&) = delete;
  desk& operator=(const desk&) = delete;

  /// An answer to the same that is young enough; or null.
  answer known(const std::string& key);
  /// What has the same key, which is not empty, is asked once, and told for so long.
  void ask(const std::string& key, std::chrono::milliseconds kept, errand what,
           reply to);
  /// From now on nothing that is told was known before.
  void forget();
  /// Ends what has not begun, and waits for the rest.
  void stop();

private:
  using clock = std::chrono::steady_clock;

  struct look {
    answer told{};
    clock::time_point until{};
    std::uint64_t age = 0; ///< `changes_` when it was asked
    bool under_way = false;
    std::vector<reply> waiting{};
  };
  struct task {
    std::string key;
    std::chrono::milliseconds kept;
    errand what;
    reply to; ///< where there is no key
    std::uint64_t age;
  };

  void run();
  answer answer_of(const task& x, std::optional<gd::client>& db);
  void tell(const task& x, const answer& told);
  void drop_old_looks();

  gd::pq::options database_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<task> tasks_;
  std::map<std::string, look> looks_;
  std::uint64_t changes_ = 0;
  bool stopped_ = false;
  /// What is told, where nobody tries to connect until then.
  answer away_;
  clock::time_point away_until_{};
  std::vector<std::thread> threads_;
};

} // namespace gdctl::serve
