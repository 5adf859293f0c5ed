#define CAF_SUITE shares

#include "support/words.hpp"

#include <gd/engine/intake/shares.hpp>

#include <caf/test/unit_test.hpp>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shares_suite {

using namespace gd::test;
using gd::errc;

namespace {

struct piece {
  gd::sender_id of = 0;
  int number = 0;
  std::uint64_t cost = 1;
};

using queue = gd::fair_queue<piece>;

piece pop(queue& from) {
  return from.pop([](const piece& x) { return x.cost; });
}

/// Whose pieces come, in their order.
std::vector<gd::sender_id> pop_all(queue& from) {
  std::vector<gd::sender_id> order;
  while (!from.empty())
    order.push_back(pop(from).of);
  return order;
}

} // namespace

CAF_TEST(one sender has nine sixteenths of the room and not the rest) {
  gd::shared_room room;
  room.open(100'000);
  std::size_t taken = 0;
  while (room.take(1, 1'000))
    ++taken;
  CAF_CHECK_EQUAL(taken, 56u);
  auto refused = room.take(1, 1'000);
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.error().code == errc::overloaded);
  CAF_CHECK_EQUAL(refused.error().message,
                  "56000 bytes wait already, 56000 of them this sender's, and "
                  "1000 more are too many: expected at most 75000 in all, and "
                  "of a sender three times what is free");
  CAF_MESSAGE("another still has room, and so has one after it");
  CAF_CHECK(room.take(2, 10'000));
  CAF_CHECK(room.take(3, 5'000));
}

CAF_TEST(whoever comes behind three hundred that take all they get has room) {
  gd::shared_room room;
  room.open(64 << 20);
  for (gd::sender_id who = 1; who <= 300; ++who)
    while (room.take(who, 1'100))
      ; // as much as it gets
  for (int i = 0; i < 10; ++i)
    CAF_CHECK(room.take(1'000, 1'100));
}

CAF_TEST(what is given back is free for all and what one alone wants is not
           bounded) {
  gd::shared_room room;
  room.open(1'000);
  CAF_CHECK(room.take(1, 5'000));
  CAF_CHECK(!room.take(2, 1));
  room.release(1, 5'000);
  CAF_CHECK(room.take(2, 500));
  room.release(2, 5'000); // not more than it had
  CAF_CHECK(room.take(1, 700));
  CAF_MESSAGE("opened again, nobody has anything, and nobody gives it back");
  room.open(1'000);
  room.release(1, 700);
  CAF_CHECK(room.take(1, 700));
  CAF_CHECK(!room.take(1, 100));
}

CAF_TEST(random takers keep the room and get all of it back) {
  std::mt19937 random{42};
  gd::shared_room room;
  constexpr std::size_t size = 1 << 20;
  room.open(size);
  std::vector<std::pair<gd::sender_id, std::size_t>> taken;
  std::size_t sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (random() % 2 == 0) {
      gd::sender_id who = random() % 50;
      std::size_t bytes = 1 + random() % 20'000;
      if (room.take(who, bytes)) {
        taken.emplace_back(who, bytes);
        sum += bytes;
      }
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      room.release(taken.back().first, taken.back().second);
      sum -= taken.back().second;
      taken.pop_back();
    }
    CAF_REQUIRE_LESS_OR_EQUAL(sum, size);
  }
  for (auto& [who, bytes] : taken)
    room.release(who, bytes);
  CAF_CHECK(room.take(1, 2 * size)); // it is empty
}

CAF_TEST(senders have turns and each its own order) {
  queue x;
  for (int i = 0; i < 1'000; ++i)
    x.push(1, {1, i});
  for (int i = 0; i < 3; ++i)
    x.push(2, {2, i});
  std::map<gd::sender_id, int> next;
  std::vector<gd::sender_id> first;
  while (!x.empty()) {
    auto one = pop(x);
    CAF_CHECK_EQUAL(one.number, next[one.of]++);
    if (first.size() < 7)
      first.push_back(one.of);
  }
  CAF_CHECK(std::count(first.begin(), first.end(), 2u) == 3);
  CAF_CHECK_EQUAL(next[1], 1'000);
}

CAF_TEST(a turn costs what it costs) {
  queue x;
  for (int i = 0; i < 10; ++i)
    x.push(1, {1, i, 1'000});
  for (int i = 0; i < 10; ++i)
    x.push(2, {2, i, 100});
  auto order = pop_all(x);
  // Of the dear ones two come before the last cheap one: each is as good as ten.
  auto last = std::find(order.rbegin(), order.rend(), 2u).base();
  CAF_CHECK_LESS_OR_EQUAL(std::count(order.begin(), last, 1u), 2);
  CAF_MESSAGE("what is known later counts as well");
  for (int i = 0; i < 3; ++i) {
    x.push(1, {1, i});
    x.push(2, {2, i});
  }
  auto dear = pop(x).of;
  x.charge(dear, 1'000);
  auto other = dear == 1 ? 2u : 1u;
  CAF_CHECK_EQUAL(pop(x).of, other);
}

CAF_TEST(whoever has been away has saved nothing and owes what it owed) {
  queue x;
  for (int i = 0; i < 1'000; ++i) {
    x.push(1, {1, i, 10});
    pop(x);
  }
  // Nobody else was there: to have been the only one is no debt.
  for (int i = 0; i < 4; ++i) {
    x.push(1, {1, i, 10});
    x.push(2, {2, i, 10});
  }
  auto order = pop_all(x);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2)
    CAF_CHECK(order[i] != order[i + 1]);
}

CAF_TEST(senders by the hundred thousand leave nothing behind and what is
           removed has no turn) {
  queue x;
  for (gd::sender_id who = 0; who < 100'000; ++who) {
    x.push(who, {who, 0});
    pop(x);
  }
  for (gd::sender_id who = 0; who < 100; ++who)
    for (int i = 0; i < 4; ++i)
      x.push(who, {who, i});
  auto removed = x.remove_if([](const piece& y) { return y.of % 2 == 0; });
  CAF_CHECK_EQUAL(removed.size(), 200u);
  CAF_CHECK_EQUAL(x.size(), 200u);
  for (auto who : pop_all(x))
    CAF_CHECK_EQUAL(who % 2, 1u);
  CAF_CHECK(x.empty());
}

} // namespace shares_suite
