#pragma once

#include <gd/error.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl::serve {

/// Of a target, behind its question mark; what is empty is not there.
using parameters = std::map<std::string, std::string, std::less<>>;

/// Decodes them. The error: one that is none of these, that is there twice, or that is
/// badly encoded.
gd::result<parameters> read_query(std::string_view text,
                                  const std::vector<std::string_view>& names);

/// Of an argument of gdctl's (`--key-hex: ...`): as the parameter (`key_hex: ...`) is called.
gd::error of_parameter(gd::error why);

/// Empty: it is not there.
const std::string& value_of(const parameters& these, std::string_view name);

} // namespace gdctl::serve
