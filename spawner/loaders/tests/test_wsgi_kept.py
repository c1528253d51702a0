"""The loader of WSGI applications over connections that stay open."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import unittest

from common import EXAMPLES, WsgiLoader
from driver import DEADLINE, PASSWORD, KeptConnection, frame, head, kept_session, session
from wsgi_answers import WsgiAnswers


class WsgiOverKept(WsgiAnswers, WsgiLoader):
    session = staticmethod(kept_session)

    def test_one_connection_serves_request_after_request(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        self.assertEqual(loader.sockets["kept"][:2], ("kept_session", "1"))
        self.assertEqual(stat.S_IMODE(os.stat(loader.sockets["kept"][2]).st_mode), 0o600)
        first, second = KeptConnection(loader), KeptConnection(loader)
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        for number in range(1, 20):
            connection = first if number % 3 else second
            connection.send()
            self.assertIn(f"<strong>{number}</strong> requests".encode() if number > 1 else b"<strong>", connection.answer().body)
        # Both at once: the loader serves one after the other.
        for connection in (first, second):
            connection.send(PATH_INFO="/env", QUERY_STRING="x")
        self.assertIn("200", first.answer().status)
        self.assertIn("200", second.answer().status)

    def test_bytes_may_come_one_by_one(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [e['wsgi.input'].read() + e['HTTP_LONG'].encode()]")
        connection = KeptConnection(loader)
        for byte in head(HTTP_LONG="") + frame(b"one") + frame(b" two") + frame(b""):
            connection.conn.sendall(bytes((byte,)))
        self.assertEqual(connection.answer().body, b"one two")
        connection.send(b"body", HTTP_LONG="x" * 200_000)  # longer than the loader's buffer
        self.assertEqual(len(connection.answer().body), 200_004)
        connection.close()

    def test_an_unread_body_is_discarded_when_it_comes(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [e['wsgi.input'].read(int(e['HTTP_READ']))]")
        connection = KeptConnection(loader)
        other = KeptConnection(loader)
        for read in (0, 2, 5):
            connection.conn.sendall(head(HTTP_READ=read) + frame(b"abc")[:5])
            if read == 5:
                connection.conn.sendall(b"bc" + frame(b"defg"))
            elif read == 2:
                connection.conn.sendall(b"b")
            self.assertEqual(connection.answer().body, b"abcde"[:read])
            other.send(HTTP_READ=0)  # the process is free
            self.assertFalse(other.answer().cut)
            connection.conn.sendall(b"bc"[read // 2:] + frame(bytes(300_000)) + frame(b"") if read < 5 else frame(b""))
        connection.send(b"next", HTTP_READ=9)
        self.assertEqual(connection.answer().body, b"next")
        connection.close()
        other.close()

    def test_answers_are_streamed_and_end_after_close(self):
        loader = self.app("""
            import os, sys
            class Body:
                def __init__(self, path): self.path = path
                def __iter__(self):
                    yield b"one"
                    while not os.path.exists(self.path): pass
                    yield b"two"
                def close(self):
                    os.rename(self.path, self.path + ".closed")
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/large":
                    start_response("200 OK", [])
                    return [bytes(40_000_000)]
                if environ["PATH_INFO"] == "/none":
                    start_response("204 No Content", [])
                    return []
                if environ["PATH_INFO"] == "/broken":
                    class Broken(list):
                        def close(self): 1 / 0
                    start_response("200 OK", [])
                    return Broken([b"whole"])
                start_response("200 OK", [("Content-Length", "6")])
                return Body(environ["PATH_INFO"])
        """)
        connection = KeptConnection(loader)
        path = os.path.join(loader.root, "go")
        connection.send(PATH_INFO=path)
        self.assertEqual(connection.frame()[0], "H")
        self.assertEqual(connection.frame(), ("D", b"one"))
        open(path, "w").close()
        self.assertEqual(connection.frame(), ("D", b"two"))
        self.assertEqual(connection.frame(), ("E", b""))
        self.assertTrue(os.path.exists(path + ".closed"))
        connection.send(PATH_INFO="/large")  # several frames
        self.assertEqual(len(connection.answer().body), 40_000_000)
        connection.send(PATH_INFO="/none")
        self.assertEqual(connection.answer().raw, b"Status: 204 No Content\r\n\r\n")
        connection.send(PATH_INFO="/broken")  # the answer was complete before the error
        self.assertEqual(connection.answer().body, b"whole")
        self.assertIn("ZeroDivisionError", loader.read_stderr())
        connection.close()

    def test_abandoned_requests(self):
        loader = self.app("""
            import itertools, socket
            socket.setdefaulttimeout(0.001)  # for the application's own connections only
            def application(environ, start_response):
                write = start_response("200 OK", [])
                if environ["PATH_INFO"] == "/endless":
                    return (b"x" for _ in itertools.count())
                for _ in range(100 if environ["PATH_INFO"] == "/deaf" else 0):
                    try: write(b"x" * 10_000)
                    except ConnectionError: pass
                return [environ["wsgi.input"].read()]
        """)
        self.assertEqual(self.session(loader, b"x" * 70_000).body, b"x" * 70_000)
        for path in ("/endless", "/deaf", "/read"):
            for leave in (lambda conn: conn.shutdown(socket.SHUT_WR), socket.socket.close):
                with self.subTest(path):
                    connection = KeptConnection(loader)
                    connection.conn.sendall(head(PATH_INFO=path) + (frame(b"part of a body") if path == "/read" else frame(b"")))
                    if path != "/read":
                        connection.frame()
                    leave(connection.conn)
                    self.assertEqual(self.session(loader, b"alive").body, b"alive")
                    if connection.conn.fileno() >= 0:
                        while connection.conn.recv(1 << 16):
                            pass  # ends: the loader closes the connection
                    connection.close()
        # A request that is abandoned before its only write: the answer ends as if it were not.
        connection = KeptConnection(loader)
        connection.send(b"body")
        connection.conn.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.answer().body, b"body")
        self.assertIsNone(connection.frame())
        connection.close()
        self.assertFalse(loader.read_stderr())

    def test_what_the_application_keeps_belongs_to_its_request(self):
        loader = self.app("""
            kept = []
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/keep":
                    kept.append((environ["wsgi.input"], start_response("200 OK", [])))
                    return [b"kept"]
                for call in (lambda: kept[0][0].read(), lambda: kept[0][1](b"late")):
                    try: call()
                    except Exception as error: print(type(error).__name__, flush=True)
                start_response("200 OK", [])
                return [b"fine"]
        """)
        connection = KeptConnection(loader)
        connection.conn.sendall(head(PATH_INFO="/keep") + frame(b"unread"))
        self.assertEqual(connection.answer().body, b"kept")
        connection.conn.sendall(frame(b""))
        connection.send(PATH_INFO="/use")
        self.assertEqual(connection.answer().body, b"fine")
        self.assertEqual((loader.lines.readline(), loader.lines.readline()), (b"ValueError\n", b"RuntimeError\n"))
        connection.close()

    def test_the_head_has_the_characters_that_were_checked(self):
        loader = self.app("""
            class Text(str):
                def __format__(self, spec): return "split\\r\\nX-Evil: 1"
            def application(environ, start_response):
                start_response(Text("201 Created"), [("X-Text", Text("text"))])
                return [b"body"]
        """)
        answer = self.session(loader)
        self.assertEqual((answer.status, answer.headers["X-Text"], answer.body), ("Status: 201 Created", "text", b"body"))
        self.assertNotIn(b"X-Evil", answer.raw)

    def test_refused_requests_end_the_connection(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [b'ok']")
        for first in (head(PASSENGER_CONNECT_PASSWORD="wrong"), head(PASSENGER_CONNECT_PASSWORD=None),
                      b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\5a\0b\0c", b"\0\0\0\0", head(REQUEST_METHOD=""), b"\xff" * 4):
            with self.subTest(first):
                connection = KeptConnection(loader)
                connection.conn.sendall(first + frame(b""))
                self.assertIsNone(connection.frame())
                connection.close()
        for garbage in (head() + frame(b"") + b"more", head() + frame(b"body") + frame(b"") + head()):
            connection = KeptConnection(loader)
            connection.conn.sendall(garbage)
            self.assertEqual(connection.frame()[0], "H")
            while connection.frame():
                pass
            connection.close()
        connection = KeptConnection(loader)  # half a head, and then its end
        connection.conn.sendall(head()[:20])
        connection.conn.shutdown(socket.SHUT_WR)
        self.assertIsNone(connection.frame())
        connection.close()
        self.assertEqual(self.session(loader).body, b"ok")
        self.assertIn("wrong connect password", loader.read_stderr())
        self.assertNotIn(PASSWORD, loader.read_stderr())

    def test_a_forked_child_leaves_connections_alone(self):
        loader = self.app("""
            import os, time
            def application(environ, start_response):
                start_response("200 OK", [])
                pid = os.fork()
                if pid == 0 and environ["PATH_INFO"] == "/stay":
                    time.sleep(60)
                if environ["PATH_INFO"] == "/stay":
                    return late(pid)
                return [str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode() if pid else b"child"]
            def late(pid):
                yield str(pid).encode()
                1 / 0
        """)
        self.assertEqual(self.session(loader).body, b"0")  # the child returned from the application, and ended
        answer = self.session(loader, PATH_INFO="/stay")  # aborted, although the child still holds the connection
        self.assertTrue(answer.cut)
        os.kill(int(answer.body), signal.SIGKILL)
        self.assertEqual(self.session(loader).body, b"0")
        self.assertTrue(all(os.path.exists(path) for _, _, path in loader.sockets.values()))

    def test_an_application_under_the_validator(self):
        loader = self.app("""
            from wsgiref.validate import validator
            @validator
            def application(environ, start_response):
                body = b"".join(environ["wsgi.input"])
                start_response("200 OK", [("Content-Type", "text/plain"), ("X-Method", environ["REQUEST_METHOD"])])
                if environ["QUERY_STRING"] == "stream":
                    return (chunk for chunk in (b"got ", body))
                return [b"got ", body]
        """)
        common = dict(SERVER_NAME="localhost", SERVER_PORT="80", SCRIPT_NAME="")
        for method, body in (("GET", b""), ("POST", b"a\nb"), ("POST", bytes(200_000)), ("HEAD", b"")):
            for query in ("", "stream"):
                with self.subTest(method + query):
                    length = {"CONTENT_LENGTH": len(body)} if body else {}
                    answer = self.session(loader, body, REQUEST_METHOD=method, QUERY_STRING=query, **common, **length)
                    self.assertEqual((answer.status, answer.cut), ("Status: 200 OK", False))
                    self.assertEqual(answer.headers["X-Method"], method)
                    self.assertEqual(answer.body, b"" if method == "HEAD" else b"got " + body)
        self.assertFalse(loader.read_stderr())

    def test_backtrace_on_request(self):
        loader = self.app("""
            import threading, time
            started = threading.Event()
            def stuck_in_a_thread():
                started.set()
                time.sleep(60)
            def stuck(environ):
                print("begun", flush=True)
                environ["wsgi.input"].read()
            def application(environ, start_response):
                threading.Thread(target=stuck_in_a_thread, daemon=True).start()
                started.wait()
                stuck(environ)
                start_response("200 OK", [])
                return [b"went on"]
        """)
        connection = KeptConnection(loader)
        connection.conn.sendall(head())
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: "in serve_until_readable" in loader.read_stderr())
        for name in ("in stuck_in_a_thread", "in stuck\n", "in application"):
            self.assertIn(name, loader.read_stderr())
        connection.conn.sendall(frame(b""))
        self.assertEqual(connection.answer().body, b"went on")
        connection.close()

    def test_shutdown(self):
        loader = self.app("""
            def application(environ, start_response):
                print("begun", flush=True)
                environ["wsgi.input"].read()
                start_response("200 OK", [])
                return [b"finished"]
        """)
        idle = KeptConnection(loader)
        busy = KeptConnection(loader)
        busy.conn.sendall(head())
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.channel.sendall(b"x")
        busy.conn.sendall(frame(b""))
        self.assertEqual(busy.answer().body, b"finished")  # a running request is finished first
        self.check_exit(loader)
        self.assertIsNone(idle.frame())
        self.assertFalse(os.path.exists(loader.sockets["kept"][2]))
        idle.close()
        busy.close()

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_three_system_calls_per_request(self):
        loader = self.app("def application(e, s): s('200 OK', [('Content-Type', 'text/plain')]); return [b'hello']")
        self.session(loader)
        trace = os.path.join(loader.root, "trace")
        with open(os.path.join(loader.root, "strace"), "w+") as log:
            tracer = subprocess.Popen(["strace", "-o", trace, "-p", str(loader.process.pid)], stderr=log)
            self.eventually(lambda: tracer.poll() is not None or os.path.getsize(log.name))
            if tracer.poll() is not None:
                self.skipTest("this system does not allow strace")
            for _ in range(100):
                self.assertEqual(self.session(loader).body, b"hello")
            tracer.send_signal(signal.SIGINT)
            tracer.wait(DEADLINE)
        with open(trace) as file:
            calls = [line.partition("(")[0] for line in file if not line.startswith(("strace", "---", "+++"))]
        self.assertLessEqual(len(calls), 3 * 100 + 5, calls)
