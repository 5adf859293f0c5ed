// What stands at the edge of a limit goes all the way, from an insert through a
// step to its result; what is beyond it is refused with a sentence.

#define CAF_SUITE limits

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/engine/step/run.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/registry.hpp>
#include <gd/state.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace limits_suite {

using namespace std::literals;

using gd::errc;
using gd::test::contains;
using gd::test::temporary_database;

GD_ENUM(limit_step, begin, end);

struct text_state {
  std::string text;
  GD_STATE(text_state, text);
};

struct no_fields {
  GD_STATE(no_fields);
};

struct number_state {
  std::vector<std::int8_t> i8{};
  std::vector<std::int16_t> i16{};
  std::vector<std::int32_t> i32{};
  std::vector<std::int64_t> i64{};
  std::vector<std::uint8_t> u8{};
  std::vector<std::uint16_t> u16{};
  std::vector<std::uint32_t> u32{};
  std::vector<std::uint64_t> u64{};
  std::vector<float> singles{};
  std::vector<double> doubles{};
  GD_STATE(number_state, i8, i16, i32, i64, u8, u16, u32, u64, singles,
           doubles);
};

namespace {

constexpr std::int64_t century_us = gd::longest_delay.count();
constexpr std::size_t mebibyte = 1 << 20;

std::string utf8(char32_t c) {
  auto byte = [](char32_t x) { return static_cast<char>(x); };
  if (c < 0x80)
    return {byte(c)};
  if (c < 0x800)
    return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000)
    return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)),
            byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)),
          byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
}

/// The edges of every plane; the surrogates are no characters.
std::string every_plane() {
  auto out = utf8(0xd7ff) + utf8(0xe000) + utf8(0xa0) + utf8(0x20);
  for (char32_t plane = 0; plane <= 16; ++plane)
    for (char32_t low : {0xa1, 0xfffd, 0xfffe, 0xffff})
      out += utf8(plane << 16 | low);
  return out;
}

std::string text_of(std::size_t bytes) {
  constexpr auto around = sizeof(R"({"text": ""})") - 1;
  return R"({"text": ")" + std::string(bytes - around, 'x') + "\"}";
}

/// A name as long as a name may be, at its end a character of several bytes.
std::string longest(std::size_t bytes, std::string_view end = "\xc3\xa9") {
  return std::string(bytes - end.size(), 'n').append(end);
}

/// Names that no limit lets through, and what is said of them.
std::map<std::string, std::string> bad_names(std::size_t most) {
  auto bytes = std::to_string(most);
  auto sentence = [&](const std::string& got) {
    return "expected 1 to " + bytes
           + " bytes of UTF-8 without control characters, got " + got;
  };
  return {
    {longest(most + 1), sentence(std::to_string(most + 1) + " bytes")},
    {longest(most, "\xc3"),
     sentence("byte 0xc3 at offset " + std::to_string(most - 1))},
    {longest(most, "\xed\xa0\x80"),
     sentence("byte 0xed at offset " + std::to_string(most - 3))},
    {longest(most, "\xf4\x90\x80\x80"),
     sentence("byte 0xf4 at offset " + std::to_string(most - 4))},
    {"a\nb", sentence("byte 0x0a at offset 1")},
    {"a\x7f", sentence("byte 0x7f at offset 1")},
    {"a\0b"s, sentence("byte 0x00 at offset 1")},
    {"a\xc2\x80z", sentence("U+0080 at offset 1")},
    {"a\xc2\x9f", sentence("U+009F at offset 1")},
    {"\xc3\xa9\xd8\x9c", sentence("U+061C at offset 2")},
    {"a\xe2\x80\x8e", sentence("U+200E at offset 1")},
    {"a\xe2\x80\x8f", sentence("U+200F at offset 1")},
    {"a\xe2\x80\xaa", sentence("U+202A at offset 1")},
    {"a\xe2\x80\xae z", sentence("U+202E at offset 1")},
    {"a\xe2\x81\xa6", sentence("U+2066 at offset 1")},
    {"a\xe2\x81\xa9", sentence("U+2069 at offset 1")},
  };
}

/// Runs a machine's rows through real turns until nothing is left to do.
class worker {
public:
  worker(const temporary_database& db, gd::machine what, std::string queue = {})
    : machine_(std::make_shared<gd::machine>(std::move(what))),
      on_(db.options()),
      turn_({.queue = queue.empty() ? machine_->queue : std::move(queue),
             .incarnation = "node/1",
             .machines = {{machine_->name, machine_->version}}}) {
    if (auto ok = machine_->validate(); !ok)
      throw std::runtime_error{ok.error().message};
  }

  /// How many executions there were.
  int run_all() {
    constexpr std::int64_t room = 64 << 20;
    int before = executions_;
    int idle = 0;
    while (idle < 3) { // the first pick may only learn that there are keys
      auto unit = turn_.begin(100, now_, room);
      if (!unit) {
        now_ = std::max(now_, turn_.due(now_, true));
        unit = turn_.begin(100, now_, room);
      }
      auto reply = on_.run(unit->work);
      if (reply.failure)
        CAF_MESSAGE("failed: " << reply.failure->message);
      auto report = turn_.finish(0, std::move(reply), now_);
      for (auto& x : report.rows)
        collect(x);
      for (auto& x : report.picked)
        if (x.shown) {
          run(std::move(x), report.token);
        } else {
          turn_.show({x.id, report.token});
          unloaded_.emplace(x.id, std::pair{std::move(x), report.token});
        }
      for (auto& x : report.shown_rows) {
        auto found = unloaded_.extract(x.which.id);
        auto& [row, token] = found.mapped();
        row.state = std::move(x.content->state).value();
        row.inbox = std::move(x.content->inbox);
        run(std::move(row), token);
      }
      bool at_work = !report.rows.empty() || !report.picked.empty()
                     || !unloaded_.empty() || !turn_.empty();
      idle = at_work ? 0 : idle + 1;
    }
    return executions_ - before;
  }

private:
  using verdict = gd::turn::flushed::verdict;

  void run(gd::store::picked_row row, const std::string& token) {
    ++executions_;
    auto key = row.partition_key;
    auto session = row.key_session;
    auto under = std::make_shared<gd::lease>(row.id, token);
    gd::run what{std::make_shared<gd::held_row>(
      gd::held_row{machine_, std::move(row), std::move(under), {}})};
    turn_.add(what.execute(), ++tags_);
    if (key)
      turn_.unlock({*key, session});
  }

  void collect(const gd::turn::flushed& x) {
    if (x.what != verdict::applied)
      CAF_ERROR("instance " << x.row->id << ": " << x.why.message);
  }

  std::shared_ptr<const gd::machine> machine_;
  gd::pq::connection on_;
  gd::turn turn_;
  /// Picked rows whose content is asked for apart.
  std::map<std::int64_t, std::pair<gd::store::picked_row, std::string>>
    unloaded_;
  gd::turn::clock::time_point now_ = gd::turn::clock::now();
  std::uint64_t tags_ = 0;
  int executions_ = 0;
};

/// A machine whose first step does this, and whose handler stops with what it
/// was told.
template <class State, class F>
gd::machine machine_of(F begin) {
  return gd::define<State, limit_step>("Edge", 1)
    .step(limit_step::begin, std::move(begin))
    .step(limit_step::end,
          [](gd::context<State>& ctx) { return gd::done(ctx.state); })
    .on_error([](const gd::failure& why, gd::context<State>&) {
      return gd::stop(why.message());
    });
}

template <class State>
gd::machine passing_machine() {
  return machine_of<State>([](gd::context<State>& ctx) {
    return gd::next(limit_step::end, ctx.state);
  });
}

/// For what `define` does not let through: names of any kind.
gd::machine machine_by_hand(const std::string& name, const std::string& first,
                            const std::string& second,
                            const std::string& waits_for) {
  gd::machine x;
  x.name = name;
  x.initial_step = first;
  x.state_type = typeid(text_state);
  x.step_type = typeid(limit_step);
  x.check_state = [](const std::string&) { return gd::result<void>{}; };
  x.steps.push_back(
    {.name = first,
     .run = [=](gd::context_base& ctx, const std::string&) -> gd::outcome {
       auto said = ctx.take<text_state>(waits_for);
       if (!said)
         return gd::await(waits_for, text_state{});
       return gd::outcome{.kind = gd::outcome_kind::next,
                          .value = gd::to_json(*said),
                          .state_type = typeid(text_state),
                          .step = second,
                          .step_type = typeid(limit_step)};
     }});
  x.steps.push_back(
    {.name = second, .run = [](gd::context_base&, const std::string& state) {
       return gd::done(*gd::from_json<text_state>(state));
     }});
  return x;
}

struct fixture {
  temporary_database db;

  fixture() {
    db.migrate();
  }

  gd::client connect(std::vector<gd::machine> machines = {}) {
    gd::client_settings how;
    how.machines = std::make_shared<gd::registry>(std::move(machines));
    auto made = gd::client::connect(db.options(), std::move(how));
    CAF_REQUIRE(made);
    return std::move(*made);
  }

  /// An insert that needs no machine.
  static gd::insert row(std::string state = "{}") {
    return {.fsm = "Edge",
            .state = gd::json::raw(std::move(state)),
            .step = "begin",
            .queue = "default"};
  }

  template <class T>
  static T need(gd::result<T> x) {
    if (!x)
      CAF_FAIL(x.error().message.substr(0, 500));
    return std::move(*x);
  }

  template <class T>
  static void check_refused(const gd::result<T>& x, errc code,
                            const std::string& message) {
    CAF_REQUIRE(!x);
    CAF_CHECK(x.error().code == code);
    CAF_CHECK_EQUAL(x.error().message, message);
  }

  /// The state after an insert, a step and its result.
  template <class State>
  State round_trip(const State& state) {
    auto machine = passing_machine<State>();
    auto client = connect({machine});
    auto id
      = need(client.insert({.fsm = "Edge", .state = gd::to_json(state)})).id;
    worker{db, machine}.run_all();
    auto end = need(client.look_up(id));
    CAF_REQUIRE_EQUAL(end.status + end.last_error.value_or(""), "done");
    return need(end.template result_as<State>());
  }

  /// Why a step that returns this ends as failed.
  std::string why_failed(std::function<gd::outcome()> make) {
    auto client = connect();
    auto id = need(client.insert(row())).id;
    auto machine = machine_of<text_state>(
      [&](gd::context<text_state>&) { return make(); });
    worker{db, machine}.run_all();
    return need(client.look_up(id)).last_error.value_or("did not fail");
  }

  std::string count(const std::string& condition) {
    return db.scalar("select count(*) from gen_durable where " + condition);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(limits_tests, fixture)

// -- how many, how large ------------------------------------------------------

CAF_TEST(batches of ten thousand and of none reach their end) {
  auto machine = passing_machine<no_fields>();
  auto client = connect({machine});
  CAF_CHECK(client.insert_all({}).empty());
  CAF_CHECK(client.signal_all({}).empty());
  CAF_CHECK_EQUAL(count("true"), "0");
  auto answers = client.insert_all(
    std::vector<gd::insert>(10'000, {.fsm = "Edge"}));
  CAF_CHECK_EQUAL(answers.size(), 10'000u);
  CAF_CHECK(std::all_of(answers.begin(), answers.end(),
                        [](const auto& x) { return static_cast<bool>(x); }));
  CAF_CHECK_EQUAL((worker{db, machine}.run_all()), 20'000);
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0 and result = '{}'"),
                  "10000");
}

CAF_TEST(a mebibyte of state and payload and result goes through and a byte more
           is refused) {
  auto client = connect();
  auto sentence = [](const std::string& what) {
    return what + ": expected at most 1048576 bytes of JSON, got 1048577";
  };
  auto id = need(client.insert(row(text_of(mebibyte)))).id;
  check_refused(client.insert(row(text_of(mebibyte + 1))),
                errc::invalid_argument, sentence("state"));
  // It is jsonb's print that counts, with a blank after each colon and comma.
  auto dense = text_of(mebibyte + 1);
  dense.erase(dense.find(' '), 1);
  check_refused(client.insert(row(dense)), errc::invalid_argument,
                "state: expected at most 1048576 bytes of JSON as PostgreSQL "
                "prints it, got 1048577");
  auto payload = [&](std::size_t bytes) {
    return client.signal({id, "say", gd::json::raw(text_of(bytes))});
  };
  need(payload(mebibyte));
  check_refused(payload(mebibyte + 1), errc::invalid_argument,
                sentence("payload"));
  auto machine = machine_of<text_state>(
    [](gd::context<text_state>& ctx) -> gd::outcome {
      auto said = ctx.take<text_state>("say");
      if (said->text == ctx.state.text)
        return gd::next(limit_step::end, *said);
      return gd::stop("not what was sent");
    });
  worker{db, machine}.run_all();
  auto end = need(client.look_up(id));
  CAF_CHECK_EQUAL(end.last_error.value_or(""), "");
  CAF_CHECK_EQUAL(end.status, "done");
  CAF_CHECK_EQUAL(db.scalar("select length(result ->> 'text')::text from "
                            "gen_durable where id = $1::bigint",
                            {std::to_string(id)}),
                  std::to_string(mebibyte - 12));
  text_state more{std::string(mebibyte - 10, 'x')};
  CAF_CHECK_EQUAL(why_failed([&] { return gd::done(more); }),
                  "outcome done of step begin: " + sentence("result"));
  CAF_CHECK_EQUAL(why_failed([&] { return gd::next(limit_step::end, more); }),
                  "outcome next of step begin: " + sentence("state"));
  CAF_CHECK_EQUAL(why_failed([&] { return gd::replay(more); }),
                  "outcome replay of step begin: " + sentence("state"));
  CAF_CHECK_EQUAL(why_failed([&] { return gd::await("say", more); }),
                  "outcome await of step begin: " + sentence("state"));
}

CAF_TEST(what is too long to be read is told and the rest is shown) {
  auto client = connect();
  auto id = need(client.insert(row())).id;
  auto look_at = [&](const std::string& value) {
    db.rows("set gd.trusted = 'json'; update gen_durable set status = "
            "'done', state = ("
            + value + ")::jsonb, result = (" + value + ")::jsonb");
    auto x = need(client.look_up(id));
    CAF_CHECK_EQUAL(x.fsm + x.status, "Edgedone");
    CAF_REQUIRE(x.result);
    CAF_CHECK_EQUAL(x.result->text(), x.state.text());
    CAF_CHECK_EQUAL(x.result->ok(), x.state.ok());
    return x.state;
  };
  auto numbers = [](const std::string& one, int count) {
    return "select '{\"n\": [' || string_agg('" + one
           + "', ',') || ']}' from generate_series(1, " + std::to_string(count)
           + ")";
  };
  for (const auto& value :
       {numbers("1e131071", 9'000), numbers("1e-16000", 2'000),
        numbers("1e399", 60'000), numbers("0", 5'700'000),
        "select '{\"x\": \"' || repeat('x', 16777216) || '\"}'"s}) {
    auto state = look_at(value);
    CAF_REQUIRE(!state.ok());
    CAF_CHECK_EQUAL(state.failure()->message,
                    "longer than 16777216 bytes as PostgreSQL prints it");
  }
  CAF_CHECK_EQUAL(
    look_at("select '{\"x\": \"' || repeat('x', 16777207) || '\"}'")
      .text()
      .size(),
    16'777'216u);
  CAF_CHECK_EQUAL(look_at(numbers("1e499", 100)).text().size(), 100u * 502 + 7);
}

CAF_TEST(a state without fields goes through) {
  round_trip(no_fields{});
  CAF_CHECK_EQUAL(db.scalar("select state::text || result from gen_durable"),
                  "{}{}");
}

// -- names --------------------------------------------------------------------

CAF_TEST(names of 255 bytes work everywhere) {
  auto name = [](char c) { return c + longest(254); };
  auto machine = machine_by_hand(name('m'), name('a'), name('b'), name('s'));
  machine.queue = name('q');
  auto client = connect({machine});
  auto id = need(client.insert({.fsm = machine.name})).id;
  worker node{db, machine};
  node.run_all();
  auto waiting = need(client.look_up(id));
  CAF_CHECK_EQUAL(waiting.fsm, name('m'));
  CAF_CHECK_EQUAL(waiting.step, name('a'));
  CAF_CHECK_EQUAL(waiting.queue, name('q'));
  CAF_CHECK_EQUAL(waiting.awaits.value_or(""), name('s'));
  need(client.signal({id, name('s'), gd::to_json(text_state{"x"})}));
  node.run_all();
  auto end = need(client.look_up(id));
  CAF_CHECK_EQUAL(end.status, "done");
  CAF_CHECK_EQUAL(end.step, name('b'));
}

CAF_TEST(names that are too long or no text are refused with a sentence) {
  auto client = connect();
  auto id = need(client.insert(row())).id;
  for (const auto& [name, got] : bad_names(255)) {
    auto with = [&](auto change) {
      auto x = row();
      change(x);
      return client.insert(x);
    };
    check_refused(with([&](auto& x) { x.fsm = name; }), errc::invalid_argument,
                  "fsm: " + got);
    check_refused(with([&](auto& x) { x.step = name; }), errc::invalid_argument,
                  "step: " + got);
    check_refused(with([&](auto& x) { x.queue = name; }),
                  errc::invalid_argument, "queue: " + got);
    check_refused(client.signal({id, name, {}}), errc::invalid_argument,
                  "signal name: " + got);
    CAF_CHECK_EQUAL(why_failed([&] { return gd::await(name, text_state{}); }),
                    "outcome await of step begin: signal name: " + got);
  }
  check_refused(client.signal({id, "", {}}), errc::invalid_argument,
                "signal name: expected 1 to 255 bytes of UTF-8 without control "
                "characters, got nothing");
}

// -- keys ---------------------------------------------------------------------

CAF_TEST(keys of 1024 bytes work and others are refused with a sentence) {
  auto machine = passing_machine<no_fields>();
  auto client = connect({machine});
  std::string bytes;
  for (int i = 0; i < 1'024; ++i) // nothing that compression could shorten
    bytes += static_cast<char>(i * i * 31 + i / 7);
  auto with = [&](std::optional<std::string> partition,
                  std::optional<std::string> unique) {
    return client.insert({.fsm = "Edge",
                          .partition_key = std::move(partition),
                          .unique_key = std::move(unique)});
  };
  auto first = need(with(longest(1'024), bytes));
  CAF_CHECK(!first.duplicate);
  auto second = need(with(longest(1'024), bytes));
  CAF_CHECK(second.duplicate);
  CAF_CHECK_EQUAL(second.id, first.id);
  need(with(longest(1'024), bytes.substr(1)));
  need(with(longest(1'024), "\0"s));
  need(with(longest(1'024), "\0\0"s));
  need(with(every_plane(), "\xff\xfe\0\xed\xa0\x80"s));
  auto shown = need(client.look_up(first.id));
  CAF_CHECK_EQUAL(shown.partition_key.value_or(""), longest(1'024));
  CAF_CHECK_EQUAL(shown.unique_key.value_or("").size(), 2'050u);
  CAF_CHECK_EQUAL(
    db.scalar("select count(distinct unique_key)::text from gen_durable"), "5");
  CAF_CHECK(bytes.find('\0') != std::string::npos);

  auto of_bytes = "unique_key: expected 1 to 1024 bytes, got "s;
  check_refused(with({}, bytes + "x"), errc::invalid_argument,
                of_bytes + "1025");
  check_refused(with({}, ""), errc::invalid_argument, of_bytes + "0");
  for (const auto& [name, got] : bad_names(1'024)) {
    check_refused(with(name, {}), errc::invalid_argument,
                  "partition_key: " + got);
    check_refused(client.signal({first.id, "say", {}, name}),
                  errc::invalid_argument, "dedup key: " + got);
  }
  for (bool duplicate : {false, true})
    CAF_CHECK_EQUAL(
      need(client.signal({first.id, "say", {}, longest(1'024)})).duplicate,
      duplicate);
  CAF_CHECK_EQUAL((worker{db, machine}.run_all()), 10);
  CAF_CHECK_EQUAL(count("status = 'done'"), "5");
}

// -- text ---------------------------------------------------------------------

CAF_TEST(every plane goes through states and payloads and names and results) {
  auto all = every_plane();
  auto part = [&](char c) { // a name has room for no more
    return c + all.substr(0, 9) + utf8(0xffff) + utf8(0x1f600) + utf8(0x10ffff);
  };
  auto machine = machine_by_hand(part('m'), part('a'), part('b'), part('s'));
  machine.queue = part('q');
  auto client = connect({machine});
  auto id = need(client.insert({.fsm = machine.name,
                                .state = gd::to_json(text_state{all})}))
              .id;
  worker node{db, machine};
  node.run_all();
  auto waiting = need(client.look_up(id));
  CAF_CHECK_EQUAL(waiting.awaits.value_or(""), part('s'));
  need(client.signal({id, part('s'), gd::to_json(text_state{all}), all}));
  CAF_CHECK(need(client.signal({id, part('s'), {}, all})).duplicate);
  node.run_all();
  auto end = need(client.look_up(id));
  CAF_CHECK_EQUAL(end.fsm, part('m'));
  CAF_CHECK_EQUAL(end.step, part('b'));
  CAF_CHECK_EQUAL(end.queue, part('q'));
  for (const auto& json : {end.state, end.result.value_or(gd::json{})})
    CAF_CHECK_EQUAL(need(gd::from_json<text_state>(json.text())).text, all);
  CAF_CHECK_EQUAL(round_trip(text_state{all}).text, all);
  // As escapes of JSON, too.
  auto escaped = need(client.insert(
    row(R"({"text": "\uffff\ud83d\ude00\udbff\udfff\u0001\u007f"})")));
  CAF_CHECK_EQUAL(need(gd::from_json<text_state>(
                         need(client.look_up(escaped.id)).state.text()))
                    .text,
                  utf8(0xffff) + utf8(0x1f600) + utf8(0x10ffff) + "\x01\x7f");
}

CAF_TEST(what is no text is refused with its path) {
  auto client = connect();
  auto id = need(client.insert(row())).id;
  auto check = [&](const gd::json& value, const std::string& got) {
    auto x = row();
    x.state = value;
    check_refused(client.insert(x), errc::codec, "state: $.text: " + got);
    check_refused(client.signal({id, "say", value}), errc::codec,
                  "payload: $.text: " + got);
  };
  auto outcome = [&](const text_state& value, const std::string& got) {
    check(gd::to_json(value), got);
    CAF_CHECK_EQUAL(why_failed([&] { return gd::done(value); }),
                    "outcome done of step begin: result: $.text: " + got);
    CAF_CHECK_EQUAL(why_failed([&] { return gd::replay(value); }),
                    "outcome replay of step begin: state: $.text: " + got);
  };
  outcome({"a\0b"s}, "expected text without NUL, got a NUL byte");
  for (const char* bytes : {"\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80",
                            "\xc0\x80", "\xff", "\xc3"})
    outcome({bytes}, "expected UTF-8 text, got invalid bytes");
  check(gd::json::raw(R"({"text": "\u0000"})"),
        "expected text without NUL, got \\u0000");
  for (const char* half : {R"(\ud800)", R"(\udfff)", R"(\udc00\ud800)"})
    check(gd::json::raw(R"({"text": ")"s + half + "\"}"),
          "expected Unicode text, got a lone surrogate");
}

// -- numbers ------------------------------------------------------------------

template <class T>
std::vector<T> edges() {
  using of = std::numeric_limits<T>;
  return {of::lowest(), 0, 1, of::max() - 1, of::max()};
}

CAF_TEST(numbers at the edges of their types go through jsonb) {
  using d = std::numeric_limits<double>;
  using f = std::numeric_limits<float>;
  number_state x{
    edges<std::int8_t>(),
    edges<std::int16_t>(),
    edges<std::int32_t>(),
    edges<std::int64_t>(),
    edges<std::uint8_t>(),
    edges<std::uint16_t>(),
    edges<std::uint32_t>(),
    edges<std::uint64_t>(),
    {f::lowest(), f::max(), f::min(), f::denorm_min(), f::epsilon(), 0.1F},
    {d::lowest(), d::max(), d::min(), d::denorm_min(), -d::denorm_min(),
     d::epsilon(), 1e308, 1e-308, 0.1, 1.0 / 3, 9007199254740993.0,
     std::nextafter(1.0, 2.0), std::nextafter(0.0, 1.0) * 3}};
  CAF_CHECK(round_trip(x) == x);
}

CAF_TEST(a negative zero is a zero after jsonb) {
  auto zero = round_trip(number_state{.singles = {-0.0F}, .doubles = {-0.0}});
  CAF_CHECK(zero.doubles.at(0) == 0 && !std::signbit(zero.doubles[0]));
  CAF_CHECK(zero.singles.at(0) == 0 && !std::signbit(zero.singles[0]));
}

CAF_TEST(what is no number is refused with its path) {
  auto machine = passing_machine<number_state>();
  auto client = connect({machine});
  using d = std::numeric_limits<double>;
  for (const auto& [value, shown] :
       {std::pair{d::infinity(), "inf"}, std::pair{-d::infinity(), "-inf"},
        std::pair{d::quiet_NaN(), "nan"}}) {
    auto state = gd::to_json(number_state{.doubles = {0, value}});
    auto got = "$.doubles[1]: expected finite number, got "s + shown;
    check_refused(client.insert({.fsm = "Edge", .state = state}), errc::codec,
                  "state: " + got);
    CAF_CHECK_EQUAL(why_failed([&] {
                      return gd::done(number_state{.doubles = {0, value}});
                    }),
                    "outcome done of step begin: result: " + got);
  }
  auto insert = [&](const std::string& field, const std::string& number) {
    return client.insert(
      {.fsm = "Edge",
       .state = gd::json::raw("{\"" + field + "\": [" + number + "]}")});
  };
  for (const auto& [field, number, range] :
       {std::tuple{"i8", "128", "[-128, 127]"},
        std::tuple{"i64", "9223372036854775808",
                   "[-9223372036854775808, 9223372036854775807]"},
        std::tuple{"u64", "18446744073709551616", "[0, 18446744073709551615]"},
        std::tuple{"u64", "-1", "[0, 18446744073709551615]"}})
    check_refused(insert(field, number), errc::codec,
                  "state: $."s + field + "[0]: expected integer in " + range
                    + ", got number " + number);
  CAF_CHECK(!insert("doubles", "1e309"));
}

CAF_TEST(priorities and versions at the edges of their types are picked) {
  auto client = connect();
  for (int priority : {32'767, 0, -32'768}) {
    auto x = row();
    x.version = std::numeric_limits<std::int32_t>::max();
    x.priority = static_cast<std::int16_t>(priority);
    need(client.insert(x));
  }
  std::vector<std::int64_t> order;
  auto machine = machine_of<no_fields>([&](gd::context<no_fields>& ctx) {
    order.push_back(ctx.id);
    return gd::done();
  });
  machine.version = std::numeric_limits<std::int32_t>::max();
  worker{db, machine}.run_all();
  CAF_CHECK_EQUAL(order, (std::vector<std::int64_t>{3, 2, 1}));
}

// -- time ---------------------------------------------------------------------

CAF_TEST(times from 1970 to 3000 and delays of 100 years are kept) {
  auto client = connect();
  constexpr std::int64_t year_3000 = 32'503'680'000'000'000;
  auto at = [&](std::int64_t us) {
    auto x = row();
    x.eligible_at_us = us;
    return client.insert(x);
  };
  auto in = [&](std::int64_t us) {
    auto x = row();
    x.delay_us = us;
    return client.insert(x);
  };
  for (auto us :
       {std::int64_t{0}, std::int64_t{1}, century_us,
        std::int64_t{4'102'444'799'999'999}, year_3000 - 1, year_3000})
    CAF_CHECK_EQUAL(need(client.look_up(need(at(us)).id)).eligible_at_us, us);
  auto refused_time
    = "eligible_at_us: expected microseconds since 1970, at most "
      "32503680000000000, got "s;
  using i64 = std::numeric_limits<std::int64_t>;
  for (auto us : {year_3000 + 1, i64::max(), std::int64_t{-1}, i64::min()})
    check_refused(at(us), errc::invalid_argument,
                  refused_time + std::to_string(us));
  for (auto us : {std::int64_t{0}, century_us}) {
    auto x = need(client.look_up(need(in(us)).id));
    auto waits = x.eligible_at_us - x.inserted_at_us;
    CAF_CHECK(waits >= us && waits < us + 60'000'000);
  }
  for (auto us : {century_us + 1, i64::max(), std::int64_t{-1}, i64::min()})
    check_refused(in(us), errc::invalid_argument,
                  "delay_us: expected 0 to 3155760000000000 (100 years), got "
                    + std::to_string(us));
  // What is eligible since 1970 is picked, what is not before long is not.
  auto machine = machine_of<no_fields>(
    [](gd::context<no_fields>&) { return gd::done(); });
  CAF_CHECK_EQUAL((worker{db, machine}.run_all()), 3);
}

CAF_TEST(a replay and a timeout take up to 100 years
         and not a microsecond more) {
  using std::chrono::microseconds;
  auto due = [&](std::function<gd::outcome()> make) {
    auto client = connect();
    auto id = need(client.insert(row())).id;
    worker{db, machine_of<text_state>(
                 [&](gd::context<text_state>&) { return make(); })}
      .run_all();
    auto x = need(client.look_up(id));
    return x.deadline_us.value_or(x.eligible_at_us) - x.updated_at_us;
  };
  auto is_century = [](std::int64_t us) {
    return us > century_us - 60'000'000 && us < century_us + 60'000'000;
  };
  CAF_CHECK(is_century(
    due([] { return gd::replay(text_state{}, microseconds{century_us}); })));
  CAF_CHECK(is_century(due([] {
    return gd::await("say", text_state{}).timeout(microseconds{century_us});
  })));
  for (auto us : {century_us + 1, std::int64_t{-1},
                  std::numeric_limits<std::int64_t>::max()}) {
    CAF_CHECK(contains(
      why_failed([&] { return gd::replay(text_state{}, microseconds{us}); }),
      "outcome replay of step begin: the delay of replay"));
    CAF_CHECK(contains(
      why_failed([&] {
        return gd::await("say", text_state{}).timeout(microseconds{us});
      }),
      "outcome await of step begin: the timeout of await"));
  }
  // Any time that the clock knows, and any that a state can hold.
  auto until = [&](auto t) {
    return why_failed([&] { return gd::await("say", text_state{}).until(t); });
  };
  auto latest = [&] {
    return std::stoll(db.scalar("select (extract(epoch from max(deadline)) * "
                                "1000000)::bigint::text from gen_durable"));
  };
  using system_clock = std::chrono::system_clock;
  for (auto t : {system_clock::time_point::min(), system_clock::time_point{},
                 system_clock::time_point::max()})
    CAF_CHECK_EQUAL(until(t), "did not fail");
  CAF_CHECK_EQUAL(
    latest(), +gd::to_microseconds(system_clock::time_point::max()).value());
  CAF_CHECK_EQUAL(until(gd::earliest_time), "did not fail");
  CAF_CHECK_EQUAL(until(gd::latest_time), "did not fail");
  CAF_CHECK_EQUAL(latest(), gd::latest_time.time_since_epoch().count());
  for (auto t :
       {gd::earliest_time - microseconds{1}, gd::latest_time + microseconds{1},
        decltype(gd::latest_time)::max(), decltype(gd::latest_time)::min()})
    CAF_CHECK(contains(until(t), "outcome await of step begin: the time of "
                                 "await: expected the years 0 to 9999"));
}

// -- attempts -----------------------------------------------------------------

CAF_TEST(an attempt that cannot grow stays and fails no batch) {
  constexpr auto most = "2147483647";
  db.rows("insert into gen_durable (fsm, step, status, attempt, locked_by, "
          "lease_expires_at, unique_key, unique_scope) select 'Edge', 'begin', "
          "'executing', case when i < 3 then 2147483647 else 0 end, 'gone/1/1',"
          " now() - interval '1 s', case when i = 2 then '\\x01'::bytea end, "
          "'{runnable}' from generate_series(1, 3) i");
  gd::pq::connection on{db.options()};
  CAF_CHECK(on.run({{gd::store::reap(10)}}).ok());
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "2");
  CAF_CHECK(on.run({{gd::store::return_row(2, true)}}).ok());
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = "s + most), "2");
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
  std::vector<std::int32_t> attempts;
  auto machine = machine_of<no_fields>([&](gd::context<no_fields>& ctx) {
    attempts.push_back(ctx.attempt);
    // The longest wait that a helper suggests is one that can be waited for.
    return gd::replay(ctx.state, 1h + gd::backoff(ctx.attempt));
  });
  CAF_CHECK_EQUAL((worker{db, machine}.run_all()), 3);
  std::sort(attempts.begin(), attempts.end());
  CAF_CHECK_EQUAL(attempts,
                  (std::vector<std::int32_t>{1, 2147483647, 2147483647}));
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = "s + most), "2");
  // The one that ended with its process is forgotten.
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace limits_suite
