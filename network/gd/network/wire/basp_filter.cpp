#include <gd/network/wire/basp_filter.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

constexpr std::size_t header_size = 32;
constexpr std::size_t node_size = std::tuple_size_v<basp_node>;
/// Of what CAF writes by itself, handshakes of servers and reasons of ends.
constexpr std::size_t most_of_caf = 64 << 10;
/// So much of a message that is too long is read away before its peer is cut off.
constexpr std::size_t most_skipped = std::size_t{256} << 20;
constexpr std::uint64_t protocol_version = 3;

enum operation : std::uint8_t {
  server_greets,
  client_greets,
  direct_message,
  routed_message,
  monitors,
  is_down,
  heartbeat,
};

/// The receiver is named by what the field of its id has.
constexpr std::uint8_t named_receiver = 1;
/// This is the connection to be used, if there are several.
constexpr std::uint8_t this_connection = 2;

constexpr std::uint64_t response_bit = std::uint64_t{1} << 63;
constexpr std::uint64_t answered_bit = std::uint64_t{1} << 62;
constexpr std::uint64_t stream_bit = std::uint64_t{1} << 61;
constexpr std::uint64_t request_bits = (std::uint64_t{1} << 60) - 1;

template <std::unsigned_integral T>
void append(std::string& to, T x) {
  for (std::size_t i = sizeof(T); i-- > 0;)
    to += static_cast<char>(std::uint64_t{x} >> (8 * i));
}

std::string_view bytes_of(const basp_node& x) {
  return {x.data(), x.size()};
}

basp_node node_at(std::string_view payload, std::size_t at) {
  basp_node x{};
  payload.copy(x.data(), x.size(), at);
  return x;
}

/// Whether it is a node id of the common form, a process and a host.
bool is_node(const basp_node& x, const basp_node& like) {
  constexpr std::size_t tag = 8;
  constexpr std::size_t host = 12;
  auto some = [&x](std::size_t from, std::size_t to) {
    return std::any_of(x.begin() + from, x.begin() + to,
                       [](char c) { return c != 0; });
  };
  return std::equal(x.begin(), x.begin() + tag, like.begin()) && some(tag, host)
         && some(host, node_size);
}

/// What comes first in a message: its types.
std::optional<std::string_view> types_at(basp_walk& walk) {
  auto by_number = walk.number<std::uint16_t>();
  if (!by_number || *by_number != 0)
    return std::nullopt;
  auto types = walk.text();
  if (!types || !types->starts_with("@<>"))
    return std::nullopt;
  return types;
}

/// An error without what CAF could stumble over in its context: texts stay, as ours
/// have them, and all else goes. Empty: it is none.
std::string plain_error(std::string_view bytes) {
  basp_walk walk{bytes, bytes.size()};
  if (!walk.skip(1 + 8)) // its code and its category
    return {};
  auto context = walk;
  auto types = types_at(context);
  auto texts = types == "@<>+@str" ? 1 : types == "@<>+@str+@str" ? 2 : 0;
  for (auto i = 0; i < texts; ++i)
    if (!context.text())
      return {};
  if (types && (texts > 0 || types == "@<>") && context.rest().empty())
    return std::string{bytes};
  return std::string{bytes.substr(0, 9)} + std::string{"\0\0\3@<>", 6};
}

const basp_message* find(const std::vector<basp_message>& among,
                         std::string_view types) {
  constexpr std::string_view begin = "@<>+";
  if (!types.starts_with(begin))
    return nullptr;
  auto found = std::find_if(among.begin(), among.end(),
                            [name = types.substr(begin.size())](const auto& x) {
    return x.type == name;
  });
  return found != among.end() ? &*found : nullptr;
}

} // namespace

std::string_view to_string(basp_fault why) {
  switch (why) {
    case basp_fault::no_handshake:
      return "something else than a handshake";
    case basp_fault::handshake:
      return "a handshake that CAF does not send";
    case basp_fault::version:
      return "another version of the protocol";
    case basp_fault::header:
      return "a header that CAF does not send";
    case basp_fault::too_long:
      return "a message that is longer than any may be";
    case basp_fault::routed:
      return "a message for others";
    case basp_fault::foreign_node:
      return "a message in another node's name";
    case basp_fault::answer:
      return "an answer that nobody waits for";
    case basp_fault::stream:
      return "a message of a stream";
    case basp_fault::stages:
      return "a message that is to go through other actors";
    case basp_fault::content:
      return "a message that is not what its type says";
    case basp_fault::senders:
      return "messages of too many actors";
  }
  return "nonsense";
}

// -- from the peer ------------------------------------------------------------

struct basp_filter::header {
  std::uint8_t what = 0;
  std::uint8_t flags = 0;
  std::uint32_t size = 0;
  std::uint64_t data = 0;
  std::uint64_t source = 0;
  std::uint64_t receiver = 0;

  static std::optional<header> read(std::string_view bytes) {
    basp_walk walk{bytes, 0};
    auto what = walk.number<std::uint8_t>();
    auto padding = walk.number<std::uint16_t>();
    header x{*what,
             *walk.number<std::uint8_t>(),
             *walk.number<std::uint32_t>(),
             *walk.number<std::uint64_t>(),
             *walk.number<std::uint64_t>(),
             *walk.number<std::uint64_t>()};
    return padding == 0 ? std::optional{x} : std::nullopt;
  }

  std::string bytes() const {
    std::string x;
    append(x, what);
    append(x, std::uint16_t{0});
    append(x, flags);
    append(x, size);
    append(x, data);
    append(x, source);
    append(x, receiver);
    return x;
  }

  bool is_response() const {
    return (data & response_bit) != 0;
  }

  bool is_request() const {
    return number() != 0 && !is_response();
  }

  std::uint64_t number() const {
    return data & request_bits;
  }
};

basp_filter::basp_filter(std::shared_ptr<const basp_rules> rules,
                         std::function<basp_node()> new_alias)
  : rules_(std::move(rules)),
    new_alias_(std::move(new_alias)),
    in_size_(header_size),
    out_size_(header_size) {
  // nop
}

std::optional<basp_fault> basp_filter::from_peer(std::string_view bytes,
                                                 std::string& to_caf,
                                                 std::string& to_peer) {
  to_caf_ = &to_caf;
  to_peer_ = &to_peer;
  while (!bytes.empty()) {
    auto n = std::min(bytes.size(),
                      skipping_ > 0 ? skipping_ : in_size_ - in_.size());
    auto some = bytes.substr(0, n);
    bytes.remove_prefix(n);
    if (skipping_ > 0) {
      skipping_ -= n;
      continue;
    }
    in_.append(some);
    if (in_.size() < in_size_)
      break;
    auto x = header::read(in_);
    if (!x)
      return basp_fault::header;
    if (in_size_ == header_size) {
      if (auto why = begin(*x))
        return why;
      if (skipping_ > 0) {
        ++ended_;
        in_.clear();
        continue;
      }
      longest_ = std::max<std::size_t>(longest_, x->size);
      in_size_ += x->size;
      if (x->size > 0)
        continue;
    }
    if (auto why = end(*x, std::string_view{in_}.substr(header_size)))
      return why;
    ++ended_;
    in_.clear();
    if (in_.capacity() > most_of_caf)
      in_.shrink_to_fit();
    in_size_ = header_size;
  }
  return std::nullopt;
}

/// Before there is a byte behind the header.
basp_filter::fault basp_filter::begin(const header& x) {
  auto first = rules_->serves ? client_greets : server_greets;
  if (!greeted_ && x.what != first)
    return basp_fault::no_handshake;
  bool plain = x.data == 0 && x.flags == 0;
  switch (x.what) {
    case server_greets:
      if (greeted_ || x.flags != 0 || x.source != 0 || x.receiver != 0
          || x.size > most_of_caf)
        return basp_fault::handshake;
      return x.data == protocol_version ? fault{} : basp_fault::version;
    case client_greets:
      // CAF's client sends it at once, and again when it has heard the server's.
      if (!rules_->serves || selected_ || x.size != node_size || x.data != 0
          || x.source != 0 || x.receiver != 0
          || x.flags != (greeted_ ? this_connection : 0))
        return basp_fault::handshake;
      return {};
    case direct_message:
      return begin_direct(x);
    case routed_message:
      return basp_fault::routed;
    case monitors:
      return plain && x.source == 0 && x.size == 2 * node_size
               ? fault{}
               : basp_fault::header;
    case is_down:
      return plain && x.source != 0 && x.receiver == 0 && x.size > 2 * node_size
                 && x.size <= most_of_caf
               ? fault{}
               : basp_fault::header;
    case heartbeat:
      return plain && x.source == 0 && x.receiver == 0 && x.size == 0
               ? fault{}
               : basp_fault::header;
    default:
      return basp_fault::header;
  }
}

basp_filter::fault basp_filter::begin_direct(const header& x) {
  if (x.size == 0 || x.receiver == 0 || (x.flags & ~named_receiver) != 0
      || (x.data & answered_bit) != 0 || (x.is_request() && x.source == 0))
    return basp_fault::header;
  if ((x.data & stream_bit) != 0)
    return basp_fault::stream;
  if (rules_->serves && x.is_response())
    return basp_fault::answer;
  if (x.size <= rules_->most_bytes)
    return {};
  if (!rules_->serves || x.size > most_skipped)
    return basp_fault::too_long;
  skipping_ = x.size;
  return refuse(x, rules_->too_long);
}

basp_filter::fault basp_filter::end(const header& x, std::string_view payload) {
  switch (x.what) {
    case server_greets:
      return server_handshake(x, payload);
    case client_greets:
      return client_handshake(x, payload);
    case direct_message:
      return direct(x, payload);
    case monitors:
      return monitor(x, payload);
    case is_down:
      return down(x, payload);
    default:
      return pass(x, payload);
  }
}

basp_filter::fault basp_filter::client_handshake(const header& x,
                                                 std::string_view payload) {
  auto who = node_at(payload, 0);
  if (!is_node(who, rules_->self))
    return basp_fault::handshake;
  if (greeted_ && who != peer_)
    return basp_fault::foreign_node;
  if (greeted_)
    selected_ = true;
  else
    meet(payload);
  return pass(x, bytes_of(alias_));
}

basp_filter::fault basp_filter::server_handshake(const header& x,
                                                 std::string_view payload) {
  basp_walk walk{payload, 4 * most_of_caf};
  std::vector<std::string>
    texts; // of its applications, and its actor's messages
  std::optional<std::uint64_t> actor;
  if (!walk.skip(node_size) || !walk.apply(texts)
      || !(actor = walk.number<std::uint64_t>()) || !walk.apply(texts)
      || !walk.rest().empty() || !is_node(node_at(payload, 0), rules_->self))
    return basp_fault::handshake;
  meet(payload);
  senders_.insert(*actor);
  auto as_alias = std::string{bytes_of(alias_)};
  as_alias += payload.substr(node_size);
  return pass(x, as_alias);
}

basp_filter::fault basp_filter::direct(const header& x,
                                       std::string_view payload) {
  // CAF's own actors are called by their names.
  if (x.flags != 0)
    return drop();
  if (payload.front() != 0)
    return basp_fault::stages;
  basp_walk walk{payload.substr(1), 0};
  auto types = types_at(walk);
  if (!types)
    return basp_fault::content;
  if (!knows(x.receiver))
    return refuse(x, rules_->unknown);
  if (x.is_response())
    return answered(x, *types, walk.rest());
  const auto* of = find(rules_->messages, *types);
  if (of == nullptr || (x.is_request() && !rules_->serves))
    return refuse(x, rules_->unknown);
  auto fit = of->fits(walk.rest(), 4 * rules_->most_bytes);
  if (fit == basp_fit::no)
    return basp_fault::content;
  if (fit == basp_fit::too_big)
    return refuse(x, rules_->too_long);
  if (!admits(x.source))
    return basp_fault::senders;
  if (rules_->serves) {
    waiting_.push_back(payload.size());
    bytes_waiting_ += payload.size();
  }
  return pass(x, payload);
}

basp_filter::fault basp_filter::answered(const header& x, std::string_view type,
                                         std::string_view value) {
  // Answered before, or never asked.
  if (asking_[x.receiver].erase(x.number()) == 0)
    return drop();
  if (!admits(x.source))
    return basp_fault::senders;
  if (type == "@<>+@error") {
    auto error = plain_error(value);
    if (error.empty())
      return basp_fault::content;
    std::string content{"\0\0\0\12@<>+@error", 14};
    return pass(x, content += error);
  }
  const auto* of = find(rules_->answers, type);
  if (of == nullptr || of->fits(value, 4 * rules_->most_bytes) != basp_fit::yes)
    return basp_fault::content;
  return pass(x, std::string_view{in_}.substr(header_size));
}

basp_filter::fault basp_filter::monitor(const header& x,
                                        std::string_view payload) {
  if (node_at(payload, 0) != peer_
      || node_at(payload, node_size) != rules_->self)
    return basp_fault::foreign_node;
  if (!knows(x.receiver))
    return drop();
  auto as_alias = std::string{bytes_of(alias_)};
  return pass(x, as_alias += payload.substr(node_size));
}

basp_filter::fault basp_filter::down(const header& x,
                                     std::string_view payload) {
  if (node_at(payload, 0) != peer_
      || node_at(payload, node_size) != rules_->self)
    return basp_fault::foreign_node;
  auto why = plain_error(payload.substr(2 * node_size));
  if (why.empty())
    return basp_fault::content;
  if (senders_.erase(x.source) == 0)
    return drop();
  auto as_alias = std::string{bytes_of(alias_)};
  as_alias += bytes_of(rules_->self);
  return pass(x, as_alias += why);
}

void basp_filter::meet(std::string_view payload) {
  greeted_ = true;
  peer_ = node_at(payload, 0);
  alias_ = new_alias_();
}

bool basp_filter::knows(std::uint64_t actor) const {
  const auto& ours = rules_->published;
  return rules_->serves
           ? std::find(ours.begin(), ours.end(), actor) != ours.end()
           : asking_.contains(actor);
}

bool basp_filter::admits(std::uint64_t sender) {
  return sender == 0 || !senders_.insert(sender).second
         || senders_.size() <= rules_->most_senders;
}

basp_filter::fault basp_filter::pass(const header& x,
                                     std::string_view payload) {
  auto head = x;
  head.size = static_cast<std::uint32_t>(payload.size());
  to_caf_->append(head.bytes()).append(payload);
  return {};
}

basp_filter::fault basp_filter::drop() {
  ++dropped_;
  return {};
}

basp_filter::fault basp_filter::refuse(const header& x,
                                       const std::string& why) {
  if (x.is_request() && rules_->serves && !why.empty()) {
    std::string content{"\0\0\0\12@<>+@error", 14};
    content += why;
    say(header{.what = direct_message,
               .size = static_cast<std::uint32_t>(content.size()),
               .data = x.data | response_bit,
               .source = x.receiver,
               .receiver = x.source}
          .bytes()
        + content);
  }
  return drop();
}

void basp_filter::taken(std::uint64_t count) {
  for (; taken_ < count && !waiting_.empty(); ++taken_) {
    bytes_waiting_ -= waiting_.front();
    waiting_.pop_front();
  }
}

// -- from CAF -----------------------------------------------------------------

void basp_filter::from_caf(std::string_view bytes, std::string& to_peer) {
  to_peer_ = &to_peer;
  while (!bytes.empty()) {
    auto n = std::min(bytes.size(),
                      going_by_ > 0 ? going_by_ : out_size_ - out_.size());
    auto some = bytes.substr(0, n);
    bytes.remove_prefix(n);
    if (going_by_ > 0) {
      going_by_ -= n;
      if (!leaves_out_)
        to_peer.append(some);
    } else {
      out_.append(some);
      if (out_.size() == out_size_) {
        auto x = *header::read(out_);
        if (out_size_ == header_size)
          begin_from_caf(x);
        else
          end_from_caf(x);
      }
    }
    if (going_by_ == 0 && out_.empty()) {
      leaves_out_ = false;
      to_peer.append(std::exchange(ours_, {}));
    }
  }
}

void basp_filter::begin_from_caf(header x) {
  if ((x.what == monitors || x.what == is_down) && x.size > 0) {
    out_size_ += x.size; // it has our name of the peer
    return;
  }
  // Its own actors' questions to those of the peer, which do not pass there.
  leaves_out_ = x.what == direct_message && x.flags != 0;
  if (!leaves_out_)
    to_peer_->append(out_);
  if (x.what == direct_message && !rules_->serves && x.source != 0
      && !leaves_out_) {
    auto& open = asking_[x.source];
    if (x.is_request())
      open.insert(x.number());
  }
  going_by_ = x.size;
  out_.clear();
}

void basp_filter::end_from_caf(const header& x) {
  auto to = std::string_view{out_}.substr(header_size + node_size);
  if (to.starts_with(bytes_of(alias_)))
    out_.replace(header_size + node_size, node_size, bytes_of(peer_));
  if (x.what == is_down)
    asking_.erase(x.source);
  to_peer_->append(std::exchange(out_, {}));
  out_size_ = header_size;
}

void basp_filter::say(const std::string& message) {
  if (going_by_ == 0 && out_.empty())
    to_peer_->append(message);
  else
    ours_ += message;
}

void basp_filter::beat(std::string& to_peer) {
  to_peer_ = &to_peer;
  say(header{.what = heartbeat}.bytes());
}

} // namespace gd::actors
