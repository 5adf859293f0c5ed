#pragma once

#include <gd/actors/gateway/unread.hpp>
#include <gd/actors/node/node.hpp>
#include <gd/actors/node/self.hpp>

#include <gd/engine/intake/end_watch.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/intake/shares.hpp>
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

/// Who asks, and how much of the room it has for that.
struct asker {
  sender_id who = 0;
  std::size_t bytes = 0;
  /// The other node that it is on; null: it is here.
  caf::node_id far{};
};

/// What is asked and waits for its turn.
template <class Request>
struct asked_request {
  std::uint64_t ticket;
  Request what;
  /// Another node asks.
  bool far = false;
};

/// An intake, and what waits before it: it gets what makes a group, from all who have
/// something in turn.
template <class Intake>
struct entrance {
  using request = typename Intake::request;

  explicit entrance(intake_settings how) : intake(std::move(how)) {
    // nop
  }

  Intake intake;
  fair_queue<asked_request<request>> lobby;
};

/// What is only read, of all who ask in turn, on a connection of its own.
struct reading_line {
  struct reading {
    std::uint64_t ticket;
    pq::call what;
    database::clock::time_point expires;
  };

  std::size_t connection_slot;
  fair_queue<reading> waiting{};
  std::size_t under_way = 0;
  /// What is under way began then, or later.
  database::clock::time_point free_since{};
};

/// The gateway with its private messages.
using gateway_impl
  = extended<gateway, void(unit_done), void(instance_ended), void(ends_told),
             void(tick), void(node_gone), void(answers_unread), void(drain)>;

/// Does the gateway's work: groups the inserts, signals and transitions of all senders
/// into shared transactions, and reads for them.
class gateway_backend : public gateway_impl::base {
public:
  gateway_backend(caf::actor_config& cfg, node_ptr home);

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.gateway_backend";
  }

private:
  using clock = database::clock;

  template <class Answer>
  struct open_request {
    caf::typed_response_promise<Answer> promise;
    asker by;
  };
  /// An `insert_all` whose rows are answered one by one.
  struct bulk {
    open_request<gd::inserted_all> whole;
    gd::inserted_all answer;
    std::size_t missing = 0;
  };
  struct bulk_row {
    std::shared_ptr<bulk> of;
    std::size_t index;
  };
  using insert_promise = std::variant<open_request<gd::inserted>, bulk_row>;

  caf::result<gd::inserted_all> insert_many(gd::insert_all& x);
  void answer_insert(std::uint64_t ticket, const result<gd::inserted>& answer);
  void fill(bulk_row& row, const result<gd::inserted>& answer);
  /// Those of pickers that have gone are released.
  void hand_in(std::vector<claim_slots::claim> claims);
  void finish(std::uint64_t ticket, pq::reply reply);
  /// `answer_of`: makes it of the rows.
  template <class Answer, class Request, class F>
  caf::result<Answer> read(reading_line& line, const Request& x, pq::call what,
                           F answer_of);
  /// `end`: answers with what comes of it, or asks for more.
  template <class Answer, class Request, class F>
  caf::result<Answer> read_and(reading_line& line, const Request& x,
                               pq::call what, F end);
  void ask(reading_line& line, const asker& by, pq::call what,
           std::function<void(const pq::reply&)> end);
  template <class Request>
  caf::result<gd::instance> look_up(const Request& x);
  /// Answers what was only read.
  template <class Answer>
  void settle(open_request<Answer>& to, result<Answer> answer);
  void read_next(reading_line& line);
  void finish_reading(std::uint64_t ticket, const pq::reply& reply);
  void end_reading(std::uint64_t ticket, const error& why);
  template <class Request>
  caf::result<gd::awaited> await_end(const Request& x);
  void look_up_ends(clock::time_point now);
  void answer_ends(end_watch::answers all);
  void end_waits(const error& why);
  void forget(const caf::node_id& gone);
  template <class Intake, class Answer>
  void finish_intake(entrance<Intake>& at, pq::reply reply,
                     std::atomic<std::int64_t>& drawn, Answer answer);
  /// As much as makes a group comes in.
  template <class Intake>
  void let_in(entrance<Intake>& at, clock::time_point now);
  template <class Intake>
  void send_next(entrance<Intake>& at, std::uint64_t unit,
                 clock::time_point now);
  /// A request has come; it has to be sent in time.
  void note_arrival(std::uint64_t ticket);
  clock::time_point late_due(clock::time_point now) const;
  void note_late(clock::time_point now);
  /// Answers what has waited too long, and is not being sent.
  void give_up_late(clock::time_point now);
  /// Who waits for an answer, by ticket.
  template <class Answer>
  using promises = std::unordered_map<std::uint64_t, open_request<Answer>>;
  /// Of the message that is handled.
  asker who_asks(std::size_t price);
  template <class Answer, class Intake, class Promises>
  caf::result<Answer> take_in(entrance<Intake>& at, Promises& waiting,
                              typename Intake::request& x);
  template <class Answer>
  void deliver(open_request<Answer>& to, const result<Answer>& answer);
  template <class Answer>
  void answer_one(promises<Answer>& waiting, std::uint64_t ticket,
                  const result<Answer>& answer);
  void refuse(std::uint64_t ticket, const error& why);
  /// For `tell_answers`.
  template <class Answer>
  void note(const result<Answer>& answer);
  void tell_answers();
  /// It may be asked again.
  template <class Answer>
  void keep_from_who_does_not_read(const asker& to, result<Answer>& answer);
  /// Whether it reads its answers, so that one of that size may be sent.
  result<void> may_tell(const asker& to, std::size_t bytes);
  void keep_to_unread(const answers_unread& what);
  /// What is asked has been answered, or what there is time for.
  void leave_if_answered();
  void drive();
  /// Begins the next unit of this intake: at once for a lone sender, and for
  /// several when the actors that are ready have had their turn: what they send
  /// shares a group. While a unit is under way, its end does that.
  void drive_soon(const intake_base& what);

  node_ptr home_;
  /// The last unit had several requests.
  bool several_ = false;
  entrance<insert_intake> inserts_;
  entrance<signal_intake> signals_;
  entrance<transition_intake> transitions_;
  std::uint64_t tickets_;
  alarm alarm_;
  /// What has come, in that order, maybe some that has been answered.
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
  struct open_reading {
    reading_line* line;
    asker by;
    std::function<void(const pq::reply&)> answer;
  };
  std::unordered_map<std::uint64_t, open_reading> reading_;
  reading_line reads_;
  reading_line long_reads_;
  /// Who waits for ends; no arrivals: each says for how long.
  promises<gd::awaited> awaiting_;
  end_watch ends_;
  unread_answers unread_;
  /// An `answers_unread` to itself is under way, by which it asks again.
  bool asks_again_ = false;
  /// The engine stops: nothing more comes.
  bool leaving_ = false;
};

/// The gateway with the messages that tell it its backend, and what other nodes say
/// beside their requests.
using gateway_server_impl
  = extended<gateway, void(set_backend), void(close_gateway),
             void(link_message), hint_noted(node_hint)>;

/// What users and other nodes hold: forwards to the backend, and outlives its restarts.
/// What is more than a sender's share does not even come into its mailbox. Nothing that
/// anybody sends ends it but `close_gateway`, behind what has come before.
class gateway_server : public sturdy<gateway_server_impl::base> {
public:
  gateway_server(caf::actor_config& cfg, node_ptr home, gateway backend);

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.gateway";
  }

private:
  caf::error refusal(const caf::mailbox_element& x) override;
  /// Whether there is room for what somebody asks.
  result<void> admit(const caf::strong_actor_ptr& from, std::size_t bytes);
  /// Null: it is here.
  std::shared_ptr<far_nodes> far_of(const caf::strong_actor_ptr& from) const;
  result<void> admit_said(const caf::strong_actor_ptr& from,
                          const link_message& x);
  template <class Row>
  caf::result<typename Row::answer> forward(typename Row::asked& x);
  void pass_on(link_message& x);

  node_ptr home_;
  gateway backend_;
  std::atomic<bool> closed_ = false;
};

} // namespace gd::actors
