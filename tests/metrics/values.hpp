#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <map>
#include <set>
#include <string>

namespace gd::test {

using values = std::map<std::string, double>;

/// "name{label="value"}": of histograms with _count, _sum and _bucket behind the name.
inline values values_of(const prometheus::Collectable& of) {
  values out;
  for (const auto& family : of.Collect())
    for (const auto& x : family.metric) {
      std::map<std::string, std::string> labels;
      for (const auto& label : x.label)
        labels[label.name] = label.value;
      auto name = [&](const std::string& suffix) {
        std::string text;
        for (const auto& [key, value] : labels)
          text += (text.empty() ? "" : ",") + key + "=\"" + value + "\"";
        return family.name + suffix + (text.empty() ? "" : "{" + text + "}");
      };
      if (family.type == prometheus::MetricType::Counter) {
        out[name("")] = x.counter.value;
      } else if (family.type == prometheus::MetricType::Gauge) {
        out[name("")] = x.gauge.value;
      } else {
        out[name("_count")] = static_cast<double>(x.histogram.sample_count);
        out[name("_sum")] = x.histogram.sample_sum;
        for (const auto& bucket : x.histogram.bucket) {
          auto le = std::to_string(bucket.upper_bound);
          labels["le"] = le.substr(0, le.find_last_not_of('0') + 1);
          out[name("_bucket")] = static_cast<double>(bucket.cumulative_count);
        }
        labels.erase("le");
      }
    }
  return out;
}

inline std::set<std::string> names_of(const prometheus::Collectable& of) {
  std::set<std::string> out;
  for (const auto& family : of.Collect())
    out.insert(family.name);
  return out;
}

} // namespace gd::test
