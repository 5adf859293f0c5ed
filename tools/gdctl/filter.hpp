#pragma once

#include "args.hpp"

#include <gd/operate.hpp>

#include <cstdint>
#include <string>

namespace gd {

class client;

} // namespace gd

namespace gdctl {

/// Which instances, of the command line.
struct filter_options {
  gd::filter which{};
  std::string older;

  /// None of the options was given.
  bool empty() const;
};

/// `placed`: the machine may stand without its option's name.
void add_filter(parser& to, filter_options& opts, bool placed = false);

/// Fills in what is still text.
gd::result<void> read_filter(filter_options& opts);

/// Of a filter that is not the command line's: a status, or nothing.
gd::result<void> check_status(const std::string& status);

/// Works on a job until it has ended, with a bar on a terminal, and prints what came of
/// it.
int run_job(gd::client& db, std::int64_t job);

/// Of an upgrade that goes on: who does it, if anybody can.
void tell_doers(const gd::job_row& x);

} // namespace gdctl
