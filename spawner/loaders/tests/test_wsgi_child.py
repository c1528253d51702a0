"""Children of a WSGI application that are forked at unusual moments: beside a thread that waits, and outside of the application's
plain code. None of them takes anything of its parent's, or holds an answer of its parent up."""

import os
import signal

from common import WsgiLoader
from driver import KeptConnection, frame, head, kept_session, session

FORKS = """
import ctypes, os, signal, threading, time
libc = ctypes.PyDLL(None)
def report(line):
    with open("report", "a") as file: file.write(line + "\\n")
def fork(how="c"):
    "Fork by Python, or by a C library, which runs no hook of Python."
    pid = os.fork() if how == "python" else libc.fork()
    if pid: report(f"forked {pid}")
    return pid
def sockets():
    names = (f"/proc/self/fd/{fd}" for fd in range(3, 100))
    return sum(os.readlink(name).startswith("socket:") for name in names if os.path.islink(name))
"""


class WsgiChild(WsgiLoader):
    def forking(self, source, **options):
        return self.app(FORKS.replace("\n", "\n            ") + source, **options)

    def lines(self, loader, start=""):
        path = os.path.join(loader.app_root, "report")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [line for line in file.read().splitlines() if line.startswith(start)]

    def children(self, loader):
        return [int(line.split()[1]) for line in self.lines(loader, "forked")]

    def is_alive(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def connection(self, loader):
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        return connection

    def test_a_child_beside_a_thread_that_waits_for_the_body(self):
        """The child lives on. It holds no answer up."""
        for how in ("python", "c"):
            with self.subTest(how):
                loader = self.forking("""
            def application(environ, start_response):
                start_response("200 OK", [])
                if environ["PATH_INFO"] == "/plain": return [b"bob"]
                waits = threading.Event()
                def read():
                    waits.set()
                    try: environ["wsgi.input"].read()
                    except OSError as error: report(f"read {type(error).__name__}")
                threading.Thread(target=read).start()
                waits.wait()
                time.sleep(0.1)  # the thread is in the system's wait
                if fork(environ["QUERY_STRING"]) == 0:
                    report(f"sockets {sockets()}")
                    while not os.path.exists("end"): time.sleep(0.01)
                    os._exit(0)
                return [b"alice"]
                """)
                connection = self.connection(loader)
                connection.conn.sendall(head(QUERY_STRING=how) + frame(b"alice"))
                try:
                    self.assertEqual(connection.answer().body, b"alice")
                    connection.conn.sendall(frame(b""))
                    connection.send(PATH_INFO="/plain")
                    self.assertEqual(connection.answer().body, b"bob")
                    self.eventually(lambda: self.lines(loader, "read") and self.lines(loader, "sockets"))
                    self.assertEqual(self.lines(loader, "read"), ["read ClientGone"])
                    self.assertTrue(self.is_alive(self.children(loader)[0]))
                    if how == "python":
                        self.assertEqual(self.lines(loader, "sockets"), ["sockets 0"])
                finally:
                    with open(os.path.join(loader.app_root, "end"), "w"):
                        pass

    OUTSIDE = """
            def handle(*_): fork()
            signal.signal(signal.SIGUSR1, handle)
            class Body(list):
                def __del__(self): fork()
            class Error(Exception):
                def __str__(self): return f"text {fork()}"
            def application(environ, start_response):
                path = environ["PATH_INFO"]
                if path == "/raise": raise Error
                start_response("200 OK", [])
                text = f"{os.getpid()} {environ['QUERY_STRING']}".encode()
                return Body([text]) if path == "/del" else [text]
    """

    def check_outside(self, exchange, **options):
        loader = self.forking(self.OUTSIDE, **options)
        parent = loader.process.pid
        for path in ("/del", "/raise", "/signal"):
            with self.subTest(path):
                before = len(self.children(loader))
                if path == "/signal":
                    os.kill(parent, signal.SIGUSR1)
                else:
                    answer = exchange(loader, PATH_INFO=path, QUERY_STRING="alice")
                    self.assertTrue(answer.body.startswith(b"The app" if path == "/raise" else b"%d alice" % parent), answer.raw)
                self.eventually(lambda: len(self.children(loader)) > before)
                for number in range(30):
                    answer = exchange(loader, PATH_INFO="/plain", QUERY_STRING=str(number))
                    self.assertEqual(answer.body, b"%d %d" % (parent, number))
                if options and path == "/signal":
                    continue  # each event may reach a thread of the parent, so the child may wait for ever
                for pid in self.children(loader):
                    self.eventually(lambda: not self.is_alive(pid))
        self.assertIsNone(loader.process.poll())

    def test_a_child_of_a_c_library_outside_of_the_code_of_a_request(self):
        """By a signal handler, a finalizer, and an exception that describes itself."""
        self.check_outside(kept_session)
        self.check_outside(session)

    def test_a_child_of_a_c_library_on_one_of_several_threads(self):
        self.check_outside(kept_session, app_threads="3")
        self.check_outside(session, app_threads="3")

    def test_a_child_beside_a_thread_that_is_within_a_write(self):
        """The lock of the answer is held for ever in the child."""
        loader = self.forking("""
            def application(environ, start_response):
                kind, how = environ["QUERY_STRING"].split(",")
                write = start_response("200 OK", [])
                write(b"begin")
                def fill():
                    try:
                        while True: write(bytes(1 << 20))
                    except Exception as error: report(f"fill {type(error).__name__}")
                threading.Thread(target=fill).start()
                time.sleep(0.2)  # the thread is within a write
                class Body:
                    def __iter__(self):
                        fork(how)
                        return iter(())
                def generator():
                    fork(how)
                    return
                    yield
                def failing():
                    if fork(how) == 0: raise KeyError("in the child")
                    return
                    yield
                return {"generator": generator, "body": Body, "failing": failing}[kind]()
        """)
        for how in ("python", "c"):
            for kind in ("generator", "body", "failing"):
                with self.subTest(how=how, kind=kind):
                    before = len(self.children(loader))
                    connection = self.connection(loader)
                    connection.conn.sendall(head(QUERY_STRING=f"{kind},{how}") + frame(b""))
                    self.eventually(lambda: len(self.children(loader)) > before)
                    pid = self.children(loader)[-1]
                    try:
                        self.eventually(lambda: not self.is_alive(pid))
                    finally:
                        if self.is_alive(pid):
                            os.kill(pid, signal.SIGKILL)
                        connection.close()
                    self.eventually(lambda: len(self.lines(loader, "fill")) > before)
