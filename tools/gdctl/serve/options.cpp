#include "serve/options.hpp"

#include "common.hpp"
#include "lines.hpp"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

namespace gdctl::serve {

namespace {

constexpr std::string_view unix_prefix = "unix:";
constexpr std::string_view in_hosts = "abcdefghijklmnopqrstuvwxyz0123456789.-";
constexpr std::size_t longest_host = 253;
/// Bytes of a token that is made; characters that any other has at least.
constexpr std::size_t token_bytes = 32;
constexpr std::size_t shortest_token = 32;
constexpr std::size_t longest_token = 1'024;

struct host_and_port {
  std::string host{};
  std::optional<std::uint16_t> port{};
};

/// "[::1]:80", "host:80" or, without a port, either.
std::optional<host_and_port> split(std::string_view text) {
  host_and_port out;
  auto colon = text.rfind(':');
  if (colon != text.npos && text.find(']', colon) == text.npos) {
    std::uint16_t port = 0;
    auto digits = text.substr(colon + 1);
    auto [end, failed] = std::from_chars(digits.data(),
                                         digits.data() + digits.size(), port);
    if (failed != std::errc{} || end != digits.data() + digits.size()
        || port == 0)
      return std::nullopt;
    out.port = port;
    text = text.substr(0, colon);
  }
  if (text.size() > 2 && text.front() == '[' && text.back() == ']')
    text = text.substr(1, text.size() - 2);
  out.host = text;
  return out;
}

/// Of loopback, which this machine alone reaches: as browsers write it; or empty.
std::string loopback(const std::string& host) {
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1)
    return ntohl(four.s_addr) >> 24 == 127 ? host : "";
  in6_addr six{};
  bool is = inet_pton(AF_INET6, host.c_str(), &six) == 1
            && IN6_IS_ADDR_LOOPBACK(&six);
  return is ? "::1" : "";
}

/// Browsers leave out the port that a scheme has anyway.
void add_name(endpoint& to, const std::string& name, std::uint16_t port) {
  auto full = fmt::format("{}:{}", name, port);
  to.names.push_back({full, "http://" + full});
  if (port == 80)
    to.names.push_back({name, "http://" + name});
}

gd::result<void> add_proxy(endpoint& to, std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  auto at = split(name);
  if (!at || at->host.empty() || at->host.size() > longest_host
      || at->host.find_first_not_of(in_hosts) != std::string::npos)
    return bad_usage(
      "--behind-proxy: expected the host, or host:port, by which "
      "browsers know the proxy, got "
      + json_string(name));
  if (!to.path.empty()) // whoever changes something, comes through the proxy
    to.names.front().origin.clear();
  to.names.push_back({name, "https://" + name});
  if (at->port == 443)
    to.names.push_back({at->host, "https://" + at->host});
  to.url = fmt::format("https://{}/, through the proxy; {}", name, to.url);
  return {};
}

gd::result<void> read_listen(endpoint& to, const std::string& text) {
  if (text.starts_with(unix_prefix)) {
    to.path = text.substr(unix_prefix.size());
    if (to.path.empty() || to.path.front() != '/'
        || to.path.size() >= sizeof(sockaddr_un::sun_path))
      return bad_usage("--listen: expected unix: and an absolute path of at "
                       "most 107 bytes, got "
                       + json_string(text));
    to.names = {{"localhost", "http://localhost"}};
    to.url = text;
    return {};
  }
  auto at = split(text);
  if (at)
    to.host = loopback(at->host);
  if (to.host.empty() || !at->port)
    return bad_usage("--listen: expected a loopback address and a port like "
                     "127.0.0.1:8080 or [::1]:8080, or unix:/run/page.sock "
                     "(others reach it through a reverse proxy: see "
                     "--behind-proxy), got "
                     + json_string(text));
  to.port = *at->port;
  bool six = to.host.find(':') != std::string::npos;
  auto shown = six ? fmt::format("[{}]", to.host) : to.host;
  add_name(to, shown, to.port);
  add_name(to, "localhost", to.port);
  to.url = fmt::format("http://{}:{}/", shown, to.port);
  return {};
}

gd::error socket_error(const endpoint& where, int number) {
  return {gd::errc::unavailable,
          fmt::format("--listen {}: {}",
                      where.path.empty()
                        ? fmt::format("{} port {}", where.host, where.port)
                        : where.path,
                      std::strerror(number)),
          {}};
}

/// A socket that was left behind, and that nobody listens at.
void remove_left_behind(const sockaddr_un& at) {
  auto fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return;
  const auto* name = reinterpret_cast<const sockaddr*>(&at);
  bool refused = connect(fd, name, sizeof(at)) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  struct stat what {};
  if (refused && lstat(at.sun_path, &what) == 0 && S_ISSOCK(what.st_mode))
    unlink(at.sun_path);
}

int bind_path(int fd, const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof(at.sun_path) - 1);
  remove_left_behind(at);
  auto before = umask(0117); // its owner, and a proxy of its group
  auto code = bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at));
  umask(before);
  return code;
}

int bind_port(int fd, const endpoint& where) {
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in four{};
  if (inet_pton(AF_INET, where.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(where.port);
    return bind(fd, reinterpret_cast<sockaddr*>(&four), sizeof(four));
  }
  sockaddr_in6 six{};
  inet_pton(AF_INET6, where.host.c_str(), &six.sin6_addr);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(where.port);
  return bind(fd, reinterpret_cast<sockaddr*>(&six), sizeof(six));
}

/// Written to a file that is not there yet. False: it is.
gd::result<bool> make_token(const std::string& path) {
  auto fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST)
    return false;
  if (fd < 0)
    return system_error(path, errno);
  std::array<unsigned char, token_bytes> random{};
  bool made = RAND_bytes(random.data(), random.size()) == 1;
  std::string text;
  for (auto byte : random)
    text += fmt::format("{:02x}", byte);
  text += '\n';
  bool written = made && write(fd, text.data(), text.size()) == std::ssize(text)
                 && fsync(fd) == 0;
  auto number = errno;
  ::close(fd);
  if (written)
    return true;
  unlink(path.c_str());
  if (!made)
    return gd::error{gd::errc::unavailable, "there are no random numbers", {}};
  return system_error(path, number);
}

} // namespace

gd::result<endpoint> read_endpoint(const options& opts) {
  endpoint out;
  if (auto ok = read_listen(out, opts.listen); !ok)
    return ok.error();
  if (!opts.behind_proxy.empty())
    if (auto ok = add_proxy(out, opts.behind_proxy); !ok)
      return ok.error();
  return out;
}

gd::result<int> listen_at(const endpoint& where) {
  bool six = where.host.find(':') != std::string::npos;
  auto family = !where.path.empty() ? AF_UNIX : six ? AF_INET6 : AF_INET;
  auto fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return socket_error(where, errno);
  auto bound = where.path.empty() ? bind_port(fd, where)
                                  : bind_path(fd, where.path);
  if (bound != 0 || listen(fd, SOMAXCONN) != 0) {
    auto number = errno;
    ::close(fd);
    return socket_error(where, number);
  }
  return fd;
}

gd::result<std::string> read_token(const std::string& path) {
  if (auto made = make_token(path); !made)
    return made.error();
  auto fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return system_error(path, errno);
  struct stat what {};
  std::string text(longest_token + 1, '\0');
  bool is_file = fstat(fd, &what) == 0 && S_ISREG(what.st_mode);
  auto size = is_file ? read(fd, text.data(), text.size()) : 0;
  ::close(fd);
  bool ours = is_file && (what.st_uid == geteuid() || what.st_uid == 0);
  if (!ours || (what.st_mode & 077) != 0)
    return bad_usage("--token-file: expected a file of yours that its owner "
                     "alone may read (chmod 600), got "
                     + json_string(path));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  drop_mark(text);
  while (text.ends_with('\n') || text.ends_with('\r'))
    text.pop_back();
  bool printable = std::all_of(text.begin(), text.end(),
                               [](char c) { return c > ' ' && c < '\x7f'; });
  if (text.size() < shortest_token || text.size() > longest_token || !printable)
    return bad_usage(fmt::format("--token-file: expected one line of {} to {} "
                                 "characters without blanks in {}",
                                 shortest_token, longest_token,
                                 json_string(path)));
  return text;
}

} // namespace gdctl::serve
