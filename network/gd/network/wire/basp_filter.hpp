#pragma once

#include <gd/instance.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

/// \file
/// What may pass between a peer and CAF. CAF trusts every byte of its protocol, BASP,
/// whose version 3 (CAF 0.17) this knows: a state machine without sockets or CAF.
namespace gd::actors {

/// A node id as CAF writes it: a tag, a process and a host.
using basp_node = std::array<char, 32>;

/// Why a peer is cut off.
enum class basp_fault : std::uint8_t {
  no_handshake, ///< something else comes before it
  handshake,    ///< not of the one form that there is, or a second one
  version,      ///< of another version of the protocol
  header,       ///< fields that CAF never writes
  too_long,     ///< longer than any message may be
  routed,       ///< to be passed on to somebody else
  foreign_node, ///< in another node's name
  answer,       ///< to a question that nobody has asked
  stream,       ///< of a stream
  stages,       ///< with actors to be passed through
  content,      ///< it is not what its type says
  senders,      ///< of more actors than one node may have here
};

/// As a sentence's end: "has sent ...".
std::string_view to_string(basp_fault why);

/// Reads what CAF 0.17 would read of a T, in the place of its deserializer, keeps
/// nothing, and counts the memory that it would take. No length is believed that the
/// bytes do not bear out.
class basp_walk {
public:
  using result_type = bool;
  static constexpr bool reads_state = false;
  static constexpr bool writes_state = true;

  basp_walk(std::string_view bytes, std::size_t most)
    : left_(bytes), memory_left_(most) {
    // nop
  }

  template <class... Ts>
  bool operator()(Ts&&... xs) {
    return (apply(xs) && ...);
  }

  bool apply(std::string&) {
    std::size_t size = 0;
    return begin_sequence(size) && take_memory(1, size) && skip(size);
  }

  template <std::integral T>
  bool apply(T&) {
    return skip(sizeof(T)); // a bool, too, has one byte
  }

  /// An item has at least one byte: else their number would be free.
  template <class T>
  bool apply(std::vector<T>&) {
    std::size_t size = 0;
    if (!begin_sequence(size) || !take_memory(size, sizeof(T)))
      return false;
    for (; size > 0; --size) {
      auto before = left_.size();
      T item{};
      if (!apply(item) || left_.size() == before)
        return false;
    }
    return true;
  }

  template <class T>
    requires std::is_class_v<T>
  bool apply(T& x) {
    return inspect(*this, x);
  }

  bool begin_sequence(std::size_t& size);

  static bool end_sequence() {
    return true;
  }

  bool skip(std::size_t bytes);

  /// The next of a fixed size.
  template <std::unsigned_integral T>
  std::optional<T> number() {
    auto at = left_;
    if (!skip(sizeof(T)))
      return std::nullopt;
    T x = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      x = static_cast<T>((std::uint64_t{x} << 8)
                         | static_cast<unsigned char>(at[i]));
    return x;
  }

  std::optional<std::string_view> text();

  std::string_view rest() const {
    return left_;
  }

  /// It would have taken too much memory.
  bool is_too_big() const {
    return too_big_;
  }

private:
  bool take_memory(std::size_t items, std::size_t bytes);

  std::string_view left_;
  std::size_t memory_left_;
  bool too_big_ = false;
};

/// Whether bytes are a message of some type, with nothing behind it, and take no more
/// memory than that.
enum class basp_fit : std::uint8_t { yes, no, too_big };

/// A type whose messages may pass.
struct basp_message {
  /// As CAF calls it: "gd::insert".
  std::string_view type;
  basp_fit (*fits)(std::string_view bytes, std::size_t most);

  /// Of a type that is described by GD_STATE.
  template <class T>
  static basp_message of(std::string_view type) {
    return {type, [](std::string_view bytes, std::size_t most) {
              basp_walk walk{bytes, most};
              T x{};
              if (walk.apply(x) && walk.rest().empty())
                return basp_fit::yes;
              return walk.is_too_big() ? basp_fit::too_big : basp_fit::no;
            }};
  }
};

/// What the gateway is asked, and what it answers.
std::vector<basp_message> gateway_requests();
std::vector<basp_message> gateway_answers();

/// What both sides tell each other unasked: messages of other parts of the library, which
/// go through the published gateway to whoever has spoken there before. Each handler of
/// the portal that takes one calls `take_message` first.
std::vector<basp_message> told_messages();

/// What one side lets through.
struct basp_rules {
  /// Peers come here, and ask; else they are asked.
  bool serves = true;
  /// This process, as its CAF calls itself.
  basp_node self{};
  /// The actors that peers may write to, where they come here.
  std::vector<std::uint64_t> published{};
  /// What they may say unasked; and, where they are asked, answer.
  std::vector<basp_message> messages{};
  std::vector<basp_message> answers{};
  /// Bytes of a message, and a quarter of those that it takes in memory.
  std::size_t most_bytes = 4 << 20;
  /// How many actors of a peer's may be known here at the same time.
  std::size_t most_senders = 10'000;
  /// What requests are answered that do not pass, as CAF writes errors: those of unknown
  /// types, and those that are too long.
  std::string unknown{};
  std::string too_long{};
};

/// What stands between a peer and CAF. To CAF the peer is the node `alias`, whatever it
/// calls itself: no peer is another's namesake. It is named when it has said who it is.
class basp_filter {
public:
  basp_filter(std::shared_ptr<const basp_rules> rules,
              std::function<basp_node()> new_alias);

  /// Takes what the peer has sent: what may pass is added to `to_caf`, refusals to
  /// `to_peer`. A fault: it is to be cut off.
  std::optional<basp_fault>
  from_peer(std::string_view bytes, std::string& to_caf, std::string& to_peer);

  /// Takes what CAF has sent.
  void from_caf(std::string_view bytes, std::string& to_peer);

  /// Tells the peer that this side lives.
  void beat(std::string& to_peer);

  /// Whether the peer has said who it is.
  bool greeted() const {
    return greeted_;
  }
  const basp_node& alias() const {
    return alias_;
  }

  /// Whether a message of the peer has begun, and not ended.
  bool within_message() const {
    return !in_.empty() || skipping_ > 0;
  }

  /// The bytes of the message that has begun and not ended.
  std::size_t held() const {
    return in_.size() + skipping_;
  }

  /// The bytes of the longest message so far, the one that has begun included: CAF
  /// keeps as much for the connection's life.
  std::size_t longest() const {
    return longest_;
  }

  /// What has passed, and has not come to an actor: it has taken `count` since the
  /// connection began.
  void taken(std::uint64_t count);
  std::size_t messages_waiting() const {
    return waiting_.size();
  }
  std::size_t bytes_waiting() const {
    return bytes_waiting_;
  }

  /// How many messages have ended, and how many of them were left out.
  std::uint64_t ended() const {
    return ended_;
  }
  std::uint64_t dropped() const {
    return dropped_;
  }

private:
  struct header;
  using fault = std::optional<basp_fault>;

  fault begin(const header& x);
  fault begin_direct(const header& x);
  fault end(const header& x, std::string_view payload);
  fault client_handshake(const header& x, std::string_view payload);
  fault server_handshake(const header& x, std::string_view payload);
  fault direct(const header& x, std::string_view payload);
  fault answered(const header& x, std::string_view type,
                 std::string_view value);
  fault monitor(const header& x, std::string_view payload);
  fault down(const header& x, std::string_view payload);
  void meet(std::string_view payload);
  fault pass(const header& x, std::string_view payload);
  fault drop();
  fault refuse(const header& x, const std::string& why);
  bool knows(std::uint64_t actor) const;
  bool admits(std::uint64_t sender);
  void begin_from_caf(header x);
  void end_from_caf(const header& x);
  void say(const std::string& message);

  std::shared_ptr<const basp_rules> rules_;
  std::function<basp_node()> new_alias_;
  basp_node alias_{};
  basp_node peer_{};
  bool greeted_ = false;
  bool selected_ = false;

  // From the peer: what has come of a message, and how much of it there will be.
  std::string in_;
  std::size_t in_size_;
  std::size_t skipping_ = 0;
  std::size_t longest_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t dropped_ = 0;
  std::string* to_caf_ = nullptr;
  std::unordered_set<std::uint64_t> senders_;
  std::deque<std::size_t> waiting_;
  std::size_t bytes_waiting_ = 0;
  std::uint64_t taken_ = 0;

  // From CAF: the same; contents of messages go by as they are.
  std::string out_;
  std::size_t out_size_;
  std::size_t going_by_ = 0;
  bool leaves_out_ = false;
  std::string* to_peer_ = nullptr;
  /// What we say ourselves, until CAF has ended its sentence.
  std::string ours_;
  /// Of actors of ours that have asked the peer: their open questions.
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> asking_;
};

} // namespace gd::actors
