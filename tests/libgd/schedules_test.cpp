#define CAF_SUITE schedules

// Random schedules of several nodes, senders, sweeps and faults, statement by
// statement through the real SQL, against a model of what must be committed. A
// schedule is data: one that goes wrong is shrunk to what it takes to go wrong.
//
// GD_SEED=<n> GD_SCHEDULES=<n> run others than the usual ones.

#include <gd/engine/queue/key.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace schedules_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;
namespace store = gd::store;

using gd::test::session;
using gd::test::temporary_database;
using clock_type = gd::turn::clock;
using ids = std::vector<std::int64_t>;
using verdict = gd::turn::flushed::verdict;
using verb = store::verb;

constexpr std::size_t node_count = 3;
constexpr std::size_t party_count = node_count + 2; // and two senders
constexpr std::size_t slot_count = 6;               // of instances
constexpr std::int32_t inbox_limit = 5;

std::string text(std::int64_t x) {
  return std::to_string(x);
}

std::string joined(const std::vector<std::string>& xs) {
  std::string out;
  for (const auto& x : xs)
    out += (out.empty() ? "" : ",") + x;
  return out;
}

// -- schedules ----------------------------------------------------------------

enum class act : std::uint8_t {
  insert,
  outcome,
  turn,
  heartbeat,
  signal,
  cut,
  late,
  crash,
  elapse,
  reap,
  wake,
};

/// What the numbers mean depends on `what`; each is taken modulo what there is
/// to choose from. One that does not apply does nothing.
struct action {
  act what = act::turn;
  unsigned who = 0;   ///< node, sender or either
  unsigned which = 0; ///< instance, or number of a row that the node holds
  unsigned a = 0;
  unsigned b = 0;
};

using schedule = std::vector<action>;

constexpr std::array keys{"", "", "k", "l"};
/// Statuses in which the one unique key is taken.
constexpr std::array scopes{"", "", "runnable,executing,awaiting_signal",
                            "runnable", "runnable,awaiting_signal"};
constexpr std::array names{"paid", "sent"};
constexpr std::array verbs{verb::next,   verb::next,  verb::next,
                           verb::replay, verb::await, verb::await,
                           verb::done,   verb::stop,  verb::release};

/// With a partition key, an instance keeps its unique key while it executes.
std::string scope_of(const action& x) {
  std::string scope = scopes[x.b % scopes.size()];
  bool keyed = *keys[x.a % keys.size()] != '\0';
  return keyed && !scope.empty() ? scopes[2] : scope;
}

/// Whether an insert begins under a lease, if its node hears of it.
bool claims(const action& x) {
  return *keys[x.a % keys.size()] == '\0' && scope_of(x).empty()
         && x.b / 8 % 2 == 1;
}

/// What is kept of an instance's transitions: a `gd::history`.
std::int16_t history_of(const action& x) {
  constexpr std::array<std::int16_t, 4> histories{0, 0, 1, 2};
  return claims(x) ? 0 : histories[x.b / 64 % histories.size()];
}

bool loses_claim(const action& x) {
  return x.b / 16 % 3 == 0;
}

verb verb_of(const action& x) {
  return verbs[x.a % verbs.size()];
}

std::string party_name(std::size_t i) {
  return i < node_count ? "node " + std::to_string(i)
                        : "sender " + std::to_string(i - node_count);
}

std::string to_string(const action& x) {
  auto number = [](std::size_t n) { return std::to_string(n); };
  auto node = party_name(x.who % node_count);
  auto party = party_name(x.who % party_count);
  auto instance = "instance " + number(x.which % slot_count);
  auto pause = [&](unsigned n) {
    return n == 0 ? ", to its end"s : ", " + number(n) + " statements of it";
  };
  switch (x.what) {
    case act::insert: {
      auto out = "insert " + instance;
      if (std::string key = keys[x.a % keys.size()]; !key.empty())
        out += ", partition key " + key;
      if (auto scope = scope_of(x); !scope.empty())
        out += ", unique while " + scope;
      if (auto history = history_of(x); history > 0)
        out += history == 1 ? ", with history" : ", with states in its history";
      if (claims(x))
        return out + ", claimed by " + node
               + (loses_claim(x) ? ", which loses the answer" : "");
      return out + (x.who % 4 == 3 ? ", sent twice" : "");
    }
    case act::outcome: {
      auto out = node + ": its row " + number(x.which) + " ends with "
                 + std::string{store::to_string(verb_of(x))};
      if (verb_of(x) == verb::await)
        out += " "s + names[(x.b >> 8U) & 1U]
               + ((x.b >> 8U & 8U) != 0 ? ", or any" : "");
      return out + " (choices " + number(x.b) + ")";
    }
    case act::turn:
      return node + ": turn on line " + number(x.b % 2) + ", wants "
             + number(x.which % 4) + pause(x.a % 8);
    case act::heartbeat:
      return node + ": heartbeat" + (x.a % 2 == 1 ? ", lost rows dropped" : "");
    case act::signal:
      return party_name(node_count + x.who % 2) + ": signal " + names[x.a & 1U]
             + " to " + instance
             + ((x.a >> 1U) % 3 > 0 ? ", dedup key " + number((x.a >> 1U) % 3)
                                    : ""s)
             + (x.a >= 12 ? ", and one to the next" : "") + pause(x.b % 3);
    case act::cut:
      return party + ": connection " + number(x.b % 2) + " lost, "
             + std::array{"rolled back", "committed all the same",
                          "the server is still at it"}[x.a % 3];
    case act::late:
      return party + ": what was cut off on line " + number(x.b % 2) + " is "
             + (x.a % 2 == 0 ? "rolled back" : "committed") + " now";
    case act::crash:
      return node + ": crash"
             + (x.a % 2 == 1 ? ", the last pick released" : "");
    case act::elapse:
      return "two hours pass for " + instance;
    case act::reap:
      return "reap";
    case act::wake:
      return "wake";
  }
  return {};
}

schedule make_schedule(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  auto roll = [&random](std::size_t n) {
    return static_cast<unsigned>(random() % n);
  };
  schedule out;
  auto add = [&](act what) {
    out.push_back({what, roll(60), roll(slot_count), roll(36), roll(4096)});
  };
  for (unsigned i = 0, n = 1 + roll(3); i < n; ++i) {
    add(act::insert);
    out.back().which = i;
  }
  if (roll(3) == 0) {
    // A node has two outcomes, and begins one transaction beside the other.
    auto node = roll(node_count);
    for (auto what :
         {act::turn, act::outcome, act::turn, act::outcome, act::turn}) {
      add(what);
      out.back().who = node;
      out.back().b |= 1U;
    }
    auto& first = out[out.size() - 5];
    first.which = 3;
    first.a = 0;
    out[out.size() - 3].a = 1 + roll(3);
  }
  // Shorter ones say as much in less time.
  auto length = out.size() + 10 + std::min(roll(29), roll(29));
  while (out.size() < length) {
    auto dice = roll(100);
    if (dice < 5)
      add(act::insert);
    else if (dice < 27)
      add(act::outcome);
    else if (dice < 57)
      add(act::turn);
    else if (dice < 61)
      add(act::heartbeat);
    else if (dice < 75)
      add(act::signal);
    else if (dice < 79)
      add(act::cut);
    else if (dice < 81)
      add(act::late);
    else if (dice < 82)
      add(act::crash);
    else if (dice < 90)
      add(act::elapse);
    else if (dice < 95)
      add(act::reap);
    else
      add(act::wake);
    if (out.back().what == act::turn && roll(3) > 0)
      out.back().a = 0; // most are not interrupted
  }
  return out;
}

// -- the model ----------------------------------------------------------------

/// What the database, or the library, did and must not do.
struct violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool holds, const std::string& what) {
  if (!holds)
    throw violation{what};
}

struct instance_model {
  std::int64_t id = 0; ///< zero: not there
  std::string key{};
  std::set<std::string> scope{}; ///< empty: no unique key
  std::string status = "runnable";
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

  bool finished() const {
    return status == "done" || status == "failed";
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
        + what.metadata + "], n [" + (x.history == 2 ? text(x.n) : "") + "]");
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

  void write(instance_model& x, const decided& what,
             const std::string& new_token) {
    const auto& row = what.row;
    auto slot = slot_of(x.id);
    auto made = make_transition(std::string{store::to_string(row.what)}, x);
    made.reason = row.failure.value_or(row.reason);
    made.metadata = row.metadata;
    bool keeps = row.what == verb::replay || row.what == verb::stop
                 || row.what == verb::release;
    if (row.what == verb::next || row.what == verb::advance
        || row.what == verb::later || row.what == verb::replay
        || row.what == verb::await || row.what == verb::park
        || row.what == verb::finish) {
      require(what.n == x.n + 1,
              "an outcome that does not follow the last one");
      x.n = what.n;
    }
    if (!keeps) {
      x.woken.clear();
      x.deadline = x.deadline_over = false;
    }
    switch (row.what) {
      case verb::next:
        end_lease(x, "runnable");
        x.step = row.step;
        x.attempt = 0;
        x.eligible = true;
        break;
      case verb::later:
        end_lease(x, "runnable");
        x.step = row.step;
        x.attempt = 0;
        x.eligible = false;
        break;
      case verb::advance:
        x.step = row.step;
        x.attempt = 0;
        x.token = new_token;
        break;
      case verb::replay:
        end_lease(x, "runnable");
        x.attempt += 1 - x.crashes;
        x.eligible = row.delay_us == 0;
        break;
      case verb::await:
        end_lease(x, "awaiting_signal");
        x.attempt = 0;
        x.awaits = row.awaits;
        x.awaits_also = row.awaits_also;
        x.deadline = row.timeout_us || row.until_us;
        x.deadline_over = row.until_us.has_value();
        break;
      case verb::park:
        end_lease(x, "awaiting_signal");
        x.step = row.step;
        x.attempt = 0;
        x.deadline = row.timeout_us.has_value();
        break;
      case verb::finish:
        end_lease(x, "done");
        x.step = row.step;
        x.attempt = 0;
        break;
      case verb::done:
        end_lease(x, "done");
        break;
      case verb::stop:
        end_lease(x, "failed");
        break;
      case verb::release:
        end_lease(x, "runnable");
        break;
    }
    if (row.what != verb::release) {
      x.crashes = 0;
      count(x, made);
    }
    for (auto& s : signals)
      if (std::count(row.consumed.begin(), row.consumed.end(), s.id) > 0) {
        require(s.target == slot, "a signal of another instance is consumed");
        require(!s.consumed, "a signal is consumed twice");
        s.consumed = true;
      }
    if (row.what != verb::await)
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
      if (x.id != 0)
        xs.push_back("instance " + std::to_string(i) + ": " + x.status + ", "
                     + x.step + ", n " + text(x.n) + ", attempt "
                     + text(x.attempt) + ", token [" + x.token + "], awaits ["
                     + x.awaits + "] [" + joined(x.awaits_also) + "], woken ["
                     + x.woken + "], deadline " + (x.deadline ? "t" : "f")
                     + ", seq " + text(x.seq) + ", history " + text(x.history)
                     + ", in [" + (x.history > 0 ? x.step : "") + "]");
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

// -- statements of the test's own ---------------------------------------------

constexpr sql::statement silence_node{
  "test_silence_node",
  "update :\"schema\".gen_durable_nodes n set seen_at = clock_timestamp() - "
  "interval '2 hours' where n.incarnation = $1::text"};

/// The table, the ledger and the inboxes, instances named after their slots.
constexpr sql::statement read_all{
  "test_read_all",
  "select format('instance %s: %s, %s, n %s, attempt %s, token [%s], awaits "
  "[%s] [%s], woken [%s], deadline %s, seq %s, history %s, in [%s]', "
  "array_position($1::bigint[], g.id) - 1, g.status, g.step, g.state->>'n', "
  "g.attempt, g.locked_by, g.awaits, array_to_string(g.awaits_also, ','), "
  "g.wake_reason, "
  "(g.deadline is not null)::text::char, g.seq, coalesce(g.history, 0), "
  "g.ledger_step) "
  "from :\"schema\".gen_durable g where g.id = any($1::bigint[]) "
  "union all "
  "select format('instance %s: entry %s: %s, [%s] %s, attempt %s, token [%s], "
  "woken [%s], reason [%s], with [%s], n [%s]', "
  "array_position($1::bigint[], l.instance_id) - 1, l.seq, l.outcome, "
  "l.from_step, l.to_step, l.attempt, l.token, l.wake_reason, l.reason, "
  "l.metadata, l.state->>'n') "
  "from :\"schema\".gen_durable_ledger l "
  "where l.instance_id = any($1::bigint[]) "
  "union all "
  "select format('signal to %s: %s, %s, dedup [%s]', "
  "array_position($1::bigint[], s.target_id) - 1, s.name, "
  "case when s.consumed_at is null then s.payload->>'n' end, s.dedup_key) "
  "from :\"schema\".signals s where s.target_id = any($1::bigint[])"};

/// The clock of one row; it waits for nobody.
constexpr sql::statement elapse_row{
  "test_elapse",
  "update :\"schema\".gen_durable g set "
  "lease_expires_at = g.lease_expires_at - interval '2 hours', "
  "deadline = g.deadline - interval '2 hours', "
  "eligible_at = g.eligible_at - interval '2 hours' where g.id = (select l.id "
  "from :\"schema\".gen_durable l where l.id = $1::bigint "
  "for no key update skip locked) returning g.id"};

/// As if the session had ended and another had begun, but cheaper.
constexpr sql::statement renew_session{
  "test_renew_session",
  "select pg_advisory_unlock_all(), "
  "set_config('gd.session', gen_random_uuid()::text, false)"};

constexpr sql::statement count_locks{"test_count_locks", gd::test::count_locks};

/// A statement of the library's with a fault of the kind that it exists to
/// avoid. Its text is the library's, but for one place.
struct mutant {
  std::string title;
  const sql::statement* original;
  std::string text;
  sql::statement naive;
  /// From which seed on a schedule is looked for that finds it: a fault that few do
  /// is looked for where one has.
  std::uint64_t seed;

  mutant(std::string name, const sql::statement& of, std::string_view what,
         std::string_view with, std::uint64_t first = 1)
    : title(std::move(name)), original(&of), text(of.text), seed(first) {
    auto at = text.find(what);
    if (at == std::string::npos)
      throw std::logic_error{title
                             + ": not in the statement: " + std::string{what}};
    text.replace(at, what.size(), with);
    naive = {title, text}; // prepared beside the original
  }
  mutant(const mutant&) = delete;
  mutant& operator=(const mutant&) = delete;
};

/// The elements of a parameter that is an array, as they travel.
std::vector<std::string> elements(const std::string& array) {
  auto number = [&array](std::size_t at) {
    std::size_t x = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      x = x << 8U | static_cast<unsigned char>(array[i]);
    return x;
  };
  std::vector<std::string> xs;
  for (std::size_t at = 20; at < array.size();) {
    auto size = number(at);
    xs.push_back(array.substr(at + 4, size));
    at += 4 + size;
  }
  return xs;
}

std::int64_t to_integer(const std::string& bytes) {
  std::uint64_t x = 0;
  for (char c : bytes)
    x = x << 8U | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(x);
}

// -- the world ----------------------------------------------------------------

/// A unit of work on its way through the server.
struct transaction {
  pq::unit work;
  std::size_t at = 0;
  bool begun = false;
  /// While it ran, somebody else may have held a row's lock.
  bool contended = false;
  std::vector<pq::rows> answers{};
  /// Of a sender: serials are drawn when it begins.
  std::vector<signal_model> signals{};
};

struct held_row {
  store::picked_row row;
  std::string token;
  bool decided = false;
};

/// A connection, and what is under way there.
struct line {
  std::unique_ptr<pq::connection> on{};
  std::optional<transaction> open{};
  /// What the client has lost, and the server is still at.
  std::unique_ptr<pq::connection> spare{};
  std::optional<transaction> orphan{};
};

struct party {
  std::string application;
  /// A node has two, for the two transactions of a turn; a sender uses one.
  std::array<line, 2> lines{};

  // Of a node:
  std::string incarnation{};
  std::shared_ptr<gd::isolation> suspects{};
  std::unique_ptr<gd::turn> work{};
  clock_type::time_point now{};
  std::map<std::uint64_t, held_row> holding{}; // by tag
  std::uint64_t tags = 0;
  std::uint64_t next_pick = 1;
};

/// How often a node has begun a transaction while it had another, in all worlds.
std::atomic<int> beside_each_other = 0;

/// A database with everybody who works with it.
class world {
public:
  world() {
    db_.migrate();
    // Small tables are planned anew each time otherwise: most of the test's time.
    db_.rows("alter database " + gd::test::quoted_name(db_.name())
             + " set plan_cache_mode = 'force_generic_plan'");
    control_ = connect("gen_durable/control");
    for (std::size_t i = 0; i < party_count; ++i) {
      auto& x = parties_[i];
      x.incarnation = "n" + std::to_string(i) + "/0123" + std::to_string(i);
      x.application = "gen_durable/0123" + std::to_string(i) + " n";
      for (auto& at : x.lines) {
        at.on = connect(x);
        at.spare = connect(x);
      }
    }
  }

  /// From now on this statement goes in place of the library's.
  void break_with(const mutant& what) {
    fault_ = &what;
  }

  /// What is wrong with what it leads to, if anything is.
  std::optional<std::string> run(const schedule& what) {
    if (dirty_ || ++runs_ % 500 == 0)
      clean();
    dirty_ = true;
    model_ = {};
    limit_ = inbox_limit;
    for (std::size_t i = 0; i < node_count; ++i)
      start(parties_[i]);
    try {
      for (const auto& x : what) {
        apply(x);
        if (x.what != act::outcome) // which is not sent yet
          compare();
      }
      run_all();
    } catch (const violation& x) {
      return x.what();
    }
    dirty_ = false;
    return std::nullopt;
  }

private:
  // -- connections ------------------------------------------------------------

  std::unique_ptr<pq::connection> connect(const std::string& application) {
    auto opts = db_.options();
    opts.application_name = application;
    opts.lock_timeout = 1s; // nothing waits that long but for a fault
    auto x = std::make_unique<pq::connection>(std::move(opts));
    if (auto ok = x->wait_ready(); !ok)
      throw std::runtime_error{gd::to_string(ok.error())};
    return x;
  }

  /// As a session of this node's.
  std::unique_ptr<pq::connection> connect(const party& x) {
    auto made = connect(x.application);
    ask(
      *made,
      store::register_session(
        {.incarnation = x.incarnation, .node = "n", .host = "h", .lease = 1h}));
    return made;
  }

  pq::reply send(pq::connection& on, pq::unit work) const {
    if (fault_ != nullptr)
      for (auto& x : work.calls)
        if (x.what == fault_->original)
          x.what = &fault_->naive;
    return on.run(work);
  }

  /// A single statement, which must not fail.
  pq::rows ask(pq::connection& on, pq::call what) const {
    auto reply = send(on, {{std::move(what)}, false});
    if (!reply.ok())
      throw violation{gd::to_string(*reply.failure)};
    return std::move(reply.results.front());
  }

  void renew(pq::connection& on) const {
    ask(on, {&renew_session, {}});
  }

  static gd::error lost() {
    return {gd::errc::unknown_fate, "the connection is lost", {}};
  }

  /// Whether somebody may hold a row's lock.
  bool anybody_else(const transaction& than) const {
    for (const auto& x : parties_)
      for (const auto& at : x.lines)
        if ((at.open && &*at.open != &than)
            || (at.orphan && &*at.orphan != &than))
          return true;
    return false;
  }

  void rollback(pq::connection& on) const {
    ask(on, {&sql::rollback, {}});
  }

  /// After a failure: whatever is under way goes, and so do all rows.
  void clean() {
    for (auto& x : parties_)
      for (auto& at : x.lines) {
        if (at.open)
          rollback(*at.on);
        if (at.orphan)
          rollback(*at.spare);
        at.open.reset();
        at.orphan.reset();
        renew(*at.on);
        renew(*at.spare);
      }
    db_.rows("truncate gen_durable, gen_durable_ledger cascade");
  }

  // -- transactions -----------------------------------------------------------

  /// Runs the next `n` statements (0: all), commits behind the last, and tells
  /// the model. A failure that may be rolls back.
  std::optional<pq::reply> advance(pq::connection& on, transaction& t,
                                   std::size_t n) {
    t.contended = t.contended || anybody_else(t);
    auto size = t.work.calls.size();
    auto until = n == 0 ? size + 1 : std::min(t.at + n, size + 1);
    pq::reply reply;
    bool whole = !t.begun && until > size;
    if (whole) {
      reply = send(on, t.work); // just as the library does
    } else {
      pq::unit part{{}, false};
      if (!t.begun)
        part.calls.push_back({&sql::begin, {}});
      for (auto i = t.at; i < std::min(until, size); ++i)
        part.calls.push_back(t.work.calls[i]);
      if (until > size)
        part.calls.push_back({&sql::commit, {}});
      reply = send(on, std::move(part));
      if (reply.ok() && !t.begun)
        reply.results.erase(reply.results.begin());
      else if (!t.begun && reply.failed_call > 0)
        --reply.failed_call;
      reply.failed_call += t.at;
    }
    if (!reply.ok()) {
      check_failure(t, reply);
      require(on.state() == pq::connection::phase::idle, "a dead connection");
      if (!whole)
        rollback(on);
      if (reply.failed_call >= t.work.leaves_traces_from)
        renew(on); // instead of closing it
      return reply;
    }
    t.begun = true;
    for (auto i = t.at; i < std::min(until, size); ++i) {
      t.answers.push_back(std::move(reply.results[i - t.at]));
      if (writes_any(t.work.calls[i]))
        check_holders(t);
    }
    t.at = until;
    if (until <= size)
      return std::nullopt;
    commit(t);
    reply.results = t.answers;
    return reply;
  }

  /// Of these, a row's unique key may be taken.
  static bool writes_any(const pq::call& x) {
    return x.what == &sql::flush || x.what == &sql::flush_ledger;
  }

  static void check_failure(const transaction& t, const pq::reply& reply) {
    const auto& why = *reply.failure;
    bool may = false;
    if (reply.failed_call < t.work.calls.size()) {
      bool waits = t.work.calls.front().what == &sql::lock_timeout
                   || (t.work.calls.size() > 1
                       && t.work.calls[1].what == &sql::lock_timeout)
                   || (t.work.calls.size() > 2
                       && t.work.calls[2].what == &sql::lock_timeout);
      may = (why.code == gd::errc::busy && waits)
            || (why.sqlstate == "23505"
                && writes_any(t.work.calls[reply.failed_call]));
    }
    require(may, "a statement failed: " + gd::to_string(why));
  }

  /// As of the last statement, not of the commit: who has the key may have got it
  /// from one before.
  void check_holders(const transaction& t) {
    std::set<std::int64_t> holders;
    if (const auto* x = model_.holder())
      holders.insert(x->id);
    for (std::size_t i = 0; i + 1 < t.answers.size(); ++i)
      if (writes_any(t.work.calls[i]))
        for (const auto& x : store::read_flush(t.answers[i]))
          if (x.applied)
            holders.insert(x.id);
    for (const auto& x : store::read_flush(t.answers.back()))
      require(!x.holder || holders.contains(*x.holder),
              "an outcome gives way to one that does not have its key");
  }

  /// Tells the model what the answers mean, now that they count.
  void commit(transaction& t) {
    std::vector<store::picked_row> picked;
    std::set<std::int64_t> kept;
    std::string token;
    for (std::size_t i = 0; i < t.work.calls.size(); ++i) {
      const auto* what = t.work.calls[i].what;
      const auto& args = t.work.calls[i].args.values();
      const auto& rows = t.answers[i];
      if (what == &sql::release_lost)
        released(elements(args[0]), store::read_ids(rows));
      else if (what == &sql::flush_done || what == &sql::flush_next
               || what == &sql::flush_done_ledger
               || what == &sql::flush_next_ledger
               || writes_any(t.work.calls[i]))
        flushed(t, elements(args[0]), elements(args[1]), rows, "");
      else if (what == &sql::flush_advance
               || what == &sql::flush_advance_ledger)
        flushed(t, elements(args[0]), elements(args[1]), rows, args[5]);
      else if (what == &sql::signal)
        signalled(t, rows);
      else if (what == &sql::heartbeat)
        extended(t, elements(args[0]).size(), rows);
      else if (what == &sql::reap)
        reaped(t, rows);
      else if (what == &sql::wake_due)
        woken(t, rows);
      else if (what == &sql::return_row)
        returned(rows);
      else if (what == &sql::pick || what == &sql::pick_keyed
               || what == &sql::pick_suspects || what == &sql::pick_these) {
        picked = store::read_pick(rows).rows;
        token = args[0];
      } else if (what == &sql::hold_keys) {
        for (const auto& x : store::read<store::held_key>(rows))
          kept.insert(x.id);
      }
    }
    for (const auto& x : picked)
      if (!x.partition_key || kept.contains(x.id))
        took(x, token);
    model_.check();
  }

  /// A step is shown the inbox as it is; the model learns the signals' ids.
  void is_shown(std::size_t slot, const std::vector<gd::raw_signal>& inbox,
                const std::string& which) {
    std::vector<std::string> shown, there;
    for (const auto& s : inbox)
      shown.push_back(s.name + s.payload);
    for (auto* s : model_.inbox(slot)) {
      auto payload = "{\"n\": " + text(s->serial) + "}";
      there.push_back(s->name + payload);
      for (const auto& seen : inbox)
        if (seen.payload == payload)
          s->id = seen.id;
    }
    require(shown == there, which + " with another inbox");
  }

  void took(const store::picked_row& row, const std::string& token) {
    auto slot = model_.slot_of(row.id);
    auto& x = model_.instances[slot];
    auto which = "a pick of instance " + std::to_string(slot);
    require(x.status == "runnable", which + " that is " + x.status);
    require(x.eligible, which + " before its time");
    require(row.step == x.step && row.attempt == x.attempt
              && row.crashes == x.crashes && row.wake_reason == x.woken
              && row.history == x.history,
            which + ": " + row.step + ", attempt " + text(row.attempt)
              + ", woken [" + row.wake_reason + "], committed is " + x.step
              + ", attempt " + text(x.attempt) + ", woken [" + x.woken + "]");
    is_shown(slot, row.inbox, which);
    x.status = "executing";
    x.token = token;
  }

  void released(const std::vector<std::string>& tokens, const ids& found) {
    for (auto id : found) {
      auto& x = model_.of(id);
      require(x.status == "executing"
                && std::count(tokens.begin(), tokens.end(), x.token) > 0,
              "a lost pick releases what is not its own");
      model_.end_lease(x, "runnable");
    }
  }

  void flushed(const transaction& t, const std::vector<std::string>& row_ids,
               const std::vector<std::string>& tokens, const pq::rows& rows,
               const std::string& new_token) {
    std::map<std::int64_t, store::flushed_row> answers;
    for (const auto& x : store::read_flush(rows))
      answers.emplace(x.id, x);
    for (std::size_t i = 0; i < row_ids.size(); ++i) {
      auto id = to_integer(row_ids[i]);
      auto slot = model_.slot_of(id);
      auto& x = model_.instances[slot];
      auto which = "an outcome of instance " + std::to_string(slot)
                   + " under token " + tokens[i];
      auto found = answers.find(id);
      if (found == answers.end()) {
        require(t.contended, which + " is locked by nobody");
        continue;
      }
      bool fenced = x.status == "executing" && x.token == tokens[i];
      if (!found->second.applied) {
        require(!fenced || found->second.holder, which + " is refused");
        continue;
      }
      require(fenced, which + " is applied to a row that is " + x.status
                        + " under token [" + x.token + "]");
      auto& what = model_.outcomes.at({id, tokens[i]});
      require(!what.applied, which + " is applied twice");
      what.applied = true;
      model_.write(x, what, new_token);
    }
  }

  void signalled(const transaction& t, const pq::rows& rows) {
    using answer = store::signal_answer;
    auto answers = store::read<store::signal_row>(rows);
    require(answers.size() == t.signals.size(), "a signal without an answer");
    std::map<std::size_t, std::size_t> before, accepted;
    for (const auto& s : t.signals)
      before[s.target] = model_.inbox(s.target).size();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& s = t.signals[i];
      auto& x = model_.instances[s.target];
      auto got = answers[i].answer;
      auto full = before[s.target] + accepted[s.target]
                  >= static_cast<std::size_t>(limit_);
      auto expected = answer::accepted;
      if (s.to_nobody)
        expected = answer::no_such_target;
      else if (got == answer::locked && t.contended)
        continue;
      else if (!s.dedup.empty()
               && std::any_of(model_.signals.begin(), model_.signals.end(),
                              [&](const auto& other) {
        return other.target == s.target && other.dedup == s.dedup;
                  }))
        expected = answer::duplicate;
      else if (x.finished())
        expected = answer::target_finished;
      else if (full)
        expected = answer::inbox_full;
      require(got == expected, "a signal to instance "
                                 + std::to_string(s.target) + " is answered "
                                 + text(static_cast<int>(got)) + ", expected "
                                 + text(static_cast<int>(expected)));
      if (got != answer::accepted)
        continue;
      ++accepted[s.target];
      model_.signals.push_back(s);
      if (x.status == "awaiting_signal" && x.awaits_any(s.name))
        model_.wake(x, "signal");
    }
  }

  void extended(const transaction& t, std::size_t asked, const pq::rows& rows) {
    auto beats = store::read<store::beat>(rows);
    require(beats.size() == asked || t.contended,
            "a heartbeat passes over a free row");
    for (const auto& beat : beats) {
      auto& x = model_.of(beat.id);
      bool fenced = x.status == "executing" && x.token == beat.token;
      require(fenced == beat.extended,
              fenced ? "a heartbeat calls a good lease lost"
                     : "a heartbeat extends another's lease");
      if (fenced)
        x.lease_over = false;
    }
  }

  /// Rows of a sweep: all that are due, but for those that somebody holds.
  template <class Rows, class Due, class Then>
  void swept(const transaction& t, const Rows& rows, const std::string& what,
             Due due, Then then) {
    std::size_t expected = 0;
    for (const auto& x : model_.instances)
      expected += x.id != 0 && due(x) ? 1 : 0;
    require(rows.size() == expected || t.contended,
            what + " passes over a free row");
    for (const auto& row : rows) {
      auto& x = model_.of(row.id);
      require(due(x), what + " of a row that is not due");
      then(x);
    }
  }

  void reaped(const transaction& t, const pq::rows& rows) {
    swept(
      t, store::read<store::reaped_row>(rows), "a reap",
      [](const auto& x) {
      return x.status == "executing" && x.lease_over && !x.unsure();
      },
      [this](auto& x) { reaped(x); });
  }

  void reaped(instance_model& x) {
    auto made = model::make_transition("reap", x);
    model_.end_lease(x, "runnable");
    ++x.attempt;
    ++x.crashes;
    model::count(x, made);
  }

  void woken(const transaction& t, const pq::rows& rows) {
    swept(
      t, store::read<store::moved_row>(rows), "a wake",
      [](const auto& x) {
      return x.status == "awaiting_signal" && x.deadline && x.deadline_over;
      },
      [this](auto& x) {
      model_.wake(x, "timeout");
      if (x.owed())
        x.deadline = x.deadline_over = false;
    });
  }

  void returned(const pq::rows& rows) {
    auto row = store::read_one<store::returned_row>(rows);
    if (!row)
      return;
    auto& x = model_.of(row->id);
    require(x.owed() || (x.status == "executing" && x.lease_over),
            "a row returns that is not due");
    require(row->runnable == (model_.holder() == nullptr),
            "a row returns though its unique key is taken, or does not "
            "though it is free");
    x.lease_over = false;
    if (!row->runnable)
      return;
    if (x.status == "executing")
      return reaped(x);
    x.eligible = x.eligible || x.owed();
    x.await_nothing();
    model_.end_lease(x, "runnable");
  }

  // -- nodes ------------------------------------------------------------------

  void start(party& x) {
    x.holding.clear();
    x.tags = 0;
    x.next_pick = 1;
    make_turn(x);
  }

  void make_turn(party& x) {
    x.now = clock_type::time_point{} + 1h;
    x.suspects = std::make_shared<gd::isolation>();
    x.work = std::make_unique<gd::turn>(
      gd::turn::settings{.queue = "default",
                         .incarnation = x.incarnation,
                         .first_pick = x.next_pick,
                         .machines = {{"Order", 1}},
                         .lease = 1h,
                         .inbox = 100,
                         .suspects = x.suspects,
                         .flights = 2,
                         .worth_a_flight = 1});
  }

  /// Begins a transaction, or goes on with that of the line.
  void turn(party& x, std::size_t which, std::int32_t want, std::size_t n) {
    if (!x.lines[which].open) {
      x.now += 1s; // back-offs are over
      auto work = x.work->begin(want, x.now);
      if (!work)
        return;
      which = work->flight;
      x.lines[which].open.emplace(transaction{std::move(work->work)});
      if (x.lines[1 - which].open)
        ++beside_each_other;
    }
    auto& at = x.lines[which];
    if (auto reply = advance(*at.on, *at.open, n)) {
      at.open.reset();
      finish(x, which, std::move(*reply));
    }
  }

  void finish(party& x, std::size_t which, pq::reply reply) {
    auto report = x.work->finish(which, std::move(reply), x.now);
    if (report.on_trial)
      x.suspects->end_trial();
    for (auto& row : report.picked) {
      x.suspects->ended(row.id, false);
      x.holding.emplace(++x.tags, held_row{std::move(row), report.token});
    }
    for (auto& row : report.rows)
      collect(x, row);
  }

  void collect(party& x, const gd::turn::flushed& what) {
    auto& held = x.holding.at(what.tag);
    bool applied = model_.outcomes.at({what.row->id, what.row->token}).applied;
    switch (what.what) {
      case verdict::applied:
        require(applied, "an outcome is called applied and is not");
        if (what.row->what == verb::advance)
          return go_on(held, what);
        break;
      case verdict::stale:
        require(!applied, "an outcome is called stale and is applied");
        break;
      case verdict::unknown:
        break;
      case verdict::refused:
        throw violation{"an outcome is refused: " + gd::to_string(what.why)};
      case verdict::collided:
        // As without a handler.
        return decide(x, what.tag, verb::stop, 0);
    }
    if (auto key = store::hold_of(held.row))
      x.work->unlock(std::move(*key));
    x.holding.erase(what.tag);
  }

  /// The row's next step begins with what is in its inbox now.
  void go_on(held_row& held, const gd::turn::flushed& what) {
    auto slot = model_.slot_of(what.row->id);
    auto inbox = what.inbox.value(); // short enough
    is_shown(slot, inbox, "an advance of instance " + std::to_string(slot));
    held.row.step = what.row->step;
    held.row.state = what.row->state;
    held.row.attempt = 0;
    held.row.inbox = std::move(inbox);
    held.token = what.next_token;
    held.decided = false;
  }

  /// `choices`: two bits for each of four signals, whether to look at it or to
  /// take it; then what the verb leaves open.
  void decide(party& x, std::uint64_t tag, verb what, unsigned choices) {
    auto& held = x.holding.at(tag);
    held.decided = true;
    decided out;
    auto& row = out.row;
    row.id = held.row.id;
    row.token = held.token;
    row.what = what;
    auto step = std::stoll(held.row.step.substr(1));
    auto n = std::stoll(held.row.state.substr(held.row.state.find(':') + 1));
    out.n = n + 1;
    row.state = "{\"n\": " + text(out.n) + "}";
    auto more = choices >> 8U;
    switch (what) {
      case verb::next:
        row.step = "s" + text(step + 1);
        if (more >> 1U == 1) {
          row.what = verb::park;
          row.timeout_us = 3'600'000'000; // or nothing would end it
        } else if (more >> 1U == 2) {
          row.what = verb::finish;
        } else if (more >> 1U == 3) {
          row.what = verb::later;
          row.delay_us = 3'600'000'000;
        } else if ((more & 1U) != 0 && !held.row.partition_key) {
          row.what = verb::advance;
        }
        break;
      case verb::advance:
      case verb::park:
      case verb::finish:
      case verb::later:
        throw violation{"it is decided above"};
      case verb::replay:
        row.delay_us = (more & 1U) != 0 ? 3'600'000'000 : 0;
        break;
      case verb::await:
        row.awaits = names[more & 1U];
        if ((more & 8U) != 0)
          row.awaits_also = {"lost", names[1 - (more & 1U)]};
        if ((more >> 1U) % 4 == 2)
          row.timeout_us = 3'600'000'000;
        else if ((more >> 1U) % 4 == 3)
          row.until_us = 1'000'000; // has passed
        break;
      case verb::done:
        row.result = "{}";
        break;
      case verb::stop:
        row.reason = "no";
        break;
      case verb::release:
        row.state.clear();
        break;
    }
    if (held.row.history > 0) {
      row.has_history = true;
      if ((more & 4U) != 0)
        row.metadata = "{\"of\": " + text(out.n) + "}";
      if ((more & 8U) != 0 && row.what != verb::advance)
        row.failure = "broken";
    }
    row.may_collide = row.what != verb::advance
                      && store::may_collide(held.row, row.what);
    if (what != verb::replay && what != verb::stop && what != verb::release)
      for (std::size_t i = 0; i < held.row.inbox.size() && i < 4; ++i) {
        auto look = choices >> (2 * i) & 3U;
        if (look > 1)
          row.consumed.push_back(held.row.inbox[i].id);
        if (look > 0)
          row.seen.push_back(held.row.inbox[i].id);
      }
    x.work->add(row, tag);
    model_.outcomes.insert_or_assign({row.id, row.token}, std::move(out));
  }

  void heartbeat(party& x, bool drops) {
    std::vector<gd::lease_ptr> leases;
    for (const auto& [tag, held] : x.holding)
      leases.push_back(std::make_shared<gd::lease>(held.row.id, held.token));
    if (leases.empty())
      return;
    transaction t{{{store::heartbeat(leases, 1h)}}};
    advance(*control_, t, 0);
    if (!drops)
      return;
    for (const auto& beat : store::read<store::beat>(t.answers.front()))
      for (auto i = x.holding.begin(); !beat.extended && i != x.holding.end();)
        if (i->second.token == beat.token && i->second.row.id == beat.id
            && !i->second.decided) {
          if (auto key = store::hold_of(i->second.row))
            x.work->unlock(std::move(*key));
          i = x.holding.erase(i);
        } else {
          ++i;
        }
  }

  // -- faults -----------------------------------------------------------------

  void cut(party& x, std::size_t which, unsigned how) {
    auto& at = x.lines[which];
    if (!at.open) {
      renew(*at.on);
      return;
    }
    if (how == 2 && !at.orphan) {
      at.orphan = std::move(at.open);
      std::swap(at.on, at.spare);
    } else if (how == 1) {
      advance(*at.on, *at.open, 0);
      renew(*at.on);
    } else {
      rollback(*at.on);
      renew(*at.on);
    }
    at.open.reset();
    if (x.work)
      finish(x, which, {{}, lost(), 0});
  }

  void late(line& at, bool committed) {
    if (!at.orphan)
      return;
    if (committed)
      advance(*at.spare, *at.orphan, 0);
    else
      rollback(*at.spare);
    at.orphan.reset();
    renew(*at.spare);
  }

  void crash(party& x, bool tidy) {
    auto last = x.work->abandon().release;
    for (std::size_t i = 0; i < x.lines.size(); ++i) {
      auto& at = x.lines[i];
      if (at.open) {
        if (tidy)
          advance(*at.on, *at.open, 0);
        else
          rollback(*at.on);
        at.open.reset();
      }
      if (tidy && last[i]) {
        transaction t{std::move(*last[i])};
        advance(*at.on, t, 0);
      }
      renew(*at.on);
    }
    x.holding.clear();
    x.next_pick += 1'000;
    make_turn(x);
  }

  // -- sweeps -----------------------------------------------------------------

  void reap() {
    transaction t{{{store::locked_leases(100, 30min), store::reap(100)}}};
    advance(*control_, t, 0);
    for (const auto& x : store::read<store::silent_session>(
           ask(*control_, store::silent_sessions("control"))))
      if (ask(*control_, store::end_silent_session(x)).size() > 0)
        end_session(x.process);
  }

  void wake() {
    transaction t{{{store::wake_due(100), store::returning(100, true)}}};
    advance(*control_, t, 0);
    for (auto id : store::read_ids(t.answers[1])) {
      transaction one{
        {{store::lock_timeout(10ms), store::return_row(id, true)}}};
      advance(*control_, one, 0);
    }
  }

  /// A node has said nothing for longer than its lease.
  void silence(const party& x) {
    pq::call call{&silence_node, {}};
    call.args.add(x.incarnation);
    ask(*control_, std::move(call));
  }

  /// Here sessions really end.
  void end_session(std::int64_t pid) {
    for (auto& x : parties_)
      for (std::size_t which = 0; which < x.lines.size(); ++which) {
        auto& at = x.lines[which];
        if (at.spare->backend() == pid) {
          at.orphan.reset();
          replace(at.spare, x);
        } else if (at.on->backend() == pid) {
          bool working = at.open.has_value();
          at.open.reset();
          replace(at.on, x);
          if (working && x.work)
            finish(x, which, {{}, lost(), 0});
        }
      }
  }

  void replace(std::unique_ptr<pq::connection>& x, const party& of) {
    if (!killer_)
      killer_.emplace(db_.conninfo());
    killer_->terminate(x->backend()); // until it is gone
    x = connect(of);
  }

  // -- actions ----------------------------------------------------------------

  void insert(const action& what) {
    auto& x = model_.instances[what.which % slot_count];
    if (x.id != 0)
      return;
    auto [id, drawn_us] = store::read<store::drawn_id>(
                            ask(*control_, store::draw_ids(1)))
                            .front();
    std::string key = keys[what.a % keys.size()];
    auto scope = scope_of(what);
    std::vector<store::insert_row> rows{{.id = id,
                                         .drawn_us = drawn_us,
                                         .fsm = "Order",
                                         .version = 1,
                                         .step = "s0",
                                         .state = "{\"n\": 0}",
                                         .queue = "default",
                                         .unique_scope = scope,
                                         .history = history_of(what)}};
    if (!key.empty())
      rows.front().partition_key = key;
    if (!scope.empty())
      rows.front().unique_key = "u";
    instance_model made;
    made.id = id;
    made.key = key;
    made.history = history_of(what);
    for (std::size_t at = 0; at < scope.size();) {
      auto end = std::min(scope.find(',', at), scope.size());
      made.scope.insert(scope.substr(at, end - at));
      at = end + 1;
    }
    if (claims(what)) {
      made.status = "executing";
      made.token = rows.front().token
        = parties_[what.who % node_count].incarnation + "/claim " + text(id);
      x = made;
      return claim(parties_[what.who % node_count], std::move(rows.front()),
                   loses_claim(what));
    }
    model::enter(made, {"insert"});
    for (unsigned times = what.who % 4 == 3 ? 2 : 1; times > 0; --times) {
      transaction t{
        {{store::lock_timeout(10ms),
          made.history == 0 ? store::insert(rows) : store::insert_ledger(rows),
          store::inserted(rows)}}};
      if (auto reply = advance(*control_, t, 0); !reply->ok())
        return;
      auto answer = store::read<store::inserted_row>(t.answers[2]).front();
      const auto* holder = made.scope.empty() ? nullptr : model_.holder();
      bool there = x.id == id;
      require(answer.found == (there || holder == nullptr),
              "an insert is answered wrongly");
      if (!answer.found) {
        require(answer.holder == holder->id, "an insert names another holder");
        return;
      }
      if (!there)
        x = made;
    }
  }

  void claim(party& by, store::insert_row row, bool lost) {
    auto states = store::read<store::claimed_row>(
      ask(*control_, store::insert_claimed({row}, 1h)));
    require(states.size() == 1, "a claim is not answered");
    if (lost)
      by.work->lose(row.token, by.now);
    else
      by.holding.emplace(++by.tags,
                         held_row{{.id = row.id,
                                   .fsm = row.fsm,
                                   .step = row.step,
                                   .state = std::move(states.front().state)},
                                  row.token});
  }

  void signal(const action& what) {
    auto& at = parties_[node_count + what.who % 2].lines.front();
    if (!at.open)
      at.open.emplace(signals_of(what));
    if (advance(*at.on, *at.open, what.b % 3))
      at.open.reset();
  }

  transaction signals_of(const action& what) {
    transaction t;
    std::vector<gd::signal> batch;
    for (unsigned i = 0; i < (what.a >= 12 ? 2U : 1U); ++i) {
      signal_model s;
      s.serial = ++model_.serials;
      s.target = (what.which + i) % slot_count;
      s.to_nobody = model_.instances[s.target].id == 0;
      s.name = names[what.a & 1U];
      if (auto dedup = (what.a >> 1U) % 3; dedup > 0)
        s.dedup = std::to_string(dedup);
      batch.push_back(to_signal(s));
      t.signals.push_back(std::move(s));
    }
    t.work = {{store::lock_targets(batch), store::send_signals(batch, limit_)}};
    return t;
  }

  gd::signal to_signal(const signal_model& s) const {
    gd::signal x;
    x.target = s.to_nobody ? -1 : model_.instances[s.target].id;
    x.name = s.name;
    x.payload = gd::json::raw("{\"n\": " + text(s.serial) + "}");
    if (!s.dedup.empty())
      x.dedup_key = s.dedup;
    return x;
  }

  void elapse(instance_model& x) {
    pq::call call{&elapse_row, {}};
    call.args.add(x.id);
    if (x.id == 0 || ask(*control_, std::move(call)).size() == 0)
      return;
    for (std::size_t i = 0; i < node_count; ++i)
      parties_[i].work->look_everywhere(); // as their polls do by then
    x.eligible = true;
    x.lease_over = x.status == "executing";
    x.deadline_over = x.deadline;
  }

  void apply(const action& what) {
    auto& node = parties_[what.who % node_count];
    auto& anyone = parties_[what.who % party_count];
    switch (what.what) {
      case act::insert:
        return insert(what);
      case act::outcome: {
        std::vector<std::uint64_t> free;
        for (const auto& [tag, held] : node.holding)
          if (!held.decided)
            free.push_back(tag);
        if (!free.empty())
          decide(node, free[what.which % free.size()], verb_of(what), what.b);
        return;
      }
      case act::turn:
        return turn(node, what.b % 2, static_cast<std::int32_t>(what.which % 4),
                    what.a % 8);
      case act::heartbeat:
        return heartbeat(node, what.a % 2 == 1);
      case act::signal:
        return signal(what);
      case act::cut:
        return cut(anyone, what.b % 2, what.a % 3);
      case act::late:
        return late(anyone.lines[what.b % 2], what.a % 2 == 1);
      case act::crash:
        return crash(node, what.a % 2 == 1);
      case act::elapse:
        if (what.a % 4 == 3)
          silence(node);
        return elapse(model_.instances[what.which % slot_count]);
      case act::reap:
        return reap();
      case act::wake:
        return wake();
    }
  }

  // -- checks -----------------------------------------------------------------

  void compare() {
    ids all;
    for (const auto& x : model_.instances)
      all.push_back(x.id);
    pq::call call{&read_all, {}};
    call.args.add(all);
    auto rows = ask(*control_, std::move(call));
    std::vector<std::string> there;
    for (std::size_t i = 0; i < rows.size(); ++i)
      there.emplace_back(rows.text(i, 0));
    std::sort(there.begin(), there.end());
    auto expected = model_.lines();
    if (there == expected)
      return;
    std::string out = "the table is not what it must be";
    auto differ = [&out](const auto& xs, const auto& ys, const char* title) {
      std::vector<std::string> only;
      std::set_difference(xs.begin(), xs.end(), ys.begin(), ys.end(),
                          std::back_inserter(only));
      for (const auto& x : only)
        out += "\n    "s + title + x;
    };
    differ(there, expected, "is:      ");
    differ(expected, there, "must be: ");
    throw violation{out};
  }

  /// No more faults: everything comes to its end.
  void run_all() {
    limit_ = 1'000;
    for (std::size_t i = 0; i < party_count; ++i) {
      auto& x = parties_[i];
      for (std::size_t which = 0; which < x.lines.size(); ++which) {
        auto& at = x.lines[which];
        late(at, false);
        if (i < node_count && at.open)
          turn(x, which, 0, 0);
        else if (at.open && advance(*at.on, *at.open, 0))
          at.open.reset();
      }
    }
    for (int i = 0; i < 30 && !over(); ++i)
      run_once();
    compare();
    require(over(), "not everything comes to its end");
    for (std::size_t i = 0; i < node_count; ++i)
      for (int n = 0; n < 30 && !parties_[i].work->empty(); ++n)
        turn(parties_[i], 0, 0, 0);
    auto locks = ask(*control_, {&count_locks, {}}).integer(0, 0);
    require(locks == 0, text(locks) + " advisory locks are left");
  }

  bool over() const {
    return std::all_of(model_.instances.begin(), model_.instances.end(),
                       [](const auto& x) { return x.id == 0 || x.finished(); });
  }

  void run_once() {
    std::set<std::pair<std::int64_t, std::string>> held;
    for (std::size_t i = 0; i < node_count; ++i) {
      auto& x = parties_[i];
      for (auto& [tag, one] : x.holding) {
        held.emplace(one.row.id, one.token);
        if (!one.decided)
          decide(x, tag, verb::done, 0xff);
      }
    }
    for (std::size_t i = 0; i < slot_count; ++i) {
      auto& x = model_.instances[i];
      if (x.id == 0)
        continue;
      if (x.rests()) {
        elapse(x);
      } else if (x.status == "awaiting_signal" && !x.owed()) {
        action one{act::signal, 0, static_cast<unsigned>(i)};
        one.a = x.awaits == names[1] ? 1 : 0;
        signal(one);
        require(!x.woken.empty(), "a signal does not wake its target");
      } else if (!x.eligible
                 || (x.status == "executing"
                     && !held.contains({x.id, x.token}))) {
        elapse(x);
      }
    }
    auto any = [this](auto due) {
      return std::any_of(model_.instances.begin(), model_.instances.end(), due);
    };
    if (any([](const auto& x) { return x.lease_over; }))
      reap();
    if (any([](const auto& x) {
          return x.lease_over || x.deadline_over || x.owed();
        }))
      wake();
    parties_[0].work->look_everywhere(); // as polls do
    // One picks: the others only end what they have.
    for (std::size_t i = 0; i < node_count; ++i)
      turn(parties_[i], 0, i == 0 ? 10 : 0, 0);
  }

  temporary_database db_;
  const mutant* fault_ = nullptr;
  std::unique_ptr<pq::connection> control_;
  std::array<party, party_count> parties_{};
  std::optional<session> killer_{};
  model model_{};
  std::int32_t limit_ = inbox_limit;
  bool dirty_ = false;
  std::size_t runs_ = 0;
};

// -- searching and shrinking --------------------------------------------------

struct finding {
  std::uint64_t seed = 0;
  schedule actions{};
  std::string why{};
};

std::string to_string(const finding& x) {
  auto out = "seed " + std::to_string(x.seed) + ", shrunk to:";
  for (const auto& one : x.actions)
    out += "\n  " + to_string(one);
  return out + "\nand then: " + x.why;
}

/// Leaves out and simplifies what it goes wrong without.
finding shrink(world& in, finding x) {
  auto try_instead = [&](const schedule& other) {
    auto why = in.run(other);
    if (!why)
      return false;
    x.actions = other;
    x.why = *why;
    return true;
  };
  for (bool smaller = true; std::exchange(smaller, false);)
    for (auto chunk = x.actions.size(); chunk > 0; chunk /= 2)
      for (std::size_t at = 0; at + chunk <= x.actions.size();) {
        auto without = x.actions;
        auto from = without.begin() + static_cast<std::ptrdiff_t>(at);
        without.erase(from, from + static_cast<std::ptrdiff_t>(chunk));
        if (try_instead(without))
          smaller = true;
        else
          at += chunk; // what lies across is found with smaller chunks
      }
  for (std::size_t i = 0; i < x.actions.size(); ++i)
    for (auto field : {&action::b, &action::a, &action::who, &action::which})
      if (auto simpler = x.actions; simpler[i].*field != 0) {
        simpler[i].*field = 0;
        try_instead(simpler);
      }
  return x;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* x = std::getenv(name);
  return x != nullptr && *x != '\0' ? std::stoull(x) : otherwise;
}

/// Runs schedules, one per seed, until one goes wrong.
std::optional<finding> search(world& in, std::uint64_t seed,
                              std::uint64_t count,
                              std::atomic<std::uint64_t>& next) {
  for (auto i = next++; i < count; i = next++) {
    finding x{seed + i, make_schedule(seed + i), {}};
    if (auto why = in.run(x.actions)) {
      next = count; // others stop, too
      x.why = *why;
      return shrink(in, std::move(x));
    }
  }
  return std::nullopt;
}

/// Calls it on several threads, each with a database of its own: while some wait for
/// the disk others compute.
void in_several_worlds(const std::function<void(world&)>& work) {
  constexpr int threads = 4;
  std::mutex guard;
  std::exception_ptr broken;
  auto run = [&] {
    try {
      world here;
      work(here);
    } catch (...) {
      std::lock_guard lock{guard};
      broken = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(run);
  run();
  for (auto& x : others)
    x.join();
  if (broken)
    std::rethrow_exception(broken);
}

std::optional<finding> search_all(std::uint64_t seed, std::uint64_t count) {
  std::atomic<std::uint64_t> next = 0;
  std::mutex guard;
  std::optional<finding> found;
  in_several_worlds([&](world& here) {
    auto one = search(here, seed, count, next);
    std::lock_guard lock{guard};
    if (one && (!found || one->seed < found->seed))
      found = std::move(one);
  });
  return found;
}

} // namespace

CAF_TEST(random schedules keep every promise) {
  auto seed = setting("GD_SEED", 1);
  auto count = setting("GD_SCHEDULES", 500);
  CAF_MESSAGE("GD_SEED=" << seed << " GD_SCHEDULES=" << count);
  if (auto found = search_all(seed, count))
    CAF_ERROR(to_string(*found));
  // Or they would not be about both transactions of a turn.
  CAF_CHECK_GREATER(beside_each_other.load(), static_cast<int>(count / 40));
}

CAF_TEST(a statement with a single fault is found out in few actions) {
  const std::array<mutant, 32> mutants{{
    {"an outcome without a fence", sql::flush,
     "(g.locked_by = e.token and g.status = 'executing') is true", "true", 148},
    {"an outcome without its token", sql::flush, "g.locked_by = e.token and ",
     "", 161},
    {"a completion without its token", sql::flush_done,
     "(g.id, g.locked_by) in (select e.id, e.token ", "g.id in (select e.id ",
     54},
    {"a completion with any token of its group", sql::flush_done,
     "(g.id, g.locked_by) in (select e.id, e.token ",
     "g.locked_by in (select e.token ", 458},
    {"a completion of what nobody has locked", sql::flush_done,
     "(select h.tuple from held h where h.fenced)",
     "(select g.ctid from :\"schema\".gen_durable g where g.id = any($1))", 47},
    {"a next without its token", sql::flush_next, "g.locked_by = e.token and ",
     "", 4079},
    {"an advance without its token", sql::flush_advance,
     "g.locked_by = e.token and ", "", 481},
    {"an advance that keeps the old token", sql::flush_advance,
     "locked_by = $6::text", "locked_by = coalesce(g.locked_by, $6::text)", 39},
    {"a replay that does not count", sql::flush,
     "least(greatest(g.attempt - g.crashes - coalesce(g.excused, 0), 0), "
     "2147483646) + 1",
     "greatest(g.attempt - g.crashes, 0)", 52},
    {"a replay that counts a crash as a failure", sql::flush,
     "greatest(g.attempt - g.crashes - coalesce(g.excused, 0), 0)", "g.attempt",
     4253},
    {"a stop that forgets why it was woken", sql::flush,
     "wake_reason = case when h.outcome in ('replay', 'stop', 'release')",
     "wake_reason = case when h.outcome in ('replay', 'release')", 6446},
    {"a row that rests until a signal comes", sql::flush,
     "when h.outcome = 'park' then ''", "when h.outcome = 'park' then 'paid'",
     250},
    {"a dedup key that does not outlive its signal", sql::flush,
     "set consumed_at = clock_timestamp(), payload = '{}'",
     "set consumed_at = clock_timestamp(), payload = '{}', dedup_key = null"},
    {"a park that does not look again", sql::recheck, "and s.id not in",
     "and false and s.id not in", 64},
    {"a signal that wakes whatever is awaited", sql::signal,
     "where (e.name = e.awaits or e.name = any(e.awaits_also)) and", "where",
     187},
    {"a signal that wakes for the first of several names alone", sql::signal,
     " or e.name = any(e.awaits_also)", "", 418},
    {"a park that looks again for the first of several names alone",
     sql::recheck, "g.awaits_also is not null and", "false and"},
    {"a wake-up that leaves some of the names", sql::signal,
     "case when w.owed then g.awaits_also end", "g.awaits_also", 418},
    {"a later next that is due at once", sql::flush,
     "when 'later' then clock_timestamp() + h.delay_us",
     "when 'later' then clock_timestamp() + 0 * h.delay_us", 407},
    {"a heartbeat without a fence", sql::heartbeat,
     "(g.locked_by = e.token and g.status = 'executing') is true", "true", 306},
    {"a reap that does not count", sql::reap,
     "least(g.attempt, 2147483646) + 1", "g.attempt"},
    {"a give-back that counts", sql::release_lost, "set status = 'runnable',",
     "set status = 'runnable', attempt = g.attempt + 1,"},
    {"an entry of an outcome that is not applied", sql::flush_ledger,
     "from applied a\n  where",
     "from (select a.* from applied a union all select h.id, h.outcome, "
     "h.from_step, h.token, h.wake_reason, h.error, null, g.seq + 1, "
     "clock_timestamp(), g.fsm_version, h.from_step, 0, g.history, null "
     "from held h join :\"schema\".gen_durable g on g.id = h.id "
     "where not h.fenced) a where",
     112},
    {"an entry of what a second read sees", sql::flush_ledger,
     "a.metadata, a.state",
     "a.metadata, (select g.state from :\"schema\".gen_durable g "
     "where g.id = a.id and g.history = 2)"},
    {"a done and its entry without a fence", sql::flush_done_ledger,
     "(select h.tuple from held h where h.fenced)",
     "(select h.tuple from held h)", 277},
    {"an entry of a next that a second read sees", sql::flush_next_ledger,
     "a.from_step, a.step,",
     "a.from_step, (select g.step from :\"schema\".gen_durable g "
     "where g.id = a.id),",
     400},
    {"an entry of an advance that a second read sees",
     sql::flush_advance_ledger, "a.from_step, a.step,",
     "a.from_step, (select g.step from :\"schema\".gen_durable g "
     "where g.id = a.id),",
     188},
    {"a reap without an entry", sql::reap, "where r.history > 0",
     "where r.history > 0 and false"},
    {"a return without an entry", sql::return_row, "where a.history > 0",
     "where a.history > 0 and false"},
    {"a transition that is not counted", sql::flush_next, "seq = g.seq + 1, ",
     ""},
    {"a give-back that is counted", sql::release_lost,
     "set status = 'runnable',", "set status = 'runnable', seq = g.seq + 1,"},
    {"a claim without an end", sql::insert_claimed,
     "clock_timestamp() + $12::bigint", "null::timestamptz + $12::bigint"},
  }};
  std::array<std::optional<finding>, mutants.size()> found;
  std::atomic<std::size_t> next_mutant = 0;
  in_several_worlds([&](world& here) {
    for (auto i = next_mutant++; i < mutants.size(); i = next_mutant++) {
      here.break_with(mutants[i]);
      std::atomic<std::uint64_t> next = 0;
      found[i] = search(here, mutants[i].seed, 1'000, next);
    }
  });
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    if (!found[i]) {
      CAF_ERROR(mutants[i].title << ": not found");
      continue;
    }
    CAF_MESSAGE(mutants[i].title << ": " << to_string(*found[i]));
    CAF_CHECK_LESS_OR_EQUAL(found[i]->actions.size(), 8u);
  }
}

} // namespace schedules_suite
