#!/usr/bin/env python3
"""The page of `gdctl serve` in a real Chromium, with workers and a database.

    tools/private-postgres run -- tests/page/browser_test.py GDCTL MESS [unittest's arguments]

GD_PAGE_IMAGES names a directory: the documentation's pictures are written there.
"""

import json
import os
import shutil
import sys
import tempfile
import unittest

import chromium
import support
from tab import Tab

GDCTL = MESS = None

# What would run, load, leave its place or turn its line around if it were anything but text.
EVIL = ("</title></script><script>hit('s')</script><img src=x onerror=hit('i')><svg onload=hit('v')>"
        "\"'`&lt;${hit('t')}{{hit}}\u202eelif\u2066\u0007\u05d0\u05d1 %3Cb%3E #/?a=b&c=d")
EVIL_NAME = "<script>hit('s')</script><img src=x onerror=hit('i')>\"'`&lt;\u05d0\u05d1"  # no such characters in it
JAVASCRIPT = "javascript:hit('j')//<b>"


def quoted(text):
    """As a string of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def seen(text):
    """As the page shows it: what nobody would see is an escape."""
    return "".join(f"\\u{ord(c):04x}" if c in "\u202e\u2066\u0007" else c for c in text)


class Case(Tab, unittest.TestCase):
    """A database, a server and a browser for all tests of a class; a tab for each."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gd-page-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.database = support.Database(GDCTL)
        cls.addClassCleanup(cls.database.close)
        cls.prepare()
        cls.server = support.Server(GDCTL, cls.database.url, cls.folder)
        cls.addClassCleanup(lambda: cls.server.close())  # the one that it is then
        cls.browser = chromium.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def prepare(cls):
        """What is there before."""

    def setUp(self):
        self.page = self.browser.page()
        self.addCleanup(self.page.close)
        self.origin = self.server.url

    def tearDown(self):
        self.hears_nothing_wrong()

    def instead(self, path, answer, nth=1):
        """The nth request to a path is carried out; the page gets another answer than `got`."""
        self.page.js(f"""(() => {{
          const fetched = window.fetch;
          let n = 0;
          window.fetch = async (...x) => {{
            const got = await fetched(...x);
            return x[0].startsWith({json.dumps(path)}) && ++n === {nth} ? {answer} : got;
          }};
        }})()""")

    def focused(self):
        """The key of the row where the focus is."""
        return self.page.js("document.activeElement.closest('tr')?.dataset.key")


# What comes instead of an answer.
LOST = "Promise.reject(new TypeError('lost'))"
PROXY = "new Response('<h1>Gateway Time-out</h1>', {status: %d})"


class Views(Case):
    """What each view shows, and what each verb does."""

    @classmethod
    def prepare(cls):
        db = cls.database
        for name in ("relay_down", "stuck"):
            open(os.path.join(cls.folder, name), "w").close()
        cls.worker = support.Process([MESS, "shop", "1,2", "60", "default", "mail"], db.url, cls.folder)
        cls.addClassCleanup(cls.worker.close)
        db.until("exists (select from gen_durable_nodes)")
        cls.failing = [cls.order("book") for _ in range(12)]
        db.until("12 = (select count(*) from gen_durable where status = 'failed')")
        os.remove(os.path.join(cls.folder, "relay_down"))
        cls.done = cls.order("book", "--unique-key", "order 42", "--unique-scope", "runnable,done")
        cls.parcel = cls.order("parcel")
        cls.slow = cls.order("slow", "--partition-key", "customer 7")
        db.until(f"exists (select from gen_durable where id = {cls.slow} and status = 'executing')")
        cls.behind = cls.order("book", "--partition-key", "customer 7")
        db.until(f"exists (select from gen_durable where id = {cls.parcel} and status = 'awaiting_signal')")
        db.until(f"exists (select from gen_durable where id = {cls.done} and status = 'done')")

    @classmethod
    def order(cls, item, *options):
        said = cls.database.gdctl("insert", "Order", "--force", "--state", json.dumps({"item": item}), *options)
        return json.loads(said)["id"]

    def status(self, one):
        return self.database.value(f"select status from gen_durable where id = {one}")

    def facts(self, one):
        self.visit(f"#/instance/{one}")
        return self.page.js("Object.fromEntries([...document.querySelectorAll('[data-fact]')]"
                            ".map(x => [x.dataset.fact, x.innerText]))")

    # -- views -----------------------------------------------------------------

    def test_overview(self):
        self.visit()
        text = self.page.text("main")
        for expected in ("Queues", "default", "mail", "Nodes", "shop", "Order v1, Order v2", "Jobs", "Rows written"):
            self.assertIn(expected, text)
        self.assertEqual(self.page.text("[data-count=executing]"), "1")
        self.page.until("document.querySelectorAll('svg.plot polyline').length === 3")
        self.order("book")
        self.page.until("!document.querySelector('[data-key=inserted] small').innerText.startsWith('at most 0/s')")
        self.give_token()
        self.page.scheme("light")
        self.picture("overview")

    def test_machines(self):
        self.visit("#/machines")
        self.page.until_text("main td", "Order v2")
        self.page.click("[data-key='2 Order'] a")
        self.drawn()
        self.assertEqual(self.page.js("location.hash"), "#/machine/Order/2")
        self.assertIn("Order v2", self.page.text("h1"))
        steps = self.page.js("[...document.querySelectorAll('svg [data-step]')].map(x => x.dataset.step)")
        self.assertEqual(sorted(steps), ["charge", "deliver", "reserve"])
        self.page.until("document.querySelector('[data-step=deliver]').textContent.includes('1 awaiting_signal')")
        self.page.click("[data-step=deliver]")
        self.drawn()
        self.assertIn(self.parcel, [int(x) for x in self.ids()])

    def test_a_graph_is_laid_out(self):
        """Steps below those that lead to them, none above another, lines from and to their steps."""
        self.database.sql("""insert into gen_durable_machines
          (fsm, version, initial_step, queue, steps, transitions, outside) values ('Shop', 1, 'begin', 'default',
          '{begin,reserve,charge,deliver,refund,lost,closed}', '{"begin": ["reserve"], "reserve": ["charge", "begin"],
          "charge": ["deliver", "refund"], "deliver": ["deliver", "closed"], "refund": null, "lost": [], "closed": [],
          "*": ["refund"]}',
          '{"lost": {"to": ["refund"], "rests": true, "ends": false},
            "closed": {"to": [], "rests": false, "ends": true}}')""")
        self.visit("#/machine/Shop/1")
        boxes = self.page.js("""Object.fromEntries([...document.querySelectorAll('[data-step]')].map(x => {
          const {left, right, top, bottom} = x.querySelector('rect').getBoundingClientRect();
          return [x.dataset.step, [left, right, top, bottom]]; }))""")
        for upper, lower in (("begin", "reserve"), ("reserve", "charge"), ("charge", "deliver"), ("deliver", "closed")):
            self.assertLess(boxes[upper][3], boxes[lower][2], f"{upper} above {lower}")
        names = sorted(boxes)
        for i, a in enumerate(names):
            for b in names[i + 1:]:
                x, y = boxes[a], boxes[b]
                apart = x[1] <= y[0] or y[1] <= x[0] or x[3] <= y[2] or y[3] <= x[2]
                self.assertTrue(apart, f"{a} and {b} overlap")
        drawn = self.page.js("[...document.querySelectorAll('.graph path title')].map(x => x.textContent)")
        for edge in ("begin → reserve", "reserve → begin", "deliver → deliver", "charge → refund",
                     "(when a step fails) → refund"):
            self.assertIn(edge, drawn)
        self.picture("machine", height=760)

    def test_filters(self):
        everything = self.database.value("select count(*) from gen_durable where fsm = 'Order'")
        self.visit("#/instances")
        self.assertGreaterEqual(len(self.ids()), int(everything))
        self.page.choose("#filters [name=status]", "failed")
        self.page.fill("#filters [name=machine]", "Order")
        self.page.fill("#filters [name=failure]", "connection refused")
        self.page.key("Enter")
        self.page.until("location.hash.includes('failure')")
        self.drawn()
        expected = self.database.sql("select id from gen_durable where status = 'failed' "
                                     "and last_error like '%connection refused%' order by id desc")
        self.assertEqual(self.ids(), [x[0] for x in expected])
        self.picture("instances")
        for field, text, where in (("version", "1", "fsm_version = 1"), ("step", "deliver", "step = 'deliver'"),
                                   ("queue", "mail", "queue = 'mail'"), ("older", "1h", "false"),
                                   ("older", "1ms", "true")):
            self.visit(f"#/instances?machine=Order&{field}={text}")
            self.assertEqual(self.page.js(f"document.querySelector('#filters [name={field}]').value"), text)
            expected = self.database.sql(f"select id from gen_durable where fsm = 'Order' and {where} order by id desc")
            self.assertEqual(self.ids(), [x[0] for x in expected], field)
        self.page.tolerated.append("status of 400")
        self.page.go(self.origin + "#/instances?older=soon")
        self.page.until_text("#status", "older")

    def test_instance(self):
        facts = self.facts(self.parcel)
        self.assertEqual(facts["status"], "awaiting_signal")
        self.assertEqual(facts["awaits"], "delivered")
        self.assertIn("waits for signal delivered", self.page.text("#why"))
        self.assertIn('"item": "parcel"', self.page.text("pre"))
        self.assertEqual(self.page.js("document.querySelectorAll('.line > li').length"), 4)
        self.page.click("[data-open='state 1'] summary")
        self.page.until_text("[data-open='state 1'] pre", "parcel")
        self.again()  # it stays open
        self.page.until_text("[data-open='state 1'] pre", "parcel")
        self.picture("instance", height=760)

    def test_find(self):
        self.visit()
        self.page.key("/")
        self.page.call("Input.insertText", text="order 42")
        self.page.key("Enter")
        self.page.until_text("h1", f"Instance {self.done}")
        self.page.key("/")
        self.page.call("Input.insertText", text=str(self.behind))
        self.page.key("Enter")
        self.page.until_text("h1", f"Instance {self.behind}")
        self.drawn()
        self.page.click("[data-key=other] a")  # the one that it is behind
        self.page.until_text("h1", f"Instance {self.slow}")
        self.page.tolerated.append("status of 404")
        for what in ("999999999", "nobody's"):
            self.page.key("/")
            self.page.call("Input.insertText", text=what)
            self.page.key("Enter")
            self.page.until_text("main", "There is no such instance.")

    def test_a_number_may_be_a_unique_key(self):
        self.page.tolerated.append("status of 400")
        for what, found in ((str(self.done), f"Instance {self.done}"),
                            ("9999999999999999999", "There is no such instance.")):  # too large for an id
            keyed = self.order("book", "--delay", "1h", "--unique-key", what)
            self.visit()
            self.page.key("/")
            self.page.call("Input.insertText", text=what)
            self.page.key("Enter")
            self.page.until_text("main", found)
            self.page.click("[data-key='as key'] a")
            self.page.until_text("h1", f"Instance {keyed}")
            self.assertEqual(self.page.text("[data-fact='unique key']"), what)
        self.visit(f"#/instance/{self.done}")  # nobody has looked for a key
        self.assertFalse(self.page.js("document.querySelector('[data-key=\"as key\"]') !== null"))

    # -- verbs -----------------------------------------------------------------

    def test_token(self):
        self.visit(f"#/instance/{self.failing[0]}")
        self.page.click("main [data-do=retry]")
        self.page.until_text("#dialog", "The token of this server")
        self.page.fill("#dialog [name=token]", "not-this-one-whatever-it-may-be")
        self.page.key("Enter")
        self.page.until_text("#dialog .said", "That is not the token.")
        self.page.fill("#dialog [name=token]", self.server.token)
        self.page.key("Enter")
        self.page.until_text("#dialog h2", f"Retry: instance {self.failing[0]}")
        kept = self.page.js("[sessionStorage.length, localStorage.length, document.cookie, location.href]")
        self.assertEqual(kept[:3], [1, 0, ""])
        self.assertNotIn(self.server.token, kept[3])
        self.page.key("Escape")
        self.page.until("!document.querySelector('#dialog').open")
        self.page.click("#token")
        self.page.click("#dialog [data-do=forget]")
        self.assertEqual(self.page.js("sessionStorage.length"), 0)

    def test_a_token_that_is_no_more(self):
        self.page.tolerated.append("status of 401")
        self.visit(f"#/instance/{self.failing[0]}")
        self.page.js("sessionStorage.setItem('token', 'that of yesterday')")
        self.page.click("main [data-do=retry]")
        self.page.click("#dialog button[value=go]")
        self.page.until_text("#dialog .said", "token")
        self.page.until("sessionStorage.length === 0")
        self.assertEqual(self.status(self.failing[0]), "failed")

    def test_retry_and_rewind(self):
        one = self.failing[1]
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.press("[data-do=retry]", reason="the relay is back", by="ann")
        self.page.until_text("[data-fact=status]", "done")
        self.page.until_text(".line", "the relay is back")
        self.page.until_text(".line", "by ann")
        entry = self.page.js("document.querySelector('.line > li:last-child').innerText")
        self.assertIn("insert", entry)
        self.press("[data-do=rewind][data-seq='0']", reason="once more", by="bob")
        self.page.until_text(".line", "once more")
        self.database.until(f"exists (select from gen_durable where id = {one} and status = 'done')")

    def test_stop(self):
        one = self.order("book", "--delay", "1h")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.press("[data-do=stop]", reason="nobody wants it")
        self.page.until_text("[data-fact=status]", "failed")
        self.assertIn("nobody wants it", self.database.value(f"select last_error from gen_durable where id = {one}"))

    def test_stop_of_one_that_executes(self):
        one = self.order("slow")
        self.database.until(f"exists (select from gen_durable where id = {one} and status = 'executing')")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.press("[data-do=stop]", reason="it hangs")
        self.page.until_text("[data-fact=status]", "failed")

    def test_erase(self):
        one = self.order("book", "--delay", "1h")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.page.click("main [data-do=erase]")
        self.page.click("#dialog button[value=go]") # without a reason the form stays
        self.assertEqual(self.database.value(f"select count(*) from gen_durable where id = {one}"), "1")
        self.page.tolerated.append("status of 404")
        self.fill_dialog(reason="request 17", by="ann")
        self.page.click("#dialog button[value=go]")
        self.page.until_text("main", "There is no such instance.")
        self.page.until_text("#status", "by ann: request 17")
        self.assertEqual(self.database.sql(f"select by, reason from gen_durable_erased where instance_id = {one}")[0], ("ann", "request 17"))

    def test_an_encrypted_instance(self):
        one = self.order("book", "--delay", "1h")
        self.database.sql(f"""update gen_durable set state = '{{"gd.key": "2026-11", "gd.encrypted": "AAECAwQFBgc="}}' where id = {one}""")
        self.database.sql(f"""insert into gen_durable_signals (target_id, name, payload) values ({one}, 'paid', '{{"gd.key": "2026-12", "gd.encrypted": "AAEC"}}')""")
        self.visit(f"#/instance/{one}")
        self.page.until_text("main", "Encrypted with key 2026-11, 8 bytes.")
        self.page.until_text("[aria-label=Inbox]", "Encrypted with key 2026-12, 3 bytes.")
        self.assertNotIn("AAEC", self.page.js("document.body.innerText"))

    def test_run_now(self):
        one = self.order("book", "--delay", "1h")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.press("[data-do=run-now]")
        self.page.until_text("[data-fact=status]", "done")

    def test_move(self):
        one = self.order("book", "--delay", "1h")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.press("[data-do=move]", queue="mail", priority="-5")
        self.page.until_text("[data-fact=queue]", "mail")
        self.page.until_text("[data-fact=priority]", "-5")
        self.page.tolerated.append("status of 400")
        self.page.click("main [data-do=move]")
        self.page.click("#dialog button[value=go]")
        self.page.until_text("#dialog .said", "priority")

    def test_upgrade(self):
        one = self.order("book", "--delay", "1h", "--version", "1")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.page.click("main [data-do=upgrade]")
        self.fill_dialog(to_version="2", to_steps="charge=charge", reason="the new one")
        self.page.click("#dialog button[value=go]")
        self.page.until_text("#dialog .said", "1 changed")
        self.page.click("#dialog [data-do=close]")
        self.page.until_text("[data-fact=machine]", "Order v2")

    def test_signal(self):
        one = self.order("parcel")
        self.database.until(f"exists (select from gen_durable where id = {one} and status = 'awaiting_signal')")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.press("[data-do=signal]", name="other", payload='{"n": 9007199254740993}', dedup_key="evt-1")
        self.page.until_text("main [aria-label=Inbox]", "9007199254740993")
        self.page.tolerated.append("status of 400")
        self.page.click("main [data-do=signal]")
        self.fill_dialog(payload="{no JSON")
        self.page.click("#dialog button[value=go]")
        self.page.until("document.querySelector('#dialog .said').innerText !== ''")
        self.page.fill("#dialog [name=payload]", "")
        self.page.click("#dialog button[value=go]")  # its name is the one that is awaited
        self.page.until_text("[data-fact=status]", "done")

    def test_pause_and_resume(self):
        self.visit()
        self.give_token()
        self.press("[data-do=pause][data-queue=mail]", reason="the printer is broken", by="ann")
        self.page.until_text("[aria-label=Queues]", "by ann: the printer is broken")
        # Later than what was picked before the worker saw the pause.
        one = self.order("book", "--queue", "mail", "--delay", "2s")
        self.database.until(f"exists (select from gen_durable where id = {one} and eligible_at <= now())")
        self.visit(f"#/instance/{one}")
        self.assertIn("paused", self.page.text("#why"))
        self.press("[data-do=resume]")
        self.page.until_text("[data-fact=status]", "done")
        self.visit()
        self.page.until("document.querySelector('[data-do=pause][data-queue=mail]')")

    def test_bulk_with_a_dry_run(self):
        some = [self.order("book", "--delay", "1h", "--queue", "bulk") for _ in range(5)]
        self.visit("#/instances?queue=bulk")
        self.give_token()
        self.page.choose("#bulk", "stop")
        self.page.click("[data-do=bulk-all]")
        self.fill_dialog(reason="too many", by="ann")
        self.assertFalse(self.page.js("document.querySelector('#dialog [value=go]').checkVisibility()"))
        self.dry_run("5 fit")
        self.assertEqual({self.status(x) for x in some}, {"runnable"})
        self.page.fill("#dialog [name=reason]", "far too many")  # something else: once more
        self.assertFalse(self.page.js("document.querySelector('#dialog [value=go]').checkVisibility()"))
        self.dry_run("5 fit")
        self.picture("bulk")
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", "5 changed")
        self.assertEqual({self.status(x) for x in some}, {"failed"})
        self.page.click("#dialog [data-do=close]")
        self.visit()
        self.page.until_text("[aria-label=Jobs]", "stop (dry run)")

    def test_bulk_with_the_selected(self):
        some = [self.order("book", "--delay", "1h", "--queue", "some") for _ in range(4)]
        self.visit("#/instances?queue=some")
        self.give_token()
        self.page.click(f"[data-pick='{some[0]}']")
        self.page.click(f"[data-pick='{some[2]}']")
        self.database.gdctl("stop", str(some[2]))
        self.again()  # what is selected stays selected
        self.page.until_text("[data-do=bulk-chosen]", "(2)")
        self.page.choose("#bulk", "stop")
        self.page.click("[data-do=bulk-chosen]")
        self.dry_run("1 fit, 1 refused")
        self.page.until_text("#dialog .said", f"{some[2]}: it is failed")
        self.assertEqual(self.status(some[0]), "runnable")
        self.page.tolerated.append("status of 409")
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", "1 changed, 1 refused")
        self.assertEqual([self.status(x) for x in some], ["failed", "runnable", "failed", "runnable"])
        self.page.key("Escape")
        self.page.click("[data-pick=all]")
        self.page.until_text("[data-do=bulk-chosen]", "(4)")
        for verb in ("retry", "run-now", "move", "upgrade"):
            self.page.choose("#bulk", verb)
            self.page.click("[data-do=bulk-chosen]")
            if verb == "upgrade":
                self.fill_dialog(to_version="2")
            self.page.click("#dialog [value=dry]")
            self.page.until_text("#dialog .said", "4 of 4 looked at")
            self.page.key("Escape")

    def test_the_selected_are_as_their_jobs_say(self):
        """All jobs are made before one ends; what a job has not changed is refused."""
        self.database.sql("insert into gen_durable_machines (fsm, version, initial_step, queue, steps) "
                          "values ('Order', 8, 'reserve', 'default', '{reserve,charge,deliver}')")  # no node has it
        for _ in range(2):
            self.order("book", "--delay", "1h", "--queue", "jobs")
        self.visit("#/instances?queue=jobs")
        self.give_token()
        self.page.click("[data-pick=all]")
        self.page.choose("#bulk", "upgrade")
        self.page.click("[data-do=bulk-chosen]")
        self.fill_dialog(to_version="8")
        self.dry_run("2 fit")
        self.page.click("#dialog [value=go]")
        made = "from gen_durable_jobs where to_version = 8 and not dry_run"
        self.database.until(f"2 = (select count(*) {made})")
        for job, in self.database.sql(f"select id {made}"):
            self.database.sql(f"update gen_durable_jobs set ended_at = now(), cancelled = true where id = {job}")
        self.page.until_text("#dialog .said", "2 of 2 looked at, 0 changed, 2 refused")

    def test_what_is_typed_during_a_dry_run_needs_another(self):
        self.order("book", "--delay", "1h", "--queue", "typed")
        self.visit("#/instances?queue=typed")
        self.give_token()
        self.page.choose("#bulk", "stop")
        self.page.click("[data-do=bulk-all]")
        self.fill_dialog(reason="too many")
        self.instead("api/job", "new Promise(done => { window.give = () => done(got); })")
        self.page.click("#dialog [value=dry]")
        self.page.until("window.give !== undefined")
        self.page.fill("#dialog [name=reason]", "something else")
        self.page.js("give()")
        self.page.until_text("#dialog .said", "1 fit, 0 refused.")
        self.page.until("!document.querySelector('#dialog [value=dry]').disabled")
        self.assertFalse(self.page.js("document.querySelector('#dialog [value=go]').checkVisibility()"))
        self.dry_run("1 fit")

    def test_cancel_of_a_job(self):
        self.order("book", "--delay", "1h", "--queue", "cancelled")
        # Of an upgrade to what no node has: it waits until it is cancelled.
        self.database.sql("insert into gen_durable_machines (fsm, version, initial_step, queue, steps) "
                          "values ('Order', 9, 'reserve', 'default', '{reserve,charge,deliver}')")
        self.database.gdctl("upgrade", "--machine", "Order", "--queue", "cancelled", "--to-version", "9", "--detach")
        job = self.database.value("select max(id) from gen_durable_jobs")
        self.visit()
        self.give_token()
        self.press(f"[data-do=cancel][data-job='{job}']")
        self.page.until(f"!document.querySelector('[data-do=cancel][data-job=\"{job}\"]')")
        self.page.until_text(f"[aria-label=Jobs] tr[data-key='{job}']", "cancelled")

    def test_refusals_are_told(self):
        self.page.tolerated.append("status of 409")
        one = self.order("book", "--delay", "1h")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.page.click("main [data-do=run-now]")
        self.page.until("document.querySelector('#dialog').open")
        self.database.gdctl("stop", str(one))
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", "failed")
        self.assertTrue(self.page.js("document.querySelector('#dialog').open"))

    def test_read_only(self):
        with tempfile.TemporaryDirectory() as folder:
            server = support.Server(GDCTL, self.database.url, folder, writes=False)
            self.addCleanup(server.close)
            self.origin = server.url
            for route in ("#/", "#/instances", f"#/instance/{self.failing[2]}"):
                self.visit(route)
                found = self.page.js("[...document.querySelectorAll('button')].filter(x => x.checkVisibility())"
                                     ".map(x => x.dataset.do ?? x.type)")
                self.assertEqual([x for x in found if x not in ("help", "submit")], [], route)
                self.assertEqual(self.page.js("document.querySelectorAll('[data-pick]').length"), 0)
                self.page.until_text("#read-only", "read-only")

    # -- ways to use it ----------------------------------------------------------

    def test_keyboard(self):
        self.visit()
        self.page.key("g", "m")
        self.page.until("location.hash === '#/machines'")
        self.page.key("g", "i")
        self.page.until("location.hash === '#/instances'")
        self.drawn()
        rows = self.ids()
        self.page.key("j")
        self.assertEqual(self.focused(), rows[0])
        self.page.key("j", "j", "k")
        self.assertEqual(self.focused(), rows[1])
        self.again()  # and stays there
        self.assertEqual(self.focused(), rows[1])
        outline = self.page.js("getComputedStyle(document.activeElement).outlineStyle")
        self.assertNotEqual(outline, "none")
        self.page.key("x")
        self.page.until_text("[data-do=bulk-chosen]", "(1)")
        self.page.key("j", "Enter")
        self.page.until("location.hash.startsWith('#/instance/')")
        self.assertEqual(self.page.js("location.hash"), f"#/instance/{rows[2]}")
        self.page.key("Escape")
        self.page.until("location.hash === '#/instances'")
        self.drawn()  # a view that comes closes the dialog of the one before
        self.page.key("?")
        self.page.until("document.querySelector('#dialog').open")
        self.page.until_text("#dialog", "next, previous row")
        self.page.key("j", "g", "m")  # means nothing there
        self.page.key("Escape")
        self.page.until("!document.querySelector('#dialog').open")
        self.assertEqual(self.page.js("location.hash"), "#/instances")
        self.page.key("f")
        self.page.key("j")
        self.assertEqual(self.page.js("document.activeElement.value"), "j")
        self.page.key("Escape")
        self.page.key("/")
        self.assertEqual(self.page.js("document.activeElement.id"), "find-what")
        self.page.key("Escape")
        self.page.key("g", "o")
        self.page.until("location.hash === '#/'")
        self.drawn()
        for _ in range(8):  # with Tab everything is reached, and it is seen where one is
            self.page.key("Tab")
            style, where = self.page.js("(x => [getComputedStyle(x).outlineStyle, x.outerHTML])"
                                        "(document.activeElement)")
            self.assertNotEqual(style, "none", where)

    def test_dialogs_can_be_left(self):
        self.visit(f"#/instance/{self.failing[3]}")
        self.give_token()
        for leave in (lambda: self.page.key("Escape"), lambda: self.page.click("#dialog [data-do=close]")):
            self.page.click("main [data-do=retry]")
            self.page.until("document.activeElement.name === 'reason'")
            leave()
            self.page.until("!document.querySelector('#dialog').open")
        self.assertEqual(self.status(self.failing[3]), "failed")

    def test_what_a_user_holds_stays(self):
        """Looks once a second take no focus, no selection and no place away."""
        self.visit(f"#/instance/{self.parcel}")
        self.page.js("""(() => {
          const pre = document.querySelector('pre');
          pre.id = 'mine';
          getSelection().selectAllChildren(pre);
          document.querySelector('.line').lastChild.scrollIntoView();
          document.querySelector('[data-do=signal]').focus({preventScroll: true});
        })()""")
        held = "[getSelection().toString(), scrollY, document.activeElement.dataset.do]"
        before = self.page.js(held)
        self.assertIn("parcel", before[0])
        self.again()
        self.assertEqual(self.page.js(held), before)

    def test_looks_only_while_it_is_visible(self):
        self.visit()
        self.page.js("""(() => {
          Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});
          window.away = true;
          document.dispatchEvent(new Event('visibilitychange'));
        })()""")
        # The look that was on its way ends; then a second and a half pass without another.
        quiet = """new Promise(done => {
          let last = performance.now();
          const fetched = window.fetch;
          window.fetch = (...x) => { last = performance.now(); return fetched(...x); };
          const look = () => performance.now() - last > 2500 ? done(true) : setTimeout(look, 20);
          look();
        })"""
        self.assertTrue(self.page.js(quiet))
        before = self.page.js("document.querySelector('#main').dataset.drawn")
        self.page.js("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        self.page.until(f"document.querySelector('#main').dataset.drawn > {before}")

    def test_focus_stays_where_rows_above_go(self):
        for _ in range(3):
            self.order("book", "--delay", "1h", "--queue", "focus")
        self.visit("#/instances?queue=focus")
        rows = self.ids()
        self.page.key("j", "j", "j")
        self.assertEqual(self.focused(), rows[2])
        self.database.sql(f"delete from gen_durable where id = {rows[0]}")
        self.page.until(f"document.querySelector('main tbody tr').dataset.key === '{rows[1]}'")
        self.assertEqual(self.focused(), rows[2])

    def test_looks_come_again_however_slow_they_are(self):
        self.visit()
        waits = self.page.js("""new Promise(done => {
          const timer = window.setTimeout;
          let now = performance.now();
          performance.now = () => now += 60_000;
          window.setTimeout = (f, ms) => { if (ms > 1000) done(ms); return timer(f, ms); };
        })""")
        self.assertEqual(waits, 30_000)

    def test_small_screen(self):
        self.page.size(360, 640, mobile=True)
        for route in ("#/", "#/machines", "#/machine/Order/2", "#/instances", f"#/instance/{self.failing[4]}",
                      f"#/instance/{self.parcel}"):
            self.visit(route)
            self.assertEqual(self.page.js("document.scrollingElement.scrollWidth"), 360, route)
        self.give_token()
        self.page.click("main [data-do=signal]")
        self.page.until("document.querySelector('#dialog').open")
        box = self.page.js("(x => [x.left, x.right])(document.querySelector('#dialog').getBoundingClientRect())")
        self.assertGreaterEqual(box[0], 0)
        self.assertLessEqual(box[1], 360)
        self.page.key("Escape")
        self.picture("small", 360, 640)

    def test_dark_and_light(self):
        """Each has its own colours, and texts are readable in both."""
        luminance = """(() => {
          const part = x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
          const of = colour => { const [r, g, b] = colour.match(/[0-9.]+/g).map(Number);
            return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
          const back = x => { const at = getComputedStyle(x).backgroundColor;
            return at !== 'rgba(0, 0, 0, 0)' || !x.parentElement ? at : back(x.parentElement); };
          return [...document.querySelectorAll('a, button, h1, h2, td, th, dt, dd, p, small, bdi, summary')]
            .filter(x => x.checkVisibility() && x.innerText && !x.disabled).map(x => {
              const [a, b] = [of(getComputedStyle(x).color), of(back(x))];
              return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), x.innerText.slice(0, 40)]; });
        })()"""
        backs = {}
        for scheme in ("light", "dark"):
            self.page.scheme(scheme)
            for route in ("#/", "#/instances", f"#/instance/{self.failing[5]}"):
                self.visit(route)
                for contrast, text in self.page.js(luminance):
                    self.assertGreaterEqual(contrast, 4.5, f"{scheme}: {text}")
            backs[scheme] = self.page.js("getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(backs["dark"], backs["light"])
        self.picture("dark")

    # -- what goes and comes back --------------------------------------------------

    def test_a_server_that_goes_and_comes_back(self):
        self.page.tolerated.append("ERR_")
        self.visit("#/instances?status=failed")
        before = self.ids()
        port = self.server.port
        self.server.close()
        self.page.until_text("#status.away", "does not answer")
        self.page.until_text("#status.away", "tries again in 4 s")  # later and later
        self.assertEqual(self.ids(), before)  # what was there is still shown
        type(self).server = support.Server(GDCTL, self.database.url, self.folder, port=port)
        self.page.until("!document.querySelector('#status.away')")
        self.again()
        self.assertEqual(self.ids(), before)

    def test_look_now(self):
        self.page.tolerated.append("ERR_")
        self.visit()
        port = self.server.port
        self.server.close()
        self.page.until_text("#status.away", "tries again in 8 s")
        type(self).server = support.Server(GDCTL, self.database.url, self.folder, port=port)
        # No timer of its own will look.
        self.page.js("{ for (let i = setTimeout(() => {}); i > 0; --i) clearTimeout(i); }")
        self.page.click("#status button")
        self.page.until("!document.querySelector('#status.away')")

    def test_a_verb_without_a_server(self):
        self.page.tolerated.append("ERR_")
        one = self.order("book", "--delay", "1h")
        self.visit(f"#/instance/{one}")
        self.give_token()
        self.page.click("main [data-do=run-now]")
        port = self.server.port
        self.server.close()
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", "does not answer")
        type(self).server = support.Server(GDCTL, self.database.url, self.folder, port=port)
        self.page.click("#dialog [value=go]")  # what was typed in is still there
        self.page.until_text("[data-fact=status]", "done")

    def test_a_change_without_its_answer_may_have_happened(self):
        for answer in (LOST, PROXY % 504, PROXY % 200):
            one = self.order("book", "--delay", "1h")
            self.visit(f"#/instance/{one}")
            self.give_token()
            self.instead("api/verb", answer)
            self.page.click("main [data-do=stop]")
            self.page.click("#dialog [value=go]")
            self.page.until_text("#dialog .said", "It may have happened: look first.")
            self.assertEqual(self.status(one), "failed")
        self.instead("api/verb", PROXY % 403)  # that one has refused it
        self.page.key("Escape")
        self.page.click("main [data-do=retry]")
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", "Gateway")
        self.assertNotIn("may have happened", self.page.text("#dialog .said"))

    def test_the_selected_end_where_an_answer_is_lost(self):
        """Those before are changed, that one may be, and the others are left."""
        for _ in range(3):
            self.order("book", "--delay", "1h", "--queue", "lost")
        self.visit("#/instances?queue=lost")
        self.give_token()
        rows = self.ids()
        self.page.click("[data-pick=all]")
        self.page.choose("#bulk", "stop")
        self.page.click("[data-do=bulk-chosen]")
        self.dry_run("3 fit")
        self.instead("api/verb", LOST, nth=2)
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", f"instance {rows[1]}: the server does not answer. It may have happened")
        self.page.until_text("#dialog .said", "1 of 3 looked at, 1 changed, 0 refused")
        self.assertEqual([self.status(x) for x in rows], ["failed", "failed", "runnable"])

    def test_what_is_not_the_servers_answer_is_told(self):
        self.visit()
        self.instead("api/overview", "new Response('<h1>Welcome</h1>')")
        self.page.until_text("#status.away", "Welcome")


class Evil(Case):
    """Names, states, errors and reasons that would be script."""

    @classmethod
    def prepare(cls):
        db = cls.database
        evil, js = quoted(EVIL), quoted(JAVASCRIPT)
        cls.state = json.dumps({EVIL: [EVIL] * 600, "number": 9007199254740993})
        assert len(cls.state) > 100_000
        state = quoted(cls.state)
        db.sql(f"""
          insert into gen_durable_machines (fsm, version, initial_step, queue, steps, transitions)
            values ({evil}, 1, {evil}, {evil}, array[{evil}, {js}],
              jsonb_build_object({evil}, array[{js}], {js}, array[{evil}]));
          insert into gen_durable (fsm, fsm_version, step, status, queue, last_error, state, result, unique_key,
              partition_key, unique_scope, history)
            values ({evil}, 1, {evil}, 'failed', {evil}, {evil}, {state}, jsonb_build_object({evil}, {evil}),
              convert_to({quoted(EVIL_NAME)}, 'UTF8'), {evil}, '{{failed}}', 2);
          insert into gen_durable (fsm, fsm_version, step, status, queue, awaits, state, history)
            values ({js}, 1, {js}, 'awaiting_signal', {js}, {evil}, jsonb_build_object({js}, {js}), 2);
          insert into gen_durable (fsm, fsm_version, step, status, queue, eligible_at, state)
            values ({evil}, 1, {js}, 'runnable', {js}, now(), jsonb_build_object({js}, {js}));
          insert into gen_durable (fsm, step, status, state)
            values ('Deep', 'begin', 'done', ('{{"deep": ' || repeat('[', 500) || repeat(']', 500) || '}}')::jsonb);
          insert into gen_durable_signals (target_id, name, payload, dedup_key)
            select id, {evil}, jsonb_build_object('text', repeat({evil}, 100)), {evil} from gen_durable
            where fsm <> 'Deep' and status <> 'failed';
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, by,
              reason, metadata, state)
            select g.id, n, now(), 1, 'next', {evil}, {js}, 1, {evil}, {evil}, jsonb_build_object({evil}, {evil}), g.state
            from gen_durable g, generate_series(0, 149) n where g.fsm <> 'Deep';
          update gen_durable set seq = 149 where fsm <> 'Deep';
          insert into gen_durable_queues (queue, paused_at, paused_by, reason)
            values ({evil}, now(), {evil}, {evil}), ({js}, now(), {js}, {js});
          insert into gen_durable_nodes (incarnation, node, host, process, library, lease, slots, queues, machines)
            values ({evil}, {evil}, {evil}, 1, {evil}, '1 min', 1,
              jsonb_build_array(jsonb_build_object('name', {evil}, 'slots', 1)), '[]')""")
        db.gdctl("retry", "--failure", EVIL, "--by", EVIL_NAME, "--reason", EVIL, "--dry-run")

    def tearDown(self):
        self.assertEqual(self.page.js("document.querySelectorAll('main :is(script, img, [onload], b > b)').length"), 0)
        super().tearDown()

    def test_the_test_hears_what_is_injected(self):
        self.visit()
        self.page.js("document.body.insertAdjacentHTML('beforeend', '<b onclick=1></b><img src=//example.net/x>')")
        self.page.event(lambda: sum("Content" in x or "example.net" in x for x in self.page.complaints) >= 2)
        self.page.complaints.clear()
        self.page.requests.clear()

    def test_overview(self):
        self.visit()
        for label in ("Queues", "Nodes", "Jobs"):
            self.page.until_text(f"[aria-label={label}]", seen(EVIL)[:40])
        self.page.until_text("[aria-label=Queues]", seen(EVIL))
        self.page.until_text("[aria-label=Queues]", JAVASCRIPT)
        self.page.click("[aria-label=Queues] tr:last-child a")
        self.drawn()
        self.assertNotEqual(self.page.js("document.querySelectorAll('main tbody tr').length"), 0)

    def test_machines_and_graph(self):
        self.visit("#/machines")
        self.page.until_text("[aria-label=Machines]", seen(EVIL) + " v1")
        self.page.click("[aria-label=Machines] tbody a")
        self.drawn()
        self.page.until_text("h1", seen(EVIL))
        self.assertIn("\\u202e", self.page.js("document.title"))
        self.assertEqual(self.page.js("document.querySelector('svg [data-step]').dataset.step"), EVIL)
        self.page.click("svg [data-step]")
        self.drawn()
        self.assertEqual(self.page.js("document.querySelector('#filters [name=step]').value"), EVIL)

    def test_instances(self):
        self.visit("#/instances")
        self.assertEqual(self.page.js("document.querySelectorAll('main tbody tr').length"), 4)
        self.page.fill("#filters [name=failure]", "onerror=hit('i')")
        self.page.key("Enter")
        self.page.until("location.hash.includes('failure')")
        self.drawn()
        self.assertEqual(self.page.js("document.querySelectorAll('main tbody tr').length"), 1)
        self.page.until_text("main tbody", seen(EVIL)[:100])

    def test_instance(self):
        self.visit("#/instance/1")
        self.page.until_text("#why", "<script>")
        self.page.until_text("[data-fact='last error']", seen(EVIL))
        self.page.until_text("[data-fact='unique key']", EVIL_NAME)
        text = self.page.text("pre[data-key=state]")
        self.assertIn("9007199254740993", text)
        self.assertEqual(text.count("onerror="), 601)
        self.page.click("[data-open='state 149'] summary")
        self.page.until_text("[data-open='state 149'] pre", "9007199254740993")
        self.page.click("[data-open='metadata 149'] summary")
        self.page.until_text("[data-open='metadata 149'] pre", "onerror")
        # Pages of what has such states are shorter; all of it is found.
        entries = "document.querySelectorAll('.line > li').length"
        while (before := self.page.js(entries)) < 150:
            self.page.click("[data-do=more]")
            self.page.until(f"{entries} > {before}")
        self.page.until("!document.querySelector('[data-do=more]')")

    def test_a_deep_state(self):
        self.visit("#/instance/4")
        self.assertEqual(self.page.js("document.querySelector('pre').textContent.replace(/\\s/g, '').length"), 1009)

    def test_inbox(self):
        self.visit("#/instance/2")
        self.page.until_text("[aria-label=Inbox]", "…")
        self.page.until_text("[aria-label=Inbox]", seen(EVIL)[:60])
        self.page.until_text("[data-fact=awaits]", seen(EVIL)[:60])

    def test_verbs(self):
        """What is typed in is text, too, also when it comes back."""
        self.visit("#/instance/3")
        self.give_token()
        self.press("[data-do=stop]", reason=EVIL, by=EVIL_NAME)
        self.page.until_text("[data-fact='last error']", "onerror=hit")
        self.visit("#/")
        self.page.click("[data-do=resume]")
        self.page.until("document.querySelector('#dialog').open")
        self.assertEqual(self.page.js("document.querySelectorAll('#dialog :is(script, img, svg)').length"), 0)
        self.page.click("#dialog [value=go]")
        self.page.until("!document.querySelector('#dialog').open")

    def test_routes(self):
        self.page.tolerated += ["status of 404", "status of 400"]
        for route in ("#/constructor", "#/__proto__", "#/%", "#/<img src=x onerror=hit(1)>", "#/machine/%3Cscript%3E/x",
                      "#/instance/<script>", "#javascript:hit(1)", "#//example.net/",
                      "#/instance?key=%3Cimg%20src=x%3E",
                      "#/instances?status=%22%3E%3Cscript%3E&before=%3Cb%3E", "#/instance/../../x"):
            self.page.go(self.origin + route)
            self.page.until("document.querySelector('#status.away') || document.querySelector('main .note')"
                            " || document.querySelector('#main').dataset.drawn")
        # Behind the page's own listener, which is older: what a key means goes by where the page is.
        self.page.js("new Promise(there => { addEventListener('hashchange', () => there(), {once: true});"
                     " location.hash = '#/constructor'; })")
        self.page.key("Escape")  # from there nothing is up
        self.assertEqual(self.page.js("location.hash"), "#/constructor")


class Large(Case):
    """100,000 instances and more: pages by id, counts that are estimates and say so."""

    SEQS = "[...document.querySelectorAll('.line > li')].map(x => Number(x.dataset.key.split(' ')[1]))"

    @classmethod
    def prepare(cls):
        cls.database.sql("""
          insert into gen_durable (fsm, fsm_version, step, status, queue, last_error, updated_at, eligible_at)
            select 'Import', 1, 'load',
              case when n % 4 = 0 then 'failed' when n % 4 = 1 then 'done' else 'runnable' end::gen_durable_status,
              'import', case when n % 4 = 0 then 'disk full: ' || repeat('x', 300) end, now(), now()
            from generate_series(1, 100000) n;
          insert into gen_durable (id, fsm, step, status, queue) overriding system value
            values (9007199254740993, 'Import', 'load', 'done', 'import'),
              (9007199254740992, 'Import', 'load', 'done', 'import');
          vacuum analyze gen_durable""")

    def test_pages(self):
        self.visit("#/instances?status=failed")
        got = []
        for _ in range(4):
            page = self.ids()
            self.assertEqual(len(page), 100)
            got += page
            self.page.click("#older")
            self.drawn()
        self.assertEqual(got, [str(100_000 - 4 * i) for i in range(400)])
        self.page.js("history.back()")
        self.page.until(f"document.querySelector('main tbody tr')?.dataset.key === '{got[300]}'")
        self.visit("#/instances?status=failed&before=200")
        self.assertEqual(len(self.ids()), 49)
        self.page.until_text("main", "There is no more.")

    def test_a_filter_that_fits_few(self):
        """Pages with nothing in them are passed over, up to a bound."""
        self.visit("#/instances?step=load&machine=Import&queue=import&status=done&older=1h")
        self.page.until_text("main", "None")

    def test_large_ids(self):
        self.visit("#/instances?status=done")
        self.assertEqual(self.ids()[:2], ["9007199254740993", "9007199254740992"])
        self.page.click("main tbody a")
        self.page.until_text("h1", "Instance 9007199254740993")

    def test_estimates_are_marked(self):
        self.visit()
        for status in ("runnable", "failed", "done"):
            self.assertTrue(self.page.text(f"[data-count={status}]").startswith("~"), status)
        self.assertEqual(self.page.text("[data-count=executing]"), "0")
        self.page.until_text("[aria-label=Queues]", "300+")
        self.visit("#/machines")
        self.page.until_text("[aria-label=Machines]", "~")

    def test_wide_tables(self):
        """The table scrolls by itself, not the page."""
        for width in (360, 700, 1280):
            self.page.size(width, 800)
            self.visit("#/instances?status=failed")
            self.assertLessEqual(self.page.js("document.scrollingElement.scrollWidth"), width)

    def test_not_all_jobs_are_shown(self):
        self.visit()
        self.assertNotIn("The newest 100", self.page.text("main"))
        self.database.sql("""
          insert into gen_durable_jobs (what, dry_run, made_by, highest_id, ended_at)
            select 'stop', true, 'ann', 0, now() from generate_series(1, 101)""")
        self.page.until_text("main", "The newest 100, and what has not ended.")

    def test_each_that_nobody_serves_has_a_line(self):
        self.database.sql("""
          insert into gen_durable (fsm, step, queue, state, eligible_at)
            values ('b c', 's', 'a', '{}', now()), ('c', 's', 'a b', '{}', now())""")
        self.addCleanup(self.database.sql, "delete from gen_durable where fsm in ('b c', 'c')")
        both = "[...document.querySelectorAll('main .note')].map(x => x.innerText)" \
               ".filter(x => /^(b c v1 in queue a|c v1 in queue a b) is served by nobody/.test(x)).length"
        self.visit()
        self.page.until(f"({both}) === 2")
        self.again()
        self.assertEqual(self.page.js(both), 2)

    def history(self, one, first, last):
        """Entries of one that is deleted."""
        self.database.sql(f"""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt)
            select {one}, n, now(), 1, 'next', 'load', 'load', 0 from generate_series({first}, {last}) n""")

    def test_a_history_has_no_holes(self):
        self.history(777777778, 0, 349)
        self.visit("#/instance/777777778")
        self.page.click("[data-do=more]")
        self.page.until(f"{self.SEQS}.length === 200")
        self.history(777777778, 350, 499)
        self.page.until(f"{self.SEQS}[0] === 499")
        seqs = self.page.js(self.SEQS)
        self.assertEqual(seqs, list(range(499, seqs[-1] - 1, -1)))
        while (before := self.page.js(self.SEQS)[-1]) > 0:
            self.page.click("[data-do=more]")
            self.page.until(f"{self.SEQS}.at(-1) < {before}")
        self.assertEqual(self.page.js(self.SEQS), list(range(499, -1, -1)))

    def test_a_history_that_is_not_told_is_told_where_it_was_asked_for(self):
        self.history(777777779, 0, 149)
        self.visit("#/instance/777777779")
        self.instead("api/history", LOST)
        self.page.click("[data-do=more]")
        self.page.until_text("[data-key=more]", "the server does not answer")
        self.again()  # and stays there
        self.page.until_text("[data-key=more]", "the server does not answer")
        self.assertEqual(self.page.text("#status"), "")  # nothing tries it again
        self.page.click("[data-do=more]")
        self.page.until(f"{self.SEQS}.length === 150")
        self.assertNotIn("answer", self.page.text("main"))

    def test_all_of_a_page(self):
        self.visit("#/instances?status=failed")
        self.page.click("[data-pick=all]")
        self.page.until_text("[data-do=bulk-chosen]", "(100)")

    def test_bulk_over_all(self):
        self.visit("#/instances?status=failed&machine=Import&failure=disk")
        self.give_token()
        self.page.click("[data-do=bulk-all]")
        self.page.click("#dialog [value=dry]")
        self.page.until_text("#dialog .said", "25,000 fit")

    def test_a_database_that_goes_and_comes_back(self):
        self.page.tolerated.append("status of 50")
        self.visit("#/instances?status=failed")
        before = self.ids()
        self.database.refuse()
        self.page.until("document.querySelector('#status.away')")
        self.assertEqual(self.ids(), before)
        self.visit_away("#/")
        self.visit_away("#/machines")
        self.database.accept()
        self.page.until("!document.querySelector('#status.away')")
        self.page.until_text("[aria-label=Machines]", "Import")
        self.visit("#/instances?status=failed")
        self.assertEqual(self.ids(), before)

    def visit_away(self, route):
        self.page.go(self.origin + route)
        self.page.until(f"document.querySelector('#main').dataset.view === '{route}'"
                        " && document.querySelector('#status.away')")

    def test_a_deleted_instance(self):
        self.database.sql("""
          insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt)
            values (777777777, 0, now(), 1, 'insert', 'load', 0)""")
        self.visit("#/instance/777777777")
        self.page.until_text("main", "It is deleted; its history is still there.")
        self.assertEqual(self.page.js("document.querySelectorAll('.line > li').length"), 1)


if __name__ == "__main__":
    GDCTL, MESS = (os.path.realpath(x) for x in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
