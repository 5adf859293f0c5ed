#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/json.hpp>

#include <string>
#include <string_view>

/// JSON as scripts can take it: their numbers are exact up to 2^53 only.
namespace gdctl::serve {

/// The same, with the numbers of instances, signals and jobs as strings.
gd::result<std::string> for_scripts(const gd::json& x);

/// The JSON of people as a string that holds its text: their numbers stay as they are, and
/// it may be as deep as it likes. What cannot be read is null, and `faults` says why, as
/// a member of its object.
void as_text(gd::json& x, std::string_view name, std::string& faults);

/// An object, and more members behind its own: `,"name":value`.
std::string with_members(std::string object, std::string_view more);

/// `instance` and entries of a history, their state and what else people have put there.
gd::result<std::string> shape_of(gd::instance x);
gd::result<std::string> shape_of(gd::ledger_entry x);

/// Anything else that has a JSON form.
template <class T>
gd::result<std::string> shape_of(const T& x) {
  return for_scripts(gd::to_json(x));
}

/// An array.
template <class T>
gd::result<std::string> shape_of(std::vector<T> xs) {
  std::string out = "[";
  for (auto& x : xs) {
    auto one = shape_of(std::move(x));
    if (!one)
      return one;
    if (out.size() > 1)
      out += ',';
    out += *one;
  }
  return out + ']';
}

} // namespace gdctl::serve
