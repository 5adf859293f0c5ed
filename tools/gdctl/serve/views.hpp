#pragma once

#include "serve/query.hpp"
#include "serve/sampler.hpp"

#include <gd/client.hpp>
#include <gd/error.hpp>

#include <string>

/// What the page shows, as JSON; see docs/run/page.md. What gdctl's commands show comes from the
/// same functions.
namespace gdctl::serve {

gd::result<std::string> overview(gd::client& db, const rates& lately);
gd::result<std::string> machines(gd::client& db, const parameters& how);
gd::result<std::string> machine(gd::client& db, const parameters& how);
gd::result<std::string> instances(gd::client& db, const parameters& how);
gd::result<std::string> instance(gd::client& db, const parameters& how);
gd::result<std::string> history(gd::client& db, const parameters& how);
gd::result<std::string> jobs(gd::client& db, const parameters& how);
gd::result<std::string> job(gd::client& db, const parameters& how);

/// Prometheus' text; also of a database that is away.
gd::result<std::string> metrics(gd::client& db);
std::string metrics_without_database();

} // namespace gdctl::serve
