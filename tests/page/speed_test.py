#!/usr/bin/env python3
"""How long each view of the page waits, and a verb, and what it costs PostgreSQL, with GD_PAGE_ROWS instances: alone, and beside
a drain at full speed. How long is printed; what is asserted, with many rows, is the CPU of a call, beside that of adding up
a hundred thousand numbers.

    tools/private-postgres run -- tests/page/speed_test.py GDCTL GD_TEST_WORKER
"""

import functools
import http.client
import os
import shutil
import statistics
import sys
import tempfile
import time

import support

ROWS = int(os.environ.get("GD_PAGE_ROWS", "100000"))
# Only where many rows are, which is not beside other tests.
ASSERTS = ROWS >= 10_000_000
DRAINED = min(ROWS, 1_000_000)
CALLS = 40

PREPARE = """
  alter table gen_durable set (autovacuum_enabled = off);
  insert into gen_durable_machines (fsm, version, initial_step, steps, queue) values ('Dispatch', 1, 'pack', '{pack}', 'mail')"""

# Most have ended, as of a table that nobody cleans up; as gd_bench operator-queries has it.
FILL = """
  set gd.trusted = 'json';
  insert into gen_durable (fsm, step, state, status, awaits, queue, last_error, result, eligible_at, partition_key)
    select 'Dispatch', 'pack', '{{"parcel": "P-17"}}', s.status, case when s.status = 'awaiting_signal' then 'go' end,
      case when n % 100 = 3 then 'later' else 'mail' end, case when s.status = 'failed' then 'connection refused ' || n % 1000 end,
      case when s.status = 'done' then jsonb '{{}}' end, now() + case when n % 100 = 3 then interval '1 day' else interval '-1 hour' end,
      case when n % 100 = 4 then 'customer ' || n % 1000 end
    from generate_series({first}, {last}) n
    cross join lateral (select cast(case n % 100 when 0 then 'failed' when 1 then 'runnable' when 2 then 'awaiting_signal'
      when 3 then 'runnable' when 4 then 'runnable' else 'done' end as gen_durable_status) as status) s"""

DRAIN = f"""
  set gd.trusted = 'json';
  insert into gen_durable (fsm, step) select 'Walk', 'one' from generate_series(1, {DRAINED});
  vacuum analyze gen_durable"""

VIEWS = ["/api/overview", "/api/machines", "/api/machine?name=Dispatch", "/api/instances", "/api/instances?status=failed",
         "/api/instances?status=failed&failure=refused+900", "/api/instances?machine=Nobody", "/api/instances?status=executing",
         "/api/instance?id=101", "/api/history?id=101", "/api/jobs", "/metrics"]


def fill(database):
    """In pieces, each of which is done soon."""
    database.sql(PREPARE)
    for first in range(1, ROWS + 1, 1_000_000):
        database.sql(FILL.format(first=first, last=min(first + 999_999, ROWS)))
    database.sql(DRAIN)


def cpu(database):
    """Milliseconds that all connections of the server have had."""
    total = 0
    for (pid,) in database.sql("select pid from pg_stat_activity where application_name = 'gdctl serve' "
                               "and datname = current_database()"):
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1_000_000


def done(there, what):
    answer = there.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise support.Failed(f"{what}: {answer.status} {body.decode()}")


def ask(there, target):
    there.request("GET", target)
    done(there, target)


def resume(there, server):
    """A verb that has nothing to do: the queue is not paused. What is kept for a second is asked for anew behind any verb."""
    there.request("POST", "/api/verb", '{"verb":"resume","queue":"mail"}',
                  {"Origin": server.url.rstrip("/"), "Authorization": f"Bearer {server.token}", "Content-Type": "application/json"})
    done(there, "resume")


def numbers(database):
    """What it costs to add them up: milliseconds of a connection's CPU, once."""
    used = "select split_part(pg_read_file('/proc/self/schedstat'), ' ', 1);"
    once = "select sum(n) from generate_series(1, 100000) n;"
    found = database.sql(once + used + once * CALLS + used)
    return (int(found[-1][0]) - int(found[1][0])) / 1_000_000 / CALLS


def measure(what, database, call, before=lambda: None):
    """What a call costs. What comes before each is not counted."""
    times = []
    cost = 0
    call()
    for _ in range(CALLS):
        before()
        had = cpu(database)
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1_000)
        cost += cpu(database) - had
    cost /= CALLS
    median = statistics.median(times)
    print(f"{what}: {median:.1f} ms, at the most {max(times):.1f} ms; PostgreSQL's CPU {cost:.1f} ms", flush=True)
    return cost


def measure_all(there, server, database):
    """What costs more than it may."""
    verb = functools.partial(resume, there, server)
    cost = {"resume": measure("resume", database, verb)}
    for target in VIEWS:
        cost[target] = measure(target, database, functools.partial(ask, there, target), verb)
    of_numbers = numbers(database)
    print(f"a hundred thousand numbers: PostgreSQL's CPU {of_numbers:.1f} ms", flush=True)
    return [what for what, x in cost.items() if ASSERTS and x > of_numbers / 2]


def main():
    gdctl, worker = (os.path.realpath(x) for x in sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="gd-page-")
    database = support.Database(gdctl)
    server = drain = None
    try:
        fill(database)
        server = support.Server(gdctl, database.url, folder)
        there = http.client.HTTPConnection("127.0.0.1", server.port, timeout=support.SECONDS)
        print(f"{ROWS} instances:", flush=True)
        dear = measure_all(there, server, database)
        left = "select count(*) from gen_durable where fsm = 'Walk' and status <> 'done'"
        drain = support.Process([worker, database.url, "drain", "drain"], database.url, folder)
        database.until("exists (select from gen_durable where status = 'executing')")
        print("beside a drain:", flush=True)
        dear += measure_all(there, server, database)
        print(f"{database.value(left)} of {DRAINED} were not drained at the end", flush=True)
        there.close()
        if dear:
            raise support.Failed(f"expected less than half the CPU that a hundred thousand numbers take: {dear}")
    finally:
        if drain:
            drain.kill()
        if server:
            server.close()
        database.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
