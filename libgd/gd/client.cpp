#include <gd/client.hpp>

#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/store.hpp>
#include <gd/pq/store_ends.hpp>
#include <gd/pq/store_moves.hpp>
#include <gd/pq/store_nodes.hpp>
#include <gd/pq/store_operate.hpp>
#include <gd/pq/store_reads.hpp>
#include <gd/work/insert_intake.hpp>
#include <gd/work/target_intake.hpp>

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace gd {

namespace {

using clock_type = database::clock;

/// How often a read is sent again.
constexpr int read_tries = 5;

std::chrono::milliseconds delay_after(int failures) {
  return backoff(failures - 1, std::chrono::milliseconds{100},
                 std::chrono::seconds{2});
}

intake_settings settings_of(client_settings x) {
  return {.machines = std::move(x.machines),
          .limits = x.limits,
          .rows = x.rows,
          .bytes = x.bytes};
}

template <class F>
auto read_by(F read, const result<pq::rows>& rows)
  -> result<decltype(read(*rows))> {
  if (!rows)
    return rows.error();
  return read(*rows);
}

/// `none`: what is said where there is none.
template <class F>
auto read_found(F read, error none, const result<pq::rows>& rows)
  -> result<typename decltype(read(*rows))::value_type> {
  if (!rows)
    return rows.error();
  if (auto found = read(*rows))
    return std::move(*found);
  return none;
}

template <class Row>
result<std::vector<Row>> read_as(const result<pq::rows>& rows) {
  return read_by(store::read<Row>, rows);
}

} // namespace

struct client::impl {
  impl(pq::options opts, const intake_settings& how, int reconnects,
       std::shared_ptr<store::queue_looks> looks)
    : opts_(std::move(opts)),
      reconnects_(reconnects),
      rows_(how.rows),
      limits_(how.limits),
      inserts_(how),
      signals_(how),
      transitions_(how),
      looks_(std::move(looks)) {
    // nop
  }

  result<void> open();
  result<void> open_again();
  /// `meanwhile` runs while the server works.
  template <class Meanwhile>
  pq::reply run(const pq::unit& work, Meanwhile meanwhile);
  /// The rows of the last statement. Sent again where that may help: it must not
  /// matter how often it is done.
  result<pq::rows> ask(const pq::unit& work);
  /// The same of what must not be done twice: sent again only if nothing has happened,
  /// and nobody else is in the way.
  result<pq::rows> ask_once(const pq::unit& work);
  result<pq::rows> read(pq::call what) {
    return ask({{std::move(what)}, false});
  }
  template <class Again>
  result<pq::rows> ask_while(const pq::unit& work, Again again);
  template <class Answer, class Intake, class Request>
  std::vector<result<Answer>> drive(Intake& intake,
                                    std::vector<Request> requests);

  pq::options opts_;
  int reconnects_;
  std::size_t rows_; ///< of a group
  limits limits_;
  insert_intake inserts_;
  signal_intake signals_;
  transition_intake transitions_;
  std::unique_ptr<pq::connection> db_;
  pq::predecessor before_; ///< it
  std::shared_ptr<store::queue_looks> looks_;
  /// Why the call under way connects no more.
  std::optional<error> gave_up_;
};

std::shared_ptr<store::queue_looks> share_looks() {
  return std::make_shared<store::queue_looks>();
}

client::client(std::unique_ptr<impl> x) : impl_(std::move(x)) {
  // nop
}

client::client(client&&) noexcept = default;
client& client::operator=(client&&) noexcept = default;
client::~client() = default;

result<client> client::connect(pq::options opts, client_settings how) {
  if (auto ok = check_name("schema", opts.schema, {.name = 63}); !ok)
    return ok.error();
  auto made = std::make_unique<impl>(std::move(opts), settings_of(how),
                                     how.reconnects,
                                     how.looks ? how.looks : share_looks());
  if (auto ok = made->open(); !ok)
    return ok.error();
  return client{std::move(made)};
}

result<void> client::impl::open() {
  before_ = db_ ? db_->for_next() : before_;
  db_ = std::make_unique<pq::connection>(opts_, before_);
  auto ok = store::check_schema(db_->run({{store::schema_version()}, false}),
                                opts_.schema);
  before_ = db_->for_next();
  if (ok)
    return ok;
  db_.reset();
  auto why = ok.error();
  if (why.code == errc::unknown_fate)
    why.code = errc::unavailable; // a read has no effect to be unsure of
  return why;
}

result<void> client::impl::open_again() {
  for (int failures = 0;;) {
    auto ok = open();
    if (ok || !retryable(ok.error().code) || ++failures >= reconnects_)
      return ok;
    std::this_thread::sleep_for(delay_after(failures));
  }
}

template <class Meanwhile>
pq::reply client::impl::run(const pq::unit& work, Meanwhile meanwhile) {
  if (db_)
    db_->pump(); // notices a connection that was lost while it was idle
  if (!gave_up_ && (!db_ || db_->state() == pq::connection::phase::dead))
    if (auto ok = open_again(); !ok)
      gave_up_ = ok.error();
  if (gave_up_)
    return {{}, gave_up_, 0};
  db_->send(work);
  meanwhile();
  return db_->wait_reply();
}

template <class Answer, class Intake, class Request>
std::vector<result<Answer>> client::impl::drive(Intake& intake,
                                                std::vector<Request> requests) {
  gave_up_.reset();
  std::vector<std::optional<result<Answer>>> answers(requests.size());
  std::size_t next = 0;
  std::size_t waiting = 0;
  auto add_more = [&](std::size_t most) {
    auto first = next;
    for (; next < requests.size() && waiting < most; ++next)
      if (auto ok = intake.add(next, std::move(requests[next])))
        ++waiting;
      else
        answers[next].emplace(ok.error());
    return next > first;
  };
  while (next < requests.size() || !intake.idle()) {
    auto now = clock_type::now();
    if (auto work = intake.begin(now)) {
      // The server works on this group while the next one is checked.
      auto reply = run(*work, [&] { add_more(2 * rows_); });
      auto report = intake.finish(std::move(reply), clock_type::now());
      waiting -= report.answers.size();
      for (auto& x : report.answers)
        answers[x.ticket].emplace(std::move(x.answer));
    } else if (!add_more(intake.idle() ? rows_ : 2 * rows_)) {
      std::this_thread::sleep_until(intake.due(now));
    }
  }
  std::vector<result<Answer>> out;
  out.reserve(answers.size());
  for (auto& x : answers)
    out.push_back(std::move(*x));
  return out;
}

std::vector<result<inserted>> client::insert_all(std::vector<gd::insert> rows) {
  return impl_->drive<inserted>(impl_->inserts_, std::move(rows));
}

std::vector<result<signalled>>
client::signal_all(std::vector<gd::signal> signals) {
  return impl_->drive<signalled>(impl_->signals_, std::move(signals));
}

std::vector<result<transitioned>>
client::transition_all(std::vector<gd::transition> transitions) {
  return impl_->drive<transitioned>(impl_->transitions_,
                                    std::move(transitions));
}

result<inserted> client::insert(gd::insert what) {
  return std::move(insert_all(just(std::move(what))).front());
}

result<signalled> client::signal(gd::signal what) {
  return std::move(signal_all(just(std::move(what))).front());
}

result<transitioned> client::transition(gd::transition what) {
  return std::move(transition_all(just(std::move(what))).front());
}

template <class Again>
result<pq::rows> client::impl::ask_while(const pq::unit& work, Again again) {
  gave_up_.reset();
  for (int failures = 0;;) {
    auto reply = run(work, [] {});
    if (reply.ok())
      return std::move(reply.results.back());
    auto why = std::move(*reply.failure);
    // 57014: a statement took too long, and would again.
    if (gave_up_ || why.sqlstate == "57014" || !again(why.code)
        || ++failures == read_tries)
      return why;
    std::this_thread::sleep_for(delay_after(failures));
  }
}

result<pq::rows> client::impl::ask(const pq::unit& work) {
  auto rows = ask_while(work, [](errc code) { // a lock was waited for
    return retryable(code) && code != errc::busy;
  });
  if (rows || rows.error().code != errc::unknown_fate)
    return rows;
  auto why = rows.error();
  why.code = errc::unavailable;
  return why;
}

result<pq::rows> client::impl::ask_once(const pq::unit& work) {
  return ask_while(work, [](errc code) {
    return code == errc::unavailable || code == errc::conflict;
  });
}

result<instance> client::look_up(const gd::look_up& what) {
  if (auto ok = check_address("id", what.id, what.key, impl_->limits_); !ok)
    return ok.error();
  return read_found(store::read_instance, store::no_instance(what.id, what.key),
                    impl_->read(store::look_up(what)));
}

result<std::vector<inbox_row>> client::inbox(std::int64_t id,
                                             std::int32_t limit) {
  if (auto ok = check_limit(limit); !ok)
    return ok.error();
  return read_as<inbox_row>(impl_->read(store::unread(id, limit)));
}

result<std::vector<ledger_entry>> client::history(const history_query& what) {
  if (auto ok = check_address("id", what.id, what.key, impl_->limits_); !ok)
    return ok.error();
  if (auto ok = check_limit(what.limit); !ok)
    return ok.error();
  return read_as<ledger_entry>(impl_->read(store::history(what)));
}

result<std::vector<in_step_row>> client::in_step(const in_step_query& what) {
  if (auto ok = check_limit(what.limit); !ok)
    return ok.error();
  return read_as<in_step_row>(impl_->read(store::in_step(what)));
}

/// Whom a rewind or a fork is about, and who asks for it, if that is told.
template <class Request>
static result<void> check_move(const Request& x, const limits& bounds) {
  if (auto ok = check_address("target", x.target, x.key, bounds); !ok)
    return ok;
  return x.by ? check_name("by", *x.by, {}) : result<void>{};
}

/// What two codes of SQL mean where our functions refuse with them.
static error refused_by_function(error why) {
  if (why.sqlstate == "P0002")
    why.code = errc::not_found;
  if (why.sqlstate == "42704")
    why.code = errc::unknown_step;
  return why;
}

result<transitioned> client::rewind(const gd::rewind& what) {
  if (auto ok = check_move(what, impl_->limits_); !ok)
    return ok.error();
  auto rows = impl_->ask_once({{store::rewind(what)}});
  if (!rows)
    return refused_by_function(rows.error());
  return std::move(store::read<transitioned>(*rows).front());
}

result<inserted> client::fork(const gd::fork& what) {
  if (auto ok = check_move(what, impl_->limits_); !ok)
    return ok.error();
  if (!what.queue.empty())
    if (auto ok = check_name("queue", what.queue, {}); !ok)
      return ok.error();
  auto rows = impl_->ask_once({{store::fork(what)}});
  if (!rows)
    return refused_by_function(rows.error());
  return inserted{.id = store::read_ids(*rows).front()};
}

result<gd::why> client::why(const why_query& what) {
  if (auto ok = check_address("id", what.id, what.key, impl_->limits_); !ok)
    return ok.error();
  return read_found(store::read_one<gd::why>,
                    store::no_instance(what.id, what.key),
                    impl_->read(store::why(what)));
}

/// Of functions whose arguments are at fault.
static error refused_argument(error why) {
  if (why.sqlstate == "22023")
    why.code = errc::invalid_argument;
  return why;
}

result<commanded> client::operate(const command& what) {
  if (what.what == act::upgrade)
    return error{errc::invalid_argument,
                 "what: expected retry|stop|run_now|move, got upgrade: a node "
                 "that has both versions does that (begin_job)",
                 {}};
  if (auto ok = check_move(what, impl_->limits_); !ok)
    return ok.error();
  if (!what.queue.empty())
    if (auto ok = check_name("queue", what.queue, {}); !ok)
      return ok.error();
  auto rows = impl_->ask_once({{store::operate(what)}});
  if (!rows)
    return refused_argument(refused_by_function(rows.error()));
  return std::move(store::read<commanded>(*rows).front());
}

result<void> client::pause(const std::string& queue,
                           const std::optional<std::string>& reason,
                           const std::optional<std::string>& by) {
  if (auto ok = check_name("queue", queue, {}); !ok)
    return ok;
  auto rows = impl_->ask({{store::pause(queue, reason, by)}});
  return rows ? result<void>{} : refused_argument(rows.error());
}

result<bool> client::resume(const std::string& queue) {
  return read_by([](const auto& rows) { return rows.boolean(0, 0); },
                 impl_->ask({{store::resume(queue)}}));
}

result<std::vector<queue_row>> client::queues(std::int32_t most) {
  return read_by([this](const auto& rows) { return impl_->looks_->read(rows); },
                 impl_->read(impl_->looks_->ask(most)));
}

result<std::vector<status_count>> client::status_counts(std::int32_t most) {
  return read_as<status_count>(impl_->read(store::status_counts(most)));
}

result<list_page> client::list(const list_query& what) {
  if (auto ok = check_limit(what.limit); !ok)
    return ok.error();
  return read_by(store::read_list, impl_->read(store::list(what)));
}

result<std::int64_t> client::begin_job(const bulk_command& what) {
  auto rows = impl_->ask_once({{store::begin_job(what)}});
  if (!rows)
    return refused_argument(refused_by_function(rows.error()));
  return store::read_ids(*rows).front();
}

static result<job_row> job_of(const result<pq::rows>& rows, std::int64_t job) {
  error none{errc::not_found, fmt::format("there is no job {}", job), {}};
  return read_found(store::read_one<job_row>, none, rows);
}

result<job_row> client::work_on(std::int64_t job) {
  // Of another one, whatever became of that.
  if (auto rows = impl_->ask({{store::unlock_job(job)}, false}); !rows)
    return rows.error();
  auto held = impl_->ask(
    {{store::lock_job(job, store::job_worker::client)}, false});
  if (!held)
    return held.error();
  if (!held->boolean(0, 0))
    return job_of(impl_->read(store::jobs(job)), job);
  // May be sent again: where it has got is part of what it does.
  auto now = job_of(impl_->ask({{store::work_on_job(job), store::jobs(job)}}),
                    job);
  if (!now || now->ended_at_us)
    if (auto rows = impl_->ask({{store::unlock_job()}, false}); !rows)
      return rows.error();
  return now;
}

result<job_row> client::cancel_job(std::int64_t job) {
  return job_of(impl_->ask({{store::cancel_job(job), store::jobs(job)}}), job);
}

result<job_row> client::job(std::int64_t id) {
  return job_of(impl_->read(store::jobs(id == 0 ? -1 : id)), id); // 0: all
}

result<std::vector<job_row>> client::jobs() {
  return read_as<job_row>(impl_->read(store::jobs()));
}

/// Who is in the way of a page that is pruned is waited for so briefly.
constexpr std::chrono::milliseconds prune_wait{100};

result<pruned> client::prune(const gd::prune& what) {
  if (!what.status.empty() && what.status != "done" && what.status != "failed")
    return error{errc::invalid_argument,
                 "status: expected done or failed, got " + what.status,
                 {}};
  constexpr std::int64_t minute = 60'000'000;
  if (what.age_us < minute || what.age_us > longest_delay.count())
    return error{errc::invalid_argument,
                 fmt::format("age_us: expected a minute to 100 years ({} to "
                             "{}), got {}",
                             minute, longest_delay.count(), what.age_us),
                 {}};
  if (what.page < 1 || what.page > 10'000)
    return error{errc::invalid_argument,
                 fmt::format("page: expected 1 to 10000, got {}", what.page),
                 {}};
  auto rows = impl_->read(store::prunable(what));
  if (!rows)
    return rows.error();
  auto page = store::read_one<store::prunable_row>(*rows).value_or(
    store::prunable_row{});
  pruned out{.last = page.last,
             .looked = page.looked,
             .found = static_cast<std::int64_t>(page.ids.size())};
  if (what.only_count || page.ids.empty())
    return out;
  std::vector<std::vector<std::int64_t>> groups;
  groups.push_back(std::move(page.ids));
  while (!groups.empty()) {
    auto ids = std::move(groups.back());
    groups.pop_back();
    auto did = impl_->ask_once(
      {{store::lock_timeout(prune_wait), store::erase(ids, what)}});
    if (did) {
      auto one = store::read_one<store::erased_row>(*did).value_or(
        store::erased_row{});
      out.deleted += one.erased;
      out.refused += static_cast<std::int64_t>(one.kept.size());
    } else if (did.error().code != errc::rejected
               && did.error().code != errc::busy) {
      return did.error();
    } else if (ids.size() == 1) {
      ++out.refused;
    } else {
      store::push_halves(groups, ids);
    }
  }
  return out;
}

result<std::vector<stats_row>> client::stats() {
  return read_as<stats_row>(impl_->read(store::stats()));
}

result<counted> client::counts(const std::string& fsm, std::int32_t version) {
  return read_by(store::read_counts, impl_->read(store::counts(fsm, version)));
}

result<gd::activity> client::activity() {
  return read_by(
    [](const auto& rows) { return store::read<gd::activity>(rows).front(); },
    impl_->read(store::activity()));
}

result<std::vector<machine_row>> client::machines() {
  return read_as<machine_row>(impl_->read(store::machines()));
}

static error unknown_version(const std::string& fsm, std::int32_t version) {
  auto what = version == 0 ? fsm : fmt::format("{} v{}", fsm, version);
  return {
    errc::unknown_machine, fmt::format("no node has made {} known", what), {}};
}

result<machine_graph> client::graph(const std::string& fsm,
                                    std::int32_t version, bool live) {
  auto rows = impl_->read(store::graph(fsm, version));
  if (!rows)
    return rows.error();
  auto found = store::read_graph(*rows);
  if (!found)
    return unknown_version(fsm, version);
  if (!live)
    return std::move(*found);
  auto now = counts(fsm, found->version);
  if (!now)
    return now.error();
  for (const auto& x : now->rows) {
    found->add_instances(x.step, x.status, x.instances);
    if (x.estimated)
      found->estimated.insert(x.status);
  }
  return std::move(*found);
}

result<std::vector<node_row>> client::nodes() {
  return read_as<node_row>(impl_->read(store::nodes()));
}

result<std::vector<not_served_row>> client::not_served() {
  return read_as<not_served_row>(impl_->read(store::not_served()));
}

result<void> client::make_known(const std::vector<machine>& machines) {
  for (const auto& x : machines)
    if (auto ok = x.validate(); !ok)
      return ok;
  auto known = store::known(machines);
  auto rows = impl_->ask(
    {{store::machines_lock(), store::refuse_other_steps({}, known),
      store::register_machines(known)}});
  return rows ? result<void>{} : rows.error();
}

result<void> client::retire(const std::string& fsm, std::int32_t version,
                            bool retired) {
  auto rows = impl_->ask({{store::retire(fsm, version, retired)}});
  if (!rows)
    return rows.error();
  switch (store::read_answer(*rows)) {
    case store::version_answer::done:
      return {};
    case store::version_answer::pinned:
      return error{
        errc::invalid_argument,
        fmt::format("{} v{} is pinned: expected another to be pinned "
                    "first, or none",
                    fsm, version),
        {}};
    default:
      return unknown_version(fsm, version);
  }
}

result<void> client::pin(const std::string& fsm, std::int32_t version) {
  auto rows = impl_->ask({{store::machines_lock(), store::unpin(fsm, version),
                           store::pin(fsm, version)}});
  if (!rows)
    return rows.error();
  switch (store::read_answer(*rows)) {
    case store::version_answer::done:
      return {};
    case store::version_answer::retired:
      return error{
        errc::version_retired,
        fmt::format("{} v{} is retired, and takes no inserts", fsm, version),
        {}};
    default:
      return unknown_version(fsm, version);
  }
}

} // namespace gd
