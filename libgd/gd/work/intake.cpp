#include <gd/work/intake.hpp>

#include <gd/pq/expect.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
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
/// How long each statement of a group of them may take: it may have to wait for many,
/// and has its own work to do.
milliseconds unique_group_wait(std::size_t rows, std::size_t bytes) {
  constexpr std::size_t rows_per_ms = 10;
  constexpr std::size_t bytes_per_ms = 8 << 10;
  return milliseconds{100 + rows / rows_per_ms + bytes / bytes_per_ms};
}
/// Busy for so many tries, and the sender is told.
constexpr int busy_tries_at_most = 40;
/// Ids that are another row's are drawn again, so many times.
constexpr int id_tries_at_most = 4;
/// How long ids are kept. A server that has lost its last moments (a failover)
/// draws them for others, too.
constexpr std::chrono::seconds ids_last{1};

error invalid(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

/// Of a request that waits, beside its JSON: its other fields, its entry, and what
/// answers it.
constexpr std::size_t bytes_beside = 1'024;

/// JSON counts as it is, or as PostgreSQL prints it.
std::size_t bytes_of(const json& x) {
  auto printed = printed_size(x.text());
  return std::max(x.text().size(), printed ? *printed : 0);
}

std::size_t bytes_of(const insert& x) {
  return bytes_of(x.state) + bytes_beside
         + (x.partition_key ? x.partition_key->size() : 0)
         + (x.unique_key ? x.unique_key->size() : 0);
}

std::size_t bytes_of(const signal& x) {
  return bytes_of(x.payload) + bytes_beside
         + (x.dedup_key ? x.dedup_key->size() : 0);
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

error busy_key(std::string sqlstate = {}) {
  return {errc::busy, "unique_key: another transaction is inserting it",
          std::move(sqlstate)};
}

error busy_target(std::int64_t target) {
  return {errc::busy,
          fmt::format("target {}: another transaction holds the row", target),
          {}};
}

/// In their order; what a unique key has if its insert does not say.
constexpr std::array<std::string_view, 5> statuses{
  "runnable", "executing", "awaiting_signal", "done", "failed"};
constexpr std::string_view default_scope = "runnable,executing,awaiting_signal";

result<void> check_scope(const insert& x) {
  if (!x.unique_key && !x.unique_scope.empty())
    return invalid("unique_scope: expected a unique_key beside it");
  if (x.unique_scope.size() > statuses.size())
    return invalid(fmt::format("unique_scope: expected at most {} statuses, "
                               "got {}",
                               statuses.size(), x.unique_scope.size()));
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

bool begins_object(const json& state) {
  auto first = state.text().find_first_not_of(" \t\r\n");
  return first != std::string::npos && state.text()[first] == '{';
}

/// Whether a state is the JSON text of an object.
result<void> check_object(const json& state) {
  if (auto ok = check_json(state.text()); !ok)
    return error{ok.error().code, "state: " + ok.error().message, {}};
  if (!begins_object(state))
    return error{errc::codec, "state: $: expected object", {}};
  return {};
}

} // namespace

result<void> intake_base::room_for(std::size_t bytes) const {
  if (waiting_bytes_ == 0
      || (waiting_bytes_ <= most_bytes_
          && bytes <= most_bytes_ - waiting_bytes_))
    return {};
  return error{errc::overloaded,
               fmt::format("{} bytes wait already, and {} more are too many: "
                           "expected at most {}",
                           waiting_bytes_, bytes, most_bytes_),
               {}};
}

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
  : intake_base(how.most_bytes),
    how_(std::move(how)),
    resolved_(how_.rows, how_.bytes) {
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
  return {};
}

result<void> insert_intake::add(std::uint64_t ticket, insert what) {
  // What does not fit is not read: a flood of it costs nothing.
  if (auto ok = room_for(what.state.text().size()); !ok)
    return ok;
  if (auto ok = check(what); !ok)
    return ok;
  auto size = bytes_of(what);
  if (auto ok = room_for(size); !ok)
    return ok;
  auto machine = how_.machines->find(what.fsm, what.version);
  // What a machine's state is read from need not be read twice.
  if (!machine || !begins_object(what.state))
    if (auto ok = check_object(what.state); !ok)
      return ok;
  // In the order of arrival: in the caller's transaction it is that of unique keys.
  if (!machine || !unresolved_.empty() || !looking_up_.empty()) {
    unresolved_.push_back({ticket, std::move(what), size});
    waiting_bytes_ += size;
    return {};
  }
  auto row = resolve(std::move(what), *machine);
  if (!row)
    return row.error();
  resolved_.push({ticket, std::move(*row), size});
  waiting_bytes_ += size;
  return {};
}

std::optional<pq::unit> insert_intake::begin(clock::time_point now) {
  if (under_way_ || now < not_before_)
    return std::nullopt;
  if (now >= ids_until_)
    ids_.clear();
  if (group_.entries.empty())
    group_ = resolved_.take(now, !unresolved_.empty());
  pq::unit work;
  if (!group_.entries.empty()) {
    auto missing = static_cast<std::size_t>(
      std::count_if(group_.entries.begin(), group_.entries.end(),
                    [](const auto& x) { return x.row.id == 0; }));
    under_way_ = true;
    if (missing <= ids_.size())
      return send(missing);
    drawing_ = true;
    work.calls.push_back(store::draw_ids(missing - ids_.size()));
  } else if (!unresolved_.empty()) {
    auto n = std::min(unresolved_.size(), how_.rows);
    auto end = unresolved_.begin() + static_cast<std::ptrdiff_t>(n);
    looking_up_.assign(std::make_move_iterator(unresolved_.begin()),
                       std::make_move_iterator(end));
    unresolved_.erase(unresolved_.begin(), end);
    std::set<std::string> names;
    for (const auto& x : looking_up_)
      names.insert(x.what.fsm);
    work.calls.push_back(store::find_machines({names.begin(), names.end()}));
    under_way_ = true;
  } else {
    return std::nullopt;
  }
  work.transaction = false;
  return work;
}

pq::unit insert_intake::send(std::size_t missing) {
  sending_ = true;
  pq::unit work;
  // The statement's time is the caller's where the transaction is.
  if (group_.unsure() && how_.patient && group_.entries.size() > 1) {
    std::size_t bytes = 0;
    for (const auto& x : group_.entries)
      bytes += x.bytes();
    work.calls.push_back(store::lock_timeout(
      unique_wait, unique_group_wait(group_.entries.size(), bytes)));
  } else if (group_.unsure()) {
    work.calls.push_back(store::lock_timeout(unique_wait));
  }
  asking_ = group_.unsure();
  for (auto& x : group_.entries) {
    if (x.row.id == 0) {
      x.row.id = ids_.front().id;
      x.row.drawn_us = ids_.front().at_us;
      ids_.pop_front();
    }
    asking_ = asking_ || x.resent;
  }
  if (how_.claiming && !asking_)
    claim();
  store::row_refs<store::insert_row> claimed;
  store::row_refs<store::insert_row> rows;
  for (const auto& x : group_.entries)
    (x.row.token.empty() ? rows : claimed).add(x.row);
  if (asking_) {
    work.calls.push_back(store::insert(rows));
    work.calls.push_back(store::inserted(rows));
  } else if (!rows.empty()) {
    work.calls.push_back(store::insert_new(rows));
  }
  if (!claimed.empty())
    work.calls.push_back(store::insert_claimed(claimed, how_.claiming->lease));
  // For the next group, which is likely to be as large: it then need not wait
  // for a draw of its own. An intake that is not patient ends with its rows.
  drawing_ = ids_.size() < missing && (how_.patient || resolved_.ready() > 0);
  if (drawing_)
    work.calls.push_back(store::draw_ids(missing - ids_.size()));
  return work;
}

void insert_intake::claim() {
  auto& by = *how_.claiming;
  auto most = by.desk->most();
  if (most == 0)
    return;
  // By queue, how many rows are due; too many: one of them needs a pick.
  std::map<std::string_view, std::int32_t> due;
  for (const auto& x : group_.entries) {
    if (x.row.delay_us)
      continue;
    auto& n = due[x.row.queue];
    // Is it as due as it says, does its key let it run, can this node run it?
    bool simple = !x.row.at_us && !x.row.partition_key
                  && how_.machines->find(x.row.fsm, x.row.version);
    n = simple && n <= most ? n + 1 : most + 1;
  }
  for (const auto& [queue, n] : due)
    if (n <= most)
      if (auto one = by.desk->take(
            std::string{queue}, fmt::format("{}/{}", by.incarnation, by.next++),
            n))
        claims_.emplace(queue, std::move(*one));
  for (auto& x : group_.entries)
    if (auto found = claims_.find(x.row.queue);
        found != claims_.end() && !x.row.delay_us)
      x.row.token = found->second.token;
}

std::vector<claim_desk::claim>
insert_intake::end_claims(std::vector<entry>& group, const pq::reply& reply,
                          bool drawing) {
  auto out = abandon();
  if (out.empty())
    return out;
  for (auto& one : out)
    one.lost = !reply.ok() && reply.failure->code == errc::unknown_fate;
  if (!reply.ok()) {
    for (auto& x : group)
      x.row.token.clear();
    return out;
  }
  // Behind it, ids may have been drawn.
  auto at = reply.results.size() - (drawing ? 2 : 1);
  auto states = store::read_claimed(reply.results[at]);
  std::vector<const store::insert_row*> rows;
  for (const auto& x : group)
    if (!x.row.token.empty())
      rows.push_back(&x.row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](auto* a, auto* b) { return a->priority < b->priority; });
  for (const auto* x : rows) {
    auto of = std::find_if(out.begin(), out.end(), [x](const auto& one) {
      return one.token == x->token;
    });
    expect(of != out.end(), "a claimed row's token is that of a claim");
    auto state = states.find(x->id);
    if (state == states.end())
      of->lost = true; // under its lease, or not there: only a pick can tell
    else
      of->rows.push_back({.id = x->id,
                          .fsm = x->fsm,
                          .fsm_version = x->version,
                          .step = x->step,
                          .state = std::move(state->second)});
  }
  return out;
}

std::vector<claim_desk::claim> insert_intake::abandon() {
  std::vector<claim_desk::claim> out;
  for (auto& [queue, one] : std::exchange(claims_, {})) {
    one.lost = true;
    out.push_back(std::move(one));
  }
  return out;
}

/// A row without its machine.
static store::insert_row row_of(insert x) {
  store::insert_row row;
  row.fsm = std::move(x.fsm);
  row.version = x.version;
  row.step = std::move(x.step);
  row.state = std::move(x.state).text();
  row.queue = std::move(x.queue);
  row.priority = x.priority;
  row.at_us = x.eligible_at_us;
  if (x.delay_us > 0)
    row.delay_us = x.delay_us;
  row.partition_key = std::move(x.partition_key);
  row.unique_key = std::move(x.unique_key);
  if (row.unique_key)
    row.unique_scope = x.unique_scope.empty()
                         ? std::string{default_scope}
                         : fmt::format("{}", fmt::join(x.unique_scope, ","));
  return row;
}

result<store::insert_row> insert_intake::resolve(insert x, const machine& by) {
  auto row = row_of(std::move(x));
  row.version = by.version;
  if (row.step.empty())
    row.step = by.initial_step;
  if (row.queue.empty())
    row.queue = by.queue;
  if (by.find_step(row.step) == nullptr)
    return error{errc::unknown_step,
                 fmt::format("step: expected one of {} of {}, got {}",
                             by.step_names(), by.title(), row.step),
                 {}};
  if (auto ok = by.check_state(row.state); !ok)
    return error{ok.error().code, "state: " + ok.error().message, {}};
  return row;
}

result<store::insert_row>
insert_intake::resolve(insert x,
                       const std::vector<store::known_machine>& known) {
  auto row = row_of(std::move(x));
  const store::known_machine* found = nullptr;
  std::string versions;
  for (const auto& candidate : known) {
    if (candidate.fsm != row.fsm)
      continue;
    versions += fmt::format("{}{}", versions.empty() ? "" : "|",
                            candidate.version);
    if (row.version == 0
          ? found == nullptr || candidate.version > found->version
          : candidate.version == row.version)
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
    auto what = row.version == 0 ? row.fsm
                                 : fmt::format("{} v{}", row.fsm, row.version);
    return error{errc::unknown_machine,
                 versions.empty()
                   ? fmt::format("fsm: no node has made {} known; expected a "
                                 "known machine, or step and queue as well",
                                 what)
                   : fmt::format("version: {} is known in version {}, got {}; "
                                 "or give step and queue as well",
                                 row.fsm, versions, row.version),
                 {}};
  } else {
    row.version = std::max(row.version, 1);
  }
  return row;
}

insert_intake::report
insert_intake::finish(pq::reply reply, clock::time_point now, bool withdrawn) {
  report out;
  under_way_ = false;
  auto looking_up = std::exchange(looking_up_, {});
  bool drawing = std::exchange(drawing_, false);
  bool sent = std::exchange(sending_, false);
  if (drawing && reply.ok()) {
    auto drawn = store::read_drawn(reply.results.back());
    ids_.insert(ids_.end(), drawn.begin(), drawn.end());
    ids_until_ = now + ids_last;
    if (!sent) { // the group that waits for them is next
      failures_ = 0;
      return out;
    }
  }
  resolved_.ended(group_, now);
  bool unsure = group_.unsure();
  auto group = std::exchange(group_, {}).entries;
  out.claims = end_claims(group, reply, drawing);
  if (!reply.ok()) {
    const auto& why = *reply.failure;
    // Behind the time that a group has who may wait for strangers.
    bool waited = why.code == errc::busy
                  || (why.sqlstate == "57014" && unsure && group.size() > 1);
    if (why.sqlstate == "23505" && sent && !asking_
        && group.front().id_tries < id_tries_at_most) {
      for (auto& x : group) {
        x.row.id = 0; // somebody else's
        ++x.id_tries;
      }
      ids_.clear();
      resolved_.put_back(std::move(group));
    } else if (why.code == errc::rejected && sent) {
      if (auto guilty = resolved_.split(std::move(group)))
        answer(out, *guilty, why);
    } else if (waited && sent) {
      // A stranger is inserting the key of one of them, or has locked the table.
      auto held = resolved_.split(std::move(group));
      if (held && how_.patient && held->busy_tries < busy_tries_at_most)
        resolved_.put_busy(std::move(*held), now);
      else if (held)
        answer(out, *held,
               with_fate(unsure ? busy_key(why.sqlstate) : why, held->resent));
    } else {
      for (auto& x : group)
        x.resent = x.resent || (sent && why.code == errc::unknown_fate);
      if (withdrawn || (how_.patient && try_again(why, now))) {
        unresolved_.insert(unresolved_.begin(),
                           std::make_move_iterator(looking_up.begin()),
                           std::make_move_iterator(looking_up.end()));
        resolved_.put_back(std::move(group));
      } else {
        for (const auto& x : looking_up) // an id that nobody uses does no harm
          answer(out, x, with_fate(why, false));
        for (const auto& x : group)
          answer(out, x, with_fate(why, x.resent));
      }
    }
    return out;
  }
  failures_ = 0;
  if (!looking_up.empty()) {
    auto known = store::read_machines(reply.results.back());
    for (auto& x : looking_up) {
      auto machine = how_.machines->find(x.what.fsm, x.what.version);
      auto row = machine ? resolve(std::move(x.what), *machine)
                         : resolve(std::move(x.what), known);
      if (row)
        resolved_.push({x.ticket, std::move(*row), x.size});
      else
        answer(out, x, row.error());
    }
  }
  if (!sent)
    return out;
  std::set<std::string> queues;
  out.answers.reserve(group.size());
  auto stored = [&](const entry& x) {
    answer(out, x, inserted{x.row.id});
    if (!x.row.delay_us && x.row.token.empty())
      queues.insert(x.row.queue);
    out.anywhere = out.anywhere || x.row.at_us;
  };
  if (asking_) {
    std::unordered_map<std::int64_t, store::inserted_row> there;
    // Of the calls before it, one may have been left out.
    auto at = reply.results.size() - (drawing ? 2 : 1);
    for (auto& x : store::read_inserted(reply.results[at]))
      there.emplace(x.id, x);
    for (auto& x : group) {
      auto found = there.find(x.row.id);
      if (found == there.end()) {
        answer(out, x,
               error{errc::unknown_fate,
                     fmt::format("instance {}: the database does not tell "
                                 "whether it is there",
                                 x.row.id),
                     {}});
      } else if (found->second.found) {
        stored(x);
      } else if (found->second.holder) {
        answer(out, x, inserted{*found->second.holder, true});
      } else {
        // Whoever had its key has left it since; or the id is another's: a server
        // that had lost its last moments has drawn it again, and lost what may
        // have been stored under it.
        x.row.id = 0;
        x.resent = false;
        ids_.clear();
        resolved_.push(std::move(x));
      }
    }
  } else {
    std::for_each(group.begin(), group.end(), stored);
  }
  out.queues.assign(queues.begin(), queues.end());
  return out;
}

std::vector<settled_request<inserted>>
insert_intake::give_up(std::uint64_t last, error why, clock::time_point now) {
  report out;
  auto late = [last](const auto& x) { return x.ticket <= last; };
  for (const auto& x : unresolved_)
    if (late(x))
      answer(out, x, why);
  std::erase_if(unresolved_, late);
  auto end = [&](const entry& x) {
    bool held = x.busy_tries > 0 && x.unsure();
    answer(out, x, with_fate(held ? busy_key() : why, x.resent));
  };
  for (const auto& x : resolved_.remove_if(late))
    end(x);
  // The next to be sent: its ids have been drawn.
  if (!under_way_ && !group_.entries.empty()) {
    for (const auto& x : group_.entries)
      if (late(x))
        end(x);
    std::erase_if(group_.entries, late);
    if (group_.entries.empty())
      resolved_.ended(std::exchange(group_, {}), now);
  }
  return std::move(out.answers);
}

std::uint64_t insert_intake::oldest_sent() const {
  auto oldest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& x : looking_up_)
    oldest = std::min(oldest, x.ticket);
  for (const auto& x : group_.entries)
    oldest = std::min(oldest, x.ticket);
  return oldest;
}

insert_intake::clock::time_point
insert_intake::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  bool at_once = !group_.entries.empty() || !unresolved_.empty()
                 || resolved_.has_due(now);
  auto when = at_once ? now : resolved_.due();
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

// -- signals ------------------------------------------------------------------

signal_intake::signal_intake(intake_settings how)
  : intake_base(how.most_bytes),
    how_(std::move(how)),
    waiting_(how_.rows, how_.bytes) {
  // nop
}

result<void> signal_intake::add(std::uint64_t ticket, signal what) {
  if (auto ok = room_for(what.payload.text().size()); !ok)
    return ok;
  if (auto ok = gd::check(what, how_.limits); !ok)
    return ok;
  auto size = bytes_of(what);
  if (auto ok = room_for(size); !ok)
    return ok;
  waiting_.push({ticket, std::move(what), size, ++numbers_});
  waiting_bytes_ += size;
  return {};
}

std::optional<pq::unit> signal_intake::begin(clock::time_point now) {
  if (under_way_ || now < not_before_ || !waiting_.has_due(now))
    return std::nullopt;
  group_ = waiting_.take(now);
  pq::unit work;
  store::row_refs<signal> signals;
  for (const auto& x : group_.entries)
    signals.add(x.what);
  if (group_.alone) {
    work.calls.push_back(store::lock_timeout(alone_wait));
    work.calls.push_back(store::lock({group_.entries.front().what.target}));
  }
  work.calls.push_back(store::lock_targets(signals));
  work.calls.push_back(store::send_signals(signals, how_.limits.inbox));
  under_way_ = true;
  return work;
}

signal_intake::report
signal_intake::finish(pq::reply reply, clock::time_point now, bool withdrawn) {
  report out;
  under_way_ = false;
  waiting_.ended(group_, now);
  auto group = std::exchange(group_.entries, {});
  auto busy = [&](entry x) {
    if (how_.patient && x.busy_tries < busy_tries_at_most)
      return waiting_.put_busy(std::move(x), now);
    answer(out, x, with_fate(busy_target(x.what.target), x.resent));
  };
  if (!reply.ok()) {
    const auto& why = *reply.failure;
    if (why.code == errc::rejected) {
      if (auto guilty = waiting_.split(std::move(group)))
        answer(out, *guilty, why);
    } else if (why.code == errc::busy && how_.patient) {
      // A row tried alone, or a dedup key that a stranger is inserting by hand:
      // alone from now on.
      if (auto held = waiting_.split(std::move(group))) {
        held->busy_tries = std::max(held->busy_tries,
                                    batcher<entry>::tries_before_alone);
        busy(std::move(*held));
      }
    } else if (withdrawn || (how_.patient && try_again(why, now))) {
      for (auto& x : group)
        x.resent = x.resent || why.code == errc::unknown_fate;
      waiting_.put_back(std::move(group));
    } else {
      for (const auto& x : group)
        answer(out, x,
               with_fate(why, x.resent || why.code == errc::unknown_fate));
    }
    return out;
  }
  failures_ = 0;
  auto rows = store::read_signals(reply.results.back());
  std::set<std::string> queues;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& x = group[i];
    auto refuse = [&](errc code, std::string text) {
      answer(out, x, error{code, std::move(text), {}});
    };
    const auto& row = i < rows.size()
                        ? rows[i]
                        : store::signal_row{store::signal_answer::unknown};
    switch (row.answer) {
      case store::signal_answer::accepted:
        for (const auto* queue : {&row.woken_queue, &row.runnable_queue})
          if (!queue->empty())
            queues.insert(*queue);
        answer(out, x, signalled{false});
        break;
      case store::signal_answer::duplicate:
        // Sent again, it may well be its own duplicate.
        answer(out, x, signalled{!x.resent});
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
      case store::signal_answer::unknown:
        refuse(errc::unknown_fate,
               fmt::format("target {}: the database gives no answer that is "
                           "known here",
                           x.what.target));
        break;
    }
  }
  out.queues.assign(queues.begin(), queues.end());
  return out;
}

std::vector<settled_request<signalled>>
signal_intake::give_up(std::uint64_t last, error why) {
  report out;
  auto late = [last](const auto& x) { return x.ticket <= last; };
  for (const auto& x : waiting_.remove_if(late))
    answer(
      out, x,
      with_fate(x.busy_tries > 0 ? busy_target(x.what.target) : why, x.resent));
  return std::move(out.answers);
}

std::uint64_t signal_intake::oldest_sent() const {
  auto oldest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& x : group_.entries)
    oldest = std::min(oldest, x.ticket);
  return oldest;
}

signal_intake::clock::time_point
signal_intake::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  auto when = waiting_.has_due(now) ? now : waiting_.due();
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

} // namespace gd
