#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/ends.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gd {

/// Deletes instances whose time is over: one node for all, whatever the configuration says
/// of other sweeps.
class expiry_sweep final : public sweep {
public:
  using sweep::sweep;

  milliseconds interval() const override {
    // Where some were deleted there are soon more.
    return found_ ? here_.how.poll : here_.how.reaper;
  }

  next begin(clock::time_point) override {
    pages_ = 0;
    to_erase_.clear();
    return find_expired();
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (under_way_ == stage::erase)
      return reply.ok() ? read_erased(reply, now)
                        : not_erased(*reply.failure, now);
    if (under_way_ == stage::probe)
      return reply.ok() ? read_page(reply, now) : give_up(*reply.failure);
    if (!reply.ok())
      tell_failed(*reply.failure);
    return erase_next(now);
  }

private:
  /// Instances that are deleted together, and how many such pages at once.
  static constexpr std::int32_t rows = 1'000;
  static constexpr std::int32_t most_pages = 20;

  enum class stage : std::uint8_t {
    probe,   ///< whose time is over, if this node looks for them
    erase,   ///< some of these
    put_off, ///< those of them that cannot be deleted
  };

  next send(stage what, pq::unit work) {
    under_way_ = what;
    return {std::move(work)};
  }

  next find_expired() {
    return send(
      stage::probe,
      {{store::sweep_lock("expiry"), store::expired(rows, page_)}, false});
  }

  next read_page(const pq::reply& reply, clock::time_point now) {
    if (!reply.results.front().boolean(0, 0))
      return {};
    auto page = store::read<store::expired_row>(reply.results.back());
    more_ = page.size() >= static_cast<std::size_t>(rows);
    page_ = more_ ? page.back() : store::page_end{};
    if (!page.empty()) {
      auto& group = to_erase_.emplace_back();
      for (const auto& x : page)
        group.push_back(x.id);
    }
    return erase_next(now);
  }

  next erase_next(clock::time_point now) {
    // A stranger may have locked a signal of theirs.
    if (in_time(now) && !to_erase_.empty())
      return send(stage::erase, {{store::lock_timeout(stranger_wait),
                                  store::erase(to_erase_.back())}});
    if (in_time(now) && more_ && ++pages_ < most_pages)
      return find_expired();
    auto did = std::exchange(deleted_, {});
    found_ = did.deleted + did.put_off > 0;
    if (found_)
      here_.tell(did);
    return {};
  }

  next read_erased(const pq::reply& reply, clock::time_point now) {
    to_erase_.pop_back();
    auto did = store::read_one<store::erased_row>(reply.results.back())
                 .value_or(store::erased_row{});
    deleted_.deleted += static_cast<std::size_t>(did.erased);
    return did.kept.empty() ? erase_next(now) : put_off(did.kept);
  }

  next not_erased(const error& why, clock::time_point now) {
    // Something refers to one of them: that is told in the end.
    if (why.code != errc::busy && why.code != errc::rejected)
      tell_failed(why);
    auto guilty = std::move(to_erase_.back());
    to_erase_.pop_back();
    if (guilty.size() > 1) {
      store::push_halves(to_erase_, guilty);
      return erase_next(now);
    }
    if (why.code != errc::busy)
      here_.refuse(title_, guilty.front(), why, now);
    return put_off(guilty);
  }

  next put_off(const std::vector<std::int64_t>& ids) {
    deleted_.put_off += ids.size();
    return send(stage::put_off, {{store::put_off(ids)}, false});
  }

  stage under_way_ = stage::probe;
  /// Where the last page ended, how many pages of this round there were, whether there may
  /// be more, and who of it is still to be deleted, in groups.
  store::page_end page_{};
  std::int32_t pages_ = 0;
  bool more_ = false;
  std::vector<std::vector<std::int64_t>> to_erase_;
  events::instances_deleted deleted_{};
};

} // namespace gd
