#!/usr/bin/env python3
"""`gdctl serve` behind proxies with TLS, configured as docs/run/page.md says.

    tools/private-postgres run -- tests/page/proxy_test.py GDCTL [unittest's arguments]
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import unittest

import raw
import support
from case import Case

HOST = "ops.example.org"


class Proxied:
    """Through a proxy; who inherits says which."""

    kind = None
    command = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.socket = os.path.join(cls.folder, "page.sock")
        cls.server.close()
        cls.server = support.Process([cls.gdctl, "serve", "--listen", f"unix:{cls.socket}", "--behind-proxy", HOST, "--allow-writes",
                                      "--token-file", os.path.join(cls.folder, "token")], cls.database.url, cls.folder)
        cls.addClassCleanup(cls.server.close)
        with open(os.path.join(cls.folder, "token"), encoding="ascii") as file:
            cls.token = file.read().strip()
        cls.certificates()
        cls.proxy_port = support.free_port()
        cls.configure()
        cls.proxy = support.Process([*cls.command, cls.config], cls.database.url, cls.folder)
        cls.addClassCleanup(cls.proxy.close)
        cls.tls = ssl.create_default_context(cafile=os.path.join(cls.folder, "operators.pem"))
        cls.tls.check_hostname = False  # what is checked here is not the client
        cls.tls.load_cert_chain(os.path.join(cls.folder, "ann.pem"))
        support.until(cls.answers, "an answer of the proxy")

    @classmethod
    def certificates(cls):
        """An authority, and two who have a certificate of it."""
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], cwd=cls.folder, check=True, capture_output=True)
        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        openssl(*new, "-subj", "/CN=operators", "-keyout", "ca.key", "-out", "operators.pem", "-addext", "basicConstraints=critical,CA:TRUE")
        openssl(*new, "-subj", "/CN=stranger", "-keyout", "stranger.pem", "-out", "stranger.crt")
        for name in ("server", "ann"):
            openssl(*new, "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:FALSE", "-CA", "operators.pem",
                    "-CAkey", "ca.key", "-keyout", f"{name}.pem", "-out", f"{name}.crt")
        for name in ("server", "ann", "stranger"):
            with open(os.path.join(cls.folder, f"{name}.pem"), "a", encoding="ascii") as pem, \
                 open(os.path.join(cls.folder, f"{name}.crt"), encoding="ascii") as crt:
                pem.write(crt.read())
            os.chmod(os.path.join(cls.folder, f"{name}.pem"), 0o600)

    @classmethod
    def configure(cls):
        """The documentation's, with this test's places."""
        with open(os.path.join(SOURCE, "docs/run/page.md"), encoding="utf-8") as file:
            text = re.search(rf"```{cls.kind}\n(.*?)```", file.read(), re.S)[1]
        for here, there in {":443": f"127.0.0.1:{cls.proxy_port}", "/etc/page": cls.folder, "/run/gdctl/page.sock": cls.socket}.items():
            assert here in text
            text = text.replace(here, there)
        cls.config = os.path.join(cls.folder, f"{cls.kind}.cfg")
        with open(cls.config, "w", encoding="ascii") as file:
            file.write(text)

    @classmethod
    def answers(cls):
        if not cls.proxy.runs():
            raise support.Failed(cls.proxy.said())
        try:
            return cls.through("GET", "/healthz").status == 200
        except (OSError, IndexError):
            return False

    @classmethod
    def through(cls, method, target, body=b"", host=HOST, **headers):
        lines = [("Host", host), *((name.replace("_", "-"), value) for name, value in headers.items())]
        return raw.ask(cls.proxy_port, method, target, lines, body, cls.tls)

    def verb(self, **changed):
        headers = {"Origin": f"https://{HOST}", "Authorization": f"Bearer {self.token}", "Content_Type": "application/json", **changed}
        return self.through("POST", "/api/verb", json.dumps({"verb": "retry", "id": "5"}).encode(), **headers)

    def test_looks_and_verbs(self):
        self.assertIn(b"<!doctype html>", self.through("GET", "/").body)
        self.assertEqual(self.through("GET", "/api/instance?id=5", Sec_Fetch_Site="same-origin").json()["instance"]["id"], "5")
        self.assertEqual(self.verb(Authorization="Bearer x").status, 401)
        self.assertEqual(self.verb(Origin=f"http://{HOST}").status, 403)
        self.assertEqual(self.verb(Origin="https://evil.example").status, 403)
        self.assertEqual(self.verb(host="evil.example").status, 403)
        # What the server is on its machine, it is not through the proxy.
        self.assertEqual(self.verb(Origin="http://localhost").status, 403)
        self.assertEqual(self.verb(host="localhost", Origin="http://localhost").status, 403)
        self.assertEqual(self.verb(host="localhost").status, 403)
        self.assertEqual(raw.ask(self.socket, "GET", "/api/about", [("Host", "localhost")]).status, 200)
        self.assertEqual(self.through("GET", "/api/overview", host="evil.example").status, 403)
        self.assertEqual(self.database.value("select status from gen_durable where id = 5"), "failed")
        self.assertEqual(self.verb().status, 200)
        self.assertEqual(self.database.value("select status from gen_durable where id = 5"), "runnable")

    def test_who_has_no_certificate_does_not_get_through(self):
        nobody = ssl.create_default_context(cafile=os.path.join(self.folder, "operators.pem"))
        stranger = ssl.create_default_context(cafile=os.path.join(self.folder, "operators.pem"))
        stranger.load_cert_chain(os.path.join(self.folder, "stranger.pem"))
        for who in (nobody, stranger):
            who.check_hostname = False
            try:
                told = raw.exchange(self.proxy_port, raw.request("GET", "/", [("Host", HOST)]), who)
            except (ssl.SSLError, ConnectionError):
                told = b""
            self.assertEqual(told, b"")


class HAProxy(Proxied, Case):
    kind = "haproxy"
    command = [shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin") or "haproxy", "-db", "-f"]


class Stunnel(Proxied, Case):
    kind = "stunnel"
    command = ["stunnel"]


if __name__ == "__main__":
    SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    Case.gdctl = os.path.realpath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
