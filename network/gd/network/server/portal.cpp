#include <gd/network/server/portal.hpp>

#include <gd/actors/node/self.hpp>
#include <gd/network/wire/size.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace gd::actors {

namespace {

/// How soon a peer with something unread is looked at again.
constexpr std::chrono::milliseconds ask_interval{100};

/// A token ends executions (`link::outcome`): a peer learns who runs what, and not under
/// which token.
void hide(gd::instance& x) {
  if (x.locked_by)
    for (int i = 0; i < 2; ++i)
      x.locked_by->resize(
        std::min(x.locked_by->rfind('/'), x.locked_by->size()));
}
template <class T>
void hide(const T&) {
  // nop
}

caf::error reads_nothing(std::size_t most) {
  return to_caf({errc::overloaded,
                 "the answers that this node has not read are too many: "
                 "expected at most "
                   + std::to_string(most) + " bytes",
                 {}});
}

caf::error too_many_open(std::size_t most) {
  return to_caf({errc::overloaded,
                 "this node has asked for too much that is not answered yet: "
                 "expected at most "
                   + std::to_string(most) + " requests",
                 {}});
}

} // namespace

gateway_portal::gateway_portal(caf::actor_config& cfg, gateway door,
                               std::shared_ptr<std::promise<void>> closed,
                               portal_network network)
  : sturdy(cfg),
    door_(std::move(door)),
    closed_(std::move(closed)),
    network_(std::move(network)) {
  // nop
}

caf::node_id gateway_portal::take_message() {
  const auto& from = current_sender();
  auto x = from ? from->node() : node();
  network_.taken(x);
  return x;
}

bool gateway_portal::may_send(const caf::node_id& to, std::size_t bytes) {
  auto found = peers_.find(to);
  if (found == peers_.end())
    return true;
  const auto& x = found->second;
  auto unread = x.unread + (x.sent - x.asked_at);
  return unread == 0 || unread + bytes <= network_.most_unread;
}

void gateway_portal::sent(const caf::node_id& to, std::size_t bytes) {
  peers_[to].sent += bytes;
  unread_ += bytes;
  ask_unread(to);
}

void gateway_portal::ask_unread(const caf::node_id& of) {
  auto& x = peers_[of];
  if (x.asking)
    return;
  x.asking = true;
  // What has been sent before is there before the question.
  network_.ask_unread(
    of, [self = weak_ref{this}, of, sent = x.sent](std::size_t unread) {
      self.tell(peer_unread{of, sent, unread});
    });
}

void gateway_portal::read_unread(const peer_unread& what) {
  auto& x = peers_[what.peer];
  x.asking = false;
  unread_ -= x.unread + (what.sent - x.asked_at);
  unread_ += what.unread;
  x.unread = what.unread;
  x.asked_at = what.sent;
  keep_to_unread();
  if (x.unread == 0 && x.sent == x.asked_at && x.open == 0)
    peers_.erase(what.peer);
  else if (x.sent != x.asked_at)
    ask_unread(what.peer);
  else if (x.unread > 0 && !std::exchange(asks_again_, true))
    send_self_after(this, ask_interval, tick{});
}

void gateway_portal::keep_to_unread() {
  if (unread_ <= 2 * network_.most_unread)
    return;
  // By what was there when they were asked: those that read have nothing then.
  auto worst = std::max_element(peers_.begin(), peers_.end(),
                                [](const auto& x, const auto& y) {
    return x.second.unread < y.second.unread;
  });
  network_.cut_off(worst->first);
  unread_ -= std::exchange(worst->second.unread, 0);
}

template <class Row>
caf::result<typename Row::answer> gateway_portal::pass(typename Row::asked& x) {
  using answer_type = typename Row::answer;
  auto to = take_message();
  if (!may_send(to, bytes_of_message)) {
    ask_unread(to);
    return reads_nothing(network_.most_unread);
  }
  if (peers_[to].open >= network_.most_open) {
    sent(to, bytes_of_message);
    return too_many_open(network_.most_open);
  }
  ++peers_[to].open;
  auto promise = make_response_promise<answer_type>();
  auto ticket = ++tickets_;
  open_.emplace(
    ticket, [promise](const caf::error& why) mutable { promise.deliver(why); });
  // Without a timeout: the worker answers everything, also when it dies, and
  // CAF answers for a mailbox that is gone.
  request_from(this, door_, caf::infinite, std::move(x))
    .then(
      [this, promise, ticket, to](answer_type& answer) mutable {
    --peers_[to].open;
    if (open_.erase(ticket) == 0)
      return;
    hide(answer);
    auto bytes = bytes_of_message + about_bytes(answer);
    // What has happened is told; what was only read may be asked again.
    if (Row::reads && !may_send(to, bytes)) {
      bytes = bytes_of_message;
      promise.deliver(reads_nothing(network_.most_unread));
    } else {
      promise.deliver(std::move(answer));
    }
    sent(to, bytes);
      },
      [this, ticket, to](const caf::error& why) {
    --peers_[to].open;
    auto found = open_.extract(ticket);
    if (found.empty())
      return;
    found.mapped()(
      is_ours(why)
        ? why
        : to_caf(
          {errc::unavailable, "the gateway is down; nothing was done", {}}));
    sent(to, bytes_of_message);
    });
  return promise;
}

gateway_portal::behavior_type gateway_portal::make_behavior() {
  refuse_unknown();
  return requests::handled_by<behavior_type>(
    [this](auto row, auto& x) { return pass<decltype(row)>(x); },
    [this](link_message& x) {
    const auto& from = current_sender();
    auto who = from ? from->node() : node();
    // Out of this mailbox it is in another one.
    std::shared_ptr<void> taken{
      nullptr, [tell = network_.taken, who](void*) { tell(who); }};
    if (auto links = network_.find_links(); from && links)
      anon(links, link_arrived{from, std::move(x), std::move(taken)});
    },
    [this](rows_due& x) -> caf::result<rows_noted> {
      auto to = take_message();
      if (!may_send(to, bytes_of_message)) {
        ask_unread(to);
        return reads_nothing(network_.most_unread);
      }
      sent(to, bytes_of_message);
      network_.on_rows_due(std::move(x));
      return rows_noted{};
    },
    [this](close_portal) { quit(); },
    [this](peer_unread& x) { read_unread(x); },
    [this](tick) {
    asks_again_ = false;
    for (const auto& [of, x] : peers_)
      ask_unread(of);
  });
}

void gateway_portal::on_exit() {
  auto why = to_caf({errc::unknown_fate,
                     "the engine has stopped; what was asked "
                     "may or may not have happened",
                     {}});
  for (auto& [ticket, refuse] : open_)
    refuse(why);
  open_.clear();
  door_ = nullptr;
  closed_->set_value();
}

} // namespace gd::actors
