#include <gd/engine/step/step_transaction.hpp>

#include <gd/pq/pause.hpp>
#include <gd/sql.hpp>
#include <gd/store/steps.hpp>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;
using lent_state = pq::connection::transaction_state;

constexpr milliseconds first_ask{20};
constexpr milliseconds longest_ask{1'000};

void wait(std::int64_t times, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock guard{mutex};
  never.wait_for(guard, stop, pause_after(times, first_ask, longest_ask),
                 [] { return false; });
}

} // namespace

step_transaction::step_transaction(run& what, step_sessions& on)
  : what_(what), on_(on), stop_(what.held().under()->stop_token()) {
  // nop
}

/// Its lease is another's by now, its time is over, or the engine stops.
bool step_transaction::unwanted() const {
  const auto& under = what_.held().under();
  return under->lost || under->decided_by() != decider::nobody
         || stop_.stop_requested();
}

std::string step_transaction::step_name() const {
  return "step " + what_.held().row().step + " of " + what_.held().of().title();
}

step_transaction::report step_transaction::execute() {
  const auto& under = what_.held().under();
  if (under->decided_by() != decider::nobody)
    return {};
  auto ready = begin();
  if (ready && *ready)
    return run_step();
  if (!ready && under->decide(decider::step))
    return fail(
      what_.fail(failure{"the transaction of " + step_name()
                         + " cannot begin: " + ready.error().message}));
  if (under->lost && under->decide(decider::step))
    return {.what = fate::stale,
            .row = what_.held().begin_outcome(store::write_kind::release)};
  return {};
}

/// False: nobody waits for it any more.
result<bool> step_transaction::begin() {
  auto session = on_.take(stop_);
  if (!session)
    return session.error();
  if (!*session)
    return false;
  session_.emplace(std::move(*session));
  const auto& held = what_.held();
  marker_ = held.under()->token + " " + std::to_string(held.row().id);
  while (!unwanted()) {
    auto reply = db().run(
      {store::enter_step(marker_, on_.with().how, on_.with().lease), false});
    if (reply.ok()) {
      role_
        = store::read<store::entered_step>(reply.results.back()).front().role;
      return true;
    }
    if (db().state() != pq::connection::phase::dead) {
      roll_back();
      return *reply.failure;
    }
    // It has ended while nobody used it: nothing has been done there.
    auto made = on_.connect(stop_);
    if (!made)
      return made.error();
    if (*made)
      session_->replace(std::move(*made));
  }
  return false;
}

step_transaction::report step_transaction::run_step() {
  const auto& under = what_.held().under();
  try {
    auto ctx = what_.begin();
    std::string room;
    const auto& state = what_.held().state(room);
    auto* handle = db().lend();
    auto x = what_.held().step()->run_in_transaction(ctx, state, handle);
    return finish(std::move(x), ctx);
  } catch (...) {
    roll_back();
    if (under->decide(decider::step) || under->decided_by() == decider::step)
      return fail(what_.fail(std::current_exception()));
    return {};
  }
}

step_transaction::report step_transaction::finish(outcome x,
                                                  const context_base& ctx) {
  if (!what_.held().under()->decide(decider::step)) {
    roll_back();
    return {};
  }
  auto row = what_.check(std::move(x), ctx);
  if (!row) {
    roll_back();
    return fail(what_.fail(row.error()));
  }
  if ((*row)->carried) {
    roll_back();
    return fail(what_.fail(failure{
      step_name()
        + " carries effects: what a step in a transaction wants is done "
          "through ctx.db()",
      nullptr, true}));
  }
  auto state = db().take_back();
  if (!state)
    return lose(state.error().message);
  switch (*state) {
    case lent_state::open:
      return write(std::move(*row));
    case lent_state::failed:
      roll_back();
      return fail(what_.fail(
        failure{step_name()
                + " has returned an outcome, but a statement has failed in "
                  "its transaction: nothing can be committed with it"}));
    default:
      return fail(what_.fail(failure{
        step_name()
          + " has ended the transaction of its outcome: what it did before "
            "that is stored or rolled back, as it wanted",
        nullptr, true}));
  }
}

step_transaction::report step_transaction::write(outcome_ptr row) {
  row->erase = false; // a sweep does that, which may wait for others
  pq::unit work{
    store::leave_step(marker_, role_, on_.with().where.statement_timeout),
    false};
  auto left = work.calls.size() - 1;
  auto outcome = store::write_alone(*row, on_.with().resend);
  auto written = work.calls.size() + outcome.written;
  for (auto& x : outcome.calls)
    work.add(std::move(x));
  auto reply = db().run(work);
  if (!reply.ok()) {
    if (db().state() == pq::connection::phase::dead)
      return lose(reply.failure->message);
    roll_back();
    return refuse(*reply.failure);
  }
  auto told = store::read<store::left_step>(reply.results[left]).front();
  if (!told.same) {
    roll_back();
    return fail(what_.fail(
      failure{step_name()
                + " has ended the transaction of its outcome, and begun "
                  "another: what it did before that is stored",
              nullptr, true}));
  }
  auto answers = store::read_flush(reply.results[written]);
  if (!answers.empty() && answers.front().applied)
    return commit(std::move(row), told.xact);
  roll_back();
  if (!answers.empty() && answers.front().holder)
    return refuse({errc::key_taken,
                   "instance " + std::to_string(*answers.front().holder)
                     + " has its unique key",
                   {}});
  return {.what = fate::stale, .row = std::move(row)};
}

step_transaction::report step_transaction::commit(outcome_ptr row,
                                                  const std::string& xact) {
  auto reply = db().run({{{&sql::commit, {}}}, false});
  if (reply.ok()) {
    if (auto ok = reply.results.front().check_commit(); !ok)
      return refuse(ok.error());
    return {.what = fate::applied, .row = std::move(row)};
  }
  if (reply.failure->code != errc::unknown_fate) {
    roll_back();
    return refuse(*reply.failure);
  }
  report so_far;
  if (reply.unreplicated)
    so_far.unreplicated = reply.failure;
  return resolve(std::move(row), xact, std::move(so_far));
}

/// The connection has gone with the answer to its commit: others know.
step_transaction::report step_transaction::resolve(outcome_ptr row,
                                                   const std::string& xact,
                                                   report so_far) {
  const auto& under = what_.held().under();
  so_far.what = fate::unknown;
  for (std::int64_t times = 0; !under->lost && !stop_.stop_requested();
       ++times) {
    auto status = ask(xact);
    if (!status || *status == "forgotten")
      break;
    if (*status == "committed") {
      so_far.what = fate::applied;
      break;
    }
    if (*status == "aborted")
      return lose("its commit was not done");
    wait(times, stop_);
  }
  so_far.row = std::move(row);
  return so_far;
}

/// Nullopt: nobody can be asked.
std::optional<std::string> step_transaction::ask(const std::string& xact) {
  if (db().state() == pq::connection::phase::dead) {
    auto made = on_.connect(stop_);
    if (!made || !*made)
      return std::nullopt;
    session_->replace(std::move(*made));
  }
  auto reply = db().run({{store::xact_status(xact)}, false});
  if (!reply.ok())
    return db().state() == pq::connection::phase::dead
             ? std::optional<std::string>{"lost"}
             : std::nullopt;
  const auto& rows = reply.results.front();
  return rows.is_null(0, 0) ? "forgotten" : std::string{rows.text(0, 0)};
}

/// Whatever is left of it. The connection is idle then, or dead.
void step_transaction::roll_back() {
  if (db().state() == pq::connection::phase::dead || !db().take_back())
    return;
  if (!db().run({{{&sql::rollback, {}}}, false}).ok())
    db().abandon({errc::unavailable, "a rollback has failed", {}});
}

// -- what else becomes of it --------------------------------------------------

step_transaction::report step_transaction::fail(outcome_ptr by_handler) {
  return {.what = fate::failed, .row = std::move(by_handler)};
}

step_transaction::report step_transaction::refuse(const error& why) {
  return {.what = fate::failed,
          .row = what_.refused(why),
          .refused = without_data(why)};
}

/// With its connection.
step_transaction::report step_transaction::lose(const std::string& why) {
  return fail(what_.fail(failure{"the transaction of " + step_name()
                                 + " is lost, and rolled back: " + why}));
}

} // namespace gd
