#!/usr/bin/env python3
"""The mess of tests/mess.sh, which has made it and runs this, taken apart with the page alone.

    tools/private-postgres run -- tests/mess.sh GDCTL MESS tests/page/mess_test.py
"""

import os
import sys
import unittest

import chromium
import support
from tab import Tab

GDCTL = MESS = None

CAUSES = {1002: "failed", 1001: "version_unknown", 1003: "queue_paused", 1004: "queue_unserved", 1006: "behind",
          1005: "executes", 1007: "waits", 1008: "delayed", 1009: "failed", 1010: "left_behind", 1011: "row_locked"}


class Mess(Tab, unittest.TestCase):

    def setUp(self):
        self.server = support.Server(GDCTL, os.environ["GD_DATABASE"], os.getcwd())
        self.addCleanup(self.server.close)
        self.origin = self.server.url
        browser = chromium.Browser()
        self.addCleanup(browser.close)
        self.page = browser.page()

    def find(self, order):
        """As who has only the order's number."""
        self.page.key("/")
        self.page.call("Input.insertText", text=f"order {order}")
        self.page.key("Enter")
        self.page.until_text("[data-fact='unique key']", f"order {order}")

    def bulk(self, verb, fit, **fields):
        """With all that fit the filter that is shown."""
        self.page.choose("#bulk", verb)
        self.page.click("[data-do=bulk-all]")
        self.fill_dialog(**fields)
        self.dry_run(f"{fit} fit")
        self.page.click("#dialog [value=go]")
        self.page.until_text("#dialog .said", f"{fit} changed")
        self.page.key("Escape")

    def test_a_mess_taken_apart(self):
        self.visit()
        self.give_token()
        self.page.until_text("[aria-label=Queues] tr[data-key=mail]", "by ann: the printer is broken")
        self.page.until_text("main .note", "Order v1 in queue default is served by nobody")
        self.page.until_text("main .note", "Order v2 in queue expres is served by nobody")
        for order, cause in CAUSES.items():
            self.find(order)
            self.page.until(f"document.querySelector('#why').dataset.cause === '{cause}'")

        self.visit()
        self.page.click(".tiles [data-count=failed]")
        self.drawn()
        self.page.fill("#filters [name=machine]", "Order")
        self.page.fill("#filters [name=failure]", "payment: connection refused")
        self.page.key("Enter")
        self.page.until("location.hash.includes('payment')")
        self.drawn()
        self.assertEqual(len(self.ids()), 21)
        self.bulk("retry", 21, reason="the relay is back")

        self.find(1003)
        self.press("[data-do=resume]")
        self.find(1004)
        self.page.click("[data-fact=queue] a")  # all of that queue
        self.drawn()
        self.bulk("move", 1, queue="default")
        self.find(1007)
        self.press("[data-do=signal]")  # the one that it waits for
        self.find(1008)
        self.press("[data-do=run-now]")
        self.find(1010)
        self.press("[data-do=stop]", reason="its node has no power")
        self.find(1006)
        self.page.click("[data-key=other] a")  # the one that it is behind
        self.page.until_text("[data-fact='unique key']", "order 1005")
        self.drawn()
        self.press("[data-do=stop]", reason="the warehouse does not answer")
        os.remove("stuck")  # the warehouse answers again
        for order in (1010, 1005):
            self.find(order)
            self.press("[data-do=retry]")
        os.remove("bug")  # it is mended, and deployed
        self.find(1009)
        self.press("[data-do=retry]")
        with open("to_bob", "w", encoding="ascii") as bob:  # he goes on with his work
            bob.write("commit;\n")
        old = support.Process([MESS, "old", "1", "60", "default"], os.environ["GD_DATABASE"], os.getcwd())
        self.addCleanup(old.close)

        self.visit()
        self.page.until("document.querySelector('[data-count=done]').innerText === '31'")
        self.page.until("document.querySelector('[data-count=failed]').innerText === '0'")
        self.hears_nothing_wrong()


if __name__ == "__main__":
    GDCTL, MESS = (os.path.realpath(x) for x in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1], verbosity=2)
