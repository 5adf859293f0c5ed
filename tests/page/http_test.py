#!/usr/bin/env python3
"""What `gdctl serve` answers over HTTP, to its page and to those who mean no good.

    tools/private-postgres run -- tests/page/http_test.py GDCTL [unittest's arguments]
"""

import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import unittest

import raw
import support
from case import ROWS, Case

STATUSES = {"runnable", "executing", "awaiting_signal", "done", "failed"}
LOOKS = ["/api/about", "/api/overview", "/api/machines", "/api/machine?name=Order", "/api/instances",
         "/api/instance?id=1", "/api/history?id=1", "/api/jobs", "/metrics", "/healthz", "/readyz", "/page.css", "/page.js"]
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
          "frame-ancestors 'none'; base-uri 'none'; form-action 'none'")


class Looks(Case):
    """Every route."""

    def test_the_page(self):
        for target, kind in {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}.items():
            found = self.get(target)
            self.assertEqual((found.status, found.headers["content-type"]), (200, f"{kind}; charset=utf-8"))
            self.assertEqual(len(found.body), int(found.headers["content-length"]))
        self.assertIn(b'<script src="page.js"', self.get("/").body)

    def test_head_is_get_without_a_body(self):
        there = raw.ask(self.port, "HEAD", "/page.js", self.headers())
        self.assertEqual((there.status, there.body), (200, b""))

    def test_each_answer_tells_browsers_what_they_must_not_do(self):
        for target in ["/", "/nothing", *LOOKS]:
            headers = self.get(target).headers
            self.assertEqual(headers["content-security-policy"], POLICY, target)
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["cache-control"], "no-store")
            self.assertEqual(headers["referrer-policy"], "no-referrer")
            self.assertFalse([name for name in headers if name.startswith("access-control-")])

    def test_about(self):
        self.assertEqual({**self.look("/api/about"), "now_us": 0, "version": ""},
                         {"version": "", "schema": "public", "writes": True, "authorized": False, "now_us": 0})
        self.assertTrue(self.get("/api/about", Authorization=f"Bearer {self.server.token}").json()["authorized"])

    def test_overview(self):
        found = self.look("/api/overview")
        self.assertEqual({x["status"] for x in found["statuses"]}, STATUSES)
        self.assertEqual({x["status"]: x["instances"] for x in found["statuses"]}["failed"], 5)
        self.assertEqual([x["queue"] for x in found["queues"]], ["mail"])
        self.assertEqual(found["queues"][0]["due"], 4)
        self.assertEqual(found["nodes"], [])
        self.assertEqual(found["not_served"], [{"queue": "mail", "fsm": "Order", "version": 1, "version_served": False}])
        self.assertAlmostEqual(found["now_us"] / 1e6, time.time(), delta=60)

    def test_rates(self):
        """Rows that are written appear in them."""
        def seen():
            self.database.sql("update gen_durable set updated_at = updated_at")
            rates = self.look("/api/overview")["rates"]
            self.assertEqual(rates["interval_us"], 1_000_000)
            self.assertEqual(rates["at_us"], sorted(rates["at_us"]))
            for name in ("inserted", "updated", "deleted"):
                self.assertEqual(len(rates[name]), len(rates["at_us"]))
            return any(x for x in rates["updated"] if x)
        support.until(seen, "updates in the rates")

    def test_hundred_pages_cost_what_one_does(self):
        begin = time.monotonic()
        seen = {self.look("/api/overview")["now_us"] for _ in range(100)}
        self.assertLessEqual(len(seen), time.monotonic() - begin + 2)

    def test_machines(self):
        found = self.look("/api/machines")["machines"]
        self.assertEqual(found[0]["machine"]["fsm"], "Order")
        self.assertEqual(found[0]["instances"], {"failed": 5, "runnable": 5, "awaiting_signal": 5, "done": 5})
        self.assertEqual(found, [json.loads(x) for x in self.database.gdctl("machines", "--json").splitlines()])

    def test_machine(self):
        found = self.look("/api/machine?name=Order&version=1")
        self.assertEqual([x["name"] for x in found["steps"]], ["begin", "pay"])
        self.assertEqual(found["steps"][1]["instances"]["failed"], 5)
        self.assertEqual(self.look("/api/machine?name=Nobody", 404)["code"], "unknown_machine")
        self.look("/api/machine", 400)
        self.look("/api/machine?name=Order&version=x", 400)

    def test_instances(self):
        found = self.look("/api/instances?status=failed&machine=Order&limit=2")
        self.assertEqual([x["id"] for x in found["rows"]], ["17", "13"])
        found = self.look(f"/api/instances?status=failed&machine=Order&limit=2&before={found['next']}")
        self.assertEqual([x["id"] for x in found["rows"]], ["9", "5"])
        found = self.look("/api/instances?failure=no+stock&queue=mail&step=pay&version=1&older=&before=2")
        self.assertEqual([x["id"] for x in found["rows"]], ["1"])
        self.assertEqual((found["next"], found["rows"][0]["last_error"]), (None, "no stock"))
        self.assertEqual(self.look("/api/instances?older=1h")["rows"], [])

    def test_instance(self):
        by_id = self.look("/api/instance?id=1")
        self.assertEqual((by_id["instance"]["id"], by_id["instance"]["state"]), ("1", '{"order": 12345678901234567890}'))
        self.assertEqual((by_id["why"]["id"], by_id["why"]["cause"]), ("1", "failed"))
        self.assertEqual((by_id["inbox"], by_id["history"]), ([], []))
        for which in ("id=2", "key=order%202", "key=order+2", "key_hex=" + b"order 2".hex()):
            found = self.look(f"/api/instance?{which}")["instance"]
            self.assertEqual((found["id"], found["unique_key"]), ("2", "order 2"))
        shown = json.loads(self.database.gdctl("show", "1", "--json"))
        self.assertEqual({**by_id["instance"], "id": 1, "state": shown["state"]}, shown)
        self.assertEqual(json.loads(self.database.gdctl("why", "1", "--json"))["sentence"], by_id["why"]["sentence"])
        self.assertEqual(self.look("/api/instance?id=4")["instance"]["result"], '{"paid": true}')
        self.look("/api/instance?id=999", 404)
        self.look("/api/instance?key=nobody", 404)
        for bad in ("", "?id=1&key=order+1", "?id=x", "?key_hex=0", "?id=1&id=1", "?id=1&other=2", "?id=%zz", "?id=9" + 20 * "9"):
            self.assertEqual(self.look("/api/instance" + bad, 400)["code"], "invalid_argument", bad)

    def test_what_cannot_be_meant_names_its_parameter(self):
        for target in ("/api/instance?key=%ff", "/api/instance?key=a%00b", "/api/instances?failure=%c3", "/api/instances?queue=%00"):
            self.assertEqual(self.look(target, 400)["code"], "invalid_argument", target)
        for target, name in {"/api/instance?key_hex=0": "key_hex", "/api/instances?older=x": "older", "/api/history?id=x": "id",
                             "/api/instance?id=x": "id"}.items():
            self.assertTrue(self.look(target, 400)["error"].startswith(f"{name}: expected"), target)

    def test_inbox(self):
        for n in range(3):
            self.database.gdctl("signal", "11", "note", "--payload", json.dumps({"n": n}), "--dedup", f"k{n}")
        self.database.gdctl("signal", "11", "note", "--payload", json.dumps("x" * 9_000))
        found = self.look("/api/instance?id=11")
        self.assertEqual(found["instance"]["inbox"], 4)
        self.assertEqual([x["payload"] for x in found["inbox"]], ['{"n": 0}', '{"n": 1}', '{"n": 2}', '"' + 4_095 * "x"])
        self.assertEqual([x["dedup_key"] for x in found["inbox"]], ["k0", "k1", "k2", None])
        self.assertTrue(all(isinstance(x["id"], str) and x["name"] == "note" for x in found["inbox"]))

    def test_history(self):
        self.database.sql("""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, state)
            select 8, n, now(), 1, 'next', 'begin', 'pay', 0, jsonb '{"n": 1}' from generate_series(0, 249) n""")
        entries = self.look("/api/instance?id=8")["history"]
        while more := self.look(f"/api/history?id=8&before={entries[-1]['seq']}&limit=70")["rows"] if entries[-1]["seq"] else []:
            entries += more
        self.assertEqual([x["seq"] for x in entries], list(range(249, -1, -1)))
        self.assertEqual(entries[0]["state"], '{"n": 1}')
        self.look("/api/history?id=8&limit=1001", 400)
        self.look("/api/history?id=8&before=0", 400)

    def test_a_deleted_instance_with_a_history(self):
        self.database.sql("""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt)
            values (777, 0, now(), 1, 'insert', 'begin', 0)""")
        found = self.look("/api/instance?id=777")
        self.assertEqual((found["instance"], found["why"], found["inbox"], len(found["history"])), (None, None, [], 1))

    def test_numbers_are_exact_and_states_may_be_deep(self):
        deep = '{"a": ' + 500 * "[" + 500 * "]" + "}"
        big = 2**53 + 1
        self.database.sql(f"""
          insert into gen_durable (id, fsm, step, state, queue) overriding system value
            values ({big}, 'Order', 'pay', '{deep}', 'deep')""")
        self.assertEqual(self.look(f"/api/instance?id={big}")["instance"]["state"], deep)
        self.assertEqual(self.look(f"/api/instances?queue=deep&before={big + 1}")["rows"][0]["id"], str(big))
        self.database.sql("delete from gen_durable where queue = 'deep'")

    def test_jobs(self):
        self.assertEqual(self.look("/api/jobs"), {"jobs": []})
        self.assertEqual(self.look("/api/job?id=7", 404)["code"], "not_found")
        self.look("/api/job", 400)

    def test_a_job_of_long_ago(self):
        self.database.sql("insert into gen_durable_jobs (what, dry_run, made_by, highest_id, ended_at) "
                          "select 'stop', false, 'ann', 0, now() from generate_series(1, 150)")
        newest = self.look("/api/jobs")["jobs"]
        self.assertEqual(len(newest), 100)
        self.assertEqual(self.look("/api/job?id=1")["id"], "1")
        self.look("/api/job?id=0", 404)
        self.database.sql("delete from gen_durable_jobs")

    def test_metrics(self):
        found = self.get("/metrics")
        self.assertEqual(found.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        values = {}
        kinds = set()
        for line in found.body.decode().splitlines():
            if kind := re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) .+", line):
                kinds.add((kind[1], kind[2]))
                continue
            value = re.fullmatch(r'([a-z_]+)(\{[a-z]+="(?:[^"\\]|\\.)*"\})? (-?[0-9.e+-]+)', line)
            self.assertTrue(value, line)
            self.assertLessEqual({("HELP", value[1]), ("TYPE", value[1])}, kinds)
            values[value[1] + (value[2] or "")] = float(value[3])
        self.assertEqual(values["gen_durable_database_up"], 1)
        self.assertEqual(values['gen_durable_instances{status="failed"}'], 5)
        documented = self.documented("metric of the database")
        self.assertEqual({name.partition("{")[0] for name in values}, documented)

    @staticmethod
    def documented(heading):
        """The metrics of a table of docs/run/metrics.md."""
        with open(os.path.join(SOURCE, "docs/run/metrics.md"), encoding="utf-8") as file:
            table = file.read().partition(f"| {heading} |")[2].partition("\n\n")[0]
        return set(re.findall(r"^\| `(gen_durable_[a-z_]+)` \|", table, re.M))

    def test_the_dashboard_shows_metrics_that_there_are(self):
        with open(os.path.join(SOURCE, "docs/run/grafana.json"), encoding="utf-8") as file:
            text = file.read()
        there = self.documented("metric of the database") | self.documented("metric")
        named = {re.sub("_(bucket|sum|count)$", "", x) for x in re.findall(r"\bgen_durable_[a-z_]+", text)}
        self.assertGreater(len(named), 10)
        self.assertLessEqual(named, there)
        self.assertTrue(all(panel["targets"] for panel in json.loads(text)["panels"] if panel["type"] != "row"))

    def test_probes(self):
        self.assertEqual((self.get("/healthz").status, self.get("/healthz").body), (200, b"ok\n"))
        self.assertEqual((self.get("/readyz").status, self.get("/readyz").body), (200, b"ready\n"))


class Verbs(Case):
    """What operators do."""

    def row(self, number, columns):
        return self.database.sql(f"select {columns} from gen_durable where id = {number}")[0]

    def ended(self, job):
        return support.until(lambda: (x := self.look(f"/api/job?id={job}"))["ended_at_us"] and x, f"job {job} has ended")

    def test_retry(self):
        self.do({"verb": "stop", "id": "18", "reason": "the bank is down"})
        done = self.do({"verb": "retry", "id": "18", "reason": "the bank is back", "by": "ann"})
        self.assertEqual({**done, "seq": 0}, {"id": "18", "seq": 0, "status": "runnable", "executed": False})
        self.assertEqual(self.row(18, "status, attempt"), ("runnable", "0"))
        self.assertEqual(self.do({"verb": "retry", "id": "18"}, 409)["code"], "transition_conflict")
        self.assertEqual(self.do({"verb": "retry", "id": "999"}, 404)["code"], "not_found")

    def test_by_key(self):
        self.do({"verb": "move", "key": "order 2", "priority": 3})
        self.do({"verb": "move", "key_hex": b"order 2".hex(), "queue": "other", "force": True})
        self.assertEqual(self.row(2, "queue, priority"), ("other", "3"))

    def test_an_inbox_is_mended(self):
        signal = self.database.value("insert into gen_durable_signals (target_id, name, payload) values (18, 'paid', '{\"n\": \"x\"}') returning id")
        self.do({"verb": "replace", "id": "18", "signal": signal, "payload": '{"n": 7}', "by": "ann"})
        self.assertEqual([x["payload"] for x in self.look("/api/instance?id=18")["inbox"] if x["id"] == signal], ['{"n": 7}'])
        self.assertIn("payload", self.do({"verb": "replace", "id": "18", "signal": signal}, 400)["error"])
        self.assertIn("payload", self.do({"verb": "replace", "id": "18", "signal": signal, "payload": "{"}, 400)["error"])
        self.assertIn("signal", self.do({"verb": "discard", "id": "18"}, 400)["error"])
        self.do({"verb": "discard", "id": "18", "signal": signal, "reason": "sent twice"})
        self.assertFalse([x for x in self.look("/api/instance?id=18")["inbox"] if x["id"] == signal])
        self.assertEqual(self.do({"verb": "discard", "id": "18", "signal": signal}, 404)["code"], "not_found")

    def test_erase(self):
        one = self.database.value("insert into gen_durable (fsm, step, status, state) values ('Order', 'pay', 'failed', '{}') returning id")
        self.assertIn("reason", self.do({"verb": "erase", "id": one}, 400)["error"])
        self.assertIn("reason", self.do({"verb": "erase", "id": one, "reason": ""}, 400)["error"])
        self.assertIn("filter", self.do({"verb": "erase", "filter": {"status": "failed"}, "reason": "all"}, 400)["error"])
        done = self.do({"verb": "erase", "id": one, "reason": "request 17", "by": "ann"})
        self.assertEqual(done, {"id": one, "seq": 0, "status": "erased", "executed": False})
        self.assertEqual(self.database.value(f"select count(*) from gen_durable where id = {one}"), "0")
        self.assertEqual(self.database.sql(f"select by, reason from gen_durable_erased where instance_id = {one}")[0], ("ann", "request 17"))
        self.assertEqual(self.do({"verb": "erase", "id": one, "reason": "request 18"}, 404)["code"], "not_found")
        gone = self.look(f"/api/instance?id={one}", 404)
        self.assertEqual(gone["code"], "erased")
        self.assertIn("by ann: request 17", gone["error"])

    def test_an_inbox_tells_what_was_seen_and_what_does_not_decode(self):
        one = self.database.value("insert into gen_durable (fsm, step, status, awaits) values ('Order', 'pay', 'awaiting_signal', 'paid') returning id")
        signal = self.database.value(f"insert into gen_durable_signals (target_id, name) values ({one}, 'paid') returning id")
        def told():
            return [(x["id"], x["seen"], x["undecodable"], x["consumed_at_us"]) for x in self.look(f"/api/instance?id={one}")["inbox"]]
        self.database.sql(f"update gen_durable set wake_reason = null, status = 'awaiting_signal', awaits = 'paid' where id = {one}")
        self.assertEqual(told(), [(signal, True, None, None)])
        self.database.sql(f"update gen_durable set status = 'failed', awaits = null, last_error = 'signal paid ({signal}): $.n' where id = {one}")
        self.assertEqual(told(), [(signal, False, "$.n", None)])

    def test_run_now(self):
        self.do({"verb": "run-now", "id": "2"})
        self.assertEqual(self.row(2, "eligible_at <= now()"), ("t",))

    def test_move(self):
        self.do({"verb": "move", "id": "6", "queue": "slow", "priority": -3, "force": True})
        self.assertEqual(self.row(6, "queue, priority"), ("slow", "-3"))
        self.assertIn("queue, or priority", self.do({"verb": "move", "id": "6"}, 400)["error"])

    def test_many(self):
        """Counted first, then done, by the server: there is no node."""
        which = {"machine": "Order", "failure": "no stock", "status": "failed", "step": "pay", "version": 1}
        fit = int(self.database.value("select count(*) from gen_durable where last_error = 'no stock' and status = 'failed'"))
        before = self.all_rows()
        trial = self.ended(self.do({"verb": "stop", "filter": {"status": "runnable", "queue": "mail"}, "dry_run": True}, 202)["job"])
        self.assertTrue(trial["dry_run"])
        self.assertEqual(self.all_rows(), before)
        done = self.ended(self.do({"verb": "retry", "filter": which, "reason": "again", "by": "ann"}, 202)["job"])
        self.assertEqual((done["changed"], done["by"], done["reason"]), (fit, "ann", "again"))
        self.assertEqual(json.loads(done["which"])["failure"], "no stock")
        self.assertIsInstance(done["id"], str)

    def many_failed(self):
        """More than two pages of a job."""
        self.database.sql("insert into gen_durable (fsm, step, queue, state, status, last_error) "
                          "select 'Order', 'pay', 'many', '{}', 'failed', 'no stock' from generate_series(1, 600)")
        self.addCleanup(self.database.sql, "delete from gen_durable where queue = 'many'")

    def test_a_dry_run_goes_between_the_pages_of_a_job(self):
        self.many_failed()
        with self.database.holding("lock table gen_durable in share row exclusive mode"):
            long = self.do({"verb": "retry", "filter": {"queue": "many"}}, 202)["job"]
            trial = self.do({"verb": "stop", "filter": {"queue": "many"}, "dry_run": True}, 202)["job"]
        self.assertLess(self.ended(trial)["ended_at_us"], self.ended(long)["ended_at_us"])

    def test_a_job_waits_for_a_lock_and_goes_on_after_a_failure(self):
        self.many_failed()
        with self.database.holding("lock table gen_durable in share row exclusive mode"):
            job = self.do({"verb": "retry", "filter": {"queue": "many"}}, 202)["job"]
            # Longer than who looks would.
            self.database.until("exists (select from pg_stat_activity where datname = current_database() "
                                "and application_name = 'gdctl serve' and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '1.5 s')", 10)
            self.database.refuse()
            support.until(lambda: f"job {job} is" in self.server.said(), "it says that it fails", 10)
        self.assertEqual(self.server.said().count(f"job {job} is tried again"), 1)
        self.database.accept()
        support.until(lambda: self.get("/api/jobs").status == 200, "the database is back")
        self.assertIsNotNone(self.ended(job)["ended_at_us"])

    def test_what_a_role_may_do(self):
        """Behind read.sql and operate.sql: all but what takes rights to the tables."""
        role, engine = f"operates_{os.getpid()}", f"engine_{os.getpid()}"
        for name in (role, engine):
            self.database.sql(f"create role {name} login")
            self.addCleanup(self.database.sql, f"drop owned by {name}; drop role {name}")
        self.database.grant("read.sql", role)
        self.database.grant("operate.sql", role, engine=engine)
        self.database.sql("insert into gen_durable_machines (fsm, version, initial_step, steps, queue) "
                          "values ('Order', 3, 'begin', '{begin,pay}', 'mail')")
        ids = [x for x, in self.database.sql(
            "insert into gen_durable (fsm, step, queue, state, status, last_error) "
            "select 'Order', 'pay', 'own', '{}', 'failed', 'x' from generate_series(1, 2) returning id")]
        server = support.Server(self.gdctl, self.database.url_of(role), self.folder)
        try:
            host = f"127.0.0.1:{server.port}"

            def told(**verb):
                headers = [("Host", host), ("Origin", f"http://{host}"), ("Authorization", f"Bearer {server.token}"),
                           ("Content-Type", "application/json")]
                done = raw.ask(server.port, "POST", "/api/verb", headers, json.dumps(verb).encode())
                return done.status, done.json().get("code")
            for verb in ({"verb": "retry", "id": ids[0]}, {"verb": "run-now", "id": ids[0]}, {"verb": "move", "id": ids[0], "priority": 2},
                         {"verb": "stop", "id": ids[0]}, {"verb": "pause", "queue": "own"}, {"verb": "resume", "queue": "own"}):
                self.assertEqual(told(**verb), (200, None), verb)
            self.assertEqual(told(verb="retry", filter={"queue": "own"}), (202, None))
            self.assertEqual(told(verb="upgrade", id=ids[1], to_version=3), (202, None))
            newest = self.look("/api/jobs")["jobs"]
            self.assertEqual(told(verb="cancel", job=newest[0]["id"]), (200, None))
            self.ended(newest[1]["id"])
            self.assertEqual(told(verb="signal", id="3", name="paid"), (403, "denied"))
            self.assertEqual(told(verb="rewind", id=ids[1], seq=0), (403, "denied"))
        finally:
            server.close()

    def test_upgrade_waits_for_a_node_and_is_cancelled(self):
        self.database.sql("insert into gen_durable_machines (fsm, version, initial_step, steps, queue) "
                          "values ('Order', 2, 'begin', '{begin,charge}', 'mail')")
        job = self.do({"verb": "upgrade", "id": "10", "to_version": 2, "to_steps": {"pay": "charge"}}, 202)["job"]
        self.assertIsNone(self.look(f"/api/job?id={job}")["ended_at_us"])
        self.assertTrue(self.do({"verb": "cancel", "job": job})["cancelled"])
        self.assertTrue(self.ended(job)["cancelled"])
        self.do({"verb": "cancel", "job": "999"}, 404)

    def test_rewind(self):
        self.database.sql("""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
            values (14, 0, now(), 1, 'insert', 'begin', 0, '{"order": 7}')""")
        done = self.do({"verb": "rewind", "id": "14", "seq": 0, "reason": "the address was wrong"})
        self.assertEqual(done["status"], "runnable")
        self.assertEqual(self.row(14, "step, state"), ("begin", '{"order": 7}'))
        self.do({"verb": "rewind", "id": "14", "seq": 99}, 404)

    def test_signal(self):
        said = {"verb": "signal", "id": "3", "name": "paid", "payload": '{"amount": 12345678901234567890}', "dedup_key": "a"}
        self.assertEqual(self.do(said), {"duplicate": False})
        self.assertEqual(self.do(said), {"duplicate": True})
        self.assertEqual(self.row(3, "status"), ("runnable",))
        self.assertEqual(self.look("/api/instance?id=3")["inbox"][0]["payload"], said["payload"])
        self.assertEqual(self.do({"verb": "signal", "id": "4", "name": "paid"}, 409)["code"], "target_finished")

    def test_pause_and_resume(self):
        done = self.do({"verb": "pause", "queue": "mail", "reason": "the relay is down", "by": "ann"})
        self.assertEqual(done, {"queue": "mail", "paused": True, "changed": True})
        # What was known before is forgotten.
        mail = {x["queue"]: x for x in self.look("/api/overview")["queues"]}["mail"]
        self.assertEqual((mail["paused"], mail["paused_by"], mail["reason"]), (True, "ann", "the relay is down"))
        self.assertTrue(self.do({"verb": "resume", "queue": "mail"})["changed"])
        self.assertFalse(self.do({"verb": "resume", "queue": "mail"})["changed"])
        self.assertFalse({x["queue"]: x for x in self.look("/api/overview")["queues"]}["mail"]["paused"])

    def test_what_is_no_verb(self):
        before = self.all_rows()
        for body in [
                b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 60_000, b'{"verb":"retry","verb":"stop","id":"5"}',
                {}, {"verb": "drop"}, {"verb": "retry"}, {"verb": "retry", "id": 5}, {"verb": "retry", "id": "5 or 1=1"},
                {"verb": "retry", "id": "5", "key": "order 1"}, {"verb": "retry", "id": "5", "filter": {"machine": "Order"}},
                {"verb": "retry", "filter": {}}, {"verb": "retry", "filter": {"status": "any"}}, {"verb": "stop", "filter": {"older": "x"}},
                {"verb": "stop", "filter": {"version": 0}}, {"verb": "retry", "id": "5", "queue": "slow"},
                {"verb": "retry", "id": "5", "dry_run": True}, {"verb": "retry", "id": "5", "other": 1},
                {"verb": "move", "id": "5", "priority": 40_000}, {"verb": "upgrade", "id": "5"}, {"verb": "rewind", "id": "5"},
                {"verb": "rewind", "filter": {"machine": "Order"}, "seq": 1}, {"verb": "signal", "id": "5"},
                {"verb": "signal", "id": "5", "name": "paid", "payload": "{"}, {"verb": "pause"}, {"verb": "pause", "queue": ""},
                {"verb": "resume", "queue": "mail", "reason": "x"}, {"verb": "cancel"}, {"verb": "stop", "id": "6", "by": "a\nb"}]:
            with self.subTest(body=body):
                done = self.post(body)
                self.assertEqual(done.status, 400, done.body)
                self.assertTrue(done.json()["error"])
        self.assertEqual(self.all_rows(), before)
        self.assertEqual(self.database.value("select count(*) from gen_durable_queues where paused_at is not null"), "0")


class Strangers(Case):
    """Those who mean no good: nothing runs, nothing leaks, nothing hangs."""

    stop = {"verb": "stop", "filter": {"status": "runnable"}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.database.sql("""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
            select 12, n, now(), 1, 'next', 'pay', 0, jsonb_build_object('a', repeat('x', 1000000)) from generate_series(0, 9) n""")
        # Beside the other tests, as it takes its time.
        cls.slow_line = threading.Thread(target=cls.read_slowly)
        cls.slow_line.start()
        cls.addClassCleanup(cls.slow_line.join)

    @classmethod
    def read_slowly(cls):
        """For longer than one who does not read at all is waited for."""
        begin = time.monotonic()
        data = bytearray()
        with socket.socket() as there:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            there.settimeout(support.SECONDS)
            there.connect(("127.0.0.1", cls.port))
            there.sendall(raw.request("GET", "/api/history?id=12", [("Host", cls.host)]))
            while part := there.recv(65_536):
                data += part
                time.sleep(max(0, len(data) / 9_000_000 * 36 - (time.monotonic() - begin)))
        cls.read = bytes(data), time.monotonic() - begin

    def setUp(self):
        self.before = self.all_rows()

    def tearDown(self):
        self.assertEqual(self.all_rows(), self.before)
        self.assertEqual(self.database.value("select count(*) from gen_durable_jobs"), "0")
        self.assertEqual(self.get("/healthz").status, 200)
        self.assertNotIn(self.server.token, self.server.said())

    def test_hosts_that_this_is_not(self):
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1", f"127.0.0.1:{self.port + 1}", "localhost", "",
                     f"127.0.0.1:{self.port}.evil.example", f"x@127.0.0.1:{self.port}", f"127.0.0.1:{self.port}/", "[::1]", None):
            for target in ("/", "/api/overview", "/metrics", "/healthz", "/api/verb"):
                found = self.get(target, Host=host)
                self.assertIn(found.status, (400, 403), (host, target))
                self.assertNotIn(b"mail", found.body)
            self.assertIn(self.post(self.stop, Host=host).status, (400, 403))
        two = raw.ask(self.port, "GET", "/api/overview", [("Host", self.host), ("Host", "evil.example")])
        self.assertEqual(two.status, 400)
        self.assertEqual(self.get("/api/overview", Host=f"LOCALHOST:{self.port}").status, 200)

    def test_other_sites(self):
        for origin in ("https://evil.example", f"https://{self.host}", "null", f"http://{self.host}.evil.example", "http://127.0.0.1",
                       f"http://127.0.0.1:{self.port + 1}"):
            self.assertEqual(self.post(self.stop, Origin=origin).status, 403, origin)
            self.assertEqual(self.get("/api/overview", Origin=origin).status, 403, origin)
        # One of ours, and not that of this Host.
        self.assertEqual(self.post(self.stop, Origin=f"http://localhost:{self.port}").status, 403)
        self.assertEqual(self.post(self.stop, Host=f"localhost:{self.port}").status, 403)
        for site in ("cross-site", "same-site", "other"):
            self.assertEqual(self.post(self.stop, Sec_Fetch_Site=site).status, 403)
            self.assertEqual(self.get("/api/overview", Sec_Fetch_Site=site).status, 403)
        # A link may lead to the page, which tells nothing by itself.
        self.assertEqual(self.get("/", Sec_Fetch_Site="cross-site").status, 200)

    def test_other_sites_forms(self):
        """As a browser would send them, with all that it cannot be kept from adding."""
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            sent = self.post(json.dumps(self.stop).encode(), Content_Type=kind, Origin="https://evil.example", Authorization=None,
                             Sec_Fetch_Site="cross-site")
            self.assertEqual(sent.status, 403)
            self.assertEqual(self.post(json.dumps(self.stop).encode(), Content_Type=kind).status, 415)
        self.assertEqual(self.post(self.stop, Origin=None).status, 403)
        self.assertEqual(self.post(self.stop, Content_Type=None).status, 415)

    def test_tokens(self):
        token = self.server.token
        for given in (None, "", "Bearer", "Bearer ", f"Bearer {token[:-1]}", f"Bearer {token}x", f"Bearer  {token}", f"Basic {token}", token,
                      f"bearer {token}", f"Bearer {token.swapcase()}x", "Bearer " + "0" * len(token), f"Bearer {token[:-1]}\x00"):
            self.assertEqual(self.post(self.stop, Authorization=given).status, 401, given)
        for where in (f"?token={token}", f"?access_token={token}"):
            sent = raw.ask(self.port, "POST", f"/api/verb{where}",
                           self.headers(Origin=f"http://{self.host}", Content_Type="application/json"), json.dumps(self.stop).encode())
            self.assertEqual(sent.status, 401)
        twice = [("Authorization", "Bearer x"), ("Authorization", f"Bearer {token}"), *self.headers(Origin=f"http://{self.host}")]
        self.assertEqual(raw.ask(self.port, "POST", "/api/verb", twice, b"{}").status, 400)

    def test_the_token_is_the_owners(self):
        path = os.path.join(self.folder, "token")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertRegex(self.server.token, "^[0-9a-f]{64}$")
        with open(f"/proc/{self.server.pid}/cmdline", "rb") as file:
            self.assertNotIn(self.server.token.encode(), file.read())
        for target in ("/", *LOOKS):
            self.assertNotIn(self.server.token.encode(), self.get(target).body)

    def test_paths(self):
        for target in ("/../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/./", "//", "//evil.example/", "/index.html",
                       "/page.css/", "/page.css%00", "/PAGE.CSS", "/page.js/../page.css", "/api", "/api/", "/api/overview/", "/api//overview",
                       "/api/overview;x", "/api/overview%3f", "/%61pi/overview", "/healthz#x", "\\", "*", "/favicon.ico", "/.git/config",
                       f"http://{self.host}/api/overview", "file:///etc/passwd", "/" + "a/" * 3_000, "/api/instance/1", "/\xff"):
            found = raw.exchange(self.port, raw.request("GET", target, self.headers()))
            self.assertIn(raw.Answer(found).status, (400, 404), target)
            self.assertNotIn(b"root:", found)
        self.assertIn(raw.Answer(raw.exchange(self.port, raw.request("GET", "/" + "a" * 100_000, self.headers()))).status, (400, 414, 431))
        for target in ("/api/overview?x=1", "/api/about?x", "/metrics?name[]=up", "/readyz?verbose", "/api/machines?name=Order"):
            self.assertEqual(self.get(target).status, 400, target)

    def test_methods(self):
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get", "X" * 100):
            for target, allow in (("/", "GET, HEAD"), ("/api/overview", "GET, HEAD"), ("/api/verb", "POST")):
                found = raw.ask(self.port, method, target, self.headers())
                self.assertEqual((found.status, found.headers["allow"]), (405, allow), method)
                self.assertNotIn(b"TRACE", found.body)
        self.assertEqual(self.get("/api/verb").status, 405)
        self.assertEqual(raw.ask(self.port, "POST", "/api/overview", self.headers(), b"{}").status, 405)

    def test_huge_bodies(self):
        head = self.headers(Origin=f"http://{self.host}", Authorization=f"Bearer {self.server.token}", Content_Type="application/json")
        lines = "".join(f"{name}: {value}\r\n" for name, value in head)
        for size in ("65537", "1000000000000", "99999999999999999999", "-1", "1e3", "0x10"):
            found = raw.exchange(self.port, f"POST /api/verb HTTP/1.1\r\n{lines}Content-Length: {size}\r\n\r\n{{".encode())
            self.assertIn(raw.Answer(found).status, (400, 413), size)
        # In chunks, and without an end: as much as is taken.
        with raw.connect(self.port) as there:
            there.sendall(f"POST /api/verb HTTP/1.1\r\n{lines}Transfer-Encoding: chunked\r\n\r\n".encode())
            sent = 0
            try:
                while sent < 100_000_000:
                    there.sendall(b"10000\r\n" + 65_536 * b"x" + b"\r\n")
                    sent += 65_536
            except OSError:
                pass
        self.assertLess(sent, 50_000_000)
        self.assertIn(self.post(b" " * 65_536).status, (400,))
        for headers in (self.headers(Content_Length="5"), self.headers(Transfer_Encoding="chunked")):
            self.assertEqual(raw.ask(self.port, "GET", "/api/overview", headers, b"").status, 413)
        both = f"POST /api/verb HTTP/1.1\r\n{lines}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode()
        self.assertNotIn(b"<!doctype", raw.exchange(self.port, both))
        many = "".join(f"X-{n}: {'y' * 500}\r\n" for n in range(100))
        self.assertIn(raw.Answer(raw.exchange(self.port, f"GET / HTTP/1.1\r\nHost: {self.host}\r\n{many}\r\n".encode())).status, (413, 431))

    def test_who_could_be_understood_otherwise(self):
        """Where a request ends, a proxy must not see elsewhere: it is refused, and nothing behind it is read."""
        head = self.headers(Origin=f"http://{self.host}", Authorization=f"Bearer {self.server.token}", Content_Type="application/json")
        lines = "".join(f"{name}: {value}\r\n" for name, value in head)
        body = raw.request("GET", "/healthz", self.headers()).decode()
        chunks = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"
        for more, sent in ((f"Content-Length : {len(body)}\r\n", body), (f"Content-Length\t: {len(body)}\r\n", body),
                           ("Transfer-Encoding : chunked\r\n", chunks), ("Transfer-Encoding: xchunked\r\n", body),
                           ("Transfer-Encoding: identity\r\n", body), ("Transfer-Encoding: gzip, chunked\r\n", chunks),
                           ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunks),
                           ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", chunks)):
            found = raw.exchange(self.port, f"POST /api/verb HTTP/1.1\r\n{lines}{more}\r\n{sent}".encode())
            self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", found), [b"400"], more)
            self.assertEqual(raw.Answer(found).headers["connection"].lower(), "close")

    def test_the_slow(self):
        """Headers, or a body, by the byte: cut off, while others are answered."""
        head = self.headers(Origin=f"http://{self.host}", Authorization=f"Bearer {self.server.token}", Content_Type="application/json")
        lines = "".join(f"{name}: {value}\r\n" for name, value in head)
        begun = [b"GET /api/overview HTTP/1.1\r\nX-Slow: ", f"POST /api/verb HTTP/1.1\r\n{lines}Content-Length: 60000\r\n\r\n".encode(), b""]
        there = [raw.connect(self.port) for _ in begun]
        try:
            for x, data in zip(there, begun):
                x.sendall(data)
                x.setblocking(False)
            open_still = dict(zip(there, begun))

            def all_cut():
                self.assertEqual(self.get("/healthz").status, 200)
                for x, data in list(open_still.items()):
                    try:
                        if data:
                            x.send(b" ")
                        if not x.recv(4096):
                            del open_still[x]
                    except BlockingIOError:
                        pass
                    except OSError:
                        del open_still[x]
                time.sleep(0.2)  # of each byte
                return not open_still
            support.until(all_cut, "the slow are cut off")
        finally:
            for x in there:
                x.close()

    def test_a_thousand_idle(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2_000)), hard))
        idle = [raw.connect(self.port) for _ in range(1_000)]
        try:
            for _ in range(20):
                self.assertEqual(self.get("/api/overview").status, 200)
            for x in idle[::100]:  # and each of them can still ask
                x.sendall(raw.request("GET", "/healthz", self.headers()))
                self.assertEqual(raw.Answer(raw.read_all(x)).status, 200)
        finally:
            for x in idle:
                x.close()

    def test_garbage(self):
        chance = random.Random(7)
        good = raw.request("GET", "/api/overview", self.headers())
        open_now = []
        for n in range(300):
            if n % 3 == 0:
                data = chance.randbytes(chance.randrange(1, 2_000))
            elif n % 3 == 1:
                data = bytearray(good)
                for _ in range(chance.randrange(1, 8)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            else:
                data = good[:chance.randrange(len(good))] + chance.randbytes(40)
            there = raw.connect(self.port)
            self.addCleanup(there.close)
            open_now.append(there)
            there.sendall(data)
            there.shutdown(socket.SHUT_WR)
        for there in open_now:  # what is no request is cut off in time
            raw.read_all(there)
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500)
        raw.exchange(self.port, hello + b"\r\n\r\n")
        self.assertEqual(self.get("/api/overview").status, 200)

    def test_who_leaves_before_the_answer(self):
        for _ in range(100):
            with raw.connect(self.port) as there:
                there.sendall(raw.request("GET", f"/api/instances?failure={random.random()}", self.headers()))
        self.assertEqual(self.get("/api/overview").status, 200)

    def test_who_reads_slowly_is_told_all(self):
        self.slow_line.join()
        data, seconds = self.read
        self.assertGreater(seconds, 33)
        self.assertEqual(len(raw.Answer(data).body), int(raw.Answer(data).headers["content-length"]))
        self.assertGreater(len(data), 8_000_000)

    def test_many_at_once(self):
        answers = []

        def ask(n):
            answers.append(self.get(f"/api/instances?failure=x{n}").status)
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, 60 * [200])


class ReadOnly(Case):
    """Without --allow-writes nothing is written, whatever token."""

    writes = False

    def test_read_only(self):
        self.assertFalse(self.look("/api/about")["writes"])
        before = self.all_rows()
        for token in ("Bearer ", "Bearer None", "Bearer " + "0" * 64, None):
            for verb in ("retry", "stop", "run-now", "discard", "replace", "pause", "signal"):
                sent = self.post({"verb": verb, "id": "5", "queue": "mail"}, Authorization=token)
                self.assertEqual((sent.status, sent.json()["code"]), (403, "read_only"))
        for target in LOOKS:
            self.assertEqual(self.get(target).status, 200, target)
        self.assertEqual(self.all_rows(), before)

    def test_looking_writes_nothing(self):
        """As a role that may only look."""
        role = f"looks_{os.getpid()}"
        self.database.sql(f"create role {role} login")
        self.addCleanup(self.database.sql, f"drop owned by {role}; drop role {role}")
        self.database.grant("read.sql", role)
        server = support.Server(self.gdctl, self.database.url_of(role), self.folder, writes=False)
        try:
            for target in LOOKS:
                found = raw.ask(server.port, "GET", target, [("Host", f"127.0.0.1:{server.port}")])
                self.assertEqual(found.status, 200, (target, found.body))
        finally:
            server.close()


class Away(Case):
    """A database that goes and comes back."""

    def test_gone_and_back(self):
        self.assertEqual(self.get("/api/overview").status, 200)
        self.database.refuse()
        for target in ("/api/overview", "/api/machines", "/api/instances", "/api/instance?id=1", "/api/jobs"):
            found = support.until(lambda t=target: (x := self.get(t)).status != 200 and x, target)
            self.assertEqual((found.status, found.json()["code"]), (503, "unavailable"))
            self.assertIn("not currently accepting connections", found.json()["error"])
        # A verb that met the connection before its end was seen is told that its fate is unknown. The row tells it: below.
        told = support.until(lambda: (x := self.post({"verb": "stop", "id": "2"}).status) != 504 and x, "a verb is refused")
        self.assertEqual(told, 503)
        self.assertEqual(self.get("/healthz").status, 200)
        self.assertEqual(self.get("/").status, 200)
        self.assertEqual(self.get("/api/about").status, 200)
        support.until(lambda: self.get("/readyz").status == 503, "it is not ready")
        support.until(lambda: b"gen_durable_database_up 0\n" in self.get("/metrics").body, "metrics say so")
        support.until(lambda: "the database is away" in self.server.said(), "it says so")
        self.database.accept()
        support.until(lambda: self.get("/api/overview").status == 200, "it is back")
        support.until(lambda: self.get("/readyz").status == 200, "it is ready")
        support.until(lambda: None in self.look("/api/overview")["rates"]["updated"], "a gap in the rates")
        support.until(lambda: "the database is back" in self.server.said(), "it says so")
        self.assertEqual(self.database.value("select status from gen_durable where id = 2"), "runnable")

    def test_a_table_that_is_locked(self):
        """Nobody waits for its end, and what needs no table is answered."""
        with self.database.holding("lock table gen_durable in access exclusive mode"):
            self.assertEqual(self.get("/api/instances").status, 503)
            self.assertEqual(self.get("/healthz").status, 200)
        support.until(lambda: self.get("/api/instances").status == 200, "it is answered again")


class Crowd(Case):
    """Many who ask for what takes its time, again and again."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.database.sql("create or replace function _gd_us(at timestamptz) returns bigint language plpgsql stable "
                         "as $$ begin perform pg_sleep(0.0001); return 0; end $$")

    def test_who_asks_for_little_is_answered(self):
        over = threading.Event()
        refused = []

        def ask(n):
            with raw.connect(self.port) as there:
                once = raw.request("GET", f"/api/instances?before={n + 100}", self.headers())
                again = once.replace(b"Connection: close\r\n", b"")
                while not over.is_set():
                    there.sendall(again)
                    if raw.Answer(raw.read_one(there)).status == 503:
                        refused.append(n)
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(300)]
        for thread in threads:
            thread.start()
        try:
            support.until(lambda: len(refused) > 300, "they are too many")
            for n in range(10, 20):
                self.look(f"/api/instances?before={n}")
        finally:
            over.set()
            for thread in threads:
                thread.join()


class Slow(Case):
    """A database whose looks at instances take longer than they may."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.database.sql("create or replace function _gd_us(at timestamptz) returns bigint language plpgsql stable "
                         "as $$ begin perform pg_sleep(3); return 0; end $$")

    def test_a_look_that_takes_too_long_is_given_up(self):
        self.assertEqual(self.look("/api/instances?queue=mail", 503)["code"], "unavailable")
        support.until(lambda: "gdctl serve: /api/instances: " in self.server.said(), "it says so")
        self.assertNotIn("mail", self.server.said())

    def test_verbs_that_have_waited_too_long_are_not_begun(self):
        """Who has sent them may have been told so, or have gone."""
        told = {}

        def ask(n):
            told[n] = self.post({"verb": "pause", "queue": f"late {n}"}).json().get("code")
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(60)]
        with self.database.holding("lock table gen_durable_queues in access exclusive mode"):
            for thread in threads:
                thread.start()
            support.until(lambda: "overloaded" in told.values(), "one has waited too long")
        for thread in threads:
            thread.join()
        done = {x for x, in self.database.sql("select queue from gen_durable_queues where queue like 'late %'")}
        self.assertEqual(done, {f"late {n}" for n, code in told.items() if code is None})

    def test_who_asks_for_much_is_in_nobodys_way(self):
        """Neither of who changes something, nor of those who look at all: none of these waits for one of those."""
        for n in range(250):
            with raw.connect(self.port) as there:
                there.sendall(raw.request("GET", f"/api/instances?before={n + 100}", self.headers()))
        sleeping = ("select count(*) from pg_stat_activity where datname = current_database() "
                    "and application_name = 'gdctl serve' and wait_event = 'PgSleep'")
        self.database.until(f"({sleeping}) = 3")
        for n in range(5):
            self.assertTrue(self.do({"verb": "pause", "queue": f"mail {n}", "force": True})["paused"])
            for target in ("/api/machines", "/api/jobs", "/readyz"):
                self.assertEqual(self.get(target).status, 200, target)
        # Those who ask for much have their turn for minutes.
        self.database.until(f"({sleeping}) > 0")

    def test_what_is_asked_at_the_end_is_told_so(self):
        """While looks are under way. On a slow machine they may have ended before anybody has asked: then once more."""
        support.until(self.told_at_the_end, "it is told so")

    def told_at_the_end(self):
        server = support.Server(self.gdctl, self.database.url, self.folder)
        host = [("Host", f"127.0.0.1:{server.port}")]

        def told(there, target):
            try:
                there.sendall(raw.request("GET", target, host).replace(b"Connection: close\r\n", b""))
                data = raw.read_one(there)
            except OSError:
                data = b""
            return raw.Answer(data) if data else None
        with contextlib.ExitStack() as slow, raw.connect(server.port) as other, raw.connect(server.port) as third:
            for n in range(12):
                slow.enter_context(raw.connect(server.port)).sendall(raw.request("GET", f"/api/instances?before={n + 100}", host))
            # One that has just begun: the server ends when it does.
            self.database.until("exists (select from pg_stat_activity where datname = current_database() and application_name = 'gdctl serve' "
                                "and wait_event = 'PgSleep' and clock_timestamp() - query_start < interval '0.5 s')")
            os.kill(server.pid, signal.SIGTERM)
            # What was kept, or asked before, is answered yet.
            while (found := told(other, "/api/jobs")) and found.status == 200:
                pass
            last = told(third, "/metrics")
        server.close()
        if not found or not last:
            return False
        # It is not the database that is away.
        for x in (found, last):
            self.assertEqual((x.status, x.json()["code"]), (503, "stopped"))
        return True


class Large(Case):
    """Answers that are large."""

    def test_who_does_not_read_takes_no_more_memory(self):
        self.database.sql("""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
            select 8, n, now(), 1, 'next', 'pay', 0, jsonb_build_object('a', repeat('x', 1000000)) from generate_series(0, 9) n""")
        target = "/api/history?id=8"
        self.assertGreater(len(self.get(target).body), 8 << 20)
        there = []
        try:
            for _ in range(40):
                there.append(raw.connect(self.port, 60))
                there[-1].sendall(raw.request("GET", target, self.headers()))
            told = [x.recv(12)[-3:] for x in there]
            self.assertEqual(set(told), {b"200", b"503"})
            self.assertGreater(told.count(b"200"), 5)
            # What is small is told all the same: whether something has been changed, for one.
            self.assertTrue(self.do({"verb": "pause", "queue": "mail"})["paused"])
            self.assertEqual(self.get("/api/overview").status, 200)
        finally:
            for x in there:
                x.close()
        support.until(lambda: self.get(target).status == 200, "there is room again")


class Few(Case):
    """Few files may be open."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.close()
        path = os.path.join(cls.folder, "gdctl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nulimit -n 300\nexec '{cls.gdctl}' \"$@\"\n")
        os.chmod(path, 0o700)
        cls.server = support.Server(path, cls.database.url, cls.folder)
        cls.addClassCleanup(cls.server.close)
        cls.port = cls.server.port
        cls.host = f"127.0.0.1:{cls.port}"

    def test_the_idle_make_room(self):
        idle = [raw.connect(self.port) for _ in range(320)]
        try:
            for target in ("/healthz", "/api/instances", "/readyz"):
                self.assertEqual(self.get(target).status, 200, target)
        finally:
            for x in idle:
                x.close()


class Another(Case):
    """A schema, or a clock, that becomes another."""

    def test_a_schema_that_goes_back(self):
        looks = ["/api/overview", "/api/machines", "/api/instances", "/api/instance?id=1", "/api/history?id=1", "/api/jobs"]
        for target in 4 * looks:
            self.assertEqual(self.get(target).status, 200, target)
        self.database.gdctl("migrate", "down", "--to", "0", "--with-instances")
        seen = set()
        for target in 4 * looks:
            found = self.get(target)
            if found.status != 200:  # by a connection, or an answer, of before
                seen.add((found.status, found.json()["code"]))
        self.assertEqual(seen, {(503, "schema_mismatch")})
        self.database.gdctl("migrate", "up")
        self.database.sql(ROWS)
        for target in looks:
            support.until(lambda t=target: self.get(t).status == 200, target)

    def test_a_clock_that_is_set(self):
        """The times of rates are the database's, and how long it has been is not."""
        self.database.sql("""
          set allow_system_table_mods = on;
          create table shift as select interval '1 h' as by;
          alter function pg_catalog.clock_timestamp() rename to real_clock;
          create function pg_catalog.clock_timestamp() returns timestamptz language sql
            as 'select pg_catalog.real_clock() + s.by from public.shift s'""")

        def rates():
            return self.look("/api/overview")["rates"]

        def are_told(since):
            return support.until(lambda: (x := rates())["at_us"][-1:] > [since] and x["updated"][-1] is not None and x, "rates")
        self.database.refuse()  # with sessions that have another clock
        self.database.accept()
        support.until(lambda: self.get("/api/overview").status == 200, "it is back")
        now = are_told((time.time() + 1_800) * 1e6)["at_us"][-1]
        before = self.server.said().count("is away")
        self.database.refuse()
        support.until(lambda: self.server.said().count("is away") > before, "it says so")
        self.database.accept()
        support.until(lambda: self.get("/api/overview").status == 200, "it is back")
        found = are_told(now)
        self.assertGreater(max(at for at, updated in zip(found["at_us"], found["updated"]) if updated is None), now)
        for n in range(1, 4):
            self.database.sql("update gen_durable set updated_at = updated_at")
            self.database.sql(f"update shift set by = interval '-{n} h'")
            before = (time.time() - (n - 0.5) * 3_600) * 1e6
            found = support.until(lambda b=before: (x := rates())["at_us"][-1] < b and x, "the clock is set back")
            self.assertLess(max(x for x in found["updated"] if x is not None), 2_000)


class Starts(unittest.TestCase):
    """What it is started with."""

    def refused(self, *options):
        done = subprocess.run([Case.gdctl, "serve", *options], env={**os.environ, "GD_DATABASE": os.environ["GD_DATABASE"]},
                              capture_output=True, timeout=support.SECONDS, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr.decode()

    def test_what_others_could_reach_is_refused(self):
        for listen in ("0.0.0.0:8080", "[::]:8080", "192.168.1.2:8080", "8080", ":8080", "example.org:80", "127.0.0.1", "127.0.0.1:0",
                       "127.0.0.1:99999", "unix:", "unix:relative", "unix:/" + "x" * 200, "[::1]", "127.0.0.1.evil:80"):
            for more in ((), ("--behind-proxy", "ops.example.org")):
                self.assertIn("--listen: expected", self.refused("--listen", listen, *more), listen)
        for host in ("https://ops.example.org", "ops.example.org/", "a b", "*", "[::1]", "x" * 300):
            self.assertIn("--behind-proxy: expected", self.refused("--behind-proxy", host), host)

    def test_tokens_that_are_none(self):
        with support.tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")
            self.assertIn("--token-file", self.refused("--allow-writes"))
            for text, mode, why in (("0" * 64, 0o644, "owner alone"), ("0" * 31, 0o600, "32 to"), ("", 0o600, "32 to"),
                                    ("0" * 64 + "\n" + "1" * 64, 0o600, "without blanks"), ("0" * 2000, 0o600, "32 to")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                os.chmod(path, mode)
                self.assertIn(why, self.refused("--allow-writes", "--token-file", path))
            os.remove(path)
            os.symlink("/etc/passwd", path)
            self.assertIn(path, self.refused("--allow-writes", "--token-file", path))
            os.remove(path)
            os.mkfifo(path, 0o600)
            self.assertIn("a file of yours", self.refused("--allow-writes", "--token-file", path))
            os.remove(path)
            with open(path, "w", encoding="ascii") as file:
                file.write("0" * 64)
            os.chmod(path, 0o600)
            if os.geteuid() == 0:  # who else could give it to somebody
                os.chown(path, 1, 1)
                self.assertIn("a file of yours", self.refused("--allow-writes", "--token-file", path))
            self.assertIn("nowhere", self.refused("--allow-writes", "--token-file", "/nowhere/token"))

    def test_who_reads_its_output_no_more_ends_it(self):
        database = support.Database(Case.gdctl)
        self.addCleanup(database.close)
        ours, its = os.pipe()
        os.close(ours)
        done = subprocess.run([Case.gdctl, "serve", "--listen", f"127.0.0.1:{support.free_port()}"], stdout=its,
                              env={**os.environ, "GD_DATABASE": database.url}, timeout=support.SECONDS, check=False)
        os.close(its)
        self.assertEqual(done.returncode, -signal.SIGPIPE)

    def test_a_stderr_that_nobody_reads_holds_up_nothing(self):
        database = support.Database(Case.gdctl)
        self.addCleanup(database.close)
        ours, its = os.pipe()
        self.addCleanup(os.close, ours)
        os.set_blocking(its, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(its, b"x" * 4_096)
        os.set_blocking(its, True)
        port = support.free_port()
        with subprocess.Popen([Case.gdctl, "serve", "--listen", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=its,
                              env={**os.environ, "GD_DATABASE": database.url}) as server:
            os.close(its)

            def status(target):
                try:
                    return raw.ask(port, "GET", target, [("Host", f"127.0.0.1:{port}")]).status
                except (OSError, IndexError):
                    return None
            support.until(lambda: status("/api/overview") == 200, "it answers")
            database.refuse()
            for target in ("/api/overview", "/api/machines", "/api/jobs"):
                support.until(lambda t=target: status(t) == 503, target)  # and complains of it
            database.accept()
            support.until(lambda: status("/api/overview") == 200, "it is back")
            server.terminate()
            self.assertEqual(server.wait(support.SECONDS), 0)

    def test_an_address_is_told_as_browsers_write_it(self):
        database = support.Database(Case.gdctl)
        self.addCleanup(database.close)
        port = support.free_port()
        server = support.Process([Case.gdctl, "serve", "--listen", f"[0:0:0:0:0:0:0:1]:{port}"], database.url, "/")
        try:
            support.until(lambda: f"http://[::1]:{port}/" in server.said(), "its address")
            with socket.create_connection(("::1", port), 20) as there:
                there.sendall(raw.request("GET", "/healthz", [("Host", f"[::1]:{port}")]))
                self.assertEqual(raw.Answer(raw.read_all(there)).status, 200)
        finally:
            server.close()

    def test_a_database_that_is_not_there_is_told_at_once(self):
        done = subprocess.run([Case.gdctl, "--database", "host=/nowhere", "serve"], capture_output=True, timeout=support.SECONDS, check=False)
        self.assertEqual(done.returncode, 3)

    def test_a_socket(self):
        with support.tempfile.TemporaryDirectory() as folder:
            database = support.Database(Case.gdctl)
            self.addCleanup(database.close)
            path = os.path.join(folder, "page.sock")

            def start():
                return support.Process([Case.gdctl, "serve", "--listen", f"unix:{path}"], database.url, folder)

            def answers():
                try:
                    return raw.ask(path, "GET", "/api/overview", [("Host", "localhost")]).status == 200
                except OSError:
                    return False
            first = start()
            support.until(answers, "an answer")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
            self.assertEqual(raw.ask(path, "GET", "/", [("Host", "evil.example")]).status, 403)
            second = start()  # while the first one listens
            support.until(lambda: not second.runs(), "it ends")
            self.assertIn("Address already in use", second.said())
            self.assertTrue(answers())
            first.kill()  # which leaves its socket behind
            third = start()
            support.until(answers, "an answer")
            third.close()


if __name__ == "__main__":
    SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    Case.gdctl = os.path.realpath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
