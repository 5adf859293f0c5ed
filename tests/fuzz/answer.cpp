/// Any bytes as what a server answers: its rows are refused, or every reader of
/// rows takes them without crashing.

#include <gd/pq/rows.hpp>
#include <gd/pq/store.hpp>

#include <libpq-fe.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

/// Takes the input apart, from its beginning.
struct input {
  std::string_view rest;

  std::uint8_t byte() {
    if (rest.empty())
      return 0;
    auto x = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    return x;
  }

  std::string_view bytes(std::size_t n) {
    auto x = rest.substr(0, n);
    rest.remove_prefix(x.size());
    return x;
  }
};

/// A byte tells how many columns there are, one for each of them its type, then
/// one in front of each value how long it is, or that it is null.
pg_result* make_result(input from) {
  constexpr std::array<Oid, 7> types{25, 20, 23, 21, 16, 1016, 1009};
  constexpr std::uint8_t null = 255;
  auto* out = PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK);
  std::vector<PGresAttDesc> columns(1 + from.byte() % 24);
  for (auto& x : columns)
    x = {const_cast<char*>("x"),
         0,
         0,
         1,
         types[from.byte() % types.size()],
         -1,
         -1};
  PQsetResultAttrs(out, static_cast<int>(columns.size()), columns.data());
  for (int row = 0; !from.rest.empty(); ++row)
    for (int column = 0; column < static_cast<int>(columns.size()); ++column) {
      auto length = from.byte();
      auto value = from.bytes(length == null ? 0 : length);
      require(PQsetvalue(out, row, column, const_cast<char*>(value.data()),
                         length == null ? -1 : static_cast<int>(value.size()))
              == 1);
    }
  return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  namespace store = gd::store;
  gd::pq::rows rows{make_result({{reinterpret_cast<const char*>(data), size}})};
  static_cast<void>(static_cast<bool>(rows.check()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int column = 0; column < 24; ++column) {
      auto numbers = rows.integers(i, column);
      auto texts = rows.texts(i, column);
      require(8 * numbers.size() <= rows.text(i, column).size());
      require(4 * texts.size() <= rows.text(i, column).size());
    }
  store::read_pick(rows);
  store::read_candidates(rows);
  store::read_show(rows);
  store::read_check_keys(rows);
  store::read_hold_keys(rows);
  store::read_inbox(rows);
  store::read_flush(rows);
  store::read_heartbeat(rows);
  store::read_locked_leases(rows);
  store::read_wake_due(rows);
  store::read_reap(rows);
  store::read_returning(rows);
  store::read_return_row(rows);
  store::read_silent_sessions(rows);
  store::read_foreign_sessions(rows);
  store::read_machines(rows);
  store::read_ids(rows);
  store::read_drawn(rows);
  store::read_claimed(rows);
  store::read_inserted(rows);
  store::read_signals(rows);
  store::read_instance(rows);
  store::read_stats(rows);
  static_cast<void>(static_cast<bool>(store::check_schema(rows, "public")));
  return 0;
}
