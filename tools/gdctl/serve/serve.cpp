// gdctl serve: a page to look at, and what operators do.

#include "args.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "serve/options.hpp"
#include "serve/routes.hpp"
#include "service.hpp"

#include <fmt/format.h>

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>

namespace gdctl {

namespace {

using namespace std::chrono_literals;

/// So long a look may take; and who does not answer a connection attempt is away.
constexpr auto patience = 2s;

gd::result<serve::access> read_access(const serve::options& opts,
                                      const serve::endpoint& at) {
  if (opts.allow_writes && opts.token_file.empty())
    return bad_usage("--allow-writes: expected --token-file, too");
  serve::access out{.names = at.names, .writes = opts.allow_writes};
  if (opts.allow_writes) {
    auto token = serve::read_token(opts.token_file);
    if (!token)
      return token.error();
    out.token = serve::digest_of(*token);
  }
  return out;
}

gd::result<gd::pq::options> patient(const globals& global,
                                    const serve::options& opts) {
  auto out = global.connection();
  if (!out)
    return out;
  out->application_name = "gdctl serve";
  out->statement_timeout = patience;
  out->lock_timeout = patience / 2;
  out->connect_timeout = patience;
  out->standby_will_do = !opts.allow_writes;
  return out;
}

/// What ends it.
sigset_t ends() {
  sigset_t these;
  sigemptyset(&these);
  for (auto number : {SIGINT, SIGTERM})
    sigaddset(&these, number);
  if (!ignores_hangup())
    sigaddset(&these, SIGHUP);
  return these;
}

/// Until a signal ends it, which all threads have blocked. A second one ends the program
/// at once.
void run(serve::http_server& server) {
  auto these = ends();
  timespec second{.tv_sec = 1, .tv_nsec = 0};
  while (sigtimedwait(&these, nullptr, &second) < 0)
    server.cut_slow();
  pthread_sigmask(SIG_UNBLOCK, &these, nullptr);
}

void block_signals() {
  auto these = ends();
  sigaddset(&these, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &these, nullptr);
}

int serve_page(const globals& global, const serve::options& opts) {
  auto database = patient(global, opts);
  if (!database)
    return fail(database.error());
  auto at = serve::read_endpoint(opts);
  if (!at)
    return fail(at.error());
  auto who = read_access(opts, *at);
  if (!who)
    return fail(who.error());
  // What is misspelt is told at once; what goes away later comes back.
  if (auto db = gd::client::connect(*database); !db)
    return fail(db.error());
  auto fd = serve::listen_at(*at);
  if (!fd)
    return fail(fd.error());
  block_signals();
  serve::routes routes{*database, std::move(*who)};
  auto server = serve::http_server::start(*fd, routes);
  if (!server)
    return fail(server.error());
  auto code = print(fmt::format("{} ({})\n", at->url,
                                opts.allow_writes
                                  ? "changes with the token of "
                                      + gd::printable(opts.token_file)
                                  : "read only"));
  if (code == ok)
    run(*server);
  server->close();
  routes.stop();
  return code;
}

} // namespace

void add_serve(parser& app) {
  auto opts = std::make_shared<serve::options>();
  auto sub = app.add_command("serve", "Serve a page to look at, over HTTP");
  sub
    .add_option("--listen", opts->listen,
                "A loopback address and a port; or unix: and the path of a "
                "socket")
    .shows_default();
  sub.add_option("--behind-proxy", opts->behind_proxy,
                 "The host, or host:port, by which browsers know a reverse "
                 "proxy with TLS on this machine");
  auto token = sub.add_option("--token-file", opts->token_file,
                              "Where the token is that changes need; made, "
                              "if there is no such file");
  sub
    .add_flag("--allow-writes", opts->allow_writes,
              "Let those who have the token change something")
    .needs(token);
  sub.describe(
    "Queues, nodes, rates, machines, instances, and why each is where it is; "
    "the same as JSON\nbelow /api, and below /metrics for Prometheus. Whoever "
    "reaches the address may look: on\nthis machine alone, as it is. Looking "
    "changes nothing; nor does anything else, without\n--allow-writes. Goes "
    "on while the database is away.",
    {"gdctl serve",
     "gdctl serve --listen 127.0.0.1:9000 --allow-writes --token-file "
     "~/.gdctl-token",
     "gdctl serve --listen unix:/run/gdctl/page.sock --behind-proxy "
     "ops.example.org",
     "curl -s http://127.0.0.1:8080/api/overview | jq .queues"});
  sub.runs(opts, serve_page);
}

} // namespace gdctl
