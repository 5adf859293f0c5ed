// Everything works in a schema of any name, for a role that owns that schema
// and nothing else.

#define CAF_SUITE any_schema

#include "actors/harness.hpp"

#include <gd/client.hpp>
#include <gd/migrate.hpp>

#include <caf/test/unit_test.hpp>

namespace any_schema_suite {

using namespace gd::test;
using namespace std::string_literals;
using namespace std::string_literals;
namespace events = gd::events;

namespace {

struct fixture : engine_fixture {
  /// Parks, wakes by a signal, and ends with what the signal said.
  gd::machine machine() {
    probe x;
    x.first = [](probe_context& ctx) -> gd::outcome {
      if (auto said = ctx.take<word>("say")) {
        ctx.state.note = said->text;
        return gd::next(probe_step::second, ctx.state);
      }
      return gd::await("say", ctx.state).timeout(1h);
    };
    x.second = [](probe_context& ctx) { return gd::done(ctx.state); };
    return x;
  }

  gd::config options_in(const temporary_database& own,
                        const std::string& role = {}) {
    auto x = options({machine()});
    x.database = own.conninfo(role);
    x.schema = own.schema();
    x.single_sweeper = true;
    return x;
  }

  template <class T>
  static T need(gd::result<T> x) {
    if (!x)
      throw std::runtime_error{to_string(x.error())};
    return std::move(*x);
  }

  /// Up, all that an engine does, and down.
  void use(temporary_database& own, const std::string& role = {}) {
    gd::pq::options opts{.database = own.conninfo(role),
                         .schema = own.schema()};
    CAF_CHECK_EQUAL(need(gd::migrate_up(opts)), gd::newest_schema());
    CAF_CHECK(need(gd::migration_status(opts)).usable());
    {
      auto engine = start(options_in(own, role));
      gd::insert row{.fsm = "Probe",
                     .state = gd::to_json(probe_state{1, {}}),
                     .partition_key = "key",
                     .unique_key = "unique"};
      auto first = need(ask<gd::inserted>(engine, row));
      auto again = need(ask<gd::inserted>(engine, row));
      CAF_CHECK(again.duplicate && again.id == first.id);
      auto status = "select status from gen_durable where id = "
                    + std::to_string(first.id);
      own.wait_until(status, "awaiting_signal");
      gd::signal said{first.id, "say", gd::to_json(word{"hello"}), "event"};
      CAF_CHECK(!need(ask<gd::signalled>(engine, said)).duplicate);
      CAF_CHECK(need(ask<gd::signalled>(engine, said)).duplicate);
      own.wait_until(status, "done");
      auto end = need(ask<gd::instance>(engine, gd::look_up{first.id}));
      CAF_CHECK_EQUAL(need(end.result_as<probe_state>()).note, "hello");
      need(ask<gd::stats>(engine, gd::stats_query{}));
      reap(own, role);
    }
    // A program without actors, too.
    auto client = gd::client::connect(opts);
    CAF_REQUIRE(client);
    need(client->insert({.fsm = "Probe"}));
    CAF_CHECK_EQUAL(need(client->stats()).size(), 2u);
    CAF_CHECK_EQUAL(need(gd::migrate_down(opts, 0, true)), gd::newest_schema());
    for (const char* left :
         {"pg_class where relnamespace", "pg_type where typnamespace",
          "pg_proc where pronamespace"})
      CAF_CHECK_EQUAL(own.scalar("select count(*) from "s + left
                                   + " = (select oid from pg_namespace where "
                                     "nspname = $1)",
                                 {own.schema()}),
                      "0");
  }

  /// A node that is gone, and whose session still holds a partition key.
  void reap(temporary_database& own, const std::string& role) {
    session dead{own.conninfo(role)};
    dead.exec("select pg_advisory_lock(hashtext('held'))");
    own.add_silent_node("node/0123", dead.pid());
    own.rows("insert into gen_durable (fsm, step, state, status, "
             "partition_key, locked_by, lease_expires_at) select 'Probe', "
             "'second', '{}', 'executing', 'held', 'node/0123/' || n, now() - "
             "interval '1 s' from generate_series(1, 2) n");
    own.rows("insert into gen_durable (fsm, step, status, awaits, deadline, "
             "unique_key, unique_scope) values ('Probe', 'second', "
             "'awaiting_signal', 'x', now(), 'returns', '{runnable}')");
    own.wait_until("select count(*)::text from gen_durable where status = "
                   "'done'",
                   "4");
    CAF_CHECK_EQUAL(own.scalar("select count(*)::text from gen_durable where "
                               "attempt = 1"),
                    "2");
    CAF_CHECK(log.wait_for<events::sessions_ended>());
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(any_schema_tests, fixture)

CAF_TEST(everything works in a schema whose name needs quotes) {
  for (const auto& name :
       {"we\"ird sch;ema'"s, R"(\'"$1 :"schema" %s)"s, "select"s}) {
    CAF_MESSAGE(name);
    temporary_database own{name};
    use(own);
  }
}

CAF_TEST(everything works in a schema with the longest name) {
  temporary_database ascii{std::string(63, 'n')};
  use(ascii);
  // 63 bytes, and fewer characters.
  temporary_database other{std::string(60, 'n') + "\xe2\x82\xac"};
  use(other);
  auto opts = options({probe{}});
  opts.schema = std::string(64, 'n');
  auto refused = gd::actors::start(sys, opts);
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().message,
                  "schema: expected 1 to 63 bytes of UTF-8 without control "
                  "characters, got 64 bytes");
}

CAF_TEST(backslashes in a name are plain also where literals have escapes) {
  temporary_database own{R"(a\'b\\)"};
  own.rows("alter database " + quoted_name(own.name())
           + " set standard_conforming_strings = off");
  use(own);
}

CAF_TEST(a role that owns its schema and nothing else runs everything) {
  temporary_database own{"own \"schema\""};
  auto role = own.name() + "_role";
  auto name = quoted_name(role);
  own.rows("create role " + name + " login nosuperuser nocreatedb noinherit");
  own.rows("revoke all on database " + quoted_name(own.name())
           + " from public");
  own.rows("revoke all on schema public from public");
  own.rows("grant connect on database " + quoted_name(own.name()) + " to "
           + name);
  own.rows("create schema " + quoted_name(own.schema()) + " authorization "
           + name);
  use(own, role);
  // It could not have made the schema, or anything elsewhere.
  CAF_CHECK(
    !gd::migrate_up({.database = own.conninfo(role), .schema = "another"}));
  own.rows("drop owned by " + name + " cascade");
  own.rows("drop role " + name);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace any_schema_suite
