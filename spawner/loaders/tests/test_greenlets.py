"""WSGI applications that have replaced threads and sockets by the greenlets of gevent or eventlet.

The interpreter CABRANK_GREENLETS has both libraries. Without it, this interpreter may have them.
"""

import os
import random
import signal
import subprocess
import sys
import unittest

import test_threads
from common import LOADERS, WsgiLoader
from driver import DEADLINE, KeptConnection, kept_session, session
from test_wsgi_property import APPLICATION, IS_DEEP, Player

PYTHON = os.environ.get("CABRANK_GREENLETS") or sys.executable
PATCHES = {"gevent": "from gevent import monkey; monkey.patch_all({})", "eventlet": "import eventlet; eventlet.monkey_patch({})"}
HAS_BOTH = subprocess.run([PYTHON, "-c", "import eventlet, gevent"], capture_output=True).returncode == 0


@unittest.skipUnless(HAS_BOTH, "gevent and eventlet are not installed")
class GreenletLoader(WsgiLoader):
    command = [PYTHON, os.path.join(LOADERS, "python-loader.py")]
    library = "gevent"

    def patched(self, source, spared="", **options):
        return self.app(f"{PATCHES[self.library].format(spared)}\n{source}", **options)


class GeventThreads(GreenletLoader):
    """The tests of threads, whose threads are greenlets."""

    MEET = "\n".join(line[8:] for line in test_threads.WsgiThreads.MEET.splitlines())
    threaded = test_threads.WsgiThreads.threaded
    begin = test_threads.WsgiThreads.begin
    end = test_threads.WsgiThreads.end
    test_each_thread_serves_a_request_in_both_protocols = test_threads.WsgiThreads.test_each_thread_serves_a_request_in_both_protocols
    test_all_running_requests_are_finished_first = test_threads.WsgiThreads.test_all_running_requests_are_finished_first
    test_sigterm_ends_busy_threads = test_threads.WsgiThreads.test_sigterm_ends_busy_threads

    def app(self, source, **options):
        return super().app(source if "monkey" in source else f"{PATCHES[self.library].format('')}\n{source}", **options)

    def test_greenlets_of_the_application_run_between_requests(self):
        loader = self.patched("""
import os, threading, time
runs = []
def run():
    while True:
        time.sleep(0.001)
        runs.append(1)
        if len(runs) == 20: os.write(1, b"ran\\n")
threading.Thread(target=run, daemon=True).start()
def application(environ, start_response):
    start_response("200 OK", [])
    return [b"answer"]
""")
        self.assertEqual(loader.lines.readline(), b"ran\n")  # without a request
        self.assertEqual(kept_session(loader, b"body" * 50_000).body, b"answer")
        loader.channel.sendall(b"x")
        self.check_exit(loader)

    def test_sigterm_ends_an_idle_process(self):
        for threads in ("1", "3"):
            loader = self.patched("application = lambda environ, start_response: start_response('200 OK', []) and []",
                                  app_threads=threads)
            self.assertEqual(session(loader).status, "Status: 200 OK")
            loader.process.send_signal(signal.SIGTERM)
            self.check_exit(loader, 143)

    def test_each_choice_of_what_is_replaced(self):
        for spared in ("thread=False", "select=False", "socket=False", "thread=False, socket=False", "os=False"):
            for threads in ("1", "3"):
                with self.subTest(spared, threads=threads):
                    loader = self.patched("""
import time
def application(environ, start_response):
    time.sleep(0.001)
    data = environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [b"%d" % len(data)]
""", spared, app_threads=threads)
                    for ask in (session, kept_session, kept_session):
                        self.assertEqual(ask(loader, b"12345" * 30_000).body, b"150000")
                    loader.channel.sendall(b"x")
                    self.check_exit(loader)

    def test_no_mark_of_one_client_reaches_the_other(self):
        seed = int(os.environ.get("CABRANK_SEED") or random.randrange(1 << 32))
        with self.subTest(f"CABRANK_SEED={seed}"):
            loader = self.patched(APPLICATION, app_threads="3")
            player = Player(self, loader, random.Random(seed))
            for _ in range(20_000 if IS_DEEP else 150):
                player.play()
            player.end()

    def test_a_timeout_that_the_application_forgets_ends_no_process(self):
        """An exception for a greenlet that waits for requests is logged, and the greenlet goes on."""
        for threads in ("1", "3"):
            loader = self.patched(f"""
import {self.library} as library
class Late(Exception): pass
def application(environ, start_response):
    if environ["PATH_INFO"] == "/late": library.Timeout(0.01, Late("late")){".start()" * (self.library == "gevent")}
    start_response("200 OK", [])
    return [b"answer"]
""", app_threads=threads)
            connection = KeptConnection(loader)
            self.addCleanup(connection.close)
            for number in range(1, 5):
                connection.send(PATH_INFO="/late")
                self.assertEqual(connection.answer().body, b"answer")
                self.eventually(lambda: loader.read_stderr().count("Late: late") == number)
            loader.channel.sendall(b"x")
            self.check_exit(loader)


class EventletThreads(GeventThreads):
    library = "eventlet"


class OtherThreads(WsgiLoader):
    def test_threads_of_an_unknown_kind_are_refused(self):
        loader = self.app("""
            import _thread
            start = _thread.start_new_thread
            _thread.start_new_thread = lambda *args: start(*args)
            def application(environ, start_response): pass
        """, app_threads="2")
        self.assertIn("Remove --app-threads", loader.error)
        self.assertEqual(loader.process.wait(DEADLINE), 1)


if __name__ == "__main__":
    unittest.main()
