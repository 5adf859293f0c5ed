#define CAF_SUITE encrypted

// What a machine's cipher encrypts is stored encrypted, wherever it is stored, and read by
// whoever has the key; what was plain stays readable, and nothing of it is repeated in plain.

#include "../../examples/encryption/aes_gcm.hpp"

#include <gd/cipher.hpp>
#include <gd/client.hpp>
#include <gd/engine/step/upgrade.hpp>
#include <gd/machine.hpp>
#include <gd/registry.hpp>
#include <gd/testing.hpp>

#include <support/database.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace encrypted_suite {

using namespace std::literals;

namespace {

using gd::errc;
using gd::test::temporary_database;
using guide::aes_gcm;

struct patient {
  std::string name;
  std::int64_t visits = 0;
  GD_STATE(patient, name, visits);
};

struct visit {
  std::string finding;
  GD_STATE(visit, finding);
};

/// As a patient was in version 1.
struct old_patient {
  std::string who;
  GD_STATE(old_patient, who);
};

GD_ENUM(patient_step, admit, treat, rest, gone);

const std::string secret = "Ada Byron";

std::shared_ptr<const aes_gcm> with_key(const std::string& now) {
  return std::make_shared<aes_gcm>(
    aes_gcm::keys{{"2025-01", std::string(32, 'a')},
                  {"2026-11", std::string(32, 'b')}},
    now);
}

/// Knows another key under the same name, and none beside it.
std::shared_ptr<const aes_gcm> stranger() {
  return std::make_shared<aes_gcm>(
    aes_gcm::keys{{"2026-11", std::string(32, 'c')}}, "2026-11");
}

/// Fails, by an error or by throwing, as long as it is told to.
struct moody : aes_gcm {
  using aes_gcm::aes_gcm;

  gd::result<std::string> encrypt(std::string_view plain,
                                  const std::string& key) const override {
    if (broken > 0) {
      --broken;
      if (throws)
        throw std::runtime_error{"the vault is closed"};
      return gd::error{errc::unavailable, "the vault is closed", {}};
    }
    return aes_gcm::encrypt(plain, key);
  }

  mutable int broken = 0;
  bool throws = false;
};

using builder = gd::machine_builder<patient, patient_step>;

/// Takes a visit, counts it and ends with the state.
builder plain_patients(std::int32_t version = 1) {
  using context = gd::context<patient>;
  using enum patient_step;
  return gd::define<patient, patient_step>("Patient", version)
    .history(gd::history::with_state)
    .step(admit,
          [](context& ctx) -> gd::outcome {
            auto seen = ctx.take<visit>("visit");
            if (!seen)
              return gd::await("visit", ctx.state);
            ++ctx.state.visits;
            if (seen->finding == "nothing")
              return gd::next(rest, ctx.state);
            return gd::next(treat, ctx.state).with(*seen);
          })
    .step(treat, [](context& ctx) { return gd::done(ctx.state); })
    .rest(rest, {treat}, {.after = 1h, .then = treat})
    .final(gone);
}

gd::machine patients(std::shared_ptr<const gd::cipher> by) {
  return plain_patients().encrypted_by(std::move(by));
}

gd::json ada() {
  return gd::to_json(patient{.name = secret});
}

gd::json found(const std::string& text) {
  return gd::to_json(visit{text});
}

template <class T>
std::string why_not(const gd::result<T>& x) {
  return x ? "none"s : gd::to_string(x.error());
}

std::string key_of(const gd::json& x) {
  auto how = gd::encryption_of(x.text());
  return how ? how->key : "(plain)";
}

bool contains(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

std::string text(const gd::json& x) {
  return x.text();
}

} // namespace

// -- a value --------------------------------------------------------------------

CAF_TEST(what is encrypted comes back and tells its key and its size alone) {
  auto by = with_key("2026-11");
  for (std::size_t n : {0, 1, 2, 3, 4, 5, 1'000}) {
    auto plain = gd::to_json(visit{std::string(n, 'x')});
    auto stored = gd::encrypted(plain, *by);
    CAF_REQUIRE(stored.ok());
    CAF_CHECK(stored.check());
    CAF_CHECK(!contains(stored.text(), "finding"));
    CAF_CHECK(gd::encrypted(plain, *by) != stored); // a nonce each
    CAF_CHECK(gd::encrypted(stored, *by) == stored);
    auto how = gd::encryption_of(stored.text());
    CAF_REQUIRE(how);
    CAF_CHECK(how->key == "2026-11");
    CAF_CHECK(how->bytes == plain.text().size() + 28);
    CAF_CHECK(how->whole);
    auto back = gd::decrypted(stored, *by);
    CAF_REQUIRE(back);
    CAF_CHECK(*back == plain);
    auto cut = gd::encryption_of(stored.text().substr(0, 50));
    CAF_CHECK(cut && cut->key == "2026-11" && !cut->whole);
  }
  CAF_CHECK(!gd::encryption_of(R"({"finding": "x"})"));
  auto same = gd::decrypted(found("x"), *by);
  CAF_CHECK(same && *same == found("x"));
}

CAF_TEST(what a cipher does not decrypt is an error with the name of its key) {
  auto stored = gd::encrypted(ada(), *with_key("2026-11"));
  CAF_CHECK_EQUAL(why_not(gd::decrypted(stored, *stranger())),
                  "gd::cipher: expected JSON that the cipher decrypts, got "
                  "some with key 2026-11: it has been changed, or is another "
                  "key's");
  auto old = gd::encrypted(ada(), *with_key("2025-01"));
  CAF_CHECK_EQUAL(why_not(gd::decrypted(old, *stranger())),
                  "gd::cipher: expected JSON that the cipher decrypts, got "
                  "some with key 2025-01: no such key");
  CAF_MESSAGE("without a cipher it is no struct whose members are left out");
  constexpr auto still = "gd::cipher: expected JSON as it is, got some that is "
                         "encrypted with key 2026-11: it takes the cipher";
  CAF_CHECK_EQUAL(why_not(gd::from_json<patient>(stored)), still);
  CAF_CHECK_EQUAL(why_not(gd::from_json_strict<patient>(stored.text())), still);
  CAF_CHECK_EQUAL(why_not(gd::from_json<patient>(
                    R"({"gd.key": "2026-11", "gd.encrypted": "AAAA"})")),
                  still);
  CAF_CHECK(gd::from_json<gd::json>(stored));
  CAF_MESSAGE("what only looks like it");
  for (const auto* x :
       {R"({"gd.key":"2026-11"})", R"({"gd.key":7,"gd.encrypted":"AAAA"})",
        R"({"gd.key":"2026-11","gd.encrypted":"A"})",
        R"({"gd.key":"2026-11","gd.encrypted":"A*AA"})",
        R"({"gd.key":"2026-11","gd.encrypted":"AAAA","more":1})"})
    CAF_CHECK(
      contains(why_not(gd::decrypted(gd::json::raw(x), *with_key("2026-11"))),
               "gd::cipher: expected encrypted JSON"));
}

CAF_TEST(
  a cipher that cannot is told of and one without a key leaves all plain) {
  CAF_CHECK_EQUAL(text(gd::encrypted(ada(), *with_key(""))), text(ada()));
  auto bad = gd::encrypted(ada(), *with_key("two words"));
  CAF_REQUIRE(!bad.ok());
  CAF_CHECK_EQUAL(gd::to_string(*bad.failure()),
                  "gd::cipher: expected a key's name of 1 to 255 letters, "
                  "digits and ._-:/, got two words");
  auto unknown = gd::encrypted(ada(), *with_key("2031-01"));
  CAF_REQUIRE(!unknown.ok());
  CAF_CHECK_EQUAL(gd::to_string(*unknown.failure()),
                  "gd::cipher: the cipher does not encrypt with key 2031-01: "
                  "no such key");
  moody out{{{"k", std::string(32, 'k')}}, "k"};
  out.throws = true;
  out.broken = 1;
  auto thrown = gd::encrypted(ada(), out);
  CAF_REQUIRE(!thrown.ok());
  CAF_CHECK(contains(thrown.failure()->message, "the vault is closed"));
  CAF_CHECK_EQUAL(why_not(patients(nullptr).validate()),
                  "gd::invalid_argument: Patient v1: encrypted_by: expected a "
                  "cipher, got null");
}

// -- an instance ------------------------------------------------------------------

CAF_TEST(states results and payloads of a machine with a cipher are encrypted) {
  auto by = with_key("2026-11");
  gd::testing::simulation sim{{patients(by)}};
  auto id = sim.insert({.fsm = "Patient", .state = ada()})->id;
  CAF_CHECK(key_of(sim.instance(id)->state) == "2026-11");
  CAF_REQUIRE(sim.drain());
  CAF_CHECK(key_of(sim.instance(id)->state) == "2026-11");
  CAF_CHECK(sim.instance(id)->status == "awaiting_signal");
  CAF_MESSAGE("a payload that its sender has encrypted");
  CAF_REQUIRE(sim.signal({.target = id,
                          .name = "visit",
                          .payload = gd::encrypted(found("flu"), *by)}));
  CAF_REQUIRE(sim.drain());
  auto end = sim.instance(id);
  CAF_CHECK(end->status == "done");
  CAF_CHECK(key_of(*end->result) == "2026-11");
  CAF_CHECK(sim.state<patient>(id)->visits == 1);
  CAF_CHECK(sim.result<patient>(id)->name == secret);
  CAF_CHECK(contains(sim.describe(id), secret));
  CAF_CHECK(end->result_as<patient>(*by)->name == secret);
  CAF_CHECK(end->state_as<patient>(*by)->name == secret);
  CAF_CHECK(gd::to_string(end->result_as<patient>().error().code) == "cipher");
  CAF_MESSAGE("an insert is checked before, and may be encrypted already");
  CAF_CHECK_EQUAL(
    why_not(
      sim.insert({.fsm = "Patient", .state = gd::json::raw(R"({"x": 1})")})),
    "gd::codec: state: $.x: unknown key, expected one of name|visits");
  CAF_CHECK(sim.insert({.fsm = "Patient", .state = gd::encrypted(ada(), *by)}));
  CAF_CHECK(
    contains(why_not(sim.insert(
               {.fsm = "Patient", .state = gd::encrypted(ada(), *stranger())})),
             "gd::cipher: state: expected JSON that the cipher decrypts"));
}

CAF_TEST(
  what is plain is read and a rotation reads what older keys have encrypted) {
  for (const auto* before : {"", "2025-01"}) {
    gd::testing::simulation old{{patients(with_key(before))}};
    auto id = old.insert({.fsm = "Patient", .state = ada()})->id;
    CAF_CHECK(key_of(old.instance(id)->state)
              == (*before == 0 ? "(plain)" : before));
    auto stored = old.instance(id)->state;
    gd::testing::simulation now{{patients(with_key("2026-11"))}};
    // As if it had been there before.
    auto same = now.insert({.fsm = "Patient", .state = stored})->id;
    CAF_REQUIRE(now.drain());
    CAF_REQUIRE(now.signal(
      {.target = same, .name = "visit", .payload = found("flu")})); // plain
    CAF_REQUIRE(now.drain());
    CAF_CHECK(now.instance(same)->status == "done");
    CAF_CHECK(key_of(now.instance(same)->state) == "2026-11");
  }
}

CAF_TEST(where nothing runs a state stays as it is stored) {
  auto by = with_key("2026-11");
  gd::testing::simulation sim{{patients(by)}};
  auto id = sim.insert({.fsm = "Patient", .state = ada()})->id;
  CAF_REQUIRE(
    sim.signal({.target = id, .name = "visit", .payload = found("nothing")}));
  CAF_REQUIRE(sim.drain());
  auto resting = sim.instance(id)->state;
  CAF_CHECK(sim.instance(id)->step == "rest");
  CAF_REQUIRE(sim.run_for(1h));
  CAF_CHECK(sim.instance(id)->status == "done");
  CAF_CHECK(sim.result<patient>(id)->visits == 1);
  CAF_CHECK(sim.instance(id)->state == resting);
}

CAF_TEST(what does not decrypt fails its instance and names the key
         and no content) {
  auto by = with_key("2026-11");
  CAF_MESSAGE("a payload, which the handler is told of");
  std::vector<std::string> told;
  gd::machine handled = plain_patients().encrypted_by(by).on_error(
    [&told](const gd::failure& why, gd::context<patient>& ctx) {
    told.push_back(ctx.state.name + ": " + why.message());
    return gd::stop(why.message());
  });
  gd::testing::simulation sim{{handled}};
  auto run = [&sim](const gd::json& payload) {
    auto id = sim.insert({.fsm = "Patient", .state = ada()})->id;
    CAF_REQUIRE(
      sim.signal({.target = id, .name = "visit", .payload = payload}));
    CAF_REQUIRE(sim.drain());
    return sim.instance(id)->last_error.value_or("none");
  };
  auto why = run(gd::encrypted(found("flu"), *stranger()));
  CAF_CHECK_EQUAL(why,
                  "signal visit (1): expected JSON that the cipher decrypts, "
                  "got some with key 2026-11: it has been changed, or is "
                  "another key's");
  CAF_CHECK_EQUAL(told.back(), secret + ": " + why);
  CAF_MESSAGE("one that was encrypted, and does not decode: its content is not "
              "repeated");
  why = run(gd::encrypted(gd::json::raw(R"({"finding": 4711})"), *by));
  CAF_CHECK(!contains(why, "4711"));
  CAF_CHECK(contains(why, "signal visit (2): what is encrypted is JSON that "
                          "does not fit"));
  CAF_MESSAGE("one that was not is told as ever");
  why = run(gd::json::raw(R"({"finding": 4711})"));
  CAF_CHECK(contains(why, "4711"));
}

CAF_TEST(a cipher that is out of order for a while is a failure that is tried again) {
  for (bool throws : {false, true}) {
    auto out = std::make_shared<moody>(
      aes_gcm::keys{{"k", std::string(32, 'k')}}, "k");
    out->throws = throws;
    gd::testing::simulation sim{
      {plain_patients().encrypted_by(out).retry({.attempts = 3})}};
    auto id = sim.insert({.fsm = "Patient", .state = ada()})->id;
    CAF_REQUIRE(
      sim.signal({.target = id, .name = "visit", .payload = found("flu")}));
    out->broken = 1;
    CAF_REQUIRE(sim.run_for(1h));
    CAF_CHECK(sim.instance(id)->status == "done");
    CAF_CHECK(sim.result<patient>(id)->visits == 1);
    CAF_CHECK(contains(to_string(sim.history(id).front()), "replay"));
  }
}

// -- another version ----------------------------------------------------------------

CAF_TEST(
  a conversion takes what its machine decrypts and gives what it encrypts) {
  auto by = with_key("2026-11");
  gd::machine to = plain_patients(2).encrypted_by(by).from<old_patient, 1>(
    [](const old_patient& x) { return patient{.name = x.who}; });
  auto old = gd::to_json(old_patient{secret});
  for (const auto& stored : {old, gd::encrypted(old, *with_key("2025-01"))}) {
    auto now = to.migrate(1, stored.text());
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(key_of(*now), "2026-11");
    CAF_CHECK(gd::from_json<patient>(*now, *by)->name == secret);
  }
  auto odd = gd::json::raw(R"({"who": 4711})");
  CAF_CHECK(contains(why_not(to.migrate(1, odd.text())), "4711"));
  auto hidden = why_not(to.migrate(1, gd::encrypted(odd, *by).text()));
  CAF_CHECK(!contains(hidden, "4711"));
  CAF_CHECK(contains(hidden,
                     "expected one of Patient v1 that can be converted: "
                     "what is encrypted is JSON that does not fit"));
  CAF_CHECK(
    contains(why_not(to.migrate(1, gd::encrypted(old, *stranger()).text())),
             "key 2026-11"));
  CAF_MESSAGE("a state of its own version stays as it is stored");
  auto same = gd::encrypted(ada(), *with_key("2025-01"));
  auto kept = to.migrate(2, same.text());
  CAF_CHECK(kept && *kept == same);
  CAF_MESSAGE("a machine without the cipher refuses it");
  gd::machine without = plain_patients(2);
  CAF_CHECK(contains(why_not(without.migrate(2, same.text())),
                     "encrypted with key 2025-01: it takes the cipher"));
}

// -- in a database --------------------------------------------------------------------

namespace {

struct encrypted_fixture {
  temporary_database db;
  std::shared_ptr<const aes_gcm> by = with_key("2026-11");

  encrypted_fixture() {
    db.migrate();
  }

  gd::testing::in_database run_with(gd::machine x) {
    return gd::test::must(
      gd::testing::in_database::connect(db.options(), {std::move(x)}));
  }

  /// All that is stored, as text.
  std::string everything() {
    return db.scalar(
      "select string_agg(t, ' ') from (select g::text from gen_durable g union "
      "all select s::text from gen_durable_signals s union all select l::text "
      "from gen_durable_ledger l) x (t)");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(encrypted_in_a_database, encrypted_fixture)

CAF_TEST(nothing of it is stored in plain by state result payload history
         or metadata) {
  auto run = run_with(patients(by));
  auto id = run.insert({.fsm = "Patient", .state = ada()})->id;
  CAF_REQUIRE(run.drain());
  CAF_REQUIRE(run.signal({.target = id,
                          .name = "visit",
                          .payload = gd::encrypted(found("the flu"), *by)}));
  CAF_CHECK(!contains(everything(), "flu"));
  CAF_REQUIRE(run.drain());
  auto stored = everything();
  CAF_CHECK(!contains(stored, secret));
  CAF_CHECK(!contains(stored, "flu"));
  CAF_CHECK(run.result<patient>(id)->name == secret);
  CAF_CHECK(db.scalar("select count(*) from gen_durable_ledger where "
                      "state ->> 'gd.key' = '2026-11'")
            == "4");
  auto client = gd::test::must(gd::client::connect(db.options()));
  auto end = client.await_result({.id = id});
  CAF_REQUIRE(end);
  CAF_CHECK(end->result_as<patient>(*by)->visits == 1);
  CAF_CHECK(gd::to_string(end->result_as<patient>().error().code) == "cipher");
  auto entries = client.history({.id = id});
  CAF_REQUIRE(entries);
  std::string attached;
  for (const auto& x : *entries)
    if (x.metadata)
      attached += gd::from_json<visit>(*x.metadata, *by)->finding;
  CAF_CHECK_EQUAL(attached, "the flu");
}

CAF_TEST(an instance that does not decrypt fails with its state as it was
         and goes on with the key) {
  auto run = run_with(patients(with_key("2025-01")));
  auto id = run.insert({.fsm = "Patient", .state = ada()})->id;
  auto before = db.scalar("select state from gen_durable");
  {
    auto other = run_with(patients(stranger()));
    CAF_REQUIRE(other.drain());
  }
  auto failed = run.instance(id);
  CAF_CHECK(failed->status == "failed");
  CAF_CHECK(failed->last_error.value_or("")
            == "state of Patient v1: expected JSON that the cipher decrypts, "
               "got some with key 2025-01: no such key");
  CAF_CHECK_EQUAL(db.scalar("select state from gen_durable"), before);
  {
    CAF_MESSAGE("nor does a machine without a cipher take it for an empty one");
    db.rows("select gd_retry(" + std::to_string(id) + ")");
    auto plain = run_with(plain_patients());
    CAF_REQUIRE(plain.drain());
  }
  CAF_CHECK(run.instance(id)->last_error.value_or("")
            == "state of Patient v1: expected JSON as it is, got some that "
               "is encrypted with key 2025-01: it takes the cipher");
  CAF_CHECK_EQUAL(db.scalar("select state from gen_durable"), before);
  db.rows("select gd_retry(" + std::to_string(id) + ")");
  CAF_REQUIRE(run.drain());
  CAF_CHECK(run.instance(id)->status == "awaiting_signal");
}

CAF_TEST(
  what SQL stores in plain is taken and encrypted with the next outcome) {
  auto run = run_with(patients(by));
  auto id = std::stoll(db.scalar(
    "select id from gd_insert('Patient', '{\"name\": \"Ada Byron\"}')"));
  CAF_CHECK(contains(everything(), secret));
  CAF_REQUIRE(run.drain());
  CAF_CHECK(db.scalar("select state ->> 'gd.key' from gen_durable")
            == "2026-11");
  db.rows("select gd_signal(" + std::to_string(id)
          + ", 'visit', '{\"finding\": \"flu\"}')");
  CAF_REQUIRE(run.drain());
  CAF_CHECK(run.result<patient>(id)->name == secret);
}

CAF_TEST(stored states are tried with the cipher) {
  auto run = run_with(patients(by));
  CAF_REQUIRE(run.insert({.fsm = "Patient", .state = ada()}));
  auto path = "/tmp/gd_encrypted_" + std::to_string(getpid());
  std::ofstream{path} << db.scalar(
    "select json_build_object('id', id, 'fsm', fsm, 'version', fsm_version, "
    "'step', step, 'state', state) from gen_durable");
  auto all = run.decodes(path);
  gd::testing::simulation other{{patients(stranger())}};
  auto none = other.decodes(path);
  std::remove(path.c_str());
  CAF_REQUIRE(all && none);
  CAF_CHECK(all->states == 1u);
  CAF_CHECK(all->refusals.empty());
  CAF_REQUIRE_EQUAL(none->refusals.size(), 1u);
  CAF_CHECK(contains(none->refusals.front(), "key 2026-11"));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace encrypted_suite
