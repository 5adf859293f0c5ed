#include <gd/engine/queue/trials.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace gd {

namespace {

/// Before notes that a stranger's lock, or a lost connection, has kept from being
/// made are tried again.
constexpr std::chrono::milliseconds note_again_after{100};

/// Of the same execution.
template <class T, class U>
bool is_same(const T& x, const U& y) {
  return x.id == y.id && x.token == y.token;
}

} // namespace

// -- the trial ----------------------------------------------------------------

void trials::note_begin(clock::time_point now) {
  trial_->now = stage::noting;
  note(*trial_->under, trial_->noted + 1, now);
  notes_.back().begins = true;
}

void trials::end_survived(clock::time_point now) {
  if (!trial_ || trial_->now != stage::running || now < trial_->until)
    return;
  // It may have waited for a thread.
  auto began = trial_->under->began();
  if (began != clock::time_point::min()
      && began + how_.heartbeat > trial_->until) {
    trial_->until = began + how_.heartbeat;
    return;
  }
  note(*trial_->under, trial_->noted, now);
  end();
}

bool trials::abandon(clock::time_point now) {
  if (!trial_)
    return false;
  bool was_noted = trial_->now != stage::waiting;
  if (was_noted)
    note(*trial_->under, trial_->noted, now);
  end();
  return was_noted;
}

// -- notes --------------------------------------------------------------------

void trials::note(const lease& of, std::int32_t count, clock::time_point now,
                  std::optional<std::string> worker) {
  std::erase_if(notes_, [&of](const auto& x) { return is_same(x, of); });
  notes_.push_back(
    {{of.id, of.token, count, std::move(worker)}, now + how_.lease});
}

trials::written trials::write_rest() {
  // Each row once in a statement: those behind wait for the next.
  std::set<std::int64_t> ids;
  auto behind = std::stable_partition(notes_.begin(), notes_.end(),
                                      [&ids](const auto& x) {
    return ids.insert(x.id).second;
  });
  sent_.assign(notes_.begin(), behind);
  notes_.erase(notes_.begin(), behind);
  written out{{sent_.begin(), sent_.end()}};
  for (const auto& x : sent_)
    if (x.begins)
      out.begins = x.id;
  return out;
}

trials::outcome trials::finish(const std::vector<store::noted_row>& answers,
                               clock::time_point now) {
  std::map<std::int64_t, bool> fenced;
  for (const auto& x : answers)
    fenced.emplace(x.id, x.fenced);
  auto out = outcome::none;
  for (auto& x : std::exchange(sent_, {})) {
    auto found = fenced.find(x.id);
    bool answered = found != fenced.end();
    if (trial_ && trial_->now == stage::noting && is_same(x, *trial_->under)) {
      out = !answered       ? outcome::unknown
            : found->second ? outcome::noted
                            : outcome::lost;
    } else if (!answered && now < x.until) {
      not_before_ = now + note_again_after;
      // Unless there is a newer one.
      if (std::none_of(notes_.begin(), notes_.end(),
                       [&x](const auto& y) { return is_same(x, y); }))
        notes_.push_back(std::move(x));
    }
  }
  if (out == outcome::noted) {
    trial_->now = stage::running;
    trial_->until = now + how_.heartbeat;
  } else if (out == outcome::lost) {
    end();
  } else if (out == outcome::unknown) {
    // The process does not stand still for that.
    note(*trial_->under, trial_->noted, now);
    end();
  }
  return out;
}

trials::clock::time_point trials::due() const {
  auto at = begins_at();
  if (trial_)
    at = std::min(at, trial_->until);
  if (!notes_.empty() && sent_.empty())
    at = std::min(at, not_before_);
  return at;
}

} // namespace gd
