#pragma once

#include <gd/event.hpp>
#include <gd/options.hpp>
#include <gd/pq/complaints.hpp>
#include <gd/pq/database.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace gd {

/// The only door to the database of a node: one thread that polls all its
/// connections. A connection runs one unit at a time; what is submitted
/// meanwhile waits. A unit that finds its connection idle is sent by the thread
/// that submits it, which saves waking another.
/// Reconnects with backoff and jitter, each attempt on a thread of its own: no
/// look-up of a name may block what goes on elsewhere. Never sends a unit twice.
class reactor : public database {
public:
  /// Called once, on the reactor's thread, when no connection will ever do: the
  /// schema is missing or incompatible, another node that lives has other machines,
  /// or there has been none in time. From then on every reply is that error.
  using fatal_callback = std::function<void(error)>;
  /// What a slot's new connection runs before anything else, and what is made of
  /// the reply: an error ends the connection, events are told. The first connection
  /// slot's comes first: until it is connected, no other has a new connection that is.
  struct greeting {
    std::function<pq::unit(std::size_t slot)> say;
    std::function<result<void>(std::size_t slot, const pq::reply& reply,
                               std::vector<event>& to)>
      heard;
  };

  /// Connection slots behind the others: their connections are made when something is
  /// submitted to them, and end when there has been nothing to do for a while.
  static constexpr std::size_t on_demand_slots = 2;

  /// `slots`: how many there are beside those on demand. `longest_pause`: between two
  /// attempts to connect. `connect_within`: by when the first
  /// connection has to be there; zero: it may take as long as it takes.
  reactor(pq::options opts, std::size_t slots, event_sink sink,
          fatal_callback on_fatal,
          std::chrono::milliseconds longest_pause = std::chrono::seconds{5},
          greeting greet = {},
          std::chrono::milliseconds connect_within = std::chrono::milliseconds{
            0});
  ~reactor() override;

  void submit(std::size_t index, pq::unit work, callback done,
              patience how) override;

  void after(clock::duration time, std::function<void()> then) override;

  std::optional<clock::time_point>
  connected_since(std::size_t slot) const override;

  error why_waiting(std::size_t index) const override;

  /// From now on nothing waits for a connection that is not there, unless it is made on
  /// demand, has not failed, and the first connection slot has its own: for a node that
  /// stops.
  void be_impatient();

  /// Lets what is under way end, for at most `grace`, answers the rest with
  /// `stopped`, and ends the thread. Not from a callback.
  void stop(clock::duration grace = std::chrono::seconds{2});

private:
  struct job {
    pq::unit work;
    callback done;
    clock::time_point expires;
    /// It has to do with this session, and goes with it.
    bool this_session;
  };
  struct alarm {
    clock::time_point at;
    std::function<void()> then;
  };
  struct connection_slot;
  struct news;
  class bell;
  struct attempt;

  void run();
  /// At most one of them; until when there is no other.
  clock::time_point ring_alarms();
  void connect(connection_slot& slot);
  void look_after(connection_slot& slot, bool pollable);
  void advance(connection_slot& slot, news& told);
  bool may_come_soon(const connection_slot& slot) const;
  void lost(connection_slot& slot, news& told);
  void fail(error why, news& told);
  void give_up_connecting();
  void read_first(connection_slot& slot, const pq::reply& reply, news& told);
  void start_next(connection_slot& slot);
  /// Answers what waits and expires by then.
  static void end_waiting(connection_slot& slot, clock::time_point until,
                          news& told);
  static void disconnect(connection_slot& slot);
  clock::time_point next_event(const connection_slot& slot) const;
  void close_slot(connection_slot& slot);
  void tell(news& told);

  pq::options opts_;
  event_sink sink_;
  fatal_callback on_fatal_;
  std::chrono::milliseconds longest_pause_;
  greeting greet_;
  std::chrono::milliseconds connect_within_;
  std::vector<std::unique_ptr<connection_slot>> slots_;
  /// Of the reactor's thread; what others see of it is `failed_`.
  std::optional<error> fatal_;
  std::atomic<bool> failed_ = false;
  std::atomic<bool> impatient_ = false;
  std::atomic<bool> stopping_ = false;
  /// Which of several hosts is tried first: where the last connection was made. Of
  /// the reactor's thread.
  std::size_t host_ = 0;
  /// Why connections are missing; of the reactor's thread.
  complaints complaints_;
  /// Until there has been a connection.
  std::optional<clock::time_point> connect_by_;
  /// Wakes the reactor; and ends what attempts wait for. They may outlive it.
  std::shared_ptr<bell> wake_;
  std::shared_ptr<bell> end_;
  clock::time_point stop_by_;
  std::mutex alarms_mutex_;
  std::vector<alarm> alarms_;
  std::thread thread_;
};

} // namespace gd
