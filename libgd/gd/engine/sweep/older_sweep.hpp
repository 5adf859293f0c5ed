#pragma once

#include <gd/engine/step/upgrade.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Instances that are runnable, and of a version that nobody serves, come to the version of
/// this node that asks for them (`machine_builder::from`), in pages. What cannot is failed, as
/// an instance whose state is not its machine's. Where the database refuses a page, each row
/// is tried alone, and those that it refuses are left out for a minute.
class older_sweep final : public sweep {
public:
  older_sweep(sweep_context& here, std::string_view title)
    : sweep(here, title) {
    for (const auto& x : here.how.queues)
      queues_.push_back(x.name);
  }

  /// Whether a machine asks for any.
  bool needed() const {
    return !changes().empty();
  }

  milliseconds interval() const override {
    return here_.how.poll;
  }

  next begin(clock::time_point now) override {
    to_try_.clear();
    under_way_.clear();
    return page(now);
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (std::exchange(probing_, false))
      return reply.ok()
               ? judge(store::read<store::older_row>(reply.results.front()))
               : give_up(*reply.failure);
    auto tried = std::exchange(under_way_, {});
    if (reply.ok())
      read_changed(tried, reply);
    else if (tried.size() > 1) // for one of them, maybe
      to_try_ = std::move(tried);
    else
      leave_out(tried.front().row.id, *reply.failure, now);
    if (!to_try_.empty() && in_time(now)) {
      auto last = std::move(to_try_.back());
      to_try_.pop_back();
      return change({std::move(last)});
    }
    bool changed = std::exchange(changed_, false);
    bool left_out = std::exchange(left_out_now_, false);
    if (!changed
        && !left_out) // all of them have moved, or are held by strangers
      return {};
    if (changed) {
      found_ = true;
      here_.wake(queues_);
    }
    return in_time(now) ? page(now) : next{};
  }

private:
  /// Of states that are read at a time; one may be longer.
  static constexpr std::int64_t bytes = 4 << 20;

  /// For so long, what the database refuses is left out: so many rows, the latest.
  static constexpr std::chrono::minutes leave_out_for{1};
  static constexpr std::size_t most_left_out = 1'000;

  /// What is to become of a row that was shown.
  struct change_of_row {
    store::brought_row row{};
    /// It does not come along, and fails.
    std::string fault{};
    std::string place{};
  };

  /// Less those to machines that have been withdrawn.
  std::vector<version_change> changes() const {
    auto all = here_.machines->upgrades();
    std::erase_if(all, [](const auto& x) { return !x.at_pick; });
    return all;
  }

  next page(clock::time_point now) {
    auto asked = changes();
    probing_ = !asked.empty();
    if (!probing_)
      return {};
    while (!left_out_.empty() && left_out_.front().until <= now)
      left_out_.pop_front();
    std::vector<std::int64_t> without;
    for (const auto& x : left_out_)
      without.push_back(x.id);
    return {
      pq::unit{{store::older_page(asked, queues_, bytes, without)}, false}};
  }

  next change(std::vector<change_of_row> rows) {
    std::vector<store::brought_row> fit;
    for (const auto& x : rows)
      if (x.fault.empty())
        fit.push_back(x.row);
    auto node = here_.incarnation.substr(0, here_.incarnation.rfind('/'));
    pq::unit work{{store::bring_older(fit, node)}};
    for (const auto& x : rows)
      if (!x.fault.empty())
        work.add(store::fail_row({x.row.id, x.place},
                                 clean_text(x.fault, limits{}.reason)));
    under_way_ = std::move(rows);
    return {std::move(work)};
  }

  void read_changed(const std::vector<change_of_row>& rows,
                    const pq::reply& reply) {
    for (const auto& x : store::read<store::brought>(reply.results.front()))
      changed_ = changed_ || x.answer == "done";
    std::size_t at = 0;
    for (const auto& x : rows) {
      if (x.fault.empty())
        continue;
      auto row = store::read_one<store::failed_row>(reply.results[++at]);
      if (!row || !row->failed)
        continue; // it has changed
      changed_ = true;
      here_.tell(events::row_unusable{x.row.id, {errc::codec, x.fault, {}}});
    }
  }

  void leave_out(std::int64_t id, const error& why, clock::time_point now) {
    left_out_now_ = true;
    left_out_.push_back({id, now + leave_out_for});
    if (left_out_.size() > most_left_out)
      left_out_.pop_front();
    if (why.code != errc::busy)
      here_.refuse(title_, id, why, now);
  }

  /// Where a step runs, it runs there, too.
  std::string fault_of(const upgrade_check& x, const store::older_row& row,
                       const machine& to) const {
    if (!x.fault.empty() || !to.find_step(x.step)->rests)
      return x.fault;
    return "step: instance " + std::to_string(row.id) + ": expected a step of "
           + to.title() + " that runs, got " + x.step;
  }

  next judge(const std::vector<store::older_row>& rows) {
    std::vector<change_of_row> all;
    for (const auto& x : rows) {
      auto to = here_.machines->find(x.fsm, x.to_version);
      if (!to)
        continue;
      auto checked = check_upgrade(*here_.machines, here_.how.limits, x);
      auto fault = fault_of(checked, x, *to);
      all.push_back(
        {{x.id, x.seq, x.to_version, std::move(checked.step),
          fault.empty() ? checked.state.value_or(x.state.value_or("")) : ""},
         std::move(fault),
         x.place});
    }
    return all.empty() ? next{} : change(std::move(all));
  }

  struct left_out_row {
    std::int64_t id = 0;
    clock::time_point until{};
  };

  std::vector<std::string> queues_;
  std::vector<change_of_row> under_way_;
  std::vector<change_of_row> to_try_; ///< one by one
  std::deque<left_out_row> left_out_; ///< those that come back first, first
  bool changed_ = false;
  bool left_out_now_ = false;
  bool probing_ = false;
};

} // namespace gd
