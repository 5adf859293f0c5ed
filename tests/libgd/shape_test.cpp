// What a machine tells of its states and signals, and that who writes one by hand is told
// of what no step could read.

#define CAF_SUITE shape

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/store/nodes.hpp>

#include <support/opened.hpp>
#include <support/traps.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shapes {

GD_ENUM(color, red, green);
GD_ENUM(loan_step, review, wait_documents, approved);

/// With a codec of its own.
struct money {
  std::int64_t cents = 0;
};

struct part {
  std::int16_t size = 0;
  std::vector<part> parts{};

  GD_STATE(part, size, parts);
};

struct loan {
  std::string applicant{};
  std::optional<color> mark{};
  std::array<double, 2> place{};
  std::map<std::string, bool> checks{};
  std::chrono::sys_time<std::chrono::microseconds> since{};
  std::chrono::seconds age{};
  gd::json any{};
  money amount{};
  part whole{};

  GD_STATE(loan, applicant, mark, place, checks, since, age, any, amount,
           whole);
};

struct documents {
  bool complete = false;

  GD_STATE(documents, complete);
};

} // namespace shapes

template <>
struct gd::json_codec<shapes::money> {
  static result<void> write(std::string& out, const shapes::money& x,
                            const json_path& at) {
    return write_json(out, x.cents, at);
  }
  static result<void> read(const json_value& in, shapes::money& x) {
    return read_json(in, x.cents);
  }
};

namespace shape_suite {

namespace {

using gd::test::contains;
using gd::test::sql_error;
using shapes::documents;
using shapes::loan;
using shapes::loan_step;
using enum loan_step;

gd::machine made(std::int32_t version = 1) {
  return gd::define<loan, loan_step>("Loan", version)
    .signal<documents>("documents")
    .signal<gd::json>("approval")
    .rest(review, {wait_documents, approved})
    .rest(wait_documents, {approved})
    .final(approved);
}

struct fixture : gd::test::opened_database {
  gd::client by = client();

  fixture() {
    CAF_REQUIRE(by.make_known({made()}));
  }

  std::string refused_by(const std::string& statement) {
    try {
      db.rows(statement);
    } catch (const sql_error& why) {
      return why.sqlstate() + " " + why.what();
    }
    return {};
  }

  std::string fault_of(const std::string& state) {
    std::vector<gd::insert> rows(1);
    rows[0].fsm = "Loan";
    rows[0].state = gd::json::raw(state);
    auto faults = by.faults(rows);
    CAF_REQUIRE(faults);
    return faults->front().value_or("");
  }

  std::string fault_of(std::int64_t target, const std::string& name,
                       const std::string& payload = "{}") {
    auto faults = by.faults(std::vector<gd::signal>{
      {.target = target, .name = name, .payload = gd::json::raw(payload)}});
    CAF_REQUIRE(faults);
    return faults->front().value_or("");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(shape_tests, fixture)

CAF_TEST(a machine makes known what its states and payloads look like) {
  auto has = [this](const std::string& path) {
    return db.scalar("select shape #>> $1::text[] from gen_durable_machines",
                     {path});
  };
  CAF_CHECK_EQUAL(has("{state,properties,applicant}"), R"({"type": "string"})");
  CAF_CHECK_EQUAL(
    has("{state,properties,mark}"),
    R"({"anyOf": [{"enum": ["red", "green"]}, {"type": "null"}]})");
  CAF_CHECK_EQUAL(has("{state,properties,place}"),
                  R"({"type": "array", "items": {"type": "number"}, )"
                  R"("maxItems": 2, "minItems": 2})");
  CAF_CHECK_EQUAL(has("{state,properties,checks,additionalProperties,type}"),
                  "boolean");
  CAF_CHECK_EQUAL(has("{state,properties,since,format}"), "date-time");
  CAF_CHECK_EQUAL(has("{state,properties,age,type}"), "integer");
  CAF_CHECK_EQUAL(has("{state,properties,whole,properties,size,maximum}"),
                  "32767");
  // What is not known: JSON, a codec of the user's, a type within itself.
  CAF_CHECK_EQUAL(has("{state,properties,any}"), "{}");
  CAF_CHECK_EQUAL(has("{state,properties,amount}"), "{}");
  CAF_CHECK_EQUAL(has("{state,properties,whole,properties,parts,items}"), "{}");
  CAF_CHECK_EQUAL(has("{signals,documents,properties,complete,type}"),
                  "boolean");
  CAF_CHECK_EQUAL(has("{signals,approval}"), "{}");
}

CAF_TEST(
  what it looks like follows its machine without being told as a change) {
  db.rows("update gen_durable_machines set shape = null");
  auto told = run(connect(),
                  gd::store::register_machines(gd::store::known({made()})));
  CAF_CHECK_EQUAL(told.size(), 0u);
  CAF_CHECK_EQUAL(db.scalar("select shape ? 'state' from gen_durable_machines"),
                  "t");
}

CAF_TEST(strict refuses a state just where strict decoding does) {
  for (const auto* state : {R"({})",
                            R"({"applicant": "x"})",
                            R"({"applicant": 20})",
                            R"({"applicant": null})",
                            R"({"aplicant": "x"})",
                            R"({"mark": "red"})",
                            R"({"mark": null})",
                            R"({"mark": "rde"})",
                            R"({"mark": 1})",
                            R"({"place": [1, 2.5]})",
                            R"({"place": [1]})",
                            R"({"place": [1, "2"]})",
                            R"({"place": {}})",
                            R"({"checks": {"a": true, "b": false}})",
                            R"({"checks": {"a": 1}})",
                            R"({"checks": []})",
                            R"({"since": "2024-02-29T12:00:00.000000Z"})",
                            R"({"since": "2024-02-29T12:00:00Z"})",
                            R"({"since": "yesterday"})",
                            R"({"since": 5})",
                            R"({"age": 5})",
                            R"({"age": 5.5})",
                            R"({"age": 5.0})",
                            R"({"age": -9223372036854775808})",
                            R"({"age": 9223372036854775808})",
                            R"({"age": "5"})",
                            R"({"any": [1, {"x": null}]})",
                            R"({"amount": 5})",
                            R"({"whole": {"size": 32767}})",
                            R"({"whole": {"size": 32768}})",
                            R"({"whole": {"parts": []}})",
                            R"({"whole": {"sise": 1}})",
                            R"({"whole": {"parts": [{"size": 1}]}})",
                            R"({"whole": null})"}) {
    auto strict = refused_by("select gd_insert('Loan', '" + std::string{state}
                             + "', strict => true)");
    CAF_MESSAGE(state << ": " << strict);
    bool decodes = static_cast<bool>(gd::from_json_strict<loan>(state));
    CAF_CHECK_EQUAL(strict.empty(), decodes);
    CAF_CHECK_EQUAL(fault_of(state).empty(), decodes);
    CAF_CHECK_EQUAL(
      refused_by("select gd_insert('Loan', '" + std::string{state} + "')"), "");
  }
}

CAF_TEST(what is refused is told with its place and what may be meant) {
  CAF_CHECK(contains(
    refused_by(
      R"(select gd_insert('Loan', '{"aplicant": 20}', strict => true))"),
    "22023"));
  CAF_CHECK(contains(fault_of(R"({"aplicant": 20})"),
                     "state: $.aplicant: unknown key, expected one of "));
  CAF_CHECK(
    contains(fault_of(R"({"aplicant": 20})"), "; did you mean applicant?"));
  CAF_CHECK_EQUAL(fault_of(R"({"mark": "gren"})"),
                  "state: $.mark: expected one of red|green, got string "
                  "\"gren\"; did you mean green?");
  CAF_CHECK_EQUAL(fault_of(R"({"place": [1, "b"]})"),
                  "state: $.place[1]: expected number, got string \"b\"");
  CAF_CHECK(
    contains(refused_by("select gd_insert('Laon')"), "; did you mean Loan?"));
  CAF_CHECK(contains(refused_by("select gd_insert('Loan', step => 'reviw')"),
                     "; did you mean review?"));
}

CAF_TEST(a state is held against the version that its insert means) {
  CAF_REQUIRE(by.make_known({made(2)}));
  db.rows("update gen_durable_machines set shape = '{}' where version = 2");
  CAF_REQUIRE(by.pin("Loan", 2));
  CAF_CHECK_EQUAL(fault_of(R"({"aplicant": 20})"), "");
  CAF_REQUIRE(by.pin("Loan", 1));
  CAF_CHECK(fault_of(R"({"aplicant": 20})") != "");
  // Nobody has made it known, or what it looks like: it is not held against anything.
  db.rows("update gen_durable_machines set shape = null");
  CAF_CHECK_EQUAL(fault_of(R"({"aplicant": 20})"), "");
  db.rows("delete from gen_durable_machines");
  CAF_CHECK_EQUAL(fault_of(R"({"aplicant": 20})"), "");
}

CAF_TEST(a signal that a machine does not tell of is refused with the nearest) {
  auto id = std::stoll(db.scalar("select id from gd_insert('Loan')"));
  CAF_CHECK_EQUAL(fault_of(id, "document"),
                  "signal name: Loan v1 takes one of approval|documents, got "
                  "document; did you mean documents?");
  CAF_CHECK_EQUAL(fault_of(id, "documents", R"({"compete": true})"),
                  "payload: $.compete: unknown key, expected one of complete; "
                  "did you mean complete?");
  CAF_CHECK_EQUAL(fault_of(id, "documents", R"({"complete": true})"), "");
  CAF_CHECK_EQUAL(fault_of(id, "approval", "[1]"), "");
  CAF_CHECK_EQUAL(fault_of(id + 1, "document"), ""); // there is no such one
  auto signal = "select gd_signal(" + std::to_string(id) + ", 'document'";
  CAF_CHECK(contains(refused_by(signal + ", strict => true)"), "22023"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "0");
  CAF_CHECK_EQUAL(refused_by(signal + ")"), "");
  // By its key, too.
  db.rows("update gen_durable set unique_key = 'k', unique_guard = 'k',"
          " unique_scope = '{awaiting_signal}'");
  CAF_CHECK(contains(
    refused_by("select gd_signal(key => 'k', name => 'document', strict =>"
               " true)"),
    "did you mean documents?"));
}

CAF_TEST(what an instance waits for now is taken whatever its machine tells) {
  auto id = std::stoll(db.scalar("select id from gd_insert('Loan')"));
  db.rows("update gen_durable set awaits = 'fee', awaits_also = '{waiver}'");
  CAF_CHECK_EQUAL(fault_of(id, "fee"), "");
  CAF_CHECK_EQUAL(fault_of(id, "waiver"), "");
  // Of one that tells of none, only what is almost that is refused.
  db.rows("update gen_durable_machines set shape = shape - 'signals'");
  CAF_CHECK_EQUAL(fault_of(id, "waver"),
                  "signal name: instance " + std::to_string(id)
                    + " waits for fee|waiver, got waver; did you mean waiver?");
  CAF_CHECK_EQUAL(fault_of(id, "document"), "");
}

CAF_TEST(rows that cannot be stored at all are left to who stores them) {
  std::vector<gd::insert> rows(3);
  for (auto& x : rows)
    x.fsm = "Loan";
  rows[0].state = gd::json::raw("{");
  rows[1].state = gd::json::raw(R"({"aplicant": 20})");
  rows[2].fsm = "";
  auto faults = by.faults(rows);
  CAF_REQUIRE(faults);
  CAF_REQUIRE_EQUAL(faults->size(), 3u);
  CAF_CHECK(!(*faults)[0] && (*faults)[1] && !(*faults)[2]);
}

CAF_TEST(signals that cannot be told are refused with their machine) {
  auto problem = [](gd::machine x) {
    auto ok = x.validate();
    return ok ? "" : ok.error().message;
  };
  CAF_CHECK(contains(problem(gd::define<loan, loan_step>("Loan", 1)
                               .signal<documents>("a")
                               .signal<documents>("a")),
                     "Loan v1: signal a is told twice"));
  CAF_CHECK(contains(
    problem(gd::define<loan, loan_step>("Loan", 1).signal<documents>("")),
    "Loan v1: signal name: expected 1 to"));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace shape_suite
