#include <gd/event.hpp>

#include <gd/instance.hpp>

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace gd {

namespace {

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

} // namespace

std::string_view to_string(severity level) noexcept {
  switch (level) {
    case severity::debug:
      return "debug";
    case severity::info:
      return "info";
    case severity::warning:
      return "warning";
    case severity::failure:
      return "error";
  }
  return "unknown";
}

error without_data(error why) {
  if (why.code == errc::rejected)
    why.message = "refused for the data of a row, which the message may repeat";
  else if (why.code == errc::codec)
    why.message = "JSON that does not fit: last_error has the message, which "
                  "may repeat it";
  return why;
}

std::string without_data(const effect_refused& what) {
  return effect_refused{what.number, what.kind, without_data(what.why)}
    .message();
}

/// Of what concerns rows some of which were to be done something with and could not.
static severity level_by(std::size_t left) {
  return left > 0 ? severity::warning : severity::info;
}

severity level_of(const event& what) {
  using namespace events;
  return std::visit(
    overloaded{
      [](const node_started&) { return severity::info; },
      [](const node_stopped&) { return severity::info; },
      [](const node_failed&) { return severity::failure; },
      [](const connected&) { return severity::info; },
      [](const step_started&) { return severity::debug; },
      [](const step_committed&) { return severity::debug; },
      [](const turn_ended&) { return severity::debug; },
      [](const effects_done&) { return severity::debug; },
      [](const outcome_held_up&) { return severity::debug; },
      [](const sweep_ended&) { return severity::debug; },
      [](const requests_answered&) { return severity::debug; },
      [](const lost_pick_released&) { return severity::info; },
      [](const exonerated&) { return severity::info; },
      [](const deadlines_fired&) { return severity::info; },
      [](const returned& e) { return level_by(e.blocked + e.refused); },
      [](const instances_deleted& e) { return level_by(e.put_off); },
      [](const rows_released&) { return severity::debug; },
      [](const sweep_skipped&) { return severity::debug; },
      [](const machine_changed&) { return severity::info; },
      [](const worker_joined&) { return severity::info; },
      [](const engine_joined&) { return severity::info; },
      [](const gateway_reached&) { return severity::info; },
      // All others. The guide's table is compared with this.
      [](const auto&) { return severity::warning; },
    },
    what);
}

namespace events {

namespace {

std::string text_of(const node_started& e) {
  return fmt::format("node {} started", e.node);
}

std::string text_of(const node_stopped& e) {
  return fmt::format("node {} stopped: {} rows given back, {} steps "
                     "abandoned to their leases",
                     e.node, e.released, e.abandoned);
}

std::string text_of(const node_failed& e) {
  return fmt::format("the engine gives up: {}", to_string(e.why));
}

std::string text_of(const connected& e) {
  return fmt::format("connection {}: connected{}, backend {}", e.connection,
                     e.again ? " again" : "", e.backend);
}

std::string text_of(const disconnected& e) {
  auto times = e.times > 1 ? fmt::format(" ({} times)", e.times) : "";
  return fmt::format("connection {}: {}{}; next attempt in {} ms", e.connection,
                     to_string(e.why), times, e.retry_in.count());
}

/// "instance 7: step ship of Billing v2, attempt 0, seq 4", and its trace, if it has one.
std::string run_of(const step_run& e) {
  return fmt::format("instance {}: step {} of {} v{}, attempt {}, seq {}{}{}",
                     e.id, e.step, e.fsm, e.version, e.attempt, e.seq,
                     e.traceparent.empty() ? "" : ", trace ", e.traceparent);
}

/// "12.345 ms".
std::string ms_of(std::chrono::microseconds x) {
  return fmt::format("{} ms", static_cast<double>(x.count()) / 1'000);
}

std::string text_of(const step_started& e) {
  return fmt::format("{}: begins, due for {}", run_of(e), ms_of(e.waited));
}

std::string text_of(const step_committed& e) {
  return fmt::format("{}: {}{} committed, after {}", run_of(e), e.outcome,
                     e.handled ? " (by the handler)" : "", ms_of(e.took));
}

std::string text_of(const step_failed& e) {
  auto delay = e.outcome == "replay" ? " in " + ms_of(e.delay) : "";
  return fmt::format("{}: failed after {}: {}; what follows: {}{}", run_of(e),
                     ms_of(e.took), printable(e.why), e.outcome, delay);
}

std::string text_of(const instance_failed& e) {
  return fmt::format("{}: the instance has failed: {}", run_of(e),
                     printable(e.why));
}

std::string text_of(const step_slow& e) {
  return fmt::format("{}: kept one of CAF's threads for {}, on which other "
                     "steps wait: declare it as blocking, .step({}, "
                     "{{.blocking = true}}, ...)",
                     run_of(e), ms_of(e.took), e.step);
}

std::string text_of(const outcome_stale& e) {
  return fmt::format("instance {}: outcome dropped, lease {} is not in "
                     "force",
                     e.id, e.token);
}

std::string text_of(const outcome_unknown& e) {
  return fmt::format("instance {}: outcome under lease {} was sent twice, "
                     "its fate is unknown",
                     e.id, e.token);
}

std::string text_of(const outcome_refused& e) {
  return fmt::format("instance {}: the database refuses the outcome: {}", e.id,
                     to_string(e.why));
}

std::string text_of(const trial_begun& e) {
  return fmt::format("{}: runs alone, its process has ended {} times while it "
                     "ran, and {} times while it ran alone",
                     run_of(e), e.crashes, e.trials);
}

std::string text_of(const row_unusable& e) {
  using fate = row_unusable::fate;
  const auto* outcome = e.what == fate::failed ? "failed"
                        : e.what == fate::left_out
                          ? "left out for a minute, it may not be to blame"
                          : "left out for a minute, it cannot be failed either";
  return fmt::format("instance {}: {}, its row cannot be used: {}", e.id,
                     outcome, to_string(e.why));
}

std::string text_of(const step_crashed& e) {
  return fmt::format("{}: crashed after {} ({}); the row waits for its lease",
                     run_of(e), ms_of(e.took), e.why);
}

std::string text_of(const step_over_limit& e) {
  return fmt::format("{}: over its limit of {} ms, the handler is called",
                     run_of(e), e.limit.count());
}

std::string text_of(const step_returned_late& e) {
  return fmt::format("{}: has returned after its limit, after {}, its outcome "
                     "is dropped",
                     run_of(e), ms_of(e.took));
}

std::string text_of(const lease_lost& e) {
  return fmt::format("instance {}: lease {} is lost", e.id, e.token);
}

std::string text_of(const effects_done& e) {
  return fmt::format("queue {}: outcomes have carried {} inserts, {} signals "
                     "({} of them to instances that have ended) and {} "
                     "statements",
                     e.queue, e.inserts, e.signals, e.dropped, e.statements);
}

std::string text_of(const outcome_held_up& e) {
  return fmt::format("instance {}: its outcome waits for what it carries ({}): "
                     "{}",
                     e.id, to_string(e.kind), to_string(e.why));
}

std::string text_of(const turn_ended& e) {
  return fmt::format("queue {}: turn after {}, {} outcomes written, {} rows "
                     "picked, {} of {} slots in use",
                     e.queue, ms_of(e.took), e.written, e.picked, e.running,
                     e.slots);
}

std::string text_of(const turn_failed& e) {
  // Where other code runs under the same version, the node gives up.
  return fmt::format(
    "queue {}: turn failed{}: {}", e.queue,
    e.why.code == errc::machine_differs ? "" : ", will be tried again",
    to_string(e.why));
}

std::string text_of(const pick_lost& e) {
  return fmt::format("queue {}: fate of pick {} unknown", e.queue, e.token);
}

std::string text_of(const lost_pick_released& e) {
  return fmt::format("queue {}: {} rows of lost picks given back", e.queue,
                     e.rows);
}

std::string text_of(const sweep_failed& e) {
  return fmt::format("{} failed, will be tried again: {}", e.what,
                     to_string(e.why));
}

std::string text_of(const sweep_ended& e) {
  return fmt::format("{}: ended after {}", e.what, ms_of(e.took));
}

std::string text_of(const reaped& e) {
  return fmt::format("{} rows returned after their lease", e.rows);
}

std::string text_of(const exonerated& e) {
  return fmt::format("{} rows are charged with fewer ends of their processes: "
                     "it is known who has caused these",
                     e.rows);
}

std::string text_of(const deadlines_fired& e) {
  return fmt::format("{} deadlines fired", e.rows);
}

std::string text_of(const instances_deleted& e) {
  return fmt::format("{} instances deleted whose time was over, {} put off: "
                     "they cannot be deleted",
                     e.deleted, e.put_off);
}

std::string text_of(const returned& e) {
  return fmt::format("{} rows returned one by one, {} left whose unique key "
                     "another has, {} that the database refuses",
                     e.runnable, e.blocked, e.refused);
}

std::string text_of(const row_refused& e) {
  auto times = e.times > 1 ? fmt::format(" ({} times)", e.times) : "";
  return fmt::format("instance {}: the database refuses what {} does with it, "
                     "which tries again: {}{}",
                     e.id, e.what, to_string(e.why), times);
}

std::string text_of(const sessions_ended& e) {
  return fmt::format("{} sessions of silent nodes ended: they may have held "
                     "partition keys",
                     e.count);
}

std::string text_of(const not_replicated& e) {
  return fmt::format("connection {}: committed, but maybe not replicated: {}",
                     e.connection, to_string(e.why));
}

std::string text_of(const ids_raised& e) {
  return fmt::format("the server was promoted or recovered, and is on timeline "
                     "{}: ids go on from {}",
                     e.timeline, e.first_id);
}

std::string text_of(const sessions_not_ended& e) {
  return fmt::format("the sessions of node {} are another role's, and cannot "
                     "be ended when it is silent: expected the same role, or "
                     "one with pg_signal_backend and pg_read_all_stats",
                     e.node);
}

std::string text_of(const rows_released& e) {
  return fmt::format("queue {}: {} rows given back that cannot begin soon",
                     e.queue, e.rows);
}

std::string text_of(const sweep_skipped& e) {
  return fmt::format("{}: another node does it", e.what);
}

std::string text_of(const requests_answered& e) {
  return fmt::format("{} requests of the kind {} answered: {}", e.times, e.what,
                     e.answer);
}

std::string text_of(const actor_restarted& e) {
  return fmt::format("{} restarted after: {}", e.name, e.why);
}

std::string text_of(const gateway_connection_cut& e) {
  return fmt::format(
    "a connection to the gateway is cut ({}): it {}{}", e.remote, e.why,
    e.times > 1
      ? fmt::format(", as {} others have since this was told", e.times - 1)
      : std::string{});
}

std::string text_of(const worker_joined& e) {
  return fmt::format("worker {} has joined, and brings {} executions along",
                     e.node, e.holds);
}

std::string text_of(const worker_refused& e) {
  return fmt::format("worker {} cannot join: {}", e.node, e.why);
}

std::string text_of(const worker_gone& e) {
  return fmt::format("worker {} is gone, {}; it holds {} executions", e.node,
                     e.why, e.holds);
}

std::string text_of(const engine_joined& e) {
  return fmt::format("joined node {} at {}, where {} executions go on", e.node,
                     e.address, e.resumed);
}

std::string text_of(const engine_lost& e) {
  return fmt::format("no engine at {} any more: {}; {} executions have not "
                     "ended",
                     e.address, e.why, e.holds);
}

std::string text_of(const machine_replaced& e) {
  return fmt::format(
    "machine {}: it has other steps or transitions than before "
    "under the same version, now {}, before {}; instances at steps that "
    "are no more will fail",
    e.machine, e.now, e.before);
}

std::string text_of(const machine_changed& e) {
  return fmt::format(
    "machine {}: what inserts leave open is now {}, and was {}", e.machine,
    e.now, e.before);
}

std::string text_of(const machine_withdrawn& e) {
  return fmt::format("machine {}: not served by this node any more, another "
                     "has given it other steps or transitions meanwhile: {}",
                     e.machine, e.now);
}

std::string text_of(const queue_not_served& e) {
  return fmt::format("machine {}: no node that lives runs it in queue {}; "
                     "others do in other queues",
                     e.machine, e.queue);
}

std::string text_of(const version_not_served& e) {
  return fmt::format("machine {}: instances wait in queue {}, and no node that "
                     "lives has this version",
                     e.machine, e.queue);
}

std::string text_of(const gateway_reached& e) {
  return fmt::format("gateway at {}: reached", e.address);
}

std::string text_of(const gateway_lost& e) {
  auto times = e.times > 1 ? fmt::format(" ({} times)", e.times) : "";
  return fmt::format("gateway at {}: {}{}; next attempt in {} ms", e.address,
                     to_string(e.why), times, e.retry_in.count());
}

std::string text_of(const more_like_it& e) {
  return fmt::format("{} more like it in the last {} s, such as {}", e.times,
                     std::chrono::round<std::chrono::seconds>(e.within).count(),
                     e.example);
}

} // namespace

} // namespace events

std::string describe(const event& what) {
  return std::visit([](const auto& e) { return events::text_of(e); }, what);
}

event_sink all_of(std::vector<event_sink> sinks) {
  return [to = std::move(sinks)](const event& what) {
    for (const auto& tell : to)
      tell(what);
  };
}

} // namespace gd
