#pragma once

#include <gd/engine/step/upgrade.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Instances that are runnable, and of a version that nobody serves, come to the version of
/// this node that asks for them (`machine_builder::from`), in pages. What cannot is failed, as
/// an instance whose state is not its machine's.
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

  next begin(clock::time_point) override {
    return page();
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (!reply.ok())
      return give_up(*reply.failure);
    if (std::exchange(looking_, false))
      return judge(store::read<store::older_row>(reply.results.front()));
    bool moved = tell_failed_rows(reply);
    for (const auto& x : store::read<store::brought>(reply.results.front()))
      moved = moved || x.answer == "done";
    if (!moved) // all of them have moved, or are held by strangers
      return {};
    found_ = true;
    here_.wake(queues_);
    return in_time(now) ? page() : next{};
  }

private:
  /// Of states that are read at a time; one may be longer.
  static constexpr std::int64_t bytes = 4 << 20;

  struct undecodable_row {
    std::int64_t id = 0;
    error why{};
  };

  /// Less those to machines that have been withdrawn.
  std::vector<version_change> changes() const {
    auto all = here_.machines->upgrades();
    std::erase_if(all, [](const auto& x) { return !x.at_pick; });
    return all;
  }

  next page() {
    auto asked = changes();
    looking_ = !asked.empty();
    if (!looking_)
      return {};
    return {pq::unit{{store::older_page(asked, queues_, bytes)}, false}};
  }

  /// Whether there are any.
  bool tell_failed_rows(const pq::reply& reply) const {
    bool any = false;
    for (std::size_t i = 0; i < failed_.size(); ++i) {
      auto row = store::read_one<store::failed_row>(reply.results[i + 1]);
      if (!row || !row->failed)
        continue; // it has changed
      any = true;
      here_.tell(events::row_unusable{failed_[i].id, failed_[i].why});
    }
    return any;
  }

  /// Where a step runs, it runs there, too.
  std::string fault_of(const upgrade_verdict& x, const store::older_row& row,
                       const machine& to) const {
    if (!x.fault.empty() || !to.find_step(x.step)->rests)
      return x.fault;
    return "step: instance " + std::to_string(row.id) + ": expected a step of "
           + to.title() + " that runs, got " + x.step;
  }

  next judge(const std::vector<store::older_row>& rows) {
    failed_.clear();
    std::vector<store::brought_row> fit;
    std::vector<pq::call> fail;
    for (const auto& x : rows) {
      auto to = here_.machines->find(x.fsm, x.to_version);
      if (!to)
        continue;
      auto verdict = judge_upgrade(*here_.machines, here_.how.limits, x);
      auto fault = fault_of(verdict, x, *to);
      if (fault.empty()) {
        fit.push_back({x.id, x.seq, x.to_version, std::move(verdict.step),
                       verdict.state.value_or(x.state.value_or(""))});
        continue;
      }
      fail.push_back(
        store::fail_row({x.id, x.place}, clean_text(fault, limits{}.reason)));
      failed_.push_back({x.id, {errc::codec, std::move(fault), {}}});
    }
    if (fit.empty() && fail.empty())
      return {};
    auto node = here_.incarnation.substr(0, here_.incarnation.rfind('/'));
    pq::unit work{{store::bring_older(fit, node)}};
    for (auto& x : fail)
      work.add(std::move(x));
    return {std::move(work)};
  }

  std::vector<std::string> queues_;
  std::vector<undecodable_row> failed_;
  bool looking_ = false;
};

} // namespace gd
