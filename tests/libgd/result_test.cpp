#define CAF_SUITE result

// A result that is used as what it is not says what it is.

#include <gd/error.hpp>

#include <caf/test/dsl.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace result_suite {

namespace {

using number = gd::result<std::string>;

number refused() {
  return gd::error{gd::errc::rejected, "no such order", "23503"};
}

static_assert(std::is_base_of_v<std::logic_error, gd::bad_result>);

std::string thrown_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const gd::bad_result& e) {
    return e.what();
  }
  return "(nothing)";
}

} // namespace

CAF_TEST(a failed result that is used tells its error) {
  auto told = "gd::result: used, but it is an error: "
              + to_string(refused().error());
  CAF_CHECK(told.ends_with("gd::rejected: no such order [23503]"));
  auto x = refused();
  const auto& constant = x;
  CAF_CHECK_EQUAL(thrown_by([&] { static_cast<void>(*x); }), told);
  CAF_CHECK_EQUAL(thrown_by([&] { static_cast<void>(*constant); }), told);
  CAF_CHECK_EQUAL(thrown_by([&] { static_cast<void>(x->size()); }), told);
  CAF_CHECK_EQUAL(thrown_by([&] { static_cast<void>(constant->size()); }),
                  told);
  CAF_CHECK_EQUAL(thrown_by([] { static_cast<void>(*refused()); }), told);
}

CAF_TEST(a good result that is asked for its error says that it has none) {
  constexpr auto* told = "gd::result: asked for its error, but it has none";
  number good{"7"};
  gd::result<void> done;
  CAF_CHECK_EQUAL(thrown_by([&] { static_cast<void>(good.error()); }), told);
  CAF_CHECK_EQUAL(thrown_by([&] { static_cast<void>(done.error()); }), told);
}

CAF_TEST(what a result holds can be moved out of it) {
  gd::result<std::unique_ptr<int>> x{std::make_unique<int>(7)};
  CAF_CHECK_EQUAL(**x, 7);
  auto out = *std::move(x);
  CAF_CHECK_EQUAL(*out, 7);
}

} // namespace result_suite
