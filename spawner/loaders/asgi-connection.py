"""A connection from the server to an ASGI application, and the parser of its HTTP/1.1.

The parser is this file's own. The server has checked each request, and writes it in one form, so that parsing is `split`
and `partition`; that costs less than the callbacks of a general parser, and needs no package in the application's
environment. It refuses heads that the server never sends, such as obsolete line folding or two lengths.

The server writes the origin of each request in front of its target: `/PASSWORD,SCHEME;ADDRESS;PORT,TARGET`. Below a path of the
host, `;PATH` follows the port. No client can forge
it, because the client's own target stands behind. A request without it has no client, and the scheme `http`: a program with the
rights of this process has connected to its socket.
"""

import asyncio
from urllib.parse import unquote

from cabrank.asgi_request import COMPLETE, Request, check_process
from cabrank.asgi_websocket import WebSocket
from cabrank.python_own import ClientGone, own

HEAD_MAX = 1 << 20  # the server's limit of the request's head is lower
CHUNK_LINE_MAX = 1000
SPEC = {"version": "3.0", "spec_version": "2.3"}
SPECIAL = {b"host", b"content-length", b"transfer-encoding", b"upgrade", b"sec-websocket-key", b"sec-websocket-version",
           b"sec-websocket-protocol", b"sec-websocket-extensions"}
LISTS = {b"sec-websocket-protocol", b"sec-websocket-extensions"}  # several fields are one list


class BadRequest(Exception):
    """The bytes are not a request."""


def forget_stale(descriptor):
    """Forget a former connection of this number.

    An exception in asyncio, such as one of the limit of recursion, may have kept the loop from that. It would take the new
    connection for one that it watches already.
    """
    selector = getattr(asyncio.get_running_loop(), "_selector", None)  # uvloop has none
    if selector is not None and descriptor in selector.get_map():
        selector.unregister(descriptor)


class BadHandshake(BadRequest):
    """The fields of a WebSocket are wrong. The server passes on what its client has sent there."""


NO_BODY, LENGTH, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER = range(6)


class Connection(asyncio.Protocol):
    """A connection to the server, which carries one request after another, or a WebSocket."""

    __slots__ = ("server", "transport", "buffer", "request", "websocket", "framing", "left", "is_reading", "can_write",
                 "is_torn")

    def __init__(self, server):
        self.server = server
        self.transport = None
        self.buffer = b""  # bytes that wait for more, or for the end of the request before
        self.request = None  # from its head until its body has ended and its answer is complete
        self.websocket = None
        self.framing = NO_BODY  # what comes next of the request's body
        self.left = 0  # the bytes of the body or chunk that have not come
        self.is_reading = True
        self.can_write = None  # an event, while the server does not take what was written
        self.is_torn = False  # whether a step is in progress, or an exception has interrupted one: nothing can follow

    def connection_made(self, transport):
        if not own[0]:
            check_process(self.server)
        self.transport = transport
        self.server.connections.add(self)
        descriptor = transport.get_extra_info("socket").fileno()
        forget_stale(descriptor)
        if descriptor <= 2:  # uvloop does not call `accept` of the listener
            self.server.restore_stream(transport, descriptor)

    def connection_lost(self, _):
        self.server.connections.discard(self)
        self.resume_writing()
        if self.websocket is not None:
            self.websocket.lost()
        if self.request is not None:
            self.request.lost()

    def begin_step(self):
        """Begin a step of `send` or `receive`: a write, and all that notes it. `is_torn = False` ends it."""
        if self.is_torn:
            self.check_torn()
            raise ClientGone("an exception has interrupted a step of this connection")
        self.is_torn = True

    def check_torn(self):
        """End the connection if an exception has interrupted a step. Return whether that is so.

        The loop ends it: the application may call from so deep that an exception would interrupt the end, too.
        """
        if self.is_torn:
            self.server.loop.call_soon(self.transport.abort)
        return self.is_torn

    def pause_writing(self):
        self.can_write = asyncio.Event()

    def resume_writing(self):
        if self.can_write is not None:
            self.can_write.set()
            self.can_write = None
            if self.websocket is not None:
                self.websocket.take_frames()

    async def drain(self):
        while self.can_write is not None:
            await self.can_write.wait()

    def pause_reading(self):
        if self.is_reading:
            self.is_reading = False
            self.transport.pause_reading()

    def resume_reading(self):
        if not self.is_reading and not self.transport.is_closing():
            self.is_reading = True
            # The loop reads on in the context of this call, which may be that of a request.
            self.server.run_clean(self.transport.resume_reading)

    def data_received(self, data):
        if not own[0]:
            check_process(self.server)
        if self.is_torn and self.check_torn():
            return
        if self.websocket is not None:
            self.websocket.feed(data)
            return
        if self.buffer:
            data = self.buffer + data
            self.buffer = b""
        try:
            self.parse(data)
        except BadRequest as error:
            self.server.channel.log(f"asgi-server: refused a request: {error}\n")
            if isinstance(error, BadHandshake):
                self.refuse(b"400 Bad Request", f"{error}\n".encode())
            self.transport.close()

    def parse(self, data):
        """Consume the data. The rest that needs more data stays in `buffer`."""
        at, size = 0, len(data)
        while at < size:
            framing = self.framing
            if framing == NO_BODY:
                if self.request is not None:
                    self.buffer = data[at:]  # the server never sends the next request so early
                    self.pause_reading()
                    return
                end = data.find(b"\r\n\r\n", at)
                if end < 0:
                    if size - at > HEAD_MAX:
                        raise BadRequest("the head is too long")
                    self.buffer = data[at:]
                    return
                if self.begin(data[at:end]):
                    self.websocket.feed(data[end + 4:])
                    return
                if self.transport.is_closing():
                    return  # a handshake of another version: what follows is no request
                at = end + 4
            elif framing in (LENGTH, CHUNK):
                part = data[at:at + self.left] if at or size > self.left else data
                at += len(part)
                self.left -= len(part)
                if not self.left:
                    self.framing = NO_BODY if framing == LENGTH else CHUNK_END
                self.pass_on(part)
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    if size - at > CHUNK_LINE_MAX:
                        raise BadRequest("a line of a chunk is too long")
                    self.buffer = data[at:]
                    return
                line = data[at:end]
                at = end + 2
                self.chunk_line(line)

    def chunk_line(self, line):
        if self.framing == CHUNK_SIZE:
            digits = line.partition(b";")[0].strip()
            if not digits or digits.strip(b"0123456789abcdefABCDEF"):
                raise BadRequest(f"bad size of a chunk: {line!r}")
            self.left = int(digits, 16)
            self.framing = CHUNK if self.left else TRAILER
        elif self.framing == CHUNK_END:
            if line:
                raise BadRequest("a chunk is longer than its size")
            self.framing = CHUNK_SIZE
        elif not line:
            self.framing = NO_BODY
            self.pass_on(b"")

    def begin(self, head):
        """Start the request of this head. Return whether it is a WebSocket."""
        lines = head.split(b"\r\n")
        try:
            method, target, _ = lines[0].split(b" ")
        except ValueError:
            raise BadRequest(f"bad request line: {lines[0][:100]!r}") from None
        headers, special = [], {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            name = name.lower()
            if not colon or name[:1] in b" \t":
                raise BadRequest(f"bad header line: {line[:100]!r}")
            value = value.strip(b" \t")
            headers.append((name, value))
            if name in SPECIAL:
                if name in special and name not in LISTS:
                    raise (BadHandshake if name.startswith(b"sec-") else BadRequest)(f"repeated header: {name!r}")
                special[name] = special[name] + b"," + value if name in special else value
        get = special.get
        server = self.server
        secure, client, mount = False, None, []
        password, comma, rest = target.partition(b",")
        if comma and server.channel.is_password(password[1:]):
            origin, _, target = rest.partition(b",")
            scheme, address, port, *mount = origin.split(b";")
            secure, client = scheme == b"https", (address.decode("ascii"), int(port))
        path, _, query = target.partition(b"?")
        if path[:1] != b"/" and b"://" in path:
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
        text = path.decode("ascii", "replace")
        host = get(b"host", b"")
        is_websocket = b"upgrade" in special and special[b"upgrade"].lower() == b"websocket" and method == b"GET"
        scope = {
            "type": "http",
            "asgi": SPEC.copy(),
            "http_version": "1.1",
            "method": method.decode("ascii", "replace"),
            "scheme": "https" if secure else "http",
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "root_path": mount[0].decode("ascii") if mount else "",
            "headers": headers,
            "client": client,
            "server": server.hosts.get((host, secure)) or server.remember_host(host, secure),
            "extensions": {"http.response.early_hint": {}},
            "state": server.state.copy(),
        }
        if is_websocket:
            return self.begin_websocket(scope, special)
        length = get(b"content-length")
        if b"transfer-encoding" in special:
            if length is not None or special[b"transfer-encoding"].lower() != b"chunked":
                raise BadRequest("bad Transfer-Encoding")
            self.framing = CHUNK_SIZE
        elif length is not None and length != b"0":
            if not length.isdigit():
                raise BadRequest(f"bad Content-Length: {length!r}")
            self.left = int(length)
            self.framing = LENGTH if self.left else NO_BODY
        self.request = request = Request(self, scope, self.framing != NO_BODY)
        request.start()
        return False

    def refuse(self, status, text):
        """Answer in place of the application."""
        self.transport.write(b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" %
                             (status, len(text), text))

    def begin_websocket(self, scope, special):
        if b"content-length" in special or b"transfer-encoding" in special:
            raise BadHandshake("a WebSocket with a body")
        key = special.get(b"sec-websocket-key", b"")
        if special.get(b"sec-websocket-version") != b"13" or not key:
            self.refuse(b"426 Upgrade Required\r\nSec-WebSocket-Version: 13", b"This is not a WebSocket handshake of version 13.\n")
            self.transport.close()
            return False
        # A response that denies the WebSocket is an ordinary answer to this request.
        self.request = Request(self, scope.copy(), False)
        del scope["method"]
        scope["type"] = "websocket"
        scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
        scope["extensions"] = {"websocket.http.response": {}}
        protocols = special.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")
        scope["subprotocols"] = [name.strip() for name in protocols if name.strip()]
        self.websocket = WebSocket(self, scope, key, special.get(b"sec-websocket-extensions", b""))
        self.websocket.start()
        return True

    def pass_on(self, part):
        request = self.request
        request.feed(part, self.framing != NO_BODY)
        if self.framing == NO_BODY and request.state >= COMPLETE:
            self.request = None

    def answered(self):
        """Go on after the last byte of an answer."""
        if self.websocket is not None:  # it was denied: what comes from a peer that takes it for open is no request
            self.transport.close()
            return
        if self.framing == NO_BODY:
            self.request = None
            if self.server.is_leaving:
                self.transport.close()
                return
        # The rest of a body that the application has not read, or bytes of the next request.
        if not self.is_reading:
            self.resume_reading()
        if self.buffer and self.request is None:
            # This call may come from the present request, with its context.
            self.server.loop.call_soon(self.take_rest, context=self.server.context.copy())

    def take_rest(self):
        """Take the bytes of the next request that came before the end of the present one."""
        if self.buffer and self.request is None and not self.transport.is_closing():
            self.data_received(b"")
