#define CAF_SUITE upgrade

// Instances go to another version of their machine: by a node that has both, or converts the
// states of the older one, and decodes them, or they stay as they are.

#include "actors/harness.hpp"
#include "worker/walks.hpp"

#include <gd/client.hpp>
#include <gd/json_codecs.hpp>

#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace upgrade_suite {

using namespace gd::test;
using namespace std::string_literals;
namespace events = gd::events;

// -- two versions of a machine ------------------------------------------------

GD_ENUM(parcel_step, weigh, pack, hold, camp, sent);
GD_ENUM(new_parcel_step, weigh, wrap, hold, camp, sent);

namespace {

struct old_parcel {
  std::int64_t grams = 0;
  std::string note;
  GD_STATE(old_parcel, grams, note);
};

/// Has a codec of its own, which throws.
struct fragile {
  std::string text;
};

} // namespace

} // namespace upgrade_suite

template <>
struct gd::json_codec<upgrade_suite::fragile> {
  static result<void> write(std::string& out, const upgrade_suite::fragile& x,
                            const json_path& at) {
    return write_json(out, x.text, at);
  }

  static result<void> read(const json_value& in, upgrade_suite::fragile& x) {
    if (in.text() == "thrown")
      throw std::runtime_error{"it broke"};
    x.text = in.text();
    return {};
  }
};

namespace upgrade_suite {

namespace {

/// Knows no note, but who it is from.
struct new_parcel {
  std::int64_t grams = 0;
  fragile from;
  GD_STATE(new_parcel, grams, from);
};

/// Waits to be weighed, and packs.
gd::machine first() {
  using context = gd::context<old_parcel>;
  return gd::define<old_parcel, parcel_step>("Parcel", 1)
    .history(gd::history::with_state)
    .step(parcel_step::weigh,
          [](context& ctx) { return gd::await("scales", ctx.state); })
    .step(parcel_step::pack,
          [](context&) { return gd::stop("v1 packs nothing"); })
    .step(parcel_step::hold,
          [](context&) { return gd::stop("v1 holds nothing"); })
    .rest(parcel_step::camp, {parcel_step::sent})
    .final(parcel_step::sent);
}

gd::machine second() {
  using context = gd::context<new_parcel>;
  return gd::define<new_parcel, new_parcel_step>("Parcel", 2)
    .history(gd::history::with_state)
    .step(new_parcel_step::weigh,
          [](context& ctx) -> gd::outcome {
            if (ctx.take_raw("scales"))
              return gd::next(new_parcel_step::wrap, ctx.state);
            return gd::await("scales", ctx.state);
          })
    .step(new_parcel_step::wrap,
          [](context& ctx) { return gd::done(ctx.state); })
    .rest(new_parcel_step::hold, {new_parcel_step::sent})
    .rest(new_parcel_step::camp, {new_parcel_step::sent},
          {.after = std::chrono::hours{1}, .then = new_parcel_step::wrap})
    .final(new_parcel_step::sent);
}

/// Weighs in kilos, and knows who sends it and a note apart.
struct third_parcel {
  std::int64_t kilos = 0;
  std::string sender;
  GD_STATE(third_parcel, kilos, sender);
};

third_parcel third_of(old_parcel x) {
  if (x.grams % 1'000 != 0)
    throw std::invalid_argument{"grams: expected whole kilos, got "
                                + std::to_string(x.grams)};
  return {x.grams / 1'000, x.note.substr(x.note.find(':') + 1)};
}

/// Has states of its own: knows how those of version 1 become one, and nothing else of it.
gd::machine third(bool at_pick = false,
                  gd::history keeps = gd::history::with_state) {
  using context = gd::context<third_parcel>;
  return gd::define<third_parcel, new_parcel_step>("Parcel", 3)
    .history(keeps)
    .from<old_parcel, 1>(
      {.at_pick = at_pick, .steps = {{"pack", new_parcel_step::wrap}}},
      third_of)
    .step(new_parcel_step::weigh,
          [](context& ctx) { return gd::done(ctx.state); })
    .step(new_parcel_step::wrap,
          [](context& ctx) { return gd::done(ctx.state); })
    .step(new_parcel_step::hold,
          [](context& ctx) { return gd::done(ctx.state); })
    .rest(new_parcel_step::camp, {new_parcel_step::sent})
    .final(new_parcel_step::sent);
}

struct fixture : engine_fixture {
  /// A row of version 1, that no node touches: in a queue that none serves.
  std::string put(const std::string& step, const std::string& status,
                  const std::string& state = R"({"grams": 5})") {
    auto id = db.scalar(
      "insert into gen_durable (fsm, step, ledger_step, history, status, state,"
      " queue, awaits, locked_by, lease_expires_at, last_error, attempt) values"
      " ('Parcel', $1, $1, 2, $2::gen_durable_status, $3::jsonb, 'still', case "
      "$2"
      " when 'awaiting_signal' then case $1 when 'camp' then '' else 'scales'"
      " end end, case $2 when 'executing' then 'n/1/1' end, case $2 when"
      " 'executing' then now() + interval '1 h' end, case $2 when 'failed' then"
      " 'torn' end, 2) returning id",
      {step, status, state});
    db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version,"
            " outcome, to_step, attempt, state) values ($1, 0, now(), 1,"
            " 'insert', $2, 0, $3)",
            {id, step, state});
    return id;
  }

  std::string of(const std::string& id, const std::string& what) {
    return db.scalar("select concat_ws(' ', " + what
                       + ") from gen_durable where id = $1",
                     {id});
  }

  gd::client client() {
    auto made = gd::client::connect({.database = db.conninfo()});
    if (!made)
      throw std::runtime_error{made.error().message};
    return std::move(*made);
  }

  gd::bulk_command all(std::map<std::string, std::string> steps = {}) {
    return {.what = {.what = gd::act::upgrade,
                     .reason = "v1 packs nothing",
                     .by = "ann",
                     .to_version = 2,
                     .to_steps = std::move(steps)},
            .which = {.fsm = "Parcel", .version = 1}};
  }

  std::string refusal(const gd::bulk_command& what) {
    auto made = client().begin_job(what);
    return made ? "not refused"s : made.error().message;
  }

  gd::job_row end_of(std::int64_t job) {
    db.wait_until("select ended_at is not null from gen_durable_jobs where id"
                  " = "
                    + std::to_string(job),
                  "t");
    auto jobs = client().jobs();
    if (!jobs)
      throw std::runtime_error{jobs.error().message};
    return jobs->front();
  }

  gd::job_row run(const gd::bulk_command& what) {
    auto job = client().begin_job(what);
    if (!job)
      throw std::runtime_error{job.error().message};
    return end_of(*job);
  }

  /// Of that instance alone.
  std::string refusal_of(gd::bulk_command what, const std::string& id) {
    what.which = {};
    what.what.target = std::stoll(id);
    return run(what).last_refusal.value_or("");
  }

  gd::bulk_command all_to_third() {
    auto x = all();
    x.what.to_version = 3;
    return x;
  }

  gd::actors::engine start_third(gd::config how) {
    how.machines = {third()};
    auto node = how.node;
    auto engine = start(std::move(how));
    db.wait_until("select count(*) from gen_durable_nodes where node = '" + node
                    + "'",
                  "1");
    return engine;
  }

  gd::actors::engine start_both() {
    auto engine = start(options({first(), second()}));
    if (!log.wait_for<events::node_started>())
      throw std::runtime_error{"it does not start"};
    return engine;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(upgrade_tests, fixture)

CAF_TEST(each goes to its step of the other version and waits there as it did) {
  auto due = put("pack", "runnable");
  auto waits = put("weigh", "awaiting_signal");
  auto rests = put("camp", "awaiting_signal");
  auto failed = put("pack", "failed");
  auto engine = start_both();
  auto job = run(all({{"pack", "wrap"}}));
  CAF_CHECK_EQUAL(job.changed, 4);
  CAF_CHECK_EQUAL(job.refused, 0);
  auto what = "fsm_version, step, ledger_step, status, attempt, seq, awaits,"
              " last_error, deadline > now()"s;
  CAF_CHECK_EQUAL(of(due, what), "2 wrap wrap runnable 2 1");
  CAF_CHECK_EQUAL(of(waits, what), "2 weigh weigh awaiting_signal 2 1 scales");
  CAF_CHECK_EQUAL(of(rests, what), "2 camp camp awaiting_signal 2 1  t");
  CAF_CHECK_EQUAL(of(failed, what), "2 wrap wrap failed 2 1 torn");
  CAF_CHECK_EQUAL(
    db.scalar("select concat_ws(' ', fsm_version, outcome, from_step, to_step,"
              " by, reason, metadata, state) from gen_durable_ledger where"
              " instance_id = $1 and seq = 1",
              {due}),
    "2 upgrade pack wrap ann v1 packs nothing {\"from_version\": 1} {\"grams\":"
    " 5}");
  db.rows("update gen_durable set queue = 'default'");
  wait_until_count("status = 'done' and result ->> 'grams' = '5'", 1);
  db.rows("select gd_retry($1), gd_signal($2, 'scales')", {failed, waits});
  wait_until_count("status = 'done' and result ->> 'grams' = '5'", 3);
}

CAF_TEST(what the other version does not take is left as it is and listed) {
  auto fits = put("weigh", "runnable");
  auto executes = put("weigh", "executing");
  auto note = put("weigh", "runnable", R"({"grams": 5, "note": "n"})");
  auto throws_ = put("weigh", "failed", R"({"from": "thrown"})");
  auto no_step = put("pack", "runnable");
  auto would_rest = put("hold", "runnable");
  auto done = put("sent", "done");
  auto before = db.scalar("select string_agg(g::text, ' ' order by id) from"
                          " gen_durable g where id <> "
                          + fits);
  auto engine = start_both();
  auto job = run(all());
  CAF_CHECK_EQUAL(job.changed, 1);
  CAF_CHECK_EQUAL(job.refused, 5);
  CAF_CHECK_EQUAL(job.examined, 7);
  std::string listed;
  for (auto id : job.refused_ids)
    listed += std::to_string(id) + " ";
  CAF_CHECK_EQUAL(listed, executes + " " + note + " " + throws_ + " " + no_step
                            + " " + would_rest + " ");
  CAF_CHECK_EQUAL(of(fits, "fsm_version"), "2");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(g::text, ' ' order by id) from"
                            " gen_durable g where id <> "
                            + fits),
                  before);
  auto why = [&](const std::string& id) { return refusal_of(all(), id); };
  CAF_CHECK_EQUAL(why(executes), "upgrade: instance " + executes
                                   + ": expected runnable|awaiting_signal|"
                                     "failed, got executing at weigh");
  CAF_CHECK(why(note).starts_with("state: instance " + note
                                  + ": expected one of "
                                    "Parcel v2: "));
  CAF_CHECK(why(throws_).ends_with("it broke"));
  CAF_CHECK_EQUAL(why(no_step), "step: instance " + no_step
                                  + ": expected a step of Parcel v2 "
                                    "(weigh|wrap|hold|camp|sent), got pack: "
                                    "map it");
  CAF_CHECK_EQUAL(why(would_rest),
                  "step: instance " + would_rest
                    + ": expected a step of Parcel v2 that runs, as hold does,"
                      " got hold");
  CAF_CHECK_EQUAL(why(done), "");
}

CAF_TEST(a dry run tells what would go and changes nothing) {
  put("weigh", "runnable");
  put("weigh", "executing");
  auto engine = start_both();
  auto dry = all();
  dry.dry_run = true;
  auto job = run(dry);
  CAF_CHECK_EQUAL(job.changed, 1);
  CAF_CHECK_EQUAL(job.refused, 1);
  CAF_CHECK_EQUAL(count("fsm_version = 1 and seq = 0"), "2");
}

CAF_TEST(only a node that has both versions does it) {
  auto id = put("weigh", "runnable");
  { // so that it is known
    auto engine = start(options({second()}, "b"));
    CAF_REQUIRE(log.wait_for<events::node_started>());
  }
  auto job = client().begin_job(all());
  CAF_REQUIRE(job);
  // Behind it another job, by which one sees that the node has passed over the first.
  auto other = db.scalar("select gd_begin_job('move', fsm => 'Parcel', to_queue"
                         " => 'slow', force => true)");
  auto only_new = start(options({second()}, "b"));
  db.wait_until("select ended_at is not null from gen_durable_jobs where id = "
                  + other,
                "t");
  CAF_CHECK_EQUAL(of(id, "fsm_version, queue"), "1 slow");
  auto by = client();
  auto now = by.work_on(*job);
  CAF_REQUIRE(now);
  CAF_CHECK(!now->worked_on);
  CAF_CHECK_EQUAL(now->examined, 0);
  auto both = start_both();
  CAF_CHECK_EQUAL(end_of(*job).id, std::stoll(other));
  CAF_CHECK_EQUAL(of(id, "fsm_version"), "2");
}

CAF_TEST(what moves between its decoding and its upgrade is refused) {
  auto engine = start_both();
  auto id = put("weigh", "runnable");
  db.rows("insert into gen_durable_jobs (what, fsm, to_version, dry_run,"
          " made_by, highest_id) values ('upgrade', 'Parcel', 2, false, 'ann',"
          " 0)");
  db.wait_until("select ended_at is not null from gen_durable_jobs", "t");
  db.rows("update gen_durable_jobs set ended_at = null, highest_id = 1000,"
          " last_id = 0; select pg_advisory_lock(hashtext('gen_durable job'),"
          " hashint8(1))");
  db.rows("update gen_durable set seq = seq + 1 where id = $1", {id});
  CAF_CHECK_EQUAL(
    db.scalar("select _gd_upgrade(1, 0, 1000, array[$1::bigint], array[0],"
              " array[null])",
              {id}),
    "t");
  CAF_CHECK_EQUAL(db.scalar("select last_refusal from gen_durable_jobs"),
                  "seq: instance " + id
                    + ": expected 0, at which its state was decoded, got 1");
  CAF_CHECK_EQUAL(of(id, "fsm_version"), "1");
  // A page that begins elsewhere is another's.
  CAF_CHECK_EQUAL(db.scalar("select _gd_upgrade(1, 0, 1000, '{}', '{}', '{}')"),
                  "f");
}

CAF_TEST(what cannot be meant is refused by name) {
  put("weigh", "runnable");
  { auto engine = start_both(); }
  auto x = all();
  x.what.to_version = 7;
  CAF_CHECK_EQUAL(refusal(x), "to_version: expected a version of Parcel that "
                              "nodes have had (1|2), got 7");
  x.what.to_version = 0;
  CAF_CHECK_EQUAL(refusal(x), "to_version: expected a version of Parcel that "
                              "nodes have had (1|2), got nothing");
  x.what.to_version = 1;
  CAF_CHECK_EQUAL(refusal(x),
                  "version: expected another one than to_version, got 1");
  CAF_CHECK_EQUAL(refusal(all({{"pack", "box"}})),
                  "to_steps: pack: expected a step of Parcel v2 "
                  "(weigh|wrap|hold|camp|sent), got box");
  CAF_CHECK_EQUAL(refusal(all({{"box", "wrap"}})),
                  "to_steps: expected steps of Parcel v1, got box");
  x = all();
  x.which = {.status = "failed"};
  CAF_CHECK_EQUAL(refusal(x), "machine: upgrade expects one, got nothing");
  x.which = {};
  x.what.target = 4711;
  CAF_CHECK_EQUAL(refusal(x), "there is no instance 4711");
  db.rows("update gen_durable_machines set retired = true where version = 2");
  CAF_CHECK_EQUAL(refusal(all()),
                  "to_version: Parcel v2 is retired: it takes no instances");
  auto one = client().operate({.what = gd::act::upgrade, .target = 1});
  CAF_REQUIRE(!one);
  CAF_CHECK(one.error().code == gd::errc::invalid_argument);
}

CAF_TEST(many go in pages and a killed node leaves none half done) {
  db.rows("insert into gen_durable (fsm, step, queue) select 'Parcel', 'weigh',"
          " 'still' from generate_series(1, 1000)");
  std::string job;
  {
    auto engine = start_both();
    job = db.scalar("select gd_begin_job('upgrade', fsm => 'Parcel',"
                    " to_version => 2)");
    db.wait_until("select examined >= 200 from gen_durable_jobs", "t");
  } // stops, in the middle
  auto some = std::stoi(count("fsm_version = 2 and seq = 1"));
  CAF_CHECK_EQUAL(db.scalar("select changed from gen_durable_jobs"),
                  std::to_string(some));
  auto engine = start_both();
  CAF_CHECK_EQUAL(end_of(std::stoll(job)).changed, 1'000);
  CAF_CHECK_EQUAL(count("fsm_version = 2 and seq = 1"), "1000");
}

// -- states that are converted ------------------------------------------------

CAF_TEST(
  a node that has the new version alone converts the states of the old one) {
  auto due = put("pack", "runnable", R"({"grams": 5000, "note": "from:ann"})");
  auto waits = put("weigh", "awaiting_signal", R"({"grams": 7000})");
  auto rests = put("camp", "awaiting_signal", R"({"grams": 8000})");
  auto failed = put("hold", "failed", R"({"grams": 9000})");
  auto engine = start_third(options({}));
  auto job = run(all_to_third());
  CAF_CHECK_EQUAL(job.changed, 4);
  CAF_CHECK_EQUAL(job.refused, 0);
  auto what = "fsm_version, step, ledger_step, status, seq, state, awaits"s;
  CAF_CHECK_EQUAL(of(due, what),
                  "3 wrap wrap runnable 1 {\"kilos\": 5, \"sender\": "
                  "\"ann\"}");
  CAF_CHECK_EQUAL(of(waits, what),
                  "3 weigh weigh awaiting_signal 1 {\"kilos\": 7, "
                  "\"sender\": \"\"} scales");
  CAF_CHECK_EQUAL(of(rests, "fsm_version, status, state ->> 'kilos'"),
                  "3 awaiting_signal 8");
  CAF_CHECK_EQUAL(of(failed, "fsm_version, status, state ->> 'kilos'"),
                  "3 failed 9");
  CAF_MESSAGE("the history keeps what was");
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(concat_ws(' ', seq, fsm_version, outcome,"
              " state), ', ' order by seq) from gen_durable_ledger where"
              " instance_id = $1",
              {due}),
    "0 1 insert {\"note\": \"from:ann\", \"grams\": 5000}, "
    "1 3 upgrade {\"kilos\": 5, \"sender\": \"ann\"}");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from _gd_list_faults()"), "0");
  db.rows("update gen_durable set queue = 'default' where id = $1", {due});
  wait_until_count("status = 'done' and result ->> 'kilos' = '5'", 1);
}

CAF_TEST(a state that does not convert is refused by instance and field
         and stays) {
  auto fits = put("weigh", "runnable", R"({"grams": 5000})");
  auto text = put("weigh", "runnable", R"({"grams": "5000"})");
  auto odd = put("weigh", "failed", R"({"grams": 5001})");
  auto executes = put("weigh", "executing", R"({"grams": 5000})");
  auto others = "select string_agg(g::text, ' ' order by id) from gen_durable"
                " g where id <> "
                + fits;
  auto before = db.scalar(others);
  auto engine = start_third(options({}));
  CAF_MESSAGE("a dry run tells how many would decode");
  auto dry = all_to_third();
  dry.dry_run = true;
  auto job = run(dry);
  CAF_CHECK_EQUAL(job.changed, 1);
  CAF_CHECK_EQUAL(job.refused, 3);
  CAF_CHECK_EQUAL(count("fsm_version = 1 and seq = 0"), "4");
  job = run(all_to_third());
  CAF_CHECK_EQUAL(job.changed, 1);
  CAF_CHECK_EQUAL(job.refused, 3);
  CAF_CHECK_EQUAL(db.scalar(others), before);
  auto why = [&](const std::string& id) {
    return refusal_of(all_to_third(), id);
  };
  CAF_CHECK_EQUAL(why(text), "state: instance " + text
                               + ": expected one of Parcel v1 that can be "
                                 "converted: $.grams: expected integer in "
                                 "[-9223372036854775808, "
                                 "9223372036854775807], got string "
                                 "\"5000\"");
  CAF_CHECK_EQUAL(why(odd), "state: instance " + odd
                              + ": expected one of Parcel v1 that can be "
                                "converted: grams: expected whole kilos, got "
                                "5001");
}

CAF_TEST(a state that was converted is not written over one that has moved) {
  auto engine = start_third(options({}));
  auto id = put("weigh", "runnable", R"({"grams": 5000})");
  db.rows("insert into gen_durable_jobs (what, fsm, to_version, dry_run,"
          " made_by, last_id, highest_id, ended_at) values ('upgrade',"
          " 'Parcel', 3, false, 'ann', 0, 1000, now());"
          "select pg_advisory_lock(hashtext('gen_durable job'), hashint8(1));"
          "update gen_durable_jobs set ended_at = null");
  db.rows("update gen_durable set seq = 1, state = '{\"grams\": 6000}' where"
          " id = $1",
          {id});
  db.rows("select _gd_upgrade(1, 0, 1000, array[$1::bigint], array[0],"
          " array[null], array['weigh'], array['{\"kilos\": 5}'::jsonb])",
          {id});
  CAF_CHECK_EQUAL(of(id, "fsm_version, state"), "1 {\"grams\": 6000}");
  CAF_CHECK_EQUAL(db.scalar("select refused from gen_durable_jobs"), "1");
}

CAF_TEST(an upgrade switches the history on and never off) {
  auto none = put("weigh", "runnable", R"({"grams": 5000})");
  auto more = put("weigh", "runnable", R"({"grams": 6000})");
  db.rows("update gen_durable set history = null, ledger_step = null where id ="
          " $1",
          {none});
  db.rows("delete from gen_durable_ledger where instance_id = $1", {none});
  auto how = options({third(false, gd::history::steps)});
  auto engine = start(how);
  CAF_REQUIRE(log.wait_for<events::node_started>());
  CAF_CHECK_EQUAL(run(all_to_third()).changed, 2);
  CAF_CHECK_EQUAL(of(none, "history, ledger_step"), "1 weigh");
  CAF_CHECK_EQUAL(of(more, "history, ledger_step"), "2 weigh");
  auto entries = [&](const std::string& id) {
    return db.scalar("select string_agg(concat_ws(' ', seq, outcome), ', '"
                     " order by seq) from gen_durable_ledger where instance_id"
                     " = $1",
                     {id});
  };
  CAF_CHECK_EQUAL(entries(none), "1 upgrade");
  CAF_MESSAGE("from there on it is kept");
  db.rows("update gen_durable set queue = 'default'");
  wait_until_count("status = 'done'", 2);
  CAF_CHECK_EQUAL(entries(none), "1 upgrade, 2 done");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from _gd_check()"), "0");
}

CAF_TEST(a new job begins within a look and all that are open at once) {
  put("weigh", "runnable", R"({"grams": 5000})");
  auto how = options({});
  how.reaper = 1h; // no sweep finds them
  auto engine = start_third(how);
  // Found by the first sweep, or by a look: that has been, then.
  run(all_to_third());
  put("weigh", "runnable", R"({"grams": 6000})");
  put("weigh", "runnable", R"({"grams": 7000})");
  auto by = client();
  std::vector<std::int64_t> jobs;
  for (auto dry : {true, true, false}) {
    auto what = all_to_third();
    what.dry_run = dry;
    jobs.push_back(must(by.begin_job(what)));
  }
  for (auto x : jobs)
    CAF_CHECK_EQUAL(end_of(x).refused, 0);
  CAF_CHECK_EQUAL(count("fsm_version = 3"), "3");
}

CAF_TEST(who can do an upgrade is told by name) {
  put("weigh", "runnable", R"({"grams": 5000})");
  { // so that it is known
    auto engine = start_third(options({}));
  }
  auto by = client();
  auto job = must(by.begin_job(all_to_third()));
  auto nodes = [&] { return must(by.job(job)).nodes; };
  CAF_CHECK(nodes().empty());
  auto cannot = start(options({first()}, "one"));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  CAF_CHECK(nodes().empty());
  // Another works on it.
  db.rows("select pg_advisory_lock(hashtext('gen_durable job'), hashint8($1))",
          {std::to_string(job)});
  auto can = start_third(options({}, "three"));
  CAF_CHECK(nodes() == std::vector{"three"s});
}

CAF_TEST(two nodes do one job and each instance is converted once) {
  db.rows("insert into gen_durable (fsm, step, queue, state) select 'Parcel',"
          " 'weigh', 'still', jsonb_build_object('grams', n * 1000) from"
          " generate_series(1, 1000) n");
  auto a = start_third(options({}, "a"));
  std::string job;
  {
    auto b = start(options({third()}, "b"));
    job = db.scalar("select gd_begin_job('upgrade', fsm => 'Parcel', version"
                    " => 1, to_version => 3)");
    db.wait_until("select examined >= 200 from gen_durable_jobs", "t");
  } // one of them stops, maybe the one that works on it
  CAF_CHECK_EQUAL(end_of(std::stoll(job)).changed, 1'000);
  CAF_CHECK_EQUAL(count("fsm_version = 3 and seq = 1 and (state ->>"
                        " 'kilos')::bigint between 1 and 1000"),
                  "1000");
  CAF_CHECK_EQUAL(db.scalar("select sum((state ->> 'kilos')::bigint) from"
                            " gen_durable"),
                  "500500");
}

CAF_TEST(
  through two versions under load and cut connections each is converted once) {
  const auto* more = std::getenv("GD_UPGRADE_ROWS");
  auto rows = more != nullptr ? more : "300"s;
  db.rows("insert into gen_durable (fsm, step) select 'Walks', 'walk' from"
          " generate_series(1, $1::int)",
          {rows});
  auto a = start(options(all_walks(), "a"));
  auto b = start(options(all_walks(), "b"));
  auto upgrade = [&](std::int32_t from, std::int32_t to) {
    return must(
      client().begin_job({.what = {.what = gd::act::upgrade, .to_version = to},
                          .which = {.fsm = "Walks", .version = from}}));
  };
  db.wait_until("select count(*) = 2 from gen_durable_machines where version"
                " in (1, 3) and served",
                "t");
  // Half of them by version 2, and the rest from conversion to conversion; what
  // executes is passed over.
  do {
    auto first = upgrade(1, 2);
    end_of(first);
    auto second = upgrade(2, 3);
    auto third = upgrade(1, 3);
    db.rows("select pg_terminate_backend(pid) from pg_stat_activity where"
            " datname = current_database() and application_name ~ ' [ab]$'");
    end_of(second);
    end_of(third);
  } while (count("fsm_version < 3") != "0");
  db.wait_until("select count(*) = " + rows
                  + " from gen_durable where status = 'awaiting_signal'",
                "t");
  db.rows("select gd_signal(id, 'end') from gen_durable");
  wait_until_count("status = 'done' and fsm_version = 3 and result @>"
                   " '{\"left\": 0, \"moved\": 2}'",
                   std::stoi(rows));
}

CAF_TEST(an older instance comes to the version that asks for it as it is due) {
  auto due = put("pack", "runnable", R"({"grams": 5000})");
  auto waits = put("weigh", "awaiting_signal", R"({"grams": 7000})");
  auto odd = put("weigh", "runnable", R"({"grams": 5001})");
  db.rows("update gen_durable set queue = 'default'");
  auto engine = start(options({third(true)}));
  wait_until_count("status = 'done' and result ->> 'kilos' = '5'", 1);
  wait_until_count("status = 'failed'", 1);
  CAF_CHECK(gd::test::contains(of(odd, "last_error"),
                               "grams: expected whole kilos, got 5001"));
  CAF_CHECK_EQUAL(of(waits, "fsm_version, seq"), "1 0");
  db.rows("select gd_signal($1, 'scales')", {waits});
  wait_until_count("status = 'done' and result ->> 'kilos' = '7'", 1);
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(concat_ws(' ', fsm_version, outcome, by), ', '"
              " order by seq) from gen_durable_ledger where instance_id = $1",
              {due}),
    "1 insert, 3 upgrade a, 3 done");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace upgrade_suite
