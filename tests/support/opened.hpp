#pragma once

#include "support/database.hpp"
#include "support/ledger.hpp"

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>

#include <caf/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gd::test {

/// A migrated database of its own, with connections that work as an engine's do, clients
/// and engines of it.
struct opened_database {
  temporary_database db;
  std::vector<std::unique_ptr<pq::connection>> opened;
  std::vector<std::unique_ptr<session>> programs;

  opened_database() {
    db.migrate();
  }

  pq::connection& connect() {
    auto& made = opened.emplace_back(
      std::make_unique<pq::connection>(db.options()));
    CAF_REQUIRE(made->wait_ready());
    return *made;
  }

  /// A connection of some program.
  session& program() {
    return *programs.emplace_back(std::make_unique<session>(db.conninfo()));
  }

  gd::client
  client(std::chrono::milliseconds lock_timeout = std::chrono::seconds{10}) {
    auto how = db.options();
    how.lock_timeout = lock_timeout;
    auto made = gd::client::connect(how);
    CAF_REQUIRE(made);
    return std::move(*made);
  }

  gd::testing::in_database engine_of(gd::machine what) {
    auto made = gd::testing::in_database::connect(db.options(),
                                                  {std::move(what)});
    CAF_REQUIRE(made);
    return std::move(*made);
  }

  /// Of an instance.
  std::string of(std::int64_t id, const std::string& columns) {
    return db.scalar("select " + columns + " from gen_durable where id = $1",
                     {std::to_string(id)});
  }

  /// Instances.
  std::string count(const std::string& condition = "true") {
    return db.scalar("select count(*) from gen_durable where " + condition);
  }

  /// A signal that is in the inbox already.
  std::int64_t received(std::int64_t target, const std::string& name,
                        const std::string& dedup = "") {
    return std::stoll(db.scalar(
      "insert into gen_durable_signals (target_id, name, payload, dedup_key)"
      " values ($1, $2, '{\"a\": 1}', nullif($3, '')) returning id",
      {std::to_string(target), name, dedup}));
  }

  /// The history of all instances has no gap.
  void check_path() {
    CAF_CHECK_EQUAL(broken_paths(db), "");
  }

  void wait_until_blocked(const session& who) {
    db.wait_until("select cardinality(pg_blocking_pids("
                    + std::to_string(who.pid()) + ")) > 0",
                  "t");
  }

  static store::pick_request pick_under(const std::string& token) {
    return {.queue = "default",
            .limit = 10,
            .machines = {{"Order", 1}},
            .token = token,
            .lease = std::chrono::minutes{1},
            .keyed = true};
  }

  static std::vector<pq::rows>
  run_all(pq::connection& on, std::vector<pq::call> calls, bool alone = true) {
    auto reply = on.run({std::move(calls), alone});
    if (!reply.ok())
      CAF_ERROR("" << to_string(*reply.failure));
    CAF_REQUIRE(reply.ok());
    return std::move(reply.results);
  }

  static pq::rows run(pq::connection& on, pq::call one, bool alone = true) {
    std::vector<pq::call> calls;
    calls.push_back(std::move(one));
    return std::move(run_all(on, std::move(calls), alone).front());
  }
};

/// The same with one connection for what engines do.
struct engine_database : opened_database {
  pq::connection* engine = &connect();

  using opened_database::run;

  pq::rows run(pq::call one) {
    return run(*engine, std::move(one));
  }
};

} // namespace gd::test
