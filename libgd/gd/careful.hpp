#pragma once

#include <gd/database.hpp>
#include <gd/store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// How a queue goes on after a pick that failed for what one of its rows holds:
/// asks which rows a pick would try, and picks those in halves until the guilty ones
/// stand alone. These are failed, if they are fewer than those that could be picked;
/// if not, or if they cannot even be failed, it may be for something else (a trigger
/// or a constraint of somebody's that refuses them all), and they are left out for
/// a while. Picks stay careful for as long. A plain state machine, as the turn whose
/// part it is.
class careful_picks {
public:
  using clock = database::clock;

  enum class step : std::uint8_t {
    none,
    ask,   ///< which rows a pick would try
    these, ///< pick `group()`
    fail,  ///< fail `guilty()`
  };

  struct accused {
    store::candidate row{};
    error why{};
    /// It cannot be failed, or is not to be: picks pass it over.
    bool left_out = false;
  };

  /// Whether an error of a pick, or of showing rows, may be for what one of them
  /// holds: the server refuses data (22, 23, 54, P0), cannot read it (XX), runs out
  /// of memory, or of the statement's time.
  static bool may_be_of_a_row(const error& why) {
    return is_of_the_row(why) || why.sqlstate == "57014"
           || why.sqlstate == "53200";
  }

  /// The same of a row that stood alone: nothing but its data remains.
  static bool is_of_the_row(const error& why) {
    return why.code == errc::rejected || why.sqlstate.starts_with("XX");
  }

  bool active() const noexcept {
    return active_;
  }

  void start() {
    active_ = true;
  }

  /// What is next.
  step next(clock::time_point now) {
    std::erase_if(left_out_, [now](const auto& x) { return x.second <= now; });
    if (!active_ || under_way_)
      return step::none;
    if (!groups_.empty())
      return step::these;
    return accused_.empty() ? step::ask : step::fail;
  }

  /// There is something to do, whether rows are wanted or not.
  bool in_the_middle() const noexcept {
    return active_ && !under_way_ && (!groups_.empty() || !accused_.empty());
  }

  void begin() {
    under_way_ = true;
  }

  std::vector<std::int64_t> group() const {
    std::vector<std::int64_t> ids;
    for (const auto& x : groups_.back())
      ids.push_back(x.id);
    return ids;
  }

  const accused& guilty() const {
    return accused_.back();
  }

  void asked(std::vector<store::candidate> found) {
    under_way_ = false;
    picked_ = 0;
    std::erase_if(found,
                  [this](const auto& x) { return left_out_.contains(x.id); });
    if (!found.empty())
      groups_.push_back(std::move(found));
    end_if_done();
  }

  /// So many of `group()` are picked; others have the rest, or have locked it.
  /// Returns those that are left out now, as the next one does.
  std::vector<accused> picked(std::size_t count, clock::time_point now) {
    under_way_ = false;
    picked_ += count;
    groups_.pop_back();
    return judge(now);
  }

  /// It is not, for what one of its rows holds.
  std::vector<accused> not_picked(const error& why, clock::time_point now) {
    under_way_ = false;
    auto group = std::move(groups_.back());
    groups_.pop_back();
    if (group.size() > 1) {
      auto middle = group.begin()
                    + static_cast<std::ptrdiff_t>(group.size() / 2);
      groups_.emplace_back(middle, group.end());
      group.erase(middle, group.end());
      groups_.push_back(std::move(group));
      return {};
    }
    accused_.push_back({std::move(group.front()), why});
    if (!is_of_the_row(why))
      return {leave_out(now)};
    return judge(now);
  }

  /// `guilty()` is failed, or has changed.
  void failed() {
    under_way_ = false;
    accused_.pop_back();
    end_if_done();
  }

  /// It cannot be.
  accused not_failed(clock::time_point now) {
    under_way_ = false;
    return leave_out(now);
  }

  /// The attempt under way tells nothing of any row.
  void again() {
    under_way_ = false;
  }

private:
  static constexpr std::chrono::seconds leave_out_for{60};

  void end_if_done() {
    active_ = !groups_.empty() || !accused_.empty() || !left_out_.empty();
  }

  /// When all have been tried.
  std::vector<accused> judge(clock::time_point now) {
    std::vector<accused> out;
    if (groups_.empty() && accused_.size() > picked_)
      while (!accused_.empty())
        out.push_back(leave_out(now));
    end_if_done();
    return out;
  }

  accused leave_out(clock::time_point now) {
    auto out = std::move(accused_.back());
    accused_.pop_back();
    left_out_[out.row.id] = now + leave_out_for;
    out.left_out = true;
    return out;
  }

  bool active_ = false;
  bool under_way_ = false;
  /// To be picked, the last one first.
  std::vector<std::vector<store::candidate>> groups_;
  /// Could not be picked alone.
  std::vector<accused> accused_;
  /// Of the rows that were told last, so many were picked.
  std::size_t picked_ = 0;
  /// By id, until when.
  std::map<std::int64_t, clock::time_point> left_out_;
};

} // namespace gd
