#include <gd/store/operate.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gd::store {

using pq::make_call;

namespace {

/// Cut to what the functions take.
std::string why_text(const std::optional<std::string>& reason) {
  return clean_text(reason.value_or(""), limits{}.reason);
}

/// Instances that a page is looked for in, and that an upgrade looks at at a time.
constexpr std::int32_t examined = 5'000;
constexpr std::int32_t examined_to_upgrade = 2'000;
/// Instances that are counted in an index, of a version. Each may be on a page of its own.
constexpr std::int32_t most_of_version = 200;
/// Pages of the table that speak for all of them.
constexpr std::int32_t sampled_pages = 50;

/// Of a payload that is shown; those that take more bytes are not even read.
constexpr std::int32_t shown_characters = 4'096;
constexpr std::int32_t read_bytes = 16'384;

/// One that is not empty, or none.
std::vector<std::string> one(const std::string& text) {
  return text.empty() ? std::vector<std::string>{} : std::vector{text};
}

template <class T>
std::vector<std::int64_t> one(const std::optional<T>& number) {
  return number ? std::vector{std::int64_t{*number}}
                : std::vector<std::int64_t>{};
}

std::optional<std::int32_t> version_of(const filter& x) {
  return x.version == 0 ? std::nullopt : std::optional{x.version};
}

void add_filter(pq::params& to, const filter& x) {
  to.add(one(x.fsm))
    .add(one(version_of(x)))
    .add(one(x.step))
    .add(one(x.status))
    .add(one(x.queue))
    .add(one(x.older_than_us))
    .add(one(x.failure));
}

} // namespace

pq::call why(const why_query& what) {
  return make_call(sql::why, what.id, pq::one_key(what.key));
}

pq::call unread(std::int64_t instance, std::int32_t limit, bool consumed) {
  return make_call(sql::unread, instance, limit, shown_characters, read_bytes,
                   consumed);
}

// -- one instance -------------------------------------------------------------

pq::call operate(const command& what) {
  return make_call(sql::operate, to_string(what.what), what.target,
                   pq::one_key(what.key), what.queue, one(what.priority),
                   why_text(what.reason), what.by.value_or(""), what.force,
                   what.signal, what.payload.text());
}

// -- queues -------------------------------------------------------------------

pq::call pause(const std::string& queue,
               const std::optional<std::string>& reason,
               const std::optional<std::string>& by, bool force) {
  return make_call(sql::pause, queue, why_text(reason), by.value_or(""), force);
}

pq::call resume(const std::string& queue, bool force) {
  return make_call(sql::resume, queue, force);
}

pq::call unknown(const filter& names) {
  return make_call(sql::unknown, one(names.queue), one(names.fsm),
                   one(version_of(names)), one(names.step));
}

std::optional<std::string> read_unknown(const pq::rows& rows) {
  if (rows.is_null(0, 0))
    return std::nullopt;
  return std::string{rows.text(0, 0)};
}

pq::call state_faults(const std::vector<gd::insert>& rows) {
  return make_call(
    sql::state_faults, pq::column(rows, &gd::insert::fsm),
    pq::column(rows, &gd::insert::version),
    pq::column(rows, [](const gd::insert& x) { return x.state.text(); }));
}

pq::call signal_faults(const std::vector<gd::signal>& rows) {
  return make_call(
    sql::signal_faults, pq::ids_of(rows), pq::keys_of(rows),
    pq::column(rows, &gd::signal::name),
    pq::column(rows, [](const gd::signal& x) { return x.payload.text(); }));
}

pq::call queue_scans::ask(std::int32_t most) {
  auto now = std::chrono::steady_clock::now();
  std::lock_guard guard{mutex_};
  if (!from_beginning_ || now - *from_beginning_ >= std::chrono::minutes{1}) {
    from_beginning_ = now;
    fronts_ = "[]";
  }
  return make_call(sql::queues, most, fronts_);
}

std::vector<queue_row> queue_scans::read(const pq::rows& rows) {
  std::vector<queue_row> out;
  std::lock_guard guard{mutex_};
  for (auto& x : store::read<scanned_queue>(rows))
    if (x.fronts)
      fronts_ = std::move(*x.fronts);
    else
      out.push_back(std::move(x));
  return out;
}

// -- counts -------------------------------------------------------------------

pq::call counts(const std::string& fsm, std::int32_t version) {
  return make_call(sql::counts, sampled_pages, fsm, version, most_of_version);
}

counted read_counts(const pq::rows& rows) {
  counted out;
  for (auto& x : read<count_row>(rows))
    if (x.status.empty())
      out.sampled = x.estimated;
    else
      out.rows.push_back(std::move(x));
  return out;
}

pq::call activity() {
  return make_call(sql::activity);
}

pq::call status_counts(std::int32_t most) {
  return make_call(sql::status_counts, most);
}

// -- many instances -----------------------------------------------------------

pq::call list(const list_query& what) {
  pq::call x{&sql::list, {}};
  add_filter(x.args, what.which);
  x.args.add(what.before.value_or(std::numeric_limits<std::int64_t>::max()))
    .add(what.limit)
    .add(examined);
  return x;
}

list_page read_list(const pq::rows& rows) {
  list_page page;
  for (auto& x : read<listed_row>(rows))
    if (x.id != 0)
      page.rows.push_back(std::move(x));
    else
      page.next = x.next;
  return page;
}

pq::call begin_job(const bulk_command& what) {
  pq::call x{&sql::begin_job, {}};
  x.args.add(to_string(what.what.what));
  add_filter(x.args, what.which);
  x.args.add(one(what.what.queue))
    .add(one(what.what.priority))
    .add(why_text(what.what.reason))
    .add(what.what.by.value_or(""))
    .add(what.dry_run);
  const auto& to = what.what;
  x.args
    .add(one(to.to_version == 0 ? std::nullopt : std::optional{to.to_version}))
    .add(to.to_steps.empty() ? "" : to_json(to.to_steps).text())
    .add(one(to.target == 0 ? std::nullopt : std::optional{to.target}))
    .add(pq::one_key(to.key))
    .add(to.force);
  return x;
}

pq::call lock_job(std::int64_t job, job_owner by) {
  return make_call(sql::lock_job, job, by == job_owner::node);
}

pq::call unlock_job(std::int64_t unless) {
  return make_call(sql::unlock_job, unless);
}

pq::call work_on_job(std::int64_t job) {
  return make_call(sql::work_on_job, job);
}

pq::call cancel_job(std::int64_t job) {
  return make_call(sql::cancel_job, job);
}

pq::call jobs(std::int64_t job) {
  return make_call(sql::jobs, job);
}

pq::call open_job(const std::vector<version_change>& upgrades,
                  std::int64_t after) {
  return make_call(sql::open_job, pq::column(upgrades, &version_change::fsm),
                   pq::column(upgrades, &version_change::from),
                   pq::column(upgrades, &version_change::to), after);
}

// -- upgrades -----------------------------------------------------------------

pq::call upgrade_page(std::int64_t job, std::int64_t bytes) {
  return make_call(sql::upgrade_page, job, bytes, examined_to_upgrade);
}

pq::call upgrade(std::int64_t job, const upgrade_batch& what) {
  return make_call(sql::upgrade, job, what.after, what.upto, what.ids,
                   what.seqs, what.faults, what.steps,
                   pq::column(what.states, std::identity{}));
}

pq::call older_page(const std::vector<version_change>& changes,
                    const std::vector<std::string>& queues, std::int64_t bytes,
                    const std::vector<std::int64_t>& without) {
  return make_call(sql::older_page, pq::column(changes, &version_change::fsm),
                   pq::column(changes, &version_change::from),
                   pq::column(changes, &version_change::to), queues, bytes,
                   without);
}

pq::call bring_older(const std::vector<brought_row>& rows,
                     const std::string& by) {
  return make_call(sql::bring_older, pq::column(rows, &brought_row::id),
                   pq::column(rows, &brought_row::seq),
                   pq::column(rows, &brought_row::version),
                   pq::column(rows, &brought_row::step),
                   pq::column(rows, &brought_row::state), by);
}

pq::call rewind(const gd::rewind& what) {
  return make_call(sql::rewind, what.target, what.seq, why_text(what.reason),
                   what.by.value_or(""), pq::one_key(what.key));
}

pq::call fork(const gd::fork& what) {
  return make_call(sql::fork, what.target, what.seq, what.queue,
                   why_text(what.reason), what.by.value_or(""),
                   pq::one_key(what.key));
}

pq::call look_up(const gd::look_up& what) {
  return make_call(sql::look_up, what.id, longest_text, pq::one_key(what.key));
}

pq::call awaited(const std::vector<std::int64_t>& ids,
                 const std::vector<std::string>& keys, bool all,
                 std::size_t bytes) {
  auto as_bytes = [](const std::string& x) {
    return std::optional{pq::bytes{x}};
  };
  return make_call(sql::awaited, ids, longest_text, pq::column(keys, as_bytes),
                   all, static_cast<std::int64_t>(bytes));
}

std::optional<instance> read_instance(const pq::rows& rows) {
  auto x = read_one<instance>(rows);
  if (x && x->unique_key)
    x->unique_key = key_text(*x->unique_key);
  return x;
}

error no_instance(std::int64_t id, const std::optional<std::string>& key) {
  return {errc::not_found, "there is no instance " + address_text(id, key), {}};
}

pq::call gone(std::int64_t id) {
  return make_call(sql::gone, id);
}

error told_gone(const pq::rows& rows) {
  auto one = read_one<gone_row>(rows).value_or(gone_row{});
  return {one.erased ? errc::erased : errc::not_found, std::move(one.told), {}};
}

pq::call history(const history_query& what) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  auto from = what.from_seq.value_or(what.newest_first ? most : 0);
  auto edge = !what.newest_first ? std::max<std::int64_t>(from, 0) - 1
              : from < most      ? from + 1
                                 : most;
  return make_call(sql::history, what.id, edge, what.limit, what.newest_first,
                   pq::one_key(what.key));
}

pq::call in_step(const in_step_query& what) {
  return make_call(
    sql::in_step, what.fsm, what.step, what.status,
    what.before.value_or(std::numeric_limits<std::int64_t>::max()), what.limit);
}

pq::call stats() {
  return make_call(sql::stats);
}

} // namespace gd::store
