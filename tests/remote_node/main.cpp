/// A node of CAF in a process of its own, for tests of the published gateway.
/// Reads a command per line and answers each with a line; see `commands`.

#include "../support/connect.hpp"

#include "samples.hpp"

#include <gd/actors/remote.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <string>
#include <utility>

/// What the other node has never heard of.
struct stranger {
  std::int32_t n = 0;
  GD_STATE(stranger, n);
};

CAF_BEGIN_TYPE_ID_BLOCK(remote_node, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(remote_node, (stranger))
CAF_END_TYPE_ID_BLOCK(remote_node)

namespace {

using namespace gd::test;
using namespace std::chrono_literals;

struct config : caf::actor_system_config {
  config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
    gd::actors::register_types<caf::id_block::remote_node>(*this);
  }
};

class remote_node {
public:
  explicit remote_node(caf::actor_system& sys) : sys_(sys), self_(sys) {
    // nop
  }

  void run() {
    std::string line;
    while (std::getline(std::cin, line)) {
      auto space = std::min(line.find(' '), line.size());
      auto rest = line.substr(std::min(space + 1, line.size()));
      auto found = commands_.find(line.substr(0, space));
      std::cout << (found != commands_.end() ? found->second(rest)
                                             : "unknown command")
                << std::endl;
    }
  }

private:
  template <class Answer, class Request>
  gd::result<Answer> ask(Request x) {
    gd::result<Answer> answer = gd::error{};
    gd::actors::request_from(self_.ptr(), gateway_, timeout_, std::move(x))
      .receive(
        [&](Answer& y) {
      answer = std::move(y);
      sender_ = self_->current_sender();
        },
        [&](caf::error& why) { answer = gd::actors::from_caf(sys_, why); });
    return answer;
  }

  /// Takes the request as JSON.
  template <class Answer, class Request>
  std::string ask_json(const std::string& text) {
    auto x = gd::from_json_strict<Request>(text);
    return x ? show(ask<Answer>(std::move(*x))) : show(x.error());
  }

  template <class Request, class Answer>
  std::string sample_of(const std::string& what) {
    for (unsigned seed = 0; seed < samples_of_each; ++seed) {
      auto answer = ask<Answer>(sample<Request>(seed));
      auto expected = sample<Answer>(seed);
      if (!answer || !(*answer == expected))
        return what + " " + std::to_string(seed) + ": expected "
               + show(expected) + ", got " + show(answer);
    }
    return {};
  }

  std::string samples(const std::string&) {
    auto why = sample_of<gd::insert, gd::inserted>("insert");
    if (why.empty())
      why = sample_of<gd::insert_all, gd::inserted_all>("insert_all");
    if (why.empty())
      why = sample_of<gd::signal, gd::signalled>("signal");
    if (why.empty())
      why = sample_of<gd::transition, gd::transitioned>("transition");
    if (why.empty())
      why = sample_of<gd::look_up, gd::instance>("look_up");
    if (why.empty())
      why = sample_of<gd::await_result, gd::awaited>("await_result");
    if (why.empty())
      why = sample_of<gd::stats_query, gd::stats>("stats_query");
    if (why.empty())
      why = sample_of<gd::history_query, gd::history_page>("history_query");
    if (why.empty())
      why = sample_of<gd::in_step_query, gd::in_step_page>("in_step_query");
    if (why.empty())
      why = sample_of<gd::why_query, gd::why>("why_query");
    return why.empty() ? "ok" : why;
  }

  std::string connect(const std::string& endpoint) {
    auto found = gd::test::connect(sys_, endpoint, timeout_, 60s);
    if (!found)
      return show(found.error());
    gateway_ = *found;
    return "ok";
  }

  caf::actor untyped() const {
    return caf::actor_cast<caf::actor>(gateway_);
  }

  template <class... Ts>
  std::string ask_untyped(Ts... xs) {
    std::string answer;
    gd::actors::request_from(self_.ptr(), untyped(), timeout_, std::move(xs)...)
      .receive([&] { answer = "a message"; },
               [&](caf::error& why) {
      answer = gd::actors::render(sys_, why);
      });
    return answer;
  }

  /// Sends everything that ends other actors.
  std::string attack(const std::string&) {
    for (auto reason : {caf::exit_reason::kill, caf::exit_reason::user_shutdown,
                        caf::exit_reason::remote_link_unreachable})
      caf::anon_send_exit(gateway_, reason);
    auto why = caf::make_error(caf::sec::runtime_error);
    gd::actors::anon(untyped(), why);
    gd::actors::anon(untyped(), caf::down_msg{gateway_.address(), why});
    gd::actors::anon(untyped(), caf::exit_msg{gateway_.address(), why});
    caf::anon_send_exit(caf::actor_cast<caf::actor>(sender_),
                        caf::exit_reason::kill);
    sys_.spawn([to = gateway_](caf::event_based_actor* self) {
      self->link_to(to);
      self->quit(caf::exit_reason::kill);
    });
    return "ok";
  }

  /// Sends that many inserts at once, says so when the gateway has them all, and
  /// answers when the last of them is answered.
  std::string flood(const std::string& count) {
    return flood_with<gd::inserted>(count, gd::insert{.fsm = "Probe"},
                                    "inserted");
  }

  /// The same with look-ups of the first instance.
  std::string greedy(const std::string& count) {
    return flood_with<gd::instance>(count, gd::look_up{1}, "found");
  }

  template <class Answer, class Request>
  std::string flood_with(const std::string& count, const Request& what,
                         const std::string& success) {
    auto left = std::stoi(count);
    std::map<std::string, int> ends;
    std::promise<void> done;
    sys_.spawn([&, to = gateway_](caf::event_based_actor* self) {
      auto end = [&ends, &left, &done](const std::string& how) {
        ++ends[how];
        if (--left == 0)
          done.set_value();
      };
      for (auto n = left; n > 0; --n)
        gd::actors::request_from(self, to, timeout_, what)
          .then([end, success](const Answer&) { end(success); },
                [end, this](const caf::error& why) {
          end(gd::actors::is_ours(why)
                ? std::string{to_string(gd::actors::from_caf(sys_, why).code)}
                : "lost");
          });
      // The one question that is answered, or refused, at once, after what came
      // before it.
      gd::actors::request_from(self, to, timeout_, gd::insert_all{})
        .then([](const gd::inserted_all&) { std::cout << "sent" << std::endl; },
              [](const caf::error& why) {
        std::cout << (gd::actors::is_ours(why) ? "sent" : "not sent")
                  << std::endl;
        });
    });
    done.get_future().wait();
    std::string line;
    for (const auto& [how, times] : ends)
      line += (line.empty() ? "" : " ") + how + " " + std::to_string(times);
    return line;
  }

  caf::actor_system& sys_;
  caf::scoped_actor self_;
  gd::actors::gateway gateway_;
  /// Who has sent the last answer.
  caf::strong_actor_ptr sender_;
  std::chrono::milliseconds timeout_ = 60s;

  using command = std::function<std::string(const std::string&)>;
  const std::map<std::string, command> commands_{
    {"connect", [this](auto& x) { return connect(x); }},
    {"timeout",
     [this](auto& ms) {
    timeout_ = std::chrono::milliseconds{std::stoi(ms)};
    return "ok";
     }},
    {"samples", [this](auto& x) { return samples(x); }},
    {"insert",
     [this](auto& x) { return ask_json<gd::inserted, gd::insert>(x); }},
    {"insert_all",
     [this](auto& x) { return ask_json<gd::inserted_all, gd::insert_all>(x); }},
    {"signal",
     [this](auto& x) { return ask_json<gd::signalled, gd::signal>(x); }},
    {"transition",
     [this](auto& x) { return ask_json<gd::transitioned, gd::transition>(x); }},
    {"look_up",
     [this](auto& x) { return ask_json<gd::instance, gd::look_up>(x); }},
    {"await_result",
     [this](auto& x) { return ask_json<gd::awaited, gd::await_result>(x); }},
    {"stats_query",
     [this](auto& x) { return ask_json<gd::stats, gd::stats_query>(x); }},
    {"history_query",
     [this](auto& x) {
    return ask_json<gd::history_page, gd::history_query>(x);
     }},
    {"unexpected",
     [this](auto& x) { return ask_untyped(x, std::int32_t{42}); }},
    {"stranger", [this](auto&) { return ask_untyped(stranger{42}); }},
    {"attack", [this](auto& x) { return attack(x); }},
    {"flood", [this](auto& x) { return flood(x); }},
    {"greedy", [this](auto& x) { return greedy(x); }},
    };
};

void caf_main(caf::actor_system& sys, const config&) {
  remote_node{sys}.run();
}

} // namespace

CAF_MAIN()
