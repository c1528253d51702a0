"""A process that has ended its serving, but lives on, has no connection: a request to it would wait for its end.

Threads of the application and handlers of the end may take long.
"""

import os
import signal
import subprocess
import sys
import unittest

from common import LOADERS, AsgiAnswers, RackLoader, WsgiLoader
from driver import KeptConnection, session


PYTHON = os.environ.get("CABRANK_GREENLETS") or sys.executable
HAS_UVLOOP = subprocess.run([PYTHON, "-c", "import uvloop"], capture_output=True).returncode == 0


class Lingering:
    """`SOURCES` live on after SIGTERM until the file `end` is there."""

    def test_a_process_that_lives_on_after_sigterm_has_no_connection(self):
        for name, source in self.SOURCES.items():
            for options in self.OPTIONS:
                with self.subTest(name, **options):
                    loader = self.app(source, **options)
                    connection = self.serve(loader)
                    loader.process.send_signal(signal.SIGTERM)
                    self.ends(loader, connection)

    def ends(self, loader, connection):
        self.assertEqual(connection.recv(1), b"")  # waits with a deadline
        self.eventually(lambda: self.refuses(loader))
        self.assertIsNone(loader.process.poll())
        with open(os.path.join(loader.app_root, "end"), "w"):
            pass
        self.eventually(lambda: loader.process.poll() is not None)

    def refuses(self, loader):
        try:
            loader.connect().close()
        except OSError:
            return True
        return False

    def serve(self, loader):
        self.assertIn(b"ok", session(loader).body)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        connection.send()
        self.assertEqual(connection.answer().body, b"ok")
        return connection.conn


SETUP = """
    import atexit, os, sys, threading, time
    def linger():
        while not os.path.exists("end"): time.sleep(0.01)
"""
LINGERS = {"a thread": "threading.Thread(target=linger).start()", "a handler of the end": "atexit.register(linger)"}


class WsgiLingering(Lingering, WsgiLoader):
    OPTIONS = ({}, {"app_threads": "3"})
    SOURCES = {
        name: f"""{SETUP}
    {line}
    def application(environ, start_response):
        start_response("200 OK", [])
        return [b"ok"]
    """
        for name, line in LINGERS.items()
    }


class AsgiLingering(Lingering, AsgiAnswers):
    OPTIONS = ({},)
    SOURCES = {
        name: f"""{SETUP}
    {line}
    async def app(scope, receive, send):
        if scope["type"] != "http": return
        if scope["path"] == "/exit":
            import asyncio
            async def leave(): sys.exit(3)
            async def wait(): await asyncio.create_task(leave())
            await asyncio.create_task(wait())
        await send({{"type": "http.response.start", "status": 200, "headers": []}})
        await send({{"type": "http.response.body", "body": b"ok"}})
    """
        for name, line in LINGERS.items()
    }

    def serve(self, loader):
        conn = self.http(loader)
        self.assertEqual(self.ask(conn), (200, b"ok"))
        return conn.sock

    def test_a_process_whose_task_has_called_exit_has_no_connection(self):
        """The error comes once for the task, and once more for each task that awaits it."""
        for name, source in self.SOURCES.items():
            with self.subTest(name):
                loader = self.app(source)
                connection = self.serve(loader)
                other = loader.connect()
                self.addCleanup(other.close)
                other.sendall(b"GET /exit HTTP/1.1\r\nHost: a\r\n\r\n")
                self.ends(loader, connection)
                self.assertEqual(loader.process.returncode, 3)


@unittest.skipUnless(HAS_UVLOOP, "uvloop is not installed")
class UvloopLingering(AsgiLingering):
    command = [PYTHON, os.path.join(LOADERS, "python-loader.py")]


class RackLingering(Lingering, RackLoader):
    OPTIONS = ({}, {"app_threads": "3"})
    SOURCES = {
        "a handler of the end": """
    at_exit { sleep(0.01) until File.exist?("end") }
    run ->(_) { [200, {}, ["ok"]] }
    """,
        "an event of the end": """
    PhusionPassenger.on_event(:stopping_worker_process) { sleep(0.01) until File.exist?("end") }
    run ->(_) { [200, {}, ["ok"]] }
    """,
    }


if __name__ == "__main__":
    unittest.main()
