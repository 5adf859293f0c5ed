#pragma once

#include "support/database.hpp"

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/testing.hpp>

#include <caf/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace gd::test {

/// A migrated database of its own, with connections that work as an engine's do, clients
/// and engines of it.
struct opened_database {
  temporary_database db;
  std::vector<std::unique_ptr<pq::connection>> opened;

  opened_database() {
    db.migrate();
  }

  pq::connection& connect() {
    auto& made = opened.emplace_back(
      std::make_unique<pq::connection>(db.options()));
    CAF_REQUIRE(made->wait_ready());
    return *made;
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

} // namespace gd::test
