#pragma once

#include <gd/event.hpp>
#include <gd/log.hpp>

#include <libpq-fe.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>

/// Writes a row for each step start, so that tools/demo can count how often a
/// step was executed. Stands for what steps do to the world: it is committed at
/// once, and a crash of the process does not undo it.
class effect_log {
public:
  explicit effect_log(const std::string& database)
    : connection_(PQconnectdb(database.c_str()), PQfinish) {
    // nop
  }

  void write(const gd::events::step_started& what) {
    std::lock_guard guard{mutex_};
    auto id = std::to_string(what.id);
    auto attempt = std::to_string(what.attempt);
    std::array values{id.c_str(), what.step.c_str(), attempt.c_str(),
                      what.token.c_str()};
    std::unique_ptr<PGresult, decltype(&PQclear)> done{
      PQexecParams(connection_.get(),
                   "insert into demo_effects (instance, step, attempt, token) "
                   "values ($1, $2, $3, $4)",
                   4, nullptr, values.data(), nullptr, nullptr, 0),
      PQclear};
    if (PQresultStatus(done.get()) != PGRES_COMMAND_OK)
      gd::write_to_stderr(std::string{"effects: "}
                          + PQerrorMessage(connection_.get()));
  }

private:
  std::mutex mutex_;
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};
