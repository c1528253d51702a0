"""The base of all tests of loaders, and of the tests of each language."""

import http.client
import os
import shutil
import stat
import sys
import time
import unittest

LOADERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(LOADERS, "..", "..", "examples")
# `driver` stands beside the loaders, because `conformance.py` imports it, too.
sys.path.insert(0, LOADERS)

from driver import DEADLINE, Loader


class LoaderTest(unittest.TestCase):
    """Starts loaders by `command`, and ends them after the test."""

    def start(self, *args, command=None, **options):
        loader = Loader(command or self.command, *args, **options)
        self.addCleanup(loader.close)
        return loader

    def check_ready(self, loader, kind, protocol, concurrency):
        self.assertIsNone(loader.error)
        self.assertEqual(loader.sockets["main"][:2], (protocol, concurrency))
        self.assertEqual(loader.ready["pid"], str(loader.process.pid))
        self.assertRegex(loader.path, rf"/g/backends/{kind}\.{loader.process.pid}-\w+$")
        self.assertEqual(stat.S_IMODE(os.stat(loader.path).st_mode), 0o600)

    def check_exit(self, loader, code=0):
        self.assertEqual(loader.process.wait(DEADLINE), code)
        self.assertFalse(os.path.exists(loader.path))

    def eventually(self, condition):
        deadline = time.monotonic() + DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)


class WsgiLoader(LoaderTest):
    command = [sys.executable, os.path.join(LOADERS, "python-loader.py")]

    def app(self, source, **options):
        return self.start("passenger_wsgi.py", source, **options)


@unittest.skipUnless(shutil.which("ruby"), "ruby is not installed")
class RackLoader(LoaderTest):
    command = ["ruby", os.path.join(LOADERS, "rack-loader.rb")]

    def app(self, source, **options):
        return self.start("config.ru", source, **options)


class AsgiLoader(LoaderTest):
    command = [sys.executable, os.path.join(LOADERS, "python-loader.py")]

    def app(self, source, **options):
        return self.start("main.py", source, **options)

    def http(self, loader):
        conn = http.client.HTTPConnection("a")
        conn.sock = loader.connect()
        self.addCleanup(conn.close)
        return conn

    def ask(self, conn, path="/", method="GET", body=None, **headers):
        conn.request(method, path, body, headers)
        answer = conn.getresponse()
        return answer.status, answer.read()


class AsgiAnswers(AsgiLoader):
    """Starts applications of a few lines that answer by `answer`."""

    ANSWER = """
        import array, asyncio, multiprocessing, os, signal, sys, threading, time
        kept = {}
        async def answer(send, body, **start):
            await send({"type": "http.response.start", "status": 200, **start})
            await send({"type": "http.response.body", "body": body})
    """

    def outliving(self, body, **options):
        """Start an application whose coroutine `app` has this body. `answer(send, body)` is there, and a dictionary `kept`."""
        lines = "".join(f"            {line}\n" for line in body.strip("\n").split("\n"))
        return self.app(f"{self.ANSWER}    async def app(scope, receive, send):\n"
                        f"            if scope['type'] == 'lifespan': return\n            path = scope['path']\n{lines}", **options)

    def lines(self, loader, count):
        return sorted(loader.lines.readline().decode().strip() for _ in range(count))

    def read(self, answers):
        """Return the body of the next answer of a connection."""
        length = 0
        while (line := answers.readline()) != b"\r\n":
            self.assertTrue(line)
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        return answers.read(length)


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class NodeLoader(LoaderTest):
    command = ["node", os.path.join(LOADERS, "node-loader.js")]
    NAK = b"\x15"

    def app(self, source, **options):
        return self.start("app.js", source, **options)

    def http(self, loader):
        conn = http.client.HTTPConnection("localhost")
        conn.sock = loader.connect()
        self.addCleanup(conn.close)
        return conn

    def ask(self, conn, path="/", method="GET", body=None):
        conn.request(method, path, body)
        answer = conn.getresponse()
        return answer.status, answer.read()

    def raw(self, loader):
        conn = loader.connect()
        self.addCleanup(conn.close)
        file = conn.makefile("rb")
        self.addCleanup(file.close)
        return conn, file

    def send(self, conn, path, body=None, method=None, **fields):
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        method = method or ("GET" if body is None else "POST")
        conn.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}{length}\r\n".encode() + (body or b""))

    def head(self, file):
        """Return the head of an answer."""
        text = b""
        while not text.endswith(b"\r\n\r\n"):
            line = file.readline()
            self.assertTrue(line)
            text += line
        return text.decode()

    def read(self, file, size):
        """Return the next bytes of an answer behind its head."""
        self.head(file)
        return file.read(size)

    def rest(self, conn, file, path, body=None):
        """Send a request and return all bytes until the end of the connection, without a refusal."""
        try:
            self.send(conn, path, body)
        except OSError:
            pass  # the loader has closed it
        return self.last(file)

    def last(self, file):
        """Return all bytes until the end of the connection, without a refusal."""
        answers = b""
        try:
            while part := file.read1():
                answers += part
        except ConnectionError:
            pass
        return answers.removesuffix(self.NAK)
