#include <gd/store/steps.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>

namespace gd::store {

using pq::make_call;

namespace {

std::string text(std::chrono::milliseconds x) {
  return fmt::format("{}ms", x.count());
}

} // namespace

std::vector<pq::call> enter_step(const std::string& marker,
                                 const effect_settings& how,
                                 std::chrono::milliseconds idle) {
  return {{&sql::begin, {}},
          make_call(sql::enter_step, marker, how.search_path, how.role,
                    text(how.statement_timeout), text(how.statement_timeout),
                    text(idle), std::string{"5s"})};
}

std::vector<pq::call> leave_step(const std::string& marker,
                                 const std::string& role,
                                 std::chrono::milliseconds each) {
  return {{&sql::check_constraints, {}},
          make_call(sql::leave_step, marker, role, text(each))};
}

lone_outcome write_alone(const outcome_row& row,
                         std::chrono::microseconds resend) {
  lone_outcome out;
  out.calls.push_back(lock({row.id}));
  auto then = row.keep_us       ? follow::keep
              : row.has_history ? follow::history
                                : follow::nothing;
  row_refs<outcome_row> rows;
  rows.add(row);
  out.written = out.calls.size();
  out.calls.push_back(write_outcomes({writer::any, then}, rows, {}, resend));
  if (auto parked = recheck(rows))
    out.calls.push_back(std::move(*parked));
  return out;
}

pq::call clean_session() {
  return {&sql::clean_session, {}};
}

pq::call xact_status(const std::string& xact) {
  return make_call(sql::xact_status, xact);
}

} // namespace gd::store
