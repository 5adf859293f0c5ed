#include <gd/metrics.hpp>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

namespace gd::metrics {

namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

using buckets = Histogram::BucketBoundaries;

/// Up to the lease, and beyond. 10 ms are what a step that is not declared as blocking
/// should take at the most.
const buckets step_buckets{.0001, .0005, .001, .005, .01, .05, .1,
                           .5,    1,     5,    10,   60,  300};
const buckets wait_buckets{.001, .005, .01, .05, .1,   .5,  1,
                           5,    10,   60,  300, 1800, 3600};
/// Up to a statement's time limit.
const buckets turn_buckets{.0005, .001, .002, .005, .01, .02, .05,
                           .1,    .2,   .5,   1,    5,   30};
const buckets row_buckets{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1'000, 10'000};
const buckets sweep_buckets{.001, .005, .01, .05, .1, .5, 1, 5, 30};

/// Events that have no metrics of their own are counted by their names: an event with
/// neither does not compile.
template <class Event>
constexpr const char* counted_as = nullptr;
#define GD_COUNTED(name) \
  template <>            \
  constexpr const char* counted_as<events::name> = #name
GD_COUNTED(step_slow);
GD_COUNTED(outcome_unknown);
GD_COUNTED(outcome_refused);
GD_COUNTED(outcome_held_up);
GD_COUNTED(row_unusable);
GD_COUNTED(step_crashed);
GD_COUNTED(step_over_limit);
GD_COUNTED(step_returned_late);
GD_COUNTED(pick_lost);
GD_COUNTED(lost_pick_released);
GD_COUNTED(returned);
GD_COUNTED(sessions_ended);
GD_COUNTED(sessions_not_ended);
GD_COUNTED(not_replicated);
GD_COUNTED(ids_raised);
GD_COUNTED(exonerated);
GD_COUNTED(row_refused);
GD_COUNTED(sweep_skipped);
GD_COUNTED(actor_restarted);
GD_COUNTED(gateway_connection_cut);
GD_COUNTED(machine_replaced);
GD_COUNTED(machine_changed);
GD_COUNTED(machine_withdrawn);
GD_COUNTED(queue_not_served);
GD_COUNTED(version_not_served);
GD_COUNTED(trial_begun);
GD_COUNTED(more_like_it);
GD_COUNTED(worker_joined);
GD_COUNTED(worker_refused);
GD_COUNTED(worker_gone);
GD_COUNTED(engine_joined);
GD_COUNTED(engine_lost);
GD_COUNTED(gateway_reached);
GD_COUNTED(gateway_lost);
GD_COUNTED(node_failed);
#undef GD_COUNTED

constexpr auto kinds = std::variant_size_v<event>;

double seconds(std::chrono::microseconds x) {
  return std::chrono::duration<double>(x).count();
}

double number(std::size_t x) {
  return static_cast<double>(x);
}

// -- by label -----------------------------------------------------------------

/// What is by one or two labels, up to so many; what comes beyond them shares the last,
/// "other". A look-up of what is there locks out nobody.
template <class T>
class by_labels {
public:
  using maker = std::function<T(const std::string&, const std::string&)>;

  by_labels(std::size_t most, maker make)
    : most_(most), make_(std::move(make)) {
    // nop
  }

  /// Does not count.
  void add(const std::string& first, const std::string& second) {
    if (add_now(first, second))
      ++most_;
  }

  const T& at(std::string_view first, std::string_view second = {}) {
    {
      std::shared_lock guard{mutex_};
      if (auto found = all_.find(view{first, second}); found != all_.end())
        return found->second;
      if (other_)
        return *other_;
    }
    std::unique_lock guard{mutex_};
    if (all_.size() < most_) {
      add_now(std::string{first}, std::string{second});
      return all_.find(view{first, second})->second;
    }
    if (!other_)
      other_ = make_("other", "other");
    return *other_;
  }

private:
  using key = std::pair<std::string, std::string>;
  using view = std::pair<std::string_view, std::string_view>;

  struct hash {
    using is_transparent = void;
    std::size_t operator()(const view& x) const noexcept {
      std::hash<std::string_view> of;
      return of(x.first) * 31 + of(x.second);
    }
    std::size_t operator()(const key& x) const noexcept {
      return (*this)(view{x.first, x.second});
    }
  };

  struct equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      return a.first == b.first && a.second == b.second;
    }
  };

  bool add_now(const std::string& first, const std::string& second) {
    if (all_.contains(view{first, second}))
      return false;
    all_.emplace(key{first, second}, make_(first, second));
    return true;
  }

  std::shared_mutex mutex_;
  std::size_t most_;
  maker make_;
  std::unordered_map<key, T, hash, equal> all_;
  std::optional<T> other_;
};

/// Of a step.
struct step_series {
  std::array<Counter*, 5> outcomes{};
  Histogram* took = nullptr;
  Histogram* waited = nullptr;
  Counter* failures = nullptr;
  Counter* instances = nullptr;
};

constexpr std::array<std::string_view, 5> outcome_names{
  "next", "replay", "await", "done", "stop"};

/// Of a queue.
struct queue_series {
  Histogram* took = nullptr;
  Histogram* written = nullptr;
  Histogram* picked = nullptr;
  Counter* failures = nullptr;
  Counter* released = nullptr;
  Gauge* slots = nullptr;
  Gauge* in_use = nullptr;
};

// -- the sink -----------------------------------------------------------------

/// Makes families, and the labels that all of one node have. They are no labels of the
/// families: a registry takes each name once.
struct maker {
  prometheus::Registry& in;
  prometheus::Labels labels;

  Family<Counter>& counter(const char* name, const char* help) const {
    return prometheus::BuildCounter().Name(name).Help(help).Register(in);
  }
  Family<Gauge>& gauge(const char* name, const char* help) const {
    return prometheus::BuildGauge().Name(name).Help(help).Register(in);
  }
  Family<Histogram>& histogram(const char* name, const char* help) const {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(in);
  }
  prometheus::Labels with(prometheus::Labels own) const {
    own.insert(labels.begin(), labels.end());
    return own;
  }
};

class recorder {
public:
  recorder(const std::shared_ptr<prometheus::Registry>& registry,
           const options& how)
    : recorder(registry, maker{*registry, how.labels}, how.most_values) {
    for (const auto& machine : how.machines)
      for (const auto& step : machine.steps)
        if (step.defined())
          steps_.add(machine.name, step.name);
  }

  void tell(const event& what) {
    std::visit(
      [&]<class Event>(const Event& e) {
      if constexpr (counted_as<Event> != nullptr)
        counted_[what.index()]->Increment(times_of(e));
      else
        record(e);
      },
      what);
  }

private:
  recorder(std::shared_ptr<prometheus::Registry> registry, const maker& make,
           std::size_t most);

  /// Of how many it tells.
  template <class Event>
  static double times_of(const Event& e) {
    if constexpr (requires { e.times; })
      return number(e.times);
    else
      return 1;
  }

  void record(const events::node_started&) {
    running_->Set(1);
  }
  void record(const events::node_stopped& e) {
    running_->Set(0);
    abandoned_->Increment(number(e.abandoned));
  }
  void record(const events::connected& e) {
    connections_->Increment();
    if (e.again)
      reconnects_->Increment();
  }
  void record(const events::disconnected& e) {
    disconnections_->Increment(number(e.times));
  }
  void record(const events::step_started& e) {
    steps_.at(e.fsm, e.step).waited->Observe(seconds(e.waited));
  }
  void record(const events::step_committed& e) {
    const auto& step = steps_.at(e.fsm, e.step);
    for (std::size_t i = 0; i < outcome_names.size(); ++i)
      if (outcome_names[i] == e.outcome)
        step.outcomes[i]->Increment();
    step.took->Observe(seconds(e.took));
  }
  void record(const events::step_failed& e) {
    steps_.at(e.fsm, e.step).failures->Increment();
  }
  void record(const events::instance_failed& e) {
    steps_.at(e.fsm, e.step).instances->Increment();
  }
  void record(const events::outcome_stale&) {
    stale_->Increment();
  }
  void record(const events::lease_lost&) {
    lost_->Increment();
  }
  void record(const events::turn_ended& e) {
    const auto& queue = queues_.at(e.queue);
    queue.took->Observe(seconds(e.took));
    queue.written->Observe(number(e.written));
    queue.picked->Observe(number(e.picked));
    queue.slots->Set(e.slots);
    queue.in_use->Set(e.running);
  }
  void record(const events::effects_done& e) {
    inserts_->Increment(number(e.inserts));
    signals_->Increment(number(e.signals - e.dropped));
    dropped_->Increment(number(e.dropped));
    statements_->Increment(number(e.statements));
  }
  void record(const events::turn_failed& e) {
    queues_.at(e.queue).failures->Increment();
  }
  void record(const events::rows_released& e) {
    queues_.at(e.queue).released->Increment(number(e.rows));
  }
  void record(const events::sweep_ended& e) {
    sweeps_.at(e.what)->Observe(seconds(e.took));
  }
  void record(const events::sweep_failed& e) {
    task_failures_.at(e.what)->Increment();
  }
  void record(const events::reaped& e) {
    reaped_->Increment(number(e.rows));
  }
  void record(const events::deadlines_fired& e) {
    deadlines_->Increment(number(e.rows));
  }
  void record(const events::instances_deleted& e) {
    deleted_->Increment(number(e.deleted));
    put_off_->Increment(number(e.put_off));
  }
  void record(const events::requests_answered& e) {
    requests_.at(e.what, e.answer)->Increment(number(e.times));
  }

  std::shared_ptr<prometheus::Registry> registry_;
  std::array<Counter*, kinds> counted_{};
  Gauge* running_;
  Counter* abandoned_;
  Counter* connections_;
  Counter* reconnects_;
  Counter* disconnections_;
  Counter* stale_;
  Counter* lost_;
  Counter* reaped_;
  Counter* deadlines_;
  Counter* deleted_;
  Counter* put_off_;
  Counter* inserts_;
  Counter* signals_;
  Counter* dropped_;
  Counter* statements_;
  by_labels<step_series> steps_;
  by_labels<queue_series> queues_;
  by_labels<Histogram*> sweeps_;
  by_labels<Counter*> task_failures_;
  by_labels<Counter*> requests_;
};

/// What makes a step's metrics.
by_labels<step_series>::maker steps_in(const maker& make) {
  auto& outcomes = make.counter("gen_durable_steps_total",
                                "Steps whose outcome is committed.");
  auto& took = make.histogram("gen_durable_step_duration_seconds",
                              "For how long steps ran whose outcome is "
                              "committed, without the handler.");
  auto& waited = make.histogram("gen_durable_step_wait_seconds",
                                "From when a step could have begun until it "
                                "began.");
  auto& failures = make.counter("gen_durable_step_failures_total",
                                "Steps that have thrown, were over their "
                                "limit, or returned nonsense.");
  auto& instances = make.counter("gen_durable_instances_failed_total",
                                 "Instances that have failed at this step.");
  return [&, make](const std::string& machine, const std::string& name) {
    auto which = make.with({{"machine", machine}, {"step", name}});
    step_series out{.took = &took.Add(which, step_buckets),
                    .waited = &waited.Add(which, wait_buckets),
                    .failures = &failures.Add(which),
                    .instances = &instances.Add(which)};
    for (std::size_t i = 0; i < outcome_names.size(); ++i) {
      which["outcome"] = outcome_names[i];
      out.outcomes[i] = &outcomes.Add(which);
    }
    return out;
  };
}

/// What makes a queue's.
by_labels<queue_series>::maker queues_in(const maker& make) {
  auto& took = make.histogram("gen_durable_turn_duration_seconds",
                              "How long a queue's transactions took.");
  auto& rows = make.histogram("gen_durable_turn_rows",
                              "Outcomes that a queue's transactions wrote, "
                              "and rows that they picked.");
  auto& failures = make.counter("gen_durable_turn_failures_total",
                                "Transactions of a queue that failed, and are "
                                "tried again.");
  auto& released = make.counter("gen_durable_released_rows_total",
                                "Prefetched rows that could not begin "
                                "soon enough.");
  auto& slots = make.gauge("gen_durable_slots", "Slots of this node.");
  auto& in_use = make.gauge("gen_durable_slots_in_use",
                            "Slots in use, as of the last transaction.");
  return [&, make](const std::string& queue, const std::string&) {
    auto which = make.with({{"queue", queue}});
    auto rows_of = [&](const char* what) {
      return &rows.Add(make.with({{"queue", queue}, {"what", what}}),
                       row_buckets);
    };
    return queue_series{.took = &took.Add(which, turn_buckets),
                        .written = rows_of("written"),
                        .picked = rows_of("picked"),
                        .failures = &failures.Add(which),
                        .released = &released.Add(which),
                        .slots = &slots.Add(which),
                        .in_use = &in_use.Add(which)};
  };
}

/// Of what outcomes carry.
Counter* effect_in(const maker& make, const char* kind) {
  return &make
            .counter("gen_durable_effects_total",
                     "What outcomes have carried, and is committed; dropped: "
                     "signals to instances that have ended.")
            .Add(make.with({{"effect", kind}}));
}

by_labels<Histogram*>::maker sweeps_in(const maker& make) {
  auto& took = make.histogram("gen_durable_sweep_duration_seconds",
                              "How long sweeps took, also those that failed "
                              "or were left to another node.");
  return [&, make](const std::string& sweep, const std::string&) {
    return &took.Add(make.with({{"sweep", sweep}}), sweep_buckets);
  };
}

by_labels<Counter*>::maker task_failures_in(const maker& make) {
  auto& family = make.counter("gen_durable_task_failures_total",
                              "Sweeps, heartbeats and other tasks that "
                              "failed, and are tried again.");
  return [&, make](const std::string& task, const std::string&) {
    return &family.Add(make.with({{"task", task}}));
  };
}

by_labels<Counter*>::maker requests_in(const maker& make) {
  auto& family = make.counter("gen_durable_requests_total",
                              "Requests to the gateway, by their answers.");
  return [&, make](const std::string& request, const std::string& answer) {
    return &family.Add(make.with({{"request", request}, {"answer", answer}}));
  };
}

template <std::size_t... Is>
std::array<Counter*, kinds> counted_in(const maker& make,
                                       std::index_sequence<Is...>) {
  auto& family = make.counter("gen_durable_events_total",
                              "Events that no other metric is about.");
  auto one = [&](const char* name) {
    return name ? &family.Add(make.with({{"event", name}})) : nullptr;
  };
  return {one(counted_as<std::variant_alternative_t<Is, event>>)...};
}

recorder::recorder(std::shared_ptr<prometheus::Registry> registry,
                   const maker& make, std::size_t most)
  : registry_(std::move(registry)),
    counted_(counted_in(make, std::make_index_sequence<kinds>{})),
    running_(&make
                .gauge("gen_durable_node_running",
                       "1: the engine runs, connected and with its machines "
                       "made known.")
                .Add(make.labels)),
    abandoned_(&make
                  .counter("gen_durable_abandoned_steps_total",
                           "Steps that did not end before their engine.")
                  .Add(make.labels)),
    connections_(&make
                    .counter("gen_durable_connections_total",
                             "Connections to the database that were made.")
                    .Add(make.labels)),
    reconnects_(&make
                   .counter("gen_durable_reconnects_total",
                            "Of these, in the place of one that was lost.")
                   .Add(make.labels)),
    disconnections_(&make
                       .counter("gen_durable_disconnections_total",
                                "Connections that were lost, or could not be "
                                "made, as far as they were told.")
                       .Add(make.labels)),
    stale_(&make
              .counter("gen_durable_stale_outcomes_total",
                       "Outcomes that changed nothing: their lease was over.")
              .Add(make.labels)),
    lost_(&make
             .counter("gen_durable_leases_lost_total",
                      "Leases that were lost under a step.")
             .Add(make.labels)),
    reaped_(&make
               .counter("gen_durable_reaped_rows_total",
                        "Rows made runnable again after their lease.")
               .Add(make.labels)),
    deadlines_(&make
                  .counter("gen_durable_deadlines_fired_total",
                           "Parked rows whose deadline has passed.")
                  .Add(make.labels)),
    deleted_(&make
                .counter("gen_durable_deleted_instances_total",
                         "Instances deleted whose time was over.")
                .Add(make.labels)),
    put_off_(&make
                .counter("gen_durable_put_off_instances_total",
                         "Instances that could not be deleted yet.")
                .Add(make.labels)),
    inserts_(effect_in(make, "insert")),
    signals_(effect_in(make, "signal")),
    dropped_(effect_in(make, "dropped")),
    statements_(effect_in(make, "sql")),
    steps_(most, steps_in(make)),
    queues_(most, queues_in(make)),
    sweeps_(most, sweeps_in(make)),
    task_failures_(most, task_failures_in(make)),
    requests_(most, requests_in(make)) {
  // nop
}

} // namespace

result<event_sink> sink(const std::shared_ptr<prometheus::Registry>& registry,
                        const options& how) {
  if (!registry)
    return error{
      errc::invalid_argument, "metrics: registry is null, expected one", {}};
  // Later, when a step has its first event, nobody could be told.
  for (const char* taken : {"machine", "step", "outcome", "queue", "what", "le",
                            "sweep", "task", "request", "answer", "event"})
    if (how.labels.contains(taken))
      return error{errc::invalid_argument,
                   "metrics: labels has " + std::string{taken}
                     + ", expected one that the metrics do not have themselves",
                   {}};
  try {
    auto made = std::make_shared<recorder>(registry, how);
    return event_sink{[made](const event& what) { made->tell(what); }};
  } catch (const std::exception& e) {
    return error{errc::invalid_argument,
                 "metrics: prometheus-cpp refuses a name or label: "
                   + std::string{e.what()},
                 {}};
  }
}

} // namespace gd::metrics
