#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// \file
/// Where a message of CAF's protocol between nodes, BASP, begins and ends. Its header has the
/// same form in all versions (3 in CAF 0.17, 8 in CAF 1.1); what follows is not looked at.
namespace gd::actors {

/// What a message is for, by the first byte of its header.
enum class frame_kind : std::uint8_t {
  server_handshake,
  client_handshake,
  direct_message,
  routed_message,
  monitor_message,
  down_message,
  heartbeat,
};

struct frame_header {
  static constexpr std::size_t size = 32;

  frame_kind kind{};
  std::uint8_t flags = 0;
  std::uint32_t payload = 0; ///< bytes behind the header
  /// The version in a server's handshake; in a message, its number and what it is.
  std::uint64_t data = 0;
  std::uint64_t source = 0;
  std::uint64_t receiver = 0;

  static frame_header read(std::string_view bytes);

  /// Whether it is an answer to a request.
  bool is_response() const {
    return data >> 63 != 0;
  }
};

/// What tells the other side that this one lives: a frame without payload.
std::string heartbeat_frame();

/// Follows a stream of frames.
class frame_stream {
public:
  /// Reads on, to the end of a header or of a frame at the most; returns how many bytes that
  /// were.
  std::size_t take(std::string_view bytes);

  /// The one that is read, or was read last, once it is known.
  const std::optional<frame_header>& header() const {
    return header_;
  }

  /// The last frame is whole, and nothing of the next one has come.
  bool is_between() const {
    return begun_.empty() && left_ == 0;
  }

private:
  /// Of a header that is not whole.
  std::string begun_;
  std::optional<frame_header> header_;
  /// Of the payload.
  std::size_t left_ = 0;
};

/// Why a stream is none of CAF's.
enum class frame_fault : std::uint8_t {
  no_handshake, ///< something else comes first
  version,      ///< of another CAF
  operation,    ///< there is no such kind
  payload,      ///< one that has to have some, and has none, or the other way
  too_long,     ///< longer than any may be
};

/// As a sentence's end: "has sent ...".
std::string_view to_string(frame_fault why);

/// What one side takes.
struct frame_rules {
  /// Who is spoken to begins with that handshake.
  frame_kind first = frame_kind::client_handshake;
  /// Of this CAF's protocol.
  std::uint64_t version = 0;
  /// Bytes of a frame.
  std::size_t most_bytes = 4 << 20;
};

/// Takes what a peer says, and gives it on in whole frames.
class frame_reader {
public:
  explicit frame_reader(frame_rules rules) : rules_(rules) {
    // nop
  }

  /// Takes of `bytes` what belongs to the next frame; see `is_whole`. A fault: nothing more is
  /// to be taken from this peer.
  std::optional<frame_fault> take(std::string_view& bytes);

  /// A frame has come to its end with the last `take`.
  bool is_whole() const {
    return !bytes_.empty() && stream_.is_between();
  }
  const frame_header& header() const {
    return *stream_.header();
  }
  const std::string& bytes() const {
    return bytes_;
  }

  /// A frame has begun, and not ended.
  bool is_within() const {
    return !stream_.is_between();
  }

  /// The bytes of the frame that has begun and not ended.
  std::size_t held() const {
    return is_within() ? bytes_.size() : 0;
  }

  /// The bytes of the longest frame so far, the one that has begun included: CAF keeps as
  /// much for the connection's life.
  std::size_t longest() const {
    return longest_;
  }

private:
  std::optional<frame_fault> check(const frame_header& x) const;

  frame_rules rules_;
  frame_stream stream_;
  std::string bytes_;
  bool greeted_ = false;
  std::size_t longest_ = 0;
};

} // namespace gd::actors
