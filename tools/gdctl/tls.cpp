#include "args.hpp"
#include "authority.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "tunnels.hpp"

#include <gd/state.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gdctl {

namespace {

namespace fs = std::filesystem;

using std::chrono::days;

constexpr mode_t secret = 0600;
constexpr mode_t open_to_all = 0644;
constexpr auto longest_days = 36'500;

constexpr std::string_view exit_codes
  = "Exit codes:\n"
    "  0  all is well\n"
    "  1  refused: something is there already; or a certificate ends soon\n"
    "  2  usage: an option, argument or file that cannot be used\n"
    "  5  there is no such authority, or no such node\n";

// -- files --------------------------------------------------------------------

gd::error not_there(std::string text) {
  return {gd::errc::not_found, std::move(text), {}};
}

gd::error there_already(const fs::path& what, std::string_view instead) {
  return {gd::errc::rejected,
          fmt::format("{} is there already: {}", what.string(), instead),
          {}};
}

gd::result<std::string> read_file(const fs::path& from) {
  std::ifstream in{from, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (!in.good() && !in.eof())
    return system_error(from.string(), errno);
  drop_mark(text);
  return text;
}

struct file {
  fs::path name;
  std::string text;
  mode_t mode = open_to_all;
};

/// At once, whatever was there: who reads it sees the old one or the new one.
gd::result<void> write_file(const file& x) {
  auto part = x.name.string() + ".part";
  auto failed = [&part, why = system_error(part, 0)](int fd) mutable {
    why = system_error(part, errno);
    if (fd >= 0)
      close(fd);
    unlink(part.c_str());
    return why;
  };
  unlink(part.c_str()); // what a killed gdctl has left behind
  auto fd = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, x.mode);
  if (fd < 0)
    return failed(fd);
  std::string_view rest = x.text;
  while (!rest.empty()) {
    auto n = write(fd, rest.data(), rest.size());
    if (n < 0)
      return failed(fd);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  if (fsync(fd) != 0)
    return failed(fd);
  close(fd);
  if (rename(part.c_str(), x.name.c_str()) != 0)
    return failed(-1);
  return {};
}

gd::result<void> write_files(const std::vector<file>& xs) {
  for (const auto& x : xs)
    if (auto ok = write_file(x); !ok)
      return ok;
  return {};
}

/// For its owner alone.
gd::result<void> make_folder(const fs::path& x) {
  if (mkdir(x.c_str(), 0700) == 0 || (errno == EEXIST && fs::is_directory(x)))
    return {};
  return system_error(x.string(), errno);
}

// -- init ---------------------------------------------------------------------

struct init_options {
  std::string folder{};
  int days = 3'650;
  bool replace = false;
};

int init(const init_options& x) {
  const fs::path folder = x.folder;
  for (const auto* name : {"ca.pem", "ca.key"})
    if (!x.replace && fs::exists(folder / name))
      return fail(there_already(folder / name,
                                "--replace makes another authority, and the "
                                "certificates of this one are worth nothing"));
  if (auto ok = make_folder(folder); !ok)
    return fail(ok.error());
  auto made = make_authority(days{x.days});
  if (!made)
    return fail(made.error());
  if (auto ok = write_files({{folder / "ca.key", made->key, secret},
                             {folder / "ca.pem", made->certificate}});
      !ok)
    return fail(ok.error());
  return print(fmt::format(
    "{0}/ca.pem: an authority for {1} days\n"
    "{0}/ca.key: its key. Whoever reads it can be any node: it stays here.\n"
    "Next, for each host, what others connect to and what it connects to:\n"
    "  gdctl tls node db1 --dir {0} --accept 0.0.0.0:4712 "
    "--engine /run/shop/engine --from web1\n"
    "  gdctl tls node web1 --dir {0} --to db1 db1.example.org:4712 "
    "/run/shop/db1\n",
    gd::printable(x.folder), x.days));
}

// -- node ---------------------------------------------------------------------

struct node_options {
  std::string folder{};
  tunnels what{};
  tunnel_in in{};
  std::vector<std::string> to{}; ///< three for each
  int days = 365;
  bool renew = false;
  bool replace = false;
};

gd::result<credentials> read_authority(const fs::path& folder) {
  credentials x;
  for (auto [name, to] :
       {std::pair{"ca.pem", &x.certificate}, std::pair{"ca.key", &x.key}}) {
    if (!fs::exists(folder / name))
      return not_there(fmt::format("there is no authority in {}: {} is missing "
                                   "(gdctl tls init)",
                                   folder.string(), name));
    auto text = read_file(folder / name);
    if (!text)
      return text.error();
    *to = std::move(*text);
  }
  return x;
}

/// What is to be written, and whether it may.
gd::result<std::vector<file>> files_of(const node_options& x,
                                       const fs::path& folder,
                                       const credentials& authority,
                                       const credentials& node) {
  std::vector<file> xs{
    {folder / "node.pem", node.certificate + node.key, secret},
    {folder / "ca.pem", authority.certificate}};
  if (x.renew)
    return xs;
  if (fs::exists(folder) && !x.replace)
    return there_already(folder,
                         "--renew makes another certificate for it, --replace "
                         "its configurations, too");
  xs.push_back({folder / "stunnel.conf", stunnel_conf(x.what)});
  xs.push_back({folder / "haproxy.cfg", haproxy_cfg(x.what)});
  return xs;
}

std::string next_steps(const node_options& x, const std::string& folder,
                       const std::string& until) {
  auto text = fmt::format("{}/node.pem: {} until {}; whoever reads it is {}\n",
                          folder, x.what.node, until, x.what.node);
  if (x.renew)
    return text
           + fmt::format("Next: copy {}/node.pem to its host, then let what "
                         "runs there read it. Connections stay.\n"
                         "  stunnel:  kill -HUP PID\n"
                         "  HAProxy:  kill -USR2 PID   (of the master)\n",
                         folder);
  return text
         + fmt::format(
           "Next: copy {0} to the host of {1}, for the user that runs the "
           "engine there,\nand run one of these in it, as that user:\n"
           "  sh -c 'umask 077; ulimit -n {2}; exec stunnel stunnel.conf'\n"
           "  /usr/sbin/haproxy -W -f haproxy.cfg\n"
           "Before it ends: gdctl tls node {1} --dir {3} --renew\n",
           folder, x.what.node, files_for(x.what), gd::printable(x.folder));
}

int make_node_files(node_options& x) {
  for (std::size_t i = 0; i + 2 < x.to.size(); i += 3)
    x.what.out.push_back({x.to[i], x.to[i + 1], x.to[i + 2]});
  if (auto ok = check(x.what); !ok)
    return fail(ok.error());
  const fs::path folder = fs::path{x.folder} / x.what.node;
  if (x.renew && !fs::exists(folder / "node.pem"))
    return fail(not_there(fmt::format("there is no node {} in {}: {} is "
                                      "missing",
                                      x.what.node, x.folder,
                                      (folder / "node.pem").string())));
  auto authority = read_authority(x.folder);
  if (!authority)
    return fail(authority.error());
  auto made = make_node(*authority, x.what.node, days{x.days});
  if (!made)
    return fail(made.error());
  auto files = files_of(x, folder, *authority, *made);
  if (!files)
    return fail(files.error());
  if (auto ok = make_folder(folder); !ok)
    return fail(ok.error());
  if (auto ok = write_files(*files); !ok)
    return fail(ok.error());
  auto read = read_certificate("node.pem", made->certificate);
  if (!read)
    return fail(read.error());
  return print(next_steps(x, gd::printable(folder.string()),
                          time_text(read->ends * 1'000'000)));
}

// -- show ---------------------------------------------------------------------

struct show_options {
  std::string folder{};
  std::string within = "30d";
  bool as_json = false;
};

struct shown {
  std::string file{};
  std::string name{};
  std::string ends{};
  std::int64_t days_left = 0;
  bool ends_soon = false;

  GD_STATE(shown, file, name, ends, days_left, ends_soon);
};

gd::result<std::vector<fs::path>> certificates_in(const fs::path& folder) {
  std::vector<fs::path> xs;
  std::error_code failed;
  for (const auto& x : fs::directory_iterator{folder, failed})
    if (auto name = x.path() / "node.pem"; fs::exists(name))
      xs.push_back(name);
  if (failed)
    return system_error(folder.string(), failed.value());
  std::sort(xs.begin(), xs.end());
  // The authority's, or, on a node's host, its own.
  for (const auto* name : {"node.pem", "ca.pem"})
    if (fs::exists(folder / name))
      xs.insert(xs.begin(), folder / name);
  if (xs.empty())
    return not_there("there is no certificate in " + folder.string());
  return xs;
}

std::string text_of(const shown& x) {
  auto left = x.days_left < 0 ? "has ended"
                              : fmt::format("{} days left", x.days_left);
  return fmt::format("{}: {}, until {}, {}{}\n", gd::printable(x.file),
                     gd::printable(x.name), x.ends, left,
                     x.ends_soon ? "  <- renew" : "");
}

int show(const show_options& opts) {
  auto within = parse_delay("--within", opts.within);
  if (!within)
    return fail(within.error());
  auto names = certificates_in(opts.folder);
  if (!names)
    return fail(names.error());
  std::string text;
  bool soon = false;
  const auto now = std::time(nullptr);
  for (const auto& name : *names) {
    auto pem = read_file(name);
    if (!pem)
      return fail(pem.error());
    auto x = read_certificate(name.string(), *pem);
    if (!x)
      return fail(x.error());
    auto left = x->ends - now;
    shown line{.file = name.string(),
               .name = x->name,
               .ends = time_text(x->ends * 1'000'000),
               .days_left = left < 0 ? -1 : left / 86'400,
               .ends_soon = left <= *within / 1'000'000};
    soon = soon || line.ends_soon;
    text += opts.as_json ? *json_line(line) : text_of(line);
  }
  return print(text, soon ? refused : ok);
}

// -- the command line ---------------------------------------------------------

void add_init(parser& to) {
  auto opts = std::make_shared<init_options>();
  auto sub = to.add_command("init", "Make an authority for certificates");
  sub.add_option("DIR", opts->folder, "Where to: a new folder, or an empty one")
    .type_name("DIR")
    .required();
  sub.add_option("--days", opts->days, "How long it lasts")
    .shows_default()
    .whole(1, longest_days);
  sub.add_flag("--replace", opts->replace,
               "Also if one is there, whose nodes get in no more then");
  sub.describe("Keep DIR on one host, and not on one that runs a tunnel.",
               {"gdctl tls init tunnels"}, exit_codes);
  sub.runs(opts, init);
}

/// Throws if they do not go together.
void read_node(node_options& x, bool has_in, bool has_from) {
  if (x.renew && (has_in || has_from || !x.to.empty() || x.replace))
    bad_option("--renew", "expected none of --accept, "
                          "--engine, --from, --to, --replace");
  if (!x.renew && !has_in && x.to.empty())
    missing("--accept, --to or --renew");
  if (has_in != has_from)
    missing("with --accept, --engine and --from");
  if (has_in)
    x.what.in = x.in;
}

void add_node(parser& to) {
  auto opts = std::make_shared<node_options>();
  auto sub = to.add_command(
    "node", "Make or renew a node's certificate, and its configurations");
  sub.add_option("NAME", opts->what.node, "The node, as others are told of it")
    .required();
  sub.add_option("--dir", opts->folder, "Where the authority is")
    .required()
    .type_name("DIR");
  auto accept = sub.add_option("--accept", opts->in.accept,
                               "Address and port that others connect to");
  auto engine = sub.add_option("--engine", opts->in.engine,
                               "Where the engine is published: a Unix socket, "
                               "or a loopback address and port");
  auto from = sub
                .add_option("--from", opts->in.from,
                            "Nodes that may connect; may be repeated")
                .separated()
                .again();
  accept.needs(engine).needs(from);
  engine.needs(accept);
  sub
    .add_option("--to", opts->to,
                "A node to connect to, where it accepts, and where it is to "
                "be found here; may be repeated")
    .again(3)
    .type_name("NAME ADDRESS PLACE");
  sub
    .add_option("--connections", opts->what.connections,
                "That it accepts, all together")
    .shows_default()
    .whole(1, 100'000);
  sub.add_option("--days", opts->days, "How long the certificate lasts")
    .shows_default()
    .whole(1, longest_days);
  sub.add_flag("--renew", opts->renew, "Another key and certificate, no more");
  sub.add_flag("--replace", opts->replace,
               "Also what is there already: all of it");
  sub.describe(
    "Writes DIR/NAME with all that the host of NAME needs: certificate "
    "and key,\nand the same tunnels for stunnel and for HAProxy. TLS "
    "1.3; both sides show\ncertificates, and both check the other's "
    "name. A place is a loopback address\nwith a port, or the path of a "
    "Unix socket: no other host gets there. Between two\nends that are "
    "ports, the engine's secret is shown through the tunnel.",
    {"gdctl tls node db1 --dir tunnels --accept 0.0.0.0:4712 --engine "
     "/run/shop/engine --from web1,web2",
     "gdctl tls node web1 --dir tunnels --to db1 db1.example.org:4712 "
     "/run/shop/db1",
     "gdctl tls node db1 --dir tunnels --renew"},
    exit_codes);
  sub.runs(opts, make_node_files,
           [=] { read_node(*opts, accept.given(), from.given()); });
}

void add_dates(parser& to) {
  auto opts = std::make_shared<show_options>();
  auto sub = to.add_command("show", "Tell when certificates end");
  sub
    .add_option("DIR", opts->folder,
                "The authority's folder, or that of a node")
    .type_name("DIR")
    .required();
  sub.add_option("--within", opts->within, "What is soon").shows_default();
  sub.add_flag("--json", opts->as_json, "A JSON object for each");
  sub.describe("Ends with 1 if one has ended or ends soon: for cron.",
               {"gdctl tls show tunnels",
                "gdctl tls show /etc/gen_durable/web1 --within 7d"},
               exit_codes);
  sub.runs(opts, show);
}

} // namespace

void add_tls(parser& app) {
  auto sub = app.add_command(
    "tls", "Make certificates and configurations for tunnels between hosts");
  sub.requires_command();
  sub.describe(
    "The published socket stays on its host; stunnel or HAProxy carry it "
    "to others,\nwith TLS. Needs no database.",
    {"gdctl tls init tunnels",
     "gdctl tls node db1 --dir tunnels --accept 0.0.0.0:4712 --engine "
     "/run/shop/engine --from web1",
     "gdctl tls node web1 --dir tunnels --to db1 db1.example.org:4712 "
     "/run/shop/db1",
     "gdctl tls show tunnels"},
    exit_codes);
  add_init(sub);
  add_node(sub);
  add_dates(sub);
}

} // namespace gdctl
