#pragma once

#include <gd/network/workers/link_codec.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd::link {

/// What both ends of a link have: the joining, and how many messages of it have been said
/// and heard, so that one that is missing, or comes twice, is noticed.
class channel {
public:
  bool open() const noexcept {
    return epoch_ != 0;
  }
  std::uint64_t epoch() const noexcept {
    return epoch_;
  }

  void begin(std::uint64_t epoch) {
    end();
    epoch_ = epoch;
  }

  void end() {
    epoch_ = said_ = heard_ = 0;
    packets_.clear();
  }

  /// Of no joining.
  template <class T>
  void send(const T& x) {
    packets_.push_back(pack(x));
  }

  template <std::derived_from<position> T>
  void say(T x) {
    x.epoch = epoch_;
    x.nr = ++said_;
    send(x);
  }

  template <std::derived_from<about> T>
  void say_of(const held_id& which, T x) {
    x.id = which.id;
    x.token = which.token;
    say(std::move(x));
  }

  /// Calls `f` with the message, if it is of this joining, or of none. Returns why the
  /// joining cannot go on; empty: it can.
  template <class T, class F>
  std::string read(const packet& x, F f) {
    auto message = unpack<T>(x);
    if (!message)
      return message.error().message;
    if constexpr (std::derived_from<T, position>) {
      if (auto why_not = hear(*message))
        return *why_not;
    }
    f(std::move(*message));
    return {};
  }

  /// Nullopt: it is the next message of this joining, and counts. Empty: it is of
  /// another.
  std::optional<std::string> hear(const position& x) {
    if (!open() || x.epoch != epoch_)
      return std::string{};
    if (x.nr != heard_ + 1)
      return "a message is missing, or has come twice";
    ++heard_;
    return std::nullopt;
  }

  /// One that means nothing here counts, too.
  void skip() noexcept {
    ++heard_;
  }

  std::vector<packet> take_packets() {
    return std::exchange(packets_, {});
  }

private:
  std::uint64_t epoch_ = 0; ///< 0: there is none
  std::uint64_t said_ = 0;
  std::uint64_t heard_ = 0;
  std::vector<packet> packets_;
};

} // namespace gd::link
