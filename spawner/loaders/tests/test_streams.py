"""Loaders whose application has closed or replaced a standard stream: they go on without what they cannot write."""

import os
import signal
import socket
import sys
import unittest

from common import LOADERS, AsgiLoader, LoaderTest, RackLoader, WsgiLoader
from driver import DEADLINE, KeptConnection, head, session
from test_preloaders import Forked

# Changes that applications make to standard error, and to standard output beside it.
PYTHON = {
    "closed": "sys.stderr.close()",
    "none": "sys.stderr = None",
    "an object that raises": "sys.stderr = Broken()",
    "an object that exits": "sys.stderr = Exiting()",
    "an object without methods": "sys.stdout = sys.stderr = object()",
}
BREAK = """
import os, resource, sys, time
class Broken:
    def write(self, text): raise KeyError("cannot write")
    def flush(self): raise KeyError("cannot flush")
class Exiting:
    def write(self, text): raise SystemExit(3)
    flush = write
def limit_files():
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
def unlimit_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
"""


class Streams:
    """Tests of WSGI and Rack. An application gets `/break`, `/fork`, `/limit` and `/unlimit`, and answers each of them by `ok`."""

    def check(self, loader):
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)

        def ask(path):
            connection.send(PATH_INFO=path)
            self.assertEqual(connection.answer().body, b"ok")

        ask("/break")
        for protocol in ("session", "kept_session"):
            for data in (head(PASSENGER_CONNECT_PASSWORD="wrong"), bytes(4), head(REQUEST_METHOD="")):
                with loader.connect(protocol) as conn:
                    conn.sendall(data)
                    try:
                        self.assertEqual(conn.recv(1), b"")
                    except ConnectionResetError:
                        pass
                ask("/")
        loader.process.send_signal(signal.SIGQUIT)
        ask("/fork")
        ask("/limit")
        waiting = loader.connect("session")
        self.addCleanup(waiting.close)
        waiting.sendall(head(PATH_INFO="/"))
        waiting.shutdown(socket.SHUT_WR)
        ask("/wait")
        ask("/unlimit")
        self.assertTrue(b"".join(iter(lambda: waiting.recv(1 << 16), b"")).endswith(b"ok"))
        self.assertEqual(session(loader).body, b"ok")
        loader.channel.sendall(b"x")
        self.assertIn(loader.process.wait(DEADLINE), (0, 120))  # Python's own code if it cannot flush the streams


class WsgiStreams(Streams, WsgiLoader):
    APP = """
        def application(environ, start_response):
            path = environ["PATH_INFO"]
            if path == "/break":
                BREAK
            if path == "/limit": limit_files()
            if path == "/wait": time.sleep(0.15)
            if path == "/unlimit": unlimit_files()
            if path == "/fork":
                child = os.fork()
                if not child: raise KeyError("in a child")
                assert os.waitpid(child, 0)[1] == 256
            start_response("200 OK", [])
            return [b"ok"]
    """

    def source(self, how):
        return BREAK.replace("\n", "\n        ") + self.APP.replace("BREAK", how)

    def test_the_process_goes_on(self):
        for name, how in PYTHON.items():
            for threads in ("1", "2"):
                with self.subTest(name, threads=threads):
                    self.check(self.app(self.source(how), app_threads=threads))

    def test_a_process_starts_without_them(self):
        for name, how in PYTHON.items():
            with self.subTest(name):
                loader = self.app(BREAK.replace("\n", "\n        ") + how + self.APP.replace("BREAK", "pass"))
                self.assertIsNone(loader.error)
                self.assertEqual(session(loader).body, b"ok")
                loader = self.app(BREAK.replace("\n", "\n        ") + how + "\n        raise KeyError('not servable')")
                self.assertIn("not servable", loader.error)


class RackStreams(Streams, RackLoader):
    # Ruby itself refuses to fork while standard error is closed.
    APP = """
        BREAKING = { "/break" => -> { BREAK } }
        run(lambda do |env|
          lowest = IO.sysopen(File::NULL).tap { |number| IO.for_fd(number).close }
          case env["PATH_INFO"]
          when "/break" then BREAKING["/break"].call
          when "/limit" then Process.setrlimit(:NOFILE, lowest, Process.getrlimit(:NOFILE)[1])
          when "/wait" then sleep 0.15
          when "/unlimit" then Process.setrlimit(:NOFILE, *[Process.getrlimit(:NOFILE)[1]] * 2)
          end
          [200, {}, ["ok"]]
        rescue Errno::EMFILE
          retry if Process.setrlimit(:NOFILE, *[Process.getrlimit(:NOFILE)[1]] * 2).nil?
        end)
    """
    WAYS = "STDERR.close", "$stderr.reopen(File.open('/dev/full', 'w'))", "STDERR.close; $stderr = $stdout = Class.new { def write(*) = raise }.new"

    def test_the_process_goes_on(self):
        for how in self.WAYS:
            for threads in ("1", "2"):
                with self.subTest(how, threads=threads):
                    self.check(self.app(self.APP.replace("BREAK }", how + " }"), app_threads=threads))

    def test_a_process_starts_without_them(self):
        for how in (*self.WAYS, "$stdout.close"):
            with self.subTest(how):
                loader = self.app(how + "\n" + self.APP.replace("BREAK }", "nil }"))
                self.assertIsNone(loader.error)
                self.assertEqual(session(loader).body, b"ok")
                self.assertIn("not servable", self.app(how + "\nraise 'not servable'").error)


class AsgiStreams(AsgiLoader):
    APP = """
        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                await receive()
                await send({"type": "lifespan.startup.complete"})
                await receive()
                return await send({"type": "lifespan.shutdown.failed"})
            path = scope["path"]
            if path == "/break":
                BREAK
            if path == "/fail": raise KeyError("fails")
            if path == "/return": return
            if path == "/fork":
                child = os.fork()
                if not child: raise KeyError("in a child")
                assert os.waitpid(child, 0)[1] == 256
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"ok"})
    """

    def test_the_process_goes_on(self):
        for name, how in PYTHON.items():
            with self.subTest(name):
                loader = self.app(BREAK.replace("\n", "\n        ") + self.APP.replace("BREAK", how))
                conn = self.http(loader)
                self.assertEqual(self.ask(conn, "/break"), (200, b"ok"))
                for path, status in (("/fail", 500), ("/return", 500), ("/fork", 200)):
                    self.assertEqual(self.ask(conn, path)[0], status)
                with loader.connect() as bad:
                    bad.sendall(b"nonsense\r\n\r\n")
                    self.assertEqual(bad.recv(1), b"")
                self.assertEqual(self.ask(conn), (200, b"ok"))
                loader.process.send_signal(signal.SIGQUIT)
                self.assertEqual(self.ask(conn), (200, b"ok"))
                conn.close()
                loader.channel.sendall(b"x")
                self.assertIn(loader.process.wait(DEADLINE), (0, 120))


class RubyPreloaderStreams(RackLoader):
    command = ["ruby", os.path.join(LOADERS, "rack-preloader.rb")]

    def test_a_preloader_that_cannot_fork_says_so(self):
        preloader = self.app("STDERR.close\nrun ->(_) { [200, {}, ['ok']] }")
        for _ in range(2):
            with preloader.connect() as conn:
                conn.sendall(b"spawn\n\n")
                self.assertEqual(conn.recv(100), b"Error\ncannot fork: closed stream\n")


class PreloaderStreams(LoaderTest):
    command = [sys.executable, os.path.join(LOADERS, "python-preloader.py")]

    def test_python(self):
        for name, how in PYTHON.items():
            with self.subTest(name):
                source = BREAK.replace("\n", "\n        ") + """
        import threading, types
        sys.modules["django.db"] = types.SimpleNamespace(connections=None)
        threading.Thread(target=time.sleep, args=(100,), name="ticker", daemon=True).start()
        """ + how + WsgiStreams.APP.replace("BREAK", "pass")
                preloader = self.start("passenger_wsgi.py", source)
                self.assertIsNone(preloader.error)
                for _ in range(2):
                    process = Forked(preloader)
                    self.addCleanup(process.close)
                    self.assertIsNone(process.error)
                    self.assertEqual(session(process).body, b"ok")


if __name__ == "__main__":
    unittest.main()
