#include <gd/store/ends.hpp>

#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <string>

namespace gd::store {

using pq::make_call;

std::optional<final_status> end_of(write_kind what) noexcept {
  if (what == write_kind::done || what == write_kind::finish)
    return final_status::done;
  return what == write_kind::stop ? std::optional{final_status::failed}
                                  : std::nullopt;
}

std::optional<gd::awaited> ended_by(const picked_row& of,
                                    const outcome_row& x) {
  auto how = end_of(x.what);
  if (!how)
    return std::nullopt;
  gd::awaited out{
    .id = of.id, .fsm = of.fsm, .version = of.fsm_version, .seq = of.seq + 1};
  if (*how == final_status::done) {
    out.status = "done";
    out.result = x.what == write_kind::finish ? json{} : json::raw(x.result);
  } else {
    out.status = "failed";
    out.failure = x.reason;
  }
  return out;
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
