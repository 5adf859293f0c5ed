// However its fields are made, a struct that lists all of them compiles.

#include <gd/json.hpp>

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

struct nothing {};

struct on_nothing : nothing {
  int a = 0;
  int b = 0;

  GD_STATE(on_nothing, a, b);
};

/// Converts from anything.
struct greedy {
  greedy() = default;
  template <class T>
  greedy(const T&) {
  }
};

struct pair_of {
  int x = 0;
  int y = 0;
};

struct unusual {
  const int fixed = 1;
  std::unique_ptr<int> owned;
  std::any any;
  std::variant<int, std::string> either;
  std::function<void()> call;
  std::optional<std::optional<int>> twice;
  greedy takes_all;
  pair_of nested;
  std::array<pair_of, 2> several{};
  int* pointer = nullptr;
  void (*function)() = nullptr;

  GD_STATE(unusual, fixed, owned, any, either, call, twice, takes_all, nested,
           several, pointer, function);
};

struct with_array {
  int before = 0;
  int many[3] = {};
  int after = 0;

  GD_STATE(with_array, before, many, after);
};

struct node {
  int id = 0;
  std::vector<node> children;

  GD_STATE(node, id, children);
};

auto text = gd::to_json(node{});
