#pragma once

#include <gd/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Streams of lines: in, out, and how they are interrupted.
namespace gdctl {

/// Whether the terminal may go: the program was started by nohup.
bool ignores_hangup() noexcept;

/// While one of these lives, a first Ctrl-C (or SIGTERM, or SIGHUP) is noted instead of
/// ending the program, so that what is under way gets its answers; a second one
/// ends it.
class interruptions {
public:
  interruptions();

  /// The noted signal, or 0.
  static int noted() noexcept;

  /// Ends the program as the signal would have, for the shell to see.
  [[noreturn]] static void die_of(int signal);
};

/// Reads lines from a file, a pipe or a terminal, in batches.
class line_reader {
public:
  struct line {
    /// From 1; blank lines count, but are left out.
    std::uint64_t number = 0;
    std::string text;
    /// Then there is no text.
    bool too_long = false;
  };

  /// Longer lines are not kept. Holds every state that an insert may have.
  static constexpr std::size_t longest_line = 16 << 20;

  /// "-" is stdin.
  static gd::result<line_reader> open(const std::string& path);

  ~line_reader();
  line_reader(line_reader&& other) noexcept;
  line_reader& operator=(line_reader&&) = delete;

  /// Waits for a line, then takes those that are there already, at most `rows`
  /// and about `bytes`. None: the end, an error, or an interruption.
  std::vector<line> next_batch(std::size_t rows, std::size_t bytes);

  /// Why reading has ended before the end.
  const std::optional<gd::error>& failure() const noexcept {
    return failure_;
  }

private:
  line_reader(int fd, std::string name);

  std::optional<line> take_line();
  bool readable(bool wait) const;
  void fill();

  int fd_;
  std::string name_;
  std::string buffer_;
  std::size_t start_ = 0;   ///< of what is left of the buffer
  std::size_t scanned_ = 0; ///< up to here there is no line break
  bool skipping_ = false;   ///< the rest of a line that is too long
  bool ended_ = false;
  std::uint64_t number_ = 0;
  std::optional<gd::error> failure_;
};

/// Makes a stream that is closed one that cannot be written to: its number would
/// be that of the next file or connection, which would get what is printed. And what
/// nobody reads any more is an error of writing from here on, no signal.
void occupy_streams();

/// Writes to stdout, at once. Returns errno, or 0.
int write_out(std::string_view text);

/// What editors and shells of some systems put in front of UTF-8.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// A file's text without that.
void drop_mark(std::string& text);

/// What the system says of a file.
gd::error system_error(std::string_view name, int number);

} // namespace gdctl
