"""The preloaders of WSGI and Rack applications, and the processes that they fork."""

import os
import socket
import stat
import sys
import time

from common import LOADERS, RackLoader, WsgiLoader
from driver import DEADLINE, Loader, kept_session, session


class Forked(Loader):
    """A process that a preloader has forked, and the server's end of its channel."""

    def __init__(self, preloader, passes_stderr=True):
        self.preloader, self.options, self.output, self.error = preloader, preloader.options, b"", None
        self.ready, self.sockets, self.kept = {}, {}, None
        self.channel = preloader.connect()
        self.stderr = open(os.path.join(preloader.root, f"stderr.{self.channel.fileno()}"), "w+b")
        socket.send_fds(self.channel, [b"spawn\na: b\n\n"], [self.stderr.fileno()] if passes_stderr else [])
        self.lines = self.channel.makefile("rb")
        assert self.lines.readline() == b"OK\n"
        self.pid = int(self.lines.readline())
        self.exchange()

    def is_alive(self):
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rpartition(") ")[2][0] != "Z"
        except FileNotFoundError:
            return False

    def close(self):
        if self.kept:
            self.kept.close()
        self.lines.close()
        self.channel.close()
        # The process is no child of this one. It removes its socket while the directory goes, unless the test waits for its end.
        deadline = time.monotonic() + DEADLINE
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)
        self.stderr.close()


class Preloaders:
    """Tests of preloaders in any language. `APP` reports its pids, `REFUSING` fails in its hook, `BROKEN` does not load."""

    def fork(self, preloader, **options):
        process = Forked(preloader, **options)
        self.addCleanup(process.close)
        return process

    def parent(self, pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(") ")[2].split()[1])

    def test_processes_share_the_loaded_application(self):
        preloader = self.app(self.APP)
        self.assertIsNone(preloader.error)
        self.assertEqual(stat.S_IMODE(os.stat(preloader.path).st_mode), 0o600)
        answers = []
        for _ in range(3):
            process = self.fork(preloader)
            self.assertEqual(process.output.strip(), b"starting true")
            for ask in self.asks:
                answer = ask(process).body.decode().split()
                self.assertEqual(answer[:3], [str(preloader.process.pid), str(process.pid), "true"])
            answers.append(answer[3])
            self.assertNotEqual(self.parent(process.pid), preloader.process.pid)
        self.assertEqual(len(set(answers)), 3)
        process.channel.shutdown(socket.SHUT_WR)
        self.eventually(lambda: not process.is_alive())
        self.assertFalse(os.path.exists(process.path))
        preloader.channel.shutdown(socket.SHUT_WR)
        self.assertEqual(preloader.process.wait(DEADLINE), 0)
        self.assertFalse(os.path.exists(preloader.path))

    def test_errors(self):
        self.assertIn("no such file", self.app(self.BROKEN).error)
        preloader = self.app(self.REFUSING)
        self.assertIn("no database", self.fork(preloader).error)
        with preloader.connect() as conn:
            conn.sendall(b"dance\n\n")
            self.assertEqual(conn.recv(100), b"Error\nunknown command\n")
        preloader.connect().close()
        self.assertIn("no database", self.fork(preloader).error)
        self.assertIsNone(preloader.process.poll())

    def test_standard_error_is_what_the_server_passes(self):
        preloader = self.app(self.WRITING)
        own, shared = self.fork(preloader), self.fork(preloader, passes_stderr=False)
        self.eventually(lambda: f"written by {own.pid}" in own.read_stderr())
        self.eventually(lambda: f"written by {shared.pid}" in preloader.read_stderr())
        self.assertNotIn(str(own.pid), preloader.read_stderr())


class RackPreloader(Preloaders, RackLoader):
    command = ["ruby", os.path.join(LOADERS, "rack-preloader.rb")]
    asks = session, kept_session
    APP = """
        loaded = Process.pid
        PhusionPassenger.on_event(:starting_worker_process) { |forked| puts "starting #{forked}" }
        run ->(_) { [200, {}, ["#{loaded} #{Process.pid} #{Process.getpgid(0) == Process.pid} #{rand}"]] }
    """
    REFUSING = """
        PhusionPassenger.on_event(:starting_worker_process) { raise "no database" }
        run ->(_) { [200, {}, []] }
    """
    BROKEN = "raise 'no such file'"
    WRITING = """
        PhusionPassenger.on_event(:starting_worker_process) { STDERR.puts "written by #{Process.pid}" }
        run ->(_) { [200, {}, []] }
    """


class WsgiPreloader(Preloaders, WsgiLoader):
    command = [sys.executable, os.path.join(LOADERS, "python-preloader.py")]
    asks = session, kept_session
    APP = """
        import cabrank, os, random
        loaded, state = os.getpid(), ["starting"]
        print(end="unfinished, and written once")
        @cabrank.on_start
        def start():
            print(*state)
        @cabrank.after_fork
        def fork():
            state.append("true")
        def application(environ, start_response):
            start_response("200 OK", [])
            return [f"{loaded} {os.getpid()} {os.getpgid(0) == os.getpid()} {random.random()}".lower().encode()]
    """
    REFUSING = """
        import cabrank
        @cabrank.after_fork
        def fork():
            raise OSError("no database")
        def application(environ, start_response): pass
    """
    BROKEN = "raise OSError('no such file')"
    WRITING = """
        import cabrank, os, sys
        cabrank.on_start(lambda: print(f"written by {os.getpid()}", file=sys.stderr))
        def application(environ, start_response): pass
    """

    def test_hooks_of_direct_processes(self):
        loader = self.start("passenger_wsgi.py", self.APP, command=WsgiLoader.command)
        self.assertIsNone(loader.error)
        self.assertIn(b"starting\n", loader.output)

    def test_threads_are_named(self):
        preloader = self.app("""
            import threading, time
            threading.Thread(target=time.sleep, args=(100,), name="ticker", daemon=True).start()
            def application(environ, start_response): pass
        """)
        self.assertIn("ticker. Start them in a function for cabrank.on_start.", preloader.read_stderr())

    def test_a_process_whose_server_has_ended_runs_no_handler_of_its_end(self):
        """It may last for ever, and no one is left who would end it."""
        preloader = self.app("""
            import atexit, time
            atexit.register(time.sleep, 3600)
            def application(environ, start_response): pass
        """)
        for _ in range(5):
            channel = preloader.connect()
            channel.sendall(b"spawn\na: b\n\n")
            with channel.makefile("rb") as lines:
                self.assertEqual(lines.readline(), b"OK\n")
                pid = int(lines.readline())
            channel.close()
            try:
                self.eventually(lambda: not os.path.exists(f"/proc/{pid}/stat") or " Z " in open(f"/proc/{pid}/stat").read())
            finally:
                if os.path.exists(f"/proc/{pid}"):
                    os.kill(pid, 9)

    def test_connections_of_django_are_closed_before_the_fork(self):
        preloader = self.app("""
            import os, sys, types
            closed = []
            database = types.ModuleType("django.db")
            database.connections = types.SimpleNamespace(close_all=lambda: closed.append(os.getpid()))
            sys.modules["django.db"] = database
            def application(environ, start_response):
                start_response("200 OK", [])
                return [" ".join(map(str, closed)).encode()]
        """)
        closed = session(self.fork(preloader)).body.decode().split()
        self.assertEqual(set(closed), {str(preloader.process.pid)})
