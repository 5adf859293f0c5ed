#pragma once

#include <gd/engine/queue/elsewhere.hpp>
#include <gd/event.hpp>
#include <gd/network/workers/link_host.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// All workers of an engine's node: where its pickers hand rows out and collect what
/// becomes of them, and where what the workers say comes in and goes out.
class worker_hub final : public elsewhere {
public:
  /// A connection, by whoever has it.
  using connection_id = std::uint64_t;

  explicit worker_hub(link_host::settings how = {}) : how_(std::move(how)) {
    // nop
  }

  void enter(const std::string& queue, std::function<void()> tell) override;
  void leave(const std::string& queue) override;
  bool any() const noexcept override {
    return any_;
  }
  std::int32_t room(const std::string& queue) const override;
  bool idle(const std::string& queue) const override;
  std::optional<std::string> hand_out(const std::string& queue,
                                      std::uint64_t tag, const held_row& what,
                                      std::chrono::milliseconds lease,
                                      bool alone,
                                      clock::time_point now) override;
  std::vector<report> collect(const std::string& queue) override;
  bool complete(const std::string& to, const turn::flushed& of,
                std::int32_t tries, const held_row* next, std::uint64_t tag,
                clock::time_point until, clock::time_point now) override;
  void refuse(const report& of, bool too_many, clock::time_point now) override;
  void lose(const std::vector<lease_ptr>& which) override;
  void extended(clock::time_point at, clock::time_point until) override;

  // -- what the actor calls that speaks to the workers ----------------------------

  /// `poke` is called from any thread when there is something to take. What was
  /// connected before is not any more.
  void open(std::function<void()> poke);

  void arrived(connection_id from, const link::packet& x,
               clock::time_point now);
  void gone(connection_id who, clock::time_point now);
  /// No more work goes out.
  void close(const std::string& why);
  void tick(clock::time_point now);
  clock::time_point due() const;

  struct outgoing {
    std::vector<std::pair<connection_id, link::packet>> packets{};
    std::vector<event> events{};
  };
  outgoing take();

private:
  struct link_state {
    link_host host;
    connection_id connection = 0; ///< 0: none
    bool was_joined = false;
  };
  using links = std::map<std::string, link_state>;

  bool complete(const std::string& to, link::completed answer,
                std::uint64_t tag, clock::time_point until,
                clock::time_point now);

  void join(connection_id from, const link::packet& x, clock::time_point now);
  link_state* find(connection_id who);
  /// What a host has to say goes where it belongs.
  void pass_on(const std::string& incarnation, link_state& x);
  void pass_on_all();
  void tell_queue(const std::string& queue);
  void poke();

  mutable std::mutex mutex_;
  link_host::settings how_;
  links links_;
  std::atomic<bool> any_ = false;
  /// Nodes begin with different ones: what one has said late is not another's.
  std::uint64_t epochs_ = std::uint64_t{std::random_device{}()} << 20;
  bool closing_ = false;
  std::string closing_why_;
  struct queue_state {
    std::function<void()> tell{};
    std::vector<report> reports{};
    bool told = false;
  };
  std::map<std::string, queue_state> queues_;
  std::function<void()> poke_;
  bool poked_ = false;
  outgoing out_;
  clock::time_point extended_at_{};
  clock::time_point extended_until_{};
};

} // namespace gd
