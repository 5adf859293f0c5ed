#define CAF_SUITE unread

#include <gd/actors/gateway/unread.hpp>

#include <caf/test/dsl.hpp>

#include <map>

namespace unread_suite {

namespace {

/// Nodes, and what they have been asked about.
struct unread_fixture : test_coordinator_fixture<> {
  std::map<caf::node_id, std::uint64_t> asked;
  gd::actors::unread_answers answers{
    [this](const caf::node_id& of, std::uint64_t sent) { asked[of] = sent; }};

  static caf::node_id node(std::uint32_t number) {
    return caf::make_node_id(number, "0011223344556677889900112233445566778899")
      .value();
  }

  /// It has read all of it but so much.
  caf::node_id tell(const caf::node_id& of, std::size_t unread) {
    return answers.told(of, asked.at(of), unread, most);
  }

  static constexpr std::size_t most = 1'000;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(unread_tests, unread_fixture)

CAF_TEST(whoever does not read gets no more than its share and then again) {
  auto slow = node(1);
  CAF_CHECK(answers.may_send(slow, 5'000, most)); // whoever has nothing
  answers.sent(slow, 800);
  CAF_CHECK(answers.may_send(slow, 200, most));
  CAF_CHECK(!answers.may_send(slow, 201, most));
  CAF_CHECK(!tell(slow, 800));
  CAF_CHECK(!answers.may_send(slow, 201, most));
  CAF_CHECK(answers.has_to_ask());
  answers.ask_all();
  CAF_CHECK(!tell(slow, 0));
  CAF_CHECK(answers.may_send(slow, 5'000, most));
  CAF_CHECK(!answers.has_to_ask());
}

CAF_TEST(where all of them leave too much the one with the most has to go) {
  auto slow = node(1);
  auto slower = node(2);
  answers.sent(slow, 900);
  answers.sent(slower, 1'300);
  CAF_CHECK(!tell(slow, 0)); // which reads
  answers.sent(slow, 900);
  CAF_CHECK(tell(slower, 1'300) == slower);
}

CAF_TEST(nobody has to go for what has been sent and may have been read) {
  for (std::uint32_t n = 1; n <= 50; ++n)
    answers.sent(node(n), 100);
  // Of 5,000 bytes, 2,000 are too many; but nobody is known to leave any.
  for (std::uint32_t n = 1; n <= 50; ++n)
    CAF_CHECK(!tell(node(n), n == 25 ? 10 : 0));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace unread_suite
