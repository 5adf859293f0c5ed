#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/actors/node/self.hpp>

#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/intake/target_intake.hpp>

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
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
  alarm alarm_;
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

} // namespace gd::actors
