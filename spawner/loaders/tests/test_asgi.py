"""The loader of ASGI applications: requests, the lifespan, and how an application is loaded."""

import http.client
import os
import signal

from common import AsgiLoader
from driver import DEADLINE, PASSWORD, target


class Asgi(AsgiLoader):
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
        headers = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "http", "X-Name": "\xe9"}
        path = target("/a%20b/%C3%A9?x=%20", "192.0.2.7", 5555, "https")
        scope = eval(self.ask(conn, path, **headers)[1])
        self.assertEqual((scope["path"], scope["raw_path"], scope["query_string"]), ("/a b/\xe9", b"/a%20b/%C3%A9", b"x=%20"))
        self.assertEqual((scope["scheme"], scope["client"], scope["server"]), ("https", ("192.0.2.7", 5555), ("a", 443)))
        self.assertEqual((scope["method"], scope["http_version"], scope["root_path"]), ("GET", "1.1", ""))
        self.assertIn((b"x-name", b"\xe9"), scope["headers"])
        self.assertEqual(scope["asgi"]["version"], "3.0")
        for address, port in (("192.0.2.8", 0), ("2001:db8::1", 1)):
            scope = eval(self.ask(conn, target("/,", address, port))[1])
            self.assertEqual((scope["scheme"], scope["client"], scope["path"]), ("http", (address, port), "/,"))

    def test_the_path_below_which_the_application_is_served_is_that_of_the_request(self):
        loader = self.app("""
            async def app(scope, receive, send):
                await send({"type": "http.response.start", "status": 200})
                body = f"{scope['root_path']} {scope['path']} {scope['raw_path']} {scope['client']}".encode()
                await send({"type": "http.response.body", "body": body})
        """)
        conn = self.http(loader)
        answer = self.ask(conn, target("/blog/a%20b", mount="/blog"))
        self.assertEqual(answer, (200, b"/blog /blog/a b b'/blog/a%20b' ('192.0.2.1', 5555)"))
        self.assertEqual(self.ask(conn, target("/blog/x"))[1], b" /blog/x b'/blog/x' ('192.0.2.1', 5555)")

    def test_a_target_without_the_password_has_no_client(self):
        loader = self.app("""
            async def app(scope, receive, send):
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": f"{scope['path']} {scope['client']} {scope['scheme']}".encode()})
        """)
        conn = self.http(loader)
        for path in ("/", target(password="wrong", scheme="https"), f"/{PASSWORD}", "/" + target()):
            answer = self.ask(conn, path, **{"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"})
            self.assertEqual(answer, (200, f"{path} None http".encode()))
        # The rest behind the origin is the client's, and may look like an origin, too.
        answer = self.ask(conn, target(target("/", "6.6.6.6", scheme="https"), "192.0.2.2"))
        self.assertEqual(answer, (200, f"{target('/', '6.6.6.6', scheme='https')} ('192.0.2.2', 5555) http".encode()))

    def test_a_request_does_not_see_what_another_one_has_put_into_its_scope(self):
        loader = self.app("""
            async def app(scope, receive, send):
                if scope["type"] == "lifespan":
                    scope["asgi"]["mark"] = "lifespan"
                    return
                def dictionaries(one):
                    return [one] + [inner for value in one.values() if isinstance(value, dict) for inner in dictionaries(value)]
                found = [one["mark"] for one in dictionaries(scope) if "mark" in one]
                for one in dictionaries(scope): one["mark"] = scope["path"]
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": repr(found).encode()})
        """)
        conn = self.http(loader)
        for path in ("/alice", "/bob"):
            self.assertEqual(self.ask(conn, path), (200, b"[]"))

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
                status = {"/fraction": 204.5, "/float": 304.0, "/true": True, "/text": "200"}.get(path, 200)
                await send({"type": "http.response.start", "status": status, "headers": headers})
                if path == "/started": raise KeyError
                if path == "/ok": return await send({"type": "http.response.body", "body": b"ok"})
                await send({"type": "http.response.body", "body": b"begun", "more_body": True})
                raise KeyError("late")
        """)
        conn = self.http(loader)
        for path in ("/early", "/exit", "/none", "/split", "/name", "/started", "/long", "/fraction", "/float", "/true", "/text"):
            with self.subTest(path):
                status, body = self.ask(conn, path)
                self.assertEqual((status, body[:27]), (500, b"The application failed to a"))
        self.assertIn("KeyError: 'early'", loader.read_stderr())
        self.assertNotIn("asgi-request.py", loader.read_stderr().partition("SystemExit")[0])
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
