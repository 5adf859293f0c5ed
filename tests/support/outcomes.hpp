#pragma once

#include <gd/store/store.hpp>

#include <string>

/// Short forms of `write_outcomes`, for outcomes from which nothing follows.
namespace gd::store {

inline pq::call flush(const row_refs<outcome_row>& rows) {
  return write_outcomes({writer::any}, rows);
}

inline pq::call flush_done(const row_refs<outcome_row>& rows) {
  return write_outcomes({writer::done}, rows);
}

inline pq::call flush_next(const row_refs<outcome_row>& rows) {
  return write_outcomes({writer::next}, rows);
}

inline pq::call flush_advance(const row_refs<outcome_row>& rows,
                              const std::string& new_token) {
  return write_outcomes({writer::advance}, rows, new_token);
}

} // namespace gd::store
