/// Any bytes as gdctl's input: lines come out as they are, unless they are UTF-16, and
/// delays and times are taken or refused.

#include "lines.hpp"

#include "common.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

/// The lines that are not blank, one by one.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> xs;
  for (std::size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      xs.push_back(line);
    at = end + 1;
  }
  return xs;
}

std::string trimmed(const std::string& x) {
  auto begin = x.find_first_not_of(" \t\r");
  auto end = x.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : x.substr(begin, end - begin + 1);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  std::string text{reinterpret_cast<const char*>(data), size};
  auto fd = memfd_create("input", 0);
  require(write(fd, data, size) == static_cast<ssize_t>(size));
  auto reader = gdctl::line_reader::open("/proc/self/fd/" + std::to_string(fd));
  require(static_cast<bool>(reader));
  std::vector<std::string> got;
  while (true) {
    auto batch = reader->next_batch(3, 100);
    if (batch.empty())
      break;
    for (auto& line : batch)
      got.push_back(std::move(line.text));
  }
  close(fd);
  if (reader->failure()) { // it is refused as a whole
    require(got.empty()
            && (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")));
    return 0;
  }
  auto without_mark = text;
  gdctl::drop_mark(without_mark);
  auto expected = split(without_mark);
  require(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    require(trimmed(got[i]) == trimmed(expected[i]));

  if (auto us = gdctl::parse_delay("delay", text))
    require(*us >= 0);
  if (auto us = gdctl::parse_time("at", text)) {
    auto again = gdctl::parse_time("at", gdctl::time_text(*us));
    require(again && *again == *us);
  }
  return 0;
}
