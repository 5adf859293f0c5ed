#include "args.hpp"
#include "common.hpp"
#include "service.hpp"

#include <gd/client.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>

namespace gdctl {

namespace {

/// Of the command line; the numbers are still to be read.
template <class Request>
struct rewind_options {
  address which;
  std::string seq;
  Request what;
  bool force = false; ///< of a fork
};

template <class Request>
gd::result<void> read_numbers(rewind_options<Request>& opts) {
  auto seq = parse_number("SEQ: expected an entry's", opts.seq);
  if (!seq)
    return seq.error();
  opts.what.seq = *seq;
  return read_address(opts.which, opts.what.target, opts.what.key);
}

int rewind(const globals& global, rewind_options<gd::rewind>& opts) {
  if (auto ok = read_numbers(opts); !ok)
    return fail(ok.error());
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto now = db->rewind(opts.what);
  if (!now)
    return fail(now.error());
  return print(fmt::format("{{{},\"seq\":{},\"status\":{}}}\n",
                           address_json("id", opts.what.target, opts.what.key),
                           now->seq, json_string(now->status)),
               ok, "the instance has been put back");
}

int fork(const globals& global, rewind_options<gd::fork>& opts) {
  if (auto ok = read_numbers(opts); !ok)
    return fail(ok.error());
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  if (auto which = db->unknown({.queue = opts.what.queue});
      which && *which && !opts.force)
    return fail({gd::errc::not_found, **which, std::string{gd::unknown_name}});
  auto made = db->fork(opts.what);
  if (!made)
    return fail(made.error());
  return print(fmt::format("{{\"id\":{}}}\n", made->id), ok,
               fmt::format("instance {} has been made", made->id));
}

template <class Request>
void add_arguments(parser& to, rewind_options<Request>& opts) {
  add_address(to, opts.which);
  to.add_option("SEQ", opts.seq, "The entry of its history");
  to.add_option("--reason", opts.what.reason, "Why, for the history");
  to.add_option("--by", opts.what.by, "Who does it, for the history");
}

} // namespace

void add_rewind(parser& app) {
  auto opts = std::make_shared<rewind_options<gd::rewind>>();
  auto sub = app.add_command("rewind",
                             "Put an instance back to an entry of its history");
  add_arguments(sub, *opts);
  sub.describe(
    "To the step and the state that it had then, as an entry of its "
    "own. It must not\nexecute, and its machine must keep its history "
    "with_state. Signals that it has\nconsumed since then do not come "
    "back, and sent again they are duplicates.\nPrints where it stands: "
    "{\"id\": 7, \"seq\": 12, \"status\": \"runnable\"}.",
    {"gdctl history 7",
     "gdctl rewind 7 3 --reason 'the address was wrong' --by ann",
     "gdctl rewind --key 'order 42' 3"});
  sub.runs(opts, rewind, [opts] { take_id(opts->which, &opts->seq, "SEQ"); });
}

void add_fork(parser& app) {
  auto opts = std::make_shared<rewind_options<gd::fork>>();
  auto sub = app.add_command(
    "fork", "Make an instance that begins at an entry of another's history");
  add_arguments(sub, *opts);
  sub.add_option("--queue", opts->what.queue,
                 "Where it is picked; default: that one's");
  sub.add_flag("--force", opts->force,
               "Also in a queue that nobody has: it is meant");
  sub.describe(
    "With the step and the state that the other one had then, which goes on as "
    "it does;\nwith its machine's version, priority and partition key, without "
    "a unique key and\nwith an empty inbox. The machine must keep its history "
    "with_state.\nPrints its id: {\"id\": 8}.",
    {"gdctl fork 7 3",
     "gdctl fork 7 3 --queue repairs --reason 'what if' --by ann"});
  sub.runs(opts, fork, [opts] { take_id(opts->which, &opts->seq, "SEQ"); });
}

} // namespace gdctl
