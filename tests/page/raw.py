"""HTTP by hand, for what no client would send."""

import json
import socket
import ssl


class Answer:
    """Of a request: its status, its headers (names in lower case), its body."""

    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            self.headers.setdefault(name.lower(), value)

    def json(self):
        return json.loads(self.body)


def connect(where, seconds=180):
    """A port of this machine, or a path. The time is a guard against hangs."""
    if isinstance(where, str):
        there = socket.socket(socket.AF_UNIX)
        there.settimeout(seconds)
        there.connect(where)
        return there
    return socket.create_connection(("127.0.0.1", where), seconds)


def read_all(there):
    """Until it is closed, by whom it may be cut off."""
    data = b""
    try:
        while part := there.recv(65536):
            data += part
    except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
        pass
    return data


def read_one(there):
    """An answer to a connection that goes on: all of it that its head tells."""
    data = b""
    while b"\r\n\r\n" not in data or len(Answer(data).body) < int(Answer(data).headers["content-length"]):
        part = there.recv(65536)
        if not part:
            break
        data += part
    return data


def exchange(where, data, tls=None):
    """Sends these bytes, and returns all that comes until the connection is closed."""
    with connect(where) as plain:
        with tls.wrap_socket(plain, server_hostname="localhost") if tls else plain as there:
            try:
                there.sendall(data)
            except (ConnectionResetError, BrokenPipeError):
                pass
            return read_all(there)


def request(method, target, headers, body=b""):
    """The bytes of a request, which is the last of its connection."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "Connection: close"]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def ask(where, method, target, headers, body=b"", tls=None):
    return Answer(exchange(where, request(method, target, headers, body), tls))
