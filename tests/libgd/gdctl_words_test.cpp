// What gdctl says of words that cannot be meant: names that nobody has, numbers out of
// bounds, bytes that are no text, and files that begin with a byte order mark.

#define CAF_SUITE gdctl_words

#include <support/gdctl.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace gdctl_words_suite {

using namespace std::literals;
using gd::test::contains;

namespace {

struct fixture : gd::test::database_of_gdctl {
  std::filesystem::path folder = std::filesystem::temp_directory_path()
                                 / ("gdctl_words." + std::to_string(getpid()));

  ~fixture() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  fixture() {
    std::filesystem::create_directory(folder);
    db.rows("insert into gen_durable_machines (fsm, version, initial_step,"
            " queue, steps, served) values ('Order', 1, 'pay', 'mail',"
            " '{pay,ship}', true)");
    db.rows("insert into gen_durable (fsm, step, queue, status, awaits) values"
            " ('Order', 'pay', 'mail', 'awaiting_signal', 'paid')");
  }

  /// Its exit code, and what it does not say.
  std::string told(const std::string& arguments, int code,
                   const std::string& part) {
    auto x = run(arguments);
    if (x.code != code)
      return "exit code " + std::to_string(x.code) + ": " + x.said;
    return contains(x.said, part) ? "" : x.said;
  }

  /// A file with that text.
  std::string file_of(const std::string& text,
                      const std::string& name = "file") {
    auto path = folder / name;
    std::ofstream{path, std::ios::binary} << text;
    return path;
  }

  std::string count(const std::string& of) {
    return db.scalar("select count(*) from " + of);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(gdctl_words_tests, fixture)

CAF_TEST(a queue that nobody has is told with the one that may be meant) {
  auto meant = "did you mean mail?; --force does it all the same"s;
  for (const auto* verb :
       {"pause mial", "resume mial", "move 1 --to mial", "stop --queue mial",
        "move --machine Order --to mial", "insert Order --queue mial",
        "pause 'mail '"})
    CAF_CHECK_EQUAL(told(verb, 5, meant), "");
  CAF_CHECK_EQUAL(count("gen_durable_queues"), "0");
  CAF_CHECK_EQUAL(count("gen_durable where queue = 'mail'"), "1");
  CAF_CHECK_EQUAL(told("list --queue mial", 5, "did you mean mail?"), "");
  CAF_CHECK_EQUAL(told("list --queue mail --status failed", 0, "id"), "");
  for (const auto* verb :
       {"pause later --force", "resume later --force", "resume mail",
        "stop --queue later --force", "insert Order --queue later --force",
        "move 1 --to later2 --force"})
    CAF_CHECK_EQUAL(told(verb, 0, ""), "");
}

CAF_TEST(
  machines and versions and steps that nobody has are told the same way) {
  auto meant = "did you mean Order?"s;
  for (const auto* verb :
       {"list --machine Odrer", "in-step Odrer pay", "graph Odrer",
        "machines pin Odrer 1", "machines retire Odrer 1",
        "stop --machine Odrer", "prune --older-than 1d --machine Odrer",
        "upgrade --machine Odrer"
        " --to-version 2"}) {
    auto x = run(verb);
    CAF_CHECK(x.code != 0);
    CAF_CHECK(contains(x.said, meant));
  }
  CAF_CHECK_EQUAL(told("insert Odrer", 1, meant), "");
  CAF_CHECK_EQUAL(told("list --step pya", 5, "did you mean pay?"), "");
  CAF_CHECK_EQUAL(told("in-step Order pya", 5, "did you mean pay?"), "");
  CAF_CHECK_EQUAL(told("in-step Order ship", 0, ""), "");
  CAF_CHECK_EQUAL(
    told("list --machine Order --machine-version 7", 5, "; known are 1"), "");
  CAF_CHECK_EQUAL(told("graph Order --version 7", 1, "; known are 1"), "");
}

CAF_TEST(
  lines of a file that name a queue that nobody has are refused by themselves) {
  auto name = file_of("{\"queue\": \"mial\"}\n{}\n{\"queue\": \"mial\"}\n");
  auto x = run("insert Order --file " + name);
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK(contains(x.said, "\"line\":1,\"error\":\"queue: no node serves "
                             "mial"));
  CAF_CHECK(contains(x.said, "\"code\":\"not_found\""));
  CAF_CHECK_EQUAL(count("gen_durable"), "2");
}

CAF_TEST(the first row of a machine that nobody knows is told and made) {
  CAF_CHECK_EQUAL(told("insert Other --step go --queue elsewhere", 0,
                       "queue: no node serves elsewhere"),
                  "");
  CAF_CHECK_EQUAL(count("gen_durable where queue = 'elsewhere'"), "1");
}

CAF_TEST(a signal that its instance does not wait for is stored and told) {
  CAF_CHECK_EQUAL(
    told("signal 1 news", 0, "news is stored, and instance 1 waits for paid"),
    "");
  auto x = run("signal 1 paid");
  CAF_CHECK_EQUAL(x.said, "{\"target\":1,\"answer\":\"accepted\"}\n");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "2");
}

CAF_TEST(a signal that is almost what its instance waits for is refused) {
  CAF_CHECK_EQUAL(told("signal 1 payd", 1,
                       "instance 1 waits for paid, got payd; did you mean "
                       "paid?; --force does it all the same"),
                  "");
  auto x = run("signal --file " + file_of(R"({"target": 1, "name": "piad"})"));
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK(contains(x.said, "did you mean paid?\",\"code\":"));
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "0");
  CAF_CHECK_EQUAL(told("signal 1 payd --force", 0, "payd is stored"), "");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "1");
}

CAF_TEST(what a machine tells of its states and signals is asked before) {
  db.rows(
    "update gen_durable_machines set shape = '{\"state\": {\"type\":"
    " \"object\", \"properties\": {\"applicant\": {\"type\": \"string\"}},"
    " \"additionalProperties\": false}, \"signals\": {\"documents\":"
    " {\"type\": \"object\", \"properties\": {\"complete\": {\"type\":"
    " \"boolean\"}}, \"additionalProperties\": false}}}'");
  auto meant = "did you mean applicant?; --force does it all the same"s;
  CAF_CHECK_EQUAL(told(R"(insert Order --state '{"aplicant": "x"}')", 1, meant),
                  "");
  CAF_CHECK_EQUAL(told(R"(insert Order --state '{"applicant": 20}')", 1,
                       "$.applicant: expected string, got number 20"),
                  "");
  auto lines = run("insert Order --file "
                   + file_of("{\"state\": {\"aplicant\": \"x\"}}\n{}\n"));
  CAF_CHECK_EQUAL(lines.code, 1);
  CAF_CHECK(contains(lines.said, "{\"line\":1,\"error\":\"state: $.aplicant"));
  CAF_CHECK(contains(lines.said, "{\"line\":2,\"id\":"));
  CAF_CHECK_EQUAL(count("gen_durable"), "2");
  CAF_CHECK_EQUAL(
    told(R"(insert Order --state '{"aplicant": 1}' --force)", 0, "\"id\":"),
    "");
  CAF_CHECK_EQUAL(
    told("signal 1 document", 1,
         "Order v1 takes one of documents, got document; did you mean "
         "documents?"),
    "");
  CAF_CHECK_EQUAL(
    told(R"(signal 1 documents --payload '{"compete": true}')", 1,
         "payload: $.compete: unknown key, expected one of complete; did you "
         "mean complete?"),
    "");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "0");
  CAF_CHECK_EQUAL(
    told(R"(signal 1 documents --payload '{"complete": true}')", 0, "accepted"),
    "");
  // For which it waits now, whatever is told.
  CAF_CHECK_EQUAL(told("signal 1 paid", 0, "accepted"), "");
}

CAF_TEST(a word that is no command is told with the one that may be meant) {
  using pair = std::pair<const char*, const char*>;
  for (auto [typed, meant] :
       {pair{"ls", "list"}, pair{"status", "show"}, pair{"cancel 7", "stop"},
        pair{"lsit", "list"}, pair{"help", "gdctl --help"},
        pair{"help list", "gdctl list --help"},
        pair{"version", "gdctl --version"}, pair{"machines pni", "pin"},
        pair{"machines help", "gdctl machines --help"},
        pair{"list --machin Order", "--machine"}})
    CAF_CHECK_EQUAL(told(typed, 2, "; did you mean "s + meant + '?'), "");
  CAF_CHECK_EQUAL(told("xyzzy", 2, "xyzzy: expected a command\n"), "");
}

CAF_TEST(a machine is named by its place or by its option alike) {
  using pair = std::pair<const char*, const char*>;
  for (auto [placed, named] :
       {pair{"list Order", "list --machine Order"},
        pair{"list Lone", "list --machine Lone"},
        pair{"in-step Order pay", "in-step --machine Order --step pay"},
        pair{"graph Order", "graph --machine Order"},
        pair{"prune Order --older-than 1d",
             "prune --machine Order --older-than 1d"},
        pair{"machines pin Order 7", "machines pin --machine Order 7"},
        pair{"insert Odrer", "insert --machine Odrer"}}) {
    auto x = run(placed);
    auto y = run(named);
    CAF_CHECK_EQUAL(x.code, y.code);
    CAF_CHECK_EQUAL(x.said, y.said);
  }
  db.rows("update gen_durable_machines set fsm = 'Loan'");
  CAF_CHECK_EQUAL(told("list Lone", 5, "did you mean Loan?"), "");
}

CAF_TEST(what is in a step is listed whether it keeps a history or not ) {
  db.rows("insert into gen_durable (fsm, step, queue, history, ledger_step)"
          " values ('Order', 'pay', 'mail', 1, 'pay')");
  auto x = run("in-step Order pay");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "\n 2  Order v1  pay"));
  CAF_CHECK(contains(x.said, "\n 1  Order v1  pay"));
  CAF_CHECK_EQUAL(run("list Order --step pay").said, x.said);
  CAF_CHECK_EQUAL(run("in-step Order pay --json").said,
                  run("list Order --step pay --json").said);
  CAF_CHECK(contains(run("in-step Order pay --limit 1").said, "--before 2\n"));
  CAF_CHECK(!contains(run("in-step Order pay --status runnable").said, "\n 1"));
}

CAF_TEST(numbers out of bounds are told with their bounds) {
  auto priority = "--priority: expected -32768 to 32767, as a whole number, "
                  "got "s;
  CAF_CHECK_EQUAL(told("insert Order --priority 40000", 2, priority + "40000"),
                  "");
  CAF_CHECK_EQUAL(told("insert Order --priority 1.5", 2, priority + "\"1.5\""),
                  "");
  CAF_CHECK_EQUAL(told("move 1 --priority 99999999999999999999", 2, priority),
                  "");
  for (const auto* version :
       {"insert Order --version 0", "insert Order --version 4294967297",
        "graph Order --version -1", "list --machine-version x",
        "machines pin Order 0", "upgrade 1 --to-version 0",
        "prune --older-than 1d --machine Order --version 0"})
    CAF_CHECK_EQUAL(told(version, 2, "expected a version, 1 or more"), "");
  for (const auto* limit : {"list --limit 0", "in-step Order pay --limit 1001"})
    CAF_CHECK_EQUAL(told(limit, 2, "--limit: expected 1 to 1000"), "");
  CAF_CHECK_EQUAL(told("migrate up --to 4711", 2, "--to: expected 0 to "), "");
  CAF_CHECK_EQUAL(told("list --before x", 2, "--before: expected a whole"), "");
}

CAF_TEST(a time that is too short to delete by is told with the shortest) {
  CAF_CHECK_EQUAL(told("prune --older-than 1s", 2,
                       "--older-than: expected 1m at least, got \"1s\""),
                  "");
  CAF_CHECK_EQUAL(told("prune --older-than 1m", 0, "\"examined\":1"), "");
}

CAF_TEST(bytes that are no text are told with their option and place) {
  auto bad = "\"$(printf 'a\\377')\""s;
  auto text = "expected UTF-8, got byte 0xff at offset 1"s;
  for (const auto* command :
       {"list --machine", "list --failure", "graph", "in-step", "in-step Order",
        "machines pin", "machines retire", "stop --queue", "pause", "resume",
        "signal 1", "insert", "insert Order --state", "transition 1",
        "retry 1 --by", "show --key", "--schema"}) {
    auto rest = command == "machines pin"s || command == "machines retire"s
                  ? " 1"
                : command == "in-step"s  ? " pay"
                : command == "--schema"s ? " stats"
                                         : "";
    CAF_CHECK_EQUAL(told(command + " "s + bad + rest, 2, text), "");
  }
  // Wherever it stands: no option has it.
  CAF_CHECK_EQUAL(run(bad).code, 2);
}

CAF_TEST(options that are given nothing are told before anything else) {
  CAF_CHECK_EQUAL(
    told("stop --queue ''", 2, "--queue: expected a value, got nothing"), "");
  CAF_CHECK_EQUAL(
    told("retry --key ''", 2, "--key: expected a value, got nothing"), "");
  CAF_CHECK_EQUAL(
    told("list --limit ''", 2, "--limit: expected a value, got nothing"), "");
  CAF_CHECK_EQUAL(count("gen_durable where status = 'failed'"), "0");
}

CAF_TEST(a state with something behind it is told with its place) {
  auto x = run("insert Order --state '{\"a\":1} x'");
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK(contains(x.said, "state: $: "));
  CAF_CHECK(contains(x.said, "got trailing content"));
  CAF_CHECK(!contains(x.said, "22P02"));
}

CAF_TEST(files and arguments may begin with a byte order mark) {
  auto mark = "\xef\xbb\xbf"s;
  auto name = file_of("");
  auto write = [this](const std::string& text) { file_of(text); };
  write(mark + "{\"ref\": \"a\"}\n{\"ref\": \"b\"}\n");
  auto x = run("insert Order --file " + name);
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "\"ref\":\"a\",\"line\":1,\"id\":"));
  write(mark + x.said); // as inserted.jsonl may have been written anew
  auto lines = run(
    "signal --targets " + name + " --file - < "
    + file_of(mark + "{\"ref\": \"a\", \"name\": \"paid\"}\n", "lines"));
  CAF_CHECK_EQUAL(lines.code, 0);
  write(mark + "{}");
  CAF_CHECK_EQUAL(told("insert Order --state \"$(cat " + name + ")\"", 0, ""),
                  "");
  CAF_CHECK_EQUAL(
    told("signal 1 paid --payload \"$(cat " + name + ")\"", 0, ""), "");
  write("\xff\xfe{\0}\0\n\0"s);
  CAF_CHECK_EQUAL(
    told("insert Order --file " + name, 2, "expected UTF-8, got UTF-16"), "");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace gdctl_words_suite
