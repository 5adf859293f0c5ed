#include <gd/metrics.hpp>

#include <gd/client.hpp>
#include <gd/gauges.hpp>
#include <gd/pq/complaints.hpp>
#include <gd/time.hpp>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace gd::metrics {

namespace {

using clock = std::chrono::steady_clock;
using families = std::vector<prometheus::MetricFamily>;

prometheus::MetricFamily family_of(const gauge& x) {
  prometheus::MetricFamily out{std::string{x.name},
                               std::string{x.help},
                               prometheus::MetricType::Gauge,
                               {}};
  for (const auto& point : x.points) {
    auto& one = out.metric.emplace_back();
    for (const auto& [name, value] : point.labels)
      one.label.push_back({name, value});
    one.gauge.value = point.value;
  }
  return out;
}

/// Between those who scrape and the thread that asks.
class board {
public:
  explicit board(database_options how) : how_(std::move(how)) {
    how_.limit = std::min(how_.limit, longest_setting); // as good as for ever
    how_.shown_for = std::min(how_.shown_for, longest_setting);
    auto& most = how_.database.statement_timeout;
    most = std::min(most, how_.limit);
    how_.database.connect_timeout = std::min(how_.database.connect_timeout,
                                             how_.limit);
  }

  /// Of an answer that is young enough; empty: there is none in time.
  static families ask(const std::shared_ptr<board>& self) {
    std::unique_lock guard{self->mutex_};
    if (self->is_fresh())
      return self->shown_;
    if (!self->asking_ && !begin(self))
      return {};
    // Whoever comes late to an answer that does not come, does not wait as long again.
    bool in_time = self->changed_.wait_until(guard,
                                             self->asked_at_ + self->how_.limit,
                                             [&] { return !self->asking_; });
    return in_time && self->answered_at_ >= self->asked_at_ ? self->shown_
                                                            : families{};
  }

  /// From now on nothing is told. A look that is under way may last longer.
  void close() {
    std::lock_guard guard{telling_};
    closed_ = true;
  }

private:
  void tell(const event& what) {
    std::lock_guard guard{telling_};
    if (!closed_)
      how_.on_event(what);
  }

  bool is_fresh() const {
    return answered_at_ && clock::now() - *answered_at_ < how_.shown_for;
  }

  static bool begin(const std::shared_ptr<board>& self) {
    try {
      std::thread{[self] { self->answer(); }}.detach();
    } catch (const std::system_error&) {
      return false; // there is no thread to be had: the next scrape tries again
    }
    self->asking_ = true;
    self->asked_at_ = clock::now();
    return true;
  }

  /// On the thread, which alone has the client.
  void answer() {
    auto gauges = read();
    families shown;
    if (gauges)
      std::transform(gauges->begin(), gauges->end(), std::back_inserter(shown),
                     family_of);
    else if (complaints_.note(gauges.error().message, clock::now()) > 0)
      tell(events::sweep_failed{"asking the database for metrics",
                                without_data(gauges.error())});
    std::lock_guard guard{mutex_};
    asking_ = false;
    if (gauges) {
      shown_ = std::move(shown);
      answered_at_ = clock::now();
    }
    changed_.notify_all();
  }

  result<std::vector<gauge>> read() {
    if (!client_) {
      auto made = client::connect(how_.database);
      if (!made)
        return made.error();
      client_.emplace(std::move(*made));
    }
    auto out = read_gauges(*client_, how_.most_queues);
    if (!out)
      client_.reset(); // the next one begins with a connection of its own
    return out;
  }

  database_options how_;
  std::optional<client> client_;
  complaints complaints_;
  std::mutex telling_;
  bool closed_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asking_ = false;
  clock::time_point asked_at_{};
  std::optional<clock::time_point> answered_at_;
  families shown_;
};

class database_metrics final : public prometheus::Collectable {
public:
  explicit database_metrics(database_options how)
    : board_(std::make_shared<board>(std::move(how))) {
    // nop
  }

  ~database_metrics() override {
    board_->close();
  }

  families Collect() const override {
    auto out = board::ask(board_);
    auto up = out.empty() ? 0. : 1.;
    out.push_back(family_of({"gen_durable_database_up",
                             "1: the database has answered in time.",
                             {{{}, up}}}));
    return out;
  }

private:
  std::shared_ptr<board> board_;
};

} // namespace

std::shared_ptr<prometheus::Collectable> database(database_options how) {
  return std::make_shared<database_metrics>(std::move(how));
}

} // namespace gd::metrics
