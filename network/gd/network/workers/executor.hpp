#pragma once

#include <gd/actors/node/self.hpp>
#include <gd/actors/queue/stepper.hpp>

#include <gd/network/workers/link_worker.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd::actors {

struct executor_order {
  link_worker::order what;
  /// Of work.
  held_row_ptr row{};
};

struct executor_event {
  enum class kind : std::uint8_t { outcome, over, crashed, released };
  kind what = kind::outcome;
  link_worker::key which{};
  store::outcome_row row{};
  link::told told{};
  bool over = false;
  std::string why{};
  std::chrono::microseconds took{0};
};

/// Runs a queue's steps for a worker without a database, as a picker does for its own
/// node; rows come from the link, and outcomes go there.
class executor_actor final : public stepper_actor {
public:
  executor_actor(caf::actor_config& cfg, node_ptr home, queue_config queue,
                 caf::actor link);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.executor";
  }

private:
  using key = link_worker::key;

  struct known {
    key which;
    bool over = false; ///< told
  };

  void drive() override;
  void arm() override;
  void free_slot() override;
  void add_outcome(entry& x, outcome_ptr outcome, gd::run after) override;
  void crash(entry& x, const gd::run& what, const std::string& why) override;
  void skip(entry& x) override;
  void forget_if_over(entry& x) override;
  bool drives_when_down(const entry&) const override {
    return true;
  }
  void note_end() override {
    // nop
  }

  void start_steps();
  void obey(std::vector<executor_order>& orders);
  void complete(link_worker::order& x);
  void stop(const key& which);
  void release(const std::vector<key>& which);
  void complete(entry& x);
  void know(std::uint64_t tag, const held_row& what);
  void tell(executor_event::kind what, key which);
  void send();

  caf::actor link_;
  std::deque<held_row_ptr> prefetched_;
  std::unordered_map<std::uint64_t, known> by_tag_;
  std::map<key, std::uint64_t> tags_;
  std::vector<executor_event> news_;
  alarm alarm_;
};

} // namespace gd::actors
