#define CAF_SUITE crashes

// Which ends of processes rows are charged with: not with those that another row is known
// to have caused.

#include <gd/pq/connection.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <support/database.hpp>
#include <support/opened.hpp>
#include <support/outcomes.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace crashes_suite {

using namespace std::literals;

namespace {

namespace store = gd::store;

using ids = std::vector<std::int64_t>;

constexpr std::int32_t most = 5;

struct fixture : gd::test::engine_database {
  std::int64_t insert(const std::string& queue = "default") {
    return std::stoll(db.scalar("insert into gen_durable (fsm, step, queue) "
                                "values ('Order', 'pay', $1) returning id",
                                {queue}));
  }

  ids insert_some(int count) {
    ids xs;
    for (int i = 0; i < count; ++i)
      xs.push_back(insert());
    return xs;
  }

  static std::string token(const std::string& process) {
    return "n/" + process + "/1";
  }

  /// Execute in that process, under leases for a while.
  void execute(const ids& which, const std::string& process) {
    for (auto id : which)
      db.rows("update gen_durable set status = 'executing', locked_by = $2, "
              "lease_expires_at = now() + interval '1 h' where id = $1",
              {std::to_string(id), token(process)});
  }

  void begin_trial(std::int64_t id, const std::string& process, int trials) {
    auto noted = store::read_one<store::noted_row>(
      run(store::note_trials({{id, token(process), trials}}, id)));
    CAF_REQUIRE(noted);
    CAF_CHECK(noted->fenced);
  }

  /// Their leases are over, and they are returned together.
  void reap(const ids& which) {
    end_leases(which);
    CAF_CHECK_EQUAL(run(store::reap(100, {}, most)).size(), which.size());
  }

  void end_leases(const ids& which) {
    for (auto id : which)
      db.rows("update gen_durable set lease_expires_at = now() - interval "
              "'1 s' where id = $1",
              {std::to_string(id)});
  }

  /// All of them had it, and it has ended.
  void crash(const ids& which, const std::string& process) {
    execute(which, process);
    reap(which);
  }

  /// One of them runs alone, so often that it is convicted, as others were returned.
  void convict(std::int64_t id) {
    for (int i = 1; i <= most; ++i) {
      auto process = "trial " + std::to_string(i);
      execute({id}, process);
      begin_trial(id, process, i);
      reap({id});
    }
  }

  std::string counts(std::int64_t id) {
    return db.scalar("select format('attempt %s, crashes %s, excused %s', "
                     "attempt, crashes, coalesce(excused, 0)) from gen_durable "
                     "where id = $1",
                     {std::to_string(id)});
  }

  std::vector<std::int64_t> open() {
    std::vector<std::int64_t> xs;
    for (const auto& x :
         store::read<store::open_crash>(run(store::open_crashes())))
      xs.push_back(x.process);
    return xs;
  }

  /// All pages. Returns how many rows are charged with less.
  std::int64_t exonerate(std::int32_t limit = 100) {
    auto processes = open();
    std::int64_t count = 0;
    store::exonerated_page to;
    do {
      to = store::read_one<store::exonerated_page>(
             run(store::exonerate(processes, to, limit)))
             .value_or(store::exonerated_page{});
      count += to.exonerated;
    } while (to.examined >= limit);
    return count;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(crashes_tests, fixture)

CAF_TEST(tries are counted as the guide says) {
  auto id = insert();
  auto ends_with = [&](store::write_kind what) {
    execute({id}, "now");
    store::outcome_row row{.id = id, .token = token("now"), .what = what};
    row.step = "pay";
    row.state = "{}";
    run(store::flush({row}));
    return counts(id);
  };
  CAF_CHECK_EQUAL(counts(id), "attempt 0, crashes 0, excused 0");
  CAF_CHECK_EQUAL(ends_with(store::write_kind::replay),
                  "attempt 1, crashes 0, excused 0");
  crash({id}, "has gone");
  CAF_CHECK_EQUAL(counts(id), "attempt 2, crashes 1, excused 0");
  CAF_CHECK_EQUAL(ends_with(store::write_kind::release),
                  "attempt 2, crashes 1, excused 0");
  CAF_CHECK_EQUAL(ends_with(store::write_kind::replay),
                  "attempt 2, crashes 0, excused 0");
  gd::test::session alive{db.conninfo()};
  alive.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
             "hashtext('n/lives'))");
  crash({id}, "lives"); // a failure of its actor
  CAF_CHECK_EQUAL(counts(id), "attempt 3, crashes 0, excused 0");
  crash({id}, "has gone too");
  CAF_CHECK_EQUAL(counts(id), "attempt 4, crashes 1, excused 0");
  CAF_CHECK_EQUAL(ends_with(store::write_kind::next),
                  "attempt 0, crashes 0, excused 0");
}

CAF_TEST(
  the end of a process in the middle of a trial is charged to that row alone) {
  auto guilty = insert();
  auto before = insert();
  auto together = insert();
  auto behind = insert();
  auto alone = insert();
  execute({guilty, before, together, behind, alone}, "x");
  begin_trial(guilty, "x", 1);
  CAF_MESSAGE("whoever comes first");
  reap({before});
  reap({guilty, together});
  reap({behind});
  end_leases({alone});
  CAF_CHECK_EQUAL(run(store::return_row(alone, true, most)).size(), 1u);
  CAF_CHECK_EQUAL(counts(guilty), "attempt 1, crashes 1, excused 0");
  for (auto id : {before, together, behind, alone})
    CAF_CHECK_EQUAL(counts(id), "attempt 1, crashes 0, excused 1");
}

CAF_TEST(the row on trial is known whichever way it is returned) {
  auto xs = insert_some(2);
  execute(xs, "x");
  begin_trial(xs[0], "x", 1);
  end_leases({xs[0]});
  CAF_CHECK_EQUAL(run(store::return_row(xs[0], true, most)).size(), 1u);
  reap({xs[1]});
  CAF_CHECK_EQUAL(counts(xs[0]), "attempt 1, crashes 1, excused 0");
  CAF_CHECK_EQUAL(counts(xs[1]), "attempt 1, crashes 0, excused 1");
}

CAF_TEST(a trial that is over blames nobody for what ends the process later) {
  auto end_of = [this](auto over) {
    auto xs = insert_some(2);
    execute(xs, "x" + std::to_string(xs[0]));
    begin_trial(xs[0], "x" + std::to_string(xs[0]), 1);
    over(xs[0]);
    reap({xs[1]});
    return counts(xs[1]);
  };
  constexpr auto charged = "attempt 1, crashes 1, excused 0";
  CAF_MESSAGE("survived");
  CAF_CHECK_EQUAL(
    end_of([this](std::int64_t id) {
      run(store::note_trials({{id, token("x" + std::to_string(id)), 0}}));
    }),
    charged);
  CAF_MESSAGE("with an outcome");
  CAF_CHECK_EQUAL(end_of([this](std::int64_t id) {
                    db.rows("update gen_durable set status = 'done', locked_by "
                            "= null, lease_expires_at = null where id = $1",
                            {std::to_string(id)});
                  }),
                  charged);
  CAF_MESSAGE("and executes again");
  CAF_CHECK_EQUAL(end_of([this](std::int64_t id) {
                    db.rows(
                      "update gen_durable set locked_by = $2 where id = "
                      "$1",
                      {std::to_string(id), "n/x" + std::to_string(id) + "/2"});
                  }),
                  charged);
  CAF_MESSAGE("and another's has begun");
  auto next = insert();
  CAF_CHECK_EQUAL(end_of([&](std::int64_t id) {
                    auto process = "x" + std::to_string(id);
                    execute({next}, process);
                    begin_trial(next, process, 1);
                    run(store::note_trials({{next, token(process), 0}}));
                  }),
                  charged);
}

CAF_TEST(a note that is not fenced begins no trial) {
  auto xs = insert_some(2);
  execute(xs, "x");
  run(store::note_trials({{xs[0], "n/x/7", 1}}, xs[0]));
  reap(xs);
  CAF_CHECK_EQUAL(counts(xs[1]), "attempt 1, crashes 1, excused 0");
}

CAF_TEST(a row that is convicted exonerates those that shared its crashes) {
  auto guilty = insert();
  auto innocent = insert_some(5);
  auto all = innocent;
  all.push_back(guilty);
  crash(all, "a");
  crash(all, "b");
  auto other = insert();
  crash({innocent[4], other}, "c");
  CAF_CHECK(open().empty());
  convict(guilty);
  CAF_CHECK_EQUAL(counts(guilty), "attempt 7, crashes 7, excused 0");
  CAF_CHECK_EQUAL(open().size(), 7u);
  CAF_CHECK_EQUAL(exonerate(), 5);
  for (int i = 0; i < 4; ++i)
    CAF_CHECK_EQUAL(counts(innocent[i]), "attempt 2, crashes 0, excused 2");
  CAF_MESSAGE("it is charged with what it has not shared");
  CAF_CHECK_EQUAL(counts(innocent[4]), "attempt 3, crashes 1, excused 2");
  CAF_CHECK_EQUAL(counts(other), "attempt 1, crashes 1, excused 0");
  CAF_CHECK_EQUAL(counts(guilty), "attempt 7, crashes 7, excused 0");
  CAF_CHECK(open().empty());
  CAF_CHECK_EQUAL(exonerate(), 0);
}

CAF_TEST(suspects are exonerated page by page and who is locked by their reap) {
  auto guilty = insert();
  auto innocent = insert_some(7);
  auto all = innocent;
  all.push_back(guilty);
  crash(all, "a");
  crash(all, "b");
  convict(guilty);
  gd::test::session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = "
                + std::to_string(innocent[3]) + " for update");
  CAF_MESSAGE("whoever has begun is gone, and another begins anew");
  auto processes = open();
  auto first = store::read_one<store::exonerated_page>(
    run(store::exonerate(processes, {}, 3)));
  CAF_REQUIRE(first);
  CAF_CHECK_EQUAL(first->examined, 3);
  CAF_CHECK_EQUAL(open().size(), processes.size());
  auto rest = exonerate(2);
  CAF_CHECK_EQUAL(first->exonerated + rest, 6);
  stranger.exec("rollback");
  CAF_CHECK(open().empty());
  CAF_CHECK_EQUAL(counts(innocent[3]), "attempt 2, crashes 2, excused 0");
  crash({innocent[3]}, "c");
  CAF_CHECK_EQUAL(counts(innocent[3]), "attempt 3, crashes 1, excused 2");
}

CAF_TEST(
  who is no suspect yet becomes none by a crash of which another is the cause) {
  auto guilty = insert();
  auto once = insert();
  crash({guilty, once}, "a");
  crash({guilty}, "b");
  convict(guilty);
  exonerate();
  CAF_CHECK_EQUAL(counts(once), "attempt 1, crashes 1, excused 0");
  crash({once}, "c");
  CAF_CHECK_EQUAL(counts(once), "attempt 2, crashes 1, excused 1");
  CAF_MESSAGE("and one whose lease is over behind the verdict");
  auto late = insert();
  execute({late}, "b");
  reap({late});
  CAF_CHECK_EQUAL(counts(late), "attempt 1, crashes 0, excused 1");
}

CAF_TEST(who has died in a trial of its own stays charged) {
  auto guilty = insert();
  auto other = insert();
  crash({guilty, other}, "a");
  crash({guilty, other}, "b");
  execute({other}, "own");
  begin_trial(other, "own", 1);
  reap({other});
  convict(guilty);
  CAF_CHECK_EQUAL(exonerate(), 0);
  CAF_CHECK_EQUAL(counts(other), "attempt 3, crashes 3, excused 0");
  crash({other}, "c");
  CAF_CHECK_EQUAL(counts(other), "attempt 4, crashes 4, excused 0");
}

CAF_TEST(nobody is convicted without a limit or for what is no crash) {
  auto xs = insert_some(2);
  crash(xs, "a");
  crash(xs, "b");
  db.rows("update gen_durable set trials = 100, attempt = 100 where id = $1",
          {std::to_string(xs[0])});
  execute({xs[0]}, "c");
  end_leases({xs[0]});
  run(store::reap(100, {}, 0));
  CAF_CHECK(open().empty());
  CAF_MESSAGE("the actor of its step has died as often");
  auto alone = insert();
  db.rows("update gen_durable set trials = 5, attempt = 5 where id = $1",
          {std::to_string(alone)});
  crash({alone}, "d");
  CAF_CHECK(open().empty());
}

CAF_TEST(an end that another has caused is no failure of the step) {
  auto guilty = insert();
  auto innocent = insert();
  crash({guilty, innocent}, "a");
  crash({guilty, innocent}, "b");
  convict(guilty);
  exonerate();
  execute({guilty, innocent}, "c");
  begin_trial(guilty, "c", most + 1);
  reap({guilty, innocent});
  CAF_CHECK_EQUAL(counts(innocent), "attempt 3, crashes 0, excused 3");
  auto pick = [this] {
    auto picked = store::read_pick(run(store::pick({.queue = "default",
                                                    .limit = 1,
                                                    .machines = {{"Order", 1}},
                                                    .token = "n/y/1",
                                                    .lease = 60s})))
                    .rows;
    CAF_REQUIRE_EQUAL(picked.size(), 1u);
    return picked.front();
  };
  auto picked = pick();
  CAF_CHECK_EQUAL(picked.id, innocent);
  CAF_CHECK_EQUAL(picked.attempt, 3);
  CAF_CHECK_EQUAL(picked.crashes, 3);
  CAF_MESSAGE("nor behind an outcome");
  std::vector<store::outcome_row> outcomes(1);
  outcomes[0].id = innocent;
  outcomes[0].token = "n/y/1";
  outcomes[0].what = store::write_kind::replay;
  outcomes[0].state = "{}";
  run(store::flush(outcomes));
  CAF_CHECK_EQUAL(counts(innocent), "attempt 1, crashes 0, excused 0");
}

CAF_TEST(the end of the process of a worker is known apart as well) {
  auto guilty = insert();
  auto innocent = insert();
  auto end_worker = [this](const ids& which, const std::string& worker) {
    execute(which, "engine");
    for (auto id : which)
      run(store::note_trials({{id, token("engine"), 0, worker}}));
    gd::test::session alive{db.conninfo()};
    alive.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
               "hashtext('n/engine'))");
    reap(which);
  };
  end_worker({guilty, innocent}, "w1");
  end_worker({guilty, innocent}, "w2");
  CAF_CHECK_EQUAL(counts(innocent), "attempt 2, crashes 2, excused 0");
  convict(guilty);
  CAF_CHECK_EQUAL(exonerate(), 1);
  CAF_CHECK_EQUAL(counts(innocent), "attempt 2, crashes 0, excused 2");
}

CAF_TEST(what an outcome has forgotten is never taken off a later crash) {
  auto guilty = insert();
  auto innocent = insert();
  crash({guilty, innocent}, "a");
  crash({guilty, innocent}, "b");
  db.rows("update gen_durable set crashes = 0, attempt = 0 where id = $1",
          {std::to_string(innocent)});
  crash({innocent}, "c");
  crash({innocent}, "d");
  convict(guilty);
  CAF_CHECK_EQUAL(exonerate(), 0);
  CAF_CHECK_EQUAL(counts(innocent), "attempt 2, crashes 2, excused 0");
}

CAF_TEST(as many crashes are remembered as fit and all are counted) {
  auto id = insert();
  for (int i = 0; i < 40; ++i)
    crash({id}, "p" + std::to_string(i));
  CAF_CHECK_EQUAL(counts(id), "attempt 40, crashes 40, excused 0");
  CAF_CHECK_EQUAL(db.scalar("select cardinality(crashed_in) from gen_durable"),
                  "32");
}

CAF_TEST(what is known of crashes goes after a day) {
  auto xs = insert_some(2);
  execute(xs, "x");
  begin_trial(xs[0], "x", 1);
  reap(xs);
  open();
  constexpr auto facts = "select count(*) from gen_durable_crashes";
  CAF_CHECK_EQUAL(db.scalar(facts), "2");
  db.rows("update gen_durable_crashes set at = at - interval '25 h'");
  open();
  CAF_CHECK_EQUAL(db.scalar(facts), "0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace crashes_suite
