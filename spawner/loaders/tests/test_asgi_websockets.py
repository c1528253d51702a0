"""The loader of ASGI applications: WebSockets."""

import http.client
import os

from common import AsgiLoader
from driver import target


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


class AsgiWebSockets(AsgiLoader):
    def socket(self, *args, **fields):
        client = Frames(*args, **fields)
        self.addCleanup(client.close)
        return client

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
        ws = self.socket(loader, target("/", scheme="https"), Sec_WebSocket_Protocol="one, two")
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

    def test_receive_and_send_on_another_thread_raise(self):
        loader = self.app("""
            import asyncio
            async def app(scope, receive, send):
                await receive()
                await send({"type": "websocket.accept"})
                def refused(call):
                    try: call.send(None)
                    except RuntimeError: return "refused"
                def work():
                    return " ".join(str(refused(call)) for call in (receive(), send({"type": "websocket.send", "text": "x"})))
                said = await asyncio.get_running_loop().run_in_executor(None, work)
                await send({"type": "websocket.send", "text": said})
        """)
        self.assertEqual(self.socket(loader).frame(), (1, b"refused refused"))

    def test_websockets_that_are_refused(self):
        loader = self.app(self.ECHO)
        for path, status in (("/403", "403"), ("/deny", "429"), ("/raise", "500")):
            self.assertEqual(self.socket(loader, path).status[9:12], status)
        self.assertEqual(self.socket(loader, "/deny").file.read(5), b"later")
        conn = self.http(loader)
        self.assertEqual(self.ask(conn, Upgrade="websocket", Connection="upgrade")[0], 426)
        repeated = b"Sec-WebSocket-Key: a\r\nSec-WebSocket-Key: b\r\n"
        for fields in (repeated, b"Upgrade: websocket\r\n" + repeated, b"Upgrade: websocket\r\nContent-Length: 1\r\n"):
            with loader.connect() as conn, conn.makefile("rb") as answers:
                conn.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n%s\r\n" % fields)
                self.assertEqual(answers.readline(), b"HTTP/1.1 400 Bad Request\r\n")
                self.assertIn(b"\r\nConnection: close\r\n", answers.read())  # to its end

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

    def test_a_stop_tells_websockets_that_the_server_goes_away(self):
        loader = self.app(self.ECHO)
        ws = self.socket(loader)
        loader.channel.sendall(b"s")
        self.assertEqual(ws.frame()[1][:2], (1001).to_bytes(2, "big"))
        self.assertEqual(loader.lines.readline(), b"1001 the server stops\n")
        self.check_exit(loader)

    BESIDE = """
        import asyncio
        begun = asyncio.Event()
        async def app(scope, receive, send):
            if scope["type"] == "lifespan": return
            if scope["type"] == "websocket":
                await receive()
                if scope["path"] == "/late":
                    begun.set()
                    await goes_on.wait()
                await send({"type": "websocket.accept"})
                message = await receive()
                print(message["code"], message["reason"], flush=True)
                try:
                    await send({"type": "websocket.send", "text": "late"})
                except OSError as error:
                    print(error, flush=True)
                return
            if scope["path"] == "/go": goes_on.set()
            if scope["path"] == "/begun": await begun.wait()
            if scope["path"] == "/wait": await goes_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})
        goes_on = asyncio.Event()
        """

    def test_the_end_of_websockets_leaves_other_requests_alone(self):
        for order, code, reason in ((b"g", 1001, b"the server stops"), (b"r", 1012, b"the service restarts")):
            with self.subTest(order):
                loader = self.app(self.BESIDE)
                self.assertEqual(loader.ready["ends_websockets"], "true")
                ws = self.socket(loader)
                waiting = self.http(loader)
                waiting.request("GET", "/wait")
                late = loader.connect()
                self.addCleanup(late.close)
                late.sendall(b"GET /late HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                             b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
                other = self.http(loader)
                self.assertEqual(self.ask(other, path="/begun")[0], 200)
                loader.channel.sendall(order)
                self.assertEqual(ws.frame(), (8, code.to_bytes(2, "big") + reason))
                self.assertEqual(loader.lines.readline(), b"%d %s\n" % (code, reason))
                self.assertEqual(loader.lines.readline(), b"the WebSocket is closed\n")
                # Requests go on, old and new. A WebSocket that is accepted only now is closed at once.
                self.assertEqual(self.ask(other, path="/go")[0], 200)
                self.assertEqual(waiting.getresponse().status, 200)
                seen = b""
                while not seen.endswith(reason):
                    part = late.recv(1000)
                    self.assertTrue(part, seen)
                    seen += part
                self.assertIn(b"\r\n\r\n\x88", seen)
                loader.channel.sendall(b"s")
                self.check_exit(loader)
