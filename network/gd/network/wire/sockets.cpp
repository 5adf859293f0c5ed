#include <gd/network/wire/sockets.hpp>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <system_error>

namespace gd::actors {

namespace {

/// What connects while nobody looks.
constexpr int backlog = 512;

/// An address in the form that the system's calls take.
struct raw_address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);
  }
};

error bad_endpoint(std::string message) {
  return {errc::invalid_argument, std::move(message), {}};
}

error failed(const std::string& what) {
  return {errc::unavailable,
          what + ": " + std::generic_category().message(errno),
          {}};
}

template <class T>
raw_address raw(const T& x) {
  raw_address out;
  std::memcpy(&out.bytes, &x, sizeof(x));
  out.size = sizeof(x);
  return out;
}

result<raw_address> raw(const endpoint& x) {
  if (!x.path.empty()) {
    sockaddr_un unix_address{};
    unix_address.sun_family = AF_UNIX;
    if (x.path.size() >= sizeof(unix_address.sun_path))
      return bad_endpoint(
        fmt::format("expected a socket's path of at most {} bytes, "
                    "got {}: \"{}\"",
                    sizeof(unix_address.sun_path) - 1, x.path.size(), x.path));
    x.path.copy(unix_address.sun_path, x.path.size());
    return raw(unix_address);
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(x.port);
  if (inet_pton(AF_INET, x.address.c_str(), &four.sin_addr) == 1)
    return raw(four);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(x.port);
  inet_pton(AF_INET6, x.address.c_str(), &six.sin6_addr);
  return raw(six);
}

descriptor new_socket(const raw_address& at) {
  descriptor fd{
    socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  int on = 1;
  if (fd && at.bytes.ss_family != AF_UNIX)
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

/// Removes what a dead process has left at the path. An error: somebody lives there.
result<void> make_room(const endpoint& x, const raw_address& at) {
  struct stat found {};
  if (lstat(x.path.c_str(), &found) != 0)
    return {};
  if (!S_ISSOCK(found.st_mode))
    return bad_endpoint("expected a socket or nothing at " + x.path
                        + ", found another kind of file");
  auto fd = new_socket(at);
  if (connect(fd.get(), at.get(), at.size) == 0 || errno != ECONNREFUSED)
    return error{
      errc::unavailable, "another process listens at " + to_string(x), {}};
  unlink(x.path.c_str());
  return {};
}

} // namespace

void descriptor::reset(int fd) {
  if (fd_ >= 0)
    close(fd_);
  fd_ = fd;
}

std::pair<descriptor, descriptor> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
             ends.data());
  return {descriptor{ends[0]}, descriptor{ends[1]}};
}

descriptor renumbered(descriptor x) {
  static std::atomic<int> last{0};
  // What the kernel keeps grows with the largest, by a few bytes each.
  constexpr int most = 16'384;
  auto high = few_left_at();
  auto low = std::min(64, high / 2);
  auto from = last + 1;
  if (from < low || from >= std::min(low + most, high))
    from = low;
  descriptor other{fcntl(x.get(), F_DUPFD_CLOEXEC, from)};
  bool fits = other && other.get() < high;
  last = fits ? other.get() : 0;
  return fits ? std::move(other) : std::move(x);
}

int few_left_at() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  auto most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
  return most - std::min(most / 4, 64);
}

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1)
    return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, address.c_str(), &six) == 1
         && IN6_IS_ADDR_LOOPBACK(&six);
}

result<endpoint> to_endpoint(const std::string& text) {
  constexpr std::string_view by_path = "unix:";
  if (text.starts_with(by_path) && text.size() > by_path.size())
    return endpoint{.path = text.substr(by_path.size())};
  auto colon = std::min(text.rfind(':'), text.size());
  endpoint x{.address = text.substr(0, colon)};
  if (x.address.starts_with('[') && x.address.ends_with(']'))
    x.address = x.address.substr(1, x.address.size() - 2);
  if (x.address == "localhost")
    x.address = "127.0.0.1";
  const auto* end = text.data() + text.size();
  auto parsed = std::from_chars(std::min(text.data() + colon + 1, end), end,
                                x.port);
  if (parsed.ec != std::errc{} || parsed.ptr != end || x.port == 0)
    return bad_endpoint("expected unix:<path> or <address>:<port>, got \""
                        + text + "\"");
  if (!is_loopback(x.address))
    return bad_endpoint(
      "expected a loopback address (127.0.0.1) or localhost, got \"" + x.address
      + "\"; between machines, a tunnel carries the connection");
  return x;
}

std::string to_string(const endpoint& x) {
  if (!x.path.empty())
    return "unix:" + x.path;
  bool six = x.address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", six ? "[" : "", x.address, six ? "]" : "",
                     x.port);
}

result<descriptor> listen_at(const endpoint& x) {
  auto at = raw(x);
  if (!at)
    return at.error();
  if (!x.path.empty())
    if (auto ok = make_room(x, *at); !ok)
      return ok.error();
  auto fd = new_socket(*at);
  int on = 1;
  if (fd && x.path.empty())
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Before there is a file: it never has other rights.
  if (!fd || fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0
      || bind(fd.get(), at->get(), at->size) != 0
      || listen(fd.get(), backlog) != 0)
    return failed("cannot listen at " + to_string(x));
  return fd;
}

std::uint16_t port_of(const descriptor& listener) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size);
  // Both kinds have it at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&at)->sin_port);
}

result<descriptor> dial(const endpoint& x, std::chrono::milliseconds timeout) {
  using clock = std::chrono::steady_clock;
  // Between tries at a path: nobody tells when there is room in its queue.
  constexpr int a_moment = 10;
  auto at = raw(x);
  if (!at)
    return at.error();
  auto fd = new_socket(*at);
  auto until = clock::now() + timeout;
  int why = 0;
  auto attempt = [&] {
    return fd && connect(fd.get(), at->get(), at->size) == 0 ? 0 : errno;
  };
  while ((why = attempt()) == EAGAIN && clock::now() < until)
    poll(nullptr, 0, a_moment);
  if (why == EINPROGRESS) {
    pollfd ready{fd.get(), POLLOUT, 0};
    socklen_t size = sizeof(why);
    why = ETIMEDOUT;
    if (poll(&ready, 1, static_cast<int>(timeout.count())) == 1)
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &why, &size);
  }
  if (why == 0)
    return fd;
  if (why == ECONNREFUSED || why == ENOENT)
    return error{errc::unavailable, "nobody listens at " + to_string(x), {}};
  errno = why;
  return failed("cannot connect to " + to_string(x));
}

} // namespace gd::actors
