"""The loader of ASGI applications: WebSockets whose messages are compressed."""

import os
import subprocess
import sys
import zlib

import test_asgi_websockets
from common import AsgiLoader
from test_asgi_websockets import Frames

TAIL = b"\0\0\xff\xff"
TEXT = b"How much wood would a woodchuck chuck if a woodchuck could chuck wood? " * 3


class Compressing(Frames):
    """A client that compresses as the server has agreed to."""

    def __init__(self, loader, offer="permessage-deflate"):
        super().__init__(loader, Sec_WebSocket_Extensions=offer)
        self.accepted = self.headers.get("Sec-WebSocket-Extensions", "")
        self.deflater, self.inflater = zlib.compressobj(wbits=-9), zlib.decompressobj(wbits=-15)

    def deflated(self, data):
        if "client_no_context_takeover" in self.accepted:
            self.deflater = zlib.compressobj(wbits=-9)
        return (self.deflater.compress(data) + self.deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]

    def send_deflated(self, data):
        self.send(0x41, self.deflated(data))

    def answer(self):
        """Return the next message, and its size on the way."""
        first = self.file.peek(1)[0]
        opcode, data = self.frame()
        if not first & 0x40:
            return opcode, data, len(data)
        if "server_no_context_takeover" in self.accepted:
            self.inflater = zlib.decompressobj(wbits=-15)
        return opcode, self.inflater.decompress(data + TAIL), len(data)


class AsgiDeflate(AsgiLoader):
    def app_that_echoes(self, **options):
        return self.app(test_asgi_websockets.AsgiWebSockets.ECHO, **options)

    def socket(self, *args):
        client = Frames(*args)
        self.addCleanup(client.close)
        return client

    def compressing(self, *args):
        client = Compressing(*args)
        self.addCleanup(client.close)
        return client

    def closes(self, client, code):
        frame = client.frame()
        self.assertEqual((frame[0], int.from_bytes(frame[1][:2], "big")), (8, code))

    def test_the_first_offer_that_can_be_taken_is_accepted(self):
        loader = self.app_that_echoes()
        own = "permessage-deflate; server_max_window_bits=12"
        for offer, accepted in (
            ("permessage-deflate", own),
            ("permessage-deflate; client_max_window_bits", own + "; client_max_window_bits=12"),
            ("PerMessage-Deflate ;client_max_window_bits = \"10\"", own + "; client_max_window_bits=10"),
            ("permessage-deflate; server_max_window_bits=9", own[:-2] + "9"),
            ("permessage-deflate; server_max_window_bits=15", own),
            ("permessage-deflate; client_no_context_takeover; server_no_context_takeover",
             "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12"),
            # Each of these is malformed, or cannot be done.
            ("permessage-deflate; server_max_window_bits", ""),
            ("permessage-deflate; server_max_window_bits=8", ""),
            ("permessage-deflate; server_max_window_bits=16", ""),
            ("permessage-deflate; server_max_window_bits=09", ""),
            ("permessage-deflate; client_max_window_bits=7", ""),
            ("permessage-deflate; client_no_context_takeover=1", ""),
            ("permessage-deflate; unknown", ""),
            ("permessage-deflate; client_max_window_bits; client_max_window_bits", ""),
            ("permessage-deflate=1", ""),
            ("x-webkit-deflate-frame", ""),
            ("permessage-deflate; a=\"", ""),
            ("x; a=\",permessage-deflate\", y", ""),
            ("permessage-deflate; server_max_window_bits=8, x; y=1, permessage-deflate", own),
            ("x\r\nSec-WebSocket-Extensions: permessage-deflate", own),
        ):
            with self.subTest(offer):
                self.assertEqual(self.compressing(loader, offer).accepted, accepted)
        self.assertNotIn("Sec-WebSocket-Extensions", self.socket(loader).headers)

    def test_messages_pass_both_ways(self):
        loader = self.app_that_echoes()
        for offer in ("permessage-deflate; client_max_window_bits", "permessage-deflate",
                      "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
                      "permessage-deflate; server_max_window_bits=9"):
            with self.subTest(offer):
                client = self.compressing(loader, offer)
                sizes = []
                for data in (TEXT, TEXT, b"", b"short", b"x" * 63, b"y" * 64, b"z" * 1_000_000, TEXT):
                    client.send_deflated(data)
                    opcode, back, size = client.answer()
                    self.assertTrue((opcode, back) == (1, data))
                    sizes.append(size)
                self.assertLess(sizes[0], len(TEXT))
                keeps = "server_no_context_takeover" not in client.accepted
                self.assertEqual(sizes[1] < sizes[0] // 2, keeps, sizes)
                # A client may leave a message as it is.
                client.send(2, TEXT)
                self.assertEqual(client.answer()[:2], (2, TEXT))

    def test_data_that_cannot_be_compressed_may_be_as_long_as_any(self):
        loader = self.app_that_echoes(max_websocket_message=100_000)
        client = self.compressing(loader)
        data = os.urandom(50_000).hex().encode()
        client.send_deflated(data)
        self.assertTrue(client.answer()[1] == data)
        data = os.urandom(100_000)
        compressed = client.deflated(data)
        self.assertGreater(len(compressed), len(data))
        client.send(0x42, compressed)
        self.assertTrue(client.answer()[1] == data)
        client.send(2, bytes(100_001))  # without compression, the limit holds as it is
        self.closes(client, 1009)

    def test_a_message_may_have_many_frames(self):
        client = self.compressing(self.app_that_echoes())
        compressed = client.deflated(TEXT)
        client.send(0x41, compressed[:1], final=0)
        for at in range(1, len(compressed)):
            client.send(0, compressed[at:at + 1], final=0)
            if at == 5:
                client.send(9, b"ping")
        client.send(0, b"")
        self.assertEqual(client.frame(), (10, b"ping"))
        self.assertEqual(client.answer()[1], TEXT)

    def test_a_compressor_may_end_its_stream_with_a_message(self):
        client = self.compressing(self.app_that_echoes())
        for end in (b"\0", b""):
            whole = zlib.compressobj(wbits=-15)
            client.send(0x41, whole.compress(TEXT) + whole.flush() + end)
            self.assertEqual(client.answer()[1], TEXT)
        whole = zlib.compressobj(wbits=-15)
        client.send(0x41, whole.compress(TEXT) + whole.flush() + b"\0more")
        self.closes(client, 1007)

    def test_frames_that_break_the_extension(self):
        loader = self.app_that_echoes()
        for bad, code in (
            (b"\xc1\x82\0\0\0\0\xff\xff", 1007),  # no block of this kind exists
            (b"\xa1\x80\0\0\0\0", 1002), (b"\x91\x80\0\0\0\0", 1002),  # other bits
            (b"\xc9\x80\0\0\0\0", 1002),  # a ping
            (b"\x01\x81\0\0\0\0a\xc0\x80\0\0\0\0", 1002),  # a continuation
        ):
            with self.subTest(bad):
                client = self.compressing(loader)
                client.conn.sendall(bad)
                self.closes(client, code)
        client = self.compressing(loader)
        client.send_deflated(b"\xff" * 100)
        self.closes(client, 1007)

    def test_a_small_message_does_not_become_a_large_one(self):
        loader = self.app_that_echoes(max_websocket_message=1_000_000)
        before = resident(loader.process.pid)
        for _ in range(2):
            client = self.compressing(loader)
            client.send_deflated(bytes(60_000_000))
            self.closes(client, 1009)
        self.assertLess(resident(loader.process.pid) - before, 30_000_000)
        client = self.compressing(loader)
        for more, code in ((0, None), (1, 1009)):
            client.send_deflated(b"x" * (1_000_000 + more))
            if code is None:
                self.assertEqual(len(client.answer()[1]), 1_000_000)
            else:
                self.closes(client, code)

    def test_messages_that_wait_count_with_the_size_that_they_have(self):
        loader = self.app("""
            import asyncio
            async def app(scope, receive, send):
                await receive()
                await send({"type": "websocket.accept"})
                await asyncio.Event().wait()
        """)
        client = self.compressing(loader)
        client.conn.settimeout(1)
        before = resident(loader.process.pid)
        # Each has a megabyte, of which none is taken. So the server stops to read.
        message = client.deflated(bytes(1_000_000))
        with self.assertRaises(TimeoutError):
            while True:
                client.send(0x42, message)
        self.assertLess(resident(loader.process.pid) - before, 30_000_000)
        loader.process.kill()  # the application does not end

    def test_with_the_client_of_the_library_websockets(self):
        python = os.environ.get("CABRANK_GREENLETS", sys.executable)
        has = subprocess.run([python, "-c", "import websockets.sync.client"], capture_output=True)
        if has.returncode:
            self.skipTest("no module websockets")
        loader = self.app_that_echoes()
        code = """
import socket, sys
from websockets.sync.client import connect, unix_connect
with unix_connect(sys.argv[1], "ws://a/", compression="deflate") as ws:
    assert [e.name for e in ws.protocol.extensions] == ["permessage-deflate"], ws.protocol.extensions
    for message in ("a" * 100_000, b"b" * 7, "c" * 100, "c" * 100, bytes(range(256)) * 500):
        ws.send(message)
        assert ws.recv() == message
    ws.send(["d" * 100, "e" * 100])
    assert ws.recv() == "d" * 100 + "e" * 100
"""
        done = subprocess.run([python, "-c", code, loader.path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
