#pragma once

#include <gd/config.hpp>
#include <gd/engine/intake/refused_rows.hpp>
#include <gd/engine/sweep/lease_guard.hpp>
#include <gd/event.hpp>
#include <gd/instance.hpp>
#include <gd/pq/complaints.hpp>
#include <gd/pq/database.hpp>
#include <gd/registry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

/// What sweeps know of their node, and what they share. The database refuses some of what
/// they do with rows: `said` has which of that is worth telling.
struct sweep_context {
  const config& how;
  std::string incarnation;
  std::shared_ptr<const registry> machines;
  refused_rows& refused;
  /// There may be rows to pick in these queues.
  std::function<void(const std::vector<std::string>&)> wake;
  std::function<void(not_served_row)> tell_not_served;
  lease_guard leases;
  complaints said{};

  void tell(const event& what) const {
    how.on_event(what);
  }

  /// The same in the queues of these rows.
  template <class Row>
  void wake_queues_of(const std::vector<Row>& rows) const {
    std::set<std::string> queues;
    for (const auto& x : rows)
      queues.insert(x.queue);
    wake({queues.begin(), queues.end()});
  }

  /// The database has refused what the sweep of that title does with a row.
  void refuse(std::string_view title, std::int64_t id, const error& why,
              database::clock::time_point now) {
    refused.note(id, title, why, now);
    auto times = said.note(std::string{title} + ": " + why.message, now);
    if (times > 0)
      tell(events::row_refused{title, id, without_data(why), times});
  }
};

/// What is looked for in the table again and again, and done about it, unit by unit. A plain
/// state machine with one unit under way at a time; a `sweep_round` drives it.
class sweep {
public:
  using clock = database::clock;
  using milliseconds = std::chrono::milliseconds;

  /// How long what it writes waits for a stranger who has locked that.
  static constexpr milliseconds stranger_wait{10};

  /// A unit to be sent, or none: it has ended, and with `last` the round has, too, with
  /// sweeps that stand behind it.
  struct next {
    std::optional<pq::unit> work{};
    bool last = false;
  };

  /// `title`: what events call it, or the round that it is part of.
  sweep(sweep_context& here, std::string_view title)
    : here_(here), title_(title) {
    // nop
  }

  sweep(const sweep&) = delete;
  sweep& operator=(const sweep&) = delete;
  virtual ~sweep() = default;

  std::string_view title() const {
    return title_;
  }

  /// Whether it has found something in this round, of which there may soon be more.
  bool found() const {
    return found_;
  }

  /// Whether one node does it for all, if the configuration says so.
  virtual bool one_for_all() const {
    return false;
  }

  /// From the end of a round to the next, if the sweep is the first of it; what a round
  /// does one by one takes no longer.
  virtual milliseconds interval() const {
    return here_.how.reaper;
  }

  /// The round has ended: until the next one, which may be needed sooner than usual.
  virtual milliseconds pause(milliseconds usual, clock::time_point) {
    return usual;
  }

  /// The round begins.
  virtual void start(clock::time_point now) {
    began_ = now;
    found_ = false;
  }

  /// What those behind the first of a round ask in one transaction before they begin:
  /// adds its calls, and reads what has come of them.
  virtual void prepare(pq::unit&) {
  }
  virtual void prepared(const pq::reply&, clock::time_point) {
  }

  virtual next begin(clock::time_point) {
    return {};
  }

  /// What became of its unit, which may have failed; but not if the connection has, or
  /// may have: then the round has ended.
  virtual next finish(const pq::reply&, clock::time_point) {
    return {};
  }

  /// What it has seen before may not be so any more: a connection was lost, or another
  /// node sweeps.
  virtual void forget() {
  }

protected:
  bool in_time(clock::time_point now) const {
    return now - began_ < interval();
  }

  /// Adds to it what `at_` is the place of.
  void ask(pq::unit& to, pq::call what) {
    at_ = static_cast<std::size_t>(to.add(std::move(what)));
  }

  void tell_failed(const error& why) const {
    here_.tell(events::sweep_failed{title_, without_data(why)});
  }

  /// Nothing more comes of this round.
  next give_up(const error& why) const {
    tell_failed(why);
    return {.last = true};
  }

  sweep_context& here_;
  const std::string_view title_;
  std::size_t at_ = 0;
  clock::time_point began_{}; ///< the round
  bool found_ = false;
};

} // namespace gd
