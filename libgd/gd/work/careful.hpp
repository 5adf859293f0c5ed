#pragma once

#include <gd/event.hpp>
#include <gd/pq/database.hpp>
#include <gd/pq/store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// How a queue goes on after a pick that failed for what one of its rows holds:
/// asks which rows a pick would take, and picks those in halves until the guilty ones
/// stand alone. These are failed, if others could be picked meanwhile, and no fewer;
/// if not, or if they cannot even be failed, it may be for something else (a trigger
/// or a constraint of somebody's that refuses them all), and they are left out for
/// a while: picks pass them over. A plain state machine, as the turn whose part it is.
class careful_picks {
public:
  using clock = database::clock;
  using fate = events::row_unusable::fate;

  enum class step : std::uint8_t {
    none,
    ask,   ///< which rows a pick would take
    these, ///< pick `group()`
    fail,  ///< fail `guilty()`
  };

  struct accused {
    store::candidate row{};
    error why{};
    fate what = fate::failed;
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
  step next() const noexcept {
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

  /// All that was asked for has been tried, and nothing has come of it.
  bool in_vain() const noexcept {
    return !active_ && picked_ == 0 && failed_ == 0;
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

  /// Those that picks are to pass over.
  std::vector<std::int64_t> left_out(clock::time_point now) {
    std::erase_if(left_out_, [now](const auto& x) {
      return x.second.until + remember_for <= now;
    });
    std::vector<std::int64_t> ids;
    for (const auto& [id, x] : left_out_)
      if (x.until > now)
        ids.push_back(id);
    return ids;
  }

  /// Nothing, if it could not be told.
  void asked(std::vector<store::candidate> found) {
    under_way_ = false;
    picked_ = 0;
    failed_ = 0;
    if (!found.empty())
      groups_.push_back(std::move(found));
    end_if_done();
  }

  /// So many were, by a pick like any other.
  void note_picked(std::size_t count) noexcept {
    ever_picked_ += count;
  }

  /// So many of `group()` are picked; others have the rest, or have locked it.
  /// Returns those that are left out now, as the next one does.
  std::vector<accused> picked(std::size_t count, clock::time_point now) {
    under_way_ = false;
    picked_ += count;
    note_picked(count);
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
    return judge(now);
  }

  /// `guilty()` is failed, or has changed.
  void failed() {
    under_way_ = false;
    ++failed_;
    accused_.pop_back();
    end_if_done();
  }

  /// It cannot be.
  accused not_failed(clock::time_point now) {
    under_way_ = false;
    auto out = std::move(accused_.back());
    accused_.pop_back();
    leave_out(out, fate::unfailing, now);
    end_if_done();
    return out;
  }

  /// The attempt under way tells nothing of any row.
  void again() {
    under_way_ = false;
  }

private:
  static constexpr std::chrono::minutes leave_out_for{1};
  /// When they are accused again by then, it is known that they were.
  static constexpr std::chrono::minutes remember_for{10};

  struct left_out_row {
    clock::time_point until;
    /// How many rows had been picked when it was left out.
    std::size_t ever_picked = 0;
  };

  void end_if_done() {
    active_ = !groups_.empty() || !accused_.empty();
  }

  /// When all have been tried. No fewer others than are accused were picked, now or
  /// since a row was left out: then it is the row.
  std::vector<accused> judge(clock::time_point now) {
    std::vector<accused> out;
    if (groups_.empty()) {
      auto count = accused_.size();
      auto innocent = [&](const accused& x) {
        if (!is_of_the_row(x.why))
          return true;
        auto before = left_out_.find(x.row.id);
        return !is_too_much(x.why) && count > picked_
               && (before == left_out_.end()
                   || count > ever_picked_ - before->second.ever_picked);
      };
      auto guilty = std::stable_partition(accused_.begin(), accused_.end(),
                                          innocent);
      out.assign(std::make_move_iterator(accused_.begin()),
                 std::make_move_iterator(guilty));
      accused_.erase(accused_.begin(), guilty);
      for (auto& x : out)
        leave_out(x, fate::left_out, now);
    }
    end_if_done();
    return out;
  }

  /// More than PostgreSQL can print or store: that is nobody else's fault. A stack
  /// that is too deep (54001) may be a trigger's.
  static bool is_too_much(const error& why) {
    return why.sqlstate.starts_with("54") && why.sqlstate != "54001";
  }

  void leave_out(accused& x, fate what, clock::time_point now) {
    x.what = what;
    left_out_[x.row.id] = {now + leave_out_for, ever_picked_};
  }

  bool active_ = false;
  bool under_way_ = false;
  /// To be picked, the last one first.
  std::vector<std::vector<store::candidate>> groups_;
  /// Could not be picked alone.
  std::vector<accused> accused_;
  /// Of the rows that were told last, so many were picked, and failed.
  std::size_t picked_ = 0;
  std::size_t failed_ = 0;
  std::size_t ever_picked_ = 0;
  std::map<std::int64_t, left_out_row> left_out_;
};

} // namespace gd
