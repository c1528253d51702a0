"""Random WSGI applications under two clients: no byte of one client reaches the other.

Each request carries a mark of its own in its head, its cookie and its body. The application follows random steps: it reads,
writes, forks, fails, and leaves threads behind that read and write after the answer. The test plays the server: it sends the
requests of two clients in turn over the same kept connections, and abandons some. It looks for foreign marks in each answer,
in what each thread and each child has read, and for requests without an answer.

`CABRANK_DEEP=1` makes 100,000 requests instead of 2,500. A failure prints its seed, and `CABRANK_SEED` plays it again.
"""

import os
import random
import re
import socket
import unittest

from common import WsgiLoader
from driver import KeptConnection, frame, head

APPLICATION = """
import os, re, sys, threading

def look(mark, data):
    # Marks of others, also where a part of one was read.
    for found in re.findall(rb"m[0-9]{8}x", data):
        if found != mark:
            with open("leaks", "a") as file: file.write(f"{mark!r} got {data[:200]!r}\\n")

def late_reader(mark, stream):
    try:
        while True:
            data = stream.read(97)
            if not data: return
            look(mark, data)
    except (OSError, ValueError): pass

def late_writer(mark, write):
    try:
        for _ in range(200): write(mark)
    except (OSError, RuntimeError, AssertionError): pass

class Steps:
    def __init__(self, environ, start_response):
        self.mark = environ["QUERY_STRING"].encode()
        self.stream = environ["wsgi.input"]
        self.start_response, self.write = start_response, None
        look(self.mark, environ["HTTP_COOKIE"].encode())

    def start(self):
        if self.write is None: self.write = self.start_response("200 OK", [("X-Mark", self.mark.decode())])

    def do(self, step):
        if step == "r": look(self.mark, self.stream.read(50))
        elif step == "R": look(self.mark, self.stream.read())
        elif step == "l": look(self.mark, self.stream.readline())
        elif step == "w": self.start(); self.write(self.mark)
        elif step == "W": self.start(); self.write(self.mark * 30_000)
        elif step == "t": threading.Thread(target=late_reader, args=(self.mark, self.stream), daemon=True).start()
        elif step == "T": self.start(); threading.Thread(target=late_writer, args=(self.mark, self.write), daemon=True).start()
        elif step == "f": os.fork()
        elif step == "e": raise RuntimeError("a step")
        elif step == "x": sys.exit(3)

class Body:
    def __init__(self, steps, script): self.steps, self.script = steps, script
    def __iter__(self):
        for step in self.script:
            self.steps.do(step)
            yield self.steps.mark
    def close(self):
        for step in self.script:
            if step in "tf": self.steps.do(step)

def application(environ, start_response):
    steps = Steps(environ, start_response)
    before, kind, after = environ["HTTP_STEPS"].split("-")
    for step in before: steps.do(step)
    steps.start()
    if kind == "list": return [steps.mark] * (len(after) + 1)
    if kind == "generator": return (steps.do(step) or steps.mark for step in after + "n")
    return Body(steps, after + "n")
"""
STEPS = "rrRlwWtTfex"
MARK = re.compile(rb"m[0-9]{8}x")
IS_DEEP = bool(os.environ.get("CABRANK_DEEP"))


class Player:
    """The server's side: two clients in turn, over a few kept connections."""

    def __init__(self, test, loader, rng):
        self.test, self.loader, self.rng = test, loader, rng
        self.connections = []
        self.number = 0

    def script(self):
        rng = self.rng
        steps = lambda most: "".join(rng.choice(STEPS) for _ in range(rng.randrange(most)))
        return f"{steps(4)}-{rng.choice(('list', 'generator', 'body'))}-{steps(3)}"

    def play(self):
        rng = self.rng
        self.number += 1
        client = self.number % 2
        mark = b"m%d%07dx" % (client, self.number)
        if not self.connections or len(self.connections) < 3 and rng.random() < 0.2:
            self.connections.append(KeptConnection(self.loader))
        connection = rng.choice(self.connections)
        script = self.script()
        body = [mark * rng.randrange(1, 40) for _ in range(rng.randrange(4))]
        parts = [head(PATH_INFO="/", REQUEST_METHOD="POST", QUERY_STRING=mark.decode(), HTTP_STEPS=script,
                      HTTP_COOKIE=f"secret={mark.decode()}")] + [frame(part) for part in body] + [frame(b"")]
        # Some bytes may come late: after the answer has ended.
        now = rng.randrange(1, len(parts) + 1) if not set("rRl") & set(script) else len(parts)
        context = f"request {self.number}: {script}, {now} of {len(parts)} parts at first"
        try:
            connection.conn.sendall(b"".join(parts[:now]))
        except OSError as error:
            self.test.fail(f"{context}: the loader has closed an idle connection: {error!r}")
        if rng.random() < 0.05:
            if rng.random() < 0.5:
                connection.conn.shutdown(socket.SHUT_WR)
                self.drain(connection, mark, context)
            return self.drop(connection)
        ended = self.drain(connection, mark, context)
        if not ended:
            return self.drop(connection)
        try:
            connection.conn.sendall(b"".join(parts[now:]))
        except OSError:
            self.drop(connection)

    def drain(self, connection, mark, context):
        """Read the answer. Return whether its end frame has come."""
        data = b""
        try:
            while True:
                got = connection.frame()
                if got is None:
                    return False
                kind, part = got
                data += part
                if kind in "EA":
                    return kind == "E"
        except AssertionError:
            return False  # the connection ended within a frame
        except OSError as error:
            self.test.fail(f"{context}: no answer: {error!r}")
        finally:
            foreign = set(MARK.findall(data)) - {mark}
            self.test.assertFalse(foreign, f"{context}: the client {mark} got {foreign}")

    def end(self):
        """End the connections, and look for foreign marks that the application has seen."""
        for connection in list(self.connections):
            self.drop(connection)
        leaks = os.path.join(self.loader.app_root, "leaks")
        if os.path.exists(leaks):
            with open(leaks) as file:
                self.test.fail(file.read())

    def drop(self, connection):
        self.connections.remove(connection)
        connection.close()


class WsgiProperty(WsgiLoader):
    def test_no_mark_of_one_client_reaches_the_other(self):
        count = 100_000 if IS_DEEP else 2_500
        seed = int(os.environ.get("CABRANK_SEED") or random.randrange(1 << 32))
        for threads in ("1", "3"):
            with self.subTest(f"CABRANK_SEED={seed}", threads=threads):
                loader = self.app(APPLICATION, app_threads=threads)
                player = Player(self, loader, random.Random(seed))
                for _ in range(count // 2):
                    player.play()
                player.end()


if __name__ == "__main__":
    unittest.main()
