#include <gd/network/wire/relay.hpp>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
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
/// Within that, whoever lives is heard of.
constexpr milliseconds sign_of_life = 5 * beat / 2;
/// How long a message may take, and what is left of a connection that ends.
constexpr milliseconds message_time{60'000};
constexpr milliseconds farewell{10'000};
/// Between checks at the clock while there is a connection.
constexpr milliseconds check_interval{250};
/// Whoever asks for more than its share is read slowly for so long: so many messages
/// between checks, of all of them together, and of one.
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
  // The lowest that is free is given out: those below it are taken.
  return newest >= few_left_at();
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

std::shared_ptr<const descriptor> new_wake() {
  return std::make_shared<const descriptor>(
    eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void write_wake(const descriptor& to) {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(to.get(), &one, sizeof(one));
}

descriptor new_spare() {
  return descriptor{open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

} // namespace

/// A peer. While it has not said who it is, there is no CAF.
struct relay::link {
  descriptor peer;
  descriptor caf;
  peer_rules rules;
  std::string name;
  /// Before anything else; none: the system has told who it is.
  std::optional<secret_handshake> handshake{};
  clock::time_point greet_by;
  /// Others have set it: it is to end.
  std::shared_ptr<std::atomic<bool>> ends{};
  std::promise<void> over{};

  frame_reader from_peer{rules.frames};
  frame_stream from_caf{};
  /// As it has named itself; empty: it has not.
  std::string node{};
  clock::time_point greeted_at{};
  /// The same node has another connection; so long both may last.
  clock::time_point twin_until = clock::time_point::max();

  outgoing to_peer{};
  outgoing to_caf{};
  std::shared_ptr<peer_count> count{};
  /// What the actor has not taken: the size of each message.
  std::deque<std::size_t> waiting{};
  std::size_t bytes_waiting = 0;
  std::uint64_t taken = 0;
  clock::time_point taken_at{};
  /// CAF has it, or has had it.
  bool admitted = false;
  /// Nothing more is taken from the peer; and CAF has been told.
  bool closing = false;
  bool told = false;
  clock::time_point heard{};
  clock::time_point said{};
  /// When one side has said more than that it lives.
  clock::time_point worked{};
  clock::time_point message_by = clock::time_point::max();
  clock::time_point end_by = clock::time_point::max();
  clock::time_point slow_until{};
  clock::time_point read_next{};

  bool waits_for_peer() const {
    return to_peer.size() >= most_held;
  }

  void note_taken(clock::time_point now) {
    auto sum = count ? count->taken.load() : 0;
    if (sum == taken)
      return;
    for (; taken < sum && !waiting.empty(); ++taken) {
      bytes_waiting -= waiting.front();
      waiting.pop_front();
    }
    taken = sum;
    taken_at = now;
  }

  bool waits_for_actor(const shares& of_all) const {
    if (waiting.size() < of_all.window && bytes_waiting < most_waiting_bytes)
      return false;
    count->wake_at = taken + waiting.size() / 2;
    return true;
  }

  bool waits_for_caf(const shares& of_all) const {
    return waits_for_actor(of_all) || to_caf.size() >= most_held;
  }

  bool greeted() const {
    return !node.empty();
  }

  /// What it has said while this process was frozen or starved is still to be read.
  void forgive(clock::duration time, clock::time_point now) {
    heard = std::min(heard + time, now);
    if (message_by != clock::time_point::max())
      message_by += time;
    greet_by += time;
    greeted_at += time;
    taken_at += time;
  }

  bool reads_peer(clock::time_point now, const shares& of_all) const {
    return peer && !closing && (admitted || !greeted()) && now >= read_next
           && !waits_for_peer() && !waits_for_caf(of_all);
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
    return from_peer.held() >= most ? short_message : most;
  }

  void has_read(std::size_t messages, clock::time_point now,
                const shares& of_all) {
    if (is_slow(now))
      read_next = now + check_interval * messages / of_all.slow_messages;
  }

  bool reads_caf() const {
    return caf && !waits_for_peer();
  }
};

relay::relay() : wake_(new_wake()) {
  thread_ = std::thread{[this] { run(); }};
}

relay::relay(relay_settings settings, descriptor listener)
  : settings_(std::move(settings)),
    wake_(new_wake()),
    listener_(std::move(listener)),
    spare_(new_spare()) {
  thread_ = std::thread{[this] { run(); }};
}

relay::~relay() {
  {
    std::lock_guard held{mutex_};
    stops_ = true;
  }
  wake();
  if (thread_.joinable())
    thread_.join();
}

std::function<void()> relay::adopt(made_connection made) {
  auto ends = made.ends;
  auto x = std::make_unique<link>(
    link{.peer = std::move(made.peer),
         .caf = std::move(made.caf),
         .rules = made.rules,
         .name = {},
         .greet_by = clock::now() + made.handshake,
         .ends = ends,
         .over = std::move(made.over),
         .admitted = true});
  {
    std::lock_guard held{mutex_};
    adopted_.push_back(std::move(x));
  }
  wake();
  return [ends, bell = wake_] {
    *ends = true;
    write_wake(*bell);
  };
}

void relay::close_listener() {
  {
    std::lock_guard held{mutex_};
    listens_ = false;
  }
  wake();
}

void relay::finish(milliseconds patience) {
  {
    std::lock_guard held{mutex_};
    listens_ = false;
    finishes_ = patience;
  }
  wake();
  if (thread_.joinable())
    thread_.join();
}

void relay::wake() const {
  write_wake(*wake_);
}

// -- the thread ---------------------------------------------------------------

void relay::run() {
  // Asked right before it waits: what is over then would wake nobody.
  for (auto now = clock::now(); obey(now); now = clock::now()) {
    auto idle = links_.empty();
    wait();
    now = clock::now();
    auto stood_still = now - std::exchange(checked_at_, now)
                       - 2 * check_interval;
    if (!idle && stood_still > clock::duration::zero())
      for (auto& x : links_)
        x->forgive(stood_still, now);
    for (auto& x : links_)
      keep_to_times(*x, now);
    keep_to_bytes(now);
    forget_those_gone();
  }
}

void relay::forget_those_gone() {
  std::vector<std::string> gone;
  std::erase_if(links_, [&gone](const auto& x) {
    if (x->peer || x->caf)
      return false;
    if (x->count)
      gone.push_back(x->node);
    return true;
  });
  for (const auto& node : gone)
    if (std::none_of(links_.begin(), links_.end(),
                     [&node](const auto& x) { return x->node == node; }))
      settings_->gone(node);
}

bool relay::obey(clock::time_point now) {
  std::optional<milliseconds> finishes;
  {
    std::lock_guard held{mutex_};
    if (stops_)
      return false;
    for (auto& x : adopted_) {
      x->heard = x->said = x->worked = now;
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
    if (!x->admitted)
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

void relay::share_out(clock::time_point now) {
  std::size_t slow = 0;
  std::size_t all = 0;
  for (auto& x : links_) {
    x->note_taken(now);
    slow += x->is_slow(now) ? 1 : 0;
    all += x->admitted ? 1 : 0;
  }
  shares_.window = std::clamp(most_waiting_of_all
                                / std::max(all, std::size_t{1}),
                              least_waiting, most_waiting);
  shares_.slow_messages = std::max(
    slow_messages / std::max(slow, std::size_t{1}), least_slow_messages);
}

void relay::wait() {
  std::vector<pollfd> waits{{wake_->get(), POLLIN, 0}};
  auto accepts = listener_ && clock::now() >= accepts_at_;
  waits.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
  auto watch = [&waits](const descriptor& what, bool reads, bool writes) {
    auto events = static_cast<short>((reads ? POLLIN : 0)
                                     | (writes ? POLLOUT : 0));
    // Without a wish it would still be told of the end, again and again.
    waits.push_back({events != 0 ? what.get() : -1, events, 0});
  };
  auto begun = clock::now();
  share_out(begun);
  for (auto& x : links_) {
    watch(x->peer, x->reads_peer(begun, shares_), !x->to_peer.empty());
    watch(x->caf, x->reads_caf(), !x->to_caf.empty());
  }
  auto idle = links_.empty() && (accepts || !listener_);
  poll(waits.data(), waits.size(),
       idle ? -1 : static_cast<int>(check_interval.count()));
  auto now = clock::now();
  std::uint64_t count = 0;
  if (waits[0].revents != 0)
    while (read(wake_->get(), &count, sizeof(count)) > 0)
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

void relay::keep_to_times(link& x, clock::time_point now) {
  if (now >= x.end_by) {
    x.peer.reset();
    lose_caf(x, now);
  }
  if (x.closing && x.caf && x.to_caf.empty() && !std::exchange(x.told, true))
    shutdown(x.caf.get(), SHUT_WR);
  if (x.ends && *x.ends && !x.closing)
    lose_peer(x, now);
  if (!x.peer)
    return;
  if (x.greeted() && !x.admitted && !x.closing)
    admit(x, now);
  if (!x.greeted() || !x.admitted) {
    if (x.peer && now >= x.greet_by)
      cut(x,
          x.greeted() ? "has not been let in in time"
                      : "has not said who it is in time",
          now);
    return;
  }
  if (x.waits_for_peer()) {
    if (now - x.said > x.rules.silence)
      return cut(x, "does not read", now);
  } else if (x.waits_for_actor(shares_) && now - x.taken_at > message_time) {
    return cut(x, "has sent what no actor takes", now);
  } else if (!x.reads_peer(now, shares_)) {
    x.heard = now; // it is not to blame
  } else if (now - x.heard > x.rules.silence) {
    return cut(x, "has been silent for too long", now);
  }
  if (now >= x.message_by)
    return cut(x, "does not end its message", now);
  if (now >= x.twin_until && has_twin(x))
    return cut(x,
               "has the name of another node, which lives: CAF tells nodes "
               "apart by host and process number",
               now);
  // Not before CAF has said who is here: the other side takes nothing else for its beginning.
  if (!x.closing && x.to_peer.empty() && x.from_caf.header()
      && x.from_caf.is_between() && now - x.said >= beat) {
    x.to_peer.bytes() += heartbeat_frame();
    write_peer(x, now);
  }
}

void relay::keep_to_bytes(clock::time_point now) {
  if (!settings_)
    return;
  std::size_t sum = 0;
  link* longest = nullptr;
  for (auto& x : links_) {
    auto size = x->from_peer.longest();
    if (!x->peer || size <= short_message)
      continue;
    sum += size;
    if (longest == nullptr || size > longest->from_peer.longest())
      longest = x.get();
  }
  if (sum <= settings_->bytes)
    return;
  cut(*longest, "has sent the longest messages where memory was short", now);
  keep_to_bytes(now);
}

// -- coming -------------------------------------------------------------------

void relay::accept_some(clock::time_point now) {
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

void relay::refuse_one(clock::time_point now) {
  spare_.reset();
  descriptor{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}.reset();
  spare_ = new_spare();
  accepts_at_ = now + no_descriptor_pause;
  complain("a peer", "finds no descriptor", now);
}

void relay::welcome(descriptor peer, clock::time_point now) {
  auto name = name_of(peer);
  auto who = user_of(peer);
  if (who && who->uid != 0 && who->uid != geteuid())
    return complain(name, "is of another user", now);
  auto strangers = std::count_if(links_.begin(), links_.end(), is_stranger);
  if (strangers >= most_strangers || few_descriptors(peer.get()))
    cut_oldest_stranger(now);
  std::optional<secret_handshake> handshake;
  if (settings_->secret)
    handshake.emplace(*settings_->secret, secret_handshake::role::server);
  links_.push_back(
    std::make_unique<link>(link{.peer = std::move(peer),
                                .caf = {},
                                .rules = settings_->rules,
                                .name = std::move(name),
                                .handshake = std::move(handshake),
                                .greet_by = now + settings_->handshake,
                                .heard = now,
                                .said = now,
                                .worked = now}));
}

bool relay::is_stranger(const link_ptr& x) {
  return x->peer && !x->greeted();
}

void relay::cut_oldest_stranger(clock::time_point now) {
  auto found = std::find_if(links_.begin(), links_.end(), is_stranger);
  if (found != links_.end())
    cut(**found, "has made room, not having said who it is", now);
}

bool relay::cut_idlest(clock::time_point now) {
  link* idlest = nullptr;
  for (auto& x : links_)
    if (x->admitted && x->peer
        && (idlest == nullptr || x->worked < idlest->worked))
      idlest = x.get();
  if (idlest != nullptr)
    cut(*idlest, "has made room for another, being the idlest", now);
  return idlest != nullptr;
}

/// Where the same node has an older connection whose end nobody has noticed, CAF would go on by
/// that one. If it lives, CAF closes the new one on the other side.
bool relay::is_alone(const link& x, clock::time_point now) {
  bool alone = true;
  for (auto& y : links_) {
    if (y.get() == &x || y->node != x.node || !y->caf)
      continue;
    if (!y->closing && y->heard > x.greeted_at)
      continue;
    if (!y->closing && now - x.greeted_at > sign_of_life)
      cut(*y, "has connected anew", now);
    alone = false;
  }
  return alone;
}

bool relay::has_twin(const link& x) const {
  return std::any_of(links_.begin(), links_.end(), [&x](const auto& y) {
    return y.get() != &x && y->node == x.node && y->caf && !y->closing;
  });
}

void relay::admit(link& x, clock::time_point now) {
  if (!is_alone(x, now))
    return;
  auto is_admitted = [](const auto& y) { return y->admitted && y->peer; };
  auto others = std::count_if(links_.begin(), links_.end(), is_admitted);
  if (static_cast<std::size_t>(others) >= settings_->connections)
    cut_idlest(now);
  auto [ours, theirs] = socket_pair();
  if (!theirs || few_descriptors(theirs.get())) {
    // Who is cut off gives back three when CAF has closed its end.
    auto is_ending = [](const auto& y) { return y->closing && y->caf; };
    if (std::none_of(links_.begin(), links_.end(), is_ending)
        && !cut_idlest(now))
      cut(x, "finds too few descriptors", now);
    return;
  }
  x.admitted = true;
  if (has_twin(x))
    x.twin_until = now + sign_of_life;
  x.caf = std::move(ours);
  x.taken_at = now;
  x.count = settings_->hand_over(renumbered(std::move(theirs)), x.node);
  x.taken = x.count->taken;
}

// -- going on -----------------------------------------------------------------

void relay::read_peer(link& x, clock::time_point now) {
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
  std::size_t whole = 0;
  while (!said.empty() && !x.closing) {
    if (auto fault = x.from_peer.take(said))
      return cut(x, fmt::format("has sent {}", to_string(*fault)), now);
    if (!x.from_peer.is_whole())
      break;
    pass_frame(x, now);
    ++whole;
  }
  x.has_read(whole, now, shares_);
  if (!x.from_peer.is_within())
    x.message_by = clock::time_point::max();
  else if (whole > 0 || x.message_by == clock::time_point::max())
    x.message_by = now + message_time;
}

void relay::pass_frame(link& x, clock::time_point now) {
  const auto& header = x.from_peer.header();
  const auto& bytes = x.from_peer.bytes();
  x.to_caf.bytes() += bytes;
  if (header.kind != frame_kind::heartbeat)
    x.worked = now;
  if (x.count && header.kind == frame_kind::direct_message
      && header.receiver == x.rules.counts && !header.is_response()) {
    if (x.waiting.empty())
      x.taken_at = now;
    x.waiting.push_back(bytes.size());
    x.bytes_waiting += bytes.size();
  }
  if (x.greeted())
    return;
  x.node = bytes.substr(frame_header::size);
  x.greeted_at = now;
  x.greet_by = now + farewell;
  if (!x.admitted)
    admit(x, now);
}

void relay::read_caf(link& x, clock::time_point now) {
  std::array<char, short_message> bytes;
  auto n = recv(x.caf.get(), bytes.data(), bytes.size(), 0);
  if (is_over(n))
    return lose_caf(x, now);
  if (n < 0 || !x.peer)
    return;
  std::string_view said{bytes.data(), static_cast<std::size_t>(n)};
  x.to_peer.bytes() += said;
  while (!said.empty()) {
    said.remove_prefix(x.from_caf.take(said));
    if (x.from_caf.header()
        && x.from_caf.header()->kind != frame_kind::heartbeat)
      x.worked = now;
  }
}

void relay::write_peer(link& x, clock::time_point now) {
  if (x.peer && !x.to_peer.empty() && x.to_peer.write_to(x.peer.get()) > 0)
    x.said = now;
  if (x.closing && !x.caf && x.to_peer.empty())
    x.peer.reset();
}

void relay::write_caf(link& x) {
  if (x.caf && !x.to_caf.empty())
    x.to_caf.write_to(x.caf.get());
}

// -- ending -------------------------------------------------------------------

void relay::lose_peer(link& x, clock::time_point now) {
  if (x.ends)
    *x.ends = true;
  x.peer.reset();
  x.to_peer.clear();
  x.closing = true;
  x.end_by = now + farewell;
}

void relay::lose_caf(link& x, clock::time_point now) {
  if (!x.caf)
    return;
  if (x.ends)
    *x.ends = true;
  x.caf.reset();
  x.to_caf.clear();
  x.closing = true;
  x.end_by = now + farewell;
}

void relay::cut(link& x, const std::string& why, clock::time_point now) {
  complain(x.name, why, now);
  lose_peer(x, now);
}

void relay::complain(const std::string& peer, const std::string& why,
                     clock::time_point now) {
  if (!settings_)
    return;
  if (auto times = complaints_.note(why, now); times > 0)
    settings_->tell(events::gateway_connection_cut{peer, why, times});
}

} // namespace gd::actors
