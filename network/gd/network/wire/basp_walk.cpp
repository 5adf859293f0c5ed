#include <gd/network/wire/basp_filter.hpp>

#include <gd/actors/messages.hpp>

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

std::vector<basp_message> gateway_requests() {
  return {basp_message::of<gd::insert>("gd::insert"),
          basp_message::of<gd::insert_all>("gd::insert_all"),
          basp_message::of<gd::signal>("gd::signal"),
          basp_message::of<gd::transition>("gd::transition"),
          basp_message::of<gd::look_up>("gd::look_up"),
          basp_message::of<gd::stats_query>("gd::stats_query"),
          basp_message::of<gd::history_query>("gd::history_query"),
          basp_message::of<gd::in_step_query>("gd::in_step_query"),
          basp_message::of<gd::why_query>("gd::why_query"),
          basp_message::of<rows_due>("gd::actors::rows_due")};
}

std::vector<basp_message> gateway_answers() {
  return {basp_message::of<gd::inserted>("gd::inserted"),
          basp_message::of<gd::inserted_all>("gd::inserted_all"),
          basp_message::of<gd::signalled>("gd::signalled"),
          basp_message::of<gd::transitioned>("gd::transitioned"),
          basp_message::of<gd::instance>("gd::instance"),
          basp_message::of<gd::stats>("gd::stats"),
          basp_message::of<gd::history_page>("gd::history_page"),
          basp_message::of<gd::in_step_page>("gd::in_step_page"),
          basp_message::of<gd::why>("gd::why"),
          basp_message::of<rows_noted>("gd::actors::rows_noted")};
}

std::vector<basp_message> told_messages() {
  return {basp_message::of<link_message>("gd::actors::link_message")};
}

} // namespace gd::actors
