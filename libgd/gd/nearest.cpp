#include <gd/instance.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <utility>

namespace gd {

namespace {

/// Of longer names the first letters alone.
constexpr std::size_t letters = 64;

std::string small(std::string_view x) {
  std::string out{x.substr(0, letters)};
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::size_t distance(const std::string& x, const std::string& y) {
  std::vector<std::size_t> before, last(y.size() + 1), now(y.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= x.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= y.size(); ++j) {
      now[j] = std::min({now[j - 1] + 1, last[j] + 1,
                         last[j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = std::exchange(last, now);
  }
  return last.back();
}

} // namespace

std::string meant(std::string_view name,
                  const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::size_t least = 0;
  auto typed = small(name);
  for (const auto& x : known) {
    auto other = small(x);
    std::size_t alike = typed.substr(0, 2) == other.substr(0, 2) ? 2 : 0;
    auto most = std::max<std::size_t>(
      1, (std::min(name.size(), x.size()) + alike) / 3);
    auto differ = std::max(name.size(), x.size())
                  - std::min(name.size(), x.size());
    if (x == name || differ > most)
      continue;
    auto by = distance(typed, other);
    if (by > most)
      continue;
    if (best == nullptr || std::pair{by, x} < std::pair{least, *best}) {
      best = &x;
      least = by;
    }
  }
  return best == nullptr ? std::string{} : "; did you mean " + *best + '?';
}

} // namespace gd
