// The main() of a test executable. Suites are separate files; see
// CMakeLists.txt for how each of them becomes a test of its own.

#define CAF_SUITE main_dummy
#define CAF_TEST_NO_MAIN

#include <caf/test/unit_test.hpp>

#include <caf/test/unit_test_impl.hpp>

#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// CAF tells each check or none. Of its lines, those of checks that hold are left out.
class failed_checks : public std::streambuf {
public:
  explicit failed_checks(std::streambuf* to) : to_(to) {
    // nop
  }

  ~failed_checks() override {
    to_->sputn(line_.data(), static_cast<std::streamsize>(line_.size()));
  }

protected:
  int_type overflow(int_type x) override {
    if (traits_type::eq_int_type(x, traits_type::eof()))
      return traits_type::not_eof(x);
    std::lock_guard guard{mutex_};
    line_ += traits_type::to_char_type(x);
    if (line_.back() == '\n') {
      // Behind a color, if there is one.
      if (std::string_view{line_}.substr(0, 10).find("** ") == line_.npos) {
        to_->sputn(line_.data(), static_cast<std::streamsize>(line_.size()));
        to_->pubsync();
      }
      line_.clear();
    }
    return x;
  }

private:
  std::streambuf* to_;
  std::mutex mutex_;
  std::string line_;
};

} // namespace

int main(int argc, char** argv) {
  std::vector<char*> args(argv, argv + argc);
  for (std::string_view x : args)
    if (x.starts_with("-v"))
      return caf::test::main(argc, argv);
  std::string level[] = {"-v", "4"};
  args.insert(args.begin() + 1, {level[0].data(), level[1].data()});
  auto* before = std::cerr.rdbuf();
  failed_checks shown{before};
  std::cerr.rdbuf(&shown);
  auto code = caf::test::main(static_cast<int>(args.size()), args.data());
  std::cerr.rdbuf(before);
  return code;
}
