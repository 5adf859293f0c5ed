#pragma once

#include "serve/jobs.hpp"
#include "serve/request_pool.hpp"

#include <gd/error.hpp>

#include <string_view>

namespace gdctl::serve {

/// What operators do, as gdctl's commands do it: reads what is asked for, and returns what
/// does it. Jobs that nodes need not do are handed to the runner. The errors:
/// `invalid_argument`, `codec`.
gd::result<database_call> read_verb(std::string_view json, job_runner& runner);

} // namespace gdctl::serve
