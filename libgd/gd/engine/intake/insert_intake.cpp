#include <gd/engine/intake/insert_intake.hpp>

#include <gd/engine/intake/resolve.hpp>
#include <gd/pq/ensure.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How long inserts with a unique key wait for a stranger's insert of it.
constexpr milliseconds unique_wait{10};
/// How long each statement of a group of them may take: it may have to wait for many,
/// and has its own work to do.
milliseconds unique_group_wait(std::size_t rows, std::size_t bytes) {
  constexpr std::size_t rows_per_ms = 10;
  constexpr std::size_t bytes_per_ms = 8 << 10;
  return milliseconds{100 + rows / rows_per_ms + bytes / bytes_per_ms};
}
/// Ids that are another row's are drawn again, so many times.
constexpr int id_tries_at_most = 4;
/// From then on it is looked whether their sequence stands behind the rows.
constexpr int id_tries_unchecked = 1;
/// How long ids are kept. A server that has lost its last moments (a failover)
/// draws them for others, too.
constexpr std::chrono::seconds ids_last{1};

error key_locked(std::string sqlstate = {}) {
  return {errc::busy, "unique_key: another transaction is inserting it",
          std::move(sqlstate)};
}

error ids_taken(std::int64_t id) {
  return {errc::rejected,
          fmt::format("instance {}: another has the id that was drawn, as with "
                      "all before it",
                      id),
          {}};
}

/// Whether it may be picked at once, as far as can be told.
bool is_due(const store::insert_row& row) {
  return !row.delay_us && !row.rests;
}

/// Of a row whose unique key another instance has.
result<inserted> answer_of_holder(const store::insert_row& row, std::int64_t id,
                                  const std::string& fsm) {
  if (fsm == row.fsm)
    return inserted{id, true};
  return of_another_machine(*row.unique_key, id, fsm);
}

/// Of the group's last statement: behind it, ids may have been drawn.
const pq::rows& last_answer(const pq::reply& reply, bool drawing) {
  return reply.results[reply.results.size() - (drawing ? 2 : 1)];
}

} // namespace

insert_intake::insert_intake(intake_settings how)
  : how_(std::move(how)), resolved_(how_.rows, how_.bytes) {
  // nop
}

result<void> insert_intake::add(std::uint64_t ticket, insert what) {
  if (auto ok = check(what, how_.limits); !ok)
    return ok;
  auto size = bytes_with(what.state)
              + (what.partition_key ? what.partition_key->size() : 0)
              + (what.unique_key ? what.unique_key->size() : 0);
  auto machine = looked_up_first_.contains(what.fsm)
                   ? nullptr
                   : how_.machines->find(what.fsm, what.version);
  // What a machine's state is read from need not be read twice.
  if (!machine || !begins_object(what.state))
    if (auto ok = check_object(what.state); !ok)
      return ok;
  // In the order of arrival: in the caller's transaction it is that of unique keys.
  auto row = row_of(std::move(what));
  if (!machine || !unresolved_.empty() || !looking_up_.empty()) {
    unresolved_.push_back({ticket, std::move(row), size});
    return {};
  }
  if (auto ok = resolve(row, *how_.machines, {}, how_.limits); !ok)
    return ok;
  resolved_.push({ticket, std::move(row), size});
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
    if (std::any_of(group_.entries.begin(), group_.entries.end(),
                    [](const auto& x) {
      return x.id_tries > id_tries_unchecked;
        }))
      work.calls.push_back(store::check_ids("gen_durable"));
    work.calls.push_back(store::draw_ids(missing - ids_.size()));
  } else if (!unresolved_.empty()) {
    auto n = std::min(unresolved_.size(), how_.rows);
    auto end = unresolved_.begin() + static_cast<std::ptrdiff_t>(n);
    looking_up_.assign(std::make_move_iterator(unresolved_.begin()),
                       std::make_move_iterator(end));
    unresolved_.erase(unresolved_.begin(), end);
    std::set<std::string> names;
    for (const auto& x : looking_up_)
      names.insert(x.row.fsm);
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
      x.row.drawn_us = ids_.front().drawn_us;
      ids_.pop_front();
    }
    asking_ = asking_ || x.row.resent;
  }
  if (how_.claiming && !asking_)
    claim();
  store::row_refs<store::insert_row> claimed;
  store::row_refs<store::insert_row> rows;
  bool plain = true;
  for (const auto& x : group_.entries) {
    plain = plain && x.row.history == 0 && !x.row.rests;
    (x.row.token.empty() ? rows : claimed).add(x.row);
  }
  if (asking_) {
    work.calls.push_back(plain ? store::insert(rows)
                               : store::insert_ledger(rows));
    work.calls.push_back(store::inserted(rows));
  } else if (!rows.empty()) {
    work.calls.push_back(plain ? store::insert_new(rows)
                               : store::insert_new_ledger(rows));
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
  auto most = by.slots->most();
  if (most == 0)
    return;
  // By queue, how many rows are due; too many: one of them needs a pick.
  std::map<std::string_view, std::int32_t> due;
  for (const auto& x : group_.entries) {
    if (!is_due(x.row))
      continue;
    auto& n = due[x.row.queue];
    // Is it as due as it says, does its key let it run, can this node run it?
    bool simple = !x.row.at_us && !x.row.partition_key && x.row.history == 0
                  && how_.machines->find(x.row.fsm, x.row.version);
    n = simple && n <= most ? n + 1 : most + 1;
  }
  for (const auto& [queue, n] : due)
    if (n <= most)
      if (auto one = by.slots->take(
            std::string{queue}, fmt::format("{}/{}", by.incarnation, by.next++),
            n))
        claims_.emplace(queue, std::move(*one));
  for (auto& x : group_.entries)
    if (auto found = claims_.find(x.row.queue);
        found != claims_.end() && is_due(x.row))
      x.row.token = found->second.token;
}

std::vector<claim_slots::claim>
insert_intake::end_claims(std::vector<entry>& group, const pq::reply& reply,
                          bool drawing, clock::time_point now) {
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
  auto since = std::chrono::duration_cast<std::chrono::microseconds>(
    now - clock_read_.at);
  auto picked_at = std::chrono::steady_clock::now();
  std::unordered_map<std::int64_t, std::string> states;
  for (auto& x : store::read<store::claimed_row>(last_answer(reply, drawing)))
    states.emplace(x.id, std::move(x.state));
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
    ensure(of != out.end(), "a claimed row's token is that of a claim");
    auto state = states.find(x->id);
    if (state == states.end())
      of->lost = true; // under its lease, or not there: only a pick can tell
    else
      of->rows.push_back(
        store::picked_row{.id = x->id,
                          .fsm = x->fsm,
                          .fsm_version = x->version,
                          .step = x->step,
                          .state = std::move(state->second),
                          .traceparent = x->traceparent.value_or(""),
                          .due_us = clock_read_.us + since.count(),
                          .now_us = clock_read_.us + since.count(),
                          .picked_at = picked_at});
  }
  return out;
}

std::vector<claim_slots::claim> insert_intake::abandon() {
  std::vector<claim_slots::claim> out;
  for (auto& [queue, one] : std::exchange(claims_, {})) {
    one.lost = true;
    out.push_back(std::move(one));
  }
  return out;
}

insert_intake::report
insert_intake::finish(pq::reply reply, clock::time_point now, bool withdrawn) {
  report out;
  under_way_ = false;
  auto looking_up = std::exchange(looking_up_, {});
  bool drawing = std::exchange(drawing_, false);
  bool sent = std::exchange(sending_, false);
  if (drawing && reply.ok()) {
    auto drawn = store::read<store::drawn_id>(reply.results.back());
    ids_.insert(ids_.end(), drawn.begin(), drawn.end());
    ids_until_ = now + ids_last;
    if (!drawn.empty())
      clock_read_ = {drawn.back().drawn_us, now};
    out.drawn = static_cast<std::int64_t>(drawn.size());
    if (!sent) { // the group that waits for them is next
      failures_ = 0;
      return out;
    }
  }
  resolved_.ended(group_, now);
  auto group = std::exchange(group_, {});
  out.claims = end_claims(group.entries, reply, drawing, now);
  if (!reply.ok()) {
    const auto& why = *reply.failure;
    if (sent && fail_some(out, group, why, now))
      return out;
    for (auto& x : group.entries)
      x.row.resent = x.row.resent || (sent && why.code == errc::unknown_fate);
    bool again = withdrawn || (how_.patient && try_again(why, now));
    fail_all(out, std::move(looking_up), std::move(group.entries), why, again);
    return out;
  }
  failures_ = 0;
  if (!looking_up.empty())
    resolve_all(out, std::move(looking_up), reply);
  if (sent)
    read_group(out, std::move(group.entries),
               asking_ ? &last_answer(reply, drawing) : nullptr);
  return out;
}

bool insert_intake::fail_some(report& to, batcher<entry>::group& failed,
                              const error& why, clock::time_point now) {
  auto unsure = failed.unsure();
  auto& group = failed.entries;
  if (why.sqlstate == "23505" && !asking_
      && group.front().id_tries < id_tries_at_most) {
    for (auto& x : group) {
      x.row.id = 0; // somebody else's
      ++x.id_tries;
    }
    ids_.clear();
    resolved_.retry(std::move(group));
    return true;
  }
  if (why.code == errc::version_retired) {
    look_up_versions(std::move(group));
    return true;
  }
  if (why.code == errc::rejected) {
    if (auto guilty = resolved_.split(std::move(group)))
      answer(to, *guilty, why);
    return true;
  }
  // Behind the time that a group has who may wait for strangers.
  bool waited = why.code == errc::busy
                || (why.sqlstate == "57014" && unsure && group.size() > 1);
  if (!waited)
    return false;
  // A stranger is inserting the key of one of them, or has locked the table.
  auto held = resolved_.split(std::move(group));
  if (held && how_.patient && held->locked_tries < locked_tries_at_most)
    resolved_.put_locked(std::move(*held), now);
  else if (held)
    answer(
      to, *held,
      with_fate(unsure ? key_locked(why.sqlstate) : why, held->row.resent));
  return true;
}

void insert_intake::look_up_versions(std::vector<entry> group) {
  std::vector<unresolved_entry> looked_up;
  std::vector<entry> resent;
  for (auto& x : group) {
    if (x.row.resent) {
      resent.push_back(std::move(x));
      continue;
    }
    looked_up_first_.insert(x.row.fsm);
    reopen(x.row);
    x.row.id = 0;
    looked_up.push_back({x.ticket, std::move(x.row), x.size});
  }
  unresolved_.insert(unresolved_.begin(),
                     std::make_move_iterator(looked_up.begin()),
                     std::make_move_iterator(looked_up.end()));
  resolved_.retry(std::move(resent));
}

void insert_intake::fail_all(report& to,
                             std::vector<unresolved_entry> looking_up,
                             std::vector<entry> group, const error& why,
                             bool again) {
  if (again) {
    unresolved_.insert(unresolved_.begin(),
                       std::make_move_iterator(looking_up.begin()),
                       std::make_move_iterator(looking_up.end()));
    resolved_.retry(std::move(group));
    return;
  }
  for (const auto& x : looking_up) // an id that nobody uses does no harm
    answer(to, x, with_fate(why, false));
  for (const auto& x : group)
    answer(to, x, with_fate(why, x.row.resent));
}

void insert_intake::resolve_all(report& to,
                                std::vector<unresolved_entry> looked_up,
                                const pq::reply& reply) {
  auto known = store::read<store::known_machine>(reply.results.back());
  for (const auto& x : looked_up)
    looked_up_first_.erase(x.row.fsm);
  for (const auto& x : known)
    if (x.pinned || x.retired)
      looked_up_first_.insert(x.fsm);
  for (auto& x : looked_up)
    if (auto ok = resolve(x.row, *how_.machines, known, how_.limits); ok)
      resolved_.push({x.ticket, std::move(x.row), x.size});
    else
      answer(to, x, ok.error());
}

void insert_intake::read_group(report& to, std::vector<entry> group,
                               const pq::rows* told) {
  std::set<std::string> queues;
  to.answers.reserve(group.size());
  std::unordered_map<std::int64_t, store::inserted_row> there;
  if (told != nullptr)
    for (auto& x : store::read<store::inserted_row>(*told))
      there.emplace(x.id, x);
  for (auto& x : group) {
    auto found = there.find(x.row.id);
    if (told == nullptr || (found != there.end() && found->second.found)) {
      answer(to, x, inserted{x.row.id});
      if (!is_due(x.row))
        --to.drawn;
      else if (x.row.token.empty())
        queues.insert(x.row.queue);
      to.anywhere = to.anywhere || x.row.at_us;
    } else if (found == there.end()) {
      answer(to, x,
             error{errc::unknown_fate,
                   fmt::format("instance {}: the database does not tell "
                               "whether it is there",
                               x.row.id),
                   {}});
    } else if (auto holder = found->second.holder) {
      answer(to, x, answer_of_holder(x.row, *holder, found->second.holder_fsm));
    } else if (found->second.taken && ++x.id_tries > id_tries_at_most) {
      answer(to, x, ids_taken(x.row.id));
    } else {
      // Whoever had its key has left it since; or the id is another's: a server
      // that had lost its last moments has drawn it again, and lost what may
      // have been stored under it; or the sequence stands behind the rows.
      x.row.id = 0;
      x.row.resent = false;
      ids_.clear();
      resolved_.push(std::move(x));
    }
  }
  to.queues.assign(queues.begin(), queues.end());
}

std::vector<answered_request<inserted>>
insert_intake::give_up(std::uint64_t last, error why, clock::time_point now) {
  report out;
  auto late = [last](const auto& x) { return x.ticket <= last; };
  for (const auto& x : unresolved_)
    if (late(x))
      answer(out, x, why);
  std::erase_if(unresolved_, late);
  auto end = [&](const entry& x) {
    bool held = x.locked_tries > 0 && x.unsure();
    answer(out, x, with_fate(held ? key_locked() : why, x.row.resent));
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

} // namespace gd
