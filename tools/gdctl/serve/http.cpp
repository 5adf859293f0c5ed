#include "serve/http.hpp"

#include "serve/access.hpp"

#include <microhttpd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace gdctl::serve {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// Since the end of the request before, or since it connected.
constexpr seconds time_for_headers{15};
constexpr seconds time_for_body{10};
/// Or the next part of it.
constexpr seconds time_to_take_an_answer{30};
/// Where places are rare.
constexpr seconds time_to_idle{1};
/// For the database, and for whoever else opens a file.
constexpr unsigned other_files = 64;
constexpr std::size_t part = 64 << 10;

constexpr std::array<std::pair<const char*, const char*>, 7> headers_of_all{{
  {"Content-Security-Policy",
   "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
   "'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
   "form-action 'none'"},
  {"X-Content-Type-Options", "nosniff"},
  {"X-Frame-Options", "DENY"},
  {"Cross-Origin-Opener-Policy", "same-origin"},
  {"Cross-Origin-Resource-Policy", "same-origin"},
  {"Referrer-Policy", "no-referrer"},
  {"Cache-Control", "no-store"},
}};

/// What is under way on a connection.
struct exchange {
  request what{};
  bool begun = false; ///< its headers are there
  answer told{};
};

/// What a connection does, and since when.
enum class phase : std::uint8_t { headers, body, answer, sending };

struct connected {
  std::uint64_t number = 0;
  int fd = -1;
  phase now = phase::headers;
  clock::time_point since = clock::now();
};

seconds time_for(phase x) {
  return x == phase::headers ? time_for_headers
         : x == phase::body  ? time_for_body
                             : time_to_take_an_answer;
}

MHD_Result keep_header(void* to, MHD_ValueKind, const char* name,
                       const char* value) {
  std::string lower{name};
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  static_cast<request*>(to)->headers.emplace_back(std::move(lower),
                                                  value ? value : "");
  return MHD_YES;
}

/// An answer that is under way, and how much of those there is.
struct parcel {
  parcel(answer x, std::function<void()> y, std::size_t& z)
    : what(std::move(x)), moved(std::move(y)), bytes(z) {
    bytes += what->body.size();
  }
  parcel(const parcel&) = delete;
  ~parcel() {
    bytes -= what->body.size();
  }

  static ssize_t read(void* self, std::uint64_t from, char* to,
                      std::size_t most) {
    const auto& me = *static_cast<parcel*>(self);
    me.moved();
    auto size = me.what->body.copy(to, most, from);
    return size > 0 ? static_cast<ssize_t>(size)
                    : MHD_CONTENT_READER_END_OF_STREAM;
  }

  answer what;
  std::function<void()> moved; ///< some of it has been taken
  std::size_t& bytes;
};

MHD_Result send(MHD_Connection* to, std::unique_ptr<parcel> sent) {
  auto what = sent->what;
  auto* made = MHD_create_response_from_callback(
    what->body.size(), std::min(part, what->body.size() + 1), parcel::read,
    sent.get(), [](void* x) { delete static_cast<parcel*>(x); });
  if (made == nullptr)
    return MHD_NO;
  static_cast<void>(sent.release()); // it is the response's
  for (auto [name, value] : headers_of_all)
    MHD_add_response_header(made, name, value);
  MHD_add_response_header(made, "Content-Type",
                          std::string{what->type}.c_str());
  if (what->status == 400) // where it ends, nobody may know
    MHD_add_response_header(made, "Connection", "close");
  if (!what->allow.empty())
    MHD_add_response_header(made, "Allow", std::string{what->allow}.c_str());
  auto done = MHD_queue_response(to, static_cast<unsigned>(what->status), made);
  MHD_destroy_response(made);
  return done;
}

/// A thousand that are idle need as many files: for how many there are.
unsigned allow_files(unsigned connections) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0)
    return connections;
  auto had = files.rlim_cur;
  files.rlim_cur = std::min<rlim_t>(
    files.rlim_max, std::max<rlim_t>(had, connections + other_files));
  auto now = setrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : had;
  return static_cast<unsigned>(
    std::clamp<rlim_t>(now, other_files + 1, connections + other_files)
    - other_files);
}

} // namespace

std::string_view request::header(std::string_view name) const {
  auto found = std::find_if(headers.begin(), headers.end(),
                            [&](const auto& x) { return x.first == name; });
  return found == headers.end() ? std::string_view{} : found->second;
}

bool request::twice(std::string_view name) const {
  return std::count_if(headers.begin(), headers.end(),
                       [&](const auto& x) { return x.first == name; })
         > 1;
}

struct http_server::impl {
  impl(handler& asked, bounds bound) : to(asked), most(bound) {
    // nop
  }

  void enter(MHD_Connection* whose, phase now) {
    std::lock_guard guard{mutex};
    auto& x = connections[whose];
    x.now = now;
    x.since = clock::now();
  }

  std::uint64_t number_of(MHD_Connection* which) {
    std::lock_guard guard{mutex};
    return connections[which].number;
  }

  MHD_Result advance(MHD_Connection* from, exchange& x, const char* method,
                     const char* chunk, std::size_t* size);
  MHD_Result tell(MHD_Connection* to_whom, answer what) {
    auto size = what->body.size();
    if (size > most.small && under_way + size > most.answers)
      what = refusal(503, "overloaded", "too many answers are under way");
    auto moved = [this, to_whom] { enter(to_whom, phase::sending); };
    moved();
    return send(to_whom,
                std::make_unique<parcel>(std::move(what), moved, under_way));
  }

  static void* on_target(void*, const char* target, MHD_Connection*) {
    auto* x = new exchange;
    x->what.target = target;
    return x;
  }
  static MHD_Result on_request(void* self, MHD_Connection* from, const char*,
                               const char* method, const char*,
                               const char* chunk, std::size_t* size, void** x) {
    return static_cast<impl*>(self)->advance(from, *static_cast<exchange*>(*x),
                                             method, chunk, size);
  }
  static void on_end(void* self, MHD_Connection* from, void** x,
                     MHD_RequestTerminationCode) {
    delete static_cast<exchange*>(*x);
    *x = nullptr;
    static_cast<impl*>(self)->enter(from, phase::headers);
  }
  static void on_connection(void* self, MHD_Connection* whose, void**,
                            MHD_ConnectionNotificationCode what);

  handler& to;
  bounds most;
  MHD_Daemon* daemon = nullptr;
  std::optional<int> listening; ///< what was the daemon's, once it is closed
  std::size_t under_way = 0;    ///< bytes of answers
  std::mutex mutex;
  std::map<MHD_Connection*, connected> connections;
  std::uint64_t numbers = 0;
};

void http_server::impl::on_connection(void* self, MHD_Connection* whose, void**,
                                      MHD_ConnectionNotificationCode what) {
  auto& me = *static_cast<impl*>(self);
  std::lock_guard guard{me.mutex};
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    me.connections.erase(whose); // its socket is open still
    return;
  }
  const auto* info = MHD_get_connection_info(whose,
                                             MHD_CONNECTION_INFO_CONNECTION_FD);
  me.connections[whose] = {.number = ++me.numbers, .fd = info->connect_fd};
}

MHD_Result http_server::impl::advance(MHD_Connection* from, exchange& x,
                                      const char* method, const char* chunk,
                                      std::size_t* size) {
  if (x.told)
    return tell(from, x.told);
  if (!x.begun) {
    x.begun = true;
    x.what.method = method;
    x.what.from = number_of(from);
    MHD_get_connection_values(from, MHD_HEADER_KIND, keep_header, &x.what);
    enter(from, phase::body);
    auto refused = to.refuse(x.what);
    return refused ? tell(from, refused) : MHD_YES;
  }
  if (*size > 0) {
    // Announced, it was refused: this one is told in chunks, and has no end.
    if (x.what.body.size() + *size > most.body)
      return MHD_NO;
    x.what.body.append(chunk, *size);
    *size = 0;
    return MHD_YES;
  }
  auto next = to.handle(std::move(x.what));
  if (auto* told = std::get_if<answer>(&next))
    return tell(from, *told);
  enter(from, phase::answer);
  MHD_suspend_connection(from); // before anybody can resume it
  std::get<later>(next)([from, &x](answer told) {
    x.told = std::move(told);
    MHD_resume_connection(from);
  });
  return MHD_YES;
}

http_server::http_server(std::unique_ptr<impl> x) : impl_(std::move(x)) {
  // nop
}

http_server::http_server(http_server&&) noexcept = default;

gd::result<http_server> http_server::start(int listening, handler& to,
                                           bounds most) {
  most.connections = allow_files(most.connections);
  auto made = std::make_unique<impl>(to, most);
  auto quiet = [](void*, const char*, va_list) {};
  made->daemon = MHD_start_daemon(
    MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME
      | MHD_USE_ERROR_LOG,
    0, nullptr, nullptr, impl::on_request, made.get(), //
    MHD_OPTION_EXTERNAL_LOGGER, +quiet, nullptr,       //
    MHD_OPTION_LISTEN_SOCKET, listening,               //
    MHD_OPTION_CONNECTION_LIMIT, most.connections,     //
    MHD_OPTION_CONNECTION_MEMORY_LIMIT, most.headers,  //
    MHD_OPTION_STRICT_FOR_CLIENT, 1,                   //
    MHD_OPTION_URI_LOG_CALLBACK, impl::on_target, nullptr,
    MHD_OPTION_NOTIFY_COMPLETED, impl::on_end, made.get(),
    MHD_OPTION_NOTIFY_CONNECTION, impl::on_connection, made.get(),
    MHD_OPTION_END);
  if (made->daemon == nullptr) {
    ::close(listening);
    return gd::error{
      gd::errc::unavailable, "the HTTP server does not start", {}};
  }
  return http_server{std::move(made)};
}

http_server::~http_server() {
  if (!impl_)
    return;
  close();
  MHD_stop_daemon(impl_->daemon);
  ::close(*impl_->listening);
}

void http_server::close() {
  if (!impl_->listening)
    impl_->listening = MHD_quiesce_daemon(impl_->daemon);
}

void http_server::cut_slow() {
  auto now = clock::now();
  // Held, so that nobody closes a socket meanwhile, and its number is another's.
  std::lock_guard guard{impl_->mutex};
  std::vector<const connected*> idle;
  for (const auto& [whose, x] : impl_->connections)
    if (x.now != phase::answer && now - x.since > time_for(x.now))
      shutdown(x.fd, SHUT_RDWR);
    else if (x.now == phase::headers && now - x.since > time_to_idle)
      idle.push_back(&x);
  auto size = impl_->connections.size();
  auto many = impl_->most.connections / 4 * 3;
  std::sort(idle.begin(), idle.end(),
            [](const auto* x, const auto* y) { return x->since < y->since; });
  idle.resize(std::min(idle.size(), size - std::min<std::size_t>(size, many)));
  for (const auto* x : idle)
    shutdown(x->fd, SHUT_RDWR);
}

} // namespace gdctl::serve
