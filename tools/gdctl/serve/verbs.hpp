#pragma once

#include "serve/desk.hpp"
#include "serve/jobs.hpp"

#include <gd/error.hpp>

#include <string_view>

namespace gdctl::serve {

/// What operators do, as gdctl's commands do it: reads what is asked for, and returns what
/// does it. Jobs that nodes need not do are handed to the worker. The errors:
/// `invalid_argument`, `codec`.
gd::result<errand> read_verb(std::string_view json, job_worker& worker);

} // namespace gdctl::serve
