// What each statement returns is what the structs of `store` read by name: a
// column that one of them has and the other has not would silently be null, or read
// by nobody.

#define CAF_SUITE columns

#include <gd/check.hpp>
#include <gd/instance.hpp>
#include <gd/json_codecs.hpp>
#include <gd/operate.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/text.hpp>
#include <gd/sql.hpp>
#include <gd/store/ends.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/steps.hpp>
#include <gd/store/store.hpp>
#include <gd/store/transitions.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <libpq-fe.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace columns_suite {

namespace sql = gd::sql;
namespace store = gd::store;

namespace {

using names = std::set<std::string>;

using signals = std::vector<gd::raw_signal>;

template <class T>
concept inbox
  = std::same_as<T, signals> || std::same_as<T, std::optional<signals>>;

template <class Row>
void add_columns(names& to) {
  std::size_t n = 0;
  auto add = [&]<class T>(const T&) {
    if constexpr (inbox<T>)
      to.insert({"ids", "names", "payloads", "traces"});
    else
      to.emplace(gd::detail::names_of<Row>[n]);
    ++n;
  };
  Row row;
  std::apply([&](const auto&... x) { (add(x), ...); }, row.gd_fields());
}

/// Those of the structs, and more, which are there for what they do.
template <class... Rows>
names columns_of(names more = {}) {
  (add_columns<Rows>(more), ...);
  return more;
}

using columns_by = std::map<const sql::statement*, names>;

columns_by read_by_name() {
  auto pick = columns_of<store::picked_row, store::mark>();
  for (const auto* made_of_others : {"due_us", "now_us"})
    pick.erase(made_of_others);
  names flush{"id", "applied", "holder"}; // see `read_flush`
  return {
    {&sql::pick, pick},
    {&sql::pick_keyed, pick},
    {&sql::pick_these, pick},
    {&sql::pick_next_of_keys, pick},
    {&sql::pick_suspects, pick},
    {&sql::pick_summary, columns_of<store::pick_summary>()},
    {&sql::candidates, columns_of<store::candidate>()},
    {&sql::suspect_candidates, columns_of<store::candidate>()},
    {&sql::fail_row, columns_of<store::failed_row>()},
    {&sql::show, columns_of<store::shown_row>()},
    {&sql::check_keys, columns_of<store::lost_key>()},
    {&sql::hold_keys, columns_of<store::held_key>({"held"})},
    {&sql::note_trials, columns_of<store::noted_row>()},
    {&sql::flush, flush},
    {&sql::flush_done, flush},
    {&sql::flush_keep, flush},
    {&sql::flush_erase, flush},
    {&sql::flush_done_keep, flush},
    {&sql::flush_next, flush},
    {&sql::flush_done_ledger, flush},
    {&sql::flush_next_ledger, flush},
    {&sql::flush_advance, flush},
    {&sql::flush_ledger, flush},
    {&sql::flush_advance_ledger, flush},
    {&sql::inbox, columns_of<store::inbox_row>()},
    {&sql::heartbeat, columns_of<store::beat>()},
    {&sql::end_leases, columns_of<store::scanned_leases>()},
    {&sql::locked_leases, columns_of<store::ending_lease>()},
    {&sql::reap, columns_of<store::reaped_row>()},
    {&sql::open_crashes, columns_of<store::open_crash>()},
    {&sql::exonerate, columns_of<store::exonerated_page>()},
    {&sql::wake_due, columns_of<store::moved_row>()},
    {&sql::due, {"id"}},
    {&sql::last_ids, columns_of<store::last_ids_row>()},
    {&sql::paused_queues, {"paused"}},
    {&sql::operate, columns_of<gd::commanded>()},
    {&sql::queues, columns_of<store::scanned_queue>()},
    {&sql::status_counts, columns_of<gd::status_count>()},
    {&sql::list, columns_of<store::listed_row>()},
    {&sql::begin_job, {"id"}},
    {&sql::open_job, columns_of<store::open_job_row>()},
    {&sql::upgrade_page, columns_of<store::upgrade_row>()},
    {&sql::older_page, columns_of<store::older_row>()},
    {&sql::bring_older, columns_of<store::brought>()},
    {&sql::jobs, columns_of<gd::job_row>()},
    {&sql::returning, columns_of<store::returning_row>()},
    {&sql::return_row, columns_of<store::returned_row>()},
    {&sql::trim_ledger, columns_of<store::trimmed_to>()},
    {&sql::forget_dedup, columns_of<store::forgotten_to>()},
    {&sql::expired, columns_of<store::expired_row>()},
    {&sql::erase, columns_of<store::erased_row>()},
    {&sql::prunable, columns_of<store::prunable_row>()},
    {&sql::silent_sessions, columns_of<store::silent_session>()},
    {&sql::foreign_sessions, columns_of<store::foreign_session>()},
    {&sql::remote_nodes, columns_of<store::remote_node_row>()},
    {&sql::follow_timeline, columns_of<store::followed_timeline>()},
    {&sql::find_machines, columns_of<store::known_machine>()},
    {&sql::register_machines, columns_of<store::changed_machine>()},
    {&sql::replaced_machines, columns_of<store::replaced_machine>()},
    {&sql::not_served, columns_of<gd::not_served_row>()},
    {&sql::machines, columns_of<gd::machine_row>()},
    {&sql::nodes, columns_of<gd::node_row>()},
    {&sql::graph, columns_of<store::drawn_machine>()},
    {&sql::counts, columns_of<gd::count_row>()},
    {&sql::activity, columns_of<gd::activity>()},
    {&sql::unread, columns_of<gd::inbox_row>()},
    {&sql::retire, columns_of<store::answered_row>()},
    {&sql::pin, columns_of<store::answered_row>()},
    {&sql::older_nodes, columns_of<store::older_node>()},
    {&sql::schema_version, columns_of<store::schema_row>()},
    {&sql::draw_ids, columns_of<store::drawn_id>()},
    {&sql::insert_claimed, columns_of<store::claimed_row>()},
    {&sql::check, columns_of<gd::finding>()},
    {&sql::repair, {"repaired"}},
    {&sql::inserted, columns_of<store::inserted_row>()},
    {&sql::insert_effects, columns_of<store::insert_effect_row>()},
    {&sql::key_holders, columns_of<store::key_holder_row>()},
    {&sql::signal, columns_of<store::signal_row>()},
    {&sql::signal_named, columns_of<store::signal_row>()},
    {&sql::transition, columns_of<store::transition_row>()},
    {&sql::transition_named, columns_of<store::transition_row>()},
    {&sql::rewind, columns_of<gd::transitioned>()},
    {&sql::look_up, columns_of<gd::instance>()},
    {&sql::gone, columns_of<store::gone_row>()},
    {&sql::awaited, columns_of<store::awaited_row>()},
    {&sql::history, columns_of<gd::ledger_entry>()},
    {&sql::in_step, columns_of<gd::in_step_row>()},
    {&sql::state_faults, columns_of<store::fault_row>()},
    {&sql::signal_faults, columns_of<store::fault_row>()},
    {&sql::why, columns_of<gd::why>()},
    {&sql::fork, {"id"}},
    {&sql::stats, columns_of<gd::stats_row>()},
    {&sql::leave_step, columns_of<store::left_step>()},
  };
}

/// Of these, rows are counted, or one is read by position.
const std::set<const sql::statement*> not_by_name{
  &sql::lock_keys,     &sql::unlock_keys,
  &sql::recheck,       &sql::lock_timeout,
  &sql::lock,          &sql::release_lost,
  &sql::sweep_lock,    &sql::end_silent_session,
  &sql::end_session,   &sql::node_lock,
  &sql::machines_lock, &sql::refuse_other_steps,
  &sql::session,       &sql::lock_targets,
  &sql::borrow,        &sql::restore,
  &sql::version_place, &sql::schema_exists,
  &sql::namesakes,     &sql::migration_lock,
  &sql::any_instance,  &sql::lock_named,
  &sql::pause,         &sql::resume,
  &sql::lock_job,      &sql::unlock_job,
  &sql::work_on_job,   &sql::cancel_job,
  &sql::upgrade,       &sql::check_ids,
  &sql::unknown,       &sql::enter_step,
  &sql::xact_status,   &sql::users_session,
  &sql::note_effects,
};

struct cleared {
  void operator()(PGresult* x) const {
    PQclear(x);
  }
};

/// As the server describes it.
names returned_by(PGconn* on, const std::string& text) {
  using answer = std::unique_ptr<PGresult, cleared>;
  answer prepared{PQprepare(on, "", text.c_str(), 0, nullptr)};
  answer described{PQdescribePrepared(on, "")};
  for (const auto* x : {prepared.get(), described.get()})
    if (PQresultStatus(x) != PGRES_COMMAND_OK)
      CAF_FAIL(PQresultErrorMessage(x));
  names out;
  for (int i = 0; i < PQnfields(described.get()); ++i)
    out.emplace(PQfname(described.get(), i));
  return out;
}

std::string shown(const names& xs) {
  std::string out;
  for (const auto& x : xs)
    out += x + " ";
  return out;
}

} // namespace

CAF_TEST(a statement returns the columns that its rows are read from) {
  gd::test::temporary_database db;
  db.migrate();
  gd::test::session on{db.conninfo()};
  auto known = read_by_name();
  for (const auto* x : sql::all)
    if (!not_by_name.contains(x)) {
      CAF_MESSAGE(x->name);
      auto text = gd::pq::substitute_schema(x->text, db.schema());
      CAF_CHECK_EQUAL(shown(returned_by(on.handle(), text)), shown(known[x]));
    }
}

CAF_TEST(a pick leaves all that is read from its summary) {
  gd::test::temporary_database db;
  db.migrate();
  db.rows("insert into gen_durable (fsm, step, eligible_at) values ('A', 's',"
          " now() + interval '1 h')");
  gd::pq::connection on{db.options()};
  CAF_REQUIRE(on.wait_ready());
  store::pick_request what{.queue = "default",
                           .machines = {{"A", 1}},
                           .token = "node/1/1",
                           .lease = std::chrono::seconds{60}};
  for (bool keyed : {false, true}) {
    what.keyed = keyed;
    auto reply = on.run({{store::pick(what), store::tell_pick()}});
    CAF_REQUIRE(reply.ok());
    const auto& told = reply.results.back();
    CAF_REQUIRE_EQUAL(told.size(), 1u);
    for (const auto& name : columns_of<store::pick_summary>())
      CAF_CHECK_EQUAL(told.is_null(0, told.column(name)),
                      !keyed && name == "last_key");
  }
}

} // namespace columns_suite
