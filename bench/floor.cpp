/// The floor: the least SQL that picks and completes the same rows, on the same
/// tables, in turns of one transaction that complete what the turn before has
/// picked. No fences, no leases that are looked at, no actors.
///
/// FROZEN, as long as the tables are what they are. It is what the engine is
/// measured with, so it must not change with the engine: neither become slower
/// with it nor learn from it. Nothing of the library runs here, and no trigger.

#include "floor.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <stdexcept>
#include <utility>

namespace gd::bench {

namespace {

// -- the protocol's binary form -----------------------------------------------

template <class T>
void put(std::string& to, T x) {
  for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0;
       shift -= 8)
    to += static_cast<char>(x >> shift);
}

std::string array_of(std::int32_t type, std::size_t size) {
  std::string out;
  out.reserve(20 + size * 24);
  for (auto x : {size == 0 ? 0 : 1, 0, type})
    put(out, static_cast<std::int32_t>(x));
  if (size > 0) {
    put(out, static_cast<std::int32_t>(size));
    put(out, std::int32_t{1});
  }
  return out;
}

std::string encode(const std::vector<std::int64_t>& xs) {
  auto out = array_of(20, xs.size());
  for (auto x : xs) {
    put(out, std::int32_t{8});
    put(out, x);
  }
  return out;
}

std::string encode(const std::vector<std::string>& xs) {
  auto out = array_of(25, xs.size());
  for (const auto& x : xs) {
    put(out, static_cast<std::int32_t>(x.size()));
    out += x;
  }
  return out;
}

std::int64_t decode(const char* bytes) {
  std::uint64_t x = 0;
  for (int i = 0; i < 8; ++i)
    x = x << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<std::int64_t>(x);
}

/// N of {"left": N}.
std::int64_t left_in(const char* text) {
  std::int64_t n = 0;
  const auto* from = std::strchr(text, ':') + 2;
  std::from_chars(from, from + std::strlen(from), n);
  return n;
}

// -- statements ---------------------------------------------------------------

/// Plans are made once and for tables of all sizes. A pipeline is a transaction
/// without a begin or a commit.
constexpr const char* settings = R"(
  set gd.trusted = 'all';
  set enable_seqscan = off;
  set enable_bitmapscan = off;
  set jit = off;
  set plan_cache_mode = force_generic_plan)";

/// The queue and how much to take are part of the text, so that they are part of
/// the plan.
constexpr const char* pick_rows = R"(
  with due as materialized (
    select ctid, id from gen_durable_due
    where (partition_key is null) is true and crashes < 2
      and hashtextextended(queue, hashtextextended(fsm, fsm_version))
        = hashtextextended('{0}', hashtextextended('CountDown', 1))
      and queue = '{0}' and fsm = 'CountDown' and fsm_version = 1
      and priority = 0 and eligible_at <= statement_timestamp()
    order by eligible_at, id
    limit {1}
    for update skip locked
  ), gone as (
    delete from gen_durable_due
    where ctid = any(array(select ctid from due)))
  update gen_durable
  set status = 'executing', locked_by = $1::text,
      lease_expires_at = clock_timestamp() + interval '60 s',
      updated_at = clock_timestamp()
  where id = any(array(select id from due))
  returning id, state)";

/// Lists what has become runnable (x).
constexpr const char* list_it = R"(
  insert into gen_durable_due (id, fsm, fsm_version, queue, priority, eligible_at)
  select id, fsm, fsm_version, queue, priority, eligible_at from x)";

struct statement {
  const char* name;
  const char* text;
  bool lists = false;
};

/// Behind the ends of a group, if they carry something.
constexpr statement carried_statements[] = {
  {"send", R"(
    with t as materialized (
      select id from gen_durable where id = any($1::bigint[])
      order by id for no key update skip locked)
    insert into gen_durable_signals (target_id, name)
    select id, 'done' from t)"},
  {"enter", "insert into public.bench_entries values ($1::bigint)"},
};

constexpr statement statements[] = {
  {"done", R"(
    update gen_durable
    set status = 'done', result = '{}', locked_by = null,
        lease_expires_at = null, updated_at = clock_timestamp()
    where id = any($1::bigint[]))"},
  {"next", R"(
    with x as (update gen_durable g
    set status = 'runnable', step = 'work', state = e.state::jsonb, attempt = 0,
        eligible_at = clock_timestamp(), locked_by = null,
        lease_expires_at = null, updated_at = clock_timestamp()
    from unnest($1::bigint[], $2::text[]) e (id, state)
    where g.id = e.id
    returning g.*))",
   true},
  {"consume",
   "delete from gen_durable_signals where target_id = any($1::bigint[])"},
  {"signal", R"(
    insert into gen_durable_signals (target_id, name)
    select target, 'go' from unnest($1::bigint[]) target)"},
  {"wake", R"(
    with x as (update gen_durable
    set status = 'runnable', awaits = null, wake_reason = 'signal',
        eligible_at = clock_timestamp(), updated_at = clock_timestamp()
    where id = any($1::bigint[])
    returning *))",
   true},
  {"insert", R"(
    with x as (insert into gen_durable (fsm, step, state, queue, eligible_at)
    select e.fsm, e.step, e.state::jsonb, e.queue, clock_timestamp()
    from unnest($1::text[], $2::text[], $3::text[], $4::text[])
      as e (fsm, step, state, queue)
    returning *))",
   true},
};

// -- connections --------------------------------------------------------------

/// A connection with one pipeline under way at the most.
class floor_connection {
public:
  floor_connection(const parameters& how, const std::string& queue)
    : db_(how.database),
      token_(
        fmt::format("floor:{}/0123456789abcdef0123456789abcdef", getpid())) {
    db_.run(settings);
    prepare("pick",
            fmt::format(fmt::runtime(pick_rows), queue, how.turn).c_str());
    for (const auto& x : statements)
      prepare(x.name,
              x.lists ? (std::string{x.text} + list_it).c_str() : x.text);
    if (how.effect > 0)
      for (const auto& x : carried_statements)
        prepare(x.name, x.text);
    check(PQenterPipelineMode(db_.get()) == 1);
  }

  int fd() const {
    return PQsocket(db_.get());
  }

  bool under_way() const {
    return under_way_;
  }

  void call(const char* name, const std::vector<std::string>& args) {
    std::vector<const char*> values;
    std::vector<int> sizes;
    for (const auto& x : args) {
      values.push_back(x.data());
      sizes.push_back(static_cast<int>(x.size()));
    }
    std::vector<int> binary(args.size(), 1);
    check(PQsendQueryPrepared(db_.get(), name, static_cast<int>(args.size()),
                              values.data(), sizes.data(), binary.data(), 1)
          == 1);
  }

  void pick() {
    call("pick", {token_});
  }

  void commit() {
    check(PQpipelineSync(db_.get()) == 1);
    under_way_ = true;
  }

  /// Reads what has arrived; `row(id, state)` gets the rows that are returned.
  template <class F>
  void read(F row) {
    check(PQconsumeInput(db_.get()) == 1);
    while (under_way_ && PQisBusy(db_.get()) == 0) {
      std::unique_ptr<PGresult, decltype(&PQclear)> answer{
        PQgetResult(db_.get()), PQclear};
      if (!answer)
        continue; // between the answers of two statements
      auto status = PQresultStatus(answer.get());
      check(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
            || status == PGRES_PIPELINE_SYNC);
      for (int i = 0; i < PQntuples(answer.get()); ++i)
        row(decode(PQgetvalue(answer.get(), i, 0)),
            PQgetvalue(answer.get(), i, 1) + 1); // jsonb begins with a version
      under_way_ = status != PGRES_PIPELINE_SYNC;
    }
  }

private:
  void prepare(const char* name, const char* text) {
    std::unique_ptr<PGresult, decltype(&PQclear)> answer{
      PQprepare(db_.get(), name, text, 0, nullptr), PQclear};
    check(PQresultStatus(answer.get()) == PGRES_COMMAND_OK);
  }

  void check(bool well) {
    if (!well)
      throw std::runtime_error{std::string{"floor: "}
                               + PQerrorMessage(db_.get())};
  }

  session db_;
  std::string token_;
  bool under_way_ = false;
};

/// Waits until one of them has answered something.
void wait(std::list<floor_connection>& connections) {
  std::vector<pollfd> fds;
  for (auto& x : connections)
    if (x.under_way())
      fds.push_back({x.fd(), POLLIN, 0});
  poll(fds.data(), fds.size(), -1);
}

std::list<floor_connection> open_connections(const parameters& how,
                                             const std::string& queue) {
  std::list<floor_connection> out;
  for (std::int64_t i = 0; i < how.floor_connections; ++i)
    out.emplace_back(how, queue);
  return out;
}

/// What the ends of a group carry, by hand.
class load {
public:
  explicit load(const parameters& how) : how_(how), first_(make_room(how)) {
    // nop
  }

  void add(floor_connection& to, const std::vector<std::int64_t>& ids) const {
    if (how_.effect == 0)
      return;
    auto n = ids.size() * static_cast<std::size_t>(how_.carried);
    auto same = [n](const char* text) {
      return encode(std::vector<std::string>(n, text));
    };
    std::vector<std::int64_t> targets;
    for (auto id : ids)
      for (std::int64_t i = 0; i < how_.carried; ++i)
        targets.push_back(
          first_ + (id * how_.carried + i) % (how_.rows * how_.carried));
    if (how_.effect == 1)
      to.call("insert", {same("CountDown"), same("work"), same(R"({"left":1})"),
                         same("none")});
    else if (how_.effect == 2)
      to.call("send", {encode(targets)});
    else
      for (auto id : ids)
        for (std::int64_t i = 0; i < how_.carried; ++i) {
          std::string value;
          put(value, id);
          to.call("enter", {value});
        }
  }

private:
  parameters how_;
  std::int64_t first_;
};

/// What a connection has picked, and completes with its next turn.
struct hand {
  floor_connection* own;
  const load* with = nullptr;
  std::vector<std::int64_t> last{};
  std::vector<std::int64_t> more{};
  std::vector<std::string> states{};
  bool returns = false; ///< its turn makes rows runnable again

  bool empty() const {
    return last.empty() && more.empty();
  }

  void begin_turn(bool signals) {
    if (!last.empty()) {
      auto ids = encode(last);
      own->call("done", {ids});
      if (signals)
        own->call("consume", {ids});
      if (with != nullptr)
        with->add(*own, last);
    }
    returns = !more.empty();
    if (returns)
      own->call("next", {encode(more), encode(states)});
    own->pick();
    own->commit();
    last.clear();
    more.clear();
    states.clear();
  }

  void take(std::int64_t id, const char* state) {
    if (auto left = left_in(state); left <= 1) {
      last.push_back(id);
    } else {
      more.push_back(id);
      states.push_back(fmt::format(R"({{"left":{}}})", left - 1));
    }
  }
};

/// Picks and completes until nothing is left. With `signals`, a row's signals go
/// with it.
void drain(std::list<floor_connection>& connections, bool signals = false,
           const load* with = nullptr) {
  std::vector<hand> hands;
  for (auto& x : connections)
    hands.push_back({&x, with});
  for (auto& x : hands)
    x.begin_turn(signals);
  auto under_way = [](const hand& x) { return x.own->under_way(); };
  while (std::any_of(hands.begin(), hands.end(), under_way)) {
    wait(connections);
    bool returned = false;
    for (auto& x : hands) {
      if (!x.own->under_way())
        continue;
      x.own->read(
        [&](std::int64_t id, const char* state) { x.take(id, state); });
      if (x.own->under_way())
        continue;
      returned = returned || x.returns;
      if (!x.empty())
        x.begin_turn(signals);
    }
    if (returned) // there may be work again for those that had found none
      for (auto& x : hands)
        if (!x.own->under_way())
          x.begin_turn(signals);
  }
}

/// Has all connections work at `send(floor_connection, first, size)`, batch by batch.
void in_batches(std::list<floor_connection>& connections, std::int64_t rows,
                std::int64_t batch,
                const std::function<void(floor_connection&, std::int64_t,
                                         std::int64_t)>& send) {
  std::int64_t next = 0;
  for (bool under_way = true; under_way;) {
    under_way = false;
    for (auto& x : connections) {
      if (x.under_way())
        x.read([](std::int64_t, const char*) {});
      if (!x.under_way() && next < rows) {
        auto size = std::min(batch, rows - next);
        send(x, next, size);
        x.commit();
        next += size;
      }
      under_way = under_way || x.under_way();
    }
    if (under_way)
      wait(connections);
  }
}

void fill(const parameters& how, const std::string& queue = "default") {
  session{how.database}.run(fmt::format(
    R"(insert into gen_durable (fsm, step, state, queue, eligible_at)
       select 'CountDown', 'work', jsonb_build_object('left', {}), '{}',
         clock_timestamp()
       from generate_series(1, {}))",
    how.steps, queue, how.rows));
}

/// That there is nothing left to be done.
void verify(const parameters& how) {
  if (session{how.database}.scalar(
        "select exists (select from gen_durable where queue = 'default' and "
        "fsm = 'CountDown' and status <> 'done' and eligible_at <= now())")
      != "f")
    throw std::runtime_error{"floor: not everything has been done"};
}

// -- workloads ----------------------------------------------------------------

/// Processes of their own that drain together. They begin when all are connected,
/// which closing the gate tells them.
void drain_in_processes(const parameters& how, meter& m) {
  int ready[2];
  int gate[2];
  if (pipe(ready) != 0 || pipe(gate) != 0)
    throw std::runtime_error{"floor: no pipe"};
  std::vector<pid_t> children;
  char byte = 0;
  for (std::int64_t i = 0; i < how.processes; ++i) {
    auto pid = fork();
    if (pid == 0) {
      close(gate[1]);
      auto connections = open_connections(how, "default");
      if (write(ready[1], &byte, 1) != 1 || read(gate[0], &byte, 1) != 0)
        _exit(EXIT_FAILURE);
      drain(connections);
      _exit(EXIT_SUCCESS);
    }
    children.push_back(pid);
  }
  close(ready[1]);
  for (std::int64_t i = 0; i < how.processes; ++i)
    if (read(ready[0], &byte, 1) != 1)
      throw std::runtime_error{"floor: a process does not begin"};
  m.start();
  close(gate[1]);
  for (auto pid : children) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
      throw std::runtime_error{"floor: a process has failed"};
  }
  m.stop();
  close(ready[0]);
  close(gate[0]);
}

sample measure_drain(const parameters& how) {
  fill(how);
  meter m{how.database};
  auto reader = old_snapshot(how);
  if (how.processes > 1) {
    drain_in_processes(how, m);
  } else {
    load with{how};
    auto connections = open_connections(how, "default");
    m.start();
    drain(connections, false, &with);
    m.stop();
  }
  reader.reset();
  auto out = m.finish(static_cast<double>(how.rows * how.steps));
  out.more["pages per picked row"] = m.pages_per_pick();
  if (how.effect > 0)
    out.more["effects/s"] = out.per_second() * static_cast<double>(how.carried);
  verify(how);
  return out;
}

sample measure_bulk(const parameters& how) {
  meter m{how.database};
  {
    auto connections = open_connections(how, "default");
    m.start();
    in_batches(connections, how.rows, how.turn,
               [](floor_connection& x, std::int64_t, std::int64_t size) {
      auto same = [size](const char* text) {
        return encode(
          std::vector<std::string>(static_cast<std::size_t>(size), text));
      };
      x.call("insert", {same("CountDown"), same("work"), same(R"({"left":1})"),
                        same("default")});
    });
    m.stop();
  }
  return m.finish(static_cast<double>(how.rows));
}

sample measure_signals(const parameters& how) {
  fill(how);
  session{how.database}.run(
    "update gen_durable set status = 'awaiting_signal', awaits = 'go'");
  meter m{how.database};
  {
    auto connections = open_connections(how, "default");
    m.start();
    in_batches(connections, how.rows, how.turn,
               [](floor_connection& x, std::int64_t first, std::int64_t size) {
      std::vector<std::int64_t> ids;
      for (auto id = first + 1; id <= first + size; ++id)
        ids.push_back(id); // of a fresh table
      x.call("signal", {encode(ids)});
      x.call("wake", {encode(ids)});
    });
    drain(connections, true);
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows));
  verify(how);
  return out;
}

/// One row, one commit, one after the other: what no durable insert undercuts.
sample measure_commit(const parameters& how) {
  meter m{how.database};
  std::vector<double> times;
  {
    auto one = how;
    one.floor_connections = 1;
    auto connections = open_connections(one, "default");
    m.start();
    for (std::int64_t i = 0; i < how.rows; ++i) {
      auto began = clock::now();
      in_batches(connections, 1, 1,
                 [](floor_connection& x, std::int64_t, std::int64_t) {
        x.call("insert", {encode(std::vector<std::string>{"CountDown"}),
                          encode(std::vector<std::string>{"work"}),
                          encode(std::vector<std::string>{R"({"left":1})"}),
                          encode(std::vector<std::string>{"default"})});
      });
      times.push_back(
        std::chrono::duration<double, std::milli>(clock::now() - began)
          .count());
    }
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows));
  out.more["commit p50 ms"] = quantile(times, 0.5);
  out.more["commit p99 ms"] = quantile(times, 0.99);
  return out;
}

} // namespace

sample measure_floor(const std::string& workload, const parameters& how) {
  if (workload == "drain")
    return measure_drain(how);
  if (workload == "bulk")
    return measure_bulk(how);
  if (workload == "signals")
    return measure_signals(how);
  if (workload == "commit")
    return measure_commit(how);
  throw std::runtime_error{"floor: unknown workload " + workload};
}

double floor_rate(const parameters& how) {
  std::vector<double> rates;
  for (int i = 0; i < 3; ++i) {
    fill(how, "floor");
    auto connections = open_connections(how, "floor");
    auto began = clock::now();
    drain(connections);
    rates.push_back(
      static_cast<double>(how.rows)
      / std::chrono::duration<double>(clock::now() - began).count());
  }
  return quantile(rates, 0.5);
}

} // namespace gd::bench
