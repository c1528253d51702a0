"""Drive the WSGI and the Node loader as the agent does, and check their handshakes and answers.

    python3 agent/loaders/test_loaders.py

Each test starts its own loader on a socketpair, with its own application. A loader takes a tenth of a second to start, so
a test sends several requests to one process. Tests never wait for a fixed time: reads have a deadline, and other changes
are polled for.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from driver import DEADLINE, PASSWORD, KeptConnection, Loader, frame, head, kept_session, session

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")


class LoaderTest(unittest.TestCase):
    def start(self, *args, **options):
        loader = Loader(self.command, *args, **options)
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
    command = [sys.executable, os.path.join(HERE, "wsgi-loader.py")]

    def app(self, source, **options):
        return self.start("passenger_wsgi.py", source, **options)


class WsgiAnswers:
    """Tests that hold in both protocols. `session` sends a request and returns the answer."""

    def test_example_through_every_page(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        self.check_ready(loader, "wsgi", "session", "1")
        first = self.session(loader)
        self.assertEqual(first.status, "Status: 200 OK")
        self.assertEqual(len(first.body), int(first.headers["Content-Length"]))
        self.assertIn(f"<strong>{loader.process.pid}</strong>".encode(), first.body)
        self.assertIn(b"<strong>2</strong> requests", self.session(loader).body)
        self.assertEqual(self.session(loader, PATH_INFO="/slow", QUERY_STRING="ms=1").body,
                         f"{loader.process.pid} slept for 1 ms\n".encode())
        self.assertIn("404", self.session(loader, PATH_INFO="/nowhere").status)
        self.assertIn(b"<form", self.session(loader, PATH_INFO="/upload").body)
        self.assertEqual(len(self.session(loader, PATH_INFO="/stream").body.splitlines()), 10)
        seen = self.session(loader, PATH_INFO="/env", HTTPS="on", HTTP_CONTENT_LENGTH="5", HTTP_X_NAME="\xe9")
        environ = json.loads(seen.body)["environ"]
        self.assertEqual((environ["HTTP_X_NAME"], environ["wsgi.url_scheme"], environ["CONTENT_LENGTH"]), ("\xe9", "https", "5"))
        self.assertEqual((environ["SCRIPT_NAME"], environ["wsgi.input_terminated"]), ("", True))
        self.assertEqual((environ["wsgi.multithread"], environ["wsgi.multiprocess"]), (False, True))
        self.assertFalse({"PASSENGER_CONNECT_PASSWORD", "HTTP_CONTENT_LENGTH"} & set(environ))
        self.assertTrue(self.session(loader, REQUEST_METHOD="POST", PATH_INFO="/crash").cut)
        self.assertEqual(loader.process.wait(DEADLINE), -signal.SIGKILL)

    def test_bodies(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        body = os.urandom(5_000_000)
        echo = dict(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_TYPE="x/y")
        answer = self.session(loader, body, CONTENT_LENGTH=len(body), half_close=False, **echo)
        self.assertTrue(answer.body == body and answer.headers["Content-Type"] == "x/y" and not answer.cut)
        self.assertTrue(self.session(loader, body, **echo).body == body)  # without a length
        # The application does not read this body, but the answer must still end without a reset.
        ignored = self.session(loader, body, CONTENT_LENGTH=len(body), REQUEST_METHOD="POST")
        self.assertTrue(ignored.body.endswith(b"</html>\n") and not ignored.cut)
        self.assertFalse(self.session(loader).cut)

    def test_output_of_the_application_does_not_break_the_handshake(self):
        loader = self.app("""
            import os, sys
            print("loading"); print("unfinished", end=""); os.write(1, b" business")
            sys.stderr.write("to the log\\n")
            def application(environ, start_response):
                print("serving")
                assert sys.stdin.read() == ""
                start_response("200 OK", [])
                return [b"ok"]
        """)
        self.assertEqual(loader.output.strip(), b"loading\nunfinished business")
        self.assertEqual(self.session(loader).body, b"ok")
        self.assertEqual(loader.lines.readline(), b"serving\n")
        self.assertIn("to the log", loader.read_stderr())

    def test_errors_of_the_application(self):
        loader = self.app("""
            import os, sys
            closed = []
            class Body(list):
                def close(self): closed.append(1)
            def application(environ, start_response):
                path = environ["PATH_INFO"]
                if path == "/early": raise KeyError("early")
                if path == "/exit": sys.exit(3)
                if path == "/split": start_response("200 OK", [("X", "a\\r\\nSet-Cookie: b")])
                if path == "/name": start_response("200 OK", [("X Y", "a")])
                if path == "/status": start_response("200 OK\\r\\nX: y", [])
                if path == "/str": start_response("200 OK", []); return Body(["text"])
                if path == "/none": return []
                if path == "/twice": start_response("200 OK", []); start_response("200 OK", []); return []
                if path == "/long": start_response("200 OK", [("Content-Length", "3")]); return Body([b"abcdef"])
                if path == "/late": return late(start_response, [])
                if path == "/late-length": return late(start_response, [("Content-Length", "10")])
                if path == "/fork" and os.fork() == 0: sys.exit(7)
                if path == "/fork": start_response("200 OK", []); return [str(os.waitstatus_to_exitcode(os.wait()[1])).encode()]
                if path == "/closed": start_response("200 OK", []); return [str(len(closed)).encode()]
            def late(start_response, headers):
                start_response("200 OK", headers)
                yield b"begun"
                raise KeyError("late")
        """)
        for path in ("/early", "/exit", "/split", "/name", "/status", "/str", "/none", "/twice"):
            with self.subTest(path):
                answer = self.session(loader, PATH_INFO=path)
                self.assertEqual(answer.status, "Status: 500 Internal Server Error")
                self.assertEqual(len(answer.body), int(answer.headers["Content-Length"]))
                self.assertFalse(answer.cut)
                self.assertNotIn(b"Error: ", answer.body)  # the details belong in the log
        self.assertIn("KeyError: 'early'", loader.read_stderr())
        self.assertEqual(self.session(loader, PATH_INFO="/long").body, b"abc")
        late = self.session(loader, PATH_INFO="/late")
        self.assertEqual((late.body, late.cut), (b"begun", True))
        self.assertTrue(self.session(loader, PATH_INFO="/late-length").short)
        self.assertEqual(self.session(loader, PATH_INFO="/closed").body, b"2")
        self.assertEqual(self.session(loader, PATH_INFO="/fork").body, b"7")  # the forked child does not answer, serve or clean up
        self.assertTrue(os.path.exists(loader.path))

    def test_optional_parts_of_wsgi(self):
        loader = self.app("""
            import sys
            def application(environ, start_response):
                path = environ["PATH_INFO"]
                if path == "/write":
                    write = start_response("200 OK", [("Connection", "close")])
                    write(b"one "); write(b"two ")
                    return [b"three"]
                if path == "/exc_info":
                    start_response("200 OK", [])
                    try: raise KeyError
                    except KeyError: start_response("503 Busy", [("Retry-After", "1")], sys.exc_info())
                    return [b"sorry"]
                if path == "/lines":
                    start_response("200 OK", [])
                    return [b"|".join(environ["wsgi.input"])]
                start_response(path[1:], [("Content-Length", "4")] if path[1:] == "200 OK" else [])
                return iter([b"", b"body"])
        """)
        written = self.session(loader, PATH_INFO="/write")
        self.assertEqual((written.body, written.headers), (b"one two three", {}))
        handled = self.session(loader, PATH_INFO="/exc_info")
        self.assertEqual((handled.status, handled.body, handled.headers["Content-Length"]), ("Status: 503 Busy", b"sorry", "5"))
        self.assertEqual(self.session(loader, b"a\nb", PATH_INFO="/lines", CONTENT_LENGTH="3").body, b"a\n|b")
        for method, path in (("HEAD", "/200 OK"), ("GET", "/204 No Content"), ("GET", "/304 Not Modified")):
            answer = self.session(loader, REQUEST_METHOD=method, PATH_INFO=path)
            self.assertEqual((answer.status, answer.body, answer.cut), ("Status: " + path[1:], b"", False))


class WsgiOverSession(WsgiAnswers, WsgiLoader):
    session = staticmethod(session)

    def test_ping(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [b'ok']")
        self.assertEqual(session(loader, REQUEST_METHOD="PING").raw, b"pong")
        self.assertEqual(kept_session(loader, REQUEST_METHOD="PING").body, b"ok")  # an ordinary unknown method

    def test_half_a_body_does_not_look_complete(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        echo = dict(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_TYPE="x/y")
        self.assertEqual(session(loader, bytes(1000), CONTENT_LENGTH=2000, **echo).raw, b"")
        self.assertFalse(session(loader).cut)

    def test_body_is_streamed_both_ways(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        with loader.connect() as conn:
            conn.sendall(head(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_LENGTH=200_000) + bytes(100_000))
            self.assertIn(b"Status: 200 OK", conn.recv(1 << 16))  # before the second half was sent
            conn.sendall(bytes(100_000))
            while conn.recv(1 << 16):
                pass

    def test_refused_connections(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [b'ok']")
        for first in (head(PASSENGER_CONNECT_PASSWORD="wrong"), head(PASSENGER_CONNECT_PASSWORD=None),
                      b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\5a\0b\0c", b"\0\0\0\0", b"\0\0", b"", head(REQUEST_METHOD=""),
                      head(CONTENT_LENGTH="-1")):
            with self.subTest(first), loader.connect() as conn:
                conn.sendall(first)
                conn.shutdown(socket.SHUT_WR)
                try:
                    self.assertEqual(conn.recv(1), b"")
                except ConnectionResetError:
                    pass
        self.assertEqual(session(loader).body, b"ok")
        self.assertIn("wrong connect password", loader.read_stderr())
        self.assertNotIn(PASSWORD, loader.read_stderr())

    def test_a_client_that_leaves_does_no_harm(self):
        loader = self.app("""
            import itertools
            def application(environ, start_response):
                start_response("200 OK", [])
                if environ["PATH_INFO"] == "/endless":
                    return (bytes(100_000) for _ in itertools.count())
                return [environ["wsgi.input"].read()]
        """)
        for path, size, closing in (("/endless", 0, lambda conn: conn.recv(10)), ("/read", 9, lambda conn: None)):
            with loader.connect() as conn:
                conn.sendall(head(PATH_INFO=path, CONTENT_LENGTH=size) + b"part"[:size])
                closing(conn)
        self.assertEqual(session(loader, b"alive").body, b"alive")
        self.assertFalse(loader.read_stderr())

    def test_shutdown(self):
        source = """
            import sys, time
            def application(environ, start_response):
                print("begun")
                environ["wsgi.input"].read()
                start_response("200 OK", [])
                return [b"finished"]
        """
        for order in (lambda channel: channel.sendall(b"x"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.app(source)
            loader.process.send_signal(signal.SIGINT)
            self.assertEqual(session(loader).body, b"finished")
            loader.lines.readline()
            with loader.connect() as conn:  # a running request is finished first
                conn.sendall(head())
                self.assertEqual(loader.lines.readline(), b"begun\n")
                order(loader.channel)
                conn.shutdown(socket.SHUT_WR)
                self.assertIn(b"finished", conn.recv(1000))
            self.check_exit(loader)
        loader = self.app(source)
        with loader.connect() as conn:
            conn.sendall(head())
            loader.lines.readline()
            loader.process.terminate()
            self.check_exit(loader, 128 + signal.SIGTERM)


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
        self.assertEqual((loader.lines.readline(), loader.lines.readline()), (b"ClientGone\n", b"RuntimeError\n"))
        connection.close()

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


class Wsgi(WsgiLoader):
    def test_module_and_path(self):
        loader = self.start("entry.py", """
            import sys, entry, helper
            assert __name__ == "entry" and entry.__dict__ is globals() and __file__ == sys.path[0] + "/entry.py"
            def application(e, s): s('200 OK', []); return [helper.TEXT]
            """, app_root=self.app_with("helper.py", "TEXT = b'from the helper'"), nonblocking=True)
        self.assertEqual(session(loader).body, b"from the helper")

    def app_with(self, name, source):
        root = tempfile.mkdtemp(prefix="cr")
        self.addCleanup(shutil.rmtree, root)
        with open(os.path.join(root, name), "w") as file:
            file.write(source)
        return root

    def test_start_up_script_may_choose_another_interpreter(self):
        loader = self.app("""
            import os, sys
            if "SECOND" not in os.environ:
                os.environ["SECOND"] = "1"
                os.execl(sys.executable, sys.executable, *sys.argv)
            def application(e, s): s('200 OK', []); return [b'ok']
        """)
        self.assertEqual(session(loader).body, b"ok")

    def test_applications_that_cannot_be_loaded(self):
        for source, expected in (
            ("import no_such_module", 'passenger_wsgi.py", line 1'),
            ("def application(:", "SyntaxError"),
            ("app = 1", "does not define `application`"),
            ("application = 1", "has the type int"),
            ("import sys; print('!'); sys.exit('gave up')", "SystemExit: gave up"),
            ("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); 1/0", "ZeroDivisionError"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertNotIn("wsgi-loader.py", loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
        self.assertIn("longer than", self.app("1", generation_dir="/" + "x" * 90).error)
        self.assertIn("Cannot listen", self.app("application = print", generation_dir="/nowhere").error)


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class Node(LoaderTest):
    command = ["node", os.path.join(HERE, "node-loader.js")]

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

    def test_example_through_every_page(self):
        loader = self.start("app.js", app_root=os.path.join(EXAMPLES, "node"))
        self.check_ready(loader, "node", "http_session", "0")
        self.assertIn(b"listening on " + loader.path.encode(), loader.output)  # the callback ran, and address() is the path
        conn = self.http(loader)  # one connection for all requests
        self.assertIn(f"<strong>{loader.process.pid}</strong>".encode(), self.ask(conn)[1])
        self.assertIn(b"<strong>2</strong> requests", self.ask(conn)[1])
        self.assertEqual(self.ask(conn, "/slow?ms=1"), (200, f"{loader.process.pid} slept for 1 ms\n".encode()))
        self.assertEqual(self.ask(conn, "/slow?ms=x")[0], 400)
        self.assertEqual(self.ask(conn, "/nowhere")[0], 404)
        self.assertEqual(len(self.ask(conn, "/stream")[1].splitlines()), 10)
        self.assertEqual(json.loads(self.ask(conn, "/env?a=b")[1])["url"], "/env?a=b")
        body = os.urandom(5_000_000)
        loader_conn = self.http(loader)
        self.assertTrue(self.upload(loader_conn, body) == body)
        with loader.connect() as vanishing:
            vanishing.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        self.assertEqual(self.ask(conn)[0], 200)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            conn.request("POST", "/crash")
            conn.getresponse()
        self.assertEqual(loader.process.wait(DEADLINE), -signal.SIGKILL)

    def upload(self, conn, body):
        """Send in a second thread, because the echo begins before the body ends."""
        conn.putrequest("POST", "/upload")
        conn.putheader("Content-Length", str(len(body)))
        conn.endheaders()
        sender = threading.Thread(target=conn.send, args=(body,))
        sender.start()
        data = conn.getresponse().read()
        sender.join(DEADLINE)
        return data

    def test_only_the_first_server_serves_and_a_second_opens_no_port(self):
        loader = self.app("""
            const http = require('http');
            if (require.main !== module || module.parent || process.argv[1] !== __filename) throw new Error('not main');
            process.stdout.write('unfinished');
            const express = { listen(...args) { return http.createServer((q, s) => s.end('first')).listen(...args); } };
            const second = http.createServer((q, s) => s.end('second'));
            const first = express.listen(1, '192.0.2.1', 5, () => {
              first.keepAliveTimeout = 5;
              console.log(JSON.stringify([first.keepAliveTimeout, first.headersTimeout, first.requestTimeout, first.listening]));
              // The second is the same server at another address, as Fastify has it. The third is another server.
              second.listen({ port: 1, host: '::1' }, () => console.log(`second ${second.listening} ${typeof second.address()}`));
              const third = http.createServer().listen(9090, () => third.close(() => console.log('third has closed')));
            });
        """)
        self.assertEqual(loader.output.strip().replace(b"unfinished", b""), b"[0,0,0,true]")
        self.assertEqual(self.ask(self.http(loader)), (200, b"first"))
        self.assertEqual({loader.lines.readline() for _ in range(2)}, {b"second true string\n", b"third has closed\n"})
        self.eventually(lambda: os.listdir(os.path.dirname(loader.path)) == [os.path.basename(loader.path)])
        with open(f"/proc/{loader.process.pid}/net/unix") as file:
            unix = {line.split()[6] for line in list(file)[1:]}
        self.assertTrue(self.sockets(loader) and self.sockets(loader) <= unix)
        warned = loader.read_stderr()
        self.assertTrue("port 9090" in warned and "port 1 " not in warned)

    def sockets(self, loader):
        """Return the inodes of the process's sockets."""
        links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{loader.process.pid}/fd")]
        return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}

    def test_a_server_may_listen_again(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => s.end('ok')).listen(3000, () => {
              setImmediate(() => server.close(() => server.listen(3000, () => console.log('again'))));
            });
        """)
        self.assertEqual(loader.lines.readline(), b"again\n")
        self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))

    def test_the_application_may_choose_the_server(self):
        loader = self.app("""
            const http = require('http');
            PhusionPassenger.configure({ autoInstall: false });
            http.createServer((q, s) => s.end('other')).listen(0, () => {
              http.createServer((q, s) => s.end('chosen')).listen('passenger');
              try { http.createServer().listen('/passenger'); } catch (error) { console.log(error.message); }
            });
        """)
        self.assertIn(b"another server", loader.output)
        self.assertEqual(self.ask(self.http(loader)), (200, b"chosen"))

    def test_es_module(self):
        loader = self.start("app.mjs", """
            import http from 'node:http';
            await null;
            http.createServer((q, s) => s.end('esm')).listen(3000);
        """)
        self.assertEqual(self.ask(self.http(loader)), (200, b"esm"))

    def test_applications_that_cannot_be_loaded(self):
        for source, expected in (
            ("throw new TypeError('at once')", "app.js:1"),
            ("const x = ;", "app.js:1"),
            ("require('./nothing')", "Cannot find module './nothing'"),
            ("setImmediate(() => { throw new TypeError('soon') })", "TypeError: soon"),
            ("Promise.reject(new TypeError('promised'))", "TypeError: promised"),
            ("throw 'a string'", "'a string'"),
            ("process.exit(0)", "exited with code 0 before it called listen()"),
            ("console.log('nothing to do')", "exited with code 0 before it called listen()"),
            ("require('http').createServer().listen(1, () => { throw new Error('in the callback') })", "in the callback"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
                self.assertEqual(os.listdir(os.path.join(loader.root, "g", "backends")), [])
        self.assertIn("longer than", self.app("1", generation_dir="/" + "x" * 90).error)
        loader = self.start("app.mjs", "await null; throw new TypeError('in a module')")
        self.assertIn("TypeError: in a module", loader.error)

    def test_shutdown(self):
        for order in (lambda channel: channel.sendall(b"x"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.app("require('http').createServer((q, s) => s.end('ok')).listen()")
            loader.process.send_signal(signal.SIGINT)
            conn = self.http(loader)
            self.assertEqual(self.ask(conn), (200, b"ok"))
            order(loader.channel)
            self.check_exit(loader)

    def test_handlers_run_before_the_process_exits(self):
        order = """
            const http = require('http');
            const server = http.createServer((q, s) => s.end('ok')).listen();
            setInterval(() => {}, 1000);
            const leave = (kind) => (...with_) => {
              console.log(kind, ...with_);
              server.close(() => setTimeout(() => { console.log('closed'); process.exit(0); }, 20));
            };
        """
        exits, message = "PhusionPassenger.on('exit', leave('exit'));", "process.on('message', leave('message'));"
        term = "process.on('SIGTERM', leave('term'));"
        for handlers, expected in (
            (exits + message + term, b"exit\n"), (message + term, b"message shutdown\n"), (term, b"term SIGTERM 15\n"),
        ):
            with self.subTest(handlers):
                loader = self.app(order + handlers)
                loader.channel.sendall(b"x")
                loader.channel.shutdown(socket.SHUT_WR)
                self.assertEqual(loader.lines.read(), expected + b"closed\n")
                self.check_exit(loader)
                loader = self.app(order + handlers)
                if "term" in handlers:  # Node's own way
                    loader.process.terminate()
                    self.assertEqual(loader.lines.read(), b"term SIGTERM 15\nclosed\n")
                    self.check_exit(loader)
        # A handler that leaves the server open: the process exits when no work is left.
        loader = self.app("""
            require('http').createServer((q, s) => s.end('ok')).listen();
            PhusionPassenger.on('exit', async () => { await null; setTimeout(() => console.log('flushed'), 20); });
        """)
        loader.channel.shutdown(socket.SHUT_WR)
        self.assertEqual(loader.lines.read(), b"flushed\n")
        self.check_exit(loader)

    def test_the_address_of_the_client(self):
        loader = self.app("""
            const http = require('http');
            const of = ({ socket, connection }) =>
              JSON.stringify([socket.remoteAddress, connection.remoteAddress, socket.remoteFamily, socket.remotePort]);
            http.createServer((q, s) => s.end(of(q))).on('upgrade', (q, socket) => socket.end(of(q))).listen(0);
        """)
        conn = self.http(loader)
        for header, expected in (("192.0.2.7", "IPv4"), ("192.0.2.7, 2001:db8::1", "IPv6"), (None, None)):
            conn.request("GET", "/", headers={"X-Forwarded-For": header} if header else {})
            address = header and header.split(", ")[-1]
            self.assertEqual(json.loads(conn.getresponse().read()), [address, address, expected, 0])
        with loader.connect() as upgraded:
            upgraded.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n"
                             b"X-Forwarded-For: 192.0.2.8\r\n\r\n")
            self.assertIn(b'"192.0.2.8"', upgraded.recv(1000))

    def test_sigquit_shows_the_requests_in_progress(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url !== '/done') return console.log('begun');
              s.end('ok');
            }).listen(0);
        """)
        done, stuck = self.http(loader), self.http(loader)
        self.ask(done, "/done")
        stuck.request("GET", "/stuck")
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: "waits for: " in loader.read_stderr())
        report = loader.read_stderr()
        self.assertTrue("GET /stuck" in report and "/done" not in report, report)
        self.assertEqual(self.ask(done, "/done"), (200, b"ok"))

    def test_a_busy_main_thread_shows_its_stack(self):
        loader = self.app("""
            function spin() { for (;;); }
            require('http').createServer((q, s) => q.url === '/spin' ? spin() : s.end('ok')).listen(0);
        """, max_request_time=1000)
        conn = self.http(loader)
        self.assertEqual(self.ask(conn), (200, b"ok"))
        conn.request("GET", "/spin")
        self.eventually(lambda: "at spin (" in loader.read_stderr())
        loader.process.kill()
        loader.process.wait()
        self.assertEqual(loader.read_stderr().count("has been busy"), 1)
        self.assertIn("app.js:2:", loader.read_stderr())

    def test_uncaught_exception_while_serving(self):
        loader = self.app("require('http').createServer(() => { throw new RangeError('bad') }).listen()")
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            self.ask(self.http(loader))
        self.check_exit(loader, 1)
        self.assertIn("RangeError: bad", loader.read_stderr())


if __name__ == "__main__":
    unittest.main()
