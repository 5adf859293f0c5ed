#!/usr/bin/env python3
"""How long each view of the page waits, and what it costs PostgreSQL, with GD_PAGE_ROWS instances: alone, and beside a
drain at full speed. How long is printed; what is asserted, with many rows, is the CPU of a call.

    tools/private-postgres run -- tests/page/speed_test.py GDCTL GD_TEST_WORKER
"""

import http.client
import os
import shutil
import statistics
import sys
import tempfile
import time

import support

ROWS = int(os.environ.get("GD_PAGE_ROWS", "100000"))
# Of PostgreSQL's CPU, and only where many rows are, which is not beside other tests.
MOST_CPU_MS = 5 if ROWS >= 10_000_000 else None
DRAINED = min(ROWS, 1_000_000)
CALLS = 40

# Most have ended, as of a table that nobody cleans up; as gd_bench operator-queries has it.
FILL = f"""
  set gd.checks_json = on;
  alter table gen_durable set (autovacuum_enabled = off);
  insert into gen_durable_machines (fsm, version, initial_step, steps, queue) values ('Dispatch', 1, 'pack', '{{pack}}', 'mail');
  insert into gen_durable (fsm, step, state, status, awaits, queue, last_error, result, eligible_at, partition_key)
    select 'Dispatch', 'pack', '{{"parcel": "P-17"}}', s.status, case when s.status = 'awaiting_signal' then 'go' end,
      case when n % 100 = 3 then 'later' else 'mail' end, case when s.status = 'failed' then 'connection refused ' || n % 1000 end,
      case when s.status = 'done' then jsonb '{{}}' end, now() + case when n % 100 = 3 then interval '1 day' else interval '-1 hour' end,
      case when n % 100 = 4 then 'customer ' || n % 1000 end
    from generate_series(1, {ROWS}) n
    cross join lateral (select cast(case n % 100 when 0 then 'failed' when 1 then 'runnable' when 2 then 'awaiting_signal'
      when 3 then 'runnable' when 4 then 'runnable' else 'done' end as durable_status) as status) s;
  insert into gen_durable (fsm, step) select 'Walk', 'one' from generate_series(1, {DRAINED});
  vacuum analyze gen_durable"""

VIEWS = ["/api/overview", "/api/machines", "/api/machine?name=Dispatch", "/api/instances", "/api/instances?status=failed",
         "/api/instances?status=failed&failure=refused+900", "/api/instances?machine=Nobody", "/api/instances?status=executing",
         "/api/instance?id=101", "/api/history?id=101", "/api/jobs", "/metrics"]


def cpu(database):
    """Seconds of all connections of the server."""
    total = 0
    for (pid,) in database.sql("select pid from pg_stat_activity where application_name = 'gdctl serve' "
                               "and datname = current_database()"):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def ask(there, target):
    there.request("GET", target)
    answer = there.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise support.Failed(f"{target}: {answer.status} {body.decode()}")


def forget(there, server):
    """What is kept for a second is asked for anew behind any verb, such as one that has nothing to do."""
    there.request("POST", "/api/verb", '{"verb":"resume","queue":"mail"}',
                  {"Origin": server.url.rstrip("/"), "Authorization": f"Bearer {server.token}", "Content-Type": "application/json"})
    there.getresponse().read()


def measure(there, server, database, target):
    times = []
    ask(there, target)
    before = cpu(database)
    for _ in range(CALLS):
        forget(there, server)
        begin = time.perf_counter()
        ask(there, target)
        times.append((time.perf_counter() - begin) * 1_000)
    cost = (cpu(database) - before) * 1_000 / CALLS
    median = statistics.median(times)
    print(f"{target}: {median:.1f} ms, at the most {max(times):.1f} ms; PostgreSQL's CPU {cost:.1f} ms", flush=True)
    return MOST_CPU_MS is None or cost < MOST_CPU_MS


def main():
    gdctl, worker = (os.path.realpath(x) for x in sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="gd-page-")
    database = support.Database(gdctl)
    server = drain = None
    try:
        database.sql(FILL)
        server = support.Server(gdctl, database.url, folder)
        there = http.client.HTTPConnection("127.0.0.1", server.port, timeout=support.SECONDS)
        print(f"{ROWS} instances:", flush=True)
        dear = [target for target in VIEWS if not measure(there, server, database, target)]
        left = "select count(*) from gen_durable where fsm = 'Walk' and status <> 'done'"
        drain = support.Process([worker, database.url, "drain", "drain"], database.url, folder)
        database.until("exists (select from gen_durable where status = 'executing')")
        print("beside a drain:", flush=True)
        dear += [target for target in VIEWS if not measure(there, server, database, target)]
        print(f"{database.value(left)} of {DRAINED} were not drained at the end", flush=True)
        there.close()
        if dear:
            raise support.Failed(f"expected less than {MOST_CPU_MS} ms of CPU: {dear}")
    finally:
        if drain:
            drain.kill()
        if server:
            server.close()
        database.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
