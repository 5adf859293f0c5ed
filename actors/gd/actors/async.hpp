#pragma once

#include <gd/machine.hpp>

#include <caf/event_based_actor.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

/// \file
/// Steps that deliver their outcome later.
namespace gd::actors {

namespace detail {

/// One execution of an asynchronous step.
class async_run {
public:
  virtual ~async_run() = default;

  virtual void finish(outcome x, const context_base& ctx) = 0;

  /// Nobody is left who could finish it.
  virtual void drop() = 0;
};

/// What the copies of a context have in common.
template <class State>
struct async_share {
  async_share(std::shared_ptr<async_run> of, context<State> ctx)
    : run(std::move(of)), shown(std::move(ctx)) {
    // nop
  }

  async_share(const async_share&) = delete;
  async_share& operator=(const async_share&) = delete;

  ~async_share() {
    run->drop();
  }

  std::shared_ptr<async_run> run;
  context<State> shown;
};

} // namespace detail

/// What an asynchronous step gets: a handle, to be copied into every
/// continuation that may deliver the outcome. When the last copy is gone and
/// none was delivered, that counts as an exception of the step.
template <class State>
class async_context {
public:
  /// Made by the engine.
  async_context(caf::event_based_actor* own,
                std::shared_ptr<detail::async_share<State>> share)
    : self(own), share_(std::move(share)) {
    // nop
  }

  /// The step's own actor: it may request, become, monitor. Not for use outside
  /// of its message handlers.
  caf::event_based_actor* self;

  /// `ctx->state`, `ctx->id`, `ctx->take<T>(name)`: see gd::context.
  context<State>* operator->() const noexcept {
    return &share_->shown;
  }

  /// Delivers the outcome, of any of its types, and ends the actor. The first one
  /// counts. From any thread, if no other one uses the context at that time.
  void finish(outcome x) const {
    share_->run->finish(std::move(x), share_->shown);
  }

  /// The same of one whose type tells its state: another than the machine's does not
  /// compile.
  template <class Outcome, class Other>
  void finish(carries<Outcome, Other> x) const {
    static_assert(std::is_same_v<Other, State>,
                  "this step's outcome has a state of another type than the "
                  "one that gd::define was given");
    share_->run->finish(std::move(x), share_->shown);
  }

private:
  std::shared_ptr<detail::async_share<State>> share_;
};

namespace detail {

class async_starter : public gd::async_function {
public:
  virtual void start(caf::event_based_actor* self,
                     std::shared_ptr<async_run> run, context_base base,
                     const std::string& state) const = 0;
};

template <class State, class F>
class async_body final : public async_starter {
public:
  explicit async_body(F f) : f_(std::move(f)) {
    // nop
  }

  void start(caf::event_based_actor* self, std::shared_ptr<async_run> run,
             context_base base, const std::string& state) const override {
    auto shown = gd::detail::typed_context<State>(std::move(base), state);
    f_(async_context<State>{self, std::make_shared<async_share<State>>(
                                    std::move(run), std::move(shown))});
  }

private:
  mutable F f_;
};

template <class F>
struct async_definition {
  F f;

  template <class State>
  std::shared_ptr<const gd::async_function> bind() && {
    static_assert(
      std::is_invocable_v<F&, async_context<State>>,
      "an asynchronous step is a void(gd::actors::async_context<State>)");
    return std::make_shared<async_body<State, F>>(std::move(f));
  }
};

} // namespace detail

/// Makes a step of `void f(async_context<State>)`, which may return before there
/// is an outcome: `.step(pay, {.limit = 30s}, gd::actors::async(f))`. Each
/// execution has an actor of its own. What its message handlers throw, and an
/// error of a request that nobody handles, count as an exception of the step.
template <class F>
detail::async_definition<F> async(F f) {
  return {std::move(f)};
}

} // namespace gd::actors
