#pragma once

#include <gd/actors/node.hpp>

#include <gd/work/insert_intake.hpp>
#include <gd/work/target_intake.hpp>

#include <caf/event_based_actor.hpp>
#include <caf/node_id.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

namespace gd::actors {

/// The gateway with its private messages.
using gateway_impl = extended<gateway, void(unit_done), void(tick)>;

/// Does the gateway's work: groups the inserts, signals and transitions of all senders
/// into shared transactions.
class gateway_worker : public gateway_impl::base {
public:
  gateway_worker(caf::actor_config& cfg, node_ptr home);

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.gateway_worker";
  }

private:
  using clock = database::clock;

  /// An `insert_all` whose rows are answered one by one.
  struct bulk {
    caf::typed_response_promise<gd::inserted_all> promise;
    gd::inserted_all answer;
    std::size_t missing = 0;
  };
  struct bulk_row {
    std::shared_ptr<bulk> of;
    std::size_t index;
  };
  using insert_promise
    = std::variant<caf::typed_response_promise<gd::inserted>, bulk_row>;

  caf::result<gd::inserted_all> insert_many(gd::insert_all& x);
  void answer_insert(std::uint64_t ticket, const result<gd::inserted>& answer);
  static void fill(bulk_row& row, const result<gd::inserted>& answer);
  /// Those of pickers that have gone are released.
  void hand_in(std::vector<claim_desk::claim> claims);
  void finish(std::uint64_t ticket, pq::reply reply);
  /// `answer_of`: makes it of the rows.
  template <class Answer, class F>
  caf::result<Answer> read(std::size_t lane, pq::call what, F answer_of);
  template <class Intake, class Answer>
  void finish_intake(Intake& intake, pq::reply reply,
                     std::atomic<std::int64_t>& drawn, Answer answer);
  template <class Intake>
  void send_next(Intake& intake, std::uint64_t unit, clock::time_point now);
  /// A request has come; it has to be sent in time.
  void note_arrival(std::uint64_t ticket);
  void note_late(clock::time_point now);
  /// Answers what has waited too long, and is not being sent.
  void give_up_late(clock::time_point now);
  /// Who waits for an answer, by ticket.
  template <class Answer>
  using promises
    = std::unordered_map<std::uint64_t, caf::typed_response_promise<Answer>>;
  template <class Answer, class Intake, class Promises, class Request>
  caf::result<Answer> take_in(Intake& intake, Promises& waiting, Request& x);
  template <class Answer>
  void answer_one(promises<Answer>& waiting, std::uint64_t ticket,
                  const result<Answer>& answer);
  /// For `tell_answers`.
  template <class Answer>
  void note(const result<Answer>& answer);
  void tell_answers();
  void drive();
  /// There is a tick at that time at the latest.
  void wake_at(clock::time_point at, clock::time_point now);
  /// Begins the next unit of this intake: at once for a lone sender, and for
  /// several when the actors that are ready have had their turn: what they send
  /// shares a group. While a unit is under way, its end does that.
  void drive_soon(const intake_base& what);

  node_ptr home_;
  /// The last unit had several requests.
  bool several_ = false;
  insert_intake inserts_;
  signal_intake signals_;
  transition_intake transitions_;
  std::uint64_t tickets_;
  std::uint64_t generation_ = 0;
  clock::time_point wake_at_ = clock::time_point::max();
  /// What the intakes have got, in the order of its arrival, maybe some that has been
  /// answered.
  struct arrival {
    std::uint64_t ticket;
    clock::time_point expires;
  };
  std::deque<arrival> arrivals_;
  /// Requests up to this one have waited too long, and some are under way; zero:
  /// none.
  std::uint64_t late_ = 0;
  std::unordered_map<std::uint64_t, insert_promise> inserting_;
  promises<gd::signalled> signalling_;
  promises<gd::transitioned> moving_;
  /// Not told yet.
  std::vector<events::requests_answered> answers_;
  /// What answers what is only read.
  std::unordered_map<std::uint64_t, std::function<void(const pq::reply&)>>
    reading_;
};

/// The gateway with the message that tells it its worker.
using gateway_door_impl = extended<gateway, void(set_worker)>;

/// What users hold: forwards to the worker, and outlives its restarts.
class gateway_door : public gateway_door_impl::base {
public:
  gateway_door(caf::actor_config& cfg, gateway worker);

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.gateway";
  }

private:
  template <class Answer, class Request>
  caf::result<Answer> forward(Request& x);

  gateway worker_;
};

/// The gateway with the messages that end its publishing, and tell how its peers
/// read.
using gateway_portal_impl
  = extended<gateway, void(link_message), rows_noted(rows_due),
             void(close_portal), void(peer_unread), void(tick)>;

/// What a portal knows of the network beside the messages.
struct portal_network {
  /// Bytes that a peer may leave unread; all of them together twice as much.
  std::size_t most_unread = std::numeric_limits<std::size_t>::max() / 2;
  /// Requests of a peer that may be open.
  std::size_t most_open = std::numeric_limits<std::size_t>::max();
  /// Told that a message of a peer is out of the mailbox, so that more may come.
  std::function<void(const caf::node_id&)> taken = [](const auto&) {};
  /// Asks how many they are: what it is given is called once, by another thread.
  std::function<void(const caf::node_id&, std::function<void(std::size_t)>)>
    ask_unread = [](const auto&, const auto& answer) { answer(0); };
  /// Ends a peer's connection.
  std::function<void(const caf::node_id&)> cut_off = [](const auto&) {};
  /// Who gets what workers say; it may be null.
  std::function<caf::actor()> find_links = [] { return caf::actor{}; };
  /// Another node tells of rows that are due.
  std::function<void(rows_due)> on_rows_due = [](const auto&) {};
};

/// What other nodes hold: stands before the door. Nothing that a peer sends ends
/// it, and the peer sees no other actor of ours: answers come from here, too. A peer
/// that does not read them gets no more of what is long.
class gateway_portal : public sturdy<gateway_portal_impl::base> {
public:
  /// `closed` is set when it has ended and all its answers have been sent.
  gateway_portal(caf::actor_config& cfg, gateway door,
                 std::shared_ptr<std::promise<void>> closed,
                 portal_network network = {});

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.gateway_portal";
  }

private:
  /// What is on its way to a peer.
  struct peer {
    /// Its requests that are not answered.
    std::size_t open = 0;
    std::uint64_t sent = 0;
    /// Of `sent`, so much when it was asked for last.
    std::uint64_t asked_at = 0;
    /// What was unread then, as far as it is known.
    std::size_t unread = 0;
    bool asking = false;
  };

  /// Whom a message comes from. Each handler asks first: the guard lets no more come than
  /// what has been taken makes room for.
  caf::node_id take_message();
  /// Whether an answer of that size may still be sent.
  bool may_send(const caf::node_id& to, std::size_t bytes);
  void sent(const caf::node_id& to, std::size_t bytes);
  void ask_unread(const caf::node_id& of);
  void read_unread(const peer_unread& what);
  void keep_to_unread();

  template <class Answer, class Request>
  caf::result<Answer> pass(Request& x);

  gateway door_;
  std::shared_ptr<std::promise<void>> closed_;
  portal_network network_;
  /// Those that have something on its way.
  std::unordered_map<caf::node_id, peer> peers_;
  /// What is unread or on its way, of all of them.
  std::size_t unread_ = 0;
  /// A tick is under way, after which they are asked again.
  bool asks_again_ = false;
  std::uint64_t tickets_ = 0;
  /// How to refuse each request that is not answered.
  std::unordered_map<std::uint64_t, std::function<void(const caf::error&)>>
    open_;
};

} // namespace gd::actors
