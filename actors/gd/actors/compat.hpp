#pragma once

/// \file
/// CAF 0.17.6 (Debian 12) and CAF 1.x, told apart here and nowhere else. The
/// actors keep to this vocabulary.

/// \cond

// CAF_VERSION cannot be used: on 1.1.0 it is an octal literal.
#if __has_include(<caf/anon_mail.hpp>)
#  define GD_CAF_017 0
#  include <caf/anon_mail.hpp>
#  include <caf/init_global_meta_objects.hpp>
#else
#  define GD_CAF_017 1
#  include <caf/send.hpp>
#endif

/// \endcond

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/error.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>
#include <caf/system_messages.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include <gd/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

/// \cond

// -- gd::errc as an error code of CAF -----------------------------------------

#if GD_CAF_017
CAF_ERROR_CODE_ENUM(gd::errc, "gd")
#else
CAF_ERROR_CODE_ENUM(gd::errc)
namespace gd {
bool from_string(std::string_view name, errc& x);
bool from_integer(std::uint8_t value, errc& x);
template <class Inspector>
bool inspect(Inspector& f, errc& x) {
  if (f.has_human_readable_format())
    return f.apply([&x] { return std::string{to_string(x)}; },
                   [&x](const std::string& name) {
      return from_string(name, x);
    });
  return f.apply([&x] { return static_cast<std::uint8_t>(x); },
                 [&x](std::uint8_t value) { return from_integer(value, x); });
}
} // namespace gd
#endif

/// \endcond

namespace gd::actors {

/// The one bridge between the error types.
caf::error to_caf(const gd::error& why);

/// Whether `to_caf` made it.
bool is_ours(const caf::error& why);

/// The other way, for programs that want the code; errors that are not ours
/// (a timeout, a receiver that is gone) become `unknown_fate` with CAF's text.
gd::error from_caf(caf::actor_system& sys, const caf::error& why);

/// An error as text, ours or CAF's.
std::string render(caf::actor_system& sys, const caf::error& why);

// -- typed interfaces ---------------------------------------------------------

namespace detail {

template <class>
struct signature;

#if GD_CAF_017
template <class R, class... Args>
struct signature<R(Args...)> {
  using type = typename caf::replies_to<Args...>::template with<R>;
};
template <class... Args>
struct signature<void(Args...)> {
  using type = caf::reacts_to<Args...>;
};
#else
template <class R, class... Args>
struct signature<R(Args...)> {
  using type = caf::result<R>(Args...);
};
#endif

} // namespace detail

/// The typed actor that answers `Answer(Request)` for each signature, in either CAF.
template <class... Signatures>
using typed_actor
  = caf::typed_actor<typename detail::signature<Signatures>::type...>;

/// \cond

template <class Base, class... Signatures>
using extended = typename Base::template extend<
  typename detail::signature<Signatures>::type...>;

// -- sending ------------------------------------------------------------------

#if GD_CAF_017
template <class Self, class Dest, class... Ts>
void post(Self* self, const Dest& dest, Ts&&... xs) {
  self->send(dest, std::forward<Ts>(xs)...);
}
template <class Dest, class... Ts>
void anon(const Dest& dest, Ts&&... xs) {
  caf::anon_send(dest, std::forward<Ts>(xs)...);
}
template <class Self, class Duration, class T>
void send_self_after(Self* self, Duration delay, T&& x) {
  self->delayed_send(self, delay, std::forward<T>(x));
}
template <class Self, class Dest, class T>
auto forward_to(Self* self, const Dest& dest, T&& x) {
  return self->delegate(dest, std::forward<T>(x));
}
/// The answer comes by `.then`, in a blocking actor by `.receive`.
template <class Self, class Dest, class Timeout, class... Ts>
auto request_from(Self* self, const Dest& dest, Timeout timeout, Ts&&... xs) {
  return self->request(dest, timeout, std::forward<Ts>(xs)...);
}
#else
template <class Self, class Dest, class... Ts>
void post(Self* self, const Dest& dest, Ts&&... xs) {
  self->mail(std::forward<Ts>(xs)...).send(dest);
}
template <class Dest, class... Ts>
void anon(const Dest& dest, Ts&&... xs) {
  caf::anon_mail(std::forward<Ts>(xs)...).send(dest);
}
template <class Self, class Duration, class T>
void send_self_after(Self* self, Duration delay, T&& x) {
  self->mail(std::forward<T>(x)).delay(delay).send(self);
}
template <class Self, class Dest, class T>
auto forward_to(Self* self, const Dest& dest, T&& x) {
  return self->mail(std::forward<T>(x)).delegate(dest);
}
template <class Self, class Dest, class Timeout, class... Ts>
auto request_from(Self* self, const Dest& dest, Timeout timeout, Ts&&... xs) {
  return self->mail(std::forward<Ts>(xs)...).request(dest, timeout);
}
#endif

// -- monitoring ---------------------------------------------------------------

/// Calls back, once, when a watched actor is down.
class watcher {
public:
  using callback = std::function<void(const caf::error&)>;

#if GD_CAF_017
  /// First thing in `make_behavior`: there is one down handler per actor.
  template <class Self>
  void install(Self* self) {
    self->set_down_handler([this](caf::down_msg& x) {
      auto found = watched_.find(x.source);
      if (found == watched_.end())
        return;
      auto f = std::move(found->second);
      watched_.erase(found);
      f(x.reason);
    });
  }
  template <class Self, class Handle>
  void watch(Self* self, const Handle& x, callback f) {
    watched_.emplace(x->address(), std::move(f));
    self->monitor(x);
  }

private:
  std::unordered_map<caf::actor_addr, callback> watched_;
#else
  template <class Self>
  void install(Self*) {
    // nop
  }
  template <class Self, class Handle>
  void watch(Self* self, const Handle& x, callback f) {
    self->monitor(x, std::move(f));
  }
#endif
};

// -- strangers ----------------------------------------------------------------

/// Messages that `self` does not know are refused without a word: CAF would print
/// them, with all that they hold.
template <class Self>
void refuse_unknown(Self* self) {
#if !GD_CAF_017
#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
  self->set_default_handler(caf::drop);
#if !GD_CAF_017
#  pragma GCC diagnostic pop
#endif
}

/// An actor that strangers may write to: what ends others (exit messages, kill,
/// plain errors) never reaches it, and what it does not know is refused without
/// a word. It ends by its own `quit` alone.
template <class Base>
class sturdy : public Base {
public:
  using Base::Base;
  using Base::enqueue;

#if GD_CAF_017
  void enqueue(caf::mailbox_element_ptr x,
               caf::execution_unit* context) override {
    if (!is_kept_out(*x))
      Base::enqueue(std::move(x), context);
  }
#else
  bool enqueue(caf::mailbox_element_ptr x, caf::scheduler* context) override {
    return is_kept_out(*x) || Base::enqueue(std::move(x), context);
  }
#endif

protected:
  /// First thing in `make_behavior`.
  void refuse_unknown() {
    actors::refuse_unknown(this);
  }

  /// Why a message does not come into the mailbox; none: it does, if it ends nobody. Called
  /// for each, by the thread of whoever sends it.
  virtual caf::error refusal(const caf::mailbox_element&) {
    return {};
  }

private:
  bool is_kept_out(const caf::mailbox_element& x) {
    auto why = refusal(x);
    if (ends(x))
      return true;
    if (why && x.sender && x.mid.is_request())
      answer(x, why);
    return static_cast<bool>(why);
  }

  static void answer(const caf::mailbox_element& x, const caf::error& why) {
#if GD_CAF_017
    x.sender->enqueue(nullptr, x.mid.response_id(), caf::make_message(why),
                      nullptr);
#else
    x.sender->enqueue(
      caf::make_mailbox_element(nullptr, x.mid.response_id(), why), nullptr);
#endif
  }

  static bool ends(const caf::mailbox_element& x) {
    const auto& content = x.content();
    return !x.mid.is_response() // an answer may be an error
           && (content.template match_elements<caf::exit_msg>()
               || content.template match_elements<caf::down_msg>()
               || content.template match_elements<caf::error>());
  }
};

// -- yielding -----------------------------------------------------------------

/// An actor that gives its thread back after each message. Others of CAF's go on
/// for as long as their mailbox is not empty, also if what is in it is their own.
template <class Base>
class yielding : public Base {
public:
  using Base::Base;

#if GD_CAF_017
  caf::resumable::resume_result resume(caf::execution_unit* context,
                                       std::size_t) override {
    return Base::resume(context, 1);
  }
#else
  caf::resumable::resume_result resume(caf::scheduler* context,
                                       std::size_t) override {
    return Base::resume(context, 1);
  }
#endif
};

// -- short lives --------------------------------------------------------------

/// How many actors of a system run at the same time.
std::size_t scheduler_threads(caf::actor_system& sys);

/// How many of those may run user code: one thread is left for everybody else.
inline std::size_t runners_at_most(caf::actor_system& sys) {
  return std::max(scheduler_threads(sys), std::size_t{2}) - 1;
}

/// An actor that does everything when it starts, and returns no behavior. It is
/// spawned with the options `brief`, started by `run_inside`, and known to
/// nobody else.
class brief_actor : public caf::event_based_actor {
public:
  using caf::event_based_actor::event_based_actor;

#if GD_CAF_017
  /// As everywhere, but for what it has not: timeouts to be canceled, which would
  /// wake the clock's thread, and a mailbox that anybody has written to.
  bool cleanup(caf::error&& why, caf::execution_unit* host) override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): the parents' is left out.
    return caf::monitorable_actor::cleanup(std::move(why), host);
  }
#endif
};

constexpr auto brief = caf::lazy_init + caf::hidden;

/// Runs it in the place of `self`, on its thread, and returns why it ended.
template <class Self>
caf::error run_inside(Self* self, const caf::actor& x) {
  auto& one = *static_cast<brief_actor*>(
    caf::actor_cast<caf::abstract_actor*>(x));
  one.resume(self->context(), 1);
  return one.fail_state();
}

// -- names and bytes ----------------------------------------------------------

/// As CAF's registry and its middleman know an actor.
template <std::size_t N>
auto registered_name(const char (&name)[N]) {
#if GD_CAF_017
  return caf::atom(name);
#else
  return std::string{name};
#endif
}

/// Reads what CAF has written; false: those bytes are no T.
template <class T>
bool read_bytes(caf::actor_system& sys, std::string_view bytes, T& x) {
  caf::binary_deserializer from{sys, bytes.data(), bytes.size()};
#if GD_CAF_017
  return !from(x);
#else
  return from.apply(x);
#endif
}

// -- registration -------------------------------------------------------------

#if GD_CAF_017
template <class Block>
void register_types(caf::actor_system_config& cfg) {
  cfg.add_message_types<Block>();
}
template <class Module>
void load_module(caf::actor_system_config& cfg) {
  cfg.load<Module>();
}
#else
template <class Block>
void register_types(caf::actor_system_config&) {
  caf::core::init_global_meta_objects(); // CAF_MAIN does it, other programs not
  caf::init_global_meta_objects<Block>();
}
template <class Module>
void load_module(caf::actor_system_config& cfg) {
  Module::init_global_meta_objects();
  cfg.load<Module>();
}
#endif

/// Makes workers take their actors from one queue, unless a later setting says
/// otherwise.
void share_work(caf::actor_system_config& cfg);

/// Makes CAF's thread for the network read some of a connection and go on with the next, and
/// end none for silence, which is found by who stands between it and the peers; unless a later
/// setting says otherwise.
void prepare_network(caf::actor_system_config& cfg);

/// Makes `render` show our errors.
void register_errors(caf::actor_system_config& cfg);

// -- options ------------------------------------------------------------------

/// What an option's value is as a T; nullopt: it is none.
template <class T>
std::optional<T> value_as(const caf::config_value& x) {
#if GD_CAF_017
  if (auto value = caf::get_if<T>(&x))
#else
  if (auto value = caf::get_as<T>(x))
#endif
    return *value;
  return std::nullopt;
}

/// Where a program's own options are.
caf::config_option_set& options_of(caf::actor_system_config& cfg);

/// \endcond

} // namespace gd::actors
