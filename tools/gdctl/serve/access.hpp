#pragma once

#include "serve/http.hpp"
#include "serve/options.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl::serve {

/// What a token is compared by: each takes the same time.
using digest = std::array<unsigned char, 32>;

digest digest_of(std::string_view token);

/// Who may ask.
struct access {
  std::vector<known_as> names{};
  bool writes = false; ///< or it is read only, whatever token
  std::optional<digest> token{};
};

/// Why it is not answered: of one that asks for a host that this is not, or by a site that
/// is another. `to_all`: the same for all who ask, so that other sites may lead there.
answer refuse_stranger(const request& what, const access& who, bool to_all);

/// Why it may change nothing.
answer refuse_write(const request& what, const access& who);

/// Whether it has the token.
bool is_authorized(const request& what, const access& who);

/// An error for scripts; the code stays where it is.
answer refusal(int status, std::string_view code, std::string_view why,
               std::string_view allow = {});

} // namespace gdctl::serve
