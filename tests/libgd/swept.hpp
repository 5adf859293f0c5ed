#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/sql.hpp>

#include <support/opened.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gd::test {

/// Sweeps, on a clock of the test: the real server answers their units, unless the test does.
struct swept_database : opened_database {
  using clock = database::clock;

  pq::connection* engine = &connect();
  config how;
  refused_rows refused;
  clock::time_point now{std::chrono::hours{100}};
  std::optional<clock::time_point> since = now - std::chrono::hours{1};
  std::vector<event> told;
  std::string woken; ///< queues
  std::vector<not_served_row> not_served;
  /// What fails, by statement, and how.
  std::map<std::string, error, std::less<>> failing;
  /// How long each unit takes.
  clock::duration takes{0};
  sweep_context here{
    .how = how,
    .incarnation = "a/0",
    .machines = std::make_shared<registry>(),
    .refused = refused,
    .wake =
      [this](const auto& queues) {
    for (const auto& x : queues)
      woken += x + ' ';
    },
    .tell_not_served = [this](not_served_row x) { not_served.push_back(x); },
    .leases = {how, [this] { return since; }},
    };

  swept_database() {
    how.on_event = [this](const event& x) { told.push_back(x); };
    how.reaper = std::chrono::seconds{30};
    how.heartbeat = std::chrono::seconds{20};
    how.lease = std::chrono::seconds{60};
    how.poll = std::chrono::seconds{1};
    how.jitter = 0;
  }

  void fail(std::string_view statement, errc code,
            const std::string& message = "by the test") {
    failing[std::string{statement}] = error{code, message, {}};
  }

  /// Its statements.
  static std::string names(const pq::unit& work) {
    std::string out;
    for (const auto& x : work.calls)
      out += std::string{x.what->name.substr(3)} + ' ';
    return out;
  }

  pq::reply answer(const pq::unit& work) {
    now += takes;
    for (const auto& x : work.calls)
      if (auto why = failing.find(x.what->name.substr(3)); why != failing.end())
        return {.results = {}, .failure = why->second};
    return engine->run(work);
  }

  /// A round of that one alone. Returns its statements, those of each unit up to a "| ", and
  /// "last" if the round was over by it.
  std::string round(sweep& x) {
    x.start(now);
    std::string out;
    pq::unit preparation{{}, false};
    x.prepare(preparation);
    if (!preparation.calls.empty()) {
      out += names(preparation) + "| ";
      x.prepared(answer(preparation), now);
    }
    auto what = x.begin(now);
    while (what.work) {
      out += names(*what.work) + "| ";
      auto reply = answer(*what.work);
      what = x.finish(reply, now);
    }
    return what.last ? out + "last" : out;
  }

  template <class Event>
  std::vector<Event> all() const {
    std::vector<Event> out;
    for (const auto& x : told)
      if (auto* found = std::get_if<Event>(&x))
        out.push_back(*found);
    return out;
  }

  /// So many, from id 1 on.
  void insert(int count) {
    db.rows("insert into gen_durable (fsm, step) select 'Probe', 'first' from "
            "generate_series(1, $1::int)",
            {std::to_string(count)});
  }

  /// An update of these says so.
  void refuse(const std::string& which) {
    db.rows("create function refuse() returns trigger language plpgsql as $$ "
            "begin raise exception 'not this one'; end $$; "
            "create trigger refuse before update on gen_durable for each row "
            "when ("
            + which + ") execute function refuse()");
  }

  /// Nobody is known to have locked a row, for long enough.
  void know_locks() {
    here.leases.probed({}, false, now);
    now += here.leases.pause(std::chrono::seconds{3}, now);
  }
};

} // namespace gd::test
