#include <gd/gauges.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gd {

namespace {

/// Of a status, before it is estimated, and of all queues: a scrape costs what these cost.
constexpr std::int32_t most_counted = 500;

double number(std::int64_t x) {
  return static_cast<double>(x);
}

void merge(queue_row& to, const queue_row& x) {
  to.nodes = std::max(to.nodes, x.nodes);
  to.slots += x.slots;
  to.due += x.due;
  to.more_due = to.more_due || x.more_due;
  if (x.oldest_due_us)
    to.oldest_due_us = std::min(to.oldest_due_us.value_or(*x.oldest_due_us),
                                *x.oldest_due_us);
  to.paused = to.paused || x.paused;
}

/// Those that nobody serves may have any name.
std::vector<queue_row> bounded(std::vector<queue_row> rows, std::size_t most) {
  std::stable_sort(rows.begin(), rows.end(), [](const auto& x, const auto& y) {
    return x.nodes > 0 && y.nodes == 0;
  });
  std::vector<queue_row> out;
  std::optional<queue_row> other;
  for (auto& x : rows)
    if (out.size() < most && x.queue != "other")
      out.push_back(std::move(x));
    else if (other)
      merge(*other, x);
    else
      other = std::move(x);
  if (other) {
    other->queue = "other";
    out.push_back(std::move(*other));
  }
  return out;
}

template <class Row, class F>
gauge one_each(std::string_view name, std::string_view help,
               const std::vector<Row>& rows, const char* label,
               std::string Row::*of, F value) {
  gauge out{.name = name, .help = help};
  for (const auto& x : rows)
    out.points.push_back({{{label, x.*of}}, static_cast<double>(value(x))});
  return out;
}

void add_instances(std::vector<gauge>& to,
                   const std::vector<status_count>& rows) {
  auto add = [&](std::string_view name, std::string_view help, auto value) {
    to.push_back(
      one_each(name, help, rows, "status", &status_count::status, value));
  };
  add("gen_durable_instances", "Instances in this status.",
      [](const auto& x) { return number(x.instances); });
  add("gen_durable_instances_estimated",
      "1: gen_durable_instances of this status is an estimate.",
      [](const auto& x) { return x.estimated; });
}

void add_queues(std::vector<gauge>& to, const std::vector<queue_row>& rows,
                std::int64_t now_us) {
  auto add = [&](std::string_view name, std::string_view help, auto value) {
    to.push_back(one_each(name, help, rows, "queue", &queue_row::queue, value));
  };
  add("gen_durable_queue_due_instances",
      "Instances that could begin; at most 500 are counted, of all queues.",
      [](const auto& x) { return number(x.due); });
  add(
    "gen_durable_queue_due_instances_estimated",
    "1: gen_durable_queue_due_instances is too low, so many were not counted.",
    [](const auto& x) { return x.more_due; });
  add("gen_durable_queue_oldest_due_seconds",
      "For how long the first of these could have begun; 0: there is none.",
      [now_us](const auto& x) {
    auto age = x.oldest_due_us ? now_us - *x.oldest_due_us : 0;
    return number(std::max(age, std::int64_t{0})) / 1e6;
  });
  add("gen_durable_queue_paused", "1: operators have paused this queue.",
      [](const auto& x) { return x.paused; });
  add("gen_durable_queue_nodes", "Nodes that live and serve this queue.",
      [](const auto& x) { return number(x.nodes); });
  add("gen_durable_queue_slots", "Slots that these nodes have for this queue.",
      [](const auto& x) { return number(x.slots); });
}

gauge count_nodes(const std::vector<node_row>& rows) {
  auto alive = std::count_if(rows.begin(), rows.end(),
                             [](const auto& x) { return x.lives; });
  auto gone = static_cast<std::ptrdiff_t>(rows.size()) - alive;
  return {"gen_durable_nodes",
          "Nodes that live, or have gone without a word within a day.",
          {{{{"state", "alive"}}, number(alive)},
           {{{"state", "gone"}}, number(gone)}}};
}

} // namespace

result<std::vector<gauge>> read_gauges(client& from, std::size_t most_queues) {
  auto counts = from.status_counts(most_counted);
  if (!counts)
    return counts.error();
  auto queues = from.queues(most_counted);
  if (!queues)
    return queues.error();
  auto nodes = from.nodes();
  if (!nodes)
    return nodes.error();
  auto not_served = from.not_served();
  if (!not_served)
    return not_served.error();
  std::vector<gauge> out;
  add_instances(out, *counts);
  auto now_us = counts->empty() ? 0 : counts->front().now_us;
  add_queues(out, bounded(std::move(*queues), most_queues), now_us);
  out.push_back(count_nodes(*nodes));
  out.push_back({"gen_durable_not_served",
                 "Versions of machines, by queue, where something waits or is "
                 "inserted and no node that lives runs it; 100 at the most.",
                 {{{}, number(std::ssize(*not_served))}}});
  return out;
}

} // namespace gd
