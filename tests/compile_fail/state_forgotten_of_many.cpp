// expect: GD_STATE(order, id, placed, price, tags, note, lines, first, many) does not list every field of the struct
// expect: the comparison reduces to '(8 >= 9)'
#include <gd/json.hpp>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

GD_ENUM(currency, eur, usd);

struct line {
  std::string sku;
  std::int32_t quantity = 1;

  GD_STATE(line, sku, quantity);
};

struct order {
  std::int64_t id = 0;
  std::chrono::sys_time<std::chrono::microseconds> placed{};
  std::optional<double> price;
  std::map<std::string, std::string> tags;
  gd::json note;
  std::vector<line> lines;
  line first;
  currency pays_in = currency::eur;
  std::array<std::int64_t, 3> many{};

  GD_STATE(order, id, placed, price, tags, note, lines, first, many);
};
