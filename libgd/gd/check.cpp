#include <gd/check.hpp>

#include <gd/instance.hpp>
#include <gd/pq/bind.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/read.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <thread>
#include <utility>

namespace gd {

namespace {

/// How a repair waits for those who have drawn ids: so briefly that those who come after
/// it hardly notice, and again and again.
constexpr std::chrono::milliseconds draws_wait{200};
constexpr std::chrono::milliseconds draws_pause{800};
constexpr int draws_tries = 6;

struct repaired_row {
  std::string repaired{};

  GD_FIELDS(repaired);
};

result<pq::rows> ask(pq::connection& db, const pq::unit& work) {
  auto reply = db.run(work);
  if (!reply.ok())
    return *reply.failure;
  return std::move(reply.results.back());
}

/// Whether this library can work with what is there.
result<void> read_schema(pq::connection& db, const std::string& schema) {
  if (auto ok = check_name("schema", schema, {.name = 63}); !ok)
    return ok;
  return store::check_schema(db.run({{store::schema_version()}, false}),
                             schema);
}

} // namespace

result<std::vector<finding>> check(pq::options opts) {
  auto schema = opts.schema;
  pq::connection db{std::move(opts)};
  if (auto ok = read_schema(db, schema); !ok)
    return ok.error();
  auto rows = ask(db, {{pq::make_call(sql::check)}, false});
  if (!rows)
    return rows.error();
  return store::read<finding>(*rows);
}

result<std::vector<std::string>> repair(pq::options opts) {
  auto schema = opts.schema;
  pq::connection db{std::move(opts)};
  if (auto ok = read_schema(db, schema); !ok)
    return ok.error();
  for (int tries = 1;; ++tries) {
    auto rows = ask(
      db, {{store::lock_timeout(draws_wait), pq::make_call(sql::repair)}});
    if (rows) {
      std::vector<std::string> done;
      for (auto& x : store::read<repaired_row>(*rows))
        done.push_back(std::move(x.repaired));
      return done;
    }
    if (rows.error().code != errc::busy)
      return rows.error();
    if (tries == draws_tries)
      return error{errc::busy,
                   "repair: a transaction that has drawn ids does not end; "
                   "nothing was changed; try again",
                   {}};
    std::this_thread::sleep_for(draws_pause);
  }
}

} // namespace gd
