"""Check a loader against the protocols of the server.

    python3 spawner/loaders/conformance.py python3 spawner/loaders/python-loader.py
    python3 spawner/loaders/conformance.py --app DIRECTORY --startup-file app.rb ruby my-loader.rb

The script starts the loader as the server does, performs the handshake, and sends requests in the protocols that the loader
offers: the session protocol, kept sessions (docs/kept-sessions.md), and HTTP (`http_session`). The loader serves the reference
application, which `--app` replaces for other languages. It answers by the path:

    /echo       200, X-Seen: the values of HTTP_X_ONE and QUERY_STRING with a comma, the request's body
    /unread     200, `unread`, without reading the body
    /stream     200, `one`; then it reads the body to its end; then `two`
    /endless    200, a body without end
    /fail       raises an error before the answer has begun
    /late       200, `begun`, and then an error; no Content-Length
    /short      200, Content-Length: 10, `begun`, and then the end
    /empty      204
    /origin     200, the target, and the address and port of the client, if the loader takes the origin (`takes_origin`)
    /steps      what the player of walks commands: walks.py describes it

Exit code 0: the loader passes. 1: the output names the failures.
"""

import argparse
import http.client
import os
import signal
import socket
import stat
import sys
import tempfile
import time
import unittest

import walks
from driver import DEADLINE, PASSWORD, KeptConnection, Loader, frame, head, kept_session, session, target

REFERENCE = """
import itertools, os, socket, threading

def application(environ, start_response):
    path, body = environ["PATH_INFO"], environ["wsgi.input"]
    if path == "/fail":
        raise RuntimeError("asked to fail")
    if path == "/steps":
        return steps(environ, body, start_response("200 OK", []))
    headers = []
    if path == "/echo":
        headers = [("X-Seen", environ.get("HTTP_X_ONE", "") + "," + environ.get("QUERY_STRING", ""))]
    if path == "/short":
        headers = [("Content-Length", "10")]
    start_response("204 No Content" if path == "/empty" else "200 OK", headers)
    if path == "/echo":
        return [body.read()]
    if path == "/stream":
        return stream(body)
    if path == "/endless":
        return (bytes(1000) for _ in itertools.count())
    if path == "/late":
        return late()
    return {"/unread": [b"unread"], "/short": iter([b"begun"]), "/empty": []}[path]

def stream(body):
    yield b"one"
    while body.read(1000): pass
    yield b"two"

def late():
    yield b"begun"
    raise RuntimeError("asked to fail late")

def steps(environ, body, write):
    mark = environ["HTTP_MARK"].encode()

    def obey(kind, commands):
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(environ["HTTP_CONTROL"])
            control.sendall(kind.encode() + b" " + mark + b"\\n")
            for command in control.makefile("r"):
                command = command.strip()
                if command == "end-answer": return
                if command == "abort": raise RuntimeError("asked to abort")
                if command == "end": return
                reply = commands[command]()
                if is_child[0] and kind != "child": return  # a child goes on as its parent would
                control.sendall(reply + b"\\n")

    def attempt(call):
        try: return call()
        except Exception: return b"error"

    def read(): return attempt(lambda: b"got " + body.read(10))
    def send(): return attempt(lambda: write(mark) or b"ok")

    def leave(kind, commands):
        threading.Thread(target=obey, args=(kind, commands), daemon=True).start()
        return b"ok"

    is_child = [False]
    def fork():
        if os.fork(): return b"ok"
        is_child[0] = True
        obey("child", {"try": lambda: read() + b"," + send()})
    obey("request", {
        "read": read, "write": send, "fork": fork,
        "leave-reader": lambda: leave("reader", {"read": read}), "leave-writer": lambda: leave("writer", {"write": send}),
    })
    return []
"""


class LoaderCase(unittest.TestCase):
    options = None  # of the command line

    def start(self, **keys):
        given = self.options
        if given.app:
            loader = Loader(given.command, given.startup_file, app_root=os.path.abspath(given.app), **keys)
        else:
            loader = Loader(given.command, given.startup_file, REFERENCE, **keys)
        self.addCleanup(loader.close)
        return loader


class Handshake(LoaderCase):
    def test_ready_names_the_sockets(self):
        loader = self.start()
        self.assertIsNone(loader.error)
        self.assertIn("main", loader.sockets)
        for name, (protocol, concurrency, path) in loader.sockets.items():
            with self.subTest(name):
                self.assertIn(protocol, ("session", "http_session") if name == "main" else ("session", "http_session", "kept_session"))
                self.assertTrue(concurrency.isdigit())
                self.assertEqual(os.path.normpath(path), path)
                mode = os.stat(path).st_mode
                self.assertTrue(stat.S_ISSOCK(mode))
                self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, "the socket is open to other users")
        if "pid" in loader.ready:
            self.assertEqual(loader.ready["pid"], str(loader.process.pid))

    def test_an_application_that_cannot_be_loaded_is_an_error(self):
        with tempfile.TemporaryDirectory() as empty:
            loader = Loader(self.options.command, self.options.startup_file, app_root=empty)
            self.addCleanup(loader.close)
            self.assertTrue(loader.error)
            self.assertNotEqual(loader.process.wait(DEADLINE), 0)

    def test_a_byte_or_the_end_of_input_asks_it_to_leave(self):
        for order in (lambda channel: channel.sendall(b"\n"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.start()
            order(loader.channel)
            loader.process.wait(DEADLINE)
            for _, _, path in loader.sockets.values():
                self.assertFalse(os.path.exists(path))

    def test_sigterm_ends_it(self):
        loader = self.start()
        loader.process.send_signal(signal.SIGTERM)
        loader.process.wait(DEADLINE)


class Answers:
    """Tests of both protocols. `session` sends a request and returns the answer."""

    def setUp(self):
        self.loader = self.start()
        if all(kind != self.protocol for kind, _, _ in self.loader.sockets.values()):
            self.skipTest(f"the loader does not offer {self.protocol}")

    def ask(self, path, body=b"", **variables):
        return self.session(self.loader, body, PATH_INFO=path, REQUEST_URI=path, SCRIPT_NAME="", SERVER_NAME="localhost",
                            SERVER_PORT="80", SERVER_PROTOCOL="HTTP/1.1", **variables)

    def test_a_request_and_its_answer(self):
        for body in (b"", b"x", os.urandom(70_000), os.urandom(3_000_000)):
            length = {"CONTENT_LENGTH": len(body)} if body else {}
            answer = self.ask("/echo", body, REQUEST_METHOD="POST", HTTP_X_ONE="h", QUERY_STRING="a=b", **length)
            self.assertEqual(answer.status, "Status: 200 OK")
            self.assertEqual({k.lower(): v for k, v in answer.headers.items()}["x-seen"], "h,a=b")
            self.assertTrue(answer.body == body and not answer.cut)

    def test_a_body_that_is_not_read(self):
        for size in (5, 1_000_000):
            for _ in range(2):
                answer = self.ask("/unread", bytes(size), REQUEST_METHOD="POST", CONTENT_LENGTH=size)
                self.assertEqual((answer.body, answer.cut), (b"unread", False))

    def test_answers_without_body(self):
        self.assertEqual(self.ask("/empty").body, b"")
        answer = self.ask("/echo", REQUEST_METHOD="HEAD")
        self.assertEqual((answer.status, answer.body, answer.cut), ("Status: 200 OK", b"", False))

    def test_an_error_is_a_500_and_the_process_lives(self):
        answer = self.ask("/fail")
        self.assertEqual((answer.status[:11], answer.cut), ("Status: 500", False))
        self.assertEqual(self.ask("/unread").body, b"unread")

    def test_an_incomplete_answer_shows(self):
        late = self.ask("/late")
        self.assertEqual((late.body, late.cut), (b"begun", True))
        short = self.ask("/short")
        self.assertTrue(short.cut or short.short)
        self.assertEqual(self.ask("/unread").body, b"unread")

    def check_refusal(self, connect):
        for wrong in (head(PASSENGER_CONNECT_PASSWORD="wrong"), head(PASSENGER_CONNECT_PASSWORD=None), b"GET / HTTP/1.1\r\n\r\n"):
            with connect() as conn:
                conn.sendall(wrong + frame(b""))
                try:
                    self.assertEqual(conn.recv(1), b"")
                except ConnectionResetError:
                    pass
        self.assertEqual(self.ask("/unread").body, b"unread")
        self.assertNotIn(PASSWORD, self.loader.read_stderr())


class Session(Answers, LoaderCase):
    protocol = "session"
    session = staticmethod(session)

    def test_requests_without_password_are_refused(self):
        self.check_refusal(self.loader.connect)

    def test_ping(self):
        self.assertEqual(self.ask("/", REQUEST_METHOD="PING").raw, b"pong")

    def test_a_client_that_leaves(self):
        with self.loader.connect() as conn:
            conn.sendall(head(PATH_INFO="/endless"))
            conn.recv(10)
        self.assertEqual(self.ask("/unread").body, b"unread")


class KeptSession(Answers, LoaderCase):
    protocol = "kept_session"
    session = staticmethod(kept_session)

    def connect(self):
        connection = KeptConnection(self.loader)
        self.addCleanup(connection.close)
        return connection

    def test_requests_without_password_are_refused(self):
        self.check_refusal(lambda: self.loader.connect("kept_session"))

    def test_several_connections(self):
        connections = [self.connect() for _ in range(20)]
        for _ in range(2):
            for connection in connections:
                connection.send(PATH_INFO="/unread")
            for connection in connections:
                self.assertEqual(connection.answer().body, b"unread")

    def test_bytes_may_come_one_by_one(self):
        connection = self.connect()
        for byte in head(PATH_INFO="/echo") + frame(b"one") + frame(b" two") + frame(b""):
            connection.conn.sendall(bytes((byte,)))
        self.assertEqual(connection.answer().body, b"one two")

    def test_a_first_byte_is_not_held_back(self):
        connection = self.connect()
        connection.conn.sendall(head(PATH_INFO="/stream", REQUEST_METHOD="POST") + frame(b"begun"))
        self.assertEqual(connection.frame()[0], "H")
        self.assertEqual(connection.frame(), ("D", b"one"))
        connection.conn.sendall(frame(b""))
        self.assertEqual(connection.frame(), ("D", b"two"))
        self.assertEqual(connection.frame(), ("E", b""))

    def test_the_rest_of_a_body_may_follow_the_end_of_the_answer(self):
        connection = self.connect()
        connection.conn.sendall(head(PATH_INFO="/unread", REQUEST_METHOD="POST") + frame(b"part"))
        self.assertEqual(connection.answer().body, b"unread")
        connection.conn.sendall(frame(b"rest") + frame(b"") + head(PATH_INFO="/echo") + frame(b"next") + frame(b""))
        self.assertEqual(connection.answer().body, b"next")

    def test_an_abandoned_request_ends_its_connection(self):
        for variables, read in ((dict(PATH_INFO="/endless"), True), (dict(PATH_INFO="/stream", REQUEST_METHOD="POST"), False)):
            connection = self.connect()
            connection.conn.sendall(head(**variables) + (frame(b"") if read else frame(b"part")))
            connection.frame()
            connection.conn.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + DEADLINE
            while connection.frame():
                self.assertLess(time.monotonic(), deadline, "the application goes on writing")
            self.assertEqual(self.ask("/unread").body, b"unread")


class Walks(LoaderCase):
    def test_walks_of_the_machine(self):
        loader = self.start()
        protocols = {protocol for protocol, _, _ in loader.sockets.values()}
        if not protocols & {"kept_session", "http_session"}:
            self.skipTest("the loader keeps no connection")
        player = (walks.Player if "kept_session" in protocols else walks.HttpPlayer)(self, loader)
        self.addCleanup(player.close)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "walks.txt")) as file:
            for number, walk in enumerate(file, 1):
                with self.subTest(line=number, walk=walk.strip()):
                    player.play(walk)


class HttpSession(LoaderCase):
    def setUp(self):
        self.loader = self.start()
        if self.loader.sockets["main"][0] != "http_session":
            self.skipTest("the loader does not offer http_session")

    def connect(self):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self.loader.connect()
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, path, body=None, method="GET", headers={}):
        """Send a request. Return the status, the headers by their names in lower case, and the body."""
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def is_alive(self):
        return self.ask(self.connect(), "/unread")[2] == b"unread"

    def test_requests_and_their_answers_on_one_connection(self):
        connection = self.connect()
        for body in (b"", b"x", os.urandom(70_000), os.urandom(3_000_000)):
            for pieces in (body, iter((body[:1], body[1:])) if len(body) > 1 else body):
                status, headers, answer = self.ask(connection, "/echo?a=b", pieces, "POST", {"X-One": "h"})
                self.assertEqual((status, headers["x-seen"]), (200, "h,a=b"))
                self.assertTrue(answer == body)

    def test_connections_side_by_side(self):
        connections = [self.connect() for _ in range(20)]
        for connection in connections:
            connection.request("POST", "/stream", headers={"Content-Length": "1"})
        concurrency = int(self.loader.sockets["main"][1])
        # A process of a limited concurrency serves so many.
        for connection in connections[:concurrency or None]:
            connection.sock.recv(1, socket.MSG_PEEK)
        for connection in connections:
            connection.send(b"x")
        for connection in connections:
            self.assertEqual(connection.getresponse().read(), b"onetwo")

    def test_a_body_that_is_not_read(self):
        for size in (5, 1_000_000):
            connection = self.connect()
            try:
                self.assertEqual(self.ask(connection, "/unread", bytes(size), "POST")[2], b"unread")
            except (BrokenPipeError, ConnectionResetError):
                pass  # a server may close the connection after such an answer
            self.assertTrue(self.is_alive())

    def test_answers_without_body(self):
        connection = self.connect()
        self.assertEqual(self.ask(connection, "/empty")[::2], (204, b""))
        self.assertEqual(self.ask(connection, "/echo", method="HEAD")[::2], (200, b""))
        self.assertEqual(self.ask(connection, "/unread")[::2], (200, b"unread"))

    def test_an_error_is_a_500_and_the_process_lives(self):
        self.assertEqual(self.ask(self.connect(), "/fail")[0], 500)
        self.assertTrue(self.is_alive())

    def test_an_incomplete_answer_shows(self):
        for path in ("/late", "/short"):
            with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                self.ask(self.connect(), path)
        self.assertTrue(self.is_alive())

    def test_a_first_byte_is_not_held_back(self):
        connection = self.connect()
        connection.request("POST", "/stream", headers={"Content-Length": "1"})
        answer = connection.getresponse()
        self.assertEqual(answer.read(3), b"one")
        connection.send(b"x")
        self.assertEqual(answer.read(), b"two")

    def test_a_client_that_leaves(self):
        connection = self.connect()
        connection.request("GET", "/endless")
        connection.sock.recv(10)
        connection.close()
        self.assertTrue(self.is_alive())

    def test_the_origin_of_a_request(self):
        if self.loader.ready.get("takes_origin") != "true":
            self.skipTest("the loader does not take the origin of requests")
        connection = self.connect()
        for address, port in (("192.0.2.1", 5555), ("2001:db8::1", 0), ("192.0.2.2", 1)):
            path = target("/origin?a,b", address, port)
            self.assertEqual(self.ask(connection, path)[2], f"/origin?a,b {address} {port}".encode())
        # The path below which the application is served follows the port.
        self.assertEqual(self.ask(connection, target("/origin?c", mount="/origin"))[2], b"/origin?c 192.0.2.1 5555")
        # One origin is the server's. The rest is the client's.
        inner = target("/x", "6.6.6.6")
        self.assertEqual(self.ask(connection, target(f"/origin?{inner}"))[2], f"/origin?{inner} 192.0.2.1 5555".encode())
        self.assertEqual(self.ask(connection, target("/unread"))[2], b"unread")
        # Without the password it is no origin, and the request has no client.
        self.assertNotIn(b"192.0.2.1", self.ask(connection, "/origin")[2])
        self.ask(connection, target("/unread", password="wrong"))
        self.assertTrue(self.is_alive())

    def test_what_is_not_http_is_refused(self):
        with self.loader.connect() as conn:
            conn.sendall(b"nonsense\r\n\r\n")
            data = conn.recv(100)
            self.assertTrue(not data or data.startswith(b"HTTP/1.1 4"), data)
        self.assertTrue(self.is_alive())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", metavar="DIRECTORY", help="the reference application in the loader's language")
    parser.add_argument("--startup-file", default="passenger_wsgi.py", metavar="NAME")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the loader, with its interpreter")
    options = parser.parse_args()
    if not options.command:
        parser.error("name the command that starts the loader")
    options.command = [os.path.abspath(word) if os.path.isfile(word) else word for word in options.command]
    LoaderCase.options = options
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
