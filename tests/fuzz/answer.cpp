/// Any bytes as what a server answers: its rows are refused, or every reader of
/// rows takes them without crashing.

#include <gd/operate.hpp>
#include <gd/pq/rows.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
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

/// More than any answer has.
constexpr std::size_t most_columns = 32;

/// A byte tells how many columns there are, one for each of them its type, then
/// one in front of each value how long it is, or that it is null.
pg_result* make_result(input from, const std::vector<std::string>& names) {
  constexpr std::array<Oid, 7> types{25, 20, 23, 21, 16, 1016, 1009};
  constexpr std::uint8_t null = 255;
  auto* out = PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK);
  require(names.size() <= most_columns);
  std::vector<PGresAttDesc> columns(1 + from.byte() % most_columns);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto* name = i < names.size() ? names[i].c_str() : "x";
    columns[i] = {const_cast<char*>(name),           0,  0, 1,
                  types[from.byte() % types.size()], -1, -1};
  }
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

/// The columns of a row, those of an inbox and `first` before its own: these grow at their
/// end, and what the seeds have goes by position.
template <class Row>
std::vector<std::string> columns_of(std::vector<std::string> first = {}) {
  auto own = gd::detail::names_of<Row>;
  if (std::ranges::find(own, "inbox") != own.end())
    first.insert(first.end(), {"ids", "names", "payloads", "traces"});
  for (auto name : own)
    if (name != "inbox")
      first.emplace_back(name);
  return first;
}

template <class Row>
void read_as(input from) {
  gd::store::read<Row>(gd::pq::rows{make_result(from, columns_of<Row>())});
}

template <class... Rows>
void read_as_each(input from) {
  (read_as<Rows>(from), ...);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  namespace store = gd::store;
  input from{{reinterpret_cast<const char*>(data), size}};
  auto answer = [&from](const std::vector<std::string>& names) {
    return gd::pq::rows{make_result(from, names)};
  };
  auto rows = answer({"comment"});
  static_cast<void>(static_cast<bool>(rows.check()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int column = 0; column < static_cast<int>(most_columns); ++column) {
      auto numbers = rows.integers(i, column);
      auto texts = rows.texts(i, column);
      require(8 * numbers.size() <= rows.text(i, column).size());
      require(4 * texts.size() <= rows.text(i, column).size());
    }
  gd::pq::reply version;
  version.results.push_back(answer(columns_of<store::schema_row>()));
  static_cast<void>(static_cast<bool>(store::check_schema(version, "public")));
  store::read_pick(
    answer(columns_of<store::picked_row>(columns_of<store::mark>())));
  store::read_flush(answer({"id", "applied", "holder"}));
  store::read_ids(answer({"id"}));
  store::read_instance(answer(columns_of<gd::instance>()));
  read_as_each<
    store::pick_summary, store::candidate, store::shown_row, store::lost_key,
    store::held_key, store::inbox_row, store::beat, store::scanned_leases,
    store::ending_lease, store::moved_row, store::reaped_row,
    store::returning_row, store::returned_row, store::open_crash,
    store::exonerated_page, store::silent_session, store::foreign_session,
    store::known_machine, store::changed_machine, store::replaced_machine,
    store::older_node, gd::machine_row, gd::node_row, gd::not_served_row,
    store::drawn_id, store::claimed_row, store::inserted_row, store::signal_row,
    gd::stats_row, gd::ledger_entry, gd::in_step_row, gd::why, gd::commanded,
    store::scanned_queue, gd::job_row, store::open_job_row, store::upgrade_row,
    store::older_row, store::brought, store::listed_row, store::failed_row,
    store::noted_row, store::trimmed_to, store::forgotten_to,
    store::drawn_machine, gd::count_row, gd::activity>(from);
  store::read_declared<store::changed_machine>(
    answer(columns_of<store::changed_machine>()));
  store::read_graph(answer(columns_of<store::drawn_machine>()));
  return 0;
}
