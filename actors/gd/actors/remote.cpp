#include <gd/actors/remote.hpp>

#include <gd/actors/gateway.hpp>
#include <gd/actors/hints.hpp>
#include <gd/actors/node.hpp>

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

/// How long one try of `connect` waits: CAF may hand out a handle to a node that
/// has just gone, and answers no request on it.
constexpr milliseconds one_try{1'000};

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1)
    return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, address.c_str(), &six) == 1
         && IN6_IS_ADDR_LOOPBACK(&six);
}

/// "127.0.0.1:4711"
bool is_loopback_port(const std::string& text) {
  auto colon = std::min(text.rfind(':'), text.size());
  std::uint16_t port = 0;
  const auto* begin = text.data() + std::min(colon + 1, text.size());
  auto [end, failed] = std::from_chars(begin, text.data() + text.size(), port);
  return failed == std::errc{} && end == text.data() + text.size() && port != 0
         && is_loopback(text.substr(0, colon));
}

error invalid(std::string message) {
  return {errc::invalid_argument, std::move(message), {}};
}

error unavailable(std::string message) {
  return {errc::unavailable, std::move(message), {}};
}

result<void> check_network(caf::actor_system& sys, const std::string& what) {
  if (sys.has_middleman())
    return {};
  return invalid(what
                 + " needs CAF's network module, which this actor system has "
                   "not loaded: expected add_network_to(cfg) on its "
                   "configuration, or CAF_MAIN(caf::io::middleman)");
}

std::string place(const std::string& host, std::uint16_t port) {
  return host + ":" + std::to_string(port);
}

/// CAF's own broker for nodes; to be used by the middleman's thread alone.
caf::io::basp_broker* broker_of(caf::actor_system& sys) {
#if GD_CAF_017
  auto name = caf::atom("BASP");
#else
  auto name = "BASP";
#endif
  auto handle = sys.middleman().named_broker<caf::io::basp_broker>(name);
  auto* broker = static_cast<caf::io::basp_broker*>(
    caf::actor_cast<caf::abstract_actor*>(handle));
  return broker->getf(caf::abstract_actor::is_terminated_flag) ? nullptr
                                                               : broker;
}

/// How many bytes wait to be written to `peer`; its connection ends if they are more
/// than `most`: even refusals pile up if they are not read.
std::size_t unread_by(caf::actor_system& sys, const caf::node_id& peer,
                      std::size_t most, const event_sink& tell) {
  auto* broker = broker_of(sys);
  if (broker == nullptr)
    return 0;
  auto route = broker->instance.tbl().lookup(peer);
  if (!route || !broker->valid(route->hdl))
    return 0;
  auto bytes = broker->wr_buf(route->hdl).size();
  if (bytes > most) {
    // CAF's own way would first write what nobody reads. Its handle is the socket.
    tell(events::peer_cut_off{broker->remote_port(route->hdl), bytes});
    shutdown(static_cast<int>(route->hdl.id()), SHUT_RDWR);
  }
  return bytes;
}

/// What the middleman says of an actor on another node.
struct found_actor {
  caf::strong_actor_ptr handle;
  std::set<std::string> interface;
};

std::string in_time(milliseconds timeout) {
  return " within " + std::to_string(timeout.count()) + " ms";
}

/// Asks the middleman for what is left of `timeout`; `remote_actor` would wait
/// for ever.
result<found_actor> find(caf::scoped_actor& self, const std::string& host,
                         std::uint16_t port, milliseconds left,
                         milliseconds timeout) {
  std::optional<found_actor> found;
  caf::error why;
  request_from(self.ptr(), self->system().middleman().actor_handle(), left,
               caf::connect_atom_v, host, port)
    .receive(
      [&](caf::node_id&, caf::strong_actor_ptr& handle,
          std::set<std::string>& interface) {
    found = {std::move(handle), std::move(interface)};
      },
      [&](caf::error& x) { why = std::move(x); });
  if (found)
    return std::move(*found);
  auto at = place(host, port);
  if (why == caf::sec::request_timeout)
    return unavailable("no CAF node has answered at " + at + in_time(timeout));
  if (why == caf::sec::cannot_connect_to_node)
    return unavailable("nobody listens at " + at);
  return unavailable("expected a CAF node of the same CAF version at " + at
                     + ", got " + render(self->system(), why));
}

/// Whether the gateway has answered anything at all; an error: it never will.
result<bool> answers(caf::scoped_actor& self, const gateway& x,
                     const std::string& at, milliseconds timeout) {
  result<bool> answer = true;
  // The one question that does not go to the database.
  request_from(self.ptr(), x, timeout, gd::insert_all{})
    .receive([](gd::inserted_all&) {},
             [&](caf::error& why) {
    if (why == caf::sec::request_timeout)
      answer = false;
    else if (!is_ours(why))
      answer = unavailable("the gateway at " + at
                           + " is gone: " + render(self->system(), why));
    });
  return answer;
}

} // namespace

void add_network_to(caf::actor_system_config& cfg) {
  load_module<caf::io::middleman>(cfg);
}

result<std::uint16_t> publish(engine& x, const publish_options& options) {
  const auto& door = x.gateway();
  if (!door)
    return error{errc::stopped, "expected a running engine to publish", {}};
  auto& sys = door.home_system();
  if (auto ok = check_network(sys, "publish"); !ok)
    return ok.error();
  if (!is_loopback(options.address))
    return invalid("publish: expected a loopback address (127.0.0.1), got \""
                   + options.address
                   + "\"; beyond this machine, the gateway needs TLS with "
                     "client certificates, which this version does not have");
  if (!options.advertise.empty() && !is_loopback_port(options.advertise))
    return invalid("publish: expected a loopback address with a port to be "
                   "advertised (127.0.0.1:4801), got \""
                   + options.advertise + "\"");
  auto closed = std::make_shared<std::promise<void>>();
  auto home = inside(x);
  auto most = static_cast<std::size_t>(home->config.bytes_waiting);
  portal_network network{.most_unread = most,
                         .ask_unread =
                           [&sys, most, tell = home->config.on_event](
                             const caf::node_id& peer, auto answer) {
    sys.middleman().run_later([&sys, most, tell, peer, answer] {
      answer(unread_by(sys, peer, 2 * most, tell));
    });
                         },
                         .on_rows_due = pass_hints_on(home)};
  auto portal = sys.spawn<gateway_portal>(door, closed, std::move(network));
  auto published = caf::actor_cast<gateway>(portal);
  auto port = sys.middleman().publish(published, options.port,
                                      options.address.c_str(), /*reuse*/ true);
  if (!port) {
    anon(portal, close_portal{});
    return unavailable("publish: cannot open port "
                       + place(options.address, options.port) + ": "
                       + render(sys, port.error()));
  }
  auto close = [&sys, published, number = *port] {
    // The second time, it only waits for what has been sent before to be written.
    static_cast<void>(sys.middleman().unpublish(published, number));
  };
  x.keep({close, [portal, closed, close] {
            anon(portal, close_portal{});
            closed->get_future().wait();
            close();
          }});
  begin_hints(sys, home,
              join_addresses(place(options.address, *port), options.advertise));
  return *port;
}

result<gateway> connect(caf::actor_system& sys, const std::string& host,
                        std::uint16_t port, milliseconds timeout) {
  if (auto ok = check_network(sys, "connect"); !ok)
    return ok.error();
  if (!is_loopback(host) && host != "localhost")
    return invalid("connect: expected a loopback address (127.0.0.1) or "
                   "localhost, got \""
                   + host
                   + "\"; other machines need TLS, which this version "
                     "does not have");
  auto at = place(host, port);
  caf::scoped_actor self{sys};
  auto until = clock::now() + timeout;
  while (true) {
    auto left = std::max(
      std::chrono::duration_cast<milliseconds>(until - clock::now()),
      milliseconds{0});
    auto found = find(self, host, port, left, timeout);
    if (!found)
      return found.error();
    if (!found->handle)
      return invalid("no actor is published at " + at);
    if (!sys.assignable(found->interface, sys.message_types<gateway>()))
      return invalid("expected a gateway of gen_durable at " + at
                     + ", got an actor with another interface");
    auto x = caf::actor_cast<gateway>(found->handle);
    auto alive = answers(self, x, at, std::min(left, one_try));
    if (!alive)
      return alive.error();
    if (*alive)
      return x;
    if (clock::now() >= until)
      return unavailable("the gateway at " + at + " has not answered"
                         + in_time(timeout));
  }
}

} // namespace gd::actors
