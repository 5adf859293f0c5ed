#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/intake.hpp>
#include <gd/pq.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gd {

/// Inserts, signals and looks up, for programs without actors. Calls block
/// until the database has answered; one connection, one call at a time: a
/// client is not thread-safe, and threads have one each.
///
/// A connection that is lost in between is made again, with backoff, for some
/// seconds. Inserts are then sent again without duplicating anything; a signal
/// may be stored twice if it has no dedup key. What could still not be settled
/// is answered with `unavailable` if nothing can have happened, else with
/// `unknown_fate`.
class client {
public:
  /// Connects, once, and checks that this library can work with the schema.
  static result<client> connect(pq::options opts, intake_settings how = {});

  client(client&&) = default;
  client& operator=(client&&) = default;

  result<inserted> insert(gd::insert what);
  /// Any number of rows, in transactions of bounded size; each is accepted or
  /// refused by itself. Answers are in the order of the rows.
  std::vector<result<inserted>> insert_all(std::vector<gd::insert> rows);

  result<signalled> signal(gd::signal what);
  /// Like `insert_all`.
  std::vector<result<signalled>> signal_all(std::vector<gd::signal> signals);

  /// `not_found`: there is no such instance.
  result<instance> look_up(std::int64_t id);

  /// Reads the whole table.
  result<std::vector<stats_row>> stats();

private:
  client(pq::options opts, intake_settings how);

  result<void> open();
  result<void> open_again();
  /// `meanwhile` runs while the server works.
  template <class Meanwhile>
  pq::reply run(const pq::unit& work, Meanwhile meanwhile);
  result<pq::rows> read(pq::call what);
  template <class Answer, class Intake, class Request>
  std::vector<result<Answer>> drive(Intake& intake,
                                    std::vector<Request> requests);

  pq::options opts_;
  std::size_t rows_; ///< of a group
  insert_intake inserts_;
  signal_intake signals_;
  std::unique_ptr<pq::connection> db_;
  /// Why the call under way connects no more.
  std::optional<error> gave_up_;
};

} // namespace gd
