#include <gd/transaction.hpp>

#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/intake/target_intake.hpp>
#include <gd/pq/borrowed.hpp>
#include <gd/pq/database.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/store/transitions.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

namespace gd {

namespace {

template <class Answer>
using slots = std::vector<std::optional<result<Answer>>>;

template <class Answer>
std::vector<result<Answer>> refuse_all(std::size_t count, const error& why) {
  return std::vector<result<Answer>>(count, result<Answer>{why});
}

intake_settings settings_of(const transaction_settings& x) {
  return {.machines = x.machines, .limits = x.limits, .patient = false};
}

} // namespace

/// One call's stay in the caller's session.
class transaction::visit {
public:
  explicit visit(transaction& at)
    : at_(at), db_(at.connection_, at.how_.schema) {
    // nop
  }

  /// A codec of the user's may have thrown.
  ~visit() {
    static_cast<void>(static_cast<bool>(leave()));
  }

  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

  template <class Intake, class Answer, class Request>
  static std::vector<result<Answer>>
  send_all(transaction& at, std::vector<Request> xs, std::string_view plural);

  result<void> enter() {
    if (auto ok = check_name("schema", at_.how_.schema, {.name = 63}); !ok)
      return ok;
    if (auto ok = db_.check(); !ok)
      return ok;
    auto was = db_.run({&sql::borrow, {}});
    if (!was)
      return lose(was.error());
    was_ = std::move(*was);
    if (at_.checked_)
      return {};
    auto ok = store::check_schema(run({{store::schema_version()}}),
                                  at_.how_.schema);
    at_.checked_ = static_cast<bool>(ok);
    return ok;
  }

  std::string_view isolation() const {
    return was_->text(0, 0);
  }

  /// A unit by itself: a failure undoes what it has done, and no more.
  pq::reply run(const pq::unit& work) {
    if (auto ok = db_.run({&sql::savepoint, {}}); !ok)
      return {{}, lose(ok.error()), 0};
    pq::reply out;
    for (const auto& one : work.calls) {
      // The first wait is for as long as the caller waits.
      if (one.what == &sql::lock_timeout && !waited_)
        continue;
      auto rows = db_.run(one);
      if (!rows) {
        out.failure = rows.error();
        break;
      }
      out.results.push_back(std::move(*rows));
    }
    if (out.failure) {
      waited_ = waited_ || out.failure->code == errc::busy;
      if (auto ok = db_.run({&sql::rollback_to_savepoint, {}}); !ok)
        return {{}, lose(ok.error()), 0};
    }
    if (auto ok = db_.run({&sql::release_savepoint, {}}); !ok)
      return {{}, lose(ok.error()), 0};
    return out;
  }

  /// Sends what an intake has. It never waits: it is not patient.
  template <class Answer, class Intake>
  void drive(Intake& intake, slots<Answer>& answers) {
    auto now = database::clock::now();
    while (!lost_) {
      auto work = intake.begin(now);
      if (!work)
        return;
      auto report = intake.finish(run(*work), now);
      for (auto& x : report.answers)
        answers[x.ticket].emplace(std::move(x.answer));
    }
  }

  template <class Answer>
  std::vector<result<Answer>> answer(slots<Answer>& answers) {
    auto ok = leave();
    std::vector<result<Answer>> out;
    out.reserve(answers.size());
    for (auto& x : answers)
      if (ok || (x && !*x))
        out.push_back(std::move(*x));
      else
        out.push_back(ok.error()); // with the transaction goes the row
    return out;
  }

private:
  error lose(const error& why) {
    lost_ = error{why.code, "the caller's transaction is lost: " + why.message,
                  why.sqlstate};
    return *lost_;
  }

  /// The session is the caller's again.
  result<void> leave() {
    if (auto was = std::exchange(was_, std::nullopt); was && !lost_) {
      pq::call restore{&sql::restore, {}};
      restore.args.add(was->text(0, 1))
        .add(was->text(0, 2))
        .add(was->text(0, 3));
      if (auto ok = db_.run(restore); !ok)
        lose(ok.error());
    }
    if (lost_)
      return *lost_;
    return {};
  }

  transaction& at_;
  pq::borrowed db_;
  std::optional<pq::rows> was_;
  std::optional<error> lost_;
  bool waited_ = false;
};

transaction::transaction(pg_conn* connection, transaction_settings how)
  : connection_(connection), how_(std::move(how)) {
  // nop
}

// -- inserts ------------------------------------------------------------------

std::vector<result<inserted>>
transaction::insert_all(std::vector<gd::insert> rows) {
  if (rows.empty())
    return {};
  visit here{*this};
  if (auto ok = here.enter(); !ok)
    return refuse_all<inserted>(rows.size(), ok.error());
  // All of them in the order of unique keys: their locks stay until the end of
  // the transaction, and others insert in this order, too.
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&rows](auto i, auto j) {
    return rows[i].unique_key < rows[j].unique_key;
  });
  insert_intake intake{settings_of(how_)};
  slots<inserted> answers(rows.size());
  for (auto i : order)
    if (auto ok = intake.add(i, std::move(rows[i])); !ok)
      answers[i].emplace(ok.error());
  here.drive(intake, answers);
  return here.answer(answers);
}

result<inserted> transaction::insert(gd::insert what) {
  return std::move(insert_all(just(std::move(what))).front());
}

// -- signals and transitions --------------------------------------------------

/// Of all of a call, in one order. Waits for strangers.
static pq::call lock_all(const std::vector<store::target_name>& targets) {
  std::vector<std::int64_t> ids;
  for (const auto& x : targets) {
    if (x.key)
      return store::lock_named(targets, true);
    ids.push_back(x.target);
  }
  return store::lock(ids);
}

/// What locks its targets first. `plural`: what they are called.
template <class Intake, class Answer, class Request>
std::vector<result<Answer>>
transaction::visit::send_all(transaction& at, std::vector<Request> xs,
                             std::string_view plural) {
  if (xs.empty())
    return {};
  visit here{at};
  if (auto ok = here.enter(); !ok)
    return refuse_all<Answer>(xs.size(), ok.error());
  if (!here.isolation().starts_with("read "))
    return refuse_all<Answer>(
      xs.size(),
      {errc::invalid_argument,
       fmt::format("transaction: expected isolation level read committed for "
                   "{}, got {}",
                   plural, here.isolation()),
       {}});
  Intake intake{settings_of(at.how_)};
  slots<Answer> answers(xs.size());
  std::vector<store::target_name> targets;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    store::target_name target{xs[i].target, xs[i].key};
    if (auto ok = intake.add(i, std::move(xs[i])); ok)
      targets.push_back(std::move(target));
    else
      answers[i].emplace(ok.error());
  }
  // Their locks stay until the end of the transaction: all at once, in order.
  // What others still hold then, the requests will find locked.
  auto locked = here.run({{lock_all(targets)}});
  if (locked.ok() || locked.failure->code == errc::busy)
    here.drive(intake, answers);
  else
    for (auto& x : answers)
      if (!x)
        x.emplace(*locked.failure);
  return here.answer(answers);
}

std::vector<result<signalled>>
transaction::signal_all(std::vector<gd::signal> signals) {
  return visit::send_all<signal_intake, signalled>(*this, std::move(signals),
                                                   "signals");
}

std::vector<result<transitioned>>
transaction::transition_all(std::vector<gd::transition> transitions) {
  return visit::send_all<transition_intake, transitioned>(
    *this, std::move(transitions), "transitions");
}

result<signalled> transaction::signal(gd::signal what) {
  return std::move(signal_all(just(std::move(what))).front());
}

result<transitioned> transaction::transition(gd::transition what) {
  return std::move(transition_all(just(std::move(what))).front());
}

} // namespace gd
