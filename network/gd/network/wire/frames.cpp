#include <gd/network/wire/frames.hpp>

#include <algorithm>

namespace gd::actors {

namespace {

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    x = x << 8 | static_cast<unsigned char>(bytes[at + i]);
  return static_cast<T>(x);
}

} // namespace

frame_header frame_header::read(std::string_view bytes) {
  // Two bytes are padding.
  return {
    static_cast<frame_kind>(bytes[0]),   number_at<std::uint8_t>(bytes, 3),
    number_at<std::uint32_t>(bytes, 4),  number_at<std::uint64_t>(bytes, 8),
    number_at<std::uint64_t>(bytes, 16), number_at<std::uint64_t>(bytes, 24)};
}

std::string heartbeat_frame() {
  std::string x(frame_header::size, '\0');
  x.front() = static_cast<char>(frame_kind::heartbeat);
  return x;
}

std::string_view to_string(frame_fault why) {
  switch (why) {
    case frame_fault::no_handshake:
      return "something else than the handshake of a CAF node";
    case frame_fault::version:
      return "another version of CAF's protocol than this node speaks";
    case frame_fault::operation:
      return "an operation that CAF's protocol does not have";
    case frame_fault::payload:
      return "a header that CAF does not send";
    case frame_fault::too_long:
      return "a message that is longer than any may be";
  }
  return "nonsense";
}

std::size_t frame_stream::take(std::string_view bytes) {
  if (left_ > 0) {
    auto n = std::min(left_, bytes.size());
    left_ -= n;
    return n;
  }
  auto n = std::min(frame_header::size - begun_.size(), bytes.size());
  begun_.append(bytes.substr(0, n));
  if (begun_.size() == frame_header::size) {
    header_ = frame_header::read(begun_);
    left_ = header_->payload;
    begun_.clear();
  }
  return n;
}

std::optional<frame_fault> frame_reader::take(std::string_view& bytes) {
  if (is_whole())
    bytes_ = {}; // it may have been long
  while (!bytes.empty()) {
    auto begins = bytes_.size() < frame_header::size;
    auto n = stream_.take(bytes);
    bytes_.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    if (begins && bytes_.size() == frame_header::size)
      if (auto fault = check(header()))
        return fault;
    longest_ = std::max(longest_, bytes_.size());
    if (is_whole()) {
      greeted_ = true;
      break;
    }
  }
  return std::nullopt;
}

std::optional<frame_fault> frame_reader::check(const frame_header& x) const {
  if (x.kind > frame_kind::heartbeat)
    return frame_fault::operation;
  if (!greeted_ && x.kind != rules_.first)
    return frame_fault::no_handshake;
  if (x.kind == frame_kind::server_handshake && x.data != rules_.version)
    return frame_fault::version;
  if ((x.kind == frame_kind::heartbeat) != (x.payload == 0))
    return frame_fault::payload;
  if (x.payload > rules_.most_bytes)
    return frame_fault::too_long;
  return std::nullopt;
}

} // namespace gd::actors
