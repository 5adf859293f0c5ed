#pragma once

#include <gd/network/wire/sockets.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// \file
/// Who may speak at a port. All users of a machine reach it, and nobody tells who they are;
/// so both sides show that they have the same secret before the first byte of CAF's.
namespace gd::actors {

/// 32 random bytes, which a file has that nobody else may read.
class shared_secret {
public:
  static constexpr std::size_t size = 32;

  /// Of a file that `make` has made. The error says what is wrong with it, and nothing of
  /// what it holds.
  static result<shared_secret> read(const std::string& file);

  /// Makes such a file. What is there already stays.
  static result<void> make(const std::string& file);

  shared_secret(const shared_secret&) = default;
  shared_secret& operator=(const shared_secret&) = default;
  /// Leaves nothing in memory.
  ~shared_secret();

  const unsigned char* data() const {
    return bytes_.data();
  }

private:
  shared_secret() = default;

  std::array<unsigned char, size> bytes_{};
};

/// What a side shows, and what the other one compares it with: that takes as long whatever
/// they have in common.
using secret_proof = std::array<char, 32>;
bool same_proof(const secret_proof& x, const secret_proof& y);

/// Why a peer has not shown it.
enum class handshake_fault : std::uint8_t {
  greeting, ///< it does not speak this
  proof,    ///< it has another secret, or none
};

/// As a sentence's end: "has sent ...".
std::string_view to_string(handshake_fault why);

/// Challenge and response, seen from one side: a state machine without sockets. Both greet,
/// each with a number that was never used before; then the client, and after it the server,
/// shows an HMAC over its own role and both numbers. So nothing that was heard before is
/// worth anything, neither what another peer has said nor what this side says itself.
class secret_handshake {
public:
  enum class role : char { client = 'c', server = 's' };

  secret_handshake(const shared_secret& secret, role mine);

  /// What a client says first. A server says nothing before it is greeted.
  const std::string& greeting() const {
    return greeting_;
  }

  /// Takes what has come, and leaves in `bytes` what is behind the handshake. What is to be
  /// said is added to `answer`.
  std::optional<handshake_fault> take(std::string_view& bytes,
                                      std::string& answer);

  /// Both have shown it.
  bool is_over() const {
    return wanted_ == 0;
  }

  /// So many bytes of the peer's next sentence have not come.
  std::size_t missing() const {
    return wanted_ - in_.size();
  }

private:
  void read_greeting(std::string& answer);
  /// Whether it is one.
  bool read_proof(std::string& answer);
  secret_proof proof_of(role whose) const;

  shared_secret secret_;
  role mine_;
  std::string greeting_;
  std::string theirs_;
  std::string in_;
  /// The length of the sentence that is read now; none: it is over.
  std::size_t wanted_;
};

/// The client's side over a connection: blocks for as long as `timeout`. The error says what
/// the peer has said, or has not.
result<void> show_secret(const descriptor& to, const shared_secret& secret,
                         std::chrono::milliseconds timeout);

} // namespace gd::actors
