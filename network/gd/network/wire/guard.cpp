#include <gd/network/wire/guard.hpp>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Bytes that wait here in either direction; the rest waits where it comes from.
constexpr std::size_t most_held = 256 << 10;
/// A message up to this size may come without regard to what others send.
constexpr std::size_t short_message = 64 << 10;
/// Messages that CAF has, and no actor has taken: of a peer, and what all of them share;
/// and their bytes, of a peer.
constexpr std::size_t most_waiting = 1'024;
constexpr std::size_t most_waiting_of_all = 4'096;
constexpr std::size_t least_waiting = 16;
constexpr std::size_t most_waiting_bytes = 4 << 20;
/// A short message is about as long.
constexpr std::size_t usual_message = 64;
/// Peers that have not said who they are.
constexpr std::ptrdiff_t most_strangers = 256;
/// Between signs of life: much less than what anybody may take for silence.
constexpr milliseconds beat{1'000};
/// How long a message may take, and what is left of a connection that ends.
constexpr milliseconds message_time{60'000};
constexpr milliseconds farewell{10'000};
/// Between looks at the clock while there is a connection.
constexpr milliseconds look_interval{250};
/// Whoever asks for more than its share is read slowly for so long: so many messages
/// between looks, of all of them together, and of one.
constexpr milliseconds slow_time{1'000};
constexpr std::size_t slow_messages = 1'000;
constexpr std::size_t least_slow_messages = 2;
/// Until there may be a descriptor again.
constexpr milliseconds no_descriptor_pause{100};

/// Bytes on their way to a socket.
class outgoing {
public:
  std::string& bytes() {
    return bytes_;
  }
  std::size_t size() const {
    return bytes_.size() - at_;
  }
  bool empty() const {
    return size() == 0;
  }
  void clear() {
    bytes_ = {};
    at_ = 0;
  }

  /// How many it has taken. Whoever takes none any more may still have said something
  /// before: its end is found by reading, behind that.
  std::size_t write_to(int fd) {
    auto sent = send(fd, bytes_.data() + at_, size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
      clear();
    if (sent < 0)
      return 0;
    auto n = static_cast<std::size_t>(sent);
    at_ += n;
    if (empty() && bytes_.capacity() > most_held)
      clear();
    else if (empty() || at_ >= most_held)
      bytes_.erase(0, std::exchange(at_, 0));
    return n;
  }

private:
  std::string bytes_;
  std::size_t at_ = 0;
};

bool is_over(ssize_t n) {
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/// Of the process as a whole: the database's connections are to find some.
bool few_descriptors(int newest) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // The lowest that is free is given out: those below it are taken.
  auto kept = std::min<rlim_t>(limit.rlim_cur / 4, 64);
  return static_cast<rlim_t>(newest) + kept >= limit.rlim_cur;
}

/// Whoever is at the other end of a path.
std::optional<ucred> user_of(const descriptor& peer) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  ucred who{};
  socklen_t who_size = sizeof(who);
  if (getsockname(peer.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0
      || at.ss_family != AF_UNIX
      || getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &who_size) != 0)
    return std::nullopt;
  return who;
}

std::string name_of(const descriptor& peer) {
  if (auto who = user_of(peer))
    return fmt::format("process {} of user {}", who->pid, who->uid);
  sockaddr_in at{};
  socklen_t size = sizeof(at);
  getpeername(peer.get(), reinterpret_cast<sockaddr*>(&at), &size);
  return fmt::format("port {}", ntohs(at.sin_port));
}

descriptor new_spare() {
  return descriptor{open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

} // namespace

/// A peer. While it has not said who it is, there is no CAF.
struct guard::link {
  descriptor peer;
  descriptor caf;
  peer_rules rules;
  std::string name;
  basp_filter filter;
  /// Before anything else; none: the system has told who it is.
  std::optional<secret_handshake> handshake{};
  clock::time_point greet_by;
  std::shared_ptr<std::atomic<bool>> unwanted{};

  outgoing to_peer{};
  outgoing to_caf{};
  std::shared_ptr<peer_count> count{};
  bool admitted = false;
  /// Nothing more is taken from the peer; and CAF has been told.
  bool closing = false;
  bool told = false;
  clock::time_point heard{};
  clock::time_point said{};
  std::uint64_t ended = 0;
  clock::time_point message_by = clock::time_point::max();
  clock::time_point end_by = clock::time_point::max();
  clock::time_point slow_until{};
  clock::time_point read_next{};

  bool waits_for_peer() const {
    return to_peer.size() >= most_held;
  }

  bool waits_for_caf(std::size_t window) {
    if (count) {
      auto taken = count->taken.load();
      filter.taken(taken);
      if (filter.messages_waiting() >= window
          || filter.bytes_waiting() >= most_waiting_bytes) {
        count->wake_at = taken + filter.messages_waiting() / 2;
        return true;
      }
    }
    return to_caf.size() >= most_held;
  }

  /// What it has said while this process was frozen or starved is still to be read.
  void forgive(clock::duration time, clock::time_point now) {
    heard = std::min(heard + time, now);
    if (message_by != clock::time_point::max())
      message_by += time;
    greet_by += time;
  }

  bool reads_peer(clock::time_point now, const shares& of_all) {
    return peer && !closing && now >= read_next && !waits_for_peer()
           && !waits_for_caf(of_all.window);
  }

  bool is_slow(clock::time_point now) {
    if (count && count->refused.exchange(false))
      slow_until = now + slow_time;
    return now < slow_until;
  }

  /// How much may be read now.
  std::size_t may_read(const shares& of_all) const {
    auto most = std::min(short_message, of_all.window * usual_message);
    // Of a long one that has begun the rest may come at once.
    return filter.held() >= most ? short_message : most;
  }

  void has_read(std::uint64_t messages, clock::time_point now,
                const shares& of_all) {
    if (is_slow(now))
      read_next = now + look_interval * messages / of_all.slow_messages;
  }

  bool reads_caf() const {
    return caf && !waits_for_peer();
  }
};

guard::guard() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  thread_ = std::thread{[this] { run(); }};
}

guard::guard(guard_settings settings, descriptor listener)
  : settings_(std::move(settings)),
    wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
    listener_(std::move(listener)),
    spare_(new_spare()) {
  thread_ = std::thread{[this] { run(); }};
}

guard::~guard() {
  {
    std::lock_guard held{mutex_};
    stops_ = true;
  }
  wake();
  if (thread_.joinable())
    thread_.join();
}

void guard::adopt(descriptor peer, descriptor caf, peer_rules rules,
                  milliseconds handshake,
                  std::shared_ptr<std::atomic<bool>> unwanted) {
  auto filter = basp_filter{rules.messages, rules.new_alias};
  auto now = clock::now();
  auto x = std::make_unique<link>(link{.peer = std::move(peer),
                                       .caf = std::move(caf),
                                       .rules = std::move(rules),
                                       .name = {},
                                       .filter = std::move(filter),
                                       .greet_by = now + handshake,
                                       .unwanted = std::move(unwanted)});
  {
    std::lock_guard held{mutex_};
    adopted_.push_back(std::move(x));
  }
  wake();
}

void guard::close_listener() {
  {
    std::lock_guard held{mutex_};
    listens_ = false;
  }
  wake();
}

void guard::finish(milliseconds patience) {
  {
    std::lock_guard held{mutex_};
    listens_ = false;
    finishes_ = patience;
  }
  wake();
  if (thread_.joinable())
    thread_.join();
}

void guard::wake() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(wake_.get(), &one, sizeof(one));
}

// -- the thread ---------------------------------------------------------------

void guard::run() {
  // Asked right before it waits: what is over then would wake nobody.
  for (auto now = clock::now(); obey(now); now = clock::now()) {
    auto idle = links_.empty();
    wait();
    now = clock::now();
    auto stood_still = now - std::exchange(looked_at_, now) - 2 * look_interval;
    if (!idle && stood_still > clock::duration::zero())
      for (auto& x : links_)
        x->forgive(stood_still, now);
    for (auto& x : links_)
      keep_to_times(*x, now);
    keep_to_bytes(now);
    std::erase_if(links_, [this](const auto& x) {
      if (x->peer || x->caf)
        return false;
      admitted_ -= x->admitted ? 1 : 0;
      return true;
    });
  }
}

bool guard::obey(clock::time_point now) {
  std::optional<milliseconds> finishes;
  {
    std::lock_guard held{mutex_};
    if (stops_)
      return false;
    for (auto& x : adopted_) {
      x->heard = x->said = now;
      links_.push_back(std::move(x));
    }
    adopted_.clear();
    if (!listens_)
      listener_.reset();
    finishes = finishes_;
  }
  if (!finishes)
    return true;
  for (auto& x : links_) {
    if (!x->caf && !x->filter.greeted())
      x->peer.reset();
    if (!std::exchange(x->closing, true))
      x->said = now;
    if (now - x->said > *finishes) {
      x->peer.reset();
      x->caf.reset();
    }
  }
  return !links_.empty();
}

void guard::share_out(clock::time_point now) {
  auto slow = static_cast<std::size_t>(
    std::count_if(links_.begin(), links_.end(),
                  [now](const auto& x) { return x->is_slow(now); }));
  shares_.window = std::clamp(most_waiting_of_all
                                / std::max(admitted_, std::size_t{1}),
                              least_waiting, most_waiting);
  shares_.slow_messages = std::max(
    slow_messages / std::max(slow, std::size_t{1}), least_slow_messages);
}

void guard::wait() {
  std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
  auto accepts = listener_ && clock::now() >= accepts_at_;
  waits.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
  auto watch = [&waits](const descriptor& what, bool reads, bool writes) {
    auto events = static_cast<short>((reads ? POLLIN : 0)
                                     | (writes ? POLLOUT : 0));
    // Without a wish it would still be told of the end, again and again.
    waits.push_back({events != 0 ? what.get() : -1, events, 0});
  };
  auto before = clock::now();
  share_out(before);
  for (auto& x : links_) {
    watch(x->peer, x->reads_peer(before, shares_), !x->to_peer.empty());
    watch(x->caf, x->reads_caf(), !x->to_caf.empty());
  }
  auto idle = links_.empty() && (accepts || !listener_);
  poll(waits.data(), waits.size(),
       idle ? -1 : static_cast<int>(look_interval.count()));
  auto now = clock::now();
  std::uint64_t count = 0;
  if (waits[0].revents != 0)
    while (read(wake_.get(), &count, sizeof(count)) > 0)
      ; // nop
  constexpr auto ended = POLLIN | POLLHUP | POLLERR;
  for (std::size_t i = 0; 2 * i + 3 < waits.size(); ++i) {
    auto& x = *links_[i];
    auto of_peer = waits[2 * i + 2].revents;
    auto of_caf = waits[2 * i + 3].revents;
    if ((of_caf & ended) != 0 && x.reads_caf())
      read_caf(x, now);
    if ((of_peer & ended) != 0 && x.reads_peer(now, shares_))
      read_peer(x, now);
    // What has just been read goes on at once.
    write_peer(x, now);
    write_caf(x);
  }
  if (waits[1].revents != 0)
    accept_some(now);
}

void guard::keep_to_times(link& x, clock::time_point now) {
  if (now >= x.end_by) {
    x.peer.reset();
    lose_caf(x, now);
  }
  if (x.closing && x.caf && x.to_caf.empty() && !std::exchange(x.told, true))
    shutdown(x.caf.get(), SHUT_WR);
  if (x.unwanted && *x.unwanted && !x.closing)
    lose_peer(x, now);
  if (!x.peer)
    return;
  if (!x.filter.greeted()) {
    if (now >= x.greet_by)
      cut(x, "has not said who it is in time", now);
    return;
  }
  if (x.waits_for_peer()) {
    if (now - x.said > x.rules.silence)
      return cut(x, "does not read", now);
  } else if (!x.reads_peer(now, shares_)) {
    x.heard = now; // it is not to blame
  } else if (now - x.heard > x.rules.silence) {
    return cut(x, "has been silent for too long", now);
  }
  if (now >= x.message_by)
    return cut(x, "does not end its message", now);
  if (!x.closing && x.to_peer.empty() && now - x.said >= beat) {
    x.filter.beat(x.to_peer.bytes());
    write_peer(x, now);
  }
}

void guard::keep_to_bytes(clock::time_point now) {
  if (!settings_)
    return;
  std::size_t sum = 0;
  link* longest = nullptr;
  for (auto& x : links_) {
    if (!x->peer || x->filter.longest() <= short_message)
      continue;
    sum += x->filter.longest();
    if (longest == nullptr || x->filter.longest() > longest->filter.longest())
      longest = x.get();
  }
  if (sum <= settings_->bytes)
    return;
  cut(*longest, "has sent the longest messages where memory was short", now);
  keep_to_bytes(now);
}

// -- coming -------------------------------------------------------------------

void guard::accept_some(clock::time_point now) {
  constexpr int at_once = 64;
  for (int i = 0; i < at_once; ++i) {
    descriptor peer{
      accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (peer)
      welcome(std::move(peer), now);
    else if (errno == EAGAIN)
      return;
    else if (errno != ECONNABORTED && errno != EINTR)
      return refuse_one(now);
  }
}

void guard::refuse_one(clock::time_point now) {
  spare_.reset();
  descriptor{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}.reset();
  spare_ = new_spare();
  accepts_at_ = now + no_descriptor_pause;
  complain("a peer", "finds no descriptor", now);
}

void guard::welcome(descriptor peer, clock::time_point now) {
  auto name = name_of(peer);
  if (few_descriptors(peer.get()))
    return complain(name, "finds too few descriptors", now);
  auto who = user_of(peer);
  if (who && who->uid != 0 && who->uid != geteuid())
    return complain(name, "is of another user", now);
  auto is_stranger = [](const auto& x) {
    return x->peer && !x->filter.greeted();
  };
  if (std::count_if(links_.begin(), links_.end(), is_stranger)
      >= most_strangers)
    cut(**std::find_if(links_.begin(), links_.end(), is_stranger),
        "has made room, not having said who it is", now);
  std::optional<secret_handshake> handshake;
  if (settings_->secret)
    handshake.emplace(*settings_->secret, secret_handshake::role::server);
  links_.push_back(std::make_unique<link>(
    link{.peer = std::move(peer),
         .caf = {},
         .rules = settings_->rules,
         .name = std::move(name),
         .filter = {settings_->rules.messages, settings_->rules.new_alias},
         .handshake = std::move(handshake),
         .greet_by = now + settings_->handshake,
         .heard = now,
         .said = now}));
}

void guard::admit(link& x, clock::time_point now) {
  if (admitted_ >= settings_->connections)
    return cut(x, fmt::format("is one too many: {} are connected", admitted_),
               now);
  auto [ours, theirs] = socket_pair();
  if (!theirs || few_descriptors(theirs.get()))
    return cut(x, "finds too few descriptors", now);
  ++admitted_;
  x.admitted = true;
  x.caf = std::move(ours);
  x.count = settings_->hand_over(std::move(theirs), x.filter.alias());
}

// -- going on -----------------------------------------------------------------

void guard::read_peer(link& x, clock::time_point now) {
  std::array<char, short_message> bytes;
  auto n = recv(x.peer.get(), bytes.data(), x.may_read(shares_), 0);
  if (is_over(n))
    return lose_peer(x, now);
  if (n < 0)
    return;
  x.heard = now;
  std::string_view said{bytes.data(), static_cast<std::size_t>(n)};
  if (x.handshake)
    if (auto fault = x.handshake->take(said, x.to_peer.bytes()))
      return cut(x, fmt::format("has sent {}", to_string(*fault)), now);
  auto greeted = x.filter.greeted();
  auto ended = x.filter.ended();
  auto fault = x.filter.from_peer(said, x.to_caf.bytes(), x.to_peer.bytes());
  if (!greeted && x.filter.greeted() && !x.caf)
    admit(x, now);
  if (fault)
    return cut(x, fmt::format("has sent {}", to_string(*fault)), now);
  x.has_read(x.filter.ended() - ended, now, shares_);
  if (!x.filter.within_message())
    x.message_by = clock::time_point::max();
  else if (std::exchange(x.ended, x.filter.ended()) != x.filter.ended()
           || x.message_by == clock::time_point::max())
    x.message_by = now + message_time;
}

void guard::read_caf(link& x, clock::time_point now) {
  std::array<char, short_message> bytes;
  auto n = recv(x.caf.get(), bytes.data(), bytes.size(), 0);
  if (is_over(n))
    lose_caf(x, now);
  else if (n > 0 && x.peer)
    x.filter.from_caf({bytes.data(), static_cast<std::size_t>(n)},
                      x.to_peer.bytes());
}

void guard::write_peer(link& x, clock::time_point now) {
  if (x.peer && !x.to_peer.empty() && x.to_peer.write_to(x.peer.get()) > 0)
    x.said = now;
  if (x.closing && !x.caf && x.to_peer.empty())
    x.peer.reset();
}

void guard::write_caf(link& x) {
  if (x.caf && !x.to_caf.empty())
    x.to_caf.write_to(x.caf.get());
}

// -- ending -------------------------------------------------------------------

void guard::lose_peer(link& x, clock::time_point now) {
  x.peer.reset();
  x.to_peer.clear();
  x.closing = true;
  x.end_by = now + farewell;
}

void guard::lose_caf(link& x, clock::time_point now) {
  if (!x.caf)
    return;
  x.caf.reset();
  x.to_caf.clear();
  x.closing = true;
  x.end_by = now + farewell;
  x.rules.ended(x.filter.alias());
}

void guard::cut(link& x, const std::string& why, clock::time_point now) {
  complain(x.name, why, now);
  lose_peer(x, now);
}

void guard::complain(const std::string& peer, const std::string& why,
                     clock::time_point now) {
  if (!settings_)
    return;
  if (auto times = complaints_.note(why, now); times > 0)
    settings_->tell(events::peer_cut_off{peer, why, times});
}

} // namespace gd::actors
