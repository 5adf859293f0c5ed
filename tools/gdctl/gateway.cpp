#include "service.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>
#include <gd/network/wire/secret.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <optional>
#include <variant>

namespace gdctl {

namespace {

using namespace std::chrono_literals;

struct network_config : caf::actor_system_config {
  network_config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
  }
};

void tell(const gd::event& what) {
  if (std::holds_alternative<gd::events::gateway_lost>(what))
    complain(fmt::format("gdctl: {}\n", gd::printable(gd::describe(what))));
}

class gateway_service : public service {
public:
  gd::result<void> open(const std::vector<std::string>& addresses,
                        const std::string& secret) {
    auto found = gd::actors::reach(sys_, addresses,
                                   {.secret = secret,
                                    .connect_timeout = 5s,
                                    .connect_first = true,
                                    .on_event = tell});
    if (!found)
      return found.error();
    remote_.emplace(std::move(*found));
    return {};
  }

  std::vector<gd::result<gd::inserted>>
  insert_all(std::vector<gd::insert> rows) override {
    return ask_all<gd::inserted>(std::move(rows));
  }
  std::vector<gd::result<gd::signalled>>
  signal_all(std::vector<gd::signal> signals) override {
    return ask_all<gd::signalled>(std::move(signals));
  }
  gd::result<gd::transitioned> transition(gd::transition what) override {
    return ask<gd::transitioned>(std::move(what));
  }
  gd::result<gd::instance> look_up(const gd::look_up& what) override {
    return ask<gd::instance>(what);
  }
  gd::result<gd::awaited> await_result(const gd::await_result& what) override {
    return ask<gd::awaited>(what);
  }
  gd::result<gd::why> why(const gd::why_query& what) override {
    return ask<gd::why>(what);
  }
  gd::result<std::vector<gd::ledger_entry>>
  history(const gd::history_query& what) override {
    return rows_of(ask<gd::history_page>(what));
  }
  gd::result<std::vector<gd::stats_row>> stats() override {
    return rows_of(ask<gd::stats>(gd::stats_query{}));
  }
  gd::result<std::optional<std::string>> unknown(const gd::filter&) override {
    return std::optional<std::string>{};
  }
  gd::result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::insert>& rows) override {
    return std::vector<std::optional<std::string>>(rows.size());
  }
  gd::result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::signal>& signals) override {
    return std::vector<std::optional<std::string>>(signals.size());
  }

private:
  /// Asks all at once, and waits for all answers: each comes.
  template <class Answer, class Request>
  std::vector<gd::result<Answer>> ask_all(std::vector<Request> xs) {
    std::vector<gd::result<Answer>> answers(
      xs.size(), gd::error{gd::errc::unknown_fate, "no answer", {}});
    if (xs.empty())
      return answers;
    auto done = std::make_shared<std::promise<void>>();
    auto left = xs.size();
    sys_.spawn([&, done](caf::event_based_actor* self) {
      for (std::size_t i = 0; i < xs.size(); ++i) {
        auto end = [&, done, i](gd::result<Answer> answer) {
          answers[i] = std::move(answer);
          if (--left == 0)
            done->set_value();
        };
        gd::actors::request_from(self, remote_->gateway(), caf::infinite,
                                 std::move(xs[i]))
          .then([end](Answer& x) { end(std::move(x)); },
                [end, self](const caf::error& why) {
          end(gd::actors::from_caf(self->system(), why));
          });
      }
    });
    done->get_future().wait();
    return answers;
  }

  template <class Answer, class Request>
  gd::result<Answer> ask(Request x) {
    std::vector<Request> one;
    one.push_back(std::move(x));
    return std::move(ask_all<Answer>(std::move(one)).front());
  }

  template <class Page>
  static gd::result<decltype(Page::rows)> rows_of(gd::result<Page> page) {
    if (!page)
      return page.error();
    return std::move(page->rows);
  }

  network_config cfg_;
  caf::actor_system sys_{cfg_};
  std::optional<gd::actors::remote_gateway> remote_;
};

} // namespace

gd::result<std::unique_ptr<service>>
open_gateway(const std::vector<std::string>& addresses,
             const std::string& secret) {
  auto found = std::make_unique<gateway_service>();
  if (auto ok = found->open(addresses, secret); !ok)
    return ok.error();
  return std::unique_ptr<service>{std::move(found)};
}

gd::result<void> make_secret(const std::string& file) {
  return gd::actors::shared_secret::make(file);
}

} // namespace gdctl
