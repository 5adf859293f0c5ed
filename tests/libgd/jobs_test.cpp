#define CAF_SUITE jobs

// Pages of instances by a filter, and what is done with all that fit one: each instance once,
// in id order, judged under its row's lock, whoever is killed meanwhile.

#include <gd/client.hpp>

#include <support/ledger.hpp>
#include <support/opened.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace jobs_suite {

using namespace std::literals;

namespace {

using gd::act;
using gd::errc;
using gd::test::contains;
using gd::test::refusal;
using gd::test::session;
using gd::test::text;

struct fixture : gd::test::opened_database {
  /// So many of each: failed for want of stock or of money, runnable, done; in turn, and
  /// with history.
  void fill(int of_each) {
    db.rows(
      "insert into gen_durable (fsm, step, status, last_error, history,"
      " ledger_step, queue, attempt) select case when n % 8 < 4 then 'Order'"
      " else 'Other' end, 'pay', (array['failed', 'failed', 'runnable',"
      " 'done'])[1 + n % 4]::gen_durable_status, (array['no stock', 'no "
      "money'])[1"
      " + n % 4] || ' of ' || n, 2, 'pay', 'default', 3 from"
      " generate_series(0, 4 * $1::int - 1) n",
      {std::to_string(of_each)});
    db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version,"
            " outcome, to_step, attempt, state) select id, 0, now(), 1,"
            " 'insert', step, attempt, state from gen_durable");
  }

  gd::job_row work_off(gd::client& by, std::int64_t job) {
    while (true) {
      auto now = by.work_on(job);
      CAF_REQUIRE(now);
      if (now->ended_at_us)
        return *now;
    }
  }

  std::string ids(const gd::list_page& page) {
    std::string out;
    for (const auto& x : page.rows)
      out += text(x.id) + " ";
    return out;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(jobs_tests, fixture)

// -- pages --------------------------------------------------------------------

CAF_TEST(a page has what fits all of its filter the newest first) {
  fill(4);
  auto by = client();
  auto page = [&](gd::filter which) {
    auto x = by.list({.which = std::move(which)});
    CAF_REQUIRE(x);
    CAF_CHECK(!x->next);
    return ids(*x);
  };
  CAF_CHECK_EQUAL(page({}), "16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 ");
  CAF_CHECK_EQUAL(page({.fsm = "Order"}), "12 11 10 9 4 3 2 1 ");
  CAF_CHECK_EQUAL(page({.fsm = "Order", .status = "failed"}), "10 9 2 1 ");
  CAF_CHECK_EQUAL(page({.failure = "no stock"}), "13 9 5 1 ");
  CAF_CHECK_EQUAL(page({.version = 2}), "");
  CAF_CHECK_EQUAL(page({.step = "ship"}), "");
  CAF_CHECK_EQUAL(page({.queue = "slow"}), "");
  CAF_CHECK_EQUAL(page({.older_than_us = 3'600'000'000}), "");
  db.rows("update gen_durable set updated_at = now() - interval '2 h' where id"
          " = 7");
  CAF_CHECK_EQUAL(page({.older_than_us = 3'600'000'000}), "7 ");
  db.rows("update gen_durable set status = 'executing', locked_by = 'x',"
          " lease_expires_at = now() where id in (3, 7)");
  CAF_CHECK_EQUAL(page({.status = "executing"}), "7 3 ");
  auto row = by.list({.which = {.failure = "no money of 1"}, .limit = 1});
  CAF_REQUIRE(row);
  CAF_CHECK_EQUAL(row->rows.front().last_error.value_or(""), "no money of 13");
  CAF_CHECK(!by.list({.limit = 0}));
}

CAF_TEST(pages follow each other until there is no more) {
  fill(6);
  auto by = client();
  for (const auto* status : {"", "failed"}) {
    gd::list_query ask{.which = {.status = status}, .limit = 5};
    std::string all;
    int pages = 0;
    do {
      auto page = by.list(ask);
      CAF_REQUIRE(page);
      all += ids(*page);
      ask.before = page->next;
      ++pages;
    } while (ask.before && pages < 10);
    CAF_CHECK_EQUAL(all, db.scalar("select string_agg(id || ' ', '' order by id"
                                   " desc) from gen_durable where $1 in ('',"
                                   " status::text)",
                                   {status}));
  }
}

CAF_TEST(a page of what is rare looks at so many and says where it stands) {
  db.rows(
    "insert into gen_durable (fsm, step, status) select 'Order', 'pay',"
    " case n when 1 then 'failed' else 'done' end::gen_durable_status from"
    " generate_series(1, 8000) n");
  auto by = client();
  auto page = by.list({.which = {.fsm = "Other"}});
  CAF_REQUIRE(page);
  CAF_CHECK(page->rows.empty());
  CAF_CHECK_EQUAL(page->next.value_or(0), 3'001);
  page = by.list({.which = {.fsm = "Other"}, .before = page->next});
  CAF_REQUIRE(page);
  CAF_CHECK(page->rows.empty());
  CAF_CHECK(!page->next);
  // Those that have failed are found among any number.
  page = by.list({.which = {.status = "failed"}});
  CAF_REQUIRE(page);
  CAF_CHECK_EQUAL(ids(*page), "1 ");
}

// -- jobs ---------------------------------------------------------------------

CAF_TEST(
  a job does with each instance of its filter what is asked and enters why) {
  fill(300);
  auto by = client();
  auto job = by.begin_job(
    {.what = {.what = act::retry, .reason = "the stock is back", .by = "ann"},
     .which = {.fsm = "Order", .failure = "no stock"}});
  CAF_REQUIRE(job);
  // What is there later is not meant.
  db.rows("insert into gen_durable (fsm, step, status, last_error) values"
          " ('Order', 'pay', 'failed', 'no stock')");
  auto end = work_off(by, *job);
  CAF_CHECK_EQUAL(end.changed, 150);
  CAF_CHECK_EQUAL(end.refused, 0);
  CAF_CHECK_EQUAL(end.last_id, 1'200);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 0"), "150");
  CAF_CHECK_EQUAL(count("status = 'failed'"), "451");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_ledger where"
                            " outcome = 'retry' and by = 'ann' and reason ="
                            " 'the stock is back'"),
                  "150");
  CAF_CHECK_EQUAL(gd::test::broken_paths(db), "");
  // Again, it has ended.
  auto again = by.work_on(*job);
  CAF_REQUIRE(again);
  CAF_CHECK_EQUAL(again->changed, 150);
  CAF_CHECK(!again->worked_on);
}

CAF_TEST(a dry run only counts) {
  fill(300);
  auto by = client();
  auto job = by.begin_job(
    {.what = {.what = act::stop}, .which = {.fsm = "Order"}, .dry_run = true});
  CAF_REQUIRE(job);
  CAF_CHECK_EQUAL(work_off(by, *job).changed, 150); // those that are runnable
  CAF_CHECK_EQUAL(count("seq > 0"), "0");
}

CAF_TEST(each verb passes over the statuses that it is not for and tells what executes) {
  fill(8);
  auto by = client();
  db.rows("update gen_durable set status = 'executing', locked_by = 'x',"
          " lease_expires_at = now() where id in (3, 7)");
  auto run = [&](gd::command what) {
    auto job = by.begin_job(
      {.what = std::move(what), .which = {.queue = "default"}});
    CAF_REQUIRE(job);
    return work_off(by, *job);
  };
  auto moved = run({.what = act::move, .queue = "slow", .force = true});
  CAF_CHECK_EQUAL(moved.changed, 22);
  CAF_CHECK_EQUAL(moved.refused, 2);
  CAF_CHECK(contains(moved.last_refusal.value_or(""), "instance 7: expected"));
  CAF_CHECK_EQUAL(count("queue = 'slow'"), "22");
  CAF_CHECK_EQUAL(run({.what = act::stop}).changed, 2);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "0");
  CAF_CHECK_EQUAL(gd::test::broken_paths(db), "");
}

CAF_TEST(what cannot be meant is refused) {
  auto by = client();
  auto refused = [&](gd::bulk_command what) {
    auto why = refusal(by.begin_job(what));
    CAF_CHECK(contains(why, "invalid_argument"));
    return why;
  };
  CAF_CHECK(
    contains(refused({.what = {.what = act::stop}}), "filter: expected"));
  CAF_CHECK(contains(
    refused({.what = {.what = act::retry}, .which = {.status = "done"}}),
    "status: retry expects failed, got done"));
  CAF_CHECK(
    contains(refused({.what = {.what = act::move}, .which = {.fsm = "Order"}}),
             "expected a queue or a priority"));
  CAF_CHECK(contains(refused({.what = {.what = act::retry, .by = "a\nb"},
                              .which = {.fsm = "Order"}}),
                     "by: "));
  auto nobody = by.work_on(77);
  CAF_REQUIRE(!nobody);
  CAF_CHECK_EQUAL(nobody.error().code, errc::not_found);
}

CAF_TEST(a row that a stranger holds is waited for a moment and then refused) {
  fill(4);
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = 5 for update");
  auto by = client();
  auto job = by.begin_job(
    {.what = {.what = act::retry}, .which = {.failure = "no stock"}});
  CAF_REQUIRE(job);
  auto end = work_off(by, *job);
  CAF_CHECK_EQUAL(end.changed, 3);
  CAF_CHECK_EQUAL(end.refused, 1);
  CAF_CHECK(contains(end.last_refusal.value_or(""), "instance 5"));
}

CAF_TEST(an instance is judged again under its lock) {
  fill(4);
  session stranger{db.conninfo()};
  session worker{db.conninfo()};
  auto by = client();
  auto job = by.begin_job(
    {.what = {.what = act::retry}, .which = {.failure = "no stock"}});
  CAF_REQUIRE(job);
  stranger.exec("begin");
  stranger.exec("update gen_durable set last_error = 'another' where id = 5");
  worker.start("select (_gd_act_for(j, 5, true)).answer from gen_durable_jobs j"
               " where id = $1",
               {text(*job)});
  worker.wait_until_blocked_by(stranger);
  stranger.exec("commit");
  CAF_CHECK_EQUAL(worker.finish().front().front().value_or(""), "same");
  auto end = work_off(by, *job);
  CAF_CHECK_EQUAL(end.changed, 3);
  CAF_CHECK_EQUAL(end.refused, 0);
  CAF_CHECK_EQUAL(count("id = 5 and status = 'failed'"), "1");
}

CAF_TEST(
  a retry whose unique key another has is refused and its neighbours go on) {
  fill(4);
  db.rows("update gen_durable set unique_key = 'k', unique_scope ="
          " '{runnable,executing}' where id in (3, 5)");
  auto by = client();
  auto job = by.begin_job(
    {.what = {.what = act::retry}, .which = {.failure = "no stock"}});
  CAF_REQUIRE(job);
  auto end = work_off(by, *job);
  CAF_CHECK_EQUAL(end.changed, 3);
  CAF_CHECK_EQUAL(end.refused, 1);
  CAF_CHECK(contains(end.last_refusal.value_or(""), "instance 3 has it"));
}

CAF_TEST(one works on a job at a time and who is killed lets go of it) {
  fill(300);
  auto first = client();
  auto second = client();
  auto job = first.begin_job(
    {.what = {.what = act::retry}, .which = {.status = "failed"}});
  CAF_REQUIRE(job);
  auto some = first.work_on(*job);
  CAF_REQUIRE(some);
  CAF_CHECK_EQUAL(some->changed, 200); // a batch
  CAF_CHECK(!some->ended_at_us);
  auto other = second.work_on(*job);
  CAF_REQUIRE(other);
  CAF_CHECK(other->worked_on);
  CAF_CHECK_EQUAL(other->changed, 200);
  // Killed in the middle of a batch: it is undone, and where it stood with it.
  db.rows("create function stand() returns trigger language plpgsql as $$ begin"
          " perform pg_advisory_xact_lock(4711); return new; end $$;"
          " create trigger stand before update on gen_durable for each row when"
          " (old.id = 601) execute function stand()");
  session stranger{db.conninfo()};
  stranger.exec("select pg_advisory_lock(4711)");
  std::thread worker{[&] { std::ignore = first.work_on(*job); }};
  auto pid = stranger.wait_until_someone_is_blocked();
  db.rows("select pg_terminate_backend($1)", {text(pid)});
  stranger.exec("select pg_advisory_unlock(4711)");
  auto end = work_off(second, *job);
  worker.join();
  CAF_CHECK_EQUAL(end.changed, 600);
  CAF_CHECK_EQUAL(count("seq = 1 and status = 'runnable'"), "600");
  CAF_CHECK_EQUAL(count("seq > 1"), "0");
}

CAF_TEST(a job that is cancelled stops where it is) {
  fill(300);
  auto by = client();
  auto job = by.begin_job(
    {.what = {.what = act::retry}, .which = {.status = "failed"}});
  CAF_REQUIRE(job);
  CAF_REQUIRE(by.work_on(*job));
  auto now = by.cancel_job(*job);
  CAF_REQUIRE(now);
  CAF_CHECK(now->cancelled);
  CAF_REQUIRE(now->ended_at_us);
  CAF_CHECK_EQUAL(work_off(by, *job).changed, 200);
  CAF_CHECK_EQUAL(count("status = 'failed'"), "400");
  auto all = by.jobs();
  CAF_REQUIRE(all);
  CAF_REQUIRE_EQUAL(all->size(), 1u);
  CAF_CHECK_EQUAL(all->front().id, *job);
  CAF_CHECK(contains(all->front().which, "\"status\": \"failed\""));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace jobs_suite
