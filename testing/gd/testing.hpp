#pragma once

#include <gd/client.hpp>
#include <gd/config.hpp>
#include <gd/effect.hpp>
#include <gd/instance.hpp>
#include <gd/json.hpp>
#include <gd/machine.hpp>
#include <gd/options.hpp>
#include <gd/registry.hpp>
#include <gd/time.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gd {

class run;
class key_table;
class lease;
class step_sessions;
class turn;

namespace pq {
struct call;
class connection;
class rows;
} // namespace pq

namespace store {
struct insert_row;
struct outcome_row;
struct picked_row;
} // namespace store

} // namespace gd

struct pg_conn;

/// For tests of machines: runs them one step after the other, in the calling
/// thread, without an engine. `simulation` needs no database, and its clock is
/// moved by the test; `in_database` does the same with the engine's own SQL.
namespace gd::testing {

/// One execution of a step.
struct executed {
  std::int64_t id = 0;      ///< the instance
  std::string step{};       ///< its name
  std::int32_t attempt = 0; ///< 0: the first
  /// Why it was woken: signal, timeout, or empty.
  std::string wake_reason{};
  /// next, replay, await, done, stop; crash: the outcome was lost on purpose;
  /// stale: another engine had taken the row meanwhile.
  std::string outcome{};
  /// Where `next` goes, what `await` waits for, why `stop` stops.
  std::string detail{};
  /// The outcome is the handler's.
  bool handled = false;

  /// Whether all of it is equal.
  bool operator==(const executed&) const = default;
};

/// What `harness::decodes` has found in a file.
struct decoded {
  std::size_t states = 0; ///< that were read
  /// Those that cannot be brought to the newest version of their machine: "line 3: state:
  /// instance 7: expected one of Order v1 that can be converted: $.total: ...".
  std::vector<std::string> refusals{};
};

/// "await_pay, attempt 1, timeout: stop not paid in time"
std::string to_string(const executed& x);

/// What both ways of running have in common: a test that takes a `harness&` can
/// do with either. Not thread-safe. Steps may call `insert`, `signal` and `transition`,
/// as they would call a client.
class harness {
public:
  virtual ~harness();

  /// Makes a machine known. An error: an engine would not start with it.
  gd::result<void> add(machine what);

  /// As the client's.
  virtual gd::result<inserted> insert(gd::insert what) = 0;
  /// As the client's: each row is accepted or refused by itself.
  std::vector<gd::result<inserted>> insert_all(std::vector<gd::insert> rows);

  /// As the client's.
  virtual gd::result<signalled> signal(gd::signal what) = 0;

  /// As the client's.
  virtual gd::result<transitioned> transition(gd::transition what) = 0;

  /// As the client's.
  virtual gd::result<gd::instance> look_up(const gd::look_up& what) = 0;
  /// `not_found`: there is no such instance.
  gd::result<gd::instance> instance(std::int64_t id) {
    return look_up({.id = id});
  }

  /// The clock that the test moves, which steps see as `ctx.now()`: a simulation's, or the
  /// database's, as far as it was advanced. Throws `bad_result` if the database does not
  /// tell it.
  virtual std::chrono::sys_time<std::chrono::microseconds> now() const = 0;

  /// Runs the step of the most urgent eligible row; false: no row is eligible.
  gd::result<bool> step();

  /// Steps until no row is eligible; how many it were. More than `at_most` are
  /// an error, which names what goes on running.
  gd::result<std::size_t> drain(std::size_t at_most = 10'000);

  /// Lets time pass: delays end, deadlines fire. Runs nothing.
  gd::result<void> advance(std::chrono::microseconds by);

  /// Advances until the next delay or deadline ends; false: nothing waits for
  /// time.
  gd::result<bool> advance_to_next();

  /// Lets time pass from one delay or deadline to the next, and drains at each.
  gd::result<std::size_t> run_for(std::chrono::microseconds by,
                                  std::size_t at_most = 10'000);

  /// The next execution of that instance happens, and its outcome is lost, as
  /// when the process dies and the lease runs out: it runs again with
  /// `attempt + 1`.
  void crash_next(std::int64_t id, int times = 1);

  /// Reads stored instances, a JSON object a line, as `gdctl show --json` prints them, or of these
  /// `id`, `fsm`, `version`, `step` and `state` alone, of which the last has to be there.
  /// Each is judged as an upgrade to the newest version of its machine would; its state is
  /// converted, if need be, and nothing is stored. What is done is passed over. An error:
  /// the file cannot be read, or a line of it is no such object.
  gd::result<decoded> decodes(const std::string& file) const;

  /// All executions, in their order.
  const std::vector<executed>& history() const noexcept {
    return history_;
  }

  /// Those of one instance.
  std::vector<executed> history(std::int64_t id) const;

  /// An instance and its executions, for messages of failed tests.
  std::string describe(std::int64_t id);

  /// The state of an instance. `codec`: it is of another type; `cipher`: its machine does
  /// not decrypt it.
  template <class T>
  gd::result<T> state(std::int64_t id) {
    auto x = plain_instance(id);
    if (!x)
      return x.error();
    return from_json<T>(x->state.text());
  }

  /// The result of an instance; an error if it has none.
  template <class T>
  gd::result<T> result(std::int64_t id) {
    auto x = plain_instance(id);
    if (!x)
      return x.error();
    if (!x->result)
      return no_result(*x);
    return from_json<T>(x->result->text());
  }

protected:
  /// \cond
  explicit harness(gd::limits bounds);
  harness(harness&&) = default;
  harness& operator=(harness&&) = default;

  using outcome_row = std::unique_ptr<store::outcome_row>;

  /// After `machines()` has got another one.
  virtual gd::result<void> added() = 0;
  virtual gd::result<bool> run_one() = 0;
  virtual gd::result<void> pass(std::chrono::microseconds by) = 0;
  /// How long until a delay or a deadline ends.
  virtual gd::result<std::optional<std::chrono::microseconds>> next_due() = 0;

  /// Runs a step that delivers its outcome later; null: it has crashed. By default an
  /// error.
  virtual gd::result<outcome_row> run_async(gd::run& what);

  /// What became of an outcome.
  struct written {
    bool applied = false;
    /// The row does not take it; else, if not applied, it is stale.
    std::optional<error> refused{};
    /// What of it is refused, if not all.
    std::optional<effect_refused> effect{};
  };

  /// What became of a step.
  struct ended {
    outcome_row row{}; ///< null: it has crashed
    /// Of a step in a transaction: the outcome is written already, or stale.
    std::optional<bool> applied{};
  };

  /// Runs a step in a transaction; if it `crashes`, what it has done there is undone.
  virtual gd::result<ended> run_in_transaction(gd::run& what, bool crashes) = 0;

  /// Runs the step of a picked row, and writes its outcome or loses it.
  gd::result<void>
  execute(store::picked_row row, std::shared_ptr<lease> under,
          const std::function<gd::result<written>(store::outcome_row)>& write,
          const std::function<gd::result<void>()>& lose);

  std::vector<machine> machines_;
  std::shared_ptr<registry> known_;
  gd::limits limits_;
  /// \endcond

private:
  gd::result<void> drain(std::size_t at_most, std::size_t& steps);
  gd::result<ended> run(gd::run& what, bool crashes);
  static error no_result(const gd::instance& x);
  /// With what its machine decrypts.
  gd::result<gd::instance> plain_instance(std::int64_t id);

  std::vector<executed> history_;
  std::map<std::int64_t, int> crashes_;
  bool running_ = false;
};

// -- without a database -------------------------------------------------------

/// What a `simulation` goes by.
struct simulation_settings {
  gd::limits limits{}; ///< bounds of what a row may hold
  /// What the clock shows at first.
  std::chrono::sys_time<std::chrono::microseconds> start
    = std::chrono::sys_days{std::chrono::year{2020} / 1 / 1};
  /// What steps in transactions get as `ctx.db()`, a `PGconn*` without a transaction: each
  /// of them runs in one, which is committed with its outcome. Null: they are refused.
  pg_conn* db = nullptr;
  /// Stands for the database, of statements that outcomes carry: how many rows one affects,
  /// or why it is refused. Empty: as many as it expects. A refused outcome does not take back
  /// what this has done.
  std::function<gd::result<std::int64_t>(const sql_statement&)> on_sql{};
};

/// Instances and their inboxes in memory. Does what the SQL does, and answers
/// with the same errors. All queues are served, as if they were one.
class simulation : public harness {
public:
  /// What is wrong with a machine is the error of the first call.
  explicit simulation(std::vector<machine> machines = {},
                      simulation_settings how = {});

  gd::result<inserted> insert(gd::insert what) override;
  gd::result<signalled> signal(gd::signal what) override;
  gd::result<transitioned> transition(gd::transition what) override;
  gd::result<gd::instance> look_up(const gd::look_up& what) override;

  /// The simulated clock, which steps see as `ctx.now()`. It stands still but for
  /// `advance` and its kin.
  std::chrono::sys_time<std::chrono::microseconds>
  now() const noexcept override {
    return now_;
  }

  /// The statements that outcomes have carried, in their order, of those that were written.
  const std::vector<sql_statement>& statements() const noexcept {
    return statements_;
  }

  /// Lets time pass until the clock shows that. An error: it is past that already.
  template <class Duration>
  gd::result<void> advance_to(std::chrono::sys_time<Duration> when) {
    return advance_to_us(to_microseconds(when));
  }

protected:
  /// \cond
  gd::result<bool> run_one() override;
  gd::result<void> pass(std::chrono::microseconds by) override;
  gd::result<std::optional<std::chrono::microseconds>> next_due() override;
  gd::result<ended> run_in_transaction(gd::run& what, bool crashes) override;
  /// \endcond

private:
  struct stored_signal {
    raw_signal content;
    std::optional<std::string> dedup_key;
    std::optional<std::int64_t> consumed_at_us{};
  };

  struct row {
    gd::instance shown;
    std::vector<std::string> unique_scope;
    std::vector<stored_signal> inbox;
    /// Orders what became eligible at the same time of a clock that stands.
    std::uint64_t turn = 0;
    /// Orders what was changed at the same time.
    std::uint64_t touched = 0;
    /// Its lease is over, but it could not be made runnable.
    bool expired = false;
  };

  gd::result<void> added() override;
  gd::result<void> advance_to_us(std::optional<std::int64_t> when_us);

  /// As `insert_new` and `insert` store it.
  row make_row(store::insert_row what) const;
  std::int64_t now_us() const noexcept {
    return now_.time_since_epoch().count();
  }
  bool is_known(const row& x) const;
  bool is_eligible(const row& x) const;
  static bool before(const row& a, const row& b);
  row* pick();
  store::picked_row show(const row& x) const;

  static bool occupies(const row& x, std::string_view status);
  /// Who has the unique key that the row would have in that status.
  std::optional<std::int64_t> holder(const row& x,
                                     std::string_view status) const;
  /// By its id, or by the unique key that it has; null: there is none.
  row* find(std::int64_t id, const std::optional<std::string>& key);
  void make_eligible(row& x, std::int64_t at_us);
  /// Null: the row must not be moved so, for `why`.
  const machine::step_definition*
  find_arrival(const row& x, const gd::transition& what, error& why) const;
  /// Sets the row down at a step.
  void arrive(row& x, const machine::step_definition& at);
  /// As a jsonb column returns it.
  static json as_stored(std::string text);
  void wake(row& x, std::string_view reason);
  /// Its key is not its own while it is parked, and would be when it is woken.
  static bool unsure(const row& x);
  void touch(row& x);
  void lose(row& x);
  void return_rows();
  written apply(store::outcome_row what);
  gd::result<ended> commit(gd::run& what, outcome_row row);
  written write(store::outcome_row what);
  /// What an outcome carries; which of it is refused. `before`: what was changed.
  std::optional<effect_refused> carry(const effects& what,
                                      std::map<std::int64_t, row>& before);
  /// Moves the row on as the outcome says, but for its inbox.
  void change(row& x, store::outcome_row& what);
  /// Forgets what the machine lets be forgotten; nodes do it some time later.
  void forget_dedup(row& x) const;
  /// Takes consumed signals out of the inbox; a new one wakes who waits for it.
  void consume(row& x, const store::outcome_row& what);

  std::function<gd::result<std::int64_t>(const sql_statement&)> on_sql_;
  std::vector<sql_statement> statements_;
  std::map<std::int64_t, row> rows_;
  pg_conn* db_;
  std::chrono::sys_time<std::chrono::microseconds> now_;
  std::optional<error> problem_;
  std::int64_t ids_ = 0;
  std::int64_t signal_ids_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t picks_ = 0;
};

// -- in a database ------------------------------------------------------------

/// What an `in_database` goes by.
struct in_database_settings {
  gd::limits limits{}; ///< bounds of what a row may hold
  /// Served after the machines' own queues.
  std::vector<std::string> queues{};
  /// How statements run that outcomes carry, and steps in transactions, which have a
  /// connection of their own.
  effect_settings effects{};
};

/// The same in a database, through the engine's own SQL: for tests that want to
/// see what is stored. It is a database of tests: `advance` moves everything in
/// it that waits for time, and `ctx.now()`; times given to `until` and to inserts are by
/// that clock, those that `instance` tells are the database's. No engine should work in it
/// meanwhile.
class in_database : public harness {
public:
  /// Connects, makes the machines known, and checks the schema. Errors: those of
  /// the client, and what is wrong with a machine.
  static gd::result<in_database> connect(const pq::options& where,
                                         std::vector<machine> machines = {},
                                         in_database_settings how = {});

  /// One that was moved from can only be destroyed or assigned to.
  in_database(in_database&&) noexcept;
  /// The same.
  in_database& operator=(in_database&&) noexcept;
  ~in_database() override;

  gd::result<inserted> insert(gd::insert what) override;
  gd::result<signalled> signal(gd::signal what) override;
  gd::result<transitioned> transition(gd::transition what) override;
  gd::result<gd::instance> look_up(const gd::look_up& what) override;
  std::chrono::sys_time<std::chrono::microseconds> now() const override;

private:
  struct session;

  in_database(pq::options where, in_database_settings how);

  gd::result<void> added() override;
  gd::result<bool> run_one() override;
  gd::result<void> pass(std::chrono::microseconds by) override;
  gd::result<std::optional<std::chrono::microseconds>> next_due() override;
  gd::result<ended> run_in_transaction(gd::run& what, bool crashes) override;

  void shift(gd::insert& what) const;
  gd::result<pq::rows> run(pq::call what) const;
  gd::result<void> sweep();
  gd::result<void> return_rows();
  gd::result<written> write(turn& work, store::outcome_row what);
  gd::result<void> lose(const std::shared_ptr<lease>& under);

  in_database_settings how_;
  std::unique_ptr<pq::connection> db_;
  std::optional<client> client_;
  std::shared_ptr<key_table> keys_;
  std::vector<session> sessions_;
  std::unique_ptr<step_sessions> step_sessions_;
  std::int64_t swept_at_us_ = 0;
  std::chrono::microseconds advanced_{0};
};

/// Runs what is eligible in a database until nothing is, with these machines, in
/// their queues and the given ones; how many steps it were.
gd::result<std::size_t> drain(const pq::options& where,
                              std::vector<machine> machines,
                              std::vector<std::string> queues = {});

} // namespace gd::testing
