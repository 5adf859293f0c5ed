// expect: GD_STATE(page, body) does not list every field of the struct
// expect: with T = int
#include <gd/json.hpp>

template <class T>
struct page {
  T body{};
  int number = 0;

  GD_STATE(page, body);
};

auto text = gd::to_json(page<int>{});
