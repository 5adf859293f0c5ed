#define CAF_SUITE encrypted

// Each kind of step of a machine that encrypts, in an engine and through its gateway.

#include "../../examples/encryption/aes_gcm.hpp"
#include "actors/harness.hpp"

#include <gd/actors/async.hpp>
#include <gd/actors/messages.hpp>
#include <gd/cipher.hpp>

#include <caf/test/dsl.hpp>

#include <memory>
#include <string>

namespace encrypted_suite {

using namespace gd::test;
namespace events = gd::events;

namespace {

struct letter {
  std::string text;
  GD_STATE(letter, text);
};

GD_ENUM(letter_step, write, seal, stamp, send);

gd::machine letters(std::shared_ptr<const gd::cipher> by) {
  using context = gd::context<letter>;
  using enum letter_step;
  return gd::define<letter, letter_step>("Letter", 1)
    .encrypted_by(std::move(by))
    .history(gd::history::with_state)
    .run_ahead(10)
    .step(write,
          [](context& ctx) -> gd::outcome {
            auto more = ctx.take<letter>("more");
            if (!more)
              return gd::await("more", ctx.state);
            ctx.state.text += more->text;
            return gd::next(seal, ctx.state);
          })
    .step(seal, gd::actors::async([](gd::actors::async_context<letter> ctx) {
            ctx->state.text += ", sealed";
            ctx.finish(gd::next(stamp, ctx->state));
          }))
    .step(
      stamp, {.blocking = true, .limit = 1min},
      [](context& ctx) {
    ctx.state.text += ", stamped";
    return gd::next(send, ctx.state);
      })
    .step(send, [](context& ctx) { return gd::done(ctx.state); });
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(encrypted_tests, engine_fixture)

CAF_TEST(
  an engine runs each kind of step and a gateway tells the result encrypted) {
  guide::aes_gcm by{{{"2026-11", std::string(32, 'b')}}, "2026-11"};
  auto engine = start(options({letters(std::make_shared<guide::aes_gcm>(by))}));
  auto made = ask<gd::inserted>(
    engine,
    gd::insert{.fsm = "Letter", .state = gd::to_json(letter{"a secret"})});
  CAF_REQUIRE(made);
  CAF_REQUIRE(ask<gd::signalled>(
    engine,
    gd::signal{.target = made->id,
               .name = "more",
               .payload = gd::encrypted(gd::to_json(letter{", told"}), by)}));
  auto end = ask<gd::awaited>(engine, gd::await_result{.id = made->id});
  CAF_REQUIRE(end);
  auto result = end->result_as<letter>(by);
  CAF_REQUIRE(result);
  CAF_CHECK(result->text == "a secret, told, sealed, stamped");
  auto seen = ask<gd::instance>(engine, gd::look_up{.id = made->id});
  CAF_REQUIRE(seen);
  CAF_CHECK(seen->state_as<letter>(by)->text
            == "a secret, told, sealed, stamped");
  CAF_CHECK_EQUAL(
    db.scalar(
      "select count(*) from (select g::text from gen_durable g union "
      "all select l::text from gen_durable_ledger l) x (t) where t like "
      "'%secret%' or t like '%told%'"),
    "0");
}

CAF_TEST(an asynchronous step whose state does not decrypt fails its instance) {
  guide::aes_gcm by{{{"2025-01", std::string(32, 'a')}}, "2025-01"};
  auto engine = start(options({letters(std::make_shared<guide::aes_gcm>(
    guide::aes_gcm::keys{{"2026-11", std::string(32, 'b')}}, "2026-11"))}));
  db.rows("insert into gen_durable (fsm, step, state) values ('Letter', 'seal',"
          " $1::jsonb)",
          {gd::encrypted(gd::to_json(letter{"a secret"}), by).text()});
  wait_until_count("status = 'failed'", 1);
  CAF_CHECK_EQUAL(db.scalar("select last_error from gen_durable"),
                  "state of Letter v1: expected JSON that the cipher decrypts, "
                  "got some with key 2025-01: no such key");
}

CAF_TEST(who looks up what was erased is told that it was and by whom) {
  auto engine = start(options({letters(std::make_shared<guide::aes_gcm>(
    guide::aes_gcm::keys{{"2026-11", std::string(32, 'b')}}, "2026-11"))}));
  auto id = std::stoll(
    db.scalar("insert into gen_durable (fsm, step, status, awaits) values "
              "('Letter', 'write', 'awaiting_signal', 'more') returning id"));
  db.rows("select gd_erase($1::bigint, 'request 17', 'ann')",
          {std::to_string(id)});
  auto told = ask<gd::instance>(engine, gd::look_up{.id = id});
  CAF_REQUIRE(!told);
  CAF_CHECK_EQUAL(std::string{to_string(told.error().code)}, "erased");
  CAF_CHECK(told.error().message.ends_with("by ann: request 17"));
  told = ask<gd::instance>(engine, gd::look_up{.id = id + 1});
  CAF_REQUIRE(!told);
  CAF_CHECK_EQUAL(std::string{to_string(told.error().code)}, "not_found");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace encrypted_suite
