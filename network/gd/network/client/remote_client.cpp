#include <gd/network/client/remote_client.hpp>

#include <gd/network/client/dial.hpp>

#include <caf/all.hpp>

#include <random>
#include <type_traits>
#include <utility>

namespace gd::actors {

namespace {

request_queue::settings settings_of(const reach_options& how,
                                    std::size_t addresses, std::size_t first) {
  return {.patience = how.patience,
          .answer_within = how.answer_within,
          .ping = how.ping,
          .silence = how.silence,
          .longest_pause = how.longest_pause,
          .addresses = addresses,
          .first_address = first,
          .requests = how.requests,
          .bytes = how.bytes,
          .open = how.open,
          .seed = std::random_device{}()};
}

/// One that waits for so long.
std::shared_ptr<const remote_request>
shortened(const remote_request& x, std::chrono::microseconds left) {
  auto out = std::make_shared<remote_request>(x);
  std::visit(
    [left](auto& what) {
    if constexpr (waits_long<std::decay_t<decltype(what)>>)
      what.within_us = left.count();
    },
    out->what);
  return out;
}

keys_trusted trusted(const reach_options& how) {
  return how.again == send_again::keyed ? keys_trusted::all
                                        : keys_trusted::lasting;
}

} // namespace

// -- the client connection ----------------------------------------------------

client_connection::client_connection(caf::actor_config& cfg, gateway to,
                                     std::uint64_t connection, caf::actor owner)
  : caf::event_based_actor(cfg),
    to_(std::move(to)),
    connection_(connection),
    owner_(std::move(owner)) {
  // nop
}

caf::behavior client_connection::make_behavior() {
  watcher_.install(this);
  watcher_.watch(this, to_, [this](const caf::error& why) {
    lose({errc::unavailable,
          "the connection to the gateway is lost: " + render(system(), why),
          {}});
  });
  return {
    [this](const carry& x) {
    if (!x.what)
      return ask<gd::inserted_all>(x.ticket, gd::insert_all{});
    std::visit(
      [&](const auto& what) {
      requests::for_each([&]<class Row>(Row) {
        if constexpr (std::is_same_v<std::decay_t<decltype(what)>,
                                     typename Row::asked>)
          ask<typename Row::answer>(x.ticket, what);
      });
      },
      x.what->what);
    },
    [this](tick) {
    anon(owner_, cut{connection_, *lost_});
    quit();
  },
    };
}

void client_connection::on_exit() {
  to_ = nullptr;
  owner_ = nullptr;
}

template <class Answer, class Request>
void client_connection::ask(std::uint64_t ticket, const Request& x) {
  // Without a timeout: who holds the request queue knows when to give up, and ends this
  // actor.
  request_from(this, to_, caf::infinite, x)
    .then(
      [this, ticket](Answer& answer) { report(ticket, {std::move(answer)}); },
      [this, ticket](const caf::error& why) { refused(ticket, why); });
}

void client_connection::report(std::uint64_t ticket, remote_answer answer) {
  anon(owner_, carried{connection_, ticket,
                       std::make_shared<remote_answer>(std::move(answer))});
}

void client_connection::refused(std::uint64_t ticket, const caf::error& why) {
  if (is_ours(why))
    report(ticket, {from_caf(system(), why)});
  else
    lose({errc::unavailable,
          "the gateway does not answer any more: " + render(system(), why),
          {}});
}

void client_connection::lose(gd::error why) {
  if (lost_)
    return;
  lost_ = std::move(why);
  // News of a remote node's end overtake its last answers.
  post(this, this, tick{});
}

// -- the remote client --------------------------------------------------------

remote_client::remote_client(caf::actor_config& cfg,
                             std::vector<std::string> addresses,
                             reach_options how, held_gateway first,
                             std::size_t at,
                             std::shared_ptr<connected_node> remote)
  : remote_client_impl::base(cfg),
    addresses_(std::move(addresses)),
    how_(std::move(how)),
    first_(std::move(first)),
    at_(at),
    box_(settings_of(how_, addresses_.size(), at)),
    remote_(std::move(remote)) {
  if (first_.handle) // known as soon as this is spawned
    remote_->set(first_.handle->node());
}

remote_client::behavior_type remote_client::make_behavior() {
  refuse_unknown(this);
  if (first_.handle)
    connected(std::exchange(first_, {}));
  drive();
  return requests::handled_by<behavior_type>(
    [this](auto row, auto& x) {
    return take<typename decltype(row)::answer>(x);
    },
    [this](tick x) {
    if (alarm_.rings(x))
      drive();
  },
    [this](const dialled& x) {
    if (*x.what)
      connected(**x.what);
    else
      failed(x.what->error());
    drive();
    }, [this](carried& x) { finish(x); },
    [this](cut& x) {
    if (x.connection != box_.connection())
      return;
    answer_all(box_.lost(x.connection, x.why, system().clock().now()));
    let_go(x.why);
    drive();
    }, [this](hang_up) { quit(); });
}

void remote_client::on_exit() {
  answer_all(box_.stop());
  if (client_connection_)
    caf::anon_send_exit(client_connection_, caf::exit_reason::user_shutdown);
  client_connection_ = nullptr;
  connection_ = nullptr;
  remote_->set({});
}

template <class Answer, class Request>
caf::result<Answer> remote_client::take(Request& x) {
  auto ticket = ++tickets_;
  auto what = pending_request_of(x, trusted(how_));
  if (auto ok = box_.add(ticket, what, system().clock().now()); !ok)
    return to_caf(ok.error());
  auto promise = make_response_promise<Answer>();
  asked_.emplace(ticket, asked{std::make_shared<const remote_request>(
                                 remote_request{std::move(x)}),
                               [promise](remote_answer& y) mutable {
    if (auto* said = std::get_if<Answer>(&y.what))
      promise.deliver(std::move(*said));
    else
      promise.deliver(to_caf(std::get<gd::error>(y.what)));
                               }});
  drive();
  return promise;
}

void remote_client::answer(std::uint64_t ticket, remote_answer what) {
  if (auto found = asked_.extract(ticket); !found.empty())
    found.mapped().answer(what);
}

void remote_client::answer_all(std::vector<request_queue::ended> who) {
  for (auto& x : who)
    answer(x.ticket, {std::move(x.why)});
}

void remote_client::finish(carried& x) {
  auto* why = std::get_if<gd::error>(&x.answer->what);
  auto now = system().clock().now();
  if (auto of = box_.answered(x.connection, x.ticket, why, now)) {
    if (why)
      *why = corrected(std::move(*why), *of);
    else
      std::visit([&of](auto& said) { correct(said, *of); }, x.answer->what);
    answer(x.ticket, std::move(*x.answer));
  }
  drive();
}

// -- connections --------------------------------------------------------------

void remote_client::connected(held_gateway to) {
  auto connection = box_.connected(system().clock().now());
  connection_ = std::move(to.connection);
  remote_->set(to.handle->node());
  client_connection_ = system().spawn<client_connection>(
    std::move(to.handle), connection, caf::actor_cast<caf::actor>(this));
  complaints_.forget();
  how_.on_event(events::gateway_reached{addresses_[at_]});
}

void remote_client::failed(const error& why) {
  box_.failed(why, system().clock().now());
  complain(why);
}

void remote_client::let_go(const error& why) {
  caf::anon_send_exit(client_connection_, caf::exit_reason::user_shutdown);
  client_connection_ = nullptr;
  connection_ = nullptr;
  remote_->set({});
  complain(why);
}

void remote_client::complain(const error& why) {
  auto now = system().clock().now();
  if (auto times = complaints_.note(why.message, now); times > 0)
    how_.on_event(
      events::gateway_lost{addresses_[at_], why, box_.retry_in(now), times});
}

void remote_client::connect(std::size_t address) {
  at_ = address;
  dial(weak_ref{this}, system(), addresses_[address], how_.secret,
       how_.connect_timeout);
}

void remote_client::drive() {
  auto now = system().clock().now();
  auto todo = box_.step(now);
  if (todo.let_go)
    let_go(*todo.let_go);
  answer_all(std::move(todo.told));
  if (todo.connect)
    connect(*todo.connect);
  if (todo.ping)
    anon(client_connection_, carry{});
  for (auto ticket : todo.send) {
    auto& what = asked_.at(ticket).what;
    if (auto left = box_.time_left(ticket, now))
      what = shortened(*what, *left);
    anon(client_connection_, carry{ticket, what});
  }
  alarm_.set(this, box_.due());
}

} // namespace gd::actors
