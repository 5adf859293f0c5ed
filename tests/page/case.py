"""What tests of the server over HTTP have in common."""

import json
import shutil
import tempfile
import unittest

import raw
import support

# Five in each status; the second has a key, and is to begin later.
ROWS = """
  insert into gen_durable_machines (fsm, version, initial_step, steps, queue)
    values ('Order', 1, 'begin', '{begin,pay}', 'default');
  insert into gen_durable (fsm, step, queue, state, status, last_error, result, unique_key, unique_scope, awaits,
      eligible_at)
    select 'Order', 'pay', 'mail', '{"order": 12345678901234567890}', s.status, case when s.status = 'failed' then 'no stock' end,
      case when s.status = 'done' then jsonb '{"paid": true}' end, case when n = 2 then convert_to('order 2', 'UTF8') end, '{runnable}',
      case when s.status = 'awaiting_signal' then 'paid' end, now() + case when n = 2 then interval '1 day' else '0' end
    from generate_series(1, 20) n
    cross join lateral (select cast((array['failed', 'runnable', 'awaiting_signal', 'done'])[(n - 1) % 4 + 1] as gen_durable_status) as status) s
    order by n
"""


class Case(unittest.TestCase):
    """A database and a server for all tests of a class."""

    gdctl = None
    writes = True
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gd-page-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.database = support.Database(cls.gdctl)
        cls.addClassCleanup(cls.database.close)
        cls.database.sql(ROWS)
        cls.server = support.Server(cls.gdctl, cls.database.url, cls.folder, *cls.options, writes=cls.writes)
        cls.addClassCleanup(cls.server.close)
        cls.port = cls.server.port
        cls.host = f"127.0.0.1:{cls.port}"

    def headers(self, **changed):
        """Of a script of the page's own; None: without that one."""
        all_of_them = {"Host": self.host, **{name.replace("_", "-"): value for name, value in changed.items()}}
        return [(name, value) for name, value in all_of_them.items() if value is not None]

    def get(self, target, **changed):
        return raw.ask(self.port, "GET", target, self.headers(**changed))

    def look(self, target, status=200):
        """An answer's JSON."""
        found = self.get(target)
        self.assertEqual(found.status, status, found.body)
        self.assertEqual(found.headers["content-type"], "application/json; charset=utf-8")
        return found.json()

    def post(self, body, **changed):
        """What the page sends; bytes as they are."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"Origin": f"http://{self.host}", "Authorization": f"Bearer {self.server.token}",
                   "Content_Type": "application/json", "Sec_Fetch_Site": "same-origin", **changed}
        return raw.ask(self.port, "POST", "/api/verb", self.headers(**headers), body)

    def do(self, body, status=200):
        done = self.post(body)
        self.assertEqual(done.status, status, done.body)
        return done.json()

    def all_rows(self):
        """What must not change."""
        return self.database.sql("select id, status, queue, priority, seq, attempt from gen_durable order by id")
