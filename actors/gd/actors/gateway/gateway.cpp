#include <gd/actors/gateway/gateway.hpp>

#include <gd/actors/node/size.hpp>
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
constexpr std::uint64_t end_unit = 4;
constexpr std::uint64_t first_request = 100;

intake_settings settings_of(const node& home) {
  const auto& cfg = home.config;
  return {.machines = home.machines,
          .limits = cfg.limits,
          .rows = static_cast<std::size_t>(cfg.rows_per_turn),
          .bytes = static_cast<std::size_t>(cfg.bytes_per_turn)};
}

intake_settings with_claims(node& home) {
  auto how = settings_of(home);
  how.claiming = {.slots = home.claims,
                  .incarnation = home.incarnation,
                  .next = home.token_ranges++ * token_range + 1,
                  .lease = home.config.lease};
  return how;
}

/// Units of reads that are given to the database at a time: while one is answered, the
/// next is there.
constexpr std::size_t reads_at_once = 2;
/// What a read costs in microseconds, as long as it is not known.
constexpr std::uint64_t usual_read = 100;
/// What another node asks fills a group as so much of this one's: nobody waits for a group
/// that is longer than those of a few nodes need.
constexpr std::size_t far_rows = 5;
/// What is asked when the engine stops is answered in this time, as far as it can be.
constexpr std::chrono::seconds last_answers{2};
/// A timer keeps its actor, and what the users' machines keep, until it ends.
constexpr std::chrono::seconds longest_alarm{1};
/// How soon a node with something unread is looked at again.
constexpr std::chrono::milliseconds ask_interval{100};

/// What a request takes beside its content: its entry, and what answers it, which of what
/// is read is more.
constexpr std::size_t beside_request = 1'024;
constexpr std::size_t usual_answer = 8'192;

template <class Request>
std::size_t bytes_of(const Request& x) {
  return beside_request + about_bytes(x);
}

/// What waits for long has no answer meanwhile.
template <bool Reads, class Request>
std::size_t price_of(const Request& x) {
  return bytes_of(x) + (Reads && !waits_long<Request> ? usual_answer : 0);
}

end_watch::settings watch_settings(const node& home) {
  const auto& cfg = home.config;
  return {.limits = cfg.limits,
          .poll = cfg.poll,
          .bytes = static_cast<std::size_t>(cfg.bytes_per_turn),
          .ids = home.awaited};
}

/// By number: others than those here are one for each node.
sender_id number_of(const caf::strong_actor_ptr& from,
                    const caf::node_id& here) {
  constexpr auto far = sender_id{1} << 63;
  if (!from)
    return 0;
  return from->node() == here ? from->id()
                              : far | std::hash<caf::node_id>{}(from->node());
}

/// A token ends executions (`link::outcome`): another node learns who runs what, and not
/// under which token.
void hide_token(gd::instance& x) {
  if (x.locked_by)
    for (int i = 0; i < 2; ++i)
      x.locked_by->resize(
        std::min(x.locked_by->rfind('/'), x.locked_by->size()));
}
template <class T>
void hide_token(const T&) {
  // nop
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
constexpr std::string_view kind_of<gd::inserted_all> = "insert";
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

} // namespace

gateway_backend::gateway_backend(caf::actor_config& cfg, node_ptr home)
  : gateway_impl::base(cfg),
    home_(std::move(home)),
    inserts_(with_claims(*home_)),
    signals_(settings_of(*home_)),
    transitions_(settings_of(*home_)),
    tickets_(first_request),
    reads_{.connection_slot = home_->read_slot()},
    long_reads_{.connection_slot = home_->long_read_slot()},
    ends_(watch_settings(*home_)),
    unread_([this](const caf::node_id& of, std::uint64_t sent) {
      if (auto far = home_->far.get())
        far->ask_unread(of, [self = weak_ref{this}, of, sent](std::size_t n) {
          self.tell(answers_unread{of, sent, n});
        });
    }) {
  home_->asked.open(static_cast<std::size_t>(home_->config.bytes_waiting));
}

gateway_backend::behavior_type gateway_backend::make_behavior() {
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
    }, [this](const gd::look_up& x) { return look_up(x); },
    [this](const gd::await_result& x) { return await_end(x); },
    [this](const gd::stats_query& x) {
    return read<gd::stats>(long_reads_, x, store::stats(),
                           rows_as<gd::stats, gd::stats_row>);
    },
    [this](const gd::history_query& x) {
    return read<gd::history_page>(reads_, x, store::history(x),
                                  rows_as<gd::history_page, ledger_entry>);
    },
    [this](const gd::in_step_query& x) {
    // With a status, it may read all that are in the step.
    return read<gd::in_step_page>(x.status.empty() ? reads_ : long_reads_, x,
                                  store::in_step(x),
                                  rows_as<gd::in_step_page, in_step_row>);
    },
    [this](const gd::why_query& x) {
    return read<gd::why>(
      reads_, x, store::why(x),
      [id = x.id, key = x.key](const pq::rows& rows) -> result<gd::why> {
        if (auto found = store::read_one<gd::why>(rows))
          return std::move(*found);
        return store::no_instance(id, key);
      });
    },
    [this](unit_done& x) {
    finish(x.ticket, std::move(*x.reply));
    leave_if_answered();
    }, [this](const instance_ended& x) { answer_ends(ends_.hear(x.how)); },
    [this](const ends_told& x) {
    ends_.hear_of(x.ids);
    look_up_ends(system().clock().now());
    },
    [this](tick x) {
    if (alarm_.rings(x))
      drive();
    leave_if_answered();
    }, [this](const node_gone& x) { forget(x.which); },
    [this](const answers_unread& x) { keep_to_unread(x); },
    [this](drain x) {
    if (std::exchange(leaving_, true))
      return quit(caf::exit_reason::user_shutdown);
    send_self_after(this, x.grace, x);
    end_waits({errc::stopped, "the engine has stopped", {}});
    drive();
    leave_if_answered();
    },
    };
}

void gateway_backend::on_exit() {
  hand_in(inserts_.intake.abandon());
  // Nobody else would: an actor that dies with an open promise answers nobody.
  error down{errc::unknown_fate,
             "the gateway is down; what was asked "
             "may or may not have happened",
             {}};
  for (auto& [ticket, one] : inserting_) {
    if (auto* single = std::get_if<0>(&one))
      deliver<gd::inserted>(*single, down);
    else if (auto& of = *std::get<1>(one).of; std::exchange(of.missing, 0) > 0)
      deliver<gd::inserted_all>(of.whole, down);
  }
  inserting_.clear();
  for (auto& [ticket, open] : signalling_)
    deliver<gd::signalled>(open, down);
  signalling_.clear();
  for (auto& [ticket, open] : moving_)
    deliver<gd::transitioned>(open, down);
  moving_.clear();
  for (auto& [ticket, open] : reading_)
    open.answer({{}, down, 0});
  reading_.clear();
  end_waits(down);
}

asker gateway_backend::who_asks(std::size_t price) {
  const auto& from = current_sender();
  asker by{.who = number_of(from, node()), .bytes = price};
  if (from && from->node() != node())
    by.far = from->node();
  return by;
}

template <class Answer>
void gateway_backend::deliver(open_request<Answer>& to,
                              const result<Answer>& answer) {
  home_->asked.release(to.by.who, to.by.bytes);
  if (to.by.far)
    unread_.sent(to.by.far,
                 bytes_of_message + (answer ? about_bytes(*answer) : 0));
  if (answer)
    to.promise.deliver(*answer);
  else
    to.promise.deliver(to_caf(answer.error()));
}

template <class Answer, class Intake, class Promises>
caf::result<Answer> gateway_backend::take_in(entrance<Intake>& at,
                                             Promises& waiting,
                                             typename Intake::request& x) {
  // Whom a promise that is made takes over.
  auto by = who_asks(price_of<false>(x));
  auto promise = make_response_promise<Answer>();
  auto ticket = ++tickets_;
  waiting.emplace(ticket, open_request<Answer>{promise, by});
  at.lobby.push(by.who, {ticket, std::move(x), static_cast<bool>(by.far)});
  note_arrival(ticket);
  drive_soon(at.intake);
  return promise;
}

// -- inserts ------------------------------------------------------------------

caf::result<gd::inserted_all> gateway_backend::insert_many(gd::insert_all& x) {
  auto by = who_asks(price_of<false>(x));
  open_request<gd::inserted_all> whole{
    make_response_promise<gd::inserted_all>(), by};
  if (x.rows.empty()) {
    deliver<gd::inserted_all>(whole, gd::inserted_all{});
    return whole.promise;
  }
  auto all = std::make_shared<bulk>();
  all->whole = whole;
  all->missing = x.rows.size();
  all->answer.rows.resize(x.rows.size());
  for (std::size_t i = 0; i < x.rows.size(); ++i) {
    auto ticket = ++tickets_;
    inserting_.emplace(ticket, bulk_row{all, i});
    inserts_.lobby.push(
      by.who, {ticket, std::move(x.rows[i]), static_cast<bool>(by.far)});
    note_arrival(ticket);
  }
  drive_soon(inserts_.intake);
  return whole.promise;
}

void gateway_backend::fill(bulk_row& row, const result<gd::inserted>& answer) {
  auto& of = *row.of;
  auto& slot = of.answer.rows[row.index];
  if (answer) {
    slot.id = answer->id;
    slot.duplicate = answer->duplicate;
  } else {
    slot.code = answer.error().code;
    slot.message = answer.error().message;
  }
  if (--of.missing == 0)
    deliver<gd::inserted_all>(of.whole, std::move(of.answer));
}

void gateway_backend::answer_insert(std::uint64_t ticket,
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
void gateway_backend::answer_one(promises<Answer>& waiting,
                                 std::uint64_t ticket,
                                 const result<Answer>& answer) {
  auto found = waiting.extract(ticket);
  if (found.empty())
    return;
  note(answer);
  deliver(found.mapped(), answer);
}

template <class Answer>
void gateway_backend::note(const result<Answer>& answer) {
  auto name = name_of(answer);
  for (auto& x : answers_)
    if (x.what == kind_of<Answer> && x.answer == name) {
      ++x.times;
      return;
    }
  answers_.push_back({kind_of<Answer>, name, 1});
}

void gateway_backend::tell_answers() {
  for (const auto& x : answers_)
    home_->tell(x);
  answers_.clear();
}

void gateway_backend::hand_in(std::vector<claim_slots::claim> claims) {
  std::vector<std::string> orphans;
  for (auto& x : claims) {
    auto token = x.token;
    if (!home_->claims->hand_in(std::move(x)))
      orphans.push_back(std::move(token));
  }
  if (!orphans.empty()) // nobody else has a connection for it
    home_->db->submit(
      database::public_slot, {{store::release_lost(orphans)}, false},
      [](const pq::reply&) {}, home_->config.patience);
}

// -- units --------------------------------------------------------------------

template <class Intake, class Answer>
void gateway_backend::finish_intake(entrance<Intake>& at, pq::reply reply,
                                    std::atomic<std::int64_t>& drawn,
                                    Answer answer) {
  auto& intake = at.intake;
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

void gateway_backend::finish(std::uint64_t ticket, pq::reply reply) {
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
  if (ticket == end_unit) {
    auto now = system().clock().now();
    answer_ends(ends_.finish(reply, now));
    if (auto ids = ends_.take_going_on(); !ids.empty())
      if (auto hints = home_->children.find(role::hints))
        anon(hints, ends_awaited{std::move(ids)});
    return look_up_ends(now);
  }
  finish_reading(ticket, reply);
}

void gateway_backend::refuse(std::uint64_t ticket, const error& why) {
  answer_insert(ticket, why);
  answer_one<gd::signalled>(signalling_, ticket, why);
  answer_one<gd::transitioned>(moving_, ticket, why);
}

template <class Intake>
void gateway_backend::let_in(entrance<Intake>& at, clock::time_point now) {
  auto& intake = at.intake;
  if (at.lobby.empty() || intake.under_way() || intake.backs_off(now)
      || intake.due(now) <= now)
    return;
  auto rows = static_cast<std::size_t>(home_->config.rows_per_turn);
  auto bytes = static_cast<std::size_t>(home_->config.bytes_per_turn);
  for (std::size_t n = 0, taken = 0;
       !at.lobby.empty() && n < rows && taken < bytes;) {
    std::size_t size = 0;
    auto next = at.lobby.pop(
      [&size](const auto& x) { return size = bytes_of(x.what); });
    if (auto ok = intake.add(next.ticket, std::move(next.what)); !ok) {
      refuse(next.ticket, ok.error());
      continue;
    }
    n += next.far ? far_rows : 1;
    taken += next.far ? far_rows * size : size;
  }
}

template <class Intake>
void gateway_backend::send_next(entrance<Intake>& at, std::uint64_t unit,
                                clock::time_point now) {
  let_in(at, now);
  auto work = at.intake.begin(now);
  if (!work)
    return;
  auto oldest = std::lower_bound(
    arrivals_.begin(), arrivals_.end(), at.intake.oldest_sent(),
    [](const arrival& x, std::uint64_t ticket) { return x.ticket < ticket; });
  ensure(oldest != arrivals_.end(), "what is sent has not been given up");
  submit(this, *home_->db, database::public_slot, std::move(*work), unit,
         oldest->expires - now);
}

void gateway_backend::note_arrival(std::uint64_t ticket) {
  auto now = system().clock().now();
  arrivals_.push_back({ticket, now + home_->config.patience});
  // What is under way may not end in time.
  alarm_.set(this, late_due(now));
}

gateway_backend::clock::time_point
gateway_backend::late_due(clock::time_point now) const {
  return std::min(arrivals_.front().expires, now + longest_alarm);
}

void gateway_backend::note_late(clock::time_point now) {
  // In an outage, who stops waits for nothing.
  bool in_vain = leaving_ && !home_->db->connected_since(database::public_slot);
  while (!arrivals_.empty()) {
    const auto& oldest = arrivals_.front();
    bool open = inserting_.contains(oldest.ticket)
                || signalling_.contains(oldest.ticket)
                || moving_.contains(oldest.ticket)
                || reading_.contains(oldest.ticket);
    if (open && oldest.expires > now && !in_vain)
      return;
    if (open)
      late_ = oldest.ticket;
    arrivals_.pop_front();
  }
}

void gateway_backend::give_up_late(clock::time_point now) {
  note_late(now);
  if (late_ == 0)
    return;
  auto why = home_->db->why_waiting(database::public_slot);
  auto is_late = [this](const auto& x) { return x.ticket <= late_; };
  auto empty_lobby = [&](auto& of) {
    for (auto& x : of.lobby.remove_if(is_late))
      refuse(x.ticket, why);
  };
  empty_lobby(inserts_);
  for (auto& x : inserts_.intake.give_up(late_, why, now))
    answer_insert(x.ticket, x.answer);
  empty_lobby(signals_);
  for (auto& x : signals_.intake.give_up(late_, why))
    answer_one(signalling_, x.ticket, x.answer);
  empty_lobby(transitions_);
  for (auto& x : transitions_.intake.give_up(late_, why))
    answer_one(moving_, x.ticket, x.answer);
  for (auto* line : {&reads_, &long_reads_})
    for (auto& x : line->waiting.remove_if(is_late))
      end_reading(x.ticket, home_->db->why_waiting(line->connection_slot));
  if (!inserts_.intake.under_way() && !signals_.intake.under_way()
      && !transitions_.intake.under_way())
    late_ = 0;
}

void gateway_backend::drive() {
  auto now = system().clock().now();
  give_up_late(now);
  send_next(inserts_, insert_unit, now);
  send_next(signals_, signal_unit, now);
  send_next(transitions_, transition_unit, now);
  look_up_ends(now);
  auto at = std::min({inserts_.intake.due(now), signals_.intake.due(now),
                      transitions_.intake.due(now)});
  if (!arrivals_.empty())
    at = std::min(at, late_due(now));
  alarm_.set(this, at);
  tell_answers();
}

void gateway_backend::leave_if_answered() {
  if (leaving_ && inserting_.empty() && signalling_.empty() && moving_.empty()
      && reading_.empty() && awaiting_.empty())
    quit(caf::exit_reason::user_shutdown);
}

void gateway_backend::drive_soon(const intake_base& what) {
  if (what.under_way() || alarm_.is_set_to_now())
    return;
  if (!several_)
    return drive();
  // Through the clock, not the mailbox: CAF runs this actor until its mailbox is
  // empty, but what another thread sends comes behind all actors that are ready.
  alarm_.set_now(this);
}

// -- reading ------------------------------------------------------------------

template <class Answer, class Request, class F>
caf::result<Answer> gateway_backend::read(reading_line& line, const Request& x,
                                          pq::call what, F answer_of) {
  return read_and<Answer>(
    line, x, std::move(what),
    [this, answer_of](open_request<Answer>& to, const pq::reply& reply) {
    settle<Answer>(to, reply.ok() ? answer_of(reply.results.front())
                                  : result<Answer>{*reply.failure});
    });
}

template <class Request>
caf::result<gd::instance> gateway_backend::look_up(const Request& x) {
  using open = open_request<gd::instance>;
  auto end = [this, id = x.id, key = x.key](open& to, const pq::reply& reply) {
    if (!reply.ok())
      return settle<gd::instance>(to, *reply.failure);
    if (auto found = store::read_instance(reply.results.front()))
      return settle<gd::instance>(to, std::move(*found));
    auto none = store::no_instance(id, key);
    if (key)
      return settle<gd::instance>(to, none);
    // Who may not know what was erased is told that there is none.
    ask(reads_, to.by, store::gone(id),
        [this, to, none](const pq::reply& told) mutable {
      settle<gd::instance>(
        to, told.ok() ? store::told_gone(told.results.front()) : none);
    });
  };
  return read_and<gd::instance>(reads_, x, store::look_up(x), std::move(end));
}

template <class Answer>
void gateway_backend::settle(open_request<Answer>& to, result<Answer> answer) {
  if (answer && to.by.far)
    hide_token(*answer);
  keep_from_who_does_not_read(to.by, answer);
  deliver(to, answer);
}

void gateway_backend::ask(reading_line& line, const asker& by, pq::call what,
                          std::function<void(const pq::reply&)> end) {
  auto ticket = ++tickets_;
  reading_.emplace(ticket, open_reading{&line, by, std::move(end)});
  note_arrival(ticket);
  line.waiting.push(by.who,
                    {ticket, std::move(what), arrivals_.back().expires});
  read_next(line);
}

template <class Answer, class Request, class F>
caf::result<Answer> gateway_backend::read_and(reading_line& line,
                                              const Request& x, pq::call what,
                                              F end) {
  // Whom a promise that is made takes over.
  auto by = who_asks(price_of<true>(x));
  open_request<Answer> to{make_response_promise<Answer>(), by};
  result<void> ok;
  if constexpr (requires { x.key; })
    ok = check_address("id", x.id, x.key, home_->config.limits);
  if constexpr (requires { x.limit; })
    if (ok)
      ok = check_limit(x.limit);
  if (ok)
    ok = may_tell(by, bytes_of_message);
  if (!ok) {
    deliver<Answer>(to, ok.error());
    return to.promise;
  }
  ask(line, by, std::move(what),
      [to, end](const pq::reply& reply) mutable { end(to, reply); });
  return to.promise;
}

void gateway_backend::read_next(reading_line& line) {
  while (line.under_way < reads_at_once && !line.waiting.empty()) {
    auto next = line.waiting.pop([](const auto&) { return usual_read; });
    auto now = system().clock().now();
    if (line.under_way == 0)
      line.free_since = now;
    ++line.under_way;
    submit(this, *home_->db, line.connection_slot,
           {{std::move(next.what)}, false}, next.ticket, next.expires - now);
  }
}

void gateway_backend::finish_reading(std::uint64_t ticket,
                                     const pq::reply& reply) {
  auto found = reading_.extract(ticket);
  if (found.empty())
    return;
  auto& [line, by, answer] = found.mapped();
  auto now = system().clock().now();
  auto took = std::chrono::duration_cast<std::chrono::microseconds>(
    now - std::exchange(line->free_since, now));
  line->waiting.charge(by.who, static_cast<std::uint64_t>(took.count()));
  --line->under_way;
  read_next(*line);
  answer(reply);
}

void gateway_backend::end_reading(std::uint64_t ticket, const error& why) {
  if (auto found = reading_.extract(ticket); !found.empty())
    found.mapped().answer({{}, why, 0});
}

// -- waiting for ends ----------------------------------------------------------

template <class Request>
caf::result<gd::awaited> gateway_backend::await_end(const Request& x) {
  // Whom a promise that is made takes over.
  auto by = who_asks(price_of<true>(x));
  open_request<gd::awaited> to{make_response_promise<gd::awaited>(), by};
  auto now = system().clock().now();
  auto ok = may_tell(by, bytes_of_message);
  if (ok && leaving_)
    ok = error{errc::stopped, "the engine has stopped", {}};
  auto ticket = ++tickets_;
  if (ok)
    ok = ends_.add(ticket, x, now);
  if (!ok) {
    deliver<gd::awaited>(to, ok.error());
    return to.promise;
  }
  awaiting_.emplace(ticket, to);
  look_up_ends(now);
  return to.promise;
}

/// Those that come while a look is under way share the next.
void gateway_backend::look_up_ends(clock::time_point now) {
  if (ends_.empty())
    return;
  answer_ends(ends_.give_up_late(now));
  if (auto lookup = ends_.begin(now))
    submit(this, *home_->db, home_->read_slot(), {{std::move(*lookup)}, false},
           end_unit, home_->config.patience);
  if (auto at = ends_.due(); at != clock::time_point::max())
    alarm_.set(this, std::min(at, now + longest_alarm));
}

void gateway_backend::answer_ends(end_watch::answers all) {
  for (auto& x : all)
    if (auto found = awaiting_.extract(x.ticket); !found.empty()) {
      keep_from_who_does_not_read(found.mapped().by, x.what);
      deliver(found.mapped(), x.what);
    }
}

void gateway_backend::end_waits(const error& why) {
  ends_.clear();
  for (auto& [ticket, open] : std::exchange(awaiting_, {}))
    deliver<gd::awaited>(open, why);
}

template <class Answer>
void gateway_backend::keep_from_who_does_not_read(const asker& to,
                                                  result<Answer>& answer) {
  if (!answer || !to.far)
    return;
  if (auto may = may_tell(to, bytes_of_message + about_bytes(*answer)); !may)
    answer = may.error();
}

void gateway_backend::forget(const caf::node_id& gone) {
  auto why = error{errc::unavailable, "the node that has asked is gone", {}};
  std::vector<std::uint64_t> waits;
  for (const auto& [ticket, open] : awaiting_)
    if (open.by.far == gone)
      waits.push_back(ticket);
  for (auto ticket : waits) {
    ends_.remove(ticket);
    answer_ends({{ticket, why}});
  }
  for (auto* line : {&reads_, &long_reads_})
    for (auto& x : line->waiting.remove_if([&](const auto& one) {
           auto found = reading_.find(one.ticket);
           return found != reading_.end() && found->second.by.far == gone;
         }))
      end_reading(x.ticket, why);
}

result<void> gateway_backend::may_tell(const asker& to, std::size_t bytes) {
  auto far = to.far ? home_->far.get() : nullptr;
  if (!far || unread_.may_send(to.far, bytes, far->most_unread()))
    return {};
  return error{errc::overloaded,
               "the answers that this node has not read are too many: expected "
               "at most "
                 + std::to_string(far->most_unread()) + " bytes",
               {}};
}

void gateway_backend::keep_to_unread(const answers_unread& what) {
  auto far = home_->far.get();
  if (!far)
    return;
  if (!what.by) {
    asks_again_ = false;
    return unread_.ask_all();
  }
  if (auto which = unread_.told(what.by, what.sent, what.unread,
                                far->most_unread()))
    far->cut_off(which, "has left the most answers unread where all of them "
                        "were too many");
  if (unread_.has_to_ask() && !std::exchange(asks_again_, true))
    send_self_after(this, ask_interval, answers_unread{});
}

// -- the gateway server -------------------------------------------------------

gateway_server::gateway_server(caf::actor_config& cfg, node_ptr home,
                               gateway backend)
  : sturdy(cfg), home_(std::move(home)), backend_(std::move(backend)) {
  // nop
}

result<void> gateway_server::admit(const caf::strong_actor_ptr& from,
                                   std::size_t bytes) {
  if (closed_)
    return error{errc::stopped, "the engine has stopped", {}};
  auto ok = home_->asked.take(number_of(from, node()), bytes);
  if (auto far = ok ? nullptr : far_of(from))
    far->refused(from->node());
  return ok;
}

std::shared_ptr<far_nodes>
gateway_server::far_of(const caf::strong_actor_ptr& from) const {
  return from && from->node() != node() ? home_->far.get() : nullptr;
}

result<void> gateway_server::admit_said(const caf::strong_actor_ptr& from,
                                        const link_message& x) {
  auto ok = home_->said.take(number_of(from, node()), bytes_of(x));
  if (auto far = ok ? nullptr : far_of(from))
    far->cut_off(from->node(), "has said more than its link has read");
  return ok;
}

caf::error gateway_server::refusal(const caf::mailbox_element& x) {
  const auto& content = x.content();
  result<void> ok;
  bool found = false;
  requests::for_each([&](auto row) {
    using asked = typename decltype(row)::asked;
    using answer = typename decltype(row)::answer;
    if (found || !content.template match_elements<asked>())
      return;
    found = true;
    ok = admit(x.sender, price_of<decltype(row)::reads>(
                           content.template get_as<asked>(0)));
    if (!ok && !decltype(row)::reads)
      home_->tell(events::requests_answered{kind_of<answer>,
                                            to_string(ok.error().code), 1});
  });
  if (!found && content.match_elements<link_message>())
    ok = admit_said(x.sender, content.get_as<link_message>(0));
  else if (auto far = far_of(x.sender))
    far->taken(x.sender->node());
  return ok ? caf::error{} : to_caf(ok.error());
}

template <class Row>
caf::result<typename Row::answer>
gateway_server::forward(typename Row::asked& x) {
  if (backend_)
    return forward_to(this, backend_, std::move(x));
  home_->asked.release(number_of(current_sender(), node()),
                       price_of<Row::reads>(x));
  return to_caf(
    closed_ ? error{errc::stopped, "the engine has stopped", {}}
            : error{errc::unavailable, "the gateway is being restarted", {}});
}

void gateway_server::pass_on(link_message& x) {
  const auto& from = current_sender();
  if (!from)
    return;
  // Out of this mailbox it is in another one.
  std::shared_ptr<void> waits{
    nullptr, [home = home_, who = number_of(from, node()), bytes = bytes_of(x),
              which = from->node()](void*) {
      home->said.release(who, bytes);
      if (auto far = home->far.get())
        far->taken(which);
    }};
  if (auto links = home_->children.find(role::links))
    anon(links, link_arrived{from, std::move(x), std::move(waits)});
}

gateway_server::behavior_type gateway_server::make_behavior() {
  refuse_unknown();
  return requests::handled_by<behavior_type>(
    [this](auto row, auto& x) { return forward<decltype(row)>(x); },
    [this](set_backend& x) {
    backend_ = x.backend && !closed_ ? caf::actor_cast<gateway>(x.backend)
                                     : gateway{};
    },
    [this](close_gateway) {
    if (closed_.exchange(true))
      return quit(caf::exit_reason::user_shutdown);
    if (backend_)
      anon(caf::actor_cast<caf::actor>(std::exchange(backend_, nullptr)),
           drain{last_answers});
    weak_ref{this}.tell(close_gateway{});
  },
    [this](link_message& x) { pass_on(x); }, [this](node_hint& x) {
      if (auto hints = home_->children.find(role::hints))
        anon(hints, std::move(x));
      return hint_noted{};
    });
}

void gateway_server::on_exit() {
  backend_ = nullptr;
}

} // namespace gd::actors
