#include <gd/testing.hpp>

#include <gd/config.hpp>
#include <gd/engine/queue/key.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/engine/step/step_sessions.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/database.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/testing_sql.hpp>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

namespace gd::testing {

namespace {

using std::chrono::microseconds;
using clock_type = database::clock;

/// Rows of one sweep; a full batch is followed by the next.
constexpr std::int32_t batch = 500;

/// How long a row may stay in other hands.
constexpr std::chrono::seconds patience{10};

/// One transaction of a queue that has gone through.
gd::result<turn::report> transact(pq::connection& db, turn& work,
                                  std::int32_t want, bool suspects = false) {
  auto give_up = clock_type::now() + patience;
  while (true) {
    auto now = clock_type::now();
    if (auto next = work.begin(want, now, 0, suspects)) {
      auto report = work.finish(next->transaction, db.run(next->work),
                                clock_type::now());
      if (!report.failure)
        return report;
      if (!retryable(report.failure->code)
          || db.state() == pq::connection::phase::dead)
        return *report.failure;
    }
    if (now > give_up)
      return error{errc::busy, "another transaction holds the row", {}};
    std::this_thread::sleep_until(
      std::min(work.due(now), now + std::chrono::milliseconds{5}));
  }
}

} // namespace

struct in_database::session {
  std::string queue;
  std::shared_ptr<quarantine> suspects;
  turn work;
};

in_database::in_database(pq::options where, in_database_settings how)
  : harness(how.limits),
    how_(std::move(how)),
    db_(std::make_unique<pq::connection>(where)),
    keys_(std::make_shared<key_table>()),
    step_sessions_(std::make_unique<step_sessions>(step_sessions::settings{
      .where = std::move(where), .how = how_.effects})) {
  // nop
}

in_database::in_database(in_database&&) noexcept = default;
in_database& in_database::operator=(in_database&&) noexcept = default;
in_database::~in_database() = default;

gd::result<in_database> in_database::connect(const pq::options& where,
                                             std::vector<machine> machines,
                                             in_database_settings how) {
  in_database made{where, std::move(how)};
  auto client = client::connect(
    where, {.machines = made.known_, .limits = made.limits_});
  if (!client)
    return client.error();
  made.client_.emplace(std::move(*client));
  if (auto ok = made.added(); !ok)
    return ok.error();
  for (auto& x : machines)
    if (auto ok = made.add(std::move(x)); !ok)
      return ok.error();
  return made;
}

gd::result<void> in_database::added() {
  std::vector<std::string> queues;
  for (const auto& x : machines_)
    queues.push_back(x.queue);
  queues.insert(queues.end(), how_.queues.begin(), how_.queues.end());
  sessions_.clear();
  std::set<std::string> there;
  for (const auto& x : queues)
    if (there.insert(x).second) {
      auto suspects = std::make_shared<quarantine>();
      sessions_.push_back({x, suspects,
                           turn{{.queue = x,
                                 .incarnation = make_incarnation("testing"),
                                 .machines = known_->keys(),
                                 .inbox = limits_.inbox,
                                 .keys = keys_,
                                 .suspects = suspects,
                                 .pause_without_suspects = {},
                                 .statements = how_.effects}}});
    }
  if (machines_.empty())
    return {};
  if (auto ok = run(store::register_machines(store::known(machines_))); !ok)
    return ok.error();
  return {};
}

/// To the database's own clock.
void in_database::shift(gd::insert& what) const {
  if (auto& at = what.eligible_at_us; at && *at > advanced_.count())
    *at -= advanced_.count();
}

gd::result<inserted> in_database::insert(gd::insert what) {
  shift(what);
  return client_->insert(std::move(what));
}

gd::result<signalled> in_database::signal(gd::signal what) {
  return client_->signal(std::move(what));
}

gd::result<transitioned> in_database::transition(gd::transition what) {
  return client_->transition(std::move(what));
}

gd::result<gd::instance> in_database::look_up(const gd::look_up& what) {
  return client_->look_up(what);
}

std::chrono::sys_time<microseconds> in_database::now() const {
  auto stored = microseconds{run({&sql::testing_now, {}})->integer(0, 0)};
  return std::chrono::sys_time<microseconds>{stored + advanced_};
}

gd::result<pq::rows> in_database::run(pq::call what) const {
  auto reply = db_->run({{std::move(what)}, true});
  if (!reply.ok())
    return *reply.failure;
  return std::move(reply.results.front());
}

gd::result<void> in_database::sweep() {
  auto now = run({&sql::testing_now, {}});
  if (!now)
    return now.error();
  swept_at_us_ = now->integer(0, 0);
  while (true) {
    auto rows = run(store::wake_due(batch));
    if (!rows)
      return rows.error();
    if (rows->size() < static_cast<std::size_t>(batch))
      return return_rows();
  }
}

gd::result<void> in_database::return_rows() {
  auto rows = run(store::returning(batch, true));
  if (!rows)
    return rows.error();
  for (auto id : store::read_ids(*rows))
    if (auto ok = run(store::return_row(id, true)); !ok)
      return ok.error();
  return {};
}

gd::result<void> in_database::pass(microseconds by) {
  pq::call shift{&sql::testing_advance, {}};
  shift.args.add(std::int64_t{by.count()});
  if (auto ok = run(std::move(shift)); !ok)
    return ok.error();
  advanced_ += by;
  return sweep();
}

gd::result<std::optional<microseconds>> in_database::next_due() {
  std::vector<std::string> queues;
  for (const auto& x : sessions_)
    queues.push_back(x.queue);
  pq::call next{&sql::testing_next, {}};
  std::vector<std::string> names;
  std::vector<std::int32_t> versions;
  for (const auto& x : known_->keys()) {
    names.push_back(x.fsm);
    versions.push_back(x.version);
  }
  next.args.add(queues).add(names).add(versions).add(swept_at_us_);
  auto rows = run(std::move(next));
  if (!rows)
    return rows.error();
  return rows->is_null(0, 0) ? std::nullopt
                             : std::optional{microseconds{rows->integer(0, 0)}};
}

gd::result<harness::written> in_database::write(turn& work,
                                                store::outcome_row what) {
  if (what.until_us)
    *what.until_us -= advanced_.count();
  if (what.carried) {
    // Nothing passes by itself: nobody else is at work.
    what.carried->patience = {};
    for (auto& x : what.carried->inserts)
      shift(x);
  }
  work.add(std::move(what));
  while (true) {
    auto report = transact(*db_, work, 0);
    if (!report)
      return report.error();
    if (report->rows.empty())
      continue; // locked
    auto& row = report->rows.front();
    written became;
    became.applied = row.what == turn::flushed::verdict::applied;
    if (row.what == turn::flushed::verdict::refused
        || row.what == turn::flushed::verdict::collided)
      became.refused = row.why;
    became.effect = std::move(row.effect);
    return became;
  }
}

gd::result<void> in_database::lose(const lease_ptr& under) {
  pq::call end{&sql::testing_lose, {}};
  end.args.add(under->id).add(under->token);
  if (auto ok = run(std::move(end)); !ok)
    return ok.error();
  if (auto ok = run(store::reap(batch)); !ok)
    return ok.error();
  return return_rows();
}

gd::result<bool> in_database::run_one() {
  if (auto ok = sweep(); !ok)
    return ok.error();
  for (auto& [queue, suspects, work] : sessions_) {
    work.scan_everything(); // each pick is a poll
    auto report = transact(*db_, work, 1);
    if (report && report->picked.empty() && report->full)
      report = transact(*db_, work, 1); // now also rows with a partition key
    if (report && report->picked.empty() && work.sees_suspects())
      report = transact(*db_, work, 1, true);
    if (!report)
      return report.error();
    if (report->picked.empty())
      continue;
    auto& row = report->picked.front();
    row.now_us += advanced_.count();
    auto under = std::make_shared<lease>(row.id, report->token);
    std::optional<store::key_hold> hold;
    if (row.partition_key)
      hold = store::key_hold{*row.partition_key, row.key_session};
    auto ok = execute(
      std::move(row), under,
      [this, &to = work](store::outcome_row what) {
      return write(to, std::move(what));
      },
      [&] { return lose(under); });
    if (report->suspects) {
      suspects->ended(under->id, true);
      suspects->end_trial();
    }
    if (hold) {
      work.unlock(std::move(*hold));
      if (auto unlocked = transact(*db_, work, 0); !unlocked)
        return unlocked.error();
    }
    if (!ok)
      return ok.error();
    return true;
  }
  return false;
}

gd::result<std::size_t> drain(const pq::options& where,
                              std::vector<machine> machines,
                              std::vector<std::string> queues) {
  auto run = in_database::connect(where, std::move(machines),
                                  {.queues = std::move(queues)});
  if (!run)
    return run.error();
  return run->drain();
}

} // namespace gd::testing
