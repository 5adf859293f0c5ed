#define CAF_SUITE forget

// Dedup keys that are forgotten: those of machines that say so, when they are old
// enough, page by page, and no others.

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/registry.hpp>
#include <gd/store/nodes.hpp>

#include <support/database.hpp>
#include <support/opened.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace forget_suite {

using namespace std::literals;

GD_ENUM(account_step, listen);

namespace {

namespace store = gd::store;

using gd::test::session;

struct account {
  int n = 0;
  GD_STATE(account, n);
};

auto account_builder(std::int32_t version = 1) {
  return gd::define<account, account_step>("Account", version)
    .step(account_step::listen, [](gd::context<account>& ctx) {
      return gd::await("paid", ctx.state);
    });
}

struct fixture : gd::test::engine_database {
  void make_known(const std::vector<gd::machine>& machines) {
    run(store::register_machines(store::known(machines)));
  }

  std::string instance(int version = 1, const std::string& fsm = "Account") {
    return db.scalar("insert into gen_durable (fsm, fsm_version, step) values "
                     "($1, $2, 'listen') returning id",
                     {fsm, std::to_string(version)});
  }

  /// `ago`: when it was inserted, and consumed (null: never).
  std::string signal(const std::string& target, const std::string& inserted,
                     const std::string& consumed, const std::string& key) {
    return db.scalar(
      "insert into gen_durable_signals (target_id, name, dedup_key, "
      "inserted_at, consumed_at) values ($1, 'paid', $2, now() "
      "- $3::interval, now() - nullif($4, '')::interval) "
      "returning id",
      {target, key, inserted, consumed});
  }

  store::forgotten_to page(std::int64_t after, std::int32_t most = 1'000) {
    return store::read_one<store::forgotten_to>(
             run(store::forget_dedup(after, most)))
      .value();
  }

  std::string left() {
    return db.scalar("select coalesce(string_agg(dedup_key, ' ' order by id), "
                     "'') from gen_durable_signals");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(forget_tests, fixture)

CAF_TEST(what was consumed long enough ago is forgotten and nothing else) {
  make_known(
    {account_builder().forget_dedup_after(24h * 30), account_builder(2)});
  auto x = instance();
  auto other_version = instance(2);
  auto unknown = instance(1, "Unknown");
  signal(x, "40 d", "31 d", "old");
  signal(x, "40 d", "29 d", "young");
  signal(x, "40 d", "", "waiting");
  signal(other_version, "40 d", "39 d", "kept");
  signal(unknown, "40 d", "39 d", "unknown");
  signal(x, "31 d", "30 d 1 s", "just");
  auto did = page(0);
  CAF_CHECK_EQUAL(did.forgotten, 2);
  CAF_CHECK(!did.id);
  CAF_CHECK_EQUAL(left(), "young waiting kept unknown");
}

CAF_TEST(
  pages go on to where signals are too young and then from the beginning) {
  make_known({account_builder().forget_dedup_after(1h)});
  auto x = instance();
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i)
    ids.push_back(
      signal(x, "3 h", i % 2 == 0 ? "2 h" : "30 min", std::to_string(i)));
  for (int i = 6; i < 12; ++i)
    ids.push_back(signal(x, "10 min", "5 min", std::to_string(i)));
  auto first = page(0, 4);
  CAF_CHECK_EQUAL(first.id.value_or(0), std::stoll(ids[3]));
  CAF_CHECK_EQUAL(first.forgotten, 2);
  auto second = page(*first.id, 4);
  CAF_CHECK_EQUAL(second.id.value_or(0), std::stoll(ids[7]));
  CAF_CHECK_EQUAL(second.forgotten, 1);
  auto third = page(*second.id, 4);
  CAF_CHECK(!third.id); // nothing behind it can be old enough
  CAF_CHECK_EQUAL(third.forgotten, 0);
  CAF_CHECK_EQUAL(left(), "1 3 5 6 7 8 9 10 11");
}

CAF_TEST(a stranger holds up no other key and its own goes later) {
  make_known({account_builder().forget_dedup_after(1h)});
  auto x = instance();
  auto held = signal(x, "3 h", "2 h", "held");
  signal(x, "3 h", "2 h", "free");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable_signals where id = $1 for update",
                {held});
  CAF_CHECK_EQUAL(page(0).forgotten, 1);
  CAF_CHECK_EQUAL(left(), "held");
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(page(0).forgotten, 1);
  CAF_CHECK_EQUAL(left(), "");
}

CAF_TEST(nothing is forgotten where no machine says so any more) {
  make_known({account_builder().forget_dedup_after(1h)});
  make_known({account_builder()});
  signal(instance(), "3 h", "2 h", "old");
  auto did = page(0);
  CAF_CHECK(!did.id);
  CAF_CHECK_EQUAL(did.forgotten, 0);
  CAF_CHECK_EQUAL(left(), "old");
}

CAF_TEST(an age that is none is a problem of the machine) {
  auto wrong = [](std::chrono::microseconds age) {
    gd::machine x = account_builder().forget_dedup_after(age);
    auto ok = x.validate();
    return ok ? ""s : ok.error().message;
  };
  CAF_CHECK_EQUAL(wrong(1s), "");
  CAF_CHECK_EQUAL(wrong(36'525 * 24h), "");
  for (auto age :
       {0us, -1us, 999'999us, std::chrono::microseconds{36'525 * 24h} + 1us})
    CAF_CHECK_EQUAL(wrong(age),
                    "Account v1: dedup keys are forgotten after 1 s "
                    "to 100 years");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace forget_suite
