"""The server's side of the protocols between server and loader, for tests.

`Loader` starts a loader on a socketpair and performs the handshake; `session` and `kept_session` send a request in the
protocol of that name. Reads have a deadline.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import textwrap
import threading

DEADLINE = 10
PASSWORD = "jB8sPv2uQm6yRk4xWc9dTf3hLn7gZa5eXo1iUbVtYrE"


class Loader:
    """One loader process, and the server's end of its socketpair."""

    def __init__(self, command, startup_file, source=None, app_root=None, nonblocking=False, **options):
        self.root = tempfile.mkdtemp(prefix="cr")
        self.app_root = app_root or os.path.join(self.root, "app")
        os.makedirs(self.app_root, exist_ok=True)
        os.makedirs(os.path.join(self.root, "g", "backends"))
        if source is not None:
            with open(os.path.join(self.app_root, startup_file), "w") as file:
                file.write(textwrap.dedent(source))
        self.options = {
            "passenger_root": "/nowhere", "generation_dir": os.path.join(self.root, "g"), "connect_password": PASSWORD,
            "app_root": self.app_root, "startup_file": startup_file, "a_key_of_the_future": "a: b", **options,
        }
        self.channel, theirs = socket.socketpair()
        theirs.setblocking(not nonblocking)
        self.channel.settimeout(DEADLINE)
        self.lines = self.channel.makefile("rb")
        self.stderr = open(os.path.join(self.root, "stderr"), "w+b")
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=self.stderr, cwd=self.app_root,
                                        start_new_session=True)
        theirs.close()
        self.output = b""  # the application's own output
        self.error = None
        self.ready = {}
        self.sockets = {}  # name: (protocol, concurrency, path)
        self.kept = None  # an idle kept connection
        self.exchange()

    def exchange(self):
        """Perform the server's side of the handshake, until `!> Ready` or `!> Error`."""
        for line in self.lines:
            if line == b"!> I have control 1.0\n":
                text = "".join(f"{key}: {value}\n" for key, value in self.options.items())
                self.channel.sendall(f"You have control 1.0\n{text}\n".encode())
            elif line == b"!> Error\n":
                assert self.lines.readline() == b"!> \n"
                self.error = self.lines.read().decode()
                return
            elif line == b"!> Ready\n":
                for line in iter(self.lines.readline, b"!> \n"):
                    key, value = line.decode()[3:].rstrip("\n").split(": ", 1)
                    if key == "socket" and value.startswith("unix:"):  # of a preloader
                        self.sockets["main"] = ("preloader", "1", value[len("unix:"):])
                    elif key == "socket":
                        name, address, protocol, concurrency = value.split(";")
                        self.sockets[name] = (protocol, concurrency, address[len("unix:"):])
                    else:
                        self.ready[key] = value
                self.path = self.sockets["main"][2]
                return
            elif line.startswith(b"!> "):
                raise AssertionError(line)
            else:
                self.output += line
        raise AssertionError("the loader exited during the handshake: " + self.read_stderr())

    def read_stderr(self):
        with open(self.stderr.name) as file:
            return file.read()

    def connect(self, protocol=None):
        """Connect to the socket of a protocol, or to the main socket."""
        path = next((path for offered, _, path in self.sockets.values() if offered == protocol), self.path)
        conn = socket.socket(socket.AF_UNIX)
        conn.settimeout(DEADLINE)
        conn.connect(path)
        return conn

    def close(self):
        if self.kept:
            self.kept.close()
        self.lines.close()
        self.channel.close()
        try:
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stderr.close()
        shutil.rmtree(self.root)


def head(**variables):
    pairs = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "PASSENGER_CONNECT_PASSWORD": PASSWORD, **variables}
    block = "".join(f"{name}\0{value}\0" for name, value in pairs.items() if value is not None).encode("latin-1")
    return len(block).to_bytes(4, "big") + block


def target(path="/", address="192.0.2.1", port=5555, scheme="http", password=PASSWORD, mount=None):
    """Return the target of a request in HTTP, with its origin in front."""
    below = f";{mount}" if mount else ""
    return f"/{password},{scheme};{address};{port}{below},{path}"


class Answer:
    """An answer in the session protocol; `cut` if the connection was reset instead of ended."""

    def __init__(self, data, cut):
        self.raw, self.cut = data, cut
        block, _, self.body = data.partition(b"\r\n\r\n")
        lines = block.decode("latin-1").split("\r\n")
        self.status = lines[0]
        self.headers = dict(line.split(": ", 1) for line in lines[1:])

    @property
    def short(self):
        return len(self.body) < int(self.headers["Content-Length"])


def session(loader, body=b"", half_close=True, **variables):
    conn = loader.connect()

    def send():
        try:
            conn.sendall(head(**variables) + body)
            if half_close:
                conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the loader answered without reading the body

    sender = threading.Thread(target=send)
    sender.start()
    data, cut = bytearray(), False
    try:
        for chunk in iter(lambda: conn.recv(1 << 16), b""):
            data += chunk
    except ConnectionResetError:
        cut = True
    sender.join(DEADLINE)
    conn.close()
    return Answer(bytes(data), cut)


def frame(data):
    return len(data).to_bytes(4, "big") + data


class KeptConnection:
    """The server's end of a kept connection."""

    def __init__(self, loader):
        self.conn = loader.connect("kept_session")
        self.received = bytearray()

    def send(self, body=b"", pieces=1, **variables):
        """Send a request, its body in so many frames."""
        size = max(1, -(-len(body) // pieces))
        frames = b"".join(frame(body[at:at + size]) for at in range(0, len(body), size))
        self.conn.sendall(head(**variables) + frames + frame(b""))

    def frame(self):
        """Return the next frame of the answer as its type and bytes, or None at the end of the connection."""
        while len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[1:4], "big"):
            try:
                chunk = self.conn.recv(1 << 16)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                assert not self.received
                return None
            self.received += chunk
        size = 4 + int.from_bytes(self.received[1:4], "big")
        kind, data = self.received[:1].decode(), bytes(self.received[4:size])
        del self.received[:size]
        return kind, data

    def answer(self):
        """Return the next answer. `cut` if it was aborted or the connection ended."""
        data = b""
        for expected in ("H", "D"):
            while True:
                part = self.frame()
                kind = part and part[0]
                if kind != expected:
                    break
                data += part[1]
                if kind == "H":
                    break
            if kind in (None, "A"):
                assert self.frame() is None
                return Answer(data, True)
            if expected == "H":
                assert kind == "H" and data.endswith(b"\r\n\r\n"), (kind, data)
        assert part == ("E", b"") and not self.received, part
        return Answer(data, False)

    def close(self):
        self.conn.close()


def kept_session(loader, body=b"", half_close=True, **variables):
    """Send a request over the loader's kept connection, as `session` does over one of its own."""
    connection = loader.kept
    if connection is None:
        connection = KeptConnection(loader)

    def send():
        try:
            connection.send(body, pieces=3, **variables)
        except OSError:
            pass  # the loader has closed the connection

    sender = threading.Thread(target=send)
    sender.start()
    answer = connection.answer()
    sender.join(DEADLINE)
    loader.kept = None if answer.cut else connection
    if answer.cut:
        connection.close()
    return answer
