"""The loader of ASGI applications: what outlives an answer never touches another request."""

import signal
import textwrap

from common import AsgiAnswers
from test_asgi_websockets import Frames


class AsgiOutlives(AsgiAnswers):
    # A kept `send` and `receive`

    def test_send_and_receive_of_an_answer_that_has_ended(self):
        loader = self.outliving("""
async def late():
    await kept["next"].wait()  # the connection carries the next request
    for call in (lambda: send({"type": "http.response.start", "status": 201}),
                 lambda: send({"type": "http.response.body", "body": b"late", "more_body": True}),
                 lambda: send({"type": "http.response.body", "body": b"late"}),
                 lambda: send({"type": "http.response.early_hint", "links": [b"</late>"]})):
        try:
            await call()
            print("sent")
        except (RuntimeError, OSError) as error:
            print(type(error).__name__)
    print((await receive())["type"], (await receive())["type"], flush=True)
    kept["done"].set()
if path == "/first":
    kept.update(next=asyncio.Event(), done=asyncio.Event())
    kept["task"] = asyncio.create_task(late())
    return await answer(send, b"first")
kept["next"].set()
await kept["done"].wait()
body = (await receive())["body"]
await answer(send, body)
""")
        conn = self.http(loader)
        self.assertEqual(self.ask(conn, "/first"), (200, b"first"))
        self.assertEqual(self.ask(conn, "/second", "POST", b"of the second"), (200, b"of the second"))
        self.assertEqual(self.lines(loader, 5), ["RuntimeError"] * 4 + ["http.disconnect http.disconnect"])

    def test_receive_that_waits_when_the_answer_ends(self):
        loader = self.outliving("""
async def late():
    kept["seen"] = await receive()
if path == "/first":
    kept["task"] = asyncio.create_task(late())
    await asyncio.sleep(0)
    return await answer(send, b"first")
await kept["task"]
await answer(send, kept["seen"]["type"].encode() + b" " + (await receive())["body"])
""")
        for body in (b"half of", b""):
            with loader.connect() as conn, conn.makefile("rb") as answers:
                conn.sendall(b"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (8 if body else 0, body))
                # The task takes what has come of the body. It waits for the rest when the answer ends.
                self.read(answers)
                conn.sendall((b"." if body else b"") + b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond")
                self.assertIn(self.read(answers), (b"http.request second", b"http.disconnect second"))

    def test_exceptions_and_work_after_the_answer(self):
        loader = self.outliving("""
await answer(send, path.encode())
if path == "/raise": raise KeyError("after the answer")
if path == "/exit": sys.exit(1)
if path == "/work":
    await asyncio.sleep(0)
    print("worked", flush=True)
""")
        conn = self.http(loader)
        for path in ("/raise", "/exit", "/work", "/last"):
            self.assertEqual(self.ask(conn, path), (200, path.encode()))
        self.assertEqual(self.lines(loader, 1), ["worked"])
        self.assertIn("KeyError: 'after the answer'", loader.read_stderr())

    def test_a_late_send_does_not_complete_an_answer_that_failed(self):
        loader = self.outliving("""
await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"200004")]})
await send({"type": "http.response.body", "body": bytes(200_000), "more_body": True})
async def late():
    await asyncio.sleep(0)
    try: await send({"type": "http.response.body", "body": b"late"})
    except OSError as error: print(type(error).__name__, flush=True)
kept["task"] = asyncio.create_task(late())
raise KeyError
""")
        with loader.connect() as conn, conn.makefile("rb") as answers:
            conn.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            received = answers.read()
            self.assertFalse(received.endswith(b"late"))
        self.assertEqual(self.lines(loader, 1), ["ClientGone"])

    # Context variables

    def test_context_variables_of_a_request_reach_no_other_request(self):
        """They hold the user of a request, in many applications. The body and its rest stop the reading of the connection."""
        loader = self.app(self.ANSWER + """
        import contextvars
        user, base = contextvars.ContextVar("user", default="nobody"), contextvars.ContextVar("base")
        base.set("base")
        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                user.set("lifespan")
                return
            seen = f"{user.get()} {base.get()}".encode()
            user.set("alice")
            path = scope["path"]
            if path == "/read":
                while (await receive())["more_body"]: await asyncio.sleep(0.001)
            if path == "/early":  # the next request has come
                await asyncio.sleep(0.1)
            if path == "/long":
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3000011")]})
                await send({"type": "http.response.body", "body": seen + bytes(3_000_000), "more_body": False})
            else:
                await answer(send, seen)
        """)
        for path in ("/none", "/read", "/unread", "/early", "/long"):
            with self.subTest(path), loader.connect() as conn, conn.makefile("rb") as answers:
                body = bytes(500_000 if "read" in path else 0)
                first = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)
                second = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                conn.sendall(first + (second if path == "/early" else b""))
                self.assertEqual(self.read(answers)[:13].rstrip(b"\0"), b"nobody base")
                if path != "/early":
                    conn.sendall(second)
                self.assertEqual(self.read(answers), b"nobody base")
                conn.sendall(second)
                self.assertEqual(self.read(answers), b"nobody base")

    # Other threads

    def test_send_and_receive_on_another_thread_raise(self):
        """Two threads would change one answer at once, also that of the next request."""
        loader = self.outliving("""
async def call():
    def links():
        kept["next"].wait()
        yield b"</alice>"
    def headers():
        kept["next"].wait()
        yield b"x-alice", b"1"
    for message in ({"type": "http.response.early_hint", "links": links()},
                    {"type": "http.response.start", "status": 200, "headers": headers()},
                    {"type": "http.response.body", "body": b"alice", "more_body": True},
                    {"type": "http.response.body", "body": b"alice"}):
        try:
            await send(message)
            print("sent")
        except RuntimeError as error: print(str(error)[:44])
    print((await receive())["type"], flush=True)
    kept["done"].set()
if path == "/first":
    kept.update(next=threading.Event(), done=threading.Event())
    threading.Thread(target=lambda: asyncio.run(call())).start()
    return await answer(send, b"first")
if path == "/now":
    def work():
        for call in (lambda: send({"type": "http.response.start", "status": 201}), receive):
            try: call().send(None)
            except RuntimeError as error: print(str(error)[:44], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, work)
    return await answer(send, (await receive())["body"])
kept["next"].set()
while not kept["done"].is_set(): await asyncio.sleep(0.001)
await answer(send, b"bob")
""")
        conn = self.http(loader)
        self.assertEqual(self.ask(conn, "/first"), (200, b"first"))
        self.assertEqual(self.ask(conn, "/second", "POST", b"of the second"), (200, b"bob"))
        refused = "send and receive belong to the thread of the"
        self.assertEqual(self.lines(loader, 5), ["http.disconnect"] + [refused] * 4)
        self.assertEqual(self.ask(conn, "/now", "POST", b"body"), (200, b"body"))
        self.assertEqual(self.lines(loader, 2), [refused] * 2)
        self.assertEqual(self.ask(conn, "/first"), (200, b"first"))
        self.assertEqual(self.ask(conn, "/second"), (200, b"bob"))

    def test_a_message_whose_parts_send_another_one(self):
        """The parts come from code of the application. The answer that it sends meanwhile is not begun again."""
        loader = self.outliving("""
def end(result):
    for message in ({"type": "http.response.start", "status": 200}, {"type": "http.response.body", "body": b"first"}):
        try: send(message).send(None)
        except StopIteration: pass
    return result
def parts(*values):
    end(None)
    yield from values
class Body(dict):
    def get(self, name, default=None): return end(b"alice") if name == "body" else default
await {"/start": lambda: send({"type": "http.response.start", "status": 201, "headers": parts((b"x-alice", b"1"))}),
       "/hint": lambda: send({"type": "http.response.early_hint", "links": parts(b"</alice>")}),
       "/body": lambda: send(Body(type="http.response.body")),
       "/next": lambda: answer(send, b"next")}[path]()
""")
        with loader.connect() as conn, conn.makefile("rb") as answers:
            for path in (b"/start", b"/hint", b"/body"):
                for target, body in ((path, b"first"), (b"/next", b"next")):
                    conn.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target)
                    self.assertEqual(answers.readline(), b"HTTP/1.1 200 OK\r\n")
                    self.assertEqual(self.read(answers), body)
        self.assertEqual(loader.read_stderr().count("RuntimeError: the application sent"), 3)

    # The standard streams

    def test_no_connection_stands_in_for_a_stream_that_was_closed(self):
        loader = self.outliving("""
for number in range(3):
    if path == "/close": os.close(number)
    elif path == "/write":
        try: os.write(number, b"of alice")
        except OSError: pass
await answer(send, path.encode())
""")
        conns = []

        def asks(path):
            """Ask on a new connection. Return whether it is answered: the loader may end it, under uvloop, until the streams are back."""
            conn = loader.connect()
            answers = conn.makefile("rb")
            self.addCleanup(conn.close)
            self.addCleanup(answers.close)
            conns.append((conn, answers))
            return asks_again(conn, answers, path)

        def asks_again(conn, answers, path):
            try:
                conn.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" % path)
                line = answers.readline()
            except OSError:
                line = b""
            if line:
                self.assertEqual((line, self.read(answers)), (b"HTTP/1.1 200 OK\r\n", path))
            return line != b""

        self.assertTrue(asks(b"/close"))
        for _ in range(4):
            self.eventually(lambda: asks(b"/write"))
        for conn, answers in conns:
            asks_again(conn, answers, b"/next")
        self.assertTrue(asks(b"/write"))

    # The length of a body

    def test_a_body_that_does_not_fit_its_length(self):
        loader = self.outliving("""
declared = [(b"content-length", b"10")]
await send({"type": "http.response.start", "status": 200, "headers": declared})
for body, more in {"/short": [(b"12345", False)], "/again": [(b"12345", False), (b"67890", False)],
                   "/long": [(b"1234567890!", False)], "/late": [(b"12345", True), (b"1234567", True), (b"12345", False)],
                   "/rest": [(b"12345", True), (b"67890", False)]}[path]:
    try: await send({"type": "http.response.body", "body": body, "more_body": more})
    except RuntimeError as error: print(error, flush=True)
""")
        with loader.connect() as conn, conn.makefile("rb") as answers:
            whole = b"1234512345"
            for path, body in ((b"/rest", b"1234567890"), (b"/again", None), (b"/long", None), (b"/late", whole), (b"/late", whole)):
                conn.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
                answer = self.read(answers)
                # The application has not answered, as far as the server is concerned.
                self.assertTrue(answer == body if body else answer.startswith(b"The application failed"), answer)

    def test_a_send_that_an_exception_has_interrupted(self):
        """The client would wait for bytes that were counted, and never written."""
        loader = self.outliving("""
class Late(Exception): pass
def tracer(frame, event, argument):
    if frame.f_code.co_name == "write" and "asyncio" in frame.f_code.co_filename:
        sys.settrace(None)
        raise Late
await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
await send({"type": "http.response.body", "body": b"", "more_body": True})
sys.settrace(tracer)
try: await send({"type": "http.response.body", "body": b"12345", "more_body": True})
except Late: print("late", flush=True)
if path == "/on": await send({"type": "http.response.body", "body": b"67890"})
""")
        for path in (b"/on", b"/return"):
            with loader.connect() as conn, conn.makefile("rb") as answers:
                conn.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
                self.assertEqual(answers.read().partition(b"\r\n\r\n")[2], b"")  # the connection has ended
            self.assertEqual(self.lines(loader, 1), ["late"])

    def test_an_exception_within_the_end_of_an_answer(self):
        """The server has the whole answer, and would send the next request to a loader that waits for the end of this one."""
        loader = self.outliving("""
class Late(Exception): pass
def tracer(frame, event, argument):
    if frame.f_code.co_name == path.split("/")[1]:
        sys.settrace(None)
        raise Late
if path == "/next":
    if "end" in kept: kept["end"].set()
    return await answer(send, b"next")
await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
sys.settrace(tracer)
try: await send({"type": "http.response.body", "body": b"last"})
except Late:
    if "raise" in path: raise
    print("late", flush=True)
sys.settrace(None)
if "stay" in path: await kept.setdefault("end", asyncio.Event()).wait()
""")
        for step in ("wake", "answered", "resume_reading"):
            for then in ("raise", "return", "stay"):
                with self.subTest(step=step, then=then), loader.connect() as conn, conn.makefile("rb") as answers:
                    body = bytes(300_000 if step == "resume_reading" else 0)
                    conn.sendall(b"POST /%s/%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" %
                                 (step.encode(), then.encode(), len(body)))
                    try:
                        conn.sendall(body)
                        conn.sendall(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
                        self.assertNotIn(b"next", answers.read())  # the connection has ended
                    except ConnectionError:
                        pass
                    if then != "raise":
                        self.assertEqual(self.lines(loader, 1), ["late"])
        self.assertEqual(self.ask(self.http(loader), "/next"), (200, b"next"))

    def test_a_send_or_receive_near_the_limit_of_recursion(self):
        loader = self.outliving("""
async def deep(count, call):
    return await deep(count - 1, call) if count else await call()
if path == "/next": return await answer(send, b"next")
_, kind, then, depth = path.split("/")
await asyncio.sleep(0.01)  # the loader stops to read
if kind == "send": await send({"type": "http.response.start", "status": 200})
try: await deep(int(depth), (lambda: send({"type": "http.response.body", "body": b"deep"})) if kind == "send" else receive)
except RecursionError:
    if then == "raise": raise
    if kind == "send": return
if kind == "receive": await answer(send, b"")
""")
        for kind in ("send", "receive"):
            for then in ("raise", "return"):
                for depth in range(960, 1000):
                    with self.subTest(kind=kind, then=then, depth=depth), loader.connect() as conn, conn.makefile("rb") as answers:
                        try:
                            conn.sendall(b"POST /%s/%s/%d HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n%s"
                                         b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" %
                                         (kind.encode(), then.encode(), depth, bytes(300_000)))
                            # Either the next request has its answer, or the connection has ended.
                            while (line := answers.readline()) and line != b"next":
                                if line == b"Content-Length: 4\r\n" and answers.read(6) == b"\r\nnext":
                                    break
                        except ConnectionError:
                            pass
        self.assertEqual(self.ask(self.http(loader), "/next"), (200, b"next"))

    def test_a_connection_whose_number_asyncio_still_watches(self):
        """An exception within asyncio may have kept it from forgetting a connection that has ended. Here a pipe is that."""
        loader = self.outliving("""
if path == "/stale":
    import selectors
    ends = os.pipe()
    for end in ends:
        asyncio.get_running_loop()._selector.register(end, selectors.EVENT_READ, (None, None))
        os.close(end)
await answer(send, path.encode())
""")
        self.assertEqual(self.ask(self.http(loader), "/stale"), (200, b"/stale"))
        for path in ("/one", "/two", "/three"):
            self.assertEqual(self.ask(self.http(loader), path), (200, path.encode()))

    def test_an_exception_within_a_step_of_a_websocket(self):
        loader = self.outliving("""
class Late(Exception): pass
def tracer(frame, event, argument):
    if frame.f_code.co_name == path.split("/")[1]:
        sys.settrace(None)
        raise Late
await receive()
if "set_timer" in path: sys.settrace(tracer)
try:
    await send({"type": "websocket.accept"})
    sys.settrace(tracer)
    await send({"type": "websocket.close"})
except Late: print("late", flush=True)
if "stay" in path: await asyncio.sleep(60)
""")
        for path in ("/set_timer/return", "/wake/return", "/set_timer/stay", "/wake/stay"):
            with self.subTest(path):
                ws = Frames(loader, path)
                self.addCleanup(ws.close)
                self.assertEqual(self.lines(loader, 1), ["late"])
                try:
                    while (frame := ws.frame()):
                        self.assertEqual(frame, (8, (1000).to_bytes(2, "big")))  # of the call that was interrupted
                except ConnectionError:
                    pass
        loader.process.kill()

    def test_a_scope_that_the_application_empties(self):
        loader = self.outliving("""
if path == "/pop":
    del scope["method"], scope["path"]
    raise KeyError
if path == "/clear": return scope.clear()
await answer(send, path.encode())
""")
        conn = self.http(loader)
        for path in ("/pop", "/clear"):
            self.assertEqual(self.ask(conn, path)[0], 500)
        self.assertEqual(self.ask(conn, "/next"), (200, b"/next"))
        self.assertIn("the end of its answer to GET /clear", loader.read_stderr())

    def test_a_body_whose_items_are_not_bytes(self):
        loader = self.outliving("""
numbers = array.array("I", [1, 2, 3])
kind = {"/array": numbers, "/view": memoryview(numbers), "/bytearray": bytearray(b"abc"), "/text": "abc", "/number": 3}[path]
await answer(send, kind)
""")
        conn = self.http(loader)
        numbers = b"".join(number.to_bytes(4, "little") for number in (1, 2, 3))
        for path, expected in (("/array", numbers), ("/view", numbers), ("/bytearray", b"abc")):
            self.assertEqual(self.ask(conn, path), (200, expected))
        for path in ("/text", "/number"):
            self.assertEqual(self.ask(conn, path)[0], 500)
        self.assertEqual(self.ask(conn, "/bytearray"), (200, b"abc"))

    # WebSockets

    def test_a_websocket_that_has_ended(self):
        loader = self.outliving("""
if scope["type"] == "http":
    return await answer(send, b"ok")
await receive()
await send({"type": "websocket.accept"})
await send({"type": "websocket.close"})
for message in ({"type": "websocket.send", "text": "late"}, {"type": "websocket.close"}, {"type": "websocket.accept"},
                {"type": "websocket.http.response.start", "status": 200}):
    try: await send(message)
    except (RuntimeError, OSError) as error: print(type(error).__name__)
print((await receive())["type"], (await receive())["type"], flush=True)
""")
        ws = Frames(loader)
        self.assertEqual(ws.frame(), (8, b"\x03\xe8"))
        self.assertEqual(self.lines(loader, 5), ["RuntimeError"] * 4 + ["websocket.disconnect websocket.disconnect"])
        ws.close()

    def test_bytes_behind_a_websocket_that_is_denied_are_no_request(self):
        loader = self.outliving("""
print(scope["type"], path, flush=True)
if scope["type"] == "http": return await answer(send, b"smuggled")
await receive()
await kept.setdefault("never", asyncio.Event()).wait() if path == "/wait" else None
await send({"type": "websocket.close"})
""")
        for version in (13, 12):
            with loader.connect() as conn, conn.makefile("rb") as answers:
                conn.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: %d\r\n"
                             b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n" % version)
                self.read(answers)
                self.assertEqual(answers.read(), b"")
        self.assertEqual(self.ask(self.http(loader), "/last"), (200, b"smuggled"))
        self.assertEqual([loader.lines.readline() for _ in range(2)], [b"websocket /\n", b"http /last\n"])

    # Forks

    def fork_app(self, child, where="coroutine"):
        """Start an application that forks for the path /fork, and whose child runs `child`. A second client's request is open."""
        body = "\n".join("        " + line for line in child.strip("\n").split("\n"))
        call = {
            "coroutine": "pid = await run()",
            "task": "pid = await asyncio.create_task(run())",
            "left task": "kept['task'] = asyncio.create_task(run()); await asyncio.sleep(0); pid = kept['pid']",
            "thread": "pid = await asyncio.get_running_loop().run_in_executor(None, run)",
        }[where]
        return self.outliving(f"""
{"" if where == "thread" else "async "}def run():
    kept["pid"] = pid = os.fork()
    if not pid:
{body}
    return pid
if path == "/fork":
    {call}
    if not pid: return
    return await answer(send, str(pid).encode())
if path == "/status":
    return await answer(send, str(os.waitpid(int(scope["query_string"]), 0)[1]).encode())
if path == "/wait":
    while not kept.get("go"): await asyncio.sleep(0.001)
if path == "/go": kept["go"] = True
await answer(send, path.encode())
""")

    def check_fork(self, loader, status=0):
        """Fork while another request waits. Return what the child has written to standard error."""
        other, conn = self.http(loader), self.http(loader)
        other.request("GET", "/wait")
        code, pid = self.ask(conn, "/fork")
        self.assertEqual(code, 200, pid)
        self.assertTrue(pid.isdigit(), pid)
        self.assertEqual(self.ask(conn, f"/status?{pid.decode()}"), (200, str(int(status)).encode()))
        self.assertEqual(self.ask(conn, "/go"), (200, b"/go"))
        self.assertEqual(other.getresponse().read(), b"/wait")
        return loader.read_stderr()

    def test_a_forked_child_leaves_where_the_applications_code_returns(self):
        for where in ("coroutine", "task", "left task", "thread"):
            with self.subTest(where):
                loader = self.fork_app("print('child', flush=True)", where)
                self.assertEqual(self.check_fork(loader), "")
                self.assertEqual(self.lines(loader, 1), ["child"])

    def test_a_forked_child_of_an_application_that_is_the_main_module(self):
        source = """
            import os
            async def app(scope, receive, send):
                if scope["type"] == "lifespan": return
                pid = os.fork()
                if not pid: return print("child", flush=True)
                os.waitpid(pid, 0)
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": __name__.encode()})
        """
        run = """
            import runpy
            with open("real.py", "w") as file: file.write(SOURCE)
            app = runpy.run_path("real.py", run_name="__main__")["app"]
        """.replace("SOURCE", repr(textwrap.dedent(source)))
        for start in (lambda: self.start("__main__.py", source), lambda: self.app(run)):
            loader = start()
            self.assertEqual(self.ask(self.http(loader)), (200, b"__main__"))
            self.assertEqual(self.lines(loader, 1), ["child"])
            self.assertEqual(loader.read_stderr(), "")

    def test_a_forked_child_that_fails_or_exits(self):
        self.assertIn("KeyError: 'in the child'", self.check_fork(self.fork_app("raise KeyError('in the child')"), 256))
        self.assertEqual(self.check_fork(self.fork_app("sys.exit(3)"), 3 << 8), "")
        self.assertIn("event loop", self.check_fork(self.fork_app("await asyncio.sleep(0)"), 256))
        self.assertIn("event loop", self.check_fork(self.fork_app("await asyncio.sleep(0.01)"), 256))
        loader = self.fork_app("try: raise KeyError\nexcept KeyError: pass")
        self.assertEqual(self.check_fork(loader), "")

    def test_a_forked_child_cannot_send_or_receive(self):
        loader = self.fork_app("""
try: await answer(send, b"of the child")
except OSError as error: print(error)
print((await receive())["type"], flush=True)
""")
        self.check_fork(loader)
        self.assertEqual(self.lines(loader, 2), ["http.disconnect", "this is a forked child, which has no client"])

    def test_a_child_of_a_c_library(self):
        """No hook of Python runs in the child."""
        for act, printed in (("await send({'type': 'http.response.body', 'body': b'of the child'})", "child"),
                             ("await receive()", "child"), ("return", "child"), ("await asyncio.sleep(0)", "child"),
                             ("await asyncio.sleep(0.05)", "child"), ("raise KeyError", "child"), ("sys.exit(3)", "child")):
            with self.subTest(act):
                loader = self.outliving(f"""
import ctypes
await send({{"type": "http.response.start", "status": 200}})
if path == "/fork":
    pid = ctypes.PyDLL(None).fork()
    if not pid:
        print("child", flush=True)
        {act}
        print("goes on", flush=True)
        return await send({{"type": "http.response.body", "body": b"of the child"}})
    kept["pid"] = pid
    await asyncio.sleep(0.1)
if path == "/slow":
    os.waitpid(kept["pid"], 0)
await send({{"type": "http.response.body", "body": path.encode()}})
""")
                other, conn = self.http(loader), self.http(loader)
                self.assertEqual(self.ask(other), (200, b"/"))
                conn.request("GET", "/fork")
                self.assertEqual(self.lines(loader, 1), ["child"])
                other.request("POST", "/other", b"body")
                self.assertEqual(other.getresponse().read(), b"/other")
                self.assertEqual(conn.getresponse().read(), b"/fork")
                self.assertEqual(self.ask(conn, "/slow"), (200, b"/slow"))
                self.assertEqual(loader.read_stderr().count("KeyError"), 2 * ("KeyError" in act))

    def test_a_hook_that_the_application_registers_for_its_children(self):
        loader = self.app(self.ANSWER + """
        def hook():
            try: kept["send"]({"type": "http.response.body", "body": b"of the child", "more_body": True}).send(None)
            except OSError as error: print(error, flush=True)
        os.register_at_fork(after_in_child=hook)  # while the application is loaded
        async def app(scope, receive, send):
            if scope["type"] == "lifespan": return
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"al", "more_body": True})
            kept["send"] = send
            pid = os.fork()
            if pid == 0: os._exit(0)
            os.waitpid(pid, 0)
            await send({"type": "http.response.body", "body": b"ice"})
        """)
        self.assertEqual(self.ask(self.http(loader)), (200, b"alice"))
        self.assertEqual(self.lines(loader, 1), ["this is a forked child, which has no client"])

    def test_a_forked_child_has_no_socket_of_its_parent(self):
        loader = self.fork_app("""
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try: target = os.readlink("/proc/self/fd/" + name)
    except OSError: continue
    if name not in "12" and ("socket" in target or "event" in target or "pipe" in target): print("has", name, target)
print("end", flush=True)
""")
        self.check_fork(loader)
        self.assertEqual(self.lines(loader, 1), ["end"])

    def test_a_forked_child_may_have_a_loop_of_its_own(self):
        loader = self.fork_app("asyncio.run(asyncio.sleep(0.001, print('ran', flush=True)))")
        self.assertEqual(self.check_fork(loader), "")
        self.assertEqual(self.lines(loader, 1), ["ran"])

    def test_a_signal_for_a_forked_child_is_the_childs(self):
        loader = self.fork_app("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)")
        self.assertEqual(self.check_fork(loader, signal.SIGTERM), "")
        self.assertIsNone(loader.process.poll())

    def test_processes_of_multiprocessing(self):
        loader = self.outliving("""
if path == "/fork":
    def work(queue): queue.put("of the child")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    text = queue.get()
    process.join()
    sleeper = context.Process(target=time.sleep, args=(60,))
    sleeper.start()
    sleeper.terminate()
    sleeper.join()
    return await answer(send, f"{text} {process.exitcode} {sleeper.exitcode}".encode())
await answer(send, path.encode())
""")
        conn = self.http(loader)
        for path, expected in (("/fork", b"of the child 0 -15"), ("/next", b"/next")):
            self.assertEqual(self.ask(conn, path), (200, expected))

    def test_a_child_that_is_forked_in_the_start_up_leaves_the_shutdown_to_its_parent(self):
        loader = self.app(self.ANSWER + """
        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                await receive()
                if not os.fork():
                    os.write(1, b"read " + sys.stdin.read().encode() + b"\\n")
                    return
                await send({"type": "lifespan.startup.complete"})
                await receive()
                return await send({"type": "lifespan.shutdown.complete"})
            await answer(send, b"ok")
        """)
        self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))
        seen = loader.output
        while b"read \n" not in seen:
            seen += loader.lines.readline()
        loader.channel.sendall(b"x")
        self.check_exit(loader)

    def test_exceptions_that_are_not_what_they_seem(self):
        """An exception of the application fails its own request, whatever its attributes are, and those of its class."""
        loader = self.outliving("""
def fails(_): raise KeyError("a liar")
def exits(_): raise SystemExit(3)
name = path[1:].partition("-")[0]
lie = exits if "exits" in path else fails
Liar = type("Liar", (Exception,), {name: lie if name == "__str__" else property(lie)})
if "gone" in path:
    while (await receive())["type"] != "http.disconnect": pass
    print("gone", flush=True)
if "fork" in path:
    child = os.fork()
    if not child: raise Liar
    return await answer(send, str(os.waitpid(child, 0)[1]).encode())
if path != "/": raise Liar
await answer(send, b"ok")
""")
        for name in ("__class__", "__str__", "__cause__", "__context__", "__traceback__", "__notes__", "exceptions"):
            for how in ("fails", "exits"):
                with self.subTest(name, how=how):
                    conn = loader.connect()
                    conn.sendall(f"GET /{name}-{how}-gone HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                    conn.close()
                    self.assertEqual(loader.lines.readline(), b"gone\n")
                    self.assertEqual(self.ask(self.http(loader), f"/{name}-{how}")[0], 500)
                    self.assertEqual(self.ask(self.http(loader), f"/{name}-{how}-fork"), (200, b"256"))
                    self.assertEqual(self.ask(self.http(loader), "/"), (200, b"ok"))

    def test_an_exit_outside_of_a_request_ends_the_process(self):
        """`asyncio` takes it out of its loop, and uvicorn ends, too. A request that exits fails alone."""
        for how in ("task", "callback"):
            with self.subTest(how):
                loader = self.outliving("""
if path == "/exit": sys.exit(3)
if path == "/begun":
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    await asyncio.sleep(60)
async def exits(): sys.exit(3)
if path == "/task": kept[0] = asyncio.create_task(exits())
if path == "/callback": asyncio.get_running_loop().call_soon(sys.exit, 3)
await answer(send, b"ok")
if path == "/after": sys.exit(3)
""")
                for path, expected in (("/exit", 500), ("/after", 200), ("/", 200)):
                    self.assertEqual(self.ask(self.http(loader), path)[0], expected)
                other = loader.connect()
                self.addCleanup(other.close)
                other.sendall(b"GET /begun HTTP/1.1\r\nHost: a\r\n\r\n")
                answers = other.makefile("rb")
                self.addCleanup(answers.close)
                while answers.readline() != b"5\r\n": pass
                self.assertEqual(self.ask(self.http(loader), f"/{how}"), (200, b"ok"))
                self.assertEqual(answers.read(), b"begun\r\n")  # cut: it has no last chunk
                self.check_exit(loader, 3)

    def test_errors_that_cannot_be_written(self):
        """The client gets its answer, and a circle of causes holds up no other request."""
        loader = self.outliving("""
if path == "/circle":
    await receive()
    while (await receive())["type"] != "http.disconnect": pass
    try: raise KeyError("circle")
    except KeyError as error: raise error from error
if path == "/closed":
    sys.stderr.close()
    raise KeyError("nowhere to go")
if path == "/early": return
await answer(send, b"ok")
""")
        conn = loader.connect()
        conn.sendall(b"GET /circle HTTP/1.1\r\nHost: a\r\n\r\n")
        conn.close()
        self.assertEqual(self.ask(self.http(loader), "/"), (200, b"ok"))
        for path in ("/closed", "/early"):
            with self.subTest(path):
                self.assertEqual(self.ask(self.http(loader), path)[0], 500)
        self.assertEqual(self.ask(self.http(loader), "/"), (200, b"ok"))
