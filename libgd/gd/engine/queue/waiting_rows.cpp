#include <gd/engine/queue/waiting_rows.hpp>

#include <gd/pq/ensure.hpp>

#include <algorithm>
#include <iterator>

namespace gd {

void waiting_rows::add(held_row_ptr row, reason why) {
  const auto& under = *row->under();
  came(*row);
  switch (why) {
    case reason::slot:
      prefetched_.push_back(std::move(row));
      return;
    case reason::content:
      unloaded_.emplace(std::pair{under.id, under.token}, std::move(row));
      return;
    case reason::trial:
      ensure(!trial_, "one row waits for its trial");
      trial_ = std::move(row);
      return;
    case reason::pick:
      ensure(false, "claimed rows say behind which pick they come");
  }
}

held_row_ptr waiting_rows::take(const store::unloaded_row& which) {
  auto found = unloaded_.extract({which.id, which.token});
  return found.empty() ? nullptr : gone(std::move(found.mapped()));
}

std::vector<waiting_rows::claimed> waiting_rows::end_pick(std::uint64_t ended,
                                                          bool has_backlog,
                                                          std::uint64_t next) {
  std::vector<claimed> out;
  for (auto& x : std::exchange(claimed_, {})) {
    x.too_early = has_backlog && ended <= x.behind;
    bool waits = !x.too_early && next <= x.behind;
    if (!waits)
      for (auto& row : x.rows)
        row = gone(std::move(row));
    (waits ? claimed_ : out).push_back(std::move(x));
  }
  return out;
}

std::vector<held_row_ptr> waiting_rows::take_last(std::size_t count) {
  std::vector<held_row_ptr> out;
  for (; out.size() < count && !unloaded_.empty();
       unloaded_.erase(std::prev(unloaded_.end())))
    out.push_back(gone(std::move(std::prev(unloaded_.end())->second)));
  for (; out.size() < count && !prefetched_.empty(); prefetched_.pop_back())
    out.push_back(gone(std::move(prefetched_.back())));
  return out;
}

std::vector<held_row_ptr> waiting_rows::take_picked(const lease_ptr& but) {
  std::vector<held_row_ptr> out;
  auto leaves = [&](const held_row_ptr& x) {
    if (x->under() == but)
      return false;
    out.push_back(gone(x));
    return true;
  };
  std::erase_if(prefetched_, leaves);
  std::erase_if(unloaded_, [&](const auto& x) { return leaves(x.second); });
  return out;
}

std::vector<held_row_ptr> waiting_rows::take_all() {
  auto out = take_picked(nullptr);
  for (auto& x : std::exchange(claimed_, {}))
    out.insert(out.end(), std::make_move_iterator(x.rows.begin()),
               std::make_move_iterator(x.rows.end()));
  if (auto row = take_trial())
    out.push_back(std::move(row));
  bytes_ = 0;
  return out;
}

std::size_t waiting_rows::count(reason why) const {
  switch (why) {
    case reason::slot:
      return prefetched_.size();
    case reason::content:
      return unloaded_.size();
    case reason::trial:
      return trial_ ? 1 : 0;
    case reason::pick:
      break;
  }
  std::size_t n = 0;
  for (const auto& x : claimed_)
    n += x.rows.size();
  return n;
}

} // namespace gd
