#define CAF_SUITE payments

// Payments that many move at random, from outside and by their steps, while processes are
// killed. GD_SEED=<n>: others than the usual moves.

#include "support/database.hpp"
#include "support/process.hpp"

#include <gd/client.hpp>

#include <caf/test/unit_test.hpp>

#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace payments_suite {

using namespace std::literals;
using namespace gd::test;

namespace {

constexpr int count = 1'000;
constexpr int clients = 8; // of each of four processes

struct payments_fixture {
  temporary_database db;
  unsigned seed = 1;
  int started = 0;
  std::vector<std::unique_ptr<process>> ended{};

  payments_fixture() {
    db.migrate();
    if (const auto* given = std::getenv("GD_SEED"))
      seed = static_cast<unsigned>(std::stoul(given));
    CAF_MESSAGE("GD_SEED=" << seed);
  }

  std::unique_ptr<process> engine() {
    return std::make_unique<process>(
      std::vector{std::string{GD_MOVERS}, "steps"s, db.conninfo(),
                  "n" + std::to_string(++started)});
  }

  std::unique_ptr<process> mover() {
    ++started;
    return std::make_unique<process>(
      std::vector{std::string{GD_MOVERS}, "move"s, db.conninfo(),
                  "m" + std::to_string(started), std::to_string(clients),
                  std::to_string(seed + 100 * static_cast<unsigned>(started))});
  }

  std::string wrong(const std::string& where) {
    return db.scalar("select count(*) from (" + where + ") x");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(payments_tests, payments_fixture)

CAF_TEST(every ledger is a path to where its row stands although
           movers and engines are killed) {
  std::vector<std::unique_ptr<process>> engines;
  engines.push_back(engine());
  engines.push_back(engine());
  db.wait_until("select count(*) from gen_durable_machines", "1");
  db.rows("select gd_insert('Payment') from generate_series(1, "
          + std::to_string(count) + ")");
  std::map<std::string, std::unique_ptr<process>> movers;
  auto start_mover = [&] {
    auto one = mover();
    movers.emplace("m" + std::to_string(started), std::move(one));
  };
  for (int i = 0; i < 4; ++i)
    start_mover();
  // Each kill comes when so many have moved.
  std::map<std::string, std::unique_ptr<process>> killed;
  for (int kills = 1; kills <= 6; ++kills) {
    db.wait_until("select count(*) >= " + std::to_string(300 * kills)
                    + " from gen_durable_ledger where seq > 0",
                  "t");
    if (kills % 2 == 0) {
      auto& one = engines[static_cast<std::size_t>(kills / 2 % 2)];
      one->end(SIGKILL);
      one = engine();
    } else {
      auto victim = movers.extract(movers.begin());
      victim.mapped()->end(SIGKILL);
      killed.insert(std::move(victim));
      start_mover();
    }
  }
  for (auto& [name, one] : movers)
    CAF_CHECK_EQUAL(one->end(0), 0);
  db.wait_until("select count(*) from gen_durable where status <> 'done'", "0");
  for (auto& one : engines)
    CAF_CHECK_EQUAL(one->end(SIGTERM), 0);

  CAF_MESSAGE(db.scalar("select string_agg(outcome || ' ' || n, ', ') from "
                        "(select outcome, count(*) n from gen_durable_ledger "
                        "group by outcome order by outcome) x"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"),
                  std::to_string(count));
  // Numbered without gaps, the last number the row's.
  CAF_CHECK_EQUAL(wrong("select g.id from gen_durable g left join "
                        "gen_durable_ledger l on l.instance_id = g.id group by "
                        "g.id having min(l.seq) is distinct from 0 or "
                        "max(l.seq) <> g.seq or count(*) <> g.seq + 1"),
                  "0");
  // Each begins where the one before has ended.
  CAF_CHECK_EQUAL(wrong("select from (select l.*, lag(l.to_step) over "
                        "(partition by l.instance_id order by l.seq) as before "
                        "from gen_durable_ledger l) l where l.from_step is "
                        "distinct from l.before"),
                  "0");
  // And is one of the machine's.
  CAF_CHECK_EQUAL(
    wrong("select from gen_durable_ledger where outcome || ' ' || "
          "coalesce(from_step, '') || ' ' || to_step not in "
          "('insert  pending', 'transition pending submitted', "
          "'transition pending cancelled', 'transition submitted paid', "
          "'transition submitted failed', 'transition submitted review', "
          "'next submitted review', 'next review submitted', "
          "'next review paid', 'replay review review', "
          "'reap review review', 'reap submitted submitted', "
          "'transition review cancelled')"),
    "0");
  // The row is as its last entry says.
  CAF_CHECK_EQUAL(
    wrong("select from gen_durable g join gen_durable_ledger l on "
          "l.instance_id = g.id and l.seq = g.seq where l.to_step "
          "<> g.step or l.state <> g.state or g.step not in "
          "('paid', 'cancelled', 'failed')"),
    "0");
  // Steps count themselves in the state: none is lost, none was done twice.
  CAF_CHECK_EQUAL(
    wrong("select from gen_durable g where (g.state -> 'n')::int <> (select "
          "count(*) from gen_durable_ledger l where l.instance_id = g.id and "
          "l.outcome in ('next', 'replay') and l.from_step = 'review')"),
    "0");
  CAF_CHECK_EQUAL(db.scalar("select deadlocks from pg_stat_database where "
                            "datname = current_database()"),
                  "0");

  // Who was told that it has moved one has; of who was killed, no more than what was
  // under way is there that it was not told.
  auto check = [&](const std::string& name, const process& one, int untold) {
    int told = 0;
    for (const auto& line : one.lines()) {
      if (line.starts_with("error"))
        CAF_ERROR(name + ": " + line);
      if (!line.starts_with("moved ")
          || (untold > 0 && line == one.lines().back()))
        continue; // the last one may be cut off
      ++told;
      auto first = line.find(' ') + 1;
      auto second = line.find(' ', first) + 1;
      auto third = line.find(' ', second) + 1;
      if (db.scalar("select count(*) from gen_durable_ledger where "
                    "instance_id = $1::bigint and seq = $2::bigint and to_step "
                    "= $3 and by = $4 and outcome = 'transition' and metadata "
                    "? 'number'",
                    {line.substr(first, second - first - 1),
                     line.substr(second, third - second - 1),
                     line.substr(third), name})
          != "1")
        CAF_ERROR(name + ": " + line + ": not in the ledger");
    }
    auto there = std::stoi(db.scalar("select count(*) from gen_durable_ledger "
                                     "where by = $1",
                                     {name}));
    CAF_CHECK_LESS_OR_EQUAL(told, there);
    CAF_CHECK_LESS_OR_EQUAL(there, told + untold);
  };
  for (const auto& [name, one] : movers)
    check(name, *one, 0);
  for (const auto& [name, one] : killed)
    check(name, *one, clients + 1);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace payments_suite
