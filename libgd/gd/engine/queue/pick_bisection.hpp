#pragma once

#include <gd/event.hpp>
#include <gd/pq/database.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd {

/// How a queue goes on after a pick that failed for what one of its rows holds:
/// asks which rows a pick would take, and picks those in groups, of half as many after
/// one that failed and of twice as many after one that did not, until the guilty ones
/// stand alone. These are failed, if others could be picked meanwhile, and no fewer;
/// if not, or if they cannot even be failed, it may be for something else (a trigger
/// or a constraint of somebody's that refuses them all), and they are left out for
/// a while: picks pass them over. As long as nothing but such rows is found, it asks
/// at once for more. A plain state machine, as the turn whose part it is.
class pick_bisection {
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
    /// What it was to run, if it is failed.
    events::step_run run{};
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
    most_at_once_ = std::numeric_limits<std::size_t>::max();
    ask_for_ = 0;
    left_out_since_ = 0;
  }

  /// What is next.
  step next() const noexcept {
    if (!active_ || under_way_)
      return step::none;
    if (!to_try_.empty())
      return step::these;
    return accused_.empty() ? step::ask : step::fail;
  }

  /// There is something to do, whether rows are wanted or not.
  bool in_the_middle() const noexcept {
    return active_ && !under_way_ && (!to_try_.empty() || !accused_.empty());
  }

  /// All that was asked for has been tried, and nothing has come of it: the next
  /// attempt would be the same.
  bool in_vain() const noexcept {
    return !active_ && picked_ == 0 && failed_ == 0 && left_out_since_ == 0;
  }

  void begin() {
    under_way_ = true;
  }

  /// How many rows to ask for: no more than `want` of them are picked, but there may
  /// be many in front that cannot be, and `most` are tried.
  std::size_t ask(std::size_t want, std::size_t most) {
    want_ = want;
    ask_for_ = std::min(std::max(want, ask_for_), most);
    return ask_for_;
  }

  std::vector<std::int64_t> group() const {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < group_size(); ++i)
      ids.push_back(to_try_[i].id);
    return ids;
  }

  const accused& guilty() const {
    return accused_.back();
  }

  /// Those that picks are to pass over.
  const std::vector<std::int64_t>& left_out(clock::time_point now) {
    if (now >= look_at_)
      let_back(now);
    return ids_left_out_;
  }

  /// Nothing, if it could not be told.
  void asked(std::vector<store::candidate> found) {
    under_way_ = false;
    picked_ = 0;
    failed_ = 0;
    left_out_now_ = 0;
    to_try_.assign(std::make_move_iterator(found.begin()),
                   std::make_move_iterator(found.end()));
    end_if_done();
  }

  /// These were, by whatever pick.
  void note_picked(const std::vector<store::picked_row>& rows) {
    ever_picked_ += rows.size();
    if (left_out_.empty())
      return;
    std::size_t back = 0;
    for (const auto& x : rows)
      back += left_out_.erase(x.id);
    if (back == 0)
      return;
    // What refused it may have gone: those that it refused as well come back, and the
    // more of them the more are picked.
    back_at_once_ = std::min(2 * back_at_once_, most_left_out);
    for (auto& [id, x] : left_out_)
      if (x.out)
        x.until = clock::time_point::min();
    look_at_ = let_back_at_ = clock::time_point::min();
  }

  /// What of `group()` is picked; others have the rest, or have locked it, or refuse
  /// its update without an error. Returns those that are left out now, as the next one
  /// does.
  std::vector<accused> picked(const store::pick_answer& answer,
                              clock::time_point now) {
    if (answer.refused() > 0 && answer.rows.empty())
      return not_picked({errc::rejected, no_update, {}}, now);
    under_way_ = false;
    auto n = group_size();
    auto end = to_try_.begin() + static_cast<std::ptrdiff_t>(n);
    to_try_.erase(std::remove_if(
                    to_try_.begin(), end,
                    [&answer](const store::candidate& x) {
      return answer.refused() == 0 || answer.has(x.id);
                    }),
                  end);
    most_at_once_ = answer.refused() == 0 ? 2 * n
                                          : std::max<std::size_t>(n / 2, 1);
    picked_ += answer.rows.size();
    note_picked(answer.rows);
    if (picked_ >= want_)
      to_try_.clear();
    return judge(now);
  }

  /// It is not, for what one of its rows holds.
  std::vector<accused> not_picked(const error& why, clock::time_point now) {
    under_way_ = false;
    auto n = group_size();
    most_at_once_ = std::max<std::size_t>(n / 2, 1);
    if (n > 1)
      return {};
    accused_.push_back({std::move(to_try_.front()), why});
    to_try_.pop_front();
    return judge(now);
  }

  /// `guilty()`, which is returned, is failed, or has changed.
  accused failed() {
    under_way_ = false;
    ++failed_;
    auto out = std::move(accused_.back());
    accused_.pop_back();
    end_if_done();
    return out;
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

  /// It seems that nobody can update such rows.
  static constexpr auto* no_update
    = "an update of it does nothing: a trigger lets none through";

  /// The attempt under way tells nothing of any row.
  void again() {
    under_way_ = false;
  }

private:
  static constexpr std::chrono::minutes leave_out_for{1};
  /// When they are accused again by then, it is known that they were. Nothing is left
  /// out for longer.
  static constexpr std::chrono::minutes remember_for{10};
  /// So many are known at the most. 12 bytes for each go with a pick, which hashes them.
  static constexpr std::size_t most_left_out = 100'000;
  /// So many of those that were left out come back, a second later the next: it takes a
  /// transaction or two until one of them is left out again.
  static constexpr std::size_t first_back = 50;

  struct left_out_row {
    clock::time_point until;
    clock::duration period = leave_out_for;
    /// How many rows had been picked when it was left out.
    std::size_t ever_picked = 0;
    /// Not yet back.
    bool out = true;
  };

  std::size_t group_size() const noexcept {
    return std::min({to_try_.size(), most_at_once_, want_ - picked_});
  }

  /// If no row could be picked, and some will not be found again, there is nothing to
  /// wait for. Without room for those, it begins with the first ones again.
  void end_if_done() {
    active_ = !to_try_.empty() || !accused_.empty();
    if (active_)
      return;
    forget_oldest();
    if (left_out_.size() >= most_left_out)
      left_out_since_ = 0;
    else
      active_ = picked_ == 0 && failed_ == 0 && left_out_now_ > 0;
    ask_for_ *= 2;
  }

  /// Of those that have been left out for long enough, the first ones.
  void let_back(clock::time_point now) {
    std::erase_if(left_out_, [now](const auto& x) {
      return !x.second.out && x.second.until + remember_for <= now;
    });
    std::vector<left_out_row*> due;
    for (auto& [id, x] : left_out_)
      if (x.out && x.until <= now)
        due.push_back(&x);
    auto n = now < let_back_at_ ? 0 : std::min(due.size(), back_at_once_);
    auto end = due.begin() + static_cast<std::ptrdiff_t>(n);
    std::nth_element(due.begin(), end, due.end(),
                     [](const auto* a, const auto* b) {
      return a->until < b->until;
    });
    std::for_each(due.begin(), end, [now](auto* x) {
      x->out = false;
      x->until = now;
    });
    if (n > 0)
      let_back_at_ = now + std::chrono::seconds{1};
    look_at_ = clock::time_point::max();
    ids_left_out_.clear();
    for (const auto& [id, x] : left_out_)
      if (x.out) {
        ids_left_out_.push_back(id);
        look_at_ = std::min(look_at_, std::max(x.until, let_back_at_));
      }
  }

  /// When all have been tried. No fewer others than are accused were picked, now or
  /// since a row was left out: then it is the row.
  std::vector<accused> judge(clock::time_point now) {
    std::vector<accused> out;
    if (to_try_.empty()) {
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

  /// For longer than before, but for one: it will tell when what refuses them has gone.
  void leave_out(accused& x, fate what, clock::time_point now) {
    x.what = what;
    auto& row = left_out_[x.row.id];
    if (row.until != clock::time_point{}) {
      back_at_once_ = first_back;
      if (!left_out_.contains(scout_))
        scout_ = x.row.id;
      row.period = scout_ == x.row.id
                     ? leave_out_for
                     : std::min<clock::duration>(2 * row.period, remember_for);
    }
    row.until = now + row.period;
    row.ever_picked = ever_picked_;
    row.out = true;
    ++left_out_now_;
    ++left_out_since_;
    look_at_ = clock::time_point::min();
  }

  /// Those that come back first.
  void forget_oldest() {
    if (left_out_.size() <= most_left_out)
      return;
    std::vector<std::pair<clock::time_point, std::int64_t>> all;
    for (const auto& [id, x] : left_out_)
      all.emplace_back(x.until, id);
    auto end = all.end() - static_cast<std::ptrdiff_t>(most_left_out);
    std::nth_element(all.begin(), end, all.end());
    for (auto i = all.begin(); i != end; ++i)
      left_out_.erase(i->second);
    look_at_ = clock::time_point::min();
  }

  bool active_ = false;
  bool under_way_ = false;
  /// Rows that were told, in pick order; a group is the first ones of them.
  std::deque<store::candidate> to_try_;
  std::size_t most_at_once_ = 0;
  /// How many were wanted when they were asked for, and for how many it asked.
  std::size_t want_ = 0;
  std::size_t ask_for_ = 0;
  /// Could not be picked alone.
  std::vector<accused> accused_;
  /// Of the rows that were told last, so many were picked, failed, and left out.
  std::size_t picked_ = 0;
  std::size_t failed_ = 0;
  std::size_t left_out_now_ = 0;
  /// Since `start`.
  std::size_t left_out_since_ = 0;
  std::size_t ever_picked_ = 0;
  std::unordered_map<std::int64_t, left_out_row> left_out_;
  std::int64_t scout_ = 0;
  std::size_t back_at_once_ = first_back;
  clock::time_point let_back_at_ = clock::time_point::min();
  /// Of `left_out_`, those that are not back; and until when that is so.
  std::vector<std::int64_t> ids_left_out_;
  clock::time_point look_at_ = clock::time_point::max();
};

} // namespace gd
