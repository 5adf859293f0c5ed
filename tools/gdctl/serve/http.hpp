#pragma once

#include <gd/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// gdctl serve: a page and what it asks for, over HTTP.
namespace gdctl::serve {

/// Of an answer; headers that all of them have are the server's.
struct response {
  int status = 200;
  std::string_view type = "application/json; charset=utf-8";
  std::string body{};
  /// Of 405: the methods that there are.
  std::string_view allow{};
  /// Of what fails: what scripts go by.
  std::string_view code{};
};

using answer = std::shared_ptr<const response>;
/// To be called once, from any thread.
using reply = std::function<void(answer)>;
/// Begins to look for an answer.
using later = std::function<void(reply)>;

/// As it came: nothing is decoded.
struct request {
  /// Of the connection: whoever has it asks one thing after the other.
  std::uint64_t from = 0;
  std::string method{};
  std::string target{}; ///< path and query
  /// Names in lower case.
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};

  /// Empty: it has none. A header that is there twice is no header: `twice`.
  std::string_view header(std::string_view name) const;
  bool twice(std::string_view name) const;
};

/// What the server asks; on its thread, so it must not wait.
class handler {
public:
  virtual ~handler() = default;

  /// When the headers are there, before a body is read; null: go on.
  virtual answer refuse(const request& what) = 0;
  /// With the body.
  virtual std::variant<answer, later> handle(request what) = 0;
};

struct bounds {
  std::size_t body = 64 << 10;    ///< bytes
  std::size_t headers = 16 << 10; ///< bytes, with the request's line
  unsigned connections = 4'000;   ///< at a time, if as many files may be open
  /// Of answers that are under way: then those that are not small are refused, so that who
  /// reads slowly takes no more memory.
  std::size_t answers = 256 << 20;
  std::size_t small = 64 << 10;
};

/// Answers requests on one thread, by epoll, whatever else is connected. Who takes too long
/// for a request, or to take some of its answer, is cut off; where few places are left, so
/// are those who ask nothing.
class http_server {
public:
  /// Takes the socket, which listens.
  static gd::result<http_server> start(int listening, handler& to,
                                       bounds most = {});

  /// All that was begun must have been answered.
  ~http_server();
  http_server(http_server&&) noexcept;
  http_server& operator=(http_server&&) = delete;

  /// To be called every second or so: cuts off who is too slow.
  void cut_slow();
  /// Takes no more connections.
  void close();

private:
  struct impl;
  explicit http_server(std::unique_ptr<impl> x);

  std::unique_ptr<impl> impl_;
};

} // namespace gdctl::serve
