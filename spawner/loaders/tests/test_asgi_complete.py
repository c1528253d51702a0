"""The loader of ASGI applications: an answer that is complete for the client, and not yet ended by the application.

The server takes the connection for idle as soon as the client has the whole answer, and sends the next request of any client.
"""

from common import AsgiAnswers

START = 'await send({"type": "http.response.start", "status": status, "headers": fields})'
PART = 'await send({"type": "http.response.body", "body": b"hello", "more_body": True})'


class AsgiComplete(AsgiAnswers):
    def complete(self, rest, **options):
        """Start an application that completes the answer to each path but /next, and goes on with `rest`."""
        return self.outliving(f"""
if path == "/next":
    body = (await receive())["body"]
    kept.setdefault("next", asyncio.Event()).set()
    return await answer(send, body)
status = int(path[1:])
fields = [(b"content-length", b"5")] if status == 200 and scope["method"] != "HEAD" else []
kept["next"] = asyncio.Event()
{START}
{PART}
{rest.strip()}
""", **options)

    def check_next(self, loader, answers=((b"HEAD", b"200"), (b"GET", b"204"), (b"GET", b"304"), (b"GET", b"200"))):
        """Let each kind of complete answer be followed by a request on its connection."""
        with loader.connect() as conn, conn.makefile("rb") as file:
            for method, status in answers:
                conn.sendall(b"%s /%s HTTP/1.1\r\nHost: a\r\n\r\n" % (method, status))
                line = file.readline()
                self.assertEqual(line[9:12], status)
                while file.readline() != b"\r\n":
                    pass
                if method == b"GET" and status == b"200":
                    self.assertEqual(file.read(5), b"hello")
                conn.sendall(b"POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond")
                self.assertEqual(self.read(file), b"second")
        return len(answers)

    def test_an_answer_that_never_ends_or_ends_late(self):
        for rest in ("await asyncio.Event().wait()", "await kept['next'].wait(); await asyncio.sleep(0.01)\n"
                     "await send({'type': 'http.response.body'})\nprint('ended', flush=True)"):
            loader = self.complete(rest)
            count = self.check_next(loader)
            if "ended" in rest:
                self.assertEqual(self.lines(loader, count), ["ended"] * count)
            self.assertEqual(loader.read_stderr(), "")
            loader.process.kill()  # it would wait for the end of the application

    def test_an_exception_or_a_return_after_a_complete_answer(self):
        for rest in ("raise KeyError('late')", "await kept['next'].wait(); raise KeyError('late')", "return"):
            loader = self.complete(rest)
            count = self.check_next(loader)
            self.eventually(lambda: loader.read_stderr().count("KeyError: 'late'\n") == (count if "raise" in rest else 0))
            self.assertEqual(self.ask(self.http(loader), "/next", "POST", b"last"), (200, b"last"))
            self.assertNotIn("returned before", loader.read_stderr())

    def test_send_and_receive_of_a_complete_answer(self):
        loader = self.complete("""
await kept["next"].wait()
seen = (await receive())["body"], (await receive())["type"]
for message in ({"type": "http.response.start", "status": 201}, {"type": "http.response.early_hint", "links": [b"</late>"]},
                {"type": "http.response.body", "body": b"late", "more_body": True}, {"type": "http.response.body", "body": "late"},
                {"type": "http.response.body", "more_body": True}, {"type": "http.response.body"}, {"type": "http.response.body"}):
    try:
        await send(message)
        seen += "sent",
    except (RuntimeError, TypeError) as error: seen += type(error).__name__,
print(*seen, flush=True)
""")
        count = self.check_next(loader)
        # Bytes behind the Content-Length are an error. A client that asked for no body lacks none.
        self.assertEqual(self.lines(loader, count), sorted(
            [f"b'' http.disconnect RuntimeError RuntimeError {late} TypeError sent sent RuntimeError"
             for late in ("sent", "sent", "sent", "RuntimeError")]))

    def test_receive_that_waits_when_the_answer_is_complete(self):
        loader = self.outliving("""
if path == "/next": return await answer(send, (await receive())["body"])
async def late():
    while (message := await receive())["type"] == "http.request": print(message["body"], message["more_body"])
    print(message["type"], flush=True)
kept["task"] = asyncio.create_task(late())
await asyncio.sleep(0)
await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
await send({"type": "http.response.body", "body": b"hello", "more_body": True})
await asyncio.Event().wait()
""")
        with loader.connect() as conn, conn.makefile("rb") as file:
            conn.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfirst")
            self.assertEqual(self.read(file), b"hello")
            # The rest of a body is not given: the application finds no end of a body that has a gap.
            conn.sendall(b"restPOST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond")
            self.assertEqual(self.read(file), b"second")
        self.assertEqual(self.lines(loader, 2), ["b'first' True", "http.disconnect"])
        loader.process.kill()

    def test_a_stream_without_end_of_which_the_client_takes_only_the_head(self):
        for wait in ("", "await asyncio.sleep(0.001)"):
            with self.subTest(wait):
                loader = self.complete(f"""
try:
    while True:
        await send({{"type": "http.response.body", "body": b"more", "more_body": True}})
        {wait}
finally: print("ended", flush=True)
""")
                self.check_next(loader, [(b"HEAD", b"200")])
                self.assertEqual(self.lines(loader, 1), ["ended"])  # with its connection
                with loader.connect() as conn, conn.makefile("rb") as file:
                    conn.sendall(b"HEAD /200 HTTP/1.1\r\nHost: a\r\n\r\n")
                    while file.readline() != b"\r\n": pass
                    self.assertEqual(self.lines(loader, 1), ["ended"])  # although the connection stays
                self.assertEqual(loader.read_stderr(), "")

    def test_a_stop_waits_for_the_work_after_a_complete_answer(self):
        loader = self.complete("""
while not os.path.exists("end"): await asyncio.sleep(0.001)
print("worked", flush=True)
""")
        with loader.connect() as conn, conn.makefile("rb") as file:
            conn.sendall(b"GET /200 HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(self.read(file), b"hello")
            loader.channel.sendall(b"x")
            self.assertEqual(file.read(), b"")  # the connection has ended
        self.assertIsNone(loader.process.poll())
        with open(f"{loader.app_root}/end", "w"):
            pass
        self.assertEqual(self.lines(loader, 1), ["worked"])
        self.check_exit(loader)

    def test_a_websocket_whose_denial_is_complete(self):
        loader = self.outliving("""
if scope["type"] == "http": return await answer(send, b"ok")
await receive()
await send({"type": "websocket.http.response.start", "status": 403, "headers": [(b"content-length", b"5")]})
await send({"type": "websocket.http.response.body", "body": b"hello", "more_body": True})
try: await send({"type": "websocket.accept"})
except RuntimeError as error: print(type(error).__name__)
await send({"type": "websocket.http.response.body"})
print((await receive())["type"], flush=True)
""")
        with loader.connect() as conn, conn.makefile("rb") as file:
            conn.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                         b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
            self.assertEqual(self.read(file), b"hello")
            self.assertEqual(file.read(), b"")
        self.assertEqual(self.lines(loader, 2), ["RuntimeError", "websocket.disconnect"])
        self.assertEqual(loader.read_stderr(), "")
