#pragma once

#include "common.hpp"
#include "lines.hpp"

#include <gd/error.hpp>
#include <gd/json.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// JSON Lines in, an answer for each of them out, in order: what `insert --file`
/// and `signal --file` have in common.
namespace gdctl {

/// Rows of one request to the database.
inline constexpr std::size_t batch_rows = 500;
inline constexpr std::size_t batch_bytes = 8 << 20;

/// Tells on stderr how far a job has come.
class progress {
public:
  /// On a terminal it rewrites its line; elsewhere it speaks only if told to.
  explicit progress(bool wanted);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void count(bool was_refused);
  void show(bool last);

  std::uint64_t refused() const noexcept {
    return refused_;
  }

private:
  using clock = std::chrono::steady_clock;

  bool terminal_;
  bool silent_;
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;
  clock::time_point started_ = clock::now();
  clock::time_point shown_ = started_;
};

/// One line on its way.
template <class Request>
struct parsed_line {
  /// The line's own ref, if it has one.
  std::optional<std::string> ref;
  gd::result<Request> request;
};

template <class Request, class Answer>
struct bulk_job {
  std::function<parsed_line<Request>(std::string_view text)> parse;
  std::function<std::vector<gd::result<Answer>>(std::vector<Request>)> send;
  /// The members of an answer's JSON object that tell what was asked for.
  std::function<std::string(const Request&)> label;
  /// Those that tell what came of it.
  std::function<std::string(const Answer&)> render;
};

/// How a stream of lines ended, before anything is said about it.
struct bulk_end {
  /// The last line that was sent.
  std::uint64_t last_line = 0;
  /// Why the rest was not even tried.
  std::optional<gd::error> failure;
  /// Nobody reads the answers any more.
  bool broken_pipe = false;
};

/// Says how it ended, and returns the exit code.
int finish_bulk(const bulk_end& end, progress& shown);

template <class Request, class Answer>
int run_bulk(line_reader input, bool show_progress,
             const bulk_job<Request, Answer>& job) {
  interruptions guard;
  progress shown{show_progress};
  bulk_end end;
  while (!end.failure && !interruptions::noted()) {
    auto lines = input.next_batch(batch_rows, batch_bytes);
    if (lines.empty())
      break;
    struct entry {
      std::string head;
      std::optional<gd::error> refused;
    };
    std::vector<entry> entries;
    std::vector<Request> requests;
    for (const auto& line : lines) {
      auto x = line.too_long ? parsed_line<Request>{{},
                                                    bad_usage(fmt::format(
                                                      "expected at most {} "
                                                      "bytes in a line",
                                                      input.longest_line))}
                             : job.parse(line.text);
      auto head = x.ref ? fmt::format("\"ref\":{},", json_string(*x.ref)) : "";
      head += fmt::format("\"line\":{}", line.number);
      if (x.request) {
        entries.push_back({head + job.label(*x.request), std::nullopt});
        requests.push_back(std::move(*x.request));
      } else {
        entries.push_back({std::move(head), x.request.error()});
      }
    }
    auto answers = job.send(std::move(requests));
    auto answer = answers.begin();
    std::string out;
    for (auto& x : entries) {
      out += '{' + x.head;
      if (!x.refused) {
        if (*answer)
          out += job.render(**answer);
        else
          x.refused = answer->error();
        ++answer;
      }
      if (x.refused) {
        out += fmt::format(",\"error\":{},\"code\":\"{}\"",
                           json_string(x.refused->message),
                           gd::to_string(x.refused->code));
        if (exit_code_of(x.refused->code) == unreachable
            || exit_code_of(x.refused->code) == bad_schema)
          end.failure = x.refused;
      }
      out += "}\n";
      shown.count(x.refused.has_value());
    }
    end.last_line = lines.back().number;
    if (auto number = write_out(out); number != 0) {
      end.failure = system_error("stdout", number);
      end.broken_pipe = number == EPIPE;
    }
    shown.show(false);
  }
  if (!end.failure)
    end.failure = input.failure();
  return finish_bulk(end, shown);
}

} // namespace gdctl
