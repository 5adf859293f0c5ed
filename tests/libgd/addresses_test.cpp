#define CAF_SUITE addresses

// Unique keys: one namespace for all machines, and a way to name the instance that has
// one now. The same whoever asks: SQL, a caller's transaction, a client, the test kit.

#include <gd/client.hpp>
#include <gd/engine/intake/target_intake.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>
#include <gd/transaction.hpp>

#include <support/opened.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace addresses_suite {

using namespace std::literals;

using gd::errc;
using gd::test::code_of;
using gd::test::refusal;
using gd::test::session;
using gd::test::sql_error;
using gd::test::text;
using gd::test::why_refused;

namespace {

namespace sql = gd::sql;

struct order {
  int n = 0;
  GD_STATE(order, n);
};

GD_ENUM(order_step, submitted, waiting, paid, work);

gd::machine order_machine(const std::string& name = "Order",
                          gd::history how = gd::history::with_state) {
  using enum order_step;
  return gd::define<order, order_step>(name, 1)
    .history(how)
    .rest(submitted, {paid, waiting}, {.after = 1h, .then = waiting})
    .rest(waiting, {paid, submitted})
    .final(paid)
    .step(work, [](gd::context<order>&) { return gd::done(); });
}

struct fixture : gd::test::opened_database {
  fixture() {
    know({order_machine(), order_machine("Refund"),
          order_machine("Plain", gd::history::none)});
  }

  void know(const std::vector<gd::machine>& machines) {
    auto c = client();
    CAF_REQUIRE(c.make_known(machines));
  }

  static gd::insert keyed(const std::string& fsm, const std::string& key) {
    return {.fsm = fsm, .state = gd::to_json(order{}), .unique_key = key};
  }

  std::int64_t make(const std::string& key, const std::string& fsm = "Order") {
    auto x = client().insert(keyed(fsm, key));
    CAF_REQUIRE(x);
    CAF_REQUIRE(!x->duplicate);
    return x->id;
  }

  /// Who has got that signal.
  std::string target_of(const std::string& name) {
    return db.scalar(
      "select string_agg(target_id::text, ' ' order by target_id)"
      " from gen_durable_signals where name = $1",
      {name});
  }

  std::string step_of(std::int64_t id) {
    return db.scalar("select step from gen_durable where id = $1", {text(id)});
  }
};

/// What a stranger does in its transaction: the key goes to another instance, which
/// comes out as the number of its row.
std::string hand_over(session& in, std::int64_t from, const std::string& key) {
  in.exec("begin");
  in.exec("update gen_durable set status = 'done', awaits = null where id = $1",
          {text(from)});
  return in.scalar("select id from gd_insert('Order', unique_key => $1)",
                   {key});
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(address_tests, fixture)

// -- one namespace ------------------------------------------------------------

CAF_TEST(a key of another machine is refused whoever inserts) {
  auto holder = make("k");
  auto why = "unique_key: k is that of instance " + text(holder) + " of Order";
  auto before = count();
  auto& caller = program();
  for (const auto* fsm : {"Refund", "Plain"}) { // with a history, and without
    CAF_MESSAGE(fsm);
    auto x = client().insert(keyed(fsm, "k"));
    CAF_CHECK_EQUAL(refusal(x), "key_of_another_machine: " + why);
    caller.exec("begin");
    gd::transaction mine{caller.handle()};
    auto all = mine.insert_all({keyed(fsm, "k"), keyed("Order", "k")});
    CAF_CHECK_EQUAL(refusal(all[0]), "key_of_another_machine: " + why);
    CAF_REQUIRE(all[1]);
    CAF_CHECK(all[1]->duplicate);
    CAF_CHECK_EQUAL(all[1]->id, holder);
    caller.exec("commit"); // it is still usable
    CAF_CHECK_EQUAL(why_refused(caller, "select * from gd_insert('"s + fsm
                                          + "', unique_key => 'k')"),
                    "MV005 " + why);
  }
  CAF_CHECK_EQUAL(count(), before);
  CAF_MESSAGE("neighbours are stored, and duplicates of the same machine told");
  auto all = client().insert_all(
    {keyed("Refund", "k"), keyed("Refund", "j"), keyed("Order", "k")});
  CAF_CHECK_EQUAL(refusal(all[0]), "key_of_another_machine: " + why);
  CAF_REQUIRE(all[1]);
  CAF_CHECK(!all[1]->duplicate);
  CAF_REQUIRE(all[2]);
  CAF_CHECK(all[2]->duplicate);
  CAF_MESSAGE("of one batch, the first machine gets the key");
  auto both = client().insert_all({keyed("Order", "b"), keyed("Refund", "b")});
  CAF_CHECK_NOT_EQUAL(static_cast<bool>(both[0]), static_cast<bool>(both[1]));
  CAF_MESSAGE("when its instance is finished, the key is free");
  db.rows("update gen_durable set status = 'done', awaits = null where id = "
          + text(holder));
  auto now = client().insert(keyed("Refund", "k"));
  CAF_REQUIRE(now);
  CAF_CHECK(!now->duplicate);
}

CAF_TEST(another version of the machine is no other machine) {
  auto holder = make("k");
  db.rows("update gen_durable set fsm_version = 7 where id = " + text(holder));
  auto x = client().insert(keyed("Order", "k"));
  CAF_REQUIRE(x);
  CAF_CHECK(x->duplicate);
  CAF_CHECK_EQUAL(x->id, holder);
}

CAF_TEST(who waits for the insert of a stranger is told whose machine has the key) {
  auto& stranger = program();
  for (bool by_sql : {true, false}) {
    auto key = by_sql ? "s"s : "t"s;
    stranger.exec("begin");
    auto holder = stranger.scalar(
      "select id from gd_insert('Order', unique_key => $1)", {key});
    auto& caller = program();
    auto waits = std::async(std::launch::async, [&] {
      return by_sql ? why_refused(
               caller,
               "select * from gd_insert('Refund', unique_key => '" + key + "')")
                    : refusal(client().insert(keyed("Refund", key)));
    });
    stranger.wait_until_someone_is_blocked();
    stranger.exec("commit");
    CAF_CHECK_EQUAL(
      waits.get(),
      fmt::format("{} unique_key: {} is that of instance {} of "
                  "Order",
                  by_sql ? "MV005" : "key_of_another_machine:", key, holder));
  }
}

// -- addresses ----------------------------------------------------------------

CAF_TEST(an instance is named by the key that it has) {
  auto id = make("order 42");
  auto c = client();
  auto shown = c.look_up(gd::look_up{.key = "order 42"});
  CAF_REQUIRE(shown);
  CAF_CHECK_EQUAL(shown->id, id);
  CAF_CHECK_EQUAL(shown->unique_key.value_or(""), "order 42");
  CAF_CHECK(c.signal({.name = "hello", .key = "order 42"}));
  CAF_CHECK_EQUAL(target_of("hello"), text(id));
  auto moved = c.transition({.to = "waiting", .key = "order 42"});
  CAF_REQUIRE(moved);
  CAF_CHECK_EQUAL(moved->seq, 1);
  auto entries = c.history({.key = "order 42"});
  CAF_REQUIRE(entries);
  CAF_CHECK_EQUAL(entries->size(), 2u);
  auto back = c.rewind({.seq = 0, .key = "order 42"});
  CAF_REQUIRE(back);
  CAF_CHECK_EQUAL(back->seq, 2);
  CAF_CHECK_EQUAL(back->status, "awaiting_signal");
  CAF_CHECK_EQUAL(step_of(id), "submitted");
  auto forked = c.fork({.seq = 1, .key = "order 42"});
  CAF_REQUIRE(forked);
  CAF_CHECK_EQUAL(step_of(forked->id), "waiting");
  auto& caller = program();
  caller.exec("begin");
  gd::transaction mine{caller.handle()};
  CAF_CHECK(mine.signal({.name = "again", .key = "order 42"}));
  CAF_CHECK(mine.transition({.to = "paid", .key = "order 42"}));
  caller.exec("commit");
  CAF_CHECK_EQUAL(target_of("again"), text(id));
  CAF_CHECK_EQUAL(step_of(id), "paid");
}

CAF_TEST(a key that nobody has names nobody) {
  make("k");
  db.rows("update gen_durable set status = 'done', awaits = null");
  auto c = client();
  auto& caller = program();
  for (const auto* key : {"k", "j"}) {
    auto nobody = "there is no instance with the unique key "s + key;
    CAF_CHECK_EQUAL(refusal(c.look_up(gd::look_up{.key = key})),
                    "not_found: " + nobody);
    CAF_CHECK_EQUAL(refusal(c.signal({.name = "x", .key = key})),
                    "no_such_target: target: " + nobody);
    CAF_CHECK_EQUAL(refusal(c.transition({.to = "paid", .key = key})),
                    "no_such_target: target: " + nobody);
    CAF_CHECK_EQUAL(refusal(c.rewind({.key = key})), "not_found: " + nobody);
    CAF_CHECK_EQUAL(refusal(c.fork({.key = key})), "not_found: " + nobody);
    auto entries = c.history({.key = key});
    CAF_REQUIRE(entries);
    CAF_CHECK(entries->empty());
    auto named = "(key => '"s + key + "'";
    CAF_CHECK(caller.exec("select * from gd_status" + named + ")").empty());
    CAF_CHECK(caller.exec("select * from gd_history" + named + ")").empty());
    CAF_CHECK_EQUAL(
      caller.scalar("select gd_signal" + named + ", name => 'x')"),
      "no_such_target");
    CAF_CHECK_EQUAL(why_refused(caller, "select gd_transition" + named
                                          + ", to_step => 'paid')"),
                    "P0002 target: " + nobody);
    CAF_CHECK_EQUAL(
      why_refused(caller, "select gd_rewind" + named + ", seq => 0)"),
      "P0002 " + nobody);
    CAF_CHECK_EQUAL(
      why_refused(caller, "select gd_fork" + named + ", seq => 0)"),
      "P0002 " + nobody);
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "0");
}

CAF_TEST(who names no instance is told so before anything is asked) {
  auto c = client();
  auto refused = [](const auto& x) {
    CAF_CHECK(code_of(x) == errc::invalid_argument);
    CAF_CHECK_NOT_EQUAL(refusal(x).find("or key: expected one of them, got "
                                        "neither"),
                        std::string::npos);
  };
  refused(c.signal({.name = "x"}));
  refused(c.transition({.to = "paid"}));
  refused(c.look_up(gd::look_up{}));
  refused(c.history({}));
  refused(c.rewind({.seq = 1}));
  refused(c.fork({.seq = 1}));
  refused(gd::testing::simulation{}.signal({.name = "x"}));
}

CAF_TEST(one of id and key names an instance) {
  auto id = make("k");
  auto c = client();
  auto& caller = program();
  for (const auto& key : {"k"s, ""s, std::string(1'025, 'k')}) {
    auto both = key == "k" ? id : 0;
    auto what = key == "k" ? "expected one of them, got both"s
                           : fmt::format("key: expected 1 to 1024 bytes, got "
                                         "{}",
                                         key.size());
    auto refused = [&](const auto& x) {
      CAF_CHECK(code_of(x) == errc::invalid_argument);
      CAF_CHECK_NOT_EQUAL(refusal(x).find(what), std::string::npos);
    };
    refused(c.signal({.target = both, .name = "x", .key = key}));
    refused(c.transition({.target = both, .to = "paid", .key = key}));
    refused(c.look_up(gd::look_up{.id = both, .key = key}));
    refused(c.history({.id = both, .key = key}));
    refused(c.rewind({.target = both, .key = key}));
    refused(c.fork({.target = both, .key = key}));
    auto named = (key == "k" ? "target => " + text(id) + ", " : "") + "key => '"
                 + key + "'";
    for (const auto& call :
         {"gd_signal(" + named + ", name => 'x')",
          "gd_transition(" + named + ", to_step => 'paid')",
          "gd_status(" + named + ")", "gd_rewind(" + named + ", seq => 0)",
          "gd_fork(" + named + ", seq => 0)"})
      CAF_CHECK_EQUAL(why_refused(caller, "select " + call).substr(0, 6),
                      "22023 ");
  }
  CAF_CHECK_EQUAL(why_refused(caller,
                              "select gd_signal(key => 'k', key_bytes =>"
                              " 'k', name => 'x')")
                    .substr(0, 6),
                  "22023 ");
}

CAF_TEST(arguments without a type go where they went before there were keys) {
  auto id = make("k");
  auto& caller = program();
  auto number = text(id);
  // As drivers send them: all of them of an unknown type.
  CAF_CHECK_EQUAL(caller.scalar("select id from gd_status($1)", {number}),
                  number);
  CAF_CHECK_EQUAL(
    caller.scalar("select gd_signal($1, $2, $3, $4)", {number, "a", "{}", "d"}),
    "accepted");
  CAF_CHECK_EQUAL(
    caller.scalar("select gd_transition($1, $2)", {number, "waiting"}), "1");
  CAF_CHECK_EQUAL(caller.exec("select * from gd_history($1)", {number}).size(),
                  2u);
  CAF_CHECK_EQUAL(caller.scalar("select gd_rewind($1, $2)", {number, "0"}),
                  "2");
  CAF_CHECK_EQUAL(caller.scalar("select count(gd_fork($1, $2))", {number, "0"}),
                  "1");
  CAF_MESSAGE("a literal, a text and bytes name a key");
  for (const auto* how : {"key => 'k'", "key => 'k'::text", "key_bytes => 'k'",
                          "key_bytes => '\\x6b'::bytea", "key => chr(107)"}) {
    auto call = "select id, unique_key, unique_key_text from gd_status("s + how
                + ")";
    auto row = caller.exec(call);
    CAF_REQUIRE_EQUAL(row.size(), 1u);
    CAF_CHECK_EQUAL(row[0][0].value(), number);
    CAF_CHECK_EQUAL(row[0][1].value(), "\\x6b");
    CAF_CHECK_EQUAL(row[0][2].value(), "k");
  }
}

CAF_TEST(a group names some by their ids and some by their keys) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 4; ++i)
    ids.push_back(make("k" + std::to_string(i)));
  auto& stranger = program();
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update",
                {text(ids[3])});
  auto& caller = program();
  caller.exec("begin; set local lock_timeout = '50ms'");
  auto run = [&](auto&& send, const std::string& name, bool with_locked) {
    std::vector<gd::signal> xs{
      {.target = ids[0], .name = name},
      {.name = name, .dedup_key = name, .key = "k0"},
      {.name = name, .dedup_key = name, .key = "k0"},
      {.target = ids[0], .name = name, .dedup_key = name},
      {.name = name, .key = "nobody"},
      {.name = name, .key = "k1"},
      {.target = 777, .name = name},
      {.target = ids[2], .name = name},
    };
    if (with_locked)
      xs.push_back({.name = name, .key = "k3"});
    std::string codes;
    for (const auto& x : send(std::move(xs)))
      codes += x ? (x->duplicate ? "duplicate " : "accepted ")
                 : std::string{to_string(x.error().code)} + " ";
    CAF_CHECK_EQUAL(codes, "accepted accepted duplicate duplicate "
                           "no_such_target accepted no_such_target accepted "s
                             + (with_locked ? "busy " : ""));
  };
  run([c = client()](auto xs) mutable { return c.signal_all(std::move(xs)); },
      "by client", false);
  gd::transaction mine{caller.handle()};
  run([&](auto xs) { return mine.signal_all(std::move(xs)); }, "by caller",
      true);
  caller.exec("commit");
  auto targets = fmt::format("{0} {0} {1} {2}", ids[0], ids[1], ids[2]);
  CAF_CHECK_EQUAL(target_of("by client"), targets);
  CAF_CHECK_EQUAL(target_of("by caller"), targets);
  stranger.exec("rollback");
  CAF_MESSAGE("and those of an instance go one after the other");
  auto moved = client().transition_all({
    {.to = "waiting", .key = "k0"},
    {.to = "submitted", .key = "k0"},
    {.to = "paid", .seq = 2, .key = "k0"},
    {.target = ids[1], .to = "waiting"},
  });
  for (const auto& x : moved)
    CAF_CHECK_EQUAL(refusal(x), "");
  CAF_CHECK_EQUAL(step_of(ids[0]), "paid");
}

CAF_TEST(a group without keys is sent by the statements of ids alone) {
  auto sent = [](auto intake, auto request) {
    CAF_REQUIRE(intake.add(1, std::move(request)));
    auto work = intake.begin({});
    CAF_REQUIRE(work);
    std::vector<const sql::statement*> what;
    for (const auto& x : work->calls)
      what.push_back(x.what);
    return what;
  };
  using statements = std::vector<const sql::statement*>;
  CAF_CHECK(sent(gd::signal_intake{{}}, gd::signal{.target = 1, .name = "x"})
            == (statements{&sql::lock_targets, &sql::signal}));
  CAF_CHECK(sent(gd::signal_intake{{}}, gd::signal{.name = "x", .key = "k"})
            == (statements{&sql::lock_named, &sql::signal_named}));
  CAF_CHECK(
    sent(gd::transition_intake{{}}, gd::transition{.target = 1, .to = "x"})
    == (statements{&sql::transition}));
  CAF_CHECK(
    sent(gd::transition_intake{{}}, gd::transition{.to = "x", .key = "k"})
    == (statements{&sql::transition_named}));
}

// -- keys that change hands ---------------------------------------------------

CAF_TEST(a signal by key reaches who has it when the row is locked) {
  auto& stranger = program();
  for (const auto* by : {"sql", "client", "transaction"})
    for (bool committed : {true, false}) {
      auto key = fmt::format("{} {}", by, committed);
      CAF_MESSAGE(key);
      auto first = make(key);
      auto second = hand_over(stranger, first, key);
      auto& caller = program();
      caller.exec("begin");
      auto waits = std::async(std::launch::async, [&]() -> std::string {
        if (by == "sql"s)
          return caller.scalar("select gd_signal(key => $1, name => $1)",
                               {key});
        gd::signal what{.name = key, .key = key};
        auto x = by == "client"s
                   ? client().signal(what)
                   : gd::transaction{caller.handle()}.signal(what);
        return x ? "accepted" : refusal(x);
      });
      stranger.wait_until_someone_is_blocked();
      stranger.exec(committed ? "commit" : "rollback");
      CAF_CHECK_EQUAL(waits.get(), "accepted");
      caller.exec("commit");
      CAF_CHECK_EQUAL(target_of(key), committed ? second : text(first));
    }
}

CAF_TEST(a transition by key moves who has it when the row is locked) {
  auto& stranger = program();
  for (const auto* by : {"sql", "client", "transaction"})
    for (bool committed : {true, false}) {
      auto key = fmt::format("{} {}", by, committed);
      CAF_MESSAGE(key);
      auto first = make(key);
      auto second = std::stoll(hand_over(stranger, first, key));
      auto& caller = program();
      caller.exec("begin");
      auto waits = std::async(std::launch::async, [&]() -> std::string {
        if (by == "sql"s)
          return caller.scalar("select gd_transition(key => $1, to_step =>"
                               " 'waiting')",
                               {key});
        gd::transition what{.to = "waiting", .key = key};
        auto x = by == "client"s
                   ? client().transition(what)
                   : gd::transaction{caller.handle()}.transition(what);
        return x ? text(x->seq) : refusal(x);
      });
      stranger.wait_until_someone_is_blocked();
      stranger.exec(committed ? "commit" : "rollback");
      CAF_CHECK_EQUAL(waits.get(), "1");
      caller.exec("commit");
      CAF_CHECK_EQUAL(step_of(first), committed ? "submitted" : "waiting");
      if (committed)
        CAF_CHECK_EQUAL(step_of(second), "waiting");
    }
}

CAF_TEST(a rewind by key waits for the row and puts back who has the key) {
  auto& stranger = program();
  auto first = make("k");
  CAF_REQUIRE(client().transition({.to = "waiting", .key = "k"}));
  auto second = hand_over(stranger, first, "k");
  auto& caller = program();
  caller.start("select gd_rewind(key => 'k', seq => 0)");
  caller.wait_until_blocked_by(stranger);
  stranger.exec("commit");
  CAF_CHECK_EQUAL(std::string{caller.finish().front().front().value()}, "1");
  CAF_CHECK_EQUAL(
    db.scalar("select seq from gen_durable where id = $1", {second}), "1");
  CAF_CHECK_EQUAL(step_of(first), "waiting");
}

CAF_TEST(a key whose owner ends while it is waited for names nobody) {
  auto& stranger = program();
  for (const auto* by : {"sql", "client", "transaction"}) {
    auto first = make(by);
    stranger.exec("begin");
    stranger.exec("update gen_durable set status = 'done', awaits = null where"
                  " id = $1",
                  {text(first)});
    auto& caller = program();
    caller.exec("begin");
    auto waits = std::async(std::launch::async, [&]() -> std::string {
      if (by == "sql"s)
        return caller.scalar("select gd_signal(key => 'sql', name => 'x')");
      gd::signal what{.name = "x", .key = by};
      auto x = by == "client"s ? client().signal(what)
                               : gd::transaction{caller.handle()}.signal(what);
      return std::string{to_string(code_of(x))};
    });
    stranger.wait_until_someone_is_blocked();
    stranger.exec("commit");
    CAF_CHECK_EQUAL(waits.get(), "no_such_target");
    caller.exec("commit");
  }
  CAF_CHECK_EQUAL(target_of("x"), "");
}

CAF_TEST(a key that goes on and on is followed five times and then told of) {
  auto& stranger = program();
  auto first = make("k");
  auto second = hand_over(stranger, first, "k");
  stranger.exec("commit");
  // Whoever looks who has the key is told, and the key is another's by then.
  db.rows("create table moves (n int)");
  db.rows("create schema restless");
  db.rows(
    "create function restless.moves(owner bigint) returns boolean language"
    " plpgsql volatile cost 1000000 as $$ begin"
    " if exists (select from public.gen_durable where id = owner and"
    " status <> 'done') and (select count(*) from public.moves) < "
    "current_setting('test.moves')::int then"
    " insert into public.moves values (1);"
    " update public.gen_durable set status = 'done', awaits = null"
    " where id = owner;"
    " update public.gen_durable set status = 'awaiting_signal', awaits = ''"
    " where id <> owner; end if;"
    " return true; end $$");
  db.rows("create view restless.gen_durable as"
          " select g.* from public.gen_durable g where restless.moves(g.id)");
  db.rows("alter function _gd_hold_key(bytea, boolean) set search_path ="
          " restless, public, pg_temp");
  auto signal = [&](const std::string& moves) -> std::string {
    auto& caller = program();
    caller.exec("delete from moves");
    caller.exec("select set_config('test.moves', $1, false)", {moves});
    try {
      return caller.scalar("select gd_signal(key => 'k', name => 'x')");
    } catch (const sql_error& why) {
      CAF_CHECK_EQUAL(why.sqlstate(), "55P03");
      return why.what();
    }
  };
  CAF_CHECK_EQUAL(signal("4"), "accepted");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from moves"), "4");
  CAF_CHECK_EQUAL(target_of("x"), second);
  auto told = signal("5");
  CAF_CHECK(told.find("one after the other is the instance with the unique key"
                      " k")
            != std::string::npos);
  CAF_CHECK_EQUAL(target_of("x"), second);
}

CAF_TEST(an instance that executes is told of and not locked) {
  auto id = make("k");
  db.rows(
    "update gen_durable set status = 'executing', awaits = null, locked_by"
    " = 'node/1/1', lease_expires_at = now() + interval '1 minute'");
  auto& holder = program();
  holder.exec("begin; select from gen_durable for update");
  auto why = fmt::format("target: instance {}: expected runnable or "
                         "awaiting_signal, got executing at submitted, seq 0",
                         id);
  CAF_CHECK_EQUAL(refusal(client().transition({.to = "paid", .key = "k"})),
                  "transition_conflict: " + why);
  CAF_CHECK_EQUAL(
    why_refused(program(),
                "select gd_transition(key => 'k', to_step => 'paid')"),
    "MV003 " + why);
}

CAF_TEST(who holds the row of a key is named by its key) {
  make("k");
  auto& stranger = program();
  stranger.exec("begin; select from gen_durable for update");
  auto& caller = program();
  caller.exec("begin; set local lock_timeout = '20ms'");
  gd::transaction mine{caller.handle()};
  auto why = "busy: target with the unique key k: another transaction holds the"
             " row";
  CAF_CHECK_EQUAL(refusal(mine.signal({.name = "x", .key = "k"})), why);
  CAF_CHECK_EQUAL(refusal(mine.transition({.to = "paid", .key = "k"})), why);
  for (const auto* call : {"gd_signal(key => 'k', name => 'x')",
                           "gd_transition(key => 'k', to_step => 'paid')"}) {
    caller.exec("savepoint s");
    CAF_CHECK_EQUAL(why_refused(caller, "select "s + call).substr(0, 6),
                    "55P03 ");
    caller.exec("rollback to savepoint s");
  }
}

CAF_TEST(a key is followed under read committed alone) {
  make("k");
  auto& caller = program();
  caller.exec("begin isolation level repeatable read");
  CAF_CHECK_EQUAL(
    why_refused(caller, "select gd_signal(key => 'k', name => 'x')"),
    "25000 key: expected isolation level read committed, got repeatable read");
}

// -- what a key looks like ----------------------------------------------------

CAF_TEST(keys that are text are shown as text and all others in digits) {
  const std::vector<std::pair<std::string, std::string>> keys{
    {"order 42", "order 42"},
    {"Bestellung \u00e4\u6f22\U0001f600", "Bestellung \u00e4\u6f22\U0001f600"},
    {"\\", "\\"},
    {"\\x6b", "\\x5c783662"},
    {"a\nb", "\\x610a62"},
    {"\0\xff"s, "\\x00ff"},
    {"\u0085", "\\xc285"},
    {"a\u202eb", "\\x61e280ae62"},
    {"\xed\xa0\x80", "\\xeda080"},
  };
  auto c = client();
  for (const auto& [key, shown] : keys) {
    CAF_CHECK_EQUAL(gd::key_text(key), shown);
    auto id = make(key);
    auto x = c.look_up(gd::look_up{.key = key});
    CAF_REQUIRE(x);
    CAF_CHECK_EQUAL(x->id, id);
    CAF_CHECK_EQUAL(x->unique_key.value_or(""), shown);
    CAF_CHECK(c.signal({.name = "x", .key = key}));
    CAF_CHECK(c.transition({.to = "waiting", .key = key}));
  }
}

CAF_TEST(SQL shows keys as the library does) {
  std::minstd_rand random{17};
  // Of sequences that are whole, cut, too long, controls, and plain bytes.
  const std::vector<std::string> pieces{"a",
                                        "\\",
                                        "\\x",
                                        "x",
                                        "\x7f",
                                        "\x1f",
                                        "\xc2\x80",
                                        "\xc2\xa0",
                                        "\xc1\xbf",
                                        "\xdf\xbf",
                                        "\xd8\x9c",
                                        "\xd8\x9d",
                                        "\xe0\x9f\xbf",
                                        "\xe0\xa0\x80",
                                        "\xe2\x80\x8d",
                                        "\xe2\x80\x8e",
                                        "\xe2\x80\xa9",
                                        "\xe2\x80\xaa",
                                        "\xe2\x80\xae",
                                        "\xe2\x80\xaf",
                                        "\xe2\x81\xa5",
                                        "\xe2\x81\xa6",
                                        "\xe2\x81\xa9",
                                        "\xe2\x81\xaa",
                                        "\xed\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xee\x80\x80",
                                        "\xef\xbf\xbf",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf0\x90\x80\x80",
                                        "\xf4\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xe2\x80",
                                        "\x80",
                                        "\xff",
                                        "\xf1\x80\x80\x80"};
  auto& in = program();
  for (int i = 0; i < 2'000; ++i) {
    std::string key = i < static_cast<int>(pieces.size())
                        ? pieces[static_cast<std::size_t>(i)]
                        : "";
    for (auto n = i < static_cast<int>(pieces.size()) ? 0 : random() % 4 + 1;
         n > 0; --n)
      key += pieces[random() % pieces.size()];
    std::string hex;
    for (unsigned char c : key)
      hex += fmt::format("{:02x}", c);
    CAF_CHECK_EQUAL(in.scalar("select _gd_key_text(decode($1, 'hex'))", {hex}),
                    gd::key_text(key));
  }
}

// -- resting ------------------------------------------------------------------

CAF_TEST(a deadline whose way is to a key that another has waits for it) {
  // Taken where they rest, free while they run.
  auto simulated = std::make_unique<gd::testing::simulation>(
    std::vector<gd::machine>{order_machine()});
  auto stored = gd::testing::in_database::connect(db.options(),
                                                  {order_machine()});
  CAF_REQUIRE(stored);
  for (gd::testing::harness* kit : std::initializer_list<gd::testing::harness*>{
         simulated.get(), &*stored}) {
    auto make_one = [&] {
      return kit->insert({.fsm = "Order",
                          .state = gd::to_json(order{}),
                          .unique_key = "k",
                          .unique_scope = {"awaiting_signal"}});
    };
    auto first = make_one();
    CAF_REQUIRE(first);
    CAF_REQUIRE(kit->advance(1h)); // runnable, and without its key
    auto second = make_one();
    CAF_REQUIRE(second);
    CAF_REQUIRE(!second->duplicate);
    CAF_REQUIRE(kit->drain());
    auto x = kit->instance(first->id);
    CAF_REQUIRE(x);
    CAF_CHECK_EQUAL(x->status, "runnable");
    CAF_CHECK_EQUAL(x->step, "submitted");
    CAF_CHECK_NOT_EQUAL(x->last_error.value_or("").find(fmt::format(
                          "instance {} has its unique key", second->id)),
                        std::string::npos);
    CAF_MESSAGE("when it is free, it goes there");
    CAF_REQUIRE(kit->transition({.to = "paid", .key = "k"}));
    CAF_REQUIRE(kit->advance(10min));
    CAF_REQUIRE(kit->drain());
    x = kit->instance(first->id);
    CAF_CHECK_EQUAL(x->step, "waiting");
    CAF_CHECK_EQUAL(x->status, "awaiting_signal");
  }
}

// -- the test kit -------------------------------------------------------------

CAF_TEST(the test kit knows keys as the database does) {
  auto run = [](gd::testing::harness& kit) {
    std::vector<std::string> log;
    auto put = [&](const std::string& fsm, const std::string& key) {
      auto x = kit.insert(keyed(fsm, key));
      log.push_back(x ? (x->duplicate ? "duplicate" : "new") : refusal(x));
      return x ? x->id : 0;
    };
    auto id = put("Order", "k\0"s);
    put("Order", "k\0"s);
    auto x = kit.insert(keyed("Refund", "k\0"s));
    log.push_back(code_of(x) == errc::key_of_another_machine
                      && x.error().message
                           == fmt::format("unique_key: \\x6b00 is that of "
                                          "instance {} of Order",
                                          id)
                    ? "refused"
                    : refusal(x));
    put("Refund", "j");
    for (const auto& key : {"k\0"s, "k"s, "j"s, ""s}) {
      auto shown = kit.look_up({.key = key});
      log.push_back(shown ? shown->unique_key.value_or("") : refusal(shown));
      log.push_back(refusal(kit.signal({.name = "x", .key = key})));
      log.push_back(refusal(kit.transition({.to = "waiting", .key = key})));
      log.push_back(refusal(kit.transition({.to = "paid", .key = key})));
      log.push_back(refusal(kit.transition({.to = "paid", .key = key})));
    }
    log.push_back(refusal(kit.signal({.target = 1, .name = "x", .key = "k"})));
    return log;
  };
  gd::testing::simulation simulated{{order_machine(), order_machine("Refund")}};
  auto stored = gd::testing::in_database::connect(
    db.options(), {order_machine(), order_machine("Refund")});
  CAF_REQUIRE(stored);
  auto in_memory = run(simulated);
  auto in_database = run(*stored);
  CAF_REQUIRE_EQUAL(in_memory.size(), in_database.size());
  for (std::size_t i = 0; i < in_memory.size(); ++i)
    CAF_CHECK_EQUAL(in_memory[i], in_database[i]);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace addresses_suite
