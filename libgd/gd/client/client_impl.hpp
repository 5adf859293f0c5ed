#pragma once

#include <gd/client.hpp>
#include <gd/engine/intake/end_watch.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/intake/target_intake.hpp>
#include <gd/pq/connection.hpp>
#include <gd/store/operate.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

/// What the sources of `client` share.
namespace gd {

template <class F>
auto read_by(F read, const result<pq::rows>& rows)
  -> result<decltype(read(*rows))> {
  if (!rows)
    return rows.error();
  return read(*rows);
}

/// `none`: what is said where there is none.
template <class F>
auto read_found(F read, error none, const result<pq::rows>& rows)
  -> result<typename decltype(read(*rows))::value_type> {
  if (!rows)
    return rows.error();
  if (auto found = read(*rows))
    return std::move(*found);
  return none;
}

template <class Row>
result<std::vector<Row>> read_as(const result<pq::rows>& rows) {
  return read_by(store::read<Row>, rows);
}

/// Of names that rows are looked for by, those that are given: of text that is none the
/// server would say so in words of its own.
result<void> check_names(
  std::initializer_list<std::pair<std::string_view, std::string_view>> given);

struct client::impl {
  impl(pq::options opts, const intake_settings& how, int reconnects,
       std::chrono::milliseconds poll,
       std::shared_ptr<store::queue_scans> queue_scans)
    : opts_(std::move(opts)),
      reconnects_(reconnects),
      rows_(how.rows),
      limits_(how.limits),
      watch_{.limits = how.limits,
             .poll = std::max(poll, std::chrono::milliseconds{1}),
             .bytes = how.bytes},
      inserts_(how),
      signals_(how),
      transitions_(how),
      queue_scans_(std::move(queue_scans)) {
    // nop
  }

  result<void> open();
  result<void> open_again();
  /// `meanwhile` runs while the server works.
  template <class Meanwhile>
  pq::reply run(const pq::unit& work, Meanwhile meanwhile);
  /// The rows of the last statement. Sent again where that may help: it must not
  /// matter how often it is done.
  result<pq::rows> ask(const pq::unit& work);
  /// The same of what must not be done twice: sent again only if nothing has happened,
  /// and nobody else is in the way.
  result<pq::rows> ask_once(const pq::unit& work);
  result<pq::rows> read(pq::call what) {
    return ask({{std::move(what)}, false});
  }
  template <class Again>
  result<pq::rows> ask_while(const pq::unit& work, Again again);
  template <class Answer, class Intake, class Request>
  std::vector<result<Answer>> drive(Intake& intake,
                                    std::vector<Request> requests);

  pq::options opts_;
  int reconnects_;
  std::size_t rows_; ///< of a group
  limits limits_;
  end_watch::settings watch_;
  insert_intake inserts_;
  signal_intake signals_;
  transition_intake transitions_;
  std::unique_ptr<pq::connection> db_;
  pq::predecessor before_; ///< it
  std::shared_ptr<store::queue_scans> queue_scans_;
  /// Why the call under way connects no more.
  std::optional<error> gave_up_;
};

} // namespace gd
