#include <gd/json.hpp>

struct fsm {
  class state {
    int n_ = 0;
    std::string why_;

  public:
    state() = default;
    GD_STATE(state, n_, why_);
  };
};

template <class T>
struct page {
  T body{};
  int number = 0;

  GD_STATE(page, body, number);
};

struct empty {
  GD_STATE(empty);
};

auto a = gd::to_json(fsm::state{});
auto b = gd::to_json(page<std::vector<bool>>{});
auto c = gd::from_json<page<std::vector<bool>>>("{}");
auto d = gd::from_json_strict<page<page<empty>>>("{}");
bool e = page<int>{} == page<int>{} && page<empty>{} == page<empty>{};
