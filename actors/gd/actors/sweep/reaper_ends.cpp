#include <gd/actors/sweep/reaper.hpp>

#include <gd/store/ends.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Instances that are deleted together, and how many such pages at once; and how long
/// each waits for strangers who have locked a signal of theirs.
constexpr std::int32_t erased_rows = 1'000;
constexpr std::int32_t erased_pages = 20;
constexpr milliseconds erase_wait{10};
/// The sweep that one node does for all, whatever the configuration says of the others.
constexpr std::string_view expiry = "expiry";

} // namespace

// -- what has ended -----------------------------------------------------------

void reaper_actor::look_for_expired() {
  send(sweep::expired, stage::expired,
       {{store::sweep_lock(expiry), store::expired(erased_rows, expired_to_)},
        false});
}

void reaper_actor::read_expired(const pq::reply& reply) {
  if (!reply.results.front().boolean(0, 0))
    return pause(sweep::expired);
  auto page = store::read<store::expired_row>(reply.results.back());
  more_expired_ = page.size() >= static_cast<std::size_t>(erased_rows);
  expired_to_ = more_expired_ ? page.back() : store::page_end{};
  if (!page.empty()) {
    auto& ids = to_erase_.emplace_back();
    for (const auto& x : page)
      ids.push_back(x.id);
  }
  erase_next();
}

void reaper_actor::erase_next() {
  bool goes_on = in_time(sweep::expired);
  if (!to_erase_.empty() && goes_on)
    return send(
      sweep::expired, stage::erase,
      {{store::lock_timeout(erase_wait), store::erase(to_erase_.back())}});
  if (to_erase_.empty() && more_expired_ && goes_on
      && ++expired_pages_ < erased_pages)
    return look_for_expired();
  to_erase_.clear();
  auto did = std::exchange(deleted_, {});
  of(sweep::expired).found = did.deleted + did.put_off > 0;
  if (of(sweep::expired).found)
    home_->tell(did);
  pause(sweep::expired);
}

void reaper_actor::read_erased(const pq::reply& reply) {
  to_erase_.pop_back();
  auto did = store::read_one<store::erased_row>(reply.results.back())
               .value_or(store::erased_row{});
  deleted_.deleted += static_cast<std::size_t>(did.erased);
  if (!did.kept.empty())
    return put_off(did.kept);
  erase_next();
}

void reaper_actor::put_off(const std::vector<std::int64_t>& ids) {
  deleted_.put_off += ids.size();
  send(sweep::expired, stage::put_off, {{store::put_off(ids)}, false});
}

} // namespace gd::actors
