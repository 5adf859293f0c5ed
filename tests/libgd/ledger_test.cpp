#define CAF_SUITE ledger

// The history that the statements write: a path without gaps from the insert to
// the row as it is, whatever moves the row; and of rows without history nothing.

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/registry.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>

#include <support/database.hpp>
#include <support/ledger.hpp>
#include <support/opened.hpp>
#include <support/outcomes.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ledger_suite {

using namespace std::literals;

namespace {

namespace store = gd::store;
namespace pq = gd::pq;

using store::follow;
using store::outcome_row;
using store::write_kind;

struct note {
  std::string text{};
  GD_STATE(note, text);
};

struct order {
  int n = 0;
  GD_STATE(order, n);
};

GD_ENUM(order_step, collect, pay, ship);

gd::machine order_machine(gd::history how) {
  return gd::define<order, order_step>("Order", 1)
    .history(how)
    .step(order_step::collect,
          [](gd::context<order>& ctx) -> gd::outcome {
            if (ctx.state.n > 0 && ctx.attempt == 0)
              throw std::runtime_error("no stock");
            ctx.state.n += 1;
            return gd::next(order_step::pay, ctx.state).with(note{"collected"});
          })
    .step(order_step::pay,
          [](gd::context<order>& ctx) -> gd::outcome {
            if (ctx.take<order>("paid"))
              return gd::next(order_step::ship, ctx.state);
            return gd::await("paid", ctx.state).with(note{"waits"});
          })
    .step(order_step::ship,
          [](gd::context<order>& ctx) -> gd::outcome {
            if (ctx.state.n > 10)
              return gd::done(ctx.state).with(note{std::string(70'000, 'x')});
            return gd::done(ctx.state).with(note{"shipped"});
          })
    .on_error(
      [](const gd::failure& why, gd::context<order>& ctx) -> gd::outcome {
        if (ctx.step == "ship")
          return gd::stop("cannot: " + why.message().substr(0, 36));
        return gd::replay(ctx.state).with(note{"again"});
      });
}

struct fixture : gd::test::engine_database {
  store::insert_row row_of(std::int16_t history) {
    auto drawn = store::read<store::drawn_id>(run(store::draw_ids(1))).front();
    return {.id = drawn.id,
            .drawn_us = drawn.drawn_us,
            .fsm = "Order",
            .step = "collect",
            .state = R"({"n": 1})",
            .queue = "default",
            .history = history};
  }

  std::int64_t inserted(std::int16_t history) {
    auto row = row_of(history);
    run(store::insert_new_ledger({row}));
    return row.id;
  }

  void lease(std::int64_t id, const std::string& token) {
    db.rows("update gen_durable set status = 'executing', locked_by = $2,"
            " lease_expires_at = now() + interval '1 minute', awaits = null,"
            " wake_reason = 'signal' where id = $1::bigint",
            {std::to_string(id), token});
  }

  static outcome_row outcome(std::int64_t id, write_kind what) {
    outcome_row x{.id = id, .token = "node/1/1", .what = what};
    x.has_history = true;
    bool moves = what == write_kind::next || what == write_kind::advance
                 || what == write_kind::park || what == write_kind::finish;
    if (moves || what == write_kind::replay || what == write_kind::await)
      x.state = R"({"n": 2})";
    if (moves)
      x.step = "ship";
    if (what == write_kind::await)
      x.awaits = "paid";
    if (what == write_kind::done)
      x.result = R"({"ok": true})";
    if (what == write_kind::stop)
      x.reason = "enough";
    return x;
  }

  /// By the statement that a turn would choose.
  std::vector<store::flushed_row> write(const outcome_row& x) {
    using store::writer;
    auto by = x.what == write_kind::advance                   ? writer::advance
              : store::is_plain_next(x)                       ? writer::next
              : store::is_plain_done(x) && x.metadata.empty() ? writer::done
                                                              : writer::any;
    return store::read_flush(
      run(store::write_outcomes({by, follow::history}, {x}, "node/1/2")));
  }

  /// An instance's entries, but for their times.
  std::string entries(std::int64_t id) {
    std::string out;
    for (const auto& x : db.rows(
           "select concat_ws(' ', seq, outcome, coalesce(from_step, '-') || '>'"
           " || to_step, attempt, token, wake_reason, reason, metadata, state)"
           " from gen_durable_ledger where instance_id = $1 order by seq",
           {std::to_string(id)}))
      out += x.front().value() + "\n";
    return out;
  }
};

/// By the transaction's session.
constexpr gd::sql::statement count_updates{
  "test_count_updates",
  "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables "
  "where relid = ':\"schema\".gen_durable'::regclass"};

/// Some rows from their inserts to their ends, each of which goes on with three steps
/// at once; of all updates, those that stayed on their page.
std::string updates_on_their_page(fixture& in, std::int16_t history) {
  auto then = history > 0 ? follow::history : follow::nothing;
  std::int64_t all = 0;
  std::int64_t hot = 0;
  auto update = [&](pq::call what) {
    auto reply = in.engine->run(
      {{{&count_updates, {}}, std::move(what), {&count_updates, {}}}});
    if (!reply.ok())
      CAF_ERROR("" << to_string(*reply.failure));
    CAF_REQUIRE(reply.ok());
    auto more = [&reply](int column) {
      return reply.results[2].integer(0, column)
             - reply.results[0].integer(0, column);
    };
    all += more(0);
    hot += more(1);
  };
  std::vector<outcome_row> rows;
  for (int i = 0; i < 5; ++i)
    rows.push_back(fixture::outcome(in.inserted(history), write_kind::advance));
  update(store::pick({.queue = "default",
                      .limit = 5,
                      .machines = {{"Order", 1}},
                      .token = "node/1/1",
                      .lease = 60s}));
  for (int i = 2; i < 5; ++i) {
    auto token = "node/1/" + std::to_string(i);
    update(store::write_outcomes({store::writer::advance, then}, rows, token));
    for (auto& x : rows)
      x.token = token;
  }
  for (auto& x : rows) {
    x.what = write_kind::done;
    x.result = "{}";
  }
  update(store::write_outcomes({store::writer::done, then}, rows));
  CAF_CHECK_EQUAL(in.db.scalar("select count(*) from gen_durable where seq = 4 "
                               "and status = 'done'"),
                  "5");
  in.db.rows("truncate gen_durable, gen_durable_ledger cascade");
  return std::to_string(hot) + " of " + std::to_string(all);
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(ledger_tests, fixture)

CAF_TEST(a plain outcome enters by itself what it enters among others) {
  for (std::int16_t history : {1, 2})
    for (auto what : {write_kind::next, write_kind::done}) {
      std::vector<std::string> entered;
      for (auto by : {what == write_kind::next ? store::writer::next
                                               : store::writer::done,
                      store::writer::any}) {
        auto write = [by](const store::row_refs<outcome_row>& rows) {
          return store::write_outcomes({by, follow::history}, rows);
        };
        auto id = inserted(history);
        lease(id, "node/1/1");
        auto x = outcome(id, what);
        if (what == write_kind::done)
          x.result = "{}";
        else
          x.metadata = R"({"of": 1})";
        auto stale = x;
        stale.token = "node/1/7";
        auto rows = store::read_flush(run(write({stale})));
        CAF_REQUIRE_EQUAL(rows.size(), 1u);
        CAF_CHECK(!rows.front().applied);
        rows = store::read_flush(run(write({x})));
        CAF_REQUIRE_EQUAL(rows.size(), 1u);
        CAF_CHECK(rows.front().applied);
        auto row = db.rows(
          "select concat_ws(' ', status, step, ledger_step, state, seq, "
          "attempt,"
          " result, locked_by, wake_reason, awaits) from gen_durable where id ="
          " $1",
          {std::to_string(id)});
        entered.push_back(row.front().front().value() + "\n" + entries(id));
      }
      CAF_CHECK_EQUAL(entered.front(), entered.back());
    }
  check_path();
}

CAF_TEST(a row that cannot be run is failed with an entry) {
  auto id = inserted(1);
  auto place = db.scalar("select ctid::text from gen_durable");
  CAF_CHECK_EQUAL(run(store::fail_row({id, place}, "unreadable")).size(), 1u);
  CAF_CHECK_EQUAL(entries(id), "0 insert ->collect 0\n"
                               "1 fail collect>collect 0 unreadable\n");
  check_path();
}

CAF_TEST(an insert with history is entry 0 however it is made) {
  run(store::register_machines(
    store::known({order_machine(gd::history::steps)})));
  auto unknowing = gd::client::connect(db.options());
  auto own = std::make_shared<gd::registry>(
    std::vector<gd::machine>{order_machine(gd::history::with_state)});
  auto knowing = gd::client::connect(db.options(), {.machines = own});
  CAF_REQUIRE(unknowing && knowing);
  gd::insert keyed{.fsm = "Order", .unique_key = "k"};
  auto first = unknowing->insert(keyed);
  CAF_REQUIRE(first);
  for (auto* client : {&*unknowing, &*knowing}) {
    auto again = client->insert(keyed);
    CAF_REQUIRE(again);
    CAF_CHECK(again->duplicate);
    CAF_CHECK_EQUAL(again->id, first->id);
  }
  CAF_CHECK(knowing->insert({.fsm = "Order"}));
  CAF_CHECK(unknowing->insert({.fsm = "Other", .step = "a", .queue = "b"}));
  std::vector<gd::insert> mixed{{.fsm = "Other", .step = "a", .queue = "b"},
                                {.fsm = "Order"},
                                {.fsm = "Order", .unique_key = "l"}};
  for (auto& x : knowing->insert_all(mixed))
    CAF_CHECK(x);
  db.rows("select gd_insert('Order'), gd_insert('Order', unique_key => 'k'),"
          " gd_insert('Other', step => 'a', queue => 'b')");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(format('%s %s', fsm, "
                            "coalesce(history, 0)),"
                            " ', ' order by fsm, history) from gen_durable"),
                  "Order 1, Order 1, Order 2, Order 2, Order 2, Other 0, "
                  "Other 0, Other 0");
  check_path();
}

CAF_TEST(a history tells the whole way and is read by pages) {
  auto made = gd::testing::in_database::connect(
    db.options(), {order_machine(gd::history::with_state)});
  CAF_REQUIRE(made);
  auto id = made->insert({.fsm = "Order", .state = gd::to_json(order{1})});
  CAF_REQUIRE(id);
  CAF_REQUIRE(made->drain());
  CAF_REQUIRE(made->signal({id->id, "paid", gd::to_json(order{})}));
  CAF_REQUIRE(made->drain());
  check_path();
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto all = client->history({.id = id->id});
  CAF_REQUIRE(all);
  std::string told;
  for (const auto& x : *all)
    told += std::to_string(x.seq) + " " + x.outcome + " " + x.to_step + " "
            + x.wake_reason.value_or("-") + " " + x.reason.value_or("-") + " "
            + (x.metadata ? x.metadata->text() : "-") + " " + x.state->text()
            + "\n";
  CAF_CHECK_EQUAL(
    told, "0 insert collect - - - {\"n\": 1}\n"
          "1 replay collect - no stock {\"text\": \"again\"} {\"n\": 1}\n"
          "2 next pay - - {\"text\": \"collected\"} {\"n\": 2}\n"
          "3 await pay - - {\"text\": \"waits\"} {\"n\": 2}\n"
          "4 next ship signal - - {\"n\": 2}\n"
          "5 done ship - - {\"text\": \"shipped\"} {\"n\": 2}\n");
  auto seqs = [&](gd::history_query what) {
    what.id = id->id;
    std::string out;
    auto page = client->history(what);
    CAF_REQUIRE(page);
    for (const auto& x : *page)
      out += std::to_string(x.seq) + " ";
    return out;
  };
  CAF_CHECK_EQUAL(seqs({.limit = 2}), "0 1 ");
  CAF_CHECK_EQUAL(seqs({.from_seq = 2, .limit = 3}), "2 3 4 ");
  CAF_CHECK_EQUAL(seqs({.from_seq = 6}), "");
  CAF_CHECK_EQUAL(seqs({.from_seq = -5, .limit = 1}), "0 ");
  CAF_CHECK_EQUAL(seqs({.limit = 2, .newest_first = true}), "5 4 ");
  CAF_CHECK_EQUAL(seqs({.from_seq = 3, .newest_first = true}), "3 2 1 0 ");
  CAF_CHECK(!client->history({.id = id->id, .limit = 0}));
  CAF_CHECK(!client->history({.id = id->id, .limit = 1'001}));
  auto found = client->look_up(id->id);
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->seq, 5);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(seq::text, ' ') from"
                            " gd_history($1::bigint, 3, 2, true)",
                            {std::to_string(id->id)}),
                  "3 2");
}

CAF_TEST(a row without history that goes on stays on its page and an index with
           its step would end that) {
  CAF_CHECK_EQUAL(updates_on_their_page(*this, 0), "25 of 25");
  // The first of the three goes to another step.
  CAF_CHECK_EQUAL(updates_on_their_page(*this, 1), "20 of 25");
  CAF_MESSAGE("also an index in which it is not");
  db.rows(
    "create index naive on gen_durable (fsm, step, id) where history > 0");
  CAF_CHECK_EQUAL(updates_on_their_page(*this, 0), "20 of 25");
}

CAF_TEST(a page of a long history costs SQL a page in either direction) {
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt) select 77, n, now(), 1, 'next', 's', 0 "
          "from generate_series(0, 49999) n");
  db.rows("analyze gen_durable_ledger");
  for (auto which : {"77, null, 10, true", "77, 0, 10"}) {
    auto query = "select * from gd_history(" + std::string{which} + ")";
    CAF_CHECK_EQUAL(db.rows(query).size(), 10u);
    auto plan = db.scalar("explain (analyze, buffers, timing off, format json) "
                          + query);
    std::string hit = "\"Shared Hit Blocks\": ";
    auto at = plan.find(hit);
    CAF_REQUIRE(at != std::string::npos);
    CAF_CHECK_LESS(std::stoi(plan.substr(at + hit.size())), 300);
  }
}

CAF_TEST(metadata that is too large is a failure of the step) {
  auto made = gd::testing::in_database::connect(
    db.options(), {order_machine(gd::history::steps)});
  CAF_REQUIRE(made);
  auto id = made->insert(
    {.fsm = "Order", .state = gd::to_json(order{20}), .step = "ship"});
  CAF_REQUIRE(id);
  CAF_REQUIRE(made->drain());
  auto found = made->instance(id->id);
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->status, "failed");
  CAF_CHECK_EQUAL(found->last_error.value_or(""),
                  "cannot: outcome done of step ship: metadata:");
  check_path();
}

CAF_TEST(entries go when their machine does not keep them any longer) {
  auto machine = order_machine(gd::history::steps);
  machine.history_keep = 24h;
  run(store::register_machines(store::known({machine})));
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(inserted(1));
    for (auto what : {write_kind::next, write_kind::next}) {
      lease(ids.back(), "node/1/1");
      write(outcome(ids.back(), what));
    }
  }
  auto left = [&] {
    return db.scalar("select string_agg(format('%s.%s', instance_id, seq), ' '"
                     " order by instance_id, seq) from gen_durable_ledger");
  };
  auto of = [&](std::size_t i, int seq) {
    return std::to_string(ids[i]) + "." + std::to_string(seq);
  };
  store::trimmed_to mark;
  auto pages = [&] {
    int n = 0;
    while (auto last = store::read_one<store::trimmed_to>(
             run(store::trim_ledger(mark, 2, 100)))) {
      mark = *last;
      ++n;
    }
    mark = {};
    return n;
  };
  auto before = left();
  CAF_CHECK_EQUAL(pages(), 2);
  CAF_CHECK_EQUAL(left(), before);
  db.rows("update gen_durable_ledger set at = now() - interval '25 h' where seq"
          " < 2 or instance_id = $1",
          {std::to_string(ids[2])});
  CAF_CHECK_EQUAL(pages(), 2);
  CAF_CHECK_EQUAL(left(), of(0, 2) + " " + of(1, 2) + " " + of(2, 2));
  CAF_MESSAGE("for ever if it does not say");
  db.rows("update gen_durable_ledger set at = now() - interval '9 y', seq = 1");
  machine.history_keep.reset();
  run(store::register_machines(store::known({machine})));
  before = left();
  pages();
  CAF_CHECK_EQUAL(left(), before);
}

CAF_TEST(instances in a step are found by pages with a status or without) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i)
    ids.push_back(inserted(1));
  inserted(0);
  lease(ids[1], "node/1/1");
  write(outcome(ids[1], write_kind::next));
  lease(ids[2], "node/1/1");
  write(outcome(ids[2], write_kind::await));
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto found = [&](const gd::in_step_query& what) {
    std::vector<std::int64_t> out;
    auto rows = client->in_step(what);
    CAF_REQUIRE(rows);
    for (const auto& x : *rows)
      out.push_back(x.id);
    return out;
  };
  using ids_type = std::vector<std::int64_t>;
  CAF_CHECK(found({.fsm = "Order", .step = "collect"})
            == (ids_type{ids[4], ids[3], ids[2], ids[0]}));
  CAF_CHECK(
    found({.fsm = "Order", .step = "collect", .status = "awaiting_signal"})
    == (ids_type{ids[2]}));
  CAF_CHECK(
    found({.fsm = "Order", .step = "collect", .before = ids[3], .limit = 1})
    == (ids_type{ids[2]}));
  CAF_CHECK(found({.fsm = "Order", .step = "ship"}) == (ids_type{ids[1]}));
  CAF_CHECK(found({.fsm = "Order", .step = "pay"}).empty());
  CAF_CHECK_EQUAL(db.scalar("select string_agg(id::text, ' ') from"
                            " gd_in_step('Order', 'collect', 'runnable')"),
                  std::to_string(ids[4]) + " " + std::to_string(ids[3]) + " "
                    + std::to_string(ids[0]));
}

CAF_TEST(entries that an instance has left behind keep nobody from going on) {
  std::vector<std::int64_t> ids{inserted(1), inserted(1)};
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt) select id, n, now(), 1, 'old', 'x', 0 "
          "from gen_durable, generate_series(1, 2) n where id = $1",
          {std::to_string(ids[0])});
  db.rows("update gen_durable set status = 'executing', locked_by = 'n/1/1', "
          "lease_expires_at = now() - interval '1 minute'");
  run(store::reap(500));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'runnable' and seq = 1"),
                  "2");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_ledger where seq "
                            "= 1 and outcome = 'reap' and to_step = "
                            "'collect'"),
                  "2");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace ledger_suite
