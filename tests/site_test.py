#!/usr/bin/env python3
"""The documentation's site, made by tools/site and read in a real Chromium.

    tests/site_test.py BUILD [unittest's arguments]
"""

import functools
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "page"))

import chromium  # noqa: E402
from tab import Tab  # noqa: E402

BUILD = None


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(Tab, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="gd-site-")
        cls.addClassCleanup(scratch.cleanup)
        cls.site = pathlib.Path(scratch.name) / "site"
        subprocess.run([HERE.parent / "tools/site", "--build", BUILD, cls.site], check=True)
        serve = functools.partial(Quiet, directory=cls.site)
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
        cls.addClassCleanup(cls.server.server_close)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.shutdown)
        cls.browser = chromium.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.page = self.browser.page()
        self.addCleanup(self.page.close)
        self.origin = f"http://127.0.0.1:{self.server.server_port}/"

    def tearDown(self):
        self.hears_nothing_wrong()

    def link(self, kind):
        """Goes to the first page of a kind, as the navigation has it."""
        self.page.go(self.origin + "index.html")
        self.page.go(self.page.js(
            "[...document.querySelectorAll('.md-nav--primary > .md-nav__list > .md-nav__item')]"
            f".find(x => x.innerText.trim().startsWith('{kind}')"
            f" || x.textContent.trim().startsWith('{kind}')).querySelector('a[href]').href"))

    def test_start(self):
        self.page.go(self.origin + "index.html")
        self.page.until_text("article h1", "gen_durable")

    def test_guide(self):
        self.link("Guide")
        self.page.until("document.querySelectorAll('article h2').length > 1")
        self.page.until("document.querySelector('article pre code span')")  # colours

    def test_search(self):
        self.page.go(self.origin + "index.html")
        self.page.fill("[data-md-component=search-query]", "idempotent")
        self.page.until("document.querySelector('.md-search-result__item a[href]')")
        self.page.go(self.page.js("document.querySelector('.md-search-result__item a[href]').href"))
        self.page.until_text("article", "idempotent")

    def test_reference(self):
        self.link("Reference")
        self.page.until("location.pathname.startsWith('/reference/')")
        self.page.until_text("body", "gd::define")

    def test_diagrams(self):
        drawn = 0
        for file in sorted(self.site.glob("docs/**/*.html")):
            if '<div class="diagram">' not in file.read_text():
                continue
            self.page.go(self.origin + file.relative_to(self.site).as_posix())
            self.page.until("[...document.querySelectorAll('.diagram')].every(x => x.querySelector('svg'))")
            self.assertFalse(self.page.js("document.body.innerText.includes('Syntax error')"), file)
            drawn += 1
        self.assertGreater(drawn, 0)

    def test_dead_links_are_found(self):
        """With the site's own rule: a copy of a page that links what is not there."""
        code = compile((HERE.parent / "tools/site").read_text().split("\ntry:\n    main()")[0], "site", "exec")
        names = {"__file__": str(HERE.parent / "tools/site")}
        exec(code, names)
        with tempfile.TemporaryDirectory() as scratch:
            page = pathlib.Path(scratch) / "a.html"
            page.write_text("<a href='b.html'>b</a><a href='#no'>c</a><a href='#yes'>d</a><p id='yes'>")
            self.assertEqual(names["dead_links"](pathlib.Path(scratch)),
                             ["a.html: #no has no such anchor", "a.html: b.html is not there"])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
