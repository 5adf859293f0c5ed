#include <gd/actors/gateway/gateway.hpp>

#include <gd/pq/ensure.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace gd::actors {

namespace {

/// Tickets of units that are no single request's.
constexpr std::uint64_t insert_unit = 1;
constexpr std::uint64_t signal_unit = 2;
constexpr std::uint64_t transition_unit = 3;
constexpr std::uint64_t first_request = 100;

intake_settings settings_of(const node& home) {
  const auto& cfg = home.config;
  return {.machines = home.machines,
          .limits = cfg.limits,
          .rows = static_cast<std::size_t>(cfg.rows_per_turn),
          .bytes = static_cast<std::size_t>(cfg.bytes_per_turn),
          .most_bytes = static_cast<std::size_t>(cfg.bytes_waiting)};
}

intake_settings with_claims(node& home) {
  auto how = settings_of(home);
  how.claiming = {.desk = home.claims,
                  .incarnation = home.incarnation,
                  .next = home.token_ranges++ * token_range + 1,
                  .lease = home.config.lease};
  return how;
}

/// Look-ups and counts that wait at the most: nobody needs more at a time.
constexpr std::size_t most_reads = 100'000;

caf::error too_many_reads() {
  return to_caf({errc::overloaded,
                 "too many look-ups and counts wait already: expected at most "
                   + std::to_string(most_reads),
                 {}});
}

/// Of a page of rows.
template <class Page, class Row>
result<Page> rows_as(const pq::rows& rows) {
  return Page{store::read<Row>(rows)};
}

template <class Answer>
constexpr std::string_view kind_of = "transition";
template <>
constexpr std::string_view kind_of<gd::inserted> = "insert";
template <>
constexpr std::string_view kind_of<gd::signalled> = "signal";

template <class Answer>
std::string_view name_of(const result<Answer>& answer) {
  if (!answer)
    return to_string(answer.error().code);
  if constexpr (requires { answer->duplicate; })
    return answer->duplicate ? "duplicate" : "accepted";
  return "accepted";
}

template <class Promise, class T>
void deliver(Promise& promise, const result<T>& answer) {
  if (answer)
    promise.deliver(*answer);
  else
    promise.deliver(to_caf(answer.error()));
}

} // namespace

gateway_worker::gateway_worker(caf::actor_config& cfg, node_ptr home)
  : gateway_impl::base(cfg),
    home_(std::move(home)),
    inserts_(with_claims(*home_)),
    signals_(settings_of(*home_)),
    transitions_(settings_of(*home_)),
    tickets_(first_request) {
  // nop
}

gateway_worker::behavior_type gateway_worker::make_behavior() {
  return {
    [this](gd::insert& x) {
    return take_in<gd::inserted>(inserts_, inserting_, x);
    },
    [this](gd::insert_all& x) { return insert_many(x); },
    [this](gd::signal& x) {
    return take_in<gd::signalled>(signals_, signalling_, x);
  },
    [this](gd::transition& x) {
    return take_in<gd::transitioned>(transitions_, moving_, x);
    },
    [this](const gd::look_up& x) -> caf::result<gd::instance> {
      if (auto ok = check_address("id", x.id, x.key, home_->config.limits); !ok)
        return to_caf(ok.error());
      return read<gd::instance>(
        database::public_lane, store::look_up(x),
        [id = x.id, key = x.key](const pq::rows& rows) -> result<gd::instance> {
          if (auto found = store::read_instance(rows))
            return std::move(*found);
          return store::no_instance(id, key);
        });
    },
    [this](gd::stats_query) {
    return read<gd::stats>(home_->spare_lane(), store::stats(),
                           rows_as<gd::stats, gd::stats_row>);
    },
    [this](const gd::history_query& x) -> caf::result<gd::history_page> {
      if (auto ok = check_address("id", x.id, x.key, home_->config.limits); !ok)
        return to_caf(ok.error());
      if (auto ok = check_limit(x.limit); !ok)
        return to_caf(ok.error());
      return read<gd::history_page>(database::public_lane, store::history(x),
                                    rows_as<gd::history_page, ledger_entry>);
    },
    [this](const gd::in_step_query& x) -> caf::result<gd::in_step_page> {
      if (auto ok = check_limit(x.limit); !ok)
        return to_caf(ok.error());
      // With a status, it may read all that are in the step.
      auto lane = x.status.empty() ? database::public_lane
                                   : home_->spare_lane();
      return read<gd::in_step_page>(lane, store::in_step(x),
                                    rows_as<gd::in_step_page, in_step_row>);
    },
    [this](const gd::why_query& x) -> caf::result<gd::why> {
      if (auto ok = check_address("id", x.id, x.key, home_->config.limits); !ok)
        return to_caf(ok.error());
      return read<gd::why>(
        database::public_lane, store::why(x),
        [id = x.id, key = x.key](const pq::rows& rows) -> result<gd::why> {
          if (auto found = store::read_one<gd::why>(rows))
            return std::move(*found);
          return store::no_instance(id, key);
        });
    },
    [this](unit_done& x) { finish(x.ticket, std::move(*x.reply)); },
    [this](tick x) {
    if (alarm_.rings(x))
      drive();
    },
    };
}

void gateway_worker::on_exit() {
  hand_in(inserts_.abandon());
  // Nobody else would: an actor that dies with an open promise answers nobody.
  error down{errc::unknown_fate,
             "the gateway is down; what was asked "
             "may or may not have happened",
             {}};
  auto why = to_caf(down);
  for (auto& [ticket, one] : inserting_) {
    if (auto* single = std::get_if<0>(&one))
      single->deliver(why);
    else if (auto& of = *std::get<1>(one).of; std::exchange(of.missing, 0) > 0)
      of.promise.deliver(why);
  }
  inserting_.clear();
  for (auto& [ticket, promise] : signalling_)
    promise.deliver(why);
  signalling_.clear();
  for (auto& [ticket, promise] : moving_)
    promise.deliver(why);
  moving_.clear();
  for (auto& [ticket, answer] : reading_)
    answer({{}, down, 0});
  reading_.clear();
}

template <class Answer, class Intake, class Promises, class Request>
caf::result<Answer> gateway_worker::take_in(Intake& intake, Promises& waiting,
                                            Request& x) {
  auto ticket = ++tickets_;
  if (auto ok = intake.add(ticket, std::move(x)); !ok) {
    note<Answer>(ok.error());
    tell_answers();
    return to_caf(ok.error());
  }
  // A promise that is made is what answers: none for what is refused at once.
  auto promise = make_response_promise<Answer>();
  waiting.emplace(ticket, promise);
  note_arrival(ticket);
  drive_soon(intake);
  return promise;
}

// -- inserts ------------------------------------------------------------------

caf::result<gd::inserted_all> gateway_worker::insert_many(gd::insert_all& x) {
  if (x.rows.empty())
    return gd::inserted_all{};
  auto promise = make_response_promise<gd::inserted_all>();
  auto all = std::make_shared<bulk>();
  all->promise = promise;
  all->missing = x.rows.size();
  all->answer.rows.resize(x.rows.size());
  for (std::size_t i = 0; i < x.rows.size(); ++i) {
    bulk_row row{all, i};
    auto ticket = ++tickets_;
    if (auto ok = inserts_.add(ticket, std::move(x.rows[i])); !ok) {
      note<gd::inserted>(ok.error());
      fill(row, ok.error());
    } else {
      inserting_.emplace(ticket, std::move(row));
      note_arrival(ticket);
    }
  }
  drive_soon(inserts_);
  tell_answers();
  return promise;
}

void gateway_worker::fill(bulk_row& row, const result<gd::inserted>& answer) {
  auto& slot = row.of->answer.rows[row.index];
  if (answer) {
    slot.id = answer->id;
    slot.duplicate = answer->duplicate;
  } else {
    slot.code = answer.error().code;
    slot.message = answer.error().message;
  }
  if (--row.of->missing == 0)
    row.of->promise.deliver(std::move(row.of->answer));
}

void gateway_worker::answer_insert(std::uint64_t ticket,
                                   const result<gd::inserted>& answer) {
  auto found = inserting_.extract(ticket);
  if (found.empty())
    return;
  note(answer);
  if (auto* single = std::get_if<0>(&found.mapped()))
    deliver(*single, answer);
  else
    fill(std::get<1>(found.mapped()), answer);
}

template <class Answer>
void gateway_worker::answer_one(promises<Answer>& waiting, std::uint64_t ticket,
                                const result<Answer>& answer) {
  auto found = waiting.extract(ticket);
  if (found.empty())
    return;
  note(answer);
  deliver(found.mapped(), answer);
}

template <class Answer>
void gateway_worker::note(const result<Answer>& answer) {
  auto name = name_of(answer);
  for (auto& x : answers_)
    if (x.what == kind_of<Answer> && x.answer == name) {
      ++x.times;
      return;
    }
  answers_.push_back({kind_of<Answer>, name, 1});
}

void gateway_worker::tell_answers() {
  for (const auto& x : answers_)
    home_->tell(x);
  answers_.clear();
}

void gateway_worker::hand_in(std::vector<claim_desk::claim> claims) {
  std::vector<std::string> orphans;
  for (auto& x : claims) {
    auto token = x.token;
    if (!home_->claims->hand_in(std::move(x)))
      orphans.push_back(std::move(token));
  }
  if (!orphans.empty()) // nobody else has a connection for it
    home_->db->submit(
      database::public_lane, {{store::release_lost(orphans)}, false},
      [](const pq::reply&) {}, home_->config.patience);
}

// -- units --------------------------------------------------------------------

template <class Intake, class Answer>
void gateway_worker::finish_intake(Intake& intake, pq::reply reply,
                                   std::atomic<std::int64_t>& drawn,
                                   Answer answer) {
  auto now = system().clock().now();
  note_late(now);
  bool withdrawn = !reply.ok() && reply.failure->code == errc::unavailable
                   && intake.oldest_sent() <= late_;
  auto report = intake.finish(std::move(reply), now, withdrawn);
  drawn += report.drawn;
  // First: the sooner the picker knows, the sooner it has places again.
  if constexpr (requires { report.claims; })
    hand_in(std::move(report.claims));
  if (!report.answers.empty())
    several_ = report.answers.size() > 1;
  for (auto& x : report.answers)
    answer(x.ticket, x.answer);
  home_->wake(report.queues, report.anywhere);
  give_up_late(now);
  drive_soon(intake);
  tell_answers();
}

void gateway_worker::finish(std::uint64_t ticket, pq::reply reply) {
  if (ticket == insert_unit)
    return finish_intake(inserts_, std::move(reply), home_->drawn.instances,
                         [this](auto t, auto& x) { answer_insert(t, x); });
  if (ticket == signal_unit)
    return finish_intake(signals_, std::move(reply), home_->drawn.signals,
                         [this](auto t, auto& x) {
      answer_one(signalling_, t, x);
    });
  if (ticket == transition_unit)
    return finish_intake(transitions_, std::move(reply), home_->drawn.signals,
                         [this](auto t, auto& x) {
      answer_one(moving_, t, x);
    });
  if (auto found = reading_.extract(ticket); !found.empty())
    found.mapped()(reply);
}

template <class Answer, class F>
caf::result<Answer> gateway_worker::read(std::size_t lane, pq::call what,
                                         F answer_of) {
  if (reading_.size() >= most_reads)
    return too_many_reads();
  auto promise = make_response_promise<Answer>();
  reading_.emplace(++tickets_,
                   [promise, answer_of](const pq::reply& reply) mutable {
    deliver(promise, reply.ok() ? answer_of(reply.results.front())
                                : result<Answer>{*reply.failure});
  });
  submit(this, *home_->db, lane, {{std::move(what)}, false}, tickets_,
         home_->config.patience);
  return promise;
}

template <class Intake>
void gateway_worker::send_next(Intake& intake, std::uint64_t unit,
                               clock::time_point now) {
  auto work = intake.begin(now);
  if (!work)
    return;
  auto oldest = std::lower_bound(
    arrivals_.begin(), arrivals_.end(), intake.oldest_sent(),
    [](const arrival& x, std::uint64_t ticket) { return x.ticket < ticket; });
  ensure(oldest != arrivals_.end(), "what is sent has not been given up");
  submit(this, *home_->db, database::public_lane, std::move(*work), unit,
         oldest->expires - now);
}

void gateway_worker::note_arrival(std::uint64_t ticket) {
  auto now = system().clock().now();
  arrivals_.push_back({ticket, now + home_->config.patience});
  // What is under way may not end in time.
  alarm_.set(this, arrivals_.front().expires);
}

void gateway_worker::note_late(clock::time_point now) {
  while (!arrivals_.empty()) {
    const auto& oldest = arrivals_.front();
    bool open = inserting_.contains(oldest.ticket)
                || signalling_.contains(oldest.ticket)
                || moving_.contains(oldest.ticket);
    if (open && oldest.expires > now)
      return;
    if (open)
      late_ = oldest.ticket;
    arrivals_.pop_front();
  }
}

void gateway_worker::give_up_late(clock::time_point now) {
  note_late(now);
  if (late_ == 0)
    return;
  auto why = home_->db->why_waiting(database::public_lane);
  for (auto& x : inserts_.give_up(late_, why, now))
    answer_insert(x.ticket, x.answer);
  for (auto& x : signals_.give_up(late_, why))
    answer_one(signalling_, x.ticket, x.answer);
  for (auto& x : transitions_.give_up(late_, why))
    answer_one(moving_, x.ticket, x.answer);
  if (!inserts_.under_way() && !signals_.under_way()
      && !transitions_.under_way())
    late_ = 0;
}

void gateway_worker::drive() {
  auto now = system().clock().now();
  give_up_late(now);
  send_next(inserts_, insert_unit, now);
  send_next(signals_, signal_unit, now);
  send_next(transitions_, transition_unit, now);
  auto at = std::min(
    {inserts_.due(now), signals_.due(now), transitions_.due(now)});
  if (!arrivals_.empty())
    at = std::min(at, arrivals_.front().expires);
  alarm_.set(this, at);
  tell_answers();
}

void gateway_worker::drive_soon(const intake_base& what) {
  if (what.under_way() || alarm_.is_set_to_now())
    return;
  if (!several_)
    return drive();
  // Through the clock, not the mailbox: CAF runs this actor until its mailbox is
  // empty, but what another thread sends comes behind all actors that are ready.
  alarm_.set_now(this);
}

// -- the door -----------------------------------------------------------------

gateway_door::gateway_door(caf::actor_config& cfg, gateway worker)
  : gateway_door_impl::base(cfg), worker_(std::move(worker)) {
  // nop
}

template <class Answer, class Request>
caf::result<Answer> gateway_door::forward(Request& x) {
  if (!worker_)
    return to_caf({errc::unavailable, "the gateway is being restarted", {}});
  return forward_to(this, worker_, std::move(x));
}

gateway_door::behavior_type gateway_door::make_behavior() {
  refuse_unknown(this);
  return requests::handled_by<behavior_type>(
    [this](auto row, auto& x) {
    return forward<typename decltype(row)::answer>(x);
    },
    [this](set_worker& x) {
    worker_ = x.worker ? caf::actor_cast<gateway>(x.worker) : gateway{};
  });
}

void gateway_door::on_exit() {
  worker_ = nullptr;
}

} // namespace gd::actors
