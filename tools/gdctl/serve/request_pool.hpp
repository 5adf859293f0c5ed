#pragma once

#include "serve/http.hpp"

#include <gd/client.hpp>
#include <gd/engine/intake/shares.hpp>
#include <gd/error.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gdctl::serve {

/// Asks the database, or changes something.
using database_call = std::function<gd::result<response>(gd::client&)>;

/// What an error is to those who have asked over HTTP.
answer told(const gd::error& why);

/// Between those who ask and some connections to the database. Who asks what another is
/// asking already waits for that one's answer, and an answer may be told again for a while:
/// a hundred open pages ask no more than one. What has waited for too long is refused and
/// not begun: by then nobody may be there who would know of it.
class request_pool {
public:
  /// Connects when it is first asked.
  explicit request_pool(gd::pq::options database);
  ~request_pool();
  request_pool(const request_pool&) = delete;
  request_pool& operator=(const request_pool&) = delete;

  /// An answer to the same that is young enough; or null.
  answer known(const std::string& key);
  /// What has the same key, which is not empty, is asked once, and told for so long.
  /// Where too much waits, what is refused is of whoever has asked for most.
  void ask(gd::sender_id from, const std::string& key,
           std::chrono::milliseconds kept, database_call what, reply to);
  /// Changes something, ahead of those who read. From then on nothing that is told was
  /// known before.
  void act(gd::sender_id from, database_call what, reply to);
  /// Ends what has not begun, and waits for the rest.
  void stop();

private:
  using clock = std::chrono::steady_clock;

  struct kept_answer {
    answer told{};
    clock::time_point until{};
    std::uint64_t age = 0; ///< `changes_` when it was asked
    bool under_way = false;
    std::vector<reply> waiting{};
  };
  struct task {
    gd::sender_id from;
    std::string key;
    std::chrono::milliseconds kept;
    database_call what;
    reply to; ///< where there is no key
    clock::time_point since = clock::now();
  };
  /// What goes ahead of what. Of reads without parameters there are few; whoever asks for
  /// many others is not in their way, as one connection is never given to those.
  enum rank : std::uint8_t { verb, read_all, read_some, ranks };

  /// Waits for its turn, with `mutex_` held, and lets go of it.
  void enter(rank of, task x, std::unique_lock<std::mutex> guard);
  void run();
  /// What comes next; `ranks`: nothing that may begin.
  rank first() const;
  /// Null: it is connected.
  answer connect(std::optional<gd::client>& db);
  answer answer_of(const task& x, std::optional<gd::client>& db);
  /// In the log; of many one in a while.
  void complain_of(const task& x, const gd::error& why);
  void tell(const task& x, const answer& told);
  void drop_old_answers();

  gd::pq::options database_;
  std::shared_ptr<gd::store::queue_scans> queues_ = gd::share_queue_scans();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<gd::fair_queue<task>, ranks> tasks_;
  std::size_t reading_some_ = 0; ///< those that have begun
  std::map<std::string, kept_answer> kept_answers_;
  std::uint64_t changes_ = 0;
  bool stopped_ = false;
  /// What is told, where nobody tries to connect until then.
  answer unreachable_;
  clock::time_point unreachable_until_{};
  clock::time_point silent_until_{};
  std::vector<std::thread> threads_;
};

} // namespace gdctl::serve
