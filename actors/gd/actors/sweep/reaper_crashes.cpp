// Suspects that are charged with ends of processes of which it is known by now that another
// row has caused them: they are charged with them no more.

#include <gd/actors/sweep/reaper.hpp>

#include <caf/all.hpp>

#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

/// Suspects of a page: all are looked at, few are written.
constexpr std::int32_t page_rows = 1'000;

} // namespace

/// Whoever has convicted the row may be gone: each sweep asks.
void reaper_actor::exonerate(const std::vector<store::open_crash>& open) {
  open_crashes_.clear();
  for (const auto& x : open)
    open_crashes_.push_back(x.process);
  exonerated_ = 0;
  if (open_crashes_.empty())
    return end_exonerating();
  exonerate_page();
}

void reaper_actor::exonerate_page() {
  send(sweep::leases, stage::excuse,
       {{store::exonerate(open_crashes_, exonerated_to_, page_rows)}, false});
}

void reaper_actor::read_exonerated(const pq::reply& reply) {
  auto page = store::read_one<store::exonerated_page>(reply.results.front())
                .value_or(store::exonerated_page{});
  exonerated_ += static_cast<std::size_t>(page.exonerated);
  bool more = page.looked_at >= page_rows;
  exonerated_to_ = more ? std::move(page) : store::exonerated_page{};
  if (more && in_time(sweep::leases))
    return exonerate_page();
  end_exonerating();
}

void reaper_actor::end_exonerating() {
  if (auto count = std::exchange(exonerated_, 0); count > 0) {
    home_->tell(events::exonerated{count});
    std::vector<std::string> queues;
    for (const auto& x : home_->config.queues)
      queues.push_back(x.name);
    home_->wake(queues, true);
  }
  forgotten_pages_ = 0;
  forget();
}

} // namespace gd::actors
