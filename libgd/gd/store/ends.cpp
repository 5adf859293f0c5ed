#include <gd/store/ends.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <string>

namespace gd::store {

using pq::column;
using pq::make_call;

std::optional<final_status> end_of(verb what) noexcept {
  if (what == verb::done || what == verb::finish)
    return final_status::done;
  return what == verb::stop ? std::optional{final_status::failed}
                            : std::nullopt;
}

static pq::call flush_kept_by(const sql::statement& by,
                              const row_refs<outcome_row>& rows,
                              std::chrono::microseconds resend) {
  auto x = flush_ledger(rows);
  x.what = &by;
  x.args.add(column(rows, &outcome_row::keep_us)).add(resend.count());
  return x;
}

pq::call flush_keep(const row_refs<outcome_row>& rows,
                    std::chrono::microseconds resend) {
  return flush_kept_by(sql::flush_keep, rows, resend);
}

pq::call flush_erase(const row_refs<outcome_row>& rows,
                     std::chrono::microseconds resend) {
  return flush_kept_by(sql::flush_erase, rows, resend);
}

pq::call flush_done_keep(const row_refs<outcome_row>& rows,
                         std::chrono::microseconds resend) {
  auto x = flush_done(rows);
  x.what = &sql::flush_done_keep;
  x.args.add((*rows.begin()).keep_us.value_or(0)).add(resend.count());
  return x;
}

pq::call expired(std::int32_t limit, const page_end& after) {
  return make_call(sql::expired, limit, after.at_us2000, after.id);
}

pq::call erase(const std::vector<std::int64_t>& ids) {
  return make_call(sql::erase, ids, std::int64_t{-1}, std::string{});
}

void push_halves(std::vector<std::vector<std::int64_t>>& to,
                 const std::vector<std::int64_t>& ids) {
  auto middle = ids.begin() + std::ssize(ids) / 2;
  to.emplace_back(middle, ids.end());
  to.emplace_back(ids.begin(), middle);
}

pq::call put_off(const std::vector<std::int64_t>& ids) {
  return make_call(sql::put_off, ids);
}

pq::call prunable(const prune& what) {
  return make_call(sql::prunable, what.after, what.page, what.fsm, what.version,
                   what.status, what.age_us);
}

pq::call erase(const std::vector<std::int64_t>& ids, const prune& what) {
  return make_call(sql::erase, ids, what.age_us, what.status);
}

} // namespace gd::store
