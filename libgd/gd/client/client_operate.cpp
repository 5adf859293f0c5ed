// What of a client operators use.

#include <gd/client.hpp>

#include <gd/client/client_impl.hpp>
#include <gd/engine/intake/resolve.hpp>
#include <gd/machine.hpp>
#include <gd/store/ends.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

result<void> check_names(
  std::initializer_list<std::pair<std::string_view, std::string_view>> given) {
  // Whatever text it is: of rows that somebody else has made.
  for (const auto& [what, name] : given)
    if (clean_text(name, name.size()) != name)
      return check_name(what, name, {.name = 1'024});
  return {};
}

static result<void> check_filter(const filter& x) {
  if (auto ok = check_names(
        {{"machine", x.fsm}, {"step", x.step}, {"queue", x.queue}});
      !ok)
    return ok;
  if (clean_text(x.failure, x.failure.size()) != x.failure)
    return error{
      errc::invalid_argument, "failure: expected UTF-8 without NUL", {}};
  return {};
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
    return error{
      errc::invalid_argument,
      "what: expected retry|stop|run_now|move|discard|replace|erase, "
      "got upgrade: a node that has the machine does that (begin_job)",
      {}};
  if (auto ok = check_move(what, impl_->limits_); !ok)
    return ok.error();
  if (!what.queue.empty())
    if (auto ok = check_name("queue", what.queue, {}); !ok)
      return ok.error();
  if (auto ok = check_document("payload", what.payload, impl_->limits_.payload);
      !ok)
    return ok.error();
  auto rows = impl_->ask_once({{store::operate(what)}});
  if (!rows)
    return refused_argument(refused_by_function(rows.error()));
  return std::move(store::read<commanded>(*rows).front());
}

result<void> client::pause(const std::string& queue,
                           const std::optional<std::string>& reason,
                           const std::optional<std::string>& by, bool force) {
  if (auto ok = check_name("queue", queue, {}); !ok)
    return ok;
  auto rows = impl_->ask({{store::pause(queue, reason, by, force)}});
  if (!rows)
    return refused_argument(rows.error());
  return {};
}

result<bool> client::resume(const std::string& queue, bool force) {
  if (auto ok = check_names({{"queue", queue}}); !ok)
    return ok.error();
  auto rows = impl_->ask({{store::resume(queue, force)}});
  if (!rows)
    return rows.error();
  return rows->boolean(0, 0);
}

result<std::optional<std::string>> client::unknown(const filter& names) {
  if (auto ok = check_filter(names); !ok)
    return ok.error();
  // Nobody can have such a one, which is the better reason.
  if (!names.queue.empty())
    if (auto ok = check_name("queue", names.queue, {.name = 1'024}); !ok)
      return ok.error();
  return read_by(store::read_unknown, impl_->read(store::unknown(names)));
}

/// Asks about those rows that can be stored at all: what is wrong with the others the
/// call says that they are for.
template <class Row, class Check, class Call>
static result<std::vector<std::optional<std::string>>>
faults_of(const std::vector<Row>& rows, Check can_be, Call ask) {
  std::vector<std::size_t> positions;
  std::vector<Row> sound;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (can_be(rows[i])) {
      positions.push_back(i);
      sound.push_back(rows[i]);
    }
  std::vector<std::optional<std::string>> faults(rows.size());
  if (sound.empty())
    return faults;
  auto found = read_as<store::fault_row>(ask(sound));
  if (!found)
    return found.error();
  for (std::size_t i = 0; i < found->size(); ++i)
    faults[positions[i]] = std::move((*found)[i].fault);
  return faults;
}

result<std::vector<std::optional<std::string>>>
client::faults(const std::vector<gd::insert>& rows) {
  return faults_of(
    rows,
    [this](const auto& x) {
    return check(x, impl_->limits_) && check_object(x.state);
    },
    [this](const auto& sound) {
    return impl_->read(store::state_faults(sound));
  });
}

result<std::vector<std::optional<std::string>>>
client::faults(const std::vector<gd::signal>& signals) {
  return faults_of(
    signals,
    [this](const auto& x) {
    return static_cast<bool>(check(x, impl_->limits_));
    },
    [this](const auto& sound) {
    return impl_->read(store::signal_faults(sound));
  });
}

result<std::vector<queue_row>> client::queues(std::int32_t most) {
  return read_by(
    [this](const auto& rows) { return impl_->queue_scans_->read(rows); },
    impl_->read(impl_->queue_scans_->ask(most)));
}

result<std::vector<status_count>> client::status_counts(std::int32_t most) {
  return read_as<status_count>(impl_->read(store::status_counts(most)));
}

result<list_page> client::list(const list_query& what) {
  if (auto ok = check_limit(what.limit); !ok)
    return ok.error();
  if (auto ok = check_filter(what.which); !ok)
    return ok.error();
  return read_by(store::read_list, impl_->read(store::list(what)));
}

result<std::int64_t> client::begin_job(const bulk_command& what) {
  if (auto ok = check_filter(what.which); !ok)
    return ok.error();
  if (auto ok = check_names({{"queue", what.what.queue}}); !ok)
    return ok.error();
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
    {{store::lock_job(job, store::job_owner::client)}, false});
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
             .examined = page.examined,
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
  if (auto ok = check_names({{"machine", fsm}}); !ok)
    return ok.error();
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
  if (auto ok = check_names({{"machine", fsm}}); !ok)
    return ok.error();
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
  if (auto ok = check_names({{"machine", fsm}}); !ok)
    return ok.error();
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
