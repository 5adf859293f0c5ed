#include "serve/shape.hpp"

#include "common.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace gdctl::serve {

/// What `for_scripts` makes of a document.
struct scripted {
  std::string text{};
};

namespace {

constexpr std::array<std::string_view, 8> ids{
  "id",         "target", "instance",    "last_id",
  "highest_id", "next",   "refused_ids", "job"};

gd::result<void> rewrite(const gd::json_value& in, std::string_view name,
                         std::string& out) {
  bool object = in.type() == gd::json_type::object;
  if (object || in.type() == gd::json_type::array) {
    out += object ? '{' : '[';
    auto first = true;
    auto ok = in.each([&](const gd::json_value& child) -> gd::result<void> {
      if (!std::exchange(first, false))
        out += ',';
      if (object)
        out += json_string(child.key()) + ':';
      return rewrite(child, object ? child.key() : name, out);
    });
    out += object ? '}' : ']';
    return ok;
  }
  bool quoted = in.type() == gd::json_type::number
                && std::find(ids.begin(), ids.end(), name) != ids.end();
  out += quoted ? fmt::format("\"{}\"", in.raw()) : gd::printable(in.raw());
  return {};
}

} // namespace

} // namespace gdctl::serve

template <>
struct gd::json_codec<gdctl::serve::scripted> {
  static result<void> read(const json_value& in, gdctl::serve::scripted& x) {
    return gdctl::serve::rewrite(in, {}, x.text);
  }
};

namespace gdctl::serve {

gd::result<std::string> for_scripts(const gd::json& x) {
  if (!x.ok())
    return *x.failure();
  auto out = gd::from_json<scripted>(x);
  if (!out)
    return out.error();
  return std::move(out->text);
}

void as_text(gd::json& x, std::string_view name, std::string& faults) {
  if (x.ok()) {
    x = gd::json::raw(json_string(x.text()));
    return;
  }
  faults += fmt::format(",\"{}_error\":{}", name,
                        json_string(x.failure()->message));
  x = gd::json::raw("null");
}

static void as_text(std::optional<gd::json>& x, std::string_view name,
                    std::string& faults) {
  if (x)
    as_text(*x, name, faults);
}

std::string with_members(std::string object, std::string_view more) {
  object.pop_back();
  return object.append(more) + '}';
}

gd::result<std::string> shape_of(gd::instance x) {
  std::string faults;
  as_text(x.state, "state", faults);
  as_text(x.result, "result", faults);
  auto out = for_scripts(gd::to_json(x));
  if (!out)
    return out;
  return with_members(std::move(*out), faults);
}

gd::result<std::string> shape_of(gd::ledger_entry x) {
  std::string faults;
  as_text(x.metadata, "metadata", faults);
  as_text(x.state, "state", faults);
  auto out = for_scripts(gd::to_json(x));
  if (!out)
    return out;
  return with_members(std::move(*out), faults);
}

} // namespace gdctl::serve
