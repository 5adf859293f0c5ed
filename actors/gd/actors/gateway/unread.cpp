#include <gd/actors/gateway/unread.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

bool unread_answers::may_send(const caf::node_id& to, std::size_t bytes,
                              std::size_t most) const {
  auto found = readers_.find(to);
  if (found == readers_.end())
    return true;
  const auto& x = found->second;
  auto unread = x.unread + (x.sent - x.asked_at);
  return unread == 0 || unread + bytes <= most;
}

void unread_answers::sent(const caf::node_id& to, std::size_t bytes) {
  auto& x = readers_[to];
  x.sent += bytes;
  unread_ += bytes;
  ask(to, x);
}

void unread_answers::ask(const caf::node_id& of, reader& x) {
  if (std::exchange(x.asking, true))
    return;
  // What has been sent before is there before the question.
  ask_(of, x.sent);
}

caf::node_id unread_answers::told(const caf::node_id& of, std::uint64_t sent,
                                  std::size_t unread, std::size_t most) {
  auto found = readers_.find(of);
  if (found == readers_.end())
    return {};
  auto& x = found->second;
  x.asking = false;
  unread_ -= x.unread + (sent - x.asked_at);
  unread_ += unread;
  x.unread = unread;
  x.asked_at = sent;
  auto cut = one_too_many(most);
  if (x.sent != x.asked_at)
    ask(of, x);
  else if (x.unread == 0)
    readers_.erase(found);
  return cut;
}

caf::node_id unread_answers::one_too_many(std::size_t most) {
  if (unread_ <= 2 * most)
    return {};
  // By what was there when they were asked: those that read have nothing then, or little,
  // and all of it may be what has been sent since.
  auto worst = std::max_element(readers_.begin(), readers_.end(),
                                [](const auto& x, const auto& y) {
    return x.second.unread < y.second.unread;
  });
  if (worst == readers_.end() || worst->second.unread <= most / readers_.size())
    return {};
  unread_ -= std::exchange(worst->second.unread, 0);
  return worst->first;
}

bool unread_answers::has_to_ask() const {
  return std::any_of(readers_.begin(), readers_.end(), [](const auto& x) {
    return x.second.unread > 0 && !x.second.asking;
  });
}

void unread_answers::ask_all() {
  for (auto& [of, x] : readers_)
    ask(of, x);
}

} // namespace gd::actors
