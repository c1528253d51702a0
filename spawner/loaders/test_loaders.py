"""Drive the Python, the Rack and the Node loader as the server does, and check their handshakes and answers.

    python3 spawner/loaders/test_loaders.py

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
    command = [sys.executable, os.path.join(HERE, "python-loader.py")]

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
            ("applications = 1", "defines neither `application` nor `app`"),
            ("def app(one): pass", "takes neither (environ, start_response)"),
            ("application = 1", "has the type int"),
            ("import sys; print('!'); sys.exit('gave up')", "SystemExit: gave up"),
            ("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); 1/0", "ZeroDivisionError"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertNotIn("-loader.py", loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
        self.assertIn("longer than", self.app("application = print", generation_dir="/" + "x" * 90).error)
        self.assertIn("Cannot listen", self.app("application = print", generation_dir="/nowhere").error)


class Threads:
    """Tests of `app_threads` for each language.

    The application `MEET` answers `/fork` in the parent alone, and `/end` ends its thread. Every other request prints `begun`,
    reads its body, and answers `finished`.
    """

    def threaded(self, **options):
        loader = self.app(self.MEET, app_threads=3, **options)
        self.assertEqual([loader.sockets[name][1] for name in ("main", "kept")], ["3", "3"])
        return loader

    def begin(self, loader, count):
        """Begin so many requests, all of which are served at the same time."""
        connections = [KeptConnection(loader) for _ in range(count)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.conn.sendall(head())
            self.assertEqual(loader.lines.readline(), b"begun\n")
        return connections

    def end(self, connections):
        for connection in connections:
            connection.conn.sendall(frame(b""))
            answer = connection.answer()
            self.assertEqual((answer.body, answer.cut), (b"finished", False))

    def test_each_thread_serves_a_request_in_both_protocols(self):
        loader = self.threaded()
        for _ in range(3):
            kept = self.begin(loader, 2)
            self.assertEqual(session(loader).body, b"finished")
            self.assertEqual(loader.lines.readline(), b"begun\n")
            self.end(kept)
            # More connections than threads: the fourth request waits for a thread.
            kept += self.begin(loader, 1)
            waiting = KeptConnection(loader)
            self.addCleanup(waiting.close)
            waiting.send()
            self.end(kept[2:])
            self.assertEqual(waiting.answer().body, b"finished")
            self.assertEqual(loader.lines.readline(), b"begun\n")
            for connection in (*kept, waiting):
                connection.close()

    def test_all_running_requests_are_finished_first(self):
        loader = self.threaded()
        busy = self.begin(loader, 3)
        loader.channel.sendall(b"x")
        self.end(busy)
        self.check_exit(loader)

    def test_a_signal_writes_what_each_thread_does(self):
        loader = self.threaded()
        busy = self.begin(loader, 3)
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: loader.read_stderr().count("in wait_for_body") + loader.read_stderr().count("wait_for_body'") >= 3)
        self.end(busy)

    def test_a_forked_child_of_a_thread_ends(self):
        loader = self.threaded()
        busy = self.begin(loader, 2)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        for _ in range(5):
            connection.send(PATH_INFO="/fork")
            self.assertEqual(connection.answer().body, b"parent, child ended by 0")
        self.end(busy)

    def test_sigterm_ends_busy_threads(self):
        loader = self.threaded()
        self.begin(loader, 3)
        loader.process.terminate()
        self.check_exit(loader, 143)


class WsgiThreads(Threads, WsgiLoader):
    MEET = """
        import os
        def wait_for_body(environ):
            print("begun", flush=True)
            environ["wsgi.input"].read()
        def application(environ, start_response):
            assert environ["wsgi.multithread"]
            start_response("200 OK", [])
            if environ["PATH_INFO"] == "/fork":
                child = os.fork()
                if not child:
                    return [b"child"]
                return [b"parent, child ended by %d" % os.waitpid(child, 0)[1]]
            wait_for_body(environ)
            return [b"finished"]
    """

    def test_an_asgi_application_has_none(self):
        loader = self.app("async def app(scope, receive, send): pass", app_threads=3)
        self.assertIn("Remove --app-threads", loader.error)


@unittest.skipUnless(shutil.which("ruby"), "ruby is not installed")
class RackLoader(LoaderTest):
    command = ["ruby", os.path.join(HERE, "rack-loader.rb")]

    def app(self, source, **options):
        return self.start("config.ru", source, **options)


class RackThreads(Threads, RackLoader):
    MEET = """
        def wait_for_body(env)
          STDOUT.write("begun\\n")
          env["rack.input"].read
        end
        run lambda { |env|
          raise "no threads" unless env["rack.multithread"]
          if env["PATH_INFO"] == "/fork"
            child = fork
            next [200, {}, ["child"]] unless child
            next [200, {}, ["parent, child ended by #{Process.wait2(child)[1].to_i}"]]
          end
          wait_for_body(env)
          [200, {}, ["finished"]]
        }
    """

    def test_an_event_on_each_thread(self):
        loader = self.app("""
            names = Thread::Queue.new
            PhusionPassenger.on_event(:starting_request_handler_thread) { names << Thread.current.name }
            run ->(_) { [200, {}, [Array.new(3) { names.pop }.sort.join(",")]] }
        """, app_threads=3)
        self.assertEqual(session(loader).body, b"request thread 1,request thread 2,request thread 3")

    def test_early_hints(self):
        source = """
            run lambda { |env|
              hints = env["rack.early_hints"]
              next [200, {}, ["none"]] unless hints
              hints.call("link" => "</a.css>; rel=preload\\n</b.js>; rel=preload", "rack.x" => "1", "content-length" => "5")
              hints.call("x-a" => ["1", "2"])
              body = Enumerator.new do |parts|
                parts << "begun"
                hints.call("link" => "too late")
              end
              [200, {}, env["PATH_INFO"] == "/late" ? body : ["answer"]]
            }
        """
        loader = self.app(source, early_hints="true")
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        for path, expected in (("/", b"answer"), ("/late", b"begun")):
            connection.send(PATH_INFO=path)
            self.assertEqual(connection.frame(), ("I", b"Status: 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n"
                                                       b"link: </b.js>; rel=preload\r\n\r\n"))
            self.assertEqual(connection.frame(), ("I", b"Status: 103 Early Hints\r\nx-a: 1\r\nx-a: 2\r\n\r\n"))
            answer = connection.answer()
            self.assertEqual((answer.body, answer.cut), (expected, path == "/late"))
        self.assertEqual(session(loader).body, b"none")
        self.assertEqual(kept_session(self.app(source)).body, b"none")

    def test_an_error_on_a_thread_ends_the_process(self):
        loader = self.app("""
            PhusionPassenger.on_event(:starting_request_handler_thread) { raise "broken event" }
            run ->(_) { [200, {}, []] }
        """, app_threads=2)
        self.assertNotEqual(loader.process.wait(DEADLINE), 0)
        self.assertIn("broken event", loader.read_stderr())


class RackAnswers:
    """Tests that hold in both protocols. `session` sends a request and returns the answer."""

    def test_example_through_every_page(self):
        loader = self.start("config.ru", app_root=os.path.join(EXAMPLES, "rack"))
        self.check_ready(loader, "rack", "session", "1")
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
        env = json.loads(seen.body)["env"]
        self.assertEqual((env["HTTP_X_NAME"], env["rack.url_scheme"], env["CONTENT_LENGTH"]), ("\xe9", "https", "5"))
        self.assertEqual((env["SCRIPT_NAME"], env["SERVER_PORT"], env["rack.hijack?"]), ("", "443", True))
        self.assertEqual((env["rack.multithread"], env["rack.multiprocess"], env["rack.run_once"]), (False, True, False))
        self.assertFalse({"PASSENGER_CONNECT_PASSWORD", "HTTP_CONTENT_LENGTH", "REQUEST_URI"} & set(env))
        self.assertTrue(self.session(loader, REQUEST_METHOD="POST", PATH_INFO="/crash").cut)
        self.assertEqual(loader.process.wait(DEADLINE), -signal.SIGKILL)

    def test_bodies(self):
        loader = self.start("config.ru", app_root=os.path.join(EXAMPLES, "rack"))
        body = os.urandom(5_000_000)
        echo = dict(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_TYPE="x/y")
        answer = self.session(loader, body, CONTENT_LENGTH=len(body), half_close=False, **echo)
        self.assertTrue(answer.body == body and answer.headers["content-type"] == "x/y" and not answer.cut)
        self.assertTrue(self.session(loader, body, **echo).body == body)  # without a length
        ignored = self.session(loader, body, CONTENT_LENGTH=len(body), REQUEST_METHOD="POST")
        self.assertTrue(ignored.body.endswith(b"</html>\n") and not ignored.cut)
        self.assertFalse(self.session(loader).cut)

    def test_the_validator_of_rack(self):
        with open(os.path.join(EXAMPLES, "rack", "config.ru")) as file:
            loader = self.app("require 'rack/lint'\nuse Rack::Lint\n" + file.read())
        for variables in ({}, dict(PATH_INFO="/env"), dict(PATH_INFO="/stream"), dict(PATH_INFO="/nowhere"),
                          dict(REQUEST_METHOD="HEAD"), dict(PATH_INFO="/slow", QUERY_STRING="ms=1")):
            answer = self.session(loader, REQUEST_URI=variables.get("PATH_INFO", "/"), **variables)
            self.assertNotIn("500", answer.status, loader.read_stderr())
        for size in (0, 10, 500_000):
            body = os.urandom(size)
            answer = self.session(loader, body, REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_LENGTH=size)
            self.assertEqual(answer.body, body, loader.read_stderr())
        self.assertNotIn("Lint", loader.read_stderr())

    def test_output_of_the_application_does_not_break_the_handshake(self):
        loader = self.app("""
            puts "loading"; print "unfinished"; system("printf ' business'")
            warn "to the log"
            run(lambda do |env|
              puts "serving"
              raise unless STDIN.read == ""
              [200, {}, ["ok"]]
            end)
        """)
        self.assertEqual(loader.output.strip(), b"loading\nunfinished business")
        self.assertEqual(self.session(loader).body, b"ok")
        self.assertEqual(loader.lines.readline(), b"serving\n")
        self.assertIn("to the log", loader.read_stderr())

    def test_errors_of_the_application(self):
        loader = self.app("""
            $closed = 0
            Body = Struct.new(:parts) do
              def each(&block) = parts.each(&block)
              def close = $closed += 1
            end
            late = Enumerator.new { |out| out << "begun"; raise KeyError, "late" }
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/early" then raise KeyError, "early"
              when "/exit" then exit 3
              when "/throw" then throw :async
              when "/split" then [200, { "X" => "a\\r\\nSet-Cookie: b" }, []]
              when "/name" then [200, { "X Y" => "a" }, []]
              when "/status" then ["2000", {}, []]
              when "/symbol" then [200, {}, Body.new([:text])]
              when "/none" then nil
              when "/length" then [200, { "Content-Length" => "x" }, []]
              when "/long" then [200, { "Content-Length" => "3" }, Body.new(["abcdef"])]
              when "/late" then [200, {}, late]
              when "/late-length" then [200, { "Content-Length" => "10" }, late]
              when "/fork"
                if (pid = fork)
                  Process.wait(pid)
                  [200, {}, [$?.exitstatus.to_s]]
                else
                  exit 7
                end
              when "/fork-returns"
                pid = fork
                Process.wait(pid) if pid
                [200, {}, ["parent"]]
              when "/closed" then [200, {}, [$closed.to_s]]
              end
            end)
        """)
        for path in ("/early", "/exit", "/throw", "/split", "/name", "/status", "/symbol", "/none", "/length"):
            with self.subTest(path):
                answer = self.session(loader, PATH_INFO=path)
                self.assertEqual(answer.status, "Status: 500 Internal Server Error")
                self.assertEqual(len(answer.body), int(answer.headers["Content-Length"]))
                self.assertFalse(answer.cut)
                self.assertNotIn(b"Error", answer.body)  # the details belong in the log
        self.assertRegex(loader.read_stderr(), r"config.ru:\d+:in .*: early \(KeyError\)")
        self.assertNotIn("rack-server.rb", loader.read_stderr())
        self.assertEqual(self.session(loader, PATH_INFO="/long").body, b"abc")
        late = self.session(loader, PATH_INFO="/late")
        self.assertEqual((late.body, late.cut), (b"begun", True))
        self.assertTrue(self.session(loader, PATH_INFO="/late-length").short)
        self.assertEqual(self.session(loader, PATH_INFO="/closed").body, b"2")
        self.assertEqual(self.session(loader, PATH_INFO="/fork").body, b"7")
        self.assertEqual(self.session(loader, PATH_INFO="/fork-returns").body, b"parent")
        self.assertTrue(os.path.exists(loader.path))

    def test_headers_and_bodies_of_rack_2_and_3(self):
        loader = self.app("""
            file = File.expand_path("large", __dir__)
            File.binwrite(file, "0123456789" * 300_000)
            PathBody = Struct.new(:to_path) do
              def each = raise("each was called")
            end
            $finished = []
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/two" then [200, { "Set-Cookie" => "a=1\\nb=2", "Connection" => "close", "X-Nil" => nil }, ["\\u00e9", "\\xff".b]]
              when "/three" then ["200", { "set-cookie" => %w[a=1 b=2], "rack.x" => "y", "x-utf" => "\\u00e9" }, ["ok"].freeze].freeze
              when "/path" then [200, {}, PathBody.new(file)]
              when "/call"
                [200, { "x" => "y" }, lambda { |out| out << "one "; out.write("two ", env["rack.input"].read); out.close }]
              when "/chunked" then [200, { "Transfer-Encoding" => "chunked" }, ["3\\r\\nab", "c\\r\\n0\\r\\n", "\\r\\n"].each]
              when "/finished"
                %w[a b].each { |name| env["rack.response_finished"] << ->(e, status, _, error) { $finished << name + status.to_s } }
                [204, {}, []]
              when "/was" then [200, {}, [$finished.join(",")]]
              when "/read"
                input = env["rack.input"]
                parts = [input.read(0), input.read(2), input.gets, input.read(1, +"x")]
                input.rewind
                parts << input.each.to_a.size << input.read << input.read(1).inspect
                input.rewind
                [200, {}, [(parts << input.read).join("|")]]
              end
            end)
        """)

        def fields(name, path):
            raw = self.session(loader, PATH_INFO=path).raw.partition(b"\r\n\r\n")[0].lower()
            return [line for line in raw.split(b"\r\n") if line.startswith(name)]

        two = self.session(loader, PATH_INFO="/two")
        self.assertEqual((two.body, two.headers["Content-Length"]), (b"\xc3\xa9\xff", "3"))
        self.assertFalse({"Connection", "X-Nil"} & set(two.headers))
        for path in ("/two", "/three"):
            self.assertEqual(fields(b"set-cookie", path), [b"set-cookie: a=1", b"set-cookie: b=2"])
        self.assertEqual(fields(b"rack", "/three") + fields(b"x-utf", "/three"), [b"x-utf: \xc3\xa9"])
        path = self.session(loader, PATH_INFO="/path")
        self.assertTrue(path.body == b"0123456789" * 300_000 and path.headers["Content-Length"] == "3000000" and not path.cut)
        self.assertEqual(self.session(loader, b"three", PATH_INFO="/call").body, b"one two three")
        self.assertEqual(self.session(loader, PATH_INFO="/chunked").body, b"abc")
        self.assertEqual(self.session(loader, PATH_INFO="/finished").body, b"")
        self.assertEqual(self.session(loader, PATH_INFO="/was").body, b"b204,a204")
        self.assertEqual(self.session(loader, b"ab\ncd\nef", PATH_INFO="/read").body, b"|ab|\n|c|3||nil|ab\ncd\nef")
        self.assertEqual(self.session(loader, REQUEST_METHOD="HEAD", PATH_INFO="/path").body, b"")
        self.assertFalse(loader.read_stderr())

    def test_hijacking(self):
        loader = self.app("""
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/full"
                io = env["rack.hijack"].call
                raise unless io.equal?(env["rack.hijack_io"])
                io.write("HTTP/1.1 201 Created\\r\\nX-A: b\\r\\nConnection: close\\r\\n\\r\\nhi")
                Thread.new { io.write(" there"); io.close }
                nil
              when "/partial"
                later = lambda { |io| Thread.new { io << "one " << "two"; io.flush; io.close } }
                [200, { "rack.hijack" => later, "X-A" => "b" }, []]
              when "/broken"
                env["rack.hijack"].call.close
              when "/raise"
                env["rack.hijack"].call
                raise "after the hijack"
              when "/stream"
                [200, {}, lambda { |out| Thread.new { out << "later"; out.close } }]
              else [200, {}, ["ok"]]
              end
            end)
        """)
        for _ in range(3):
            full = self.session(loader, PATH_INFO="/full")
            self.assertEqual((full.status, full.headers, full.body), ("Status: 201 Created", {"X-A": "b"}, b"hi there"))
            partial = self.session(loader, b"unread", PATH_INFO="/partial")
            self.assertEqual((partial.headers["X-A"], partial.body, partial.cut), ("b", b"one two", False))
            self.assertEqual(self.session(loader, PATH_INFO="/stream").body, b"later")
            for path in ("/broken", "/raise"):
                with self.subTest(path):
                    self.assertTrue(self.failed(loader, path))
            self.assertEqual(self.session(loader).body, b"ok")
        self.assertIn("after the hijack", loader.read_stderr())


class RackOverSession(RackAnswers, RackLoader):
    session = staticmethod(session)

    def failed(self, loader, path):
        with loader.connect() as conn:
            conn.sendall(head(PATH_INFO=path))
            conn.shutdown(socket.SHUT_WR)
            try:
                return conn.recv(1) == b""
            except ConnectionResetError:
                return True

    def test_half_a_body_does_not_look_complete(self):
        loader = self.start("config.ru", app_root=os.path.join(EXAMPLES, "rack"))
        half = session(loader, bytes(1000), REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_LENGTH=2000)
        self.assertEqual(half.raw, b"")
        self.assertFalse(session(loader).cut)

    def test_shutdown(self):
        source = """
            PhusionPassenger.on_event(:starting_worker_process) { |forked| puts "starting #{forked}" }
            PhusionPassenger.on_event(:stopping_worker_process) { puts "stopping" }
            run(lambda do |env|
              puts "begun"
              env["rack.input"].read
              [200, {}, ["finished"]]
            end)
        """
        for order in (lambda channel: channel.sendall(b"x"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.app(source, nonblocking=True)
            self.assertEqual(loader.output.strip(), b"starting false")
            loader.process.send_signal(signal.SIGINT)
            self.assertEqual(session(loader).body, b"finished")
            loader.lines.readline()
            with loader.connect() as conn:  # a running request is finished first
                conn.sendall(head())
                self.assertEqual(loader.lines.readline(), b"begun\n")
                order(loader.channel)
                conn.shutdown(socket.SHUT_WR)
                self.assertIn(b"finished", conn.recv(1000))
            self.assertEqual(loader.lines.readline(), b"stopping\n")
            self.check_exit(loader)
        loader = self.app(source)
        with loader.connect() as conn:
            conn.sendall(head())
            loader.lines.readline()
            loader.process.terminate()
            self.check_exit(loader, 128 + signal.SIGTERM)


class RackOverKept(RackAnswers, RackLoader):
    session = staticmethod(kept_session)

    def failed(self, loader, path):
        connection = KeptConnection(loader)
        connection.send(PATH_INFO=path)
        frames = [connection.frame(), connection.frame()]
        connection.close()
        return frames == [("A", b""), None]

    def test_lengths_of_heads_and_bodies_with_high_bytes(self):
        loader = self.app("""
            run ->(env) {
              length = env['PATH_INFO'].delete('/').to_i
              body = Object.new
              body.define_singleton_method(:each) { |&take| take.call('\u00e9' * length) }
              [200, { 'x-fill' => 'x' * length }, body]
            }
        """)
        for length in range(50, 200, 7):
            self.assertEqual(kept_session(loader, PATH_INFO=f"/{length}").body, "é".encode() * length)

    def test_abandoned_requests(self):
        loader = self.app("""
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/endless" then [200, {}, Enumerator.new { |out| loop { out << "x" } }]
              when "/hijack" then [200, { "rack.hijack" => ->(io) { Thread.new { loop { io << "x" } rescue puts "noticed" } } }, []]
              when "/read" then [200, {}, [env["rack.input"].read]]
              else [200, {}, ["alive"]]
              end
            end)
        """)
        for path in ("/endless", "/hijack", "/read"):
            for leave in (lambda conn: conn.shutdown(socket.SHUT_WR), socket.socket.close):
                with self.subTest(path):
                    connection = KeptConnection(loader)
                    connection.conn.sendall(head(PATH_INFO=path) + (frame(b"part") if path == "/read" else frame(b"")))
                    if path != "/read":
                        connection.frame()
                    leave(connection.conn)
                    self.assertEqual(self.session(loader).body, b"alive")
                    if connection.conn.fileno() >= 0:
                        while connection.conn.recv(1 << 16):
                            pass  # ends: the loader closes the connection
                    if path == "/hijack":
                        self.assertEqual(loader.lines.readline(), b"noticed\n")
                    connection.close()
        self.assertFalse(loader.read_stderr())

    def test_an_unread_body_is_discarded_when_it_comes(self):
        loader = self.app("run ->(env) { [200, {}, [env['rack.input'].read(env['HTTP_READ'].to_i) || '']] }")
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

    def test_answers_end_after_close(self):
        loader = self.app("""
            Body = Struct.new(:path) do
              def each
                yield "one"
                Thread.pass until File.exist?(path)
                yield "two"
              end
              def close = File.rename(path, path + ".closed")
            end
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/large" then [200, {}, ["\\0" * 40_000_000]]
              when "/parts" then [200, {}, ["\\0" * 20_000_000] * 2]
              else [200, { "Content-Length" => "6" }, Body.new(env["PATH_INFO"])]
              end
            end)
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
        for path in ("/large", "/parts"):
            connection.send(PATH_INFO=path)  # several frames
            self.assertEqual(len(connection.answer().body), 40_000_000)
        connection.close()

    def test_backtrace_on_request(self):
        loader = self.app("""
            def stuck
              puts "begun"
              sleep(60)
            end
            Thread.new { Thread.current.name = "helper"; sleep }
            run ->(env) { env["PATH_INFO"] == "/stuck" ? stuck : [200, {}, ["ok"]] }
        """)
        connection = KeptConnection(loader)
        connection.send(PATH_INFO="/stuck")
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: "helper" in loader.read_stderr() and "`stuck'" in loader.read_stderr())
        self.assertIsNone(loader.process.poll())
        loader.process.terminate()
        self.assertEqual(loader.process.wait(DEADLINE), 128 + signal.SIGTERM)
        connection.close()

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_four_system_calls_per_request(self):
        loader = self.app("run ->(_) { [200, {}, ['hello']] }")
        self.session(loader)
        trace = os.path.join(loader.root, "trace")
        with open(os.path.join(loader.root, "log"), "wb") as log:
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
        self.assertLessEqual(len(calls), 4 * 100 + 40, calls)  # Ruby asks for its pid before each select


class Rack(RackLoader):
    def test_applications_that_cannot_be_loaded(self):
        for source, expected in (
            ("require 'no_such_library'", "cannot load such file -- no_such_library (LoadError)"),
            ("run ->(", "SyntaxError"),
            ("run 1", "no method `call`"),
            ("use Rack::Head", "missing run or map statement"),
            ("exit 5", "SystemExit"),
            ("Thread.new { sleep 60 }; at_exit { sleep 60 }; 1/0", "ZeroDivisionError"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertNotIn("rack-boot.rb", loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
        self.assertIn("longer than", self.app("run ->(_) {}", generation_dir="/" + "x" * 90).error)
        self.assertIn("Cannot listen", self.app("run ->(_) {}", generation_dir="/nowhere").error)

    def test_the_gems_of_a_gemfile(self):
        def start(gems):
            root = tempfile.mkdtemp(prefix="cr")
            self.addCleanup(shutil.rmtree, root)
            with open(os.path.join(root, "Gemfile"), "w") as file:
                file.write(gems)
            return self.app("run ->(_) { [200, {}, [Bundler.definition.specs.map(&:name).sort.join(',')]] }", app_root=root)
        self.assertIn(b"rack", session(start("gem 'rack'\n")).body)
        for gems, text in (("gem 'no_such_gem_at_all'\n", "no_such_gem_at_all"), ("gem 'rake'\n", "`gem \"rack\"`")):
            error = start(gems).error
            self.assertIn(text, error)
            self.assertIn("bundle install", error)

    def test_rack_that_is_not_installed(self):
        with tempfile.TemporaryDirectory() as empty:
            os.environ["RUBYOPT"] = f"-I{empty}"
            self.addCleanup(os.environ.pop, "RUBYOPT")
            with open(os.path.join(empty, "rack.rb"), "w") as file:
                file.write("raise LoadError.new('cannot load such file -- rack').tap { |e| e.instance_variable_set(:@path, 'rack') }\n")
            self.assertIn("gem install rack", self.app("run 1").error)


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
    command = ["ruby", os.path.join(HERE, "rack-preloader.rb")]
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
    command = [sys.executable, os.path.join(HERE, "python-preloader.py")]
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


class Frames:
    """The client's end of a WebSocket."""

    def __init__(self, loader, path="/", **fields):
        self.conn = loader.connect()
        self.file = self.conn.makefile("rb")
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        self.conn.sendall(f"GET {path} HTTP/1.1\r\nHost: a:81\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                          f"{lines}\r\n".encode())
        self.status = self.file.readline().decode().strip()
        self.headers = http.client.parse_headers(self.file)

    def send(self, opcode, data, final=0x80, mask=b"abcd"):
        size = len(data)
        length = bytes((0x80 | size,)) if size < 126 else (
            b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big"))
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if size < 1000 else data
        if size >= 1000:
            mask = bytes(4)
        self.conn.sendall(bytes((final | opcode,)) + length + mask + masked)

    def frame(self):
        """Return the next frame as opcode and bytes, or None at the end of the connection."""
        first = self.file.read(2)
        if not first:
            return None
        size = first[1] if first[1] < 126 else int.from_bytes(self.file.read(2 if first[1] == 126 else 8), "big")
        return first[0] & 15, self.file.read(size)

    def close(self):
        self.file.close()
        self.conn.close()


class Asgi(LoaderTest):
    command = [sys.executable, os.path.join(HERE, "python-loader.py")]

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

    def socket(self, *args, **fields):
        client = Frames(*args, **fields)
        self.addCleanup(client.close)
        return client

    HELLO = """
        async def app(scope, receive, send):
            if scope["type"] != "http":
                raise ValueError("unsupported")
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"hello"})
    """

    def test_the_scope(self):
        loader = self.app("""
            async def app(scope, receive, send):
                assert scope["type"] == "http"
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": repr(scope).encode()})
        """)
        self.check_ready(loader, "asgi", "http_session", "0")
        conn = self.http(loader)
        headers = {"X-Forwarded-For": "192.0.2.1, 192.0.2.7", "X-Forwarded-Proto": "https", "X-Name": "\xe9"}
        scope = eval(self.ask(conn, "/a%20b/%C3%A9?x=%20", **headers)[1])
        self.assertEqual((scope["path"], scope["raw_path"], scope["query_string"]), ("/a b/\xe9", b"/a%20b/%C3%A9", b"x=%20"))
        self.assertEqual((scope["scheme"], scope["client"], scope["server"]), ("https", ("192.0.2.7", 0), ("a", 443)))
        self.assertEqual((scope["method"], scope["http_version"], scope["root_path"]), ("GET", "1.1", ""))
        self.assertIn((b"x-name", b"\xe9"), scope["headers"])
        self.assertEqual(scope["asgi"]["version"], "3.0")
        self.assertIsNone(eval(self.ask(conn)[1])["client"])

    def test_bodies(self):
        loader = self.app("""
            async def app(scope, receive, send):
                body, more = b"", True
                while more:
                    message = await receive()
                    body += message["body"]
                    more = message["more_body"]
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": body})
        """)
        conn = self.http(loader)
        body = os.urandom(5_000_000)
        for data in (b"", b"x", body):
            self.assertTrue(self.ask(conn, "/", "POST", data) == (200, data))
            self.assertTrue(self.ask(conn, "/", "POST", iter([data[:100], data[100:]])) == (200, data))  # chunked

    def test_a_body_is_streamed_both_ways(self):
        loader = self.app("""
            async def app(scope, receive, send):
                await send({"type": "http.response.start", "status": 200})
                more = True
                while more:
                    message = await receive()
                    more = message["more_body"]
                    await send({"type": "http.response.body", "body": message["body"], "more_body": more})
        """)
        with loader.connect() as conn, conn.makefile("rb") as answer:
            conn.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in (b"3\r\none\r", b"\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"):
                conn.sendall(part)
                if part[:1] == b"3":
                    while (line := answer.readline()) != b"3\r\n":
                        self.assertTrue(line)
                    self.assertEqual(answer.read(5), part[3:6] + b"\r\n")
            self.assertEqual(answer.read(5), b"0\r\n\r\n")

    def test_a_client_that_does_not_read_stops_the_application(self):
        loader = self.app("""
            sent = 0
            async def app(scope, receive, send):
                global sent
                await send({"type": "http.response.start", "status": 200})
                if scope["path"] == "/sent":
                    return await send({"type": "http.response.body", "body": str(sent).encode()})
                try:
                    while True:
                        await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
                        sent += 1
                except OSError:
                    print("gone", flush=True)
                    raise
        """)
        conn = self.http(loader)
        with loader.connect() as endless:
            endless.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            endless.recv(10)
            seen = []
            self.eventually(lambda: (seen.append(self.ask(conn, "/sent")[1]), seen[-2:-1] == seen[-1:])[1])
        self.assertEqual(loader.lines.readline(), b"gone\n")
        self.assertFalse(loader.read_stderr())

    def test_an_application_learns_that_its_client_has_left(self):
        loader = self.app("""
            async def app(scope, receive, send):
                while scope["type"] == "http":
                    message = await receive()
                    print(message["type"], flush=True)
                    if message["type"] == "http.disconnect": return
        """)
        with loader.connect() as conn:
            conn.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
            self.assertEqual(loader.lines.readline(), b"http.request\n")
        self.assertEqual(loader.lines.readline(), b"http.disconnect\n")
        self.assertFalse(loader.read_stderr())

    def test_a_body_that_is_not_read(self):
        conn = self.http(loader := self.app(self.HELLO))
        for size in (5, 1_000_000):
            for _ in range(2):
                self.assertEqual(self.ask(conn, "/", "POST", bytes(size)), (200, b"hello"))
        with loader.connect() as conn, conn.makefile("rb") as answer:
            conn.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo")
            while answer.readline() != b"\r\n":
                pass
            self.assertEqual(answer.read(5), b"hello")
            conn.sendall(b"dyGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            for _ in range(2):
                self.assertEqual(answer.readline(), b"HTTP/1.1 200 OK\r\n")
                while answer.readline() != b"\r\n":
                    pass
                self.assertEqual(answer.read(5), b"hello")

    def test_errors_of_the_application(self):
        loader = self.app("""
            import sys
            async def app(scope, receive, send):
                path = scope["path"]
                if path == "/early": raise KeyError("early")
                if path == "/exit": sys.exit(3)
                if path == "/none": return
                headers = {"/split": [(b"x", b"a\\r\\nset-cookie: b")], "/name": [(b"x y", b"a")],
                           "/late-length": [(b"content-length", b"10")], "/long": [(b"content-length", b"1")]}.get(path, [])
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                if path == "/started": raise KeyError
                if path == "/ok": return await send({"type": "http.response.body", "body": b"ok"})
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                raise KeyError("late")
        """)
        conn = self.http(loader)
        for path in ("/early", "/exit", "/none", "/split", "/name", "/started", "/long"):
            with self.subTest(path):
                status, body = self.ask(conn, path)
                self.assertEqual((status, body[:27]), (500, b"The application failed to a"))
        self.assertIn("KeyError: 'early'", loader.read_stderr())
        self.assertNotIn("asgi-server.py", loader.read_stderr().partition("SystemExit")[0])
        for path in ("/late", "/late-length"):
            with self.assertRaises(http.client.IncompleteRead):
                self.ask(self.http(loader), path)
        self.assertEqual(self.ask(conn, "/ok"), (200, b"ok"))

    def test_clients_that_leave_an_answer_without_end(self):
        loader = self.app("""
            async def app(scope, receive, send):
                await send({"type": "http.response.start", "status": 200})
                while scope["path"] == "/endless":
                    await send({"type": "http.response.body", "body": bytes(1000), "more_body": True})
                await send({"type": "http.response.body", "body": b"alive"})
        """)
        for _ in range(30):
            with loader.connect() as conn:
                conn.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
                conn.recv(10)
            self.assertEqual(self.ask(self.http(loader)), (200, b"alive"))

    def test_answers_without_body_and_early_hints(self):
        loader = self.app("""
            async def app(scope, receive, send):
                if scope["path"] == "/hint":
                    await send({"type": "http.response.early_hint", "links": [b"</a>; rel=preload"]})
                await send({"type": "http.response.start", "status": int(scope["query_string"] or b"200"),
                            "headers": [(b"connection", b"close"), (b"transfer-encoding", b"chunked")]})
                await send({"type": "http.response.body", "body": b"body", "more_body": True})
                await send({"type": "http.response.body"})
        """)
        conn = self.http(loader)
        self.assertEqual(self.ask(conn, "/", "HEAD"), (200, b""))
        self.assertEqual(self.ask(conn, "/?204"), (204, b""))
        self.assertEqual(self.ask(conn, "/?304"), (304, b""))
        self.assertEqual(self.ask(conn), (200, b"body"))
        with loader.connect() as conn:
            conn.sendall(b"GET /hint HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertTrue(conn.recv(1000).startswith(b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n"))

    def test_what_is_not_a_request_is_refused(self):
        loader = self.app(self.HELLO)
        for text in ("GET /", "GET / HTTP/1.1\r\n x: y", "GET / HTTP/1.1\r\nx", "GET / HTTP/1.1\r\nContent-Length: +1",
                     "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",
                     "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
                     "GET / HTTP/1.1\r\nTransfer-Encoding: gzip"):
            with self.subTest(text), loader.connect() as conn:
                conn.sendall(text.encode() + b"\r\n\r\n")
                self.assertEqual(conn.recv(100), b"")
        self.assertEqual(self.ask(self.http(loader)), (200, b"hello"))

    def test_lifespan(self):
        loader = self.app("""
            async def app(scope, receive, send):
                if scope["type"] == "lifespan":
                    assert (await receive())["type"] == "lifespan.startup"
                    scope["state"]["name"] = b"shared"
                    await send({"type": "lifespan.startup.complete"})
                    assert (await receive())["type"] == "lifespan.shutdown"
                    print("stopped", flush=True)
                    return await send({"type": "lifespan.shutdown.complete"})
                print("begun", flush=True)
                body = (await receive())["body"]
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": scope["state"]["name"] + body})
        """)
        conn = self.http(loader)
        conn.putrequest("POST", "/")
        conn.putheader("Content-Length", "1")
        conn.endheaders()
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.channel.sendall(b"x")
        conn.send(b"!")
        self.assertEqual(conn.getresponse().read(), b"shared!")  # a running request is finished first
        self.assertEqual(loader.lines.readline(), b"stopped\n")
        self.check_exit(loader)

    def test_applications_that_cannot_be_loaded(self):
        failing = "await receive(); await send({'type': 'lifespan.startup.failed', 'message': 'no database'}); raise OSError"
        for body, expected in ((failing, "no database"), ("import sys; sys.exit('gave up')", "SystemExit: gave up")):
            loader = self.app(f"async def app(scope, receive, send): {body}")
            self.assertIn(expected, loader.error)
            self.assertEqual(loader.process.wait(DEADLINE), 1)
            self.assertFalse(os.listdir(os.path.join(loader.root, "g", "backends")))

    def test_what_the_callable_takes_decides(self):
        for source, protocol in (
            ("def app(environ, start_response): pass", "session"),
            ("async def app(*args): pass", "http_session"),
            ("def app(scope, receive, send): return None", "http_session"),
            ("class App:\n  async def __call__(self, scope, receive, send): pass\napp = App()", "http_session"),
            ("class App:\n  def __call__(self, environ, start_response): pass\napplication = App()", "session"),
            ("import functools\nasync def f(a, scope, receive, send): pass\napp = functools.partial(f, 1)", "http_session"),
            ("def app(*args): pass", "session"),
        ):
            with self.subTest(source):
                loader = self.start("app.py", source, app_type="python")
                self.assertIsNone(loader.error)
                self.assertEqual(loader.sockets["main"][0], protocol)
        both = "async def app(*args): pass\ndef application(*args): pass"
        for app_type, protocol in (("asgi", "http_session"), ("wsgi", "session")):
            self.assertEqual(self.start("app.py", both, app_type=app_type).sockets["main"][0], protocol)

    ECHO = """
        async def app(scope, receive, send):
            if scope["type"] != "websocket": raise ValueError
            assert (await receive())["type"] == "websocket.connect"
            if scope["path"] == "/403": return await send({"type": "websocket.close"})
            if scope["path"] == "/deny":
                await send({"type": "websocket.http.response.start", "status": 429, "headers": [(b"retry-after", b"1")]})
                return await send({"type": "websocket.http.response.body", "body": b"later"})
            if scope["path"] == "/raise": raise KeyError
            await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[-1],
                        "headers": [(b"x-scheme", scope["scheme"].encode())]})
            while True:
                message = await receive()
                if message["type"] == "websocket.disconnect":
                    return print(message["code"], message["reason"], flush=True)
                if message.get("text") == "bye":
                    await send({"type": "websocket.close", "code": 3001, "reason": "as asked"})
                elif message.get("text") == "return": return
                elif message.get("text") == "raise": raise KeyError
                else: await send({**message, "type": "websocket.send"})
    """

    def test_websocket(self):
        loader = self.app(self.ECHO)
        ws = self.socket(loader, Sec_WebSocket_Protocol="one, two", X_Forwarded_Proto="https")
        self.assertEqual(ws.status, "HTTP/1.1 101 Switching Protocols")
        self.assertEqual(ws.headers["Sec-WebSocket-Accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        self.assertEqual((ws.headers["Sec-WebSocket-Protocol"], ws.headers["X-Scheme"]), ("two", "wss"))
        for opcode, data in ((1, "h\xe9llo".encode()), (2, b"\0\xff"), (1, b""), (2, os.urandom(300)), (2, os.urandom(1_000_000))):
            ws.send(opcode, data)
            self.assertTrue(ws.frame() == (opcode, data))
        ws.send(1, b"h\xc3", final=0)
        ws.send(9, b"ping")  # between the parts of a message
        ws.send(0, b"\xa9", final=0)
        ws.send(0, b"!")
        self.assertEqual(ws.frame(), (10, b"ping"))
        self.assertEqual(ws.frame(), (1, "h\xe9!".encode()))
        ws.send(8, b"\x03\xe9why")
        self.assertEqual(ws.frame(), (8, b"\x03\xe9why"))
        self.assertIsNone(ws.frame())
        self.assertEqual(loader.lines.readline(), b"1001 why\n")
        ws = self.socket(loader)
        ws.close()
        self.assertEqual(loader.lines.readline(), b"1006 \n")
        for text, code in ((b"bye", b"\x0b\xb9as asked"), (b"return", b"\x03\xe8"), (b"raise", b"\x03\xf3the application failed")):
            ws = self.socket(loader)
            ws.send(1, text)
            self.assertEqual(ws.frame(), (8, code))
            ws.send(8, code[:2])
            self.assertIsNone(ws.frame())

    def test_websockets_that_are_refused(self):
        loader = self.app(self.ECHO)
        for path, status in (("/403", "403"), ("/deny", "429"), ("/raise", "500")):
            self.assertEqual(self.socket(loader, path).status[9:12], status)
        self.assertEqual(self.socket(loader, "/deny").file.read(5), b"later")
        conn = self.http(loader)
        self.assertEqual(self.ask(conn, Upgrade="websocket", Connection="upgrade")[0], 426)

    def test_a_peer_that_breaks_the_websocket_protocol(self):
        loader = self.app(self.ECHO)
        for bad, code in ((b"\x81\x01x", 1002), (b"\xc1\x80abcd", 1002), (b"\x80\x80abcd", 1002), (b"\x83\x80abcd", 1002),
                          (b"\x09\x80abcd", 1002), (b"\x89\xfe", 1002), (b"\x88\x81abcd1", 1002), (b"\x88\x82\0\0\0\0\0\1", 1002),
                          (b"\x81\x81\0\0\0\0\xff", 1007), (b"\x82\xff" + (17 << 20).to_bytes(8, "big"), 1009)):
            with self.subTest(bad):
                ws = self.socket(loader)
                ws.conn.sendall(bad)
                opcode, data = ws.frame()
                self.assertEqual((opcode, int.from_bytes(data[:2], "big")), (8, code))
                self.assertIsNone(ws.frame())
                self.assertEqual(loader.lines.readline().split()[0], str(code).encode())

    def test_shutdown_asks_websockets_to_reconnect(self):
        loader = self.app(self.ECHO)
        ws = self.socket(loader)
        loader.channel.sendall(b"x")
        self.assertEqual(ws.frame()[1][:2], (1012).to_bytes(2, "big"))
        self.assertEqual(loader.lines.readline(), b"1012 the service restarts\n")
        self.check_exit(loader)

    def test_sigquit_shows_what_requests_wait_for(self):
        loader = self.app("""
            import asyncio
            async def stuck():
                print("begun", flush=True)
                await asyncio.sleep(60)
            async def app(scope, receive, send):
                if scope["type"] == "http" : await stuck()
        """)
        conn = self.http(loader)
        conn.request("GET", "/stuck")
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: " in stuck\n" in loader.read_stderr())
        for part in ("in serve\n", "GET /stuck, for ", "main.py:5 in stuck"):
            self.assertIn(part, loader.read_stderr())
        loader.process.terminate()
        self.check_exit(loader, 128 + signal.SIGTERM)


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
        self.assertIn("longer than", self.app("application = print", generation_dir="/" + "x" * 90).error)
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
