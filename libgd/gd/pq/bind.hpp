#pragma once

#include <gd/pq/unit.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Calls of statements, made of values and of columns of rows.
namespace gd::pq {

template <class... Args>
call make_call(const sql::statement& what, const Args&... args) {
  call x{&what, {}};
  (x.args.add(args), ...);
  return x;
}

/// Texts stay where they are.
template <class T>
auto element_of(T&& x) {
  using value = std::remove_cvref_t<T>;
  constexpr bool stays = std::is_lvalue_reference_v<T>;
  if constexpr (stays && std::is_same_v<value, std::string>)
    return std::string_view{x};
  else if constexpr (stays && std::is_same_v<value, std::optional<std::string>>)
    return x ? std::optional<std::string_view>{*x} : std::nullopt;
  else
    return value{std::forward<T>(x)};
}

/// What `of`, a member or a function, tells of each row. Most rows need few of the
/// optional ones: a column that nobody needs goes empty, and unnest fills it up
/// with nulls.
template <class Rows, class F>
auto column(const Rows& rows, F of) {
  using value = decltype(element_of(std::invoke(of, *rows.begin())));
  std::vector<value> xs;
  xs.reserve(rows.size());
  for (const auto& row : rows)
    xs.push_back(element_of(std::invoke(of, row)));
  if constexpr (requires(value x) { x.has_value(); })
    if (std::none_of(xs.begin(), xs.end(),
                     [](const auto& x) { return x.has_value(); }))
      xs.clear();
  return xs;
}

/// Of values that are mostly the same in all rows, and go once then.
template <class Rows, class F>
auto alike(const Rows& rows, F of) {
  auto xs = column(rows, of);
  if (!xs.empty()
      && std::adjacent_find(xs.begin(), xs.end(), std::not_equal_to<>{})
           == xs.end())
    xs.resize(1);
  return xs;
}

/// Of requests that name instances by `target` or by `key`: null where it is the other.
template <class Rows>
auto ids_of(const Rows& rows) {
  return column(rows, [](const auto& x) {
    return x.key ? std::nullopt : std::optional{x.target};
  });
}

/// See `ids_of`.
template <class Rows>
auto keys_of(const Rows& rows) {
  return column(rows, [](const auto& x) {
    return x.key ? std::optional{bytes{*x.key}} : std::nullopt;
  });
}

/// Of one request: null goes as an empty array.
inline std::vector<std::optional<bytes>>
one_key(const std::optional<std::string>& key) {
  std::vector<std::optional<bytes>> xs;
  if (key)
    xs.emplace_back(bytes{*key});
  return xs;
}

} // namespace gd::pq
