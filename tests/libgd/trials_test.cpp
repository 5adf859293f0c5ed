// The suspect of a queue that runs alone, and what is noted of trials on rows.

#define CAF_SUITE trials

#include <gd/engine/queue/trials.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trials_suite {

using namespace std::literals;
using gd::trials;
using outcome = trials::outcome;

namespace {

constexpr auto never = trials::clock::time_point::max();

struct fixture {
  std::shared_ptr<gd::quarantine> suspects = std::make_shared<gd::quarantine>();
  trials under_test{{.heartbeat = 20s, .lease = 60s, .suspects = suspects}};
  trials::clock::time_point now{1h};
  gd::lease_ptr under = lease(7);

  fixture() {
    suspects->enter("default", 4, 20s, [] {});
  }

  static gd::lease_ptr lease(std::int64_t id, std::string token = "node/1/1") {
    return std::make_shared<gd::lease>(id, std::move(token));
  }

  /// A suspect with so many trials on its row is to run alone.
  void take(std::int32_t noted = 2) {
    suspects->begin_pick("default", now);
    CAF_REQUIRE(suspects->picked("default", {{under->id, 9}}, now));
    under_test.add(under, noted);
  }

  void take_shown() {
    take();
    under_test.show();
    suspects->rests("default", now);
  }

  void begin() {
    take_shown();
    under_test.note_begin(now);
    CAF_REQUIRE(under_test.write(now));
    CAF_REQUIRE(answer({{under->id, true}}) == outcome::noted);
  }

  outcome answer(const std::vector<gd::store::noted_row>& rows) {
    return under_test.finish(rows, now);
  }

  /// What is written now: "<id>:<trials> ...", and with a + whose trial begins.
  std::string written() {
    auto x = under_test.write(now);
    std::string out;
    for (const auto& note :
         x ? x->notes : std::vector<gd::store::trials_note>{}) {
      out += out.empty() ? "" : " ";
      out += std::to_string(note.id) + ":" + std::to_string(note.trials);
      if (note.id == x->begins)
        out += "+";
    }
    return out;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(trials_tests, fixture)

CAF_TEST(a trial waits for its content and until nothing else runs) {
  CAF_CHECK(under_test.begins_at() == never);
  take();
  CAF_CHECK(under_test.is_of(under));
  CAF_CHECK(!under_test.is_of(lease(7)));
  suspects->rests("default", now + 3s);
  CAF_CHECK(under_test.begins_at() == never);
  under_test.show();
  CAF_CHECK(under_test.begins_at() == now + 3s);
  CAF_CHECK(under_test.due() == now + 3s);
}

CAF_TEST(a trial is noted before it begins and lasts for a heartbeat) {
  take_shown();
  under_test.note_begin(now);
  CAF_CHECK(under_test.begins_at() == never);
  CAF_CHECK_EQUAL(written(), "7:3+");
  CAF_CHECK_EQUAL(written(), ""); // one unit at a time
  CAF_CHECK(under_test.due() == never);
  CAF_CHECK(answer({{7, true}}) == outcome::noted);
  CAF_CHECK(under_test.due() == now + 20s);
  now += 20s;
  under_test.end_survived(now - 1ms);
  CAF_CHECK(under_test.any());
  CAF_CHECK(suspects->held());
  under_test.end_survived(now);
  CAF_CHECK(!under_test.any());
  CAF_CHECK(!suspects->held());
  CAF_CHECK_EQUAL(written(), "7:2"); // it was not the cause
}

CAF_TEST(a trial that has waited for a thread lasts until its own heartbeat) {
  begin();
  under->begin(now + 5s);
  under_test.end_survived(now + 20s);
  CAF_CHECK(under_test.due() == now + 25s);
  under_test.end_survived(now + 24s);
  CAF_CHECK(suspects->held());
  under_test.end_survived(now + 25s);
  CAF_CHECK(!suspects->held());
}

CAF_TEST(a trial whose note is not made does not begin) {
  take_shown();
  under_test.note_begin(now);
  CAF_CHECK_EQUAL(written(), "7:3+");
  CAF_CHECK(answer({{7, false}}) == outcome::lost);
  CAF_CHECK(!suspects->held());
  CAF_CHECK(under_test.empty());
  CAF_CHECK_EQUAL(written(), "");
}

CAF_TEST(a trial whose note may have been made is taken back) {
  take_shown();
  under_test.note_begin(now);
  CAF_CHECK_EQUAL(written(), "7:3+");
  CAF_CHECK(answer({}) == outcome::unknown);
  CAF_CHECK(!suspects->held());
  CAF_CHECK_EQUAL(written(), "7:2");
  CAF_CHECK(answer({{7, true}}) == outcome::none);
  CAF_CHECK(under_test.empty());
}

CAF_TEST(only what was not noted yet is cancelled) {
  CAF_CHECK(!under_test.cancel());
  take();
  CAF_CHECK(under_test.cancel());
  CAF_CHECK(!suspects->held());
  CAF_CHECK(under_test.empty());
  take_shown();
  under_test.note_begin(now);
  CAF_CHECK(!under_test.cancel());
  CAF_CHECK(suspects->held());
}

CAF_TEST(a node that stops is not charged to the suspect) {
  CAF_CHECK(!under_test.abandon(now));
  take();
  CAF_CHECK(!under_test.abandon(now)); // nothing was noted
  CAF_CHECK(under_test.empty());
  begin();
  CAF_CHECK(under_test.abandon(now));
  CAF_CHECK(!suspects->held());
  auto rest = under_test.write_rest();
  CAF_REQUIRE_EQUAL(rest.notes.size(), 1u);
  CAF_CHECK_EQUAL(rest.notes.front().trials, 2);
  CAF_CHECK_EQUAL(rest.begins, 0);
}

CAF_TEST(of several notes of an execution the last counts) {
  under_test.note(*lease(1), 1, now);
  under_test.note(*lease(2), 1, now);
  under_test.note(*lease(1), 2, now);
  CAF_CHECK_EQUAL(written(), "2:1 1:2");
}

CAF_TEST(two executions of a row are not noted together) {
  under_test.note(*lease(1, "node/1/1"), 1, now);
  under_test.note(*lease(1, "node/1/2"), 2, now);
  CAF_CHECK_EQUAL(written(), "1:1");
  CAF_CHECK_EQUAL(written(), "");
  answer({{1, false}});
  CAF_CHECK_EQUAL(written(), "1:2");
}

CAF_TEST(a note is tried again until its lease is over) {
  under_test.note(*lease(1), 1, now);
  CAF_CHECK(under_test.due() <= now);
  CAF_CHECK_EQUAL(written(), "1:1");
  answer({});
  CAF_CHECK_EQUAL(written(), "");
  CAF_CHECK(under_test.due() == now + 100ms);
  now += 100ms;
  CAF_CHECK_EQUAL(written(), "1:1");
  now += 60s;
  answer({});
  CAF_CHECK(under_test.empty());
  CAF_CHECK(under_test.due() == never);
}

CAF_TEST(a note that could not be made gives way to a newer one) {
  under_test.note(*lease(1), 1, now);
  CAF_CHECK_EQUAL(written(), "1:1");
  under_test.note(*lease(1), 2, now);
  answer({});
  now += 100ms;
  CAF_CHECK_EQUAL(written(), "1:2");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace trials_suite
