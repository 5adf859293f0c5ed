// gdctl top: queues, nodes and rates, looked at again and again.

#include "args.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "service.hpp"
#include "table.hpp"

#include <gd/client.hpp>
#include <gd/state.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace gdctl {

namespace {

using std::chrono::microseconds;

constexpr std::int64_t shortest_interval = 100'000;
constexpr std::int64_t longest_interval = 3'600'000'000;

struct top_options {
  std::string interval = "2s";
  bool once = false;
  bool as_json = false;
};

// -- texts --------------------------------------------------------------------

/// The first characters of UTF-8.
std::string_view cut(std::string_view line, std::size_t columns) {
  std::size_t end = 0;
  for (; end < line.size(); ++end)
    if ((line[end] & 0xc0) != 0x80 && columns-- == 0)
      break;
  return line.substr(0, end);
}

/// A name may be a kilobyte, and the columns behind it are what one looks for.
std::string shortened(const std::string& name) {
  constexpr std::size_t columns = 40;
  auto text = gd::printable(name);
  auto begin = cut(text, columns);
  return begin.size() == text.size() ? text : std::string{begin} + "...";
}

// -- what is looked at --------------------------------------------------------

struct look {
  std::vector<gd::queue_row> queues{};
  std::vector<gd::node_row> nodes{};
  gd::activity activity{};

  GD_STATE(look, queues, nodes, activity);
};

gd::result<look> look_at(gd::client& db) {
  auto queues = db.queues();
  if (!queues)
    return queues.error();
  auto nodes = db.nodes();
  if (!nodes)
    return nodes.error();
  auto activity = db.activity();
  if (!activity)
    return activity.error();
  return look{std::move(*queues), std::move(*nodes), *activity};
}

std::string rates_of(const gd::activity& now, const gd::activity& before) {
  auto rate = [&](std::int64_t gd::activity::*rows) {
    auto seconds = static_cast<double>(now.at_us - before.at_us) / 1e6;
    return static_cast<double>(
             std::max<std::int64_t>(now.*rows - before.*rows, 0))
           / std::max(seconds, 1e-3);
  };
  return fmt::format(
    "~{:.0f} updates/s (one or two a step), ~{:.0f} inserts/s, "
    "~{:.0f} deletes/s\n",
    rate(&gd::activity::updated), rate(&gd::activity::inserted),
    rate(&gd::activity::deleted));
}

std::string text_of(const look& x, const std::optional<gd::activity>& before) {
  auto now = x.activity.at_us;
  auto queues = x.queues;
  for (auto& queue : queues)
    queue.queue = shortened(queue.queue);
  std::vector<cells> nodes{
    {"node", "lives", "slots", "up for", "seen before", "queues"}};
  for (const auto& node : x.nodes)
    nodes.push_back(
      {shortened(node.node), node.lives ? "yes" : "no",
       std::to_string(node.slots), age_text(now - node.started_at_us),
       age_text(now - node.seen_at_us),
       gd::printable(fmt::format("{}", fmt::join(node.queues, ", ")))});
  return (before ? rates_of(x.activity, *before)
                 : "rates: from the second look on\n")
         + '\n' + table_of(queues, now) + '\n' + table_of(nodes, "<<>>><");
}

// -- who looks ----------------------------------------------------------------

/// Looks at the database on a thread of its own: a server that does not answer holds up
/// no key. It is never joined, since nothing ends such a wait.
class watcher {
public:
  using clock = std::chrono::steady_clock;

  struct seen {
    std::optional<look> last{};
    std::optional<gd::activity> before{};
    microseconds took{}; ///< the last one
    /// Since then.
    std::optional<gd::error> failure{};
    /// Since when it has been asking, if it is.
    std::optional<clock::time_point> asks{};
  };

  /// Goes on with a connection, or makes one while there is none.
  watcher(const globals& global, std::optional<gd::client> db,
          std::int64_t interval_us)
    : global_(global), db_(std::move(db)), interval_(interval_us) {
    sigset_t all;
    sigset_t mine;
    sigfillset(&all); // a signal is for the one who draws
    pthread_sigmask(SIG_SETMASK, &all, &mine);
    std::thread{[this] { run(); }}.detach();
    pthread_sigmask(SIG_SETMASK, &mine, nullptr);
  }

  /// Readable when there is something new.
  int news() const noexcept {
    return news_;
  }

  seen take() {
    std::uint64_t count = 0;
    [[maybe_unused]] auto n = read(news_, &count, sizeof(count));
    std::lock_guard guard{mutex_};
    return seen_;
  }

private:
  [[noreturn]] void run() {
    while (true) {
      auto begin = clock::now();
      {
        std::lock_guard guard{mutex_};
        seen_.asks = begin;
      }
      auto next = look_again();
      auto took = std::chrono::duration_cast<microseconds>(clock::now()
                                                           - begin);
      {
        std::lock_guard guard{mutex_};
        seen_.asks.reset();
        if (!next) {
          seen_.failure = next.error();
        } else {
          if (seen_.last)
            seen_.before = seen_.last->activity;
          seen_.last = std::move(*next);
          seen_.took = took;
          seen_.failure.reset();
        }
      }
      std::uint64_t one = 1;
      [[maybe_unused]] auto n = write(news_, &one, sizeof(one));
      std::this_thread::sleep_for(interval_);
    }
  }

  gd::result<look> look_again() {
    if (!db_) {
      auto made = open_database(global_, does::read);
      if (!made)
        return made.error();
      db_.emplace(std::move(*made));
    }
    return look_at(*db_);
  }

  const globals& global_;
  std::optional<gd::client> db_; ///< connects again by itself
  microseconds interval_;
  int news_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::mutex mutex_;
  seen seen_;
};

// -- the terminal -------------------------------------------------------------

termios terminal_before;

/// Also from a signal's handler.
void give_terminal_back() noexcept {
  constexpr std::string_view back = "\x1b[?25h\x1b[?1049l";
  [[maybe_unused]] auto n = write(STDOUT_FILENO, back.data(), back.size());
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal_before);
}

/// The other screen, without a cursor, where keys come at once; until it is destroyed or
/// a signal ends the program.
class screen {
public:
  screen() {
    tcgetattr(STDIN_FILENO, &terminal_before);
    auto raw = terminal_before;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    raw.c_cc[VSUSP] = _POSIX_VDISABLE; // stopped, it would leave its picture
    struct sigaction end {};
    end.sa_handler = [](int number) {
      give_terminal_back();
      signal(number, SIG_DFL);
      raise(number);
    };
    end.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (auto number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
      sigaction(number, &end, nullptr);
    struct sigaction resized {};
    resized.sa_handler = [](int) {}; // interrupts the wait for keys
    sigaction(SIGWINCH, &resized, nullptr);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    write_out("\x1b[?1049h\x1b[?25l");
  }

  ~screen() {
    give_terminal_back();
  }

  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  /// Draws lines over what is there, cut to the terminal's size. Returns errno, or 0.
  int draw(std::string_view text) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
      size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    std::string out = "\x1b[H";
    int row = 0;
    for (; row < size.ws_row && !text.empty(); ++row) {
      auto line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      // Cleared first: behind a line that is full, its last character would go.
      out += row > 0 ? "\r\n\x1b[K" : "\x1b[K";
      out += cut(line, size.ws_col);
    }
    return write_out(out + (row < size.ws_row ? "\r\n\x1b[J" : ""));
  }
};

std::string picture_of(const watcher::seen& x, const globals& global,
                       const top_options& how, bool held) {
  auto text = fmt::format(
    "gdctl top{}), schema {}, every {}{}{}\n",
    held ? ", HELD (q: quit, p: go on" : " (q: quit, p: hold the picture",
    gd::printable(global.schema), how.interval,
    x.last ? ", at " + time_text(x.last->activity.at_us) : "",
    x.last ? fmt::format(" in {} ms", x.took.count() / 1'000) : "");
  auto waits = std::chrono::duration_cast<std::chrono::seconds>(
    x.asks && !held ? watcher::clock::now() - *x.asks
                    : watcher::clock::duration{});
  auto why = x.failure ? gd::printable(x.failure->message) : std::string{};
  for (std::string_view rest = why; !rest.empty();) {
    auto line = cut(rest, 79); // it is long, and its end is what matters
    text += fmt::format("{}\n", line);
    rest.remove_prefix(line.size());
  }
  if (waits.count() > 0)
    text += fmt::format("no answer for {} s\n", waits.count());
  return text + (x.last ? text_of(*x.last, x.before) : "");
}

/// What a key means: end, hold, or nothing.
enum class key { none, quit, hold };

/// Waits for a key, for something new, for another size, or a second.
key wait_for(const watcher& on) {
  pollfd fds[]{{STDIN_FILENO, POLLIN, 0}, {on.news(), POLLIN, 0}};
  if (poll(fds, 2, 1'000) <= 0 || fds[0].revents == 0)
    return key::none;
  char pressed = 'q'; // a terminal that is gone
  if (read(STDIN_FILENO, &pressed, 1) < 0)
    pressed = 'q';
  return pressed == 'q' ? key::quit : pressed == 'p' ? key::hold : key::none;
}

int watch(const globals& global, std::optional<gd::client> db,
          const top_options& how, std::int64_t interval_us) {
  // Lives as long as its thread.
  auto& on = *new watcher{global, std::move(db), interval_us};
  {
    screen shown;
    watcher::seen now;
    bool held = false;
    while (true) {
      auto pressed = wait_for(on);
      held = held != (pressed == key::hold);
      if (pressed == key::quit)
        break;
      auto next = on.take();
      if (!held)
        now = std::move(next);
      if (shown.draw(picture_of(now, global, how, held)) != 0)
        break;
    }
  }
  std::_Exit(ok); // its thread may wait for the server
}

int top(const globals& global, const top_options& how) {
  auto interval = parse_delay("--interval", how.interval);
  if (!interval)
    return fail(interval.error());
  if (*interval < shortest_interval || *interval > longest_interval)
    return fail(bad_usage("--interval: expected 100ms to 1h, got "
                          + json_string(how.interval)));
  bool watches = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1
                 && !how.once && !how.as_json;
  auto db = open_database(global, does::read);
  if (!db && watches && db.error().code == gd::errc::unavailable)
    return watch(global, {}, how, *interval);
  if (!db)
    return fail(db.error());
  if (watches)
    return watch(global, std::move(*db), how, *interval);
  auto now = look_at(*db);
  if (!now)
    return fail(now.error());
  return print(how.as_json ? *json_line(*now) : text_of(*now, {}));
}

} // namespace

void add_top(parser& app) {
  auto opts = std::make_shared<top_options>();
  auto sub = app.add_command("top", "Watch queues and nodes");
  sub.add_option("--interval", opts->interval, "How often it looks")
    .shows_default();
  sub.add_flag("--once", opts->once,
               "Look once and end, as it does where there is no terminal");
  sub.add_flag("--json", opts->as_json, "The same, as a JSON object");
  sub.describe(
    "Of each queue what gdctl queues tells, in the same time whatever "
    "the table's size:\n\"10000+\" was not counted further. Rates are the "
    "server's counts of rows that were\nwritten, a second late. Waits for a "
    "server that is away. q ends it, p holds the\npicture.",
    {"gdctl top", "gdctl top --interval 500ms", "gdctl top --once",
     "gdctl top --json | jq '.queues[] | select(.due > 0)'"});
  sub.runs(opts, top);
}

} // namespace gdctl
