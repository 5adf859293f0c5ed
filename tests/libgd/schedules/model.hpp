#pragma once

#include <libgd/schedules/schedule.hpp>

#include <gd/store/store.hpp>

#include <support/words.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// What must be committed, told by the answers of statements, and what must hold of it.
namespace schedules_suite {

namespace store = gd::store;

using gd::test::text;

inline std::string joined(const std::vector<std::string>& xs) {
  std::string out;
  for (const auto& x : xs)
    out += (out.empty() ? "" : ",") + x;
  return out;
}

/// What the database, or the library, did and must not do.
struct violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds)
    throw violation{what};
}

struct instance_model {
  std::int64_t id = 0; ///< zero: not there
  std::int32_t version = 1;
  std::int64_t priority = 0;
  std::string key{};
  std::set<std::string> scope{};   ///< empty: no unique key
  std::string status = "runnable"; ///< or "deleted"
  std::string step = "s0";
  std::int64_t n = 0; ///< outcomes that have changed its state
  std::int64_t attempt = 0;
  std::int64_t crashes = 0; ///< nobody here holds a node's lock
  std::string token{};
  std::string awaits{};
  std::vector<std::string> awaits_also{};
  std::string woken{}; ///< wake reason
  std::set<std::int64_t> seen{};
  bool deadline = false;
  bool deadline_over = false;
  bool lease_over = false;
  bool eligible = true;
  std::int16_t history = 0;
  std::int64_t seq = 0; ///< transitions that are committed
  std::vector<std::string> entries{};
  /// Of a history with states: where it may be put back to.
  struct place {
    std::int64_t seq = 0;
    std::string step{};
    std::int64_t n = 0;
  };
  std::vector<place> places{};
  bool young = true;    ///< inserted not long ago
  bool expires = false; ///< it is to be deleted some time
  bool expired = false; ///< now

  bool deleted() const {
    return status == "deleted";
  }
  bool finished() const {
    return status == "done" || status == "failed" || deleted();
  }
  int keep_minutes() const {
    return kept_by_version.at(static_cast<std::size_t>(version - 1)).minutes;
  }
  bool takes(const std::string& in) const {
    return scope.contains(in);
  }
  /// Becoming runnable, it may collide: the engine does it one by one.
  bool unsure() const {
    return takes("runnable") && !takes(status);
  }
  bool awaits_any(const std::string& name) const {
    return awaits == name
           || std::count(awaits_also.begin(), awaits_also.end(), name) > 0;
  }
  void await_nothing() {
    awaits.clear();
    awaits_also.clear();
  }
  bool owed() const {
    return status == "awaiting_signal" && !woken.empty();
  }
  /// No signal wakes it.
  bool rests() const {
    return status == "awaiting_signal" && !owed() && awaits.empty();
  }
};

struct signal_model {
  std::int64_t serial = 0;
  std::size_t target = 0;
  std::string name{};
  std::string dedup{};
  std::int64_t id = 0;    ///< known from the first pick that shows it
  bool to_nobody = false; ///< its target was not there when it was sent
  bool consumed = false;
  bool young = true;         ///< sent not long ago
  bool just_consumed = true; ///< not long ago, if it is
};

/// An outcome that a node has decided on, under one lease.
struct decided {
  store::outcome_row row;
  std::int64_t n = 0;
  bool applied = false;
};

/// Everything that is committed.
struct model {
  std::array<instance_model, slot_count> instances{};
  std::vector<signal_model> signals{};
  std::map<std::pair<std::int64_t, std::string>, decided> outcomes{};
  std::int64_t serials = 0;
  bool paused = false; ///< the queue

  std::size_t slot_of(std::int64_t id) const {
    for (std::size_t i = 0; i < slot_count; ++i)
      if (instances[i].id == id && id != 0)
        return i;
    throw violation{"a row that is not there: " + text(id)};
  }
  instance_model& of(std::int64_t id) {
    return instances[slot_of(id)];
  }

  std::vector<signal_model*> inbox(std::size_t slot) {
    std::vector<signal_model*> xs;
    for (auto& x : signals)
      if (x.target == slot && !x.consumed)
        xs.push_back(&x);
    return xs;
  }

  /// Who has the unique key.
  const instance_model* holder() const {
    for (const auto& x : instances)
      if (x.id != 0 && x.takes(x.status))
        return &x;
    return nullptr;
  }

  /// What is known of a transition once the row is as it is behind it.
  struct transition {
    std::string outcome;
    std::string from{};
    std::string token{};
    std::string woken{};
    std::string reason{};
    std::string metadata{};
    std::string by{};
  };

  static transition make_transition(std::string outcome,
                                    const instance_model& from) {
    return {std::move(outcome), from.step, from.token, from.woken};
  }

  static void enter(instance_model& x, const transition& what) {
    if (x.history > 0)
      x.entries.push_back(
        "entry " + text(x.seq) + ": " + what.outcome + ", [" + what.from + "] "
        + x.step + ", attempt " + text(x.attempt) + ", token [" + what.token
        + "], woken [" + what.woken + "], reason [" + what.reason + "], with ["
        + what.metadata + "], by [" + what.by + "], n ["
        + (x.history == 2 ? text(x.n) : "") + "]");
    if (x.history == 2)
      x.places.push_back({x.seq, x.step, x.n});
  }

  static void count(instance_model& x, const transition& what) {
    ++x.seq;
    enter(x, what);
  }

  void end_lease(instance_model& x, const std::string& status) {
    x.status = status;
    x.token.clear();
    x.lease_over = false;
  }

  /// A wake-up is due.
  void wake(instance_model& x, const std::string& reason) {
    if (x.owed())
      return; // the first reason counts
    x.woken = reason;
    if (x.unsure())
      return;
    x.await_nothing();
    x.status = "runnable";
    x.eligible = true;
  }

  /// Neither it nor a signal of its own has come lately.
  bool is_old(const instance_model& x) const {
    auto slot = slot_of(x.id);
    return !x.young
           && std::none_of(signals.begin(), signals.end(),
                           [slot](const auto& s) {
      return s.target == slot && s.young && (!s.consumed || !s.dedup.empty());
              });
  }

  void erase(instance_model& x) {
    auto slot = slot_of(x.id);
    std::erase_if(signals, [slot](const auto& s) { return s.target == slot; });
    x.status = "deleted";
    x.token.clear();
    x.woken.clear();
    x.entries.clear();
    x.places.clear();
    x.await_nothing();
    x.lease_over = x.deadline = x.deadline_over = false;
    x.expires = x.expired = false;
  }

  /// It has ended by an outcome that says for how long it is kept.
  static void keep_for(instance_model& x, int minutes, bool old) {
    x.expires = minutes > 0 || !x.takes(x.status);
    x.expired = x.expires && minutes == 0 && old;
  }

  /// The same by whoever is not its engine.
  static void keep(instance_model& x) {
    auto minutes = x.keep_minutes();
    x.expires = minutes > 0 || (minutes == 0 && !x.takes(x.status));
    x.expired = false;
  }

  /// How it arrives at a step, from outside.
  static void arrive(instance_model& x, const std::string& step) {
    x.step = step;
    x.await_nothing();
    x.deadline = step == resting_step;
    x.deadline_over = false;
    x.status = step == resting_step ? "awaiting_signal"
               : step == final_step ? "done"
                                    : "runnable";
  }

  /// Why it cannot be `status` now: another has its unique key. Zero: nobody has.
  std::int64_t taken_by(const instance_model& x, const std::string& in) const {
    if (!x.takes(in) || x.takes(x.status))
      return 0;
    const auto* other = holder();
    return other != nullptr ? other->id : 0;
  }

  void write(instance_model& x, const decided& what,
             const std::string& new_token, bool erases = false) {
    const auto& row = what.row;
    auto slot = slot_of(x.id);
    bool old = is_old(x);
    auto made = make_transition(std::string{store::to_string(row.what)}, x);
    made.reason = row.failure.value_or(row.reason);
    made.metadata = row.metadata;
    bool keeps = row.what == write_kind::replay || row.what == write_kind::stop
                 || row.what == write_kind::release;
    if (row.what == write_kind::next || row.what == write_kind::advance
        || row.what == write_kind::later || row.what == write_kind::replay
        || row.what == write_kind::await || row.what == write_kind::park
        || row.what == write_kind::finish) {
      require(what.n == x.n + 1,
              "an outcome that does not follow the last one");
      x.n = what.n;
    }
    if (!keeps) {
      x.woken.clear();
      x.deadline = x.deadline_over = false;
    }
    switch (row.what) {
      case write_kind::next:
        end_lease(x, "runnable");
        x.step = row.step;
        x.attempt = 0;
        x.eligible = true;
        break;
      case write_kind::later:
        end_lease(x, "runnable");
        x.step = row.step;
        x.attempt = 0;
        x.eligible = false;
        break;
      case write_kind::advance:
        x.step = row.step;
        x.attempt = 0;
        x.token = new_token;
        break;
      case write_kind::replay:
        end_lease(x, "runnable");
        x.attempt += 1 - x.crashes;
        x.eligible = row.delay_us == 0;
        break;
      case write_kind::await:
        end_lease(x, "awaiting_signal");
        x.attempt = 0;
        x.awaits = row.awaits;
        x.awaits_also = row.awaits_also;
        x.deadline = row.timeout_us || row.until_us;
        x.deadline_over = row.until_us.has_value();
        break;
      case write_kind::park:
        end_lease(x, "awaiting_signal");
        x.step = row.step;
        x.attempt = 0;
        x.deadline = row.timeout_us.has_value();
        break;
      case write_kind::finish:
        end_lease(x, "done");
        x.step = row.step;
        x.attempt = 0;
        break;
      case write_kind::done:
        end_lease(x, "done");
        break;
      case write_kind::stop:
        end_lease(x, "failed");
        break;
      case write_kind::release:
        end_lease(x, "runnable");
        break;
    }
    if (row.what != write_kind::release) {
      x.crashes = 0;
      count(x, made);
    }
    if (erases && old)
      return erase(x);
    if (row.keep_us)
      keep_for(x, static_cast<int>(*row.keep_us / 60'000'000), old);
    for (auto& s : signals)
      if (std::count(row.consumed.begin(), row.consumed.end(), s.id) > 0) {
        require(s.target == slot, "a signal of another instance is consumed");
        require(!s.consumed, "a signal is consumed twice");
        s.consumed = s.just_consumed = true;
      }
    if (row.what != write_kind::await)
      return;
    x.seen = {row.seen.begin(), row.seen.end()};
    for (const auto* s : inbox(slot))
      if (x.awaits_any(s->name) && !x.seen.contains(s->id))
        return wake(x, "signal");
  }

  /// As the statement below has it.
  std::vector<std::string> lines() {
    std::vector<std::string> xs;
    for (std::size_t i = 0; i < slot_count; ++i) {
      const auto& x = instances[i];
      if (x.id != 0 && !x.deleted())
        xs.push_back("instance " + std::to_string(i) + ": v" + text(x.version)
                     + ", priority " + text(x.priority) + ", expires "
                     + (x.expires ? "t" : "f") + ", " + x.status + ", " + x.step
                     + ", n " + text(x.n) + ", attempt " + text(x.attempt)
                     + ", token [" + x.token + "], awaits [" + x.awaits + "] ["
                     + joined(x.awaits_also) + "], woken [" + x.woken
                     + "], deadline " + (x.deadline ? "t" : "f") + ", seq "
                     + text(x.seq) + ", history " + text(x.history) + ", in ["
                     + (x.history > 0 ? x.step : "") + "]");
      for (const auto& entry : x.entries)
        xs.push_back("instance " + std::to_string(i) + ": " + entry);
    }
    for (const auto& x : signals)
      if (!x.consumed || !x.dedup.empty())
        xs.push_back("signal to " + std::to_string(x.target) + ": " + x.name
                     + ", " + (x.consumed ? "" : text(x.serial)) + ", dedup ["
                     + x.dedup + "]");
    std::sort(xs.begin(), xs.end());
    return xs;
  }

  /// What holds whenever nothing is half done. The model follows the answers
  /// of the statements; the table is compared with it.
  void check() {
    std::set<std::string> executing;
    int holders = 0;
    for (std::size_t i = 0; i < slot_count; ++i) {
      const auto& x = instances[i];
      if (x.id == 0)
        continue;
      require(!x.expires || x.finished(),
              "an instance is to be deleted that has not ended");
      if (x.status == "executing" && !x.key.empty())
        require(executing.insert(x.key).second,
                "two rows of partition key " + x.key + " execute");
      holders += x.takes(x.status) ? 1 : 0;
      if (x.status == "awaiting_signal" && !x.owed())
        for (const auto* s : inbox(i))
          require(!x.awaits_any(s->name) || x.seen.contains(s->id),
                  "instance " + std::to_string(i)
                    + " sleeps on a signal that it has");
    }
    require(holders <= 1, "the unique key is taken twice");
  }
};

} // namespace schedules_suite
