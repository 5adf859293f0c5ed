#pragma once

#include <gd/actors/compat.hpp>

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/operate.hpp>

#include <caf/result.hpp>

#include <utility>
#include <variant>

/// \file
/// What a gateway is asked, and what it answers: the one list of both. The gateway's type,
/// those who stand before it, and what crosses the network are made of it.
namespace gd::actors {

/// \cond

// `acts`: asked again, it may happen a second time. `reads`: nothing happens.
// clang-format off
#define GD_GATEWAY_REQUESTS(acts, reads)                                       \
  acts(insert, inserted)                                                       \
  acts(insert_all, inserted_all)                                               \
  acts(signal, signalled)                                                      \
  acts(transition, transitioned)                                               \
  reads(look_up, instance)                                                     \
  reads(await_result, awaited)                                                 \
  reads(stats_query, stats)                                                    \
  reads(history_query, history_page)                                           \
  reads(in_step_query, in_step_page)                                           \
  reads(why_query, why)
// clang-format on

/// A row of the list.
template <class Asked, class Answer, bool Reads>
struct request {
  using asked = Asked;
  using answer = Answer;
  static constexpr bool reads = Reads;

  /// Handles such a request as `f` does, which is given the row, too.
  template <class F>
  struct handler {
    F f;
    caf::result<Answer> operator()(Asked& x) const {
      return f(request{}, x);
    }
  };
};

template <class... Rows>
struct request_list;

template <class... Rows>
struct request_list<void, Rows...> {
  /// An actor's that answers all of them.
  using interface = typed_actor<typename Rows::answer(typename Rows::asked)...>;
  using any_request = std::variant<typename Rows::asked...>;
  /// Or why there is none.
  using any_answer = std::variant<error, typename Rows::answer...>;

  /// A behavior in which `f` handles each of them, and `more` the rest.
  template <class Behavior, class F, class... More>
  static Behavior handled_by(F f, More... more) {
    return Behavior{typename Rows::template handler<F>{f}...,
                    std::move(more)...};
  }

  /// Calls `f` with each row.
  template <class F>
  static void for_each(F f) {
    (f(Rows{}), ...);
  }
};

#define GD_ACTS(asked, answer) , request<gd::asked, gd::answer, false>
#define GD_READS(asked, answer) , request<gd::asked, gd::answer, true>
using requests = request_list<void GD_GATEWAY_REQUESTS(GD_ACTS, GD_READS)>;
#undef GD_ACTS
#undef GD_READS

/// \endcond

} // namespace gd::actors
