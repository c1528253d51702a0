"""The loader of ASGI applications: what a peer can make it hold in memory.

A test compares the memory of the process before and after some MiB of traffic. Sending ends when the process stops reading,
so that a slow machine only sends less.
"""

import socket

from common import AsgiLoader
from test_asgi_websockets import Frames

MIB = 1 << 20
ALLOWED = 8 * MIB  # for the allocator and the buffers of one connection


class AsgiBounds(AsgiLoader):
    APP = """
        import asyncio
        async def app(scope, receive, send):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.accept"})
                if scope["path"] == "/busy":  # takes no message until it is told so
                    await released.wait()
                while True:
                    message = await receive()
                    if message["type"] == "websocket.disconnect":
                        return print(message["code"], flush=True)
                    if message.get("text") == "size":
                        await send({"type": "websocket.send", "text": str(largest)})
                    largest = len(message.get("text") or message.get("bytes"))
            if scope["path"] == "/wait":
                await released.wait()
            if scope["path"] == "/release":
                released.set()
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"ok"})
        released = asyncio.Event()
    """

    def memory(self, loader):
        with open(f"/proc/{loader.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))

    def frames(self, loader, path="/"):
        client = Frames(loader, path)
        self.addCleanup(client.close)
        self.assertEqual(client.status[9:12], "101")
        return client

    def flood(self, conn, piece, total):
        """Send pieces until so many bytes are sent, or the process reads no more. Return how many were sent."""
        block, sent = piece * (65536 // len(piece)), 0
        conn.settimeout(0.3)
        try:
            while sent < total:
                sent += conn.send(block[sent % len(piece):])
        except OSError:
            pass
        conn.settimeout(10)
        return sent

    @staticmethod
    def masked(opcode, data, final=0x80):
        return bytes((final | opcode, 0x80 | len(data))) + bytes(4) + data

    def check_memory(self, loader, before):
        self.assertLess(self.memory(loader) - before, ALLOWED)

    def test_pongs_that_are_not_read(self):
        loader = self.app(self.APP)
        ws = self.frames(loader)
        before = self.memory(loader)
        sent = self.flood(ws.conn, self.masked(9, bytes(125)), 32 * MIB)
        self.assertLess(sent, 8 * MIB)  # the process has stopped reading
        self.check_memory(loader, before)
        for _ in range(sent // 131):  # it goes on as soon as its peer reads
            self.assertEqual(ws.frame(), (10, bytes(125)))

    def test_fragments_of_one_message(self):
        loader = self.app(self.APP)
        for data in (b"", b"b", b"bc"):
            with self.subTest(data):
                ws = self.frames(loader)
                before = self.memory(loader)
                ws.conn.sendall(self.masked(1, b"a", 0))
                self.flood(ws.conn, self.masked(0, data, 0), 2 * MIB)
                ws.conn.sendall(self.masked(9, b"ping"))
                self.assertEqual(ws.frame(), (10, b"ping"))  # the process has taken all
                self.check_memory(loader, before)
                ws.close()

    def test_messages_that_the_application_does_not_take(self):
        loader = self.app(self.APP)
        for data in (b"", b"b", bytes(120)):
            with self.subTest(data):
                ws = self.frames(loader, "/busy")
                before = self.memory(loader)
                self.assertLess(self.flood(ws.conn, self.masked(2, data), 32 * MIB), 8 * MIB)
                self.check_memory(loader, before)
        self.assertEqual(self.ask(self.http(loader), "/release"), (200, b"ok"))

    def test_frames_before_the_application_accepts(self):
        loader = self.app(self.APP.replace("await receive()", "await released.wait()", 1))
        client = loader.connect()
        self.addCleanup(client.close)
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                       b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        before = self.memory(loader)
        self.assertLess(self.flood(client, self.masked(2, bytes(120)), 32 * MIB), 8 * MIB)
        self.check_memory(loader, before)
        self.assertEqual(self.ask(self.http(loader), "/release"), (200, b"ok"))

    def test_the_bound_on_a_message_is_an_option(self):
        loader = self.app(self.APP, max_websocket_message=1000)
        for frames, code in (([(2, 1001, 0x80)], 1009), ([(2, 600, 0), (0, 401, 0x80)], 1009), ([(1, 999, 0), (0, 2, 0)], 1009)):
            ws = self.frames(loader)
            for opcode, size, final in frames:
                ws.send(opcode, b"a" * size, final)
            opcode, data = ws.frame()
            self.assertEqual((opcode, int.from_bytes(data[:2], "big")), (8, code))
            self.assertEqual(loader.lines.readline(), b"1009\n")
        ws = self.frames(loader)
        ws.send(1, b"a" * 600, 0)
        ws.send(0, b"a" * 400)
        ws.send(1, b"size")
        self.assertEqual(ws.frame(), (1, b"1000"))

    def test_a_message_in_pieces_that_split_its_mask(self):
        loader = self.app(self.APP.replace('text": str(largest)', 'bytes": last').replace(
            "largest = ", "last = message.get('bytes'); largest = "))
        ws = self.frames(loader)
        data = bytes(range(256)) * 3
        masked = bytes(byte ^ b"abcd"[at % 4] for at, byte in enumerate(data))
        ws.conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for byte in b"\x82\xfe" + len(data).to_bytes(2, "big") + b"abcd" + masked:
            ws.conn.sendall(bytes((byte,)))
        ws.send(1, b"size")
        self.assertEqual(ws.frame(), (2, data))

    def test_a_body_of_tiny_chunks_that_is_not_read(self):
        loader = self.app(self.APP)
        conn = loader.connect()
        self.addCleanup(conn.close)
        before = self.memory(loader)
        conn.sendall(b"POST /wait HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.assertLess(self.flood(conn, b"1\r\nx\r\n", 32 * MIB), 8 * MIB)
        self.check_memory(loader, before)
        self.assertEqual(self.ask(self.http(loader), "/release"), (200, b"ok"))
