"""What each application must do.

Every application answers the same paths:

    /           `Hello from NAME, version N`. N is what the file VERSION had when the process started
    /stream     a first line, then, as soon as the file `go` exists, a last line
    /upload     the SHA-256 of the request's body
    /log        logs the query by the framework's logger
    /error      raises an error with the query in its message
"""

import base64
import functools
import hashlib
import os
import secrets
import signal
import socket
import struct
import subprocess

from server import PATIENCE, Load

UPLOAD = 20_000_000
PROBES = []


def probe(column, about, environment="development"):
    def register(function):
        @functools.wraps(function)
        def call(server, application):
            return function(server, application)

        call.column, call.about, call.environment = column, about, environment
        PROBES.append(call)
        return call
    return register


def legend():
    return "\n".join(["- *boots*: two processes, in development and in production (Socket.IO: one, because its long polling needs that; Next: what "
                      "`next build` has made)."]
                     + [f"- *{one.column}*: {one.about}" for one in PROBES]) + "\n"


def whole(server, application):
    """Wait until the pool is full. Return the pids of its processes."""
    return server.until("all processes", lambda: (pids := server.pids()) and len(pids) == application.processes and pids)


@probe("answers", "its pages, and those that the framework brings along, such as the admin site of Django with its style sheets.")
def answers(server, application):
    text = server.get("/")
    assert text == f"Hello from {application.title}, version 1", text
    for path, expected in application.pages.items():
        assert expected in server.get(path), f"{path} has no {expected!r}"


@probe("streams", "the first part of an answer arrives before the application has made the last one.")
def streams(server, application):
    go = os.path.join(server.directory, "go")
    connection = server.connect()
    try:
        connection.request("GET", "/stream")
        answer = connection.getresponse()
        assert answer.readline() == b"first\n"
        open(go, "w").close()
        assert answer.read() == b"last\n"
    finally:
        connection.close()
        if os.path.exists(go):
            os.unlink(go)


@probe("uploads 20 MB", "a body of 20 MB reaches the application whole, with a Content-Length and in chunks.")
def uploads(server, application):
    data = os.urandom(UPLOAD)
    digest = hashlib.sha256(data).hexdigest()
    headers = {"Content-Type": "application/octet-stream"}
    for body in (data, (data[at:at + 100_000] for at in range(0, UPLOAD, 100_000))):
        status, _, text = server.ask("POST", "/upload", body, headers)
        assert (status, text.decode()) == (200, digest), (status, text[:300])


@probe("logs", "a line of the framework's logger is in the server's log.")
def logs(server, application):
    word = secrets.token_hex(8)
    server.get(f"/log?{word}")
    server.until("the line in the log", lambda: f"logged {word}" in server.text())


@probe("error page", "an exception gives the framework's own page with the status 500 in development, its message is in the log, "
                     "and the process goes on.")
def error_page(server, application):
    word = secrets.token_hex(8)
    pids = server.pids()
    status, _, body = server.ask("GET", f"/error?{word}", headers={"Accept": "text/html"})
    assert status == 500 and application.error_page in body.decode(), (status, body[:500])
    server.until("the error in the log", lambda: f"broken on purpose {word}" in server.text())
    assert server.pids() == pids


@probe("WebSocket", "a message comes back over a WebSocket.")
def websocket(server, application):
    if application.websocket is None:
        return NotImplemented
    return application.websocket(server)


@probe("restart", "`cabrank restart` replaces all processes, and no request fails meanwhile.")
def restart(server, application):
    old = server.pids()
    with Load(server, clients=2) as load:
        server.cabrank("restart")
        server.until("new processes", lambda: not old & server.pids())
        count = len(load.texts)
        server.until("more answers", lambda: len(load.texts) > count + 8)
    assert not load.errors, load.errors[:3]


@probe("crash", "a process is killed (SIGKILL) under load: no request fails, and another process takes its place.")
def crash(server, application):
    victim = min(whole(server, application))
    with Load(server, clients=2) as load:
        os.kill(victim, signal.SIGKILL)
        server.until("another process", lambda: victim not in whole(server, application))
    assert not load.errors, load.errors[:3]


@probe("rolling deployment", "in production, under load: new files and `cabrank restart`. No request fails, and the processes are "
                             "replaced one by one.", "production")
def rolling_deployment(server, application):
    version = os.path.join(server.directory, "VERSION")
    old = whole(server, application)
    try:
        with Load(server) as load:
            with open(version, "w") as file:
                file.write("2\n")
            server.cabrank("restart")
            server.until("new processes", lambda: not old & whole(server, application))
            count = len(load.texts)
            server.until("more answers", lambda: len(load.texts) > count + 50)
        assert not load.errors, load.errors[:3]
        new = f"Hello from {application.title}, version 2"
        assert {new, new.replace("2", "1")} >= set(load.texts), set(load.texts)
        assert set(load.texts[count + 8:]) == {new}
    finally:
        with open(version, "w") as file:
            file.write("1\n")


def client(script):
    """Return a probe that runs a program of the application with the server's port, and expects `ok`."""
    def ask(server):
        done = subprocess.run(["node", script, str(server.port)], cwd=server.directory, capture_output=True, text=True, timeout=PATIENCE)
        assert done.stdout.strip() == "ok", done.stdout + done.stderr
    return ask


def echo(path):
    """Return a probe for an application that sends each message of a WebSocket back."""
    def ask(server):
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
            key = base64.b64encode(os.urandom(16)).decode()
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                               f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
            stream = connection.makefile("rb")
            status = stream.readline()
            assert b" 101 " in status, status
            while stream.readline() != b"\r\n":
                pass
            for text in (b"hello", b"x" * 100):
                mask = os.urandom(4)
                connection.sendall(struct.pack("!BB", 0x81, 0x80 | len(text)) + mask
                                   + bytes(byte ^ mask[at % 4] for at, byte in enumerate(text)))
                assert stream.read(2) == struct.pack("!BB", 0x81, len(text)) and stream.read(len(text)) == text
    return ask
