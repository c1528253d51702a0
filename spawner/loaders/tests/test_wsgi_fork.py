"""A process that a WSGI application forks never uses a socket of its parent, and leaves when the application's code returns."""

import os
import signal
import unittest

from common import WsgiLoader
from driver import KeptConnection, frame, head

# The application forks at the place that the query names. The child says what it can do, and then returns, raises or exits as
# the method says.
APPLICATION = """
import atexit, os, sys, threading, time

def report(line):
    with open("report", "a") as file: file.write(line + "\\n")

def attempt(name, call):
    try: report(f"{name}: {call()!r}")
    except BaseException as error: report(f"{name}: {type(error).__name__}")

atexit.register(lambda: report("atexit"))

class Fork:
    def __init__(self, environ):
        self.place, self.how = environ["QUERY_STRING"].split(",")
        self.stream, self.write = environ["wsgi.input"], None

    def __call__(self, place):
        if place != self.place: return
        pid = os.fork()
        if pid:
            report(f"forked {pid}")
            return
        sockets = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")
                   or fd not in "012" and os.path.islink(f"/proc/self/fd/{fd}")]
        report(f"sockets: {sum(s.startswith('socket:') or 'eventpoll' in s for s in sockets)}")
        attempt("raw", lambda: self.stream.raw.read(10) if hasattr(self.stream, "raw") else 1 / 0)
        if self.write: attempt("write", lambda: self.write(b"the child's"))
        time.sleep(0.05)  # the parent goes on
        if self.how == "raise": raise RuntimeError("in the child")
        if self.how == "exit": sys.exit(7)

class Body:
    def __init__(self, fork): self.fork = fork
    def __iter__(self):
        self.fork("body")
        yield b"par"
        self.fork("middle")
        yield b"ent"
    def close(self):
        self.fork("close")

def application(environ, start_response):
    if environ["PATH_INFO"] == "/plain":
        start_response("200 OK", [])
        return [environ["QUERY_STRING"].encode()]
    fork = Fork(environ)
    if fork.place == "generator": return generator(fork, start_response)
    fork("before")
    fork.write = start_response("200 OK", [])
    fork("after")
    if fork.place == "write":
        fork.write(b"par")
        fork("write")
        fork.write(b"ent")
        return []
    if fork.place == "thread":
        thread = threading.Thread(target=fork, args=("thread",))
        thread.start()
        thread.join()
    if fork.place == "list":
        fork.place = "body"
        list(Body(fork))
        return [b"parent"]
    return Body(fork)

def generator(fork, start_response):
    fork("generator")
    fork.write = start_response("200 OK", [])
    yield b"par"
    yield b"ent"
"""
PLACES = ("before", "after", "generator", "body", "middle", "list", "close", "write", "thread")


class WsgiFork(WsgiLoader):
    def lines(self, loader):
        path = os.path.join(loader.app_root, "report")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return file.read().splitlines()

    def state(self, pid):
        """Return the state of a child and its exit code; a child that was waited for is gone."""
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return "X", 0
        return fields[0], int(fields[-1]) >> 8

    def check(self, protocol, threads):
        loader = self.app(APPLICATION, app_threads=threads)
        forks = 0
        for place in PLACES:
            for how, code in (("return", 0), ("raise", 1), ("exit", 7)):
                with self.subTest(place=place, how=how):
                    before = len(self.lines(loader))
                    if protocol == "kept":
                        connection = KeptConnection(loader)
                        self.addCleanup(connection.close)
                        connection.conn.sendall(self.request(PATH_INFO="/fork", QUERY_STRING=f"{place},{how}"))
                        self.assertEqual(connection.answer().body, b"parent")
                        # The next client's request, while the child still runs.
                        connection.conn.sendall(b"\0\0\0\0")
                        connection.send(PATH_INFO="/plain", QUERY_STRING="bob")
                        self.assertEqual(connection.answer().body, b"bob")
                    else:
                        answer = self.ask(loader, PATH_INFO="/fork", QUERY_STRING=f"{place},{how}")
                        self.assertTrue(answer.endswith(b"\r\n\r\nparent"), answer)
                    forks += 1
                    wanted = 3 + (place not in ("before", "generator"))
                    self.eventually(lambda: len(self.lines(loader)) >= before + wanted)
                    lines = self.lines(loader)[before:]
                    self.assertIn("sockets: 0", lines)
                    self.assertTrue(any(line in ("raw: ClientGone", "raw: ValueError", "raw: ZeroDivisionError") for line in lines), lines)
                    if wanted == 4:
                        self.assertIn("write: ClientGone", lines)
                    pid = next(line for line in lines if line.startswith("forked")).split()[1]
                    self.eventually(lambda: self.state(pid)[0] in "ZX")
                    if self.state(pid)[0] == "Z" and place != "thread":
                        self.assertEqual(self.state(pid)[1], code)
        self.assertNotIn("atexit", self.lines(loader))
        self.assertEqual(forks, 3 * len(PLACES))

    def request(self, **variables):
        return head(REQUEST_METHOD="POST", **variables) + frame(b"alice's")

    def ask(self, loader, **variables):
        with loader.connect("session") as conn:
            conn.sendall(head(REQUEST_METHOD="POST", CONTENT_LENGTH="7", **variables) + b"alice's")
            return b"".join(iter(lambda: conn.recv(1 << 16), b""))

    def test_a_child_of_a_request_in_a_kept_session(self):
        self.check("kept", "1")

    def test_a_child_of_a_request_on_one_of_several_threads(self):
        self.check("kept", "3")

    def test_a_child_of_a_request_in_the_session_protocol(self):
        self.check("session", "1")

    def test_a_child_of_a_c_library(self):
        """No hook of Python runs in the child."""
        loader = self.app("""
            import ctypes, time
            libc = ctypes.PyDLL(None)
            def application(environ, start_response):
                write = start_response("200 OK", [])
                if environ["PATH_INFO"] == "/fork":
                    pid = libc.fork()
                    if pid == 0:
                        time.sleep(0.2)
                        return [b"the child's"]
                    with open("report", "a") as file: file.write(f"forked {pid}\\n")
                if environ["PATH_INFO"] == "/slow": time.sleep(0.5)
                return [environ["QUERY_STRING"].encode()]
        """)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        connection.send(PATH_INFO="/fork", QUERY_STRING="alice")
        self.assertEqual(connection.answer().body, b"alice")
        connection.send(PATH_INFO="/slow", QUERY_STRING="bob")
        self.assertEqual(connection.answer().body, b"bob")
        pid = self.lines(loader)[0].split()[1]
        self.eventually(lambda: self.state(pid)[0] in "ZX")

    def test_a_hook_that_the_application_registers_for_its_children(self):
        loader = self.app("""
            import os
            kept = []
            def hook():
                if kept:
                    names = (f"/proc/self/fd/{fd}" for fd in range(3, 100))
                    sockets = sum(os.readlink(name).startswith("socket:") for name in names if os.path.islink(name))
                    with open("report", "a") as file: file.write(f"sockets: {sockets}\\n")
                for write in kept: write(b"the child's")
            os.register_at_fork(after_in_child=hook)
            def application(environ, start_response):
                write = start_response("200 OK", [])
                write(b"al")
                kept.append(write)
                pid = os.fork()
                if pid == 0: os._exit(0)
                os.waitpid(pid, 0)
                kept.clear()
                return [b"ice"]
        """)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        for _ in range(2):
            connection.send()
            self.assertEqual(connection.answer().body, b"alice")
        self.assertEqual(self.lines(loader), ["sockets: 0"] * 2)

    def test_a_child_that_forks_again_closes_no_file_of_its_own(self):
        loader = self.app("""
            import os
            def application(environ, start_response):
                pid = os.fork()
                if pid == 0:
                    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
                    if os.fork() == 0:
                        closed = [fd for fd in files if not os.path.exists(f"/proc/self/fd/{fd}")]
                        with open("report", "w") as file: file.write(f"closed {closed}\\n")
                    os._exit(0)
                os.waitpid(pid, 0)
                start_response("200 OK", [])
                return [b"alice"]
        """)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        connection.send()
        self.assertEqual(connection.answer().body, b"alice")
        self.eventually(lambda: self.lines(loader))
        self.assertEqual(self.lines(loader), ["closed []"])

    def test_a_child_of_a_hook(self):
        loader = self.app("""
            import os, cabrank

            @cabrank.on_start
            def start():
                pid = os.fork()
                if pid:
                    with open("report", "a") as file: file.write(f"forked {pid}\\n")

            def application(environ, start_response):
                start_response("200 OK", [])
                return [str(os.getpid()).encode()]
        """)
        pid = self.lines(loader)[0].split()[1]
        self.eventually(lambda: self.state(pid)[0] in "ZX")
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        connection.send()
        self.assertEqual(connection.answer().body, str(loader.process.pid).encode())

    def test_a_child_outside_of_a_request(self):
        loader = self.app("""
            import os, signal

            def report(line):
                with open("report", "a") as file: file.write(line + "\\n")

            def handle(*_):
                pid = os.fork()
                if pid: report(f"forked {pid}")

            signal.signal(signal.SIGUSR1, handle)
            handle()  # the child of the startup file returns into the loader

            def application(environ, start_response):
                start_response("200 OK", [])
                return [environ["QUERY_STRING"].encode()]
        """)
        for number in range(1, 4):
            self.eventually(lambda: len(self.lines(loader)) >= number)
            pid = self.lines(loader)[-1].split()[1]
            self.eventually(lambda: self.state(pid)[0] in "ZX")
            connection = KeptConnection(loader)
            self.addCleanup(connection.close)
            connection.send(PATH_INFO="/plain", QUERY_STRING="bob")
            self.assertEqual(connection.answer().body, b"bob")
            os.kill(loader.process.pid, signal.SIGUSR1)


if __name__ == "__main__":
    unittest.main()
