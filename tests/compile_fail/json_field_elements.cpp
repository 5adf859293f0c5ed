// expect: no JSON form: add GD_STATE(...) to the struct
// expect: field<order, text<5>{"lines"}>
// expect: T = line
#include <gd/json.hpp>

#include <map>
#include <optional>
#include <vector>

struct line {
  int id = 0;
};

struct order {
  int id = 0;
  std::map<std::string, std::vector<std::optional<line>>> lines;

  GD_STATE(order, id, lines);
};

auto x = gd::to_json(order{});
