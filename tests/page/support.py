"""What the page's tests have in common: a database of their own, workers, the server."""

import contextlib
import http.client
import os
import re
import socket
import subprocess
import tempfile
import time
import uuid

SECONDS = 180  # of whatever is waited for: a guard against hangs, no measure of the machine


class Failed(AssertionError):
    """What was expected has not happened."""


def until(true, what, seconds=SECONDS):
    """Asks again and again until it is so, and returns what it is."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.02)
    return found


class Database:
    """A database in the server that GD_DATABASE names, with the schema."""

    def __init__(self, gdctl):
        self._server = os.environ["GD_DATABASE"]
        self.name = f"page_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self._psql(self._server, f"create database {self.name}")
        self.url = self._server.replace("dbname=postgres", f"dbname={self.name}")
        self._gdctl = gdctl
        self.gdctl("migrate", "up")

    @staticmethod
    def _psql(url, text):
        psql = os.path.join(os.environ["GD_TEST_POSTGRES_BIN"], "psql")
        done = subprocess.run(
            [psql, "-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", "-"],
            input=text.encode(), capture_output=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Failed(f"{text[:500]}: {done.stderr.decode()[:2000]}")
        return [tuple(line.split("\t")) for line in done.stdout.decode().splitlines()]

    def sql(self, text):
        """The rows of a statement, as texts."""
        return self._psql(self.url, text)

    def value(self, text):
        return self.sql(text)[0][0]

    def until(self, condition, seconds=SECONDS):
        """Waits for a condition in SQL."""
        until(lambda: self.value(f"select {condition}") == "t", condition, seconds)

    @contextlib.contextmanager
    def holding(self, text):
        """A transaction that has done this, and is open for as long."""
        psql = os.path.join(os.environ["GD_TEST_POSTGRES_BIN"], "psql")
        with subprocess.Popen([psql, "-qXAt", "-d", self.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            try:
                other.stdin.write(f"begin; {text}; select 'held';\n")
                other.stdin.flush()
                while (line := other.stdout.readline().strip()) != "held":
                    assert line or other.poll() is None, "psql has ended"
                yield
            finally:
                other.kill()

    def grant(self, script, role, **variables):
        """A script of sql/grants."""
        here = os.path.dirname(os.path.realpath(__file__))
        psql = os.path.join(os.environ["GD_TEST_POSTGRES_BIN"], "psql")
        given = {"schema": "public", "role": role, "ON_ERROR_STOP": "1", **variables}
        subprocess.run([psql, "-qX", "-d", self.url, *(x for name, value in given.items() for x in ("-v", f"{name}={value}")),
                        "-f", os.path.join(here, "../../sql/grants", script)], check=True)

    def url_of(self, role):
        """For a role of the server's, which may log in."""
        return re.sub(r"user=\S+", f"user={role}", self.url)

    def gdctl(self, *arguments):
        done = subprocess.run([self._gdctl, *arguments], env={**os.environ, "GD_DATABASE": self.url},
                              capture_output=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise Failed(f"gdctl {arguments}: {done.stderr.decode()}")
        return done.stdout.decode()

    def refuse(self):
        """As if the server were away: nobody gets in, and who was in is thrown out."""
        self._psql(self._server, f"alter database {self.name} allow_connections false")
        self._psql(self._server, "select pg_terminate_backend(pid) from pg_stat_activity "
                                 f"where datname = '{self.name}'")

    def accept(self):
        self._psql(self._server, f"alter database {self.name} allow_connections true")

    def close(self):
        self._psql(self._server, f"drop database {self.name} with (force)")


class Process:
    """A program that runs until it is ended. What it says goes to a file."""

    def __init__(self, command, database, cwd):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command, env={**os.environ, "GD_DATABASE": database}, cwd=cwd,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self.pid = self._process.pid

    def runs(self):
        return self._process.poll() is None

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        """Politely; it has to end."""
        self._process.terminate()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self._process.args} does not end\n{self.said()}") from None
        finally:
            self._log.close()

    def said(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-4000:]


def free_port():
    with socket.socket() as x:
        x.bind(("127.0.0.1", 0))
        return x.getsockname()[1]


class Server(Process):
    """`gdctl serve`, which answers."""

    def __init__(self, gdctl, database, cwd, *options, port=0, writes=True):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.token = None
        command = [gdctl, "serve", "--listen", f"127.0.0.1:{self.port}", *options]
        if writes:
            command += ["--allow-writes", "--token-file", os.path.join(cwd, "token")]
        super().__init__(command, database, cwd)
        until(self._answers, "an answer of gdctl serve")
        if writes:
            with open(os.path.join(cwd, "token"), encoding="ascii") as file:
                self.token = file.read().strip()

    def _answers(self):
        if not self.runs():
            raise Failed(f"gdctl serve has ended\n{self.said()}")
        there = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            there.request("GET", "/healthz")
            return there.getresponse().status == 200
        except OSError:
            return False
        finally:
            there.close()
