#include <gd/actors/queue/step_table.hpp>

#include <gd/pq/ensure.hpp>

#include <algorithm>

namespace gd::actors {

step_table::entry& step_table::add(std::uint64_t tag, row&& what,
                                   state begins) {
  auto [found, added] = rows_.try_emplace(tag, tag, std::move(what), begins);
  ensure(added, "a row's number is its own");
  auto& x = found->second;
  bytes_ += x.bytes;
  const auto* care = x.care();
  if (!x.at_worker() && (begins == state::queued || begins == state::running)) {
    x.slot_ = true;
    ++running_;
    if (care != nullptr && care->pooled)
      ++pooled_;
  }
  if (begins == state::running && care != nullptr)
    limits_.emplace(care->due, tag);
  return x;
}

step_table::entry* step_table::find(std::uint64_t tag) {
  auto found = rows_.find(tag);
  return found != rows_.end() ? &found->second : nullptr;
}

void step_table::begin(entry& x, clock::time_point at) {
  ensure(x.now_ == state::queued && x.care() != nullptr,
         "only what has waited begins");
  x.now_ = state::running;
  auto& care = *std::get<attended>(x.kind).care;
  care.due = at + care.limit;
  limits_.emplace(care.due, x.tag);
}

void step_table::leave_slot(entry& x) {
  ensure(x.slot_, "a slot is left by who has it");
  x.slot_ = false;
  --running_;
  if (const auto* care = x.care(); care != nullptr && care->pooled)
    --pooled_;
}

void step_table::report(entry& x, bool advances) {
  ensure(!x.has_outcome(), "a row has one outcome at a time");
  x.now_ = state::reported;
  x.advancing_ = advances;
  let_go(x);
  advancing_ += advances ? 1 : 0;
  lift_limit(x);
}

void step_table::refuse(entry& x) {
  ensure(x.now_ == state::reported, "what is refused was reported");
  x.now_ = state::refused;
  advancing_ -= std::exchange(x.advancing_, false) ? 1 : 0;
}

void step_table::complete(entry& x) {
  ensure(x.now_ != state::completed, "a row is completed once");
  x.now_ = state::completed;
  advancing_ -= std::exchange(x.advancing_, false) ? 1 : 0;
  let_go(x);
  lift_limit(x);
}

void step_table::lift_limit(const entry& x) {
  if (const auto* care = x.care())
    limits_.erase({care->due, x.tag});
}

step_table::row step_table::take_queued(std::uint64_t tag) {
  auto found = rows_.find(tag);
  ensure(
    found != rows_.end()
      && (found->second.now_ == state::queued || found->second.at_worker()),
    "what leaves the runners unrun was queued");
  if (!found->second.at_worker())
    leave_slot(found->second);
  let_go(found->second);
  row x = std::move(found->second);
  rows_.erase(found);
  return x;
}

bool step_table::forget(entry& x, std::optional<store::key_hold>& key) {
  if (x.now_ != state::completed || !x.is_down())
    return false;
  key = std::move(x.key);
  rows_.erase(x.tag);
  return true;
}

std::vector<step_table::entry*> step_table::late(clock::time_point now) {
  std::vector<entry*> out;
  while (!limits_.empty() && limits_.begin()->first <= now) {
    auto* x = find(limits_.begin()->second);
    ensure(x != nullptr && x->now_ == state::running,
           "what has a time limit is running");
    limits_.erase(limits_.begin());
    out.push_back(x);
  }
  return out;
}

std::int32_t step_table::running_since(clock::time_point at) const {
  return static_cast<std::int32_t>(std::count_if(rows_.begin(), rows_.end(),
                                                 [at](const auto& found) {
    const auto& x = found.second;
    return x.slot_ && x.under->began() != clock::time_point::min()
           && x.under->began() <= at;
  }));
}

step_table::clock::time_point step_table::rests_at(clock::duration age) const {
  auto at = clock::time_point::min();
  for (const auto& [tag, x] : rows_) {
    bool runs = x.slot_ || (x.at_worker() && !x.has_outcome());
    if (runs && x.under->began() != clock::time_point::min())
      at = std::max(at, x.under->began() + age);
    else if (runs || x.now_ != state::completed)
      return clock::time_point::max();
  }
  return at;
}

std::size_t step_table::unfinished() const {
  return static_cast<std::size_t>(std::count_if(rows_.begin(), rows_.end(),
                                                [](const auto& found) {
    const auto& x = found.second;
    return x.slot_ || (x.now_ != state::completed && (x.what || x.at_worker()));
  }));
}

} // namespace gd::actors
