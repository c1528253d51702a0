"""Random requests of two clients, none of whose marks ever reaches the other.

Each request has a mark of its own in its target, a cookie and its body. A *plan* tells the application what to do: a list of
steps, which each language interprets. Whatever sees bytes of a request also after its answer (a task, a forked child, a late
reader) writes them to one file behind its own mark. In the end every mark in an answer or in a line is that of its owner.

The two clients share a few connections, as the threads of a server do. A language joins by an application that knows the
steps, and a class with its loader; `Exchange` is of a protocol, here HTTP.
"""

import os
import random
import re
import threading

from driver import DEADLINE

COUNT = int(os.environ.get("CABRANK_MARKS") or 1000)  # requests; a long run has 100000
CONNECTIONS = 3
MARK = re.compile(rb"mark-\w+-\d+-")

# Each request begins with some of the first, answers by one of the second, and ends with some of the third.
BEFORE = ("read", "read-some", "late-read", "late-send", "fork", "fork-send", "fork-late", "thread", "yield")
ANSWERS = ("whole", "parts", "long", "short", "raise", "return", "begin-raise", "exit", "whole", "parts", "empty")
AFTER = ("fork", "fork-send", "late-read", "late-send", "send-again", "raise", "yield", "keep")


def plan(chance):
    # A reader in the background comes last: two readers of one body would wait for each other's part.
    first = sorted(chance.sample(BEFORE, chance.choice((0, 0, 1, 2, 3))), key="late-read".__eq__)
    steps = first + [chance.choice(ANSWERS)]
    return steps + chance.sample(AFTER, chance.choice((0, 0, 1, 2)))


class Exchange:
    """The exchanges of one connection, in HTTP."""

    def __init__(self, connect):
        self.conn = connect()
        self.file = self.conn.makefile("rb")

    def idle_bytes(self):
        """Return what has come while the connection was idle, or None if it has ended. The end of Node's refuses a request."""
        self.conn.setblocking(False)
        try:
            early = self.conn.recv(1000)
            return None if early in (b"", b"\x15") else early
        except BlockingIOError:
            return b""
        except OSError:
            return None
        finally:
            self.conn.settimeout(DEADLINE)

    def ask(self, mark, steps, body, cut):
        """Send a request. Return the bytes of its answer, and whether the connection may carry another request.

        `cut`: leave after so many bytes of the request.
        """
        data = (f"POST /{mark} HTTP/1.1\r\nHost: a\r\nCookie: id={mark}\r\nX-Plan: {','.join(steps)}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        received = b""
        try:
            self.conn.sendall(data[:cut])
            if cut is not None:
                return received, False
            length = None
            while (line := self.file.readline()) not in (b"\r\n", b""):
                received += line
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                return received, False
            if length is not None:
                rest = self.file.read(length)
                return received + rest, len(rest) == length
            while True:
                line = self.file.readline()
                if not line:
                    return received, False
                size = int(line, 16)
                part = self.file.read(size + 2)
                received += part
                if not size:
                    return received, True
        except ConnectionError:
            return received, False

    def close(self):
        self.file.close()
        self.conn.close()


class Marks:
    """The property, for a test of one language: it has `app_with_plans()`, which returns a loader."""

    def test_no_mark_reaches_another_request(self):
        loader = self.app_with_plans()
        seed = int(os.environ.get("CABRANK_SEED") or 1)
        idle, lock, errors = [], threading.Lock(), []
        places = threading.Semaphore(CONNECTIONS)

        def check(owner, seen, where):
            for found in MARK.findall(seen):
                if found != owner:
                    errors.append(f"{owner} has got {found} in {where}: {seen[:300]}")

        def client(name):
            chance = random.Random(f"{seed} {name}")
            for number in range(COUNT // 2):
                mark = f"mark-{name}-{number}-"
                body = mark.encode() * chance.choice((1, 1, 30, 3000))
                cut = chance.randrange(1, 100 + len(body)) if chance.random() < 0.05 else None
                with places:
                    with lock:
                        connection = idle.pop(chance.randrange(len(idle))) if idle else None
                    if connection is not None and (early := connection.idle_bytes()) != b"":
                        if early is not None:
                            errors.append(f"bytes on an idle connection: {early[:300]}")
                        connection.close()
                        connection = None
                    connection = connection or Exchange(loader.connect)
                    steps = plan(chance)
                    answer, is_kept = connection.ask(mark, steps, body, cut)
                    check(mark.encode(), answer, f"the answer to {steps}")
                    if is_kept:
                        with lock:
                            idle.append(connection)
                    else:
                        connection.close()
                    connection = None
                if errors:
                    return

        def run(name):
            try:
                client(name)
            except Exception as error:  # a deadline, for example
                errors.append(f"client {name}: {error!r}\n{loader.read_stderr()[-1000:]}")

        clients = [threading.Thread(target=run, args=(name,)) for name in ("alice", "bob")]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        for connection in idle:
            connection.close()
        self.assertFalse(errors, errors[:3])
        self.assertIsNone(loader.process.poll())
        loader.process.kill()
        loader.process.wait()
        seen = 0
        with open(os.path.join(loader.app_root, "seen"), "rb") as file:
            for line in file:
                owner, _, text = line.partition(b" ")
                check(owner, text, "what outlived its answer")
                seen += 1
        self.assertFalse(errors, errors[:3])
        self.assertGreater(seen, COUNT // 20)  # the steps have seen something
