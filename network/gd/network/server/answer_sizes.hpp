#pragma once

#include <gd/instance.hpp>
#include <gd/operate.hpp>

#include <cstddef>

namespace gd::actors {

/// About as many bytes as it takes to send an answer.
inline std::size_t size_of(const gd::instance& x) {
  return 1'024 + x.state.text().size()
         + (x.result ? x.result->text().size() : 0)
         + (x.last_error ? x.last_error->size() : 0)
         + (x.partition_key ? x.partition_key->size() : 0)
         + (x.unique_key ? x.unique_key->size() : 0);
}
inline std::size_t size_of(const gd::stats& x) {
  return (x.rows.size() + 1) * 1'024;
}
inline std::size_t size_of(const gd::history_page& x) {
  std::size_t n = 1'024;
  for (const auto& row : x.rows)
    n += 1'024 + (row.reason ? row.reason->size() : 0)
         + (row.metadata ? row.metadata->text().size() : 0)
         + (row.state ? row.state->text().size() : 0);
  return n;
}
inline std::size_t size_of(const gd::in_step_page& x) {
  return (x.rows.size() + 1) * 128;
}
inline std::size_t size_of(const gd::why& x) {
  return 4'096 + x.sentence.size() + x.details.text().size();
}
inline std::size_t size_of(const gd::inserted_all& x) {
  return (x.rows.size() + 1) * 128;
}
inline std::size_t size_of(const gd::inserted&) {
  return 128;
}
inline constexpr std::size_t size_of_error = 256;
inline std::size_t size_of(const gd::signalled&) {
  return 128;
}
inline std::size_t size_of(const gd::transitioned&) {
  return 128;
}

} // namespace gd::actors
