#include <gd/network/wire/basp_filter.hpp>

#include <gd/actors/messages.hpp>

#include <caf/type_id.hpp>

namespace gd::actors {

bool basp_walk::begin_sequence(std::size_t& size) {
  size = 0;
  // CAF shifts for as long as bytes say that there are more; it writes five.
  for (auto shift = 0; shift < 35; shift += 7) {
    if (left_.empty())
      return false;
    auto byte = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    size |= static_cast<std::size_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0)
      return size <= left_.size();
  }
  return false;
}

bool basp_walk::skip(std::size_t bytes) {
  if (bytes > left_.size())
    return false;
  left_.remove_prefix(bytes);
  return true;
}

std::optional<std::string_view> basp_walk::text() {
  std::size_t size = 0;
  if (!begin_sequence(size))
    return std::nullopt;
  auto x = left_.substr(0, size);
  left_.remove_prefix(size);
  return x;
}

bool basp_walk::take_memory(std::size_t items, std::size_t bytes) {
  // Neither is more than 4 GiB.
  too_big_ = items * bytes > memory_left_;
  if (too_big_)
    return false;
  memory_left_ -= items * bytes;
  return true;
}

namespace {

template <class T>
basp_message message_of() {
  return basp_message::of<T>(caf::type_name<T>::value);
}

} // namespace

std::vector<basp_message> gateway_requests() {
  std::vector<basp_message> out{message_of<rows_due>()};
  requests::for_each([&out]<class Row>(Row) {
    out.push_back(message_of<typename Row::asked>());
  });
  return out;
}

std::vector<basp_message> gateway_answers() {
  std::vector<basp_message> out{message_of<rows_noted>()};
  requests::for_each([&out]<class Row>(Row) {
    out.push_back(message_of<typename Row::answer>());
  });
  return out;
}

std::vector<basp_message> told_messages() {
  return {message_of<link_message>()};
}

} // namespace gd::actors
