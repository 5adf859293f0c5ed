#include <gd/intake.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How long a signal that is tried alone waits for its target.
constexpr milliseconds alone_wait{50};
/// How long inserts with a unique key wait for a stranger's insert of it.
constexpr milliseconds unique_wait{10};
/// Busy for so many tries, and the sender is told.
constexpr int busy_tries_at_most = 40;

error invalid(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

/// `why` as the answer to something that may have been stored, or cannot have
/// been: another failure of a later attempt does not tell what became of an
/// earlier one.
error with_fate(error why, bool may_be_stored) {
  if (may_be_stored)
    why.code = errc::unknown_fate;
  else if (why.code == errc::unknown_fate)
    why.code = errc::unavailable;
  return why;
}

/// In their order; what a unique key has if its insert does not say.
constexpr std::array<std::string_view, 5> statuses{
  "runnable", "executing", "awaiting_signal", "done", "failed"};
constexpr std::string_view default_scope = "runnable,executing,awaiting_signal";

result<void> check_scope(const insert& x) {
  if (!x.unique_key && !x.unique_scope.empty())
    return invalid("unique_scope: expected a unique_key beside it");
  auto has = [&x](std::string_view status) {
    return std::find(x.unique_scope.begin(), x.unique_scope.end(), status)
           != x.unique_scope.end();
  };
  for (const auto& status : x.unique_scope)
    if (std::find(statuses.begin(), statuses.end(), status) == statuses.end())
      return invalid(fmt::format("unique_scope: expected some of {}, got {}",
                                 fmt::join(statuses, "|"), status));
  if (has("executing") && !has("runnable"))
    return invalid("unique_scope: expected runnable beside executing: what has "
                   "been let in must be able to run");
  // One whose lease is over would wait for the key's new holder, and that one for
  // the partition.
  if (x.partition_key && has("runnable") && !has("executing"))
    return invalid(
      "unique_scope: expected executing beside runnable where there "
      "is a partition_key");
  return {};
}

} // namespace

bool intake_base::try_again(const error& why, clock::time_point now) {
  constexpr int failures_at_most = 5;
  bool again = retryable(why.code) && why.code != errc::unavailable
               && failures_ < failures_at_most;
  failures_ = again ? failures_ + 1 : 0;
  if (again)
    not_before_ = now + milliseconds{10} * (1 << failures_);
  return again;
}

// -- inserts ------------------------------------------------------------------

insert_intake::insert_intake(intake_settings how)
  : how_(std::move(how)), resolved_(how_.rows, how_.bytes) {
  // nop
}

result<void> insert_intake::check(const insert& x) const {
  if (auto ok = check_name("fsm", x.fsm, how_.limits); !ok)
    return ok;
  if (x.version < 0)
    return invalid(fmt::format(
      "version: expected 1 or more, or 0 for the newest, got {}", x.version));
  if (!x.step.empty())
    if (auto ok = check_name("step", x.step, how_.limits); !ok)
      return ok;
  if (!x.queue.empty())
    if (auto ok = check_name("queue", x.queue, how_.limits); !ok)
      return ok;
  if (x.partition_key)
    if (auto ok = check_name("partition_key", *x.partition_key,
                             {.name = how_.limits.partition_key});
        !ok)
      return ok;
  if (x.unique_key
      && (x.unique_key->empty()
          || x.unique_key->size() > how_.limits.unique_key))
    return invalid(fmt::format("unique_key: expected 1 to {} bytes, got {}",
                               how_.limits.unique_key, x.unique_key->size()));
  if (auto ok = check_scope(x); !ok)
    return ok;
  if (x.delay_us < 0 || x.delay_us > longest_delay.count())
    return invalid(fmt::format("delay_us: expected 0 to {} (100 years), got {}",
                               longest_delay.count(), x.delay_us));
  constexpr std::int64_t year_3000 = 32'503'680'000'000'000;
  if (x.eligible_at_us
      && (*x.eligible_at_us < 0 || *x.eligible_at_us > year_3000))
    return invalid(fmt::format(
      "eligible_at_us: expected microseconds since 1970, at most {}, got {}",
      year_3000, *x.eligible_at_us));
  if (x.eligible_at_us && x.delay_us > 0)
    return invalid(
      "eligible_at_us and delay_us: expected one of them, got both");
  if (auto ok = check_size("state", x.state, how_.limits.state); !ok)
    return ok;
  if (auto ok = check_json(x.state.text()); !ok)
    return error{ok.error().code, "state: " + ok.error().message, {}};
  auto first = x.state.text().find_first_not_of(" \t\r\n");
  if (x.state.text()[first] != '{')
    return error{errc::codec, "state: $: expected object", {}};
  return {};
}

result<void> insert_intake::add(std::uint64_t ticket, insert what) {
  if (auto ok = check(what); !ok)
    return ok;
  fresh_.push_back({ticket, std::move(what)});
  return {};
}

std::optional<pq::unit> insert_intake::begin(clock::time_point now) {
  if (under_way_ || now < not_before_)
    return std::nullopt;
  pq::unit work;
  if (resolved_.has_due(now)) {
    group_ = resolved_.take(now);
    if (group_.unsure())
      work.calls.push_back(store::lock_timeout(unique_wait));
    std::vector<store::insert_row> rows;
    for (auto& x : group_.entries)
      rows.push_back(std::move(x.row));
    work.calls.push_back(store::insert(rows));
    work.calls.push_back(store::inserted(rows));
    for (std::size_t i = 0; i < rows.size(); ++i)
      group_.entries[i].row = std::move(rows[i]);
  } else if (!fresh_.empty()) {
    auto n = std::min(fresh_.size(), how_.rows);
    auto end = fresh_.begin() + static_cast<std::ptrdiff_t>(n);
    drawing_.assign(std::make_move_iterator(fresh_.begin()),
                    std::make_move_iterator(end));
    fresh_.erase(fresh_.begin(), end);
    std::set<std::string> unknown;
    for (const auto& x : drawing_)
      if (!how_.machines->find(x.what.fsm, x.what.version))
        unknown.insert(x.what.fsm);
    work.transaction = false;
    work.calls.push_back(store::draw_ids(static_cast<std::int32_t>(n)));
    looking_up_ = !unknown.empty();
    if (looking_up_)
      work.calls.push_back(
        store::find_machines({unknown.begin(), unknown.end()}));
  } else {
    return std::nullopt;
  }
  under_way_ = true;
  return work;
}

result<store::insert_row>
insert_intake::resolve(insert& x,
                       const std::vector<store::known_machine>& known) const {
  store::insert_row row;
  row.fsm = x.fsm;
  row.version = x.version;
  row.step = x.step;
  row.queue = x.queue;
  row.priority = x.priority;
  row.at_us = x.eligible_at_us;
  if (x.delay_us > 0)
    row.delay_us = x.delay_us;
  row.partition_key = x.partition_key;
  row.unique_key = x.unique_key;
  if (x.unique_key)
    row.unique_scope = x.unique_scope.empty()
                         ? std::string{default_scope}
                         : fmt::format("{}", fmt::join(x.unique_scope, ","));
  if (auto machine = how_.machines->find(x.fsm, x.version)) {
    row.version = machine->version;
    if (row.step.empty())
      row.step = machine->initial_step;
    if (row.queue.empty())
      row.queue = machine->queue;
    if (machine->find_step(row.step) == nullptr)
      return error{errc::unknown_step,
                   fmt::format("step: expected one of {} of {}, got {}",
                               machine->step_names(), machine->title(),
                               row.step),
                   {}};
    if (auto ok = machine->check_state(x.state.text()); !ok)
      return error{ok.error().code, "state: " + ok.error().message, {}};
  } else {
    const store::known_machine* found = nullptr;
    std::string versions;
    for (const auto& candidate : known) {
      if (candidate.fsm != x.fsm)
        continue;
      versions += fmt::format("{}{}", versions.empty() ? "" : "|",
                              candidate.version);
      if (x.version == 0
            ? found == nullptr || candidate.version > found->version
            : candidate.version == x.version)
        found = &candidate;
    }
    if (found != nullptr) {
      row.version = found->version;
      if (row.step.empty())
        row.step = found->initial_step;
      if (row.queue.empty())
        row.queue = found->queue;
      if (std::find(found->steps.begin(), found->steps.end(), row.step)
          == found->steps.end())
        return error{errc::unknown_step,
                     fmt::format("step: expected one of {} of {} v{}, got {}",
                                 fmt::join(found->steps, "|"), found->fsm,
                                 found->version, row.step),
                     {}};
    } else if (row.step.empty() || row.queue.empty()) {
      auto what = x.version == 0 ? x.fsm
                                 : fmt::format("{} v{}", x.fsm, x.version);
      return error{
        errc::unknown_machine,
        versions.empty()
          ? fmt::format("fsm: no node has made {} known; expected a "
                        "known machine, or step and queue as well",
                        what)
          : fmt::format("version: {} is known in version {}, got {}; "
                        "or give step and queue as well",
                        x.fsm, versions, x.version),
        {}};
    } else {
      row.version = std::max(x.version, 1);
    }
  }
  row.state = std::move(x.state).text();
  return row;
}

insert_intake::report insert_intake::finish(pq::reply reply,
                                            clock::time_point now) {
  report out;
  under_way_ = false;
  auto drawing = std::exchange(drawing_, {});
  auto group = std::exchange(group_, {}).entries;
  if (!reply.ok()) {
    const auto& why = *reply.failure;
    if (why.code == errc::rejected && !group.empty()) {
      if (auto guilty = resolved_.split(std::move(group)))
        out.answers.push_back({guilty->ticket, why});
    } else if (why.code == errc::busy && !group.empty()) {
      // A stranger is inserting the key of one of them.
      auto held = resolved_.split(std::move(group));
      if (held && how_.patient && held->busy_tries < busy_tries_at_most)
        resolved_.put_busy(std::move(*held), now);
      else if (held)
        out.answers.push_back(
          {held->ticket,
           with_fate({errc::busy,
                      "unique_key: another transaction is inserting it",
                      why.sqlstate},
                     held->resent)});
    } else if (how_.patient && try_again(why, now)) {
      fresh_.insert(fresh_.begin(), std::make_move_iterator(drawing.begin()),
                    std::make_move_iterator(drawing.end()));
      for (auto& x : group)
        x.resent = x.resent || why.code == errc::unknown_fate;
      resolved_.put_back(std::move(group));
    } else {
      for (const auto& x : drawing) // an id that nobody uses does no harm
        out.answers.push_back({x.ticket, with_fate(why, false)});
      for (const auto& x : group)
        out.answers.push_back(
          {x.ticket,
           with_fate(why, x.resent || why.code == errc::unknown_fate)});
    }
    return out;
  }
  failures_ = 0;
  if (!drawing.empty()) {
    auto ids = store::read_ids(reply.results[0]);
    auto known = looking_up_ ? store::read_machines(reply.results[1])
                             : std::vector<store::known_machine>{};
    for (std::size_t i = 0; i < drawing.size(); ++i) {
      auto& x = drawing[i];
      auto row = resolve(x.what, known);
      if (!row) {
        out.answers.push_back({x.ticket, row.error()});
        continue;
      }
      x.row = std::move(*row);
      x.row.id = ids[i];
      resolved_.push(std::move(x));
    }
    return out;
  }
  std::unordered_map<std::int64_t, store::inserted_row> there;
  for (auto& x : store::read_inserted(reply.results.back()))
    there.emplace(x.id, x);
  std::set<std::string> queues;
  for (auto& x : group) {
    const auto& found = there[x.row.id];
    if (found.found) {
      out.answers.push_back({x.ticket, inserted{x.row.id}});
      queues.insert(x.row.queue);
    } else if (found.holder) {
      out.answers.push_back({x.ticket, inserted{*found.holder, true}});
    } else if (x.row.unique_key) {
      resolved_.push(std::move(x)); // whoever had its key has left it since
    } else {
      out.answers.push_back(
        {x.ticket, error{errc::rejected, "another row has its place", {}}});
    }
  }
  out.queues.assign(queues.begin(), queues.end());
  return out;
}

insert_intake::clock::time_point
insert_intake::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  auto when = !fresh_.empty() || resolved_.has_due(now) ? now : resolved_.due();
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

// -- signals ------------------------------------------------------------------

signal_intake::signal_intake(intake_settings how)
  : how_(std::move(how)), waiting_(how_.rows, how_.bytes) {
  // nop
}

result<void> signal_intake::add(std::uint64_t ticket, signal what) {
  if (auto ok = gd::check(what, how_.limits); !ok)
    return ok;
  waiting_.push({ticket, std::move(what), ++numbers_});
  return {};
}

std::optional<pq::unit> signal_intake::begin(clock::time_point now) {
  if (under_way_ || now < not_before_ || !waiting_.has_due(now))
    return std::nullopt;
  group_ = waiting_.take(now);
  pq::unit work;
  std::vector<signal> signals;
  for (auto& x : group_.entries)
    signals.push_back(std::move(x.what));
  if (group_.alone) {
    work.calls.push_back(store::lock_timeout(alone_wait));
    work.calls.push_back(store::lock({signals.front().target}));
  }
  work.calls.push_back(store::lock_targets(signals));
  work.calls.push_back(store::send_signals(signals, how_.limits.inbox));
  for (std::size_t i = 0; i < signals.size(); ++i)
    group_.entries[i].what = std::move(signals[i]);
  under_way_ = true;
  return work;
}

signal_intake::report signal_intake::finish(pq::reply reply,
                                            clock::time_point now) {
  report out;
  under_way_ = false;
  auto group = std::exchange(group_.entries, {});
  auto busy = [&](entry x) {
    if (how_.patient && x.busy_tries < busy_tries_at_most)
      return waiting_.put_busy(std::move(x), now);
    out.answers.push_back(
      {x.ticket,
       error{errc::busy,
             fmt::format("target {}: another transaction holds the row",
                         x.what.target),
             {}}});
  };
  if (!reply.ok()) {
    const auto& why = *reply.failure;
    if (why.code == errc::rejected) {
      if (auto guilty = waiting_.split(std::move(group)))
        out.answers.push_back({guilty->ticket, why});
    } else if (why.code == errc::busy && group_.alone) {
      busy(std::move(group.front()));
    } else if (how_.patient && try_again(why, now)) {
      for (auto& x : group)
        x.resent = x.resent || why.code == errc::unknown_fate;
      waiting_.put_back(std::move(group));
    } else {
      for (const auto& x : group)
        out.answers.push_back(
          {x.ticket,
           with_fate(why, x.resent || why.code == errc::unknown_fate)});
    }
    return out;
  }
  failures_ = 0;
  auto rows = store::read_signals(reply.results.back());
  std::set<std::string> queues;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& x = group[i];
    auto refuse = [&](errc code, std::string text) {
      out.answers.push_back({x.ticket, error{code, std::move(text), {}}});
    };
    switch (rows[i].answer) {
      case store::signal_answer::accepted:
        for (const auto* queue :
             {&rows[i].woken_queue, &rows[i].runnable_queue})
          if (!queue->empty())
            queues.insert(*queue);
        out.answers.push_back({x.ticket, signalled{false}});
        break;
      case store::signal_answer::duplicate:
        // Sent again, it may well be its own duplicate.
        out.answers.push_back({x.ticket, signalled{!x.resent}});
        break;
      case store::signal_answer::no_such_target:
        refuse(errc::no_such_target,
               fmt::format("target: there is no instance {}", x.what.target));
        break;
      case store::signal_answer::target_finished:
        refuse(errc::target_finished,
               fmt::format("target: instance {} is finished", x.what.target));
        break;
      case store::signal_answer::inbox_full:
        refuse(
          errc::inbox_full,
          fmt::format("target: the inbox of instance {} is full: {} signals",
                      x.what.target, how_.limits.inbox));
        break;
      case store::signal_answer::busy:
        busy(std::move(x));
        break;
    }
  }
  out.queues.assign(queues.begin(), queues.end());
  return out;
}

signal_intake::clock::time_point
signal_intake::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  auto when = waiting_.has_due(now) ? now : waiting_.due();
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

} // namespace gd
