"""The ASGI server of a Python application: python-loader.py has loaded the application, and calls `serve`.

The server speaks HTTP/1.1 over connections that it keeps and reuses (`http_session`). It has no password; the modes of the
socket and its directory protect it. Any number of requests run at once, in one event loop: that of uvloop where it is
installed.

The HTTP parser is this file's own. The server has checked each request, and writes it in one form, so that parsing is
`split` and `partition`; that costs less than the callbacks of a general parser, and needs no package in the application's
environment. What the server never sends (obsolete line folding, two lengths) is refused.

The client's address is the last one of X-Forwarded-For, and the scheme the last one of X-Forwarded-Proto: the server
writes both, or has checked them. The client's port is 0, because the server does not pass it on.

An application that sends after its client has left gets an OSError, as ASGI recommends since version 2.4. It also gets
`http.disconnect`, as in all versions.

WebSockets follow RFC 6455, without compression. A message has at most 16 MiB. A peer that is silent for 20 s gets a
ping, and loses its connection if it stays silent for 20 s more.
"""

import asyncio
import base64
import faulthandler
import hashlib
import os
import re
import signal
import sys
import time
import traceback
from collections import deque
from http import HTTPStatus
from urllib.parse import unquote

HEAD_MAX = 1 << 20  # the server's limit of the request's head is lower
CHUNK_LINE_MAX = 1000
REPLY_HEAD_MAX = 128 << 10  # the server accepts no longer one
BUFFER = 64 << 10  # more unread bytes stop the server
JOINED_MAX = 256 << 10  # a longer body is not copied behind its head
MEMORY_MAX = 1000  # remembered header names and hosts
MESSAGE_MAX = 16 << 20
PING_INTERVAL = 20
CLOSE_TIMEOUT = 10
SPEC = {"version": "3.0", "spec_version": "2.3"}

HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
              b"transfer-encoding", b"upgrade"}
SPECIAL = {b"host", b"content-length", b"transfer-encoding", b"x-forwarded-for", b"x-forwarded-proto", b"upgrade",
           b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-protocol"}
DISCONNECT = "http.disconnect"


class ClientGone(ConnectionError):
    """The server closed the connection, so the answer has no reader."""


class BadRequest(Exception):
    """The bytes are not a request."""


# --- One connection ----------------------------------------------------------------------------------------------------

NO_BODY, LENGTH, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER = range(6)


class Connection(asyncio.Protocol):
    """A connection to the server, which carries one request after another, or a WebSocket."""

    __slots__ = ("server", "transport", "buffer", "request", "websocket", "framing", "left", "is_reading", "can_write")

    def __init__(self, server):
        self.server = server
        self.transport = None
        self.buffer = b""  # bytes that wait for more, or for the end of the request before
        self.request = None  # from its head until both its body and its answer have ended
        self.websocket = None
        self.framing = NO_BODY  # what comes next of the request's body
        self.left = 0  # the bytes of the body or chunk that have not come
        self.is_reading = True
        self.can_write = None  # an event, while the server does not take what was written

    def connection_made(self, transport):
        self.transport = transport
        self.server.connections.add(self)

    def connection_lost(self, _):
        self.server.connections.discard(self)
        self.resume_writing()
        if self.websocket is not None:
            self.websocket.lost()
        if self.request is not None:
            self.request.lost()

    def pause_writing(self):
        self.can_write = asyncio.Event()

    def resume_writing(self):
        if self.can_write is not None:
            self.can_write.set()
            self.can_write = None

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
            self.transport.resume_reading()

    def data_received(self, data):
        if self.websocket is not None:
            self.websocket.feed(data)
            return
        if self.buffer:
            data = self.buffer + data
            self.buffer = b""
        try:
            self.parse(data)
        except BadRequest as error:
            print(f"asgi-server: refused a request: {error}", file=sys.stderr)
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
                if name in special and name != b"sec-websocket-protocol":
                    raise BadRequest(f"repeated header: {name!r}")
                special[name] = special[name] + b"," + value if name in special else value
        get = special.get
        path, _, query = target.partition(b"?")
        if path[:1] != b"/" and b"://" in path:
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
        text = path.decode("ascii", "replace")
        secure = get(b"x-forwarded-proto", b"")[-5:].lower() == b"https"
        client = get(b"x-forwarded-for")
        server = self.server
        host = get(b"host", b"")
        is_websocket = b"upgrade" in special and special[b"upgrade"].lower() == b"websocket" and method == b"GET"
        scope = {
            "type": "http",
            "asgi": SPEC,
            "http_version": "1.1",
            "method": method.decode("ascii", "replace"),
            "scheme": "https" if secure else "http",
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "root_path": server.root_path,
            "headers": headers,
            "client": None if client is None else (client[client.rfind(b",") + 1:].strip().decode("latin-1"), 0),
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

    def begin_websocket(self, scope, special):
        if b"content-length" in special or b"transfer-encoding" in special:
            raise BadRequest("a WebSocket with a body")
        key = special.get(b"sec-websocket-key", b"")
        if special.get(b"sec-websocket-version") != b"13" or not key:
            body = b"This is not a WebSocket handshake of version 13.\n"
            self.transport.write(b"HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Type: text/plain\r\n"
                                 b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
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
        self.websocket = WebSocket(self, scope, key)
        self.websocket.start()
        return True

    def pass_on(self, part):
        request = self.request
        request.feed(part, self.framing != NO_BODY)
        if self.framing == NO_BODY and request.state == DONE:
            self.request = None

    def answered(self):
        """Go on after the end of an answer."""
        self.websocket = None  # it was denied
        if self.framing == NO_BODY:
            self.request = None
            if self.server.is_leaving:
                self.transport.close()
                return
        # The rest of a body that the application has not read, or bytes of the next request.
        if not self.is_reading:
            self.resume_reading()
        if self.buffer and self.request is None:
            self.data_received(b"")


# --- One request -------------------------------------------------------------------------------------------------------

AWAITED, STARTED, BEGUN, DONE = range(4)
ORDINARY, LENGTH_FIELD, DROPPED = range(3)
header_kinds = {}  # what was found out about the names of headers


def check_name(name):
    if not isinstance(name, bytes) or not HEADER_NAME.fullmatch(name):
        raise ValueError(f"invalid header name: {name!r}")
    lower = name.lower()
    # A hop-by-hop header concerns the connection, which belongs to the server.
    kind = LENGTH_FIELD if lower == b"content-length" else DROPPED if lower in HOP_BY_HOP else ORDINARY
    if len(header_kinds) < MEMORY_MAX:
        header_kinds[name] = kind
    return kind


def encode_fields(headers):
    """Return the header fields as bytes, and the Content-Length or None."""
    fields, declared, count = [], None, 0
    for name, value in headers:
        kind = header_kinds.get(name)
        if kind is None:
            kind = check_name(name)
        if kind:
            if kind == DROPPED:
                continue
            if declared is not None or not value.isdigit():
                raise ValueError(f"invalid or repeated Content-Length: {value!r}")
            declared = int(value)
        fields += name, b": ", value, b"\r\n"
        count += 1
    block = b"".join(fields)
    if block.count(b"\n") != count or block.count(b"\r") != count or b"\0" in block:
        raise ValueError("a header has a line break or NUL")
    if len(block) > REPLY_HEAD_MAX - 200:  # with the status line and the fields that the server adds
        raise ValueError(f"the headers have {len(block)} bytes, which is too many")
    return block, declared


class Task:
    """The run of the application for one request or WebSocket."""

    __slots__ = ("connection", "scope", "event", "is_gone", "task", "since")

    def __init__(self, connection, scope):
        self.connection = connection
        self.scope = scope
        self.event = None  # set when `receive` may have something to return; made for the first wait
        self.is_gone = False
        self.task = None
        self.since = 0.0

    def start(self):
        server = self.connection.server
        self.since = time.monotonic()
        server.running.add(self)
        self.task = server.loop.create_task(self.run())

    async def run(self):
        server = self.connection.server
        try:
            await server.application(self.scope, self.receive, self.send)
        except BaseException as error:  # sys.exit() in a request fails that request, and does not end the process
            if server.is_terminating:
                raise
            if not (self.is_gone and comes_from_leaving(error)):
                sys.stderr.write("".join(traceback.format_exception(type(error), error, error.__traceback__.tb_next)))
            self.fail()
        else:
            self.returned()
        finally:
            server.running.discard(self)
            if server.is_leaving:
                server.check_idle()

    def wake(self):
        if self.event is not None:
            self.event.set()

    async def wait(self):
        if self.event is None:
            self.event = asyncio.Event()
        self.event.clear()
        await self.event.wait()

    async def write(self, data):
        connection = self.connection
        # The transport knows first, because it has failed to write. An application that only sends would never let the loop
        # call `connection_lost`.
        if connection.transport.is_closing():
            raise ClientGone("the client has left")
        connection.transport.write(data)
        if connection.can_write is not None:
            await connection.drain()
            if self.is_gone:
                raise ClientGone("the client has left")


def comes_from_leaving(error):
    """Return whether an error follows from the end of the connection."""
    while error is not None:
        if isinstance(error, (ClientGone, asyncio.CancelledError)):
            return True
        if isinstance(error, BaseException) and hasattr(error, "exceptions"):  # a group
            return all(map(comes_from_leaving, error.exceptions))
        error = error.__cause__ or error.__context__
    return False


class Request(Task):
    """One request and its answer."""

    __slots__ = ("body", "has_more", "is_given", "state", "head", "declared", "sent", "is_bodyless", "is_chunked")

    def __init__(self, connection, scope, has_body):
        super().__init__(connection, scope)
        self.body = b""  # what has come of the body, and waits for the application
        self.has_more = has_body
        self.is_given = False  # the application has the whole body
        self.state = AWAITED
        self.head = b""
        self.declared = None
        self.sent = 0
        self.is_bodyless = False
        self.is_chunked = False

    def lost(self):
        self.is_gone = True
        self.wake()

    def feed(self, part, has_more):
        self.has_more = has_more
        if self.state != DONE:
            self.body = self.body + part if self.body else part
            if len(self.body) > BUFFER:
                self.connection.pause_reading()
            self.wake()

    async def receive(self):
        while True:
            if self.is_gone or self.state == DONE:
                return {"type": DISCONNECT}
            if self.body or not (self.has_more or self.is_given):
                body, self.body = self.body, b""
                self.is_given = not self.has_more
                connection = self.connection
                if not connection.is_reading and (self.has_more or not connection.buffer):
                    connection.resume_reading()
                return {"type": "http.request", "body": body, "more_body": self.has_more}
            await self.wait()

    async def send(self, message):
        kind = message["type"]
        if self.is_gone:
            raise ClientGone("the client has left")
        if kind == "http.response.body" and self.state in (STARTED, BEGUN):
            await self.send_body(message.get("body", b""), message.get("more_body", False))
        elif kind == "http.response.start" and self.state == AWAITED:
            status = message["status"]
            line = STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
            if not 200 <= status <= 999:
                raise ValueError(f"invalid status: {status!r}")
            fields, self.declared = encode_fields(message.get("headers", ()))
            self.head = line + fields
            self.is_bodyless = status in (204, 304) or self.scope["method"] == "HEAD"
            self.state = STARTED
        elif kind == "http.response.early_hint" and self.state == AWAITED:
            fields, _ = encode_fields([(b"link", link) for link in message.get("links", ())])
            await self.write(b"HTTP/1.1 103 Early Hints\r\n" + fields + b"\r\n")
        else:
            raise RuntimeError(f"the application sent {kind} " + ("after the end of its answer" if self.state == DONE else
                               "before http.response.start" if self.state == AWAITED else "twice"))

    async def send_body(self, body, more):
        size = len(body)
        first = self.state == STARTED
        if not self.is_bodyless:
            if first and self.declared is None:
                if more:
                    self.is_chunked = True
                    self.head += b"Transfer-Encoding: chunked\r\n"
                else:
                    self.declared = size
                    self.head += b"Content-Length: %d\r\n" % size
            self.sent += size
            if self.declared is not None and (self.sent > self.declared or not more and self.sent < self.declared):
                raise RuntimeError(f"the body has {self.sent} bytes, but its Content-Length is {self.declared}")
        else:
            size = 0
        parts = [self.head, b"\r\n"] if first else []
        if size:
            if self.is_chunked:
                parts += b"%x\r\n" % size, body, b"\r\n"
            else:
                parts.append(body)
        if self.is_chunked and not more:
            parts.append(b"0\r\n\r\n")
        self.state = BEGUN
        if size <= JOINED_MAX:
            data = b"".join(parts)
        else:
            at = parts.index(body)
            self.connection.transport.write(b"".join(parts[:at]))
            self.connection.transport.write(bytes(body))
            data = b"".join(parts[at + 1:])
        if more:
            await self.write(data)
            return
        self.connection.transport.write(data)
        # The application is free before the server has taken the last part.
        self.state = DONE
        self.wake()
        self.connection.answered()

    def returned(self):
        if self.state != DONE and not self.is_gone:
            print("asgi-server: the application returned before the end of its answer to "
                  f"{self.scope['method']} {self.scope['path']}", file=sys.stderr)
            self.fail()

    def fail(self):
        """Send an error if the answer has not begun. Otherwise leave the answer incomplete."""
        if self.is_gone or self.state == DONE:
            return
        connection = self.connection
        if self.state == BEGUN:
            connection.transport.close()
            return
        body = b"The application failed to answer this request. The server's log has the details.\n"
        connection.transport.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(body), b"" if self.scope["method"] == "HEAD" else body))
        self.state = DONE
        self.wake()
        connection.answered()

    def describe(self):
        return f"{self.scope['method']} {self.scope['path']}"


# --- WebSockets --------------------------------------------------------------------------------------------------------

CONNECTING, OPEN, CLOSING, CLOSED = range(4)
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode, data):
    size = len(data)
    if size < 126:
        head = bytes((0x80 | opcode, size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")
    return head + data


def unmask(mask, data):
    size = len(data)
    if not size:
        return b""
    repeated = mask * (size // 4) + mask[:size % 4]
    return (int.from_bytes(data, "little") ^ int.from_bytes(repeated, "little")).to_bytes(size, "little")


class ProtocolError(Exception):
    """The peer broke the protocol: a code and a reason."""


class WebSocket(Task):
    """The server's side of one WebSocket."""

    __slots__ = ("key", "state", "buffer", "parts", "opcode", "size", "messages", "waiting", "disconnect", "timer", "was_silent")

    def __init__(self, connection, scope, key):
        super().__init__(connection, scope)
        self.key = key
        self.state = CONNECTING
        self.buffer = bytearray()
        self.parts = []  # of a message in several frames
        self.opcode = None  # of that message
        self.size = 0
        self.messages = deque([{"type": "websocket.connect"}])  # for the application
        self.waiting = 0  # their bytes
        self.disconnect = None
        self.timer = None
        self.was_silent = False

    def describe(self):
        return f"WebSocket {self.scope['path']}"

    # From the server

    def feed(self, data):
        if self.state == CLOSED:
            return
        self.buffer += data
        self.was_silent = False
        if self.state == CONNECTING:
            if len(self.buffer) > BUFFER:
                self.connection.pause_reading()
            return
        try:
            while self.take_frame():
                pass
        except ProtocolError as error:
            self.end(*error.args)
            self.connection.transport.close()

    def take_frame(self):
        """Take the next frame from the buffer. Return whether it was there."""
        buffer = self.buffer
        if len(buffer) < 2 or self.state == CLOSED:
            return False
        opcode, size, at = buffer[0] & 15, buffer[1] & 127, 2
        is_final = buffer[0] & 0x80
        if buffer[0] & 0x70:
            raise ProtocolError(1002, "a reserved bit is set")
        if not buffer[1] & 0x80:
            raise ProtocolError(1002, "a frame is not masked")
        if opcode >= 8 and (size > 125 or not is_final):
            raise ProtocolError(1002, "a control frame is too long or fragmented")
        if size >= 126:
            at = 4 if size == 126 else 10
            if len(buffer) < at:
                return False
            size = int.from_bytes(buffer[2:at], "big")
        if opcode < 8 and self.size + size > MESSAGE_MAX:
            raise ProtocolError(1009, "the message is too long")
        end = at + 4 + size
        if len(buffer) < end:
            return False
        data = unmask(bytes(buffer[at:at + 4]), buffer[at + 4:end])
        del buffer[:end]
        if opcode >= 8:
            self.control(opcode, data)
            return True
        if (opcode == CONTINUATION) != (self.opcode is not None) or opcode > BINARY:
            raise ProtocolError(1002, "a frame is not expected here")
        if opcode:
            self.opcode = opcode
        self.parts.append(data)
        self.size += size
        if is_final:
            whole = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
            message = {"type": "websocket.receive"}
            if self.opcode == TEXT:
                try:
                    message["text"] = whole.decode()
                except UnicodeDecodeError:
                    raise ProtocolError(1007, "a text is not UTF-8") from None
            else:
                message["bytes"] = whole
            self.parts, self.opcode, self.size = [], None, 0
            if self.state == OPEN:
                self.waiting += len(whole) + 1
                self.messages.append(message)
                if self.waiting > BUFFER:
                    self.connection.pause_reading()
                self.wake()
        return True

    def control(self, opcode, data):
        if opcode == PING:
            if self.state == OPEN:
                self.connection.transport.write(frame(PONG, data))
        elif opcode == CLOSE:
            code = int.from_bytes(data[:2], "big") if data else 1005
            if len(data) == 1 or data and not (1000 <= code <= 1014 and code not in (1004, 1005, 1006) or 3000 <= code <= 4999):
                raise ProtocolError(1002, "bad close code")
            try:
                reason = data[2:].decode()
            except UnicodeDecodeError:
                raise ProtocolError(1007, "a close reason is not UTF-8") from None
            self.end(code, reason)
            self.connection.transport.close()
        elif opcode != PONG:
            raise ProtocolError(1002, "unknown opcode")

    def end(self, code, reason):
        """Close, because of the peer or the server. The application gets `websocket.disconnect`."""
        if self.state == OPEN:
            self.send_close(code, reason)
        if self.disconnect is None:
            self.disconnect = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self.state = CLOSED
        self.stop_timer()
        self.wake()

    def send_close(self, code, reason):
        data = b"" if code == 1005 else code.to_bytes(2, "big") + reason.encode()[:123].decode(errors="ignore").encode()
        self.connection.transport.write(frame(CLOSE, data))

    def lost(self):
        self.is_gone = True
        self.end_of_connection()

    def end_of_connection(self):
        if self.disconnect is None:
            self.disconnect = {"type": "websocket.disconnect", "code": 1006, "reason": ""}
        self.state = CLOSED
        self.stop_timer()
        self.wake()

    # Time

    def set_timer(self, delay, call):
        self.stop_timer()
        self.timer = self.connection.server.loop.call_later(delay, call)

    def stop_timer(self):
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def tick(self):
        # While the application does not take its messages, pongs are not read either.
        if self.was_silent and self.connection.is_reading:
            self.end(1011, "no answer to a ping")
            self.connection.transport.abort()
            return
        self.was_silent = True
        self.connection.transport.write(frame(PING, b""))
        self.set_timer(PING_INTERVAL, self.tick)

    # From the application

    async def receive(self):
        while True:
            if self.messages:
                message = self.messages.popleft()
                if self.waiting:
                    self.waiting -= len(message.get("text", message.get("bytes", b""))) + 1
                    # A text has fewer characters than bytes: the sum is right once all have gone.
                    if not self.messages:
                        self.waiting = 0
                if self.waiting <= BUFFER and not self.connection.is_reading:
                    self.connection.resume_reading()
                return message
            if self.disconnect is not None:
                return self.disconnect
            await self.wait()

    async def send(self, message):
        kind = message["type"]
        if self.state == CLOSED or self.is_gone:
            raise ClientGone("the WebSocket is closed")
        if self.state == OPEN:
            if kind == "websocket.send":
                data, text = message.get("bytes"), message.get("text")
                if data is None and text is None:
                    raise ValueError("websocket.send needs bytes or text")
                await self.write(frame(BINARY, data) if data is not None else frame(TEXT, text.encode()))
                return
            if kind == "websocket.close":
                self.close(message.get("code", 1000), message.get("reason") or "")
                return
        elif self.state == CONNECTING:
            if kind == "websocket.accept":
                self.accept(message)
                return
            if kind == "websocket.close":
                kind, message = "websocket.http.response.body", {}
                await self.deny({"type": "http.response.start", "status": 403})
            if kind.startswith("websocket.http.response."):
                await self.deny({**message, "type": kind[len("websocket."):]})
                return
        raise RuntimeError(f"the application sent {kind}, which does not fit the state of its WebSocket")

    async def deny(self, message):
        denial = self.connection.request
        try:
            await denial.send(message)
        finally:
            if denial.state == DONE:
                self.end_of_connection()

    def accept(self, message):
        subprotocol = message.get("subprotocol")
        headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() != b"sec-websocket-protocol"]
        if subprotocol is not None:
            headers.append((b"sec-websocket-protocol", subprotocol.encode("latin-1")))
        fields, _ = encode_fields(headers)
        accept = base64.b64encode(hashlib.sha1(self.key + GUID).digest())
        self.connection.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                        b"Sec-WebSocket-Accept: " + accept + b"\r\n" + fields + b"\r\n")
        self.connection.request = None
        self.state = OPEN
        self.set_timer(PING_INTERVAL, self.tick)
        self.connection.resume_reading()
        self.feed(b"")

    def close(self, code, reason):
        """Start the closing handshake. The peer's answer ends the connection, or else a time-out."""
        self.send_close(code, reason)
        self.disconnect = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self.state = CLOSING
        self.connection.resume_reading()
        self.set_timer(CLOSE_TIMEOUT, self.connection.transport.abort)
        self.wake()

    def leave(self, stops):
        """Ask the peer to connect to another process, or say that the server stops."""
        if self.state == OPEN:
            self.close(1001, "the server stops") if stops else self.close(1012, "the service restarts")

    def returned(self):
        if self.state == OPEN:
            self.close(1000, "")
        elif self.state == CONNECTING:
            self.fail()

    def fail(self):
        if self.state == OPEN:
            self.close(1011, "the application failed")
        elif self.state == CONNECTING:
            self.connection.request.fail()
            self.end_of_connection()


# --- Lifespan ----------------------------------------------------------------------------------------------------------


class Lifespan:
    """The application's start-up and shutdown. An application that does not know the protocol has neither."""

    def __init__(self, server):
        self.server = server
        self.requests = asyncio.Queue()
        self.reply = None  # the future of the reply to the last request
        self.task = None

    async def ask(self, kind):
        """Send `startup` or `shutdown`. Return the message that answers it, or None without an answer."""
        self.reply = self.server.loop.create_future()
        self.requests.put_nowait({"type": f"lifespan.{kind}"})
        if self.task is None:
            scope = {"type": "lifespan", "asgi": SPEC, "state": self.server.state}
            self.task = self.server.loop.create_task(self.run(scope))
        await asyncio.wait([self.reply, self.task], return_when=asyncio.FIRST_COMPLETED)
        return self.reply.result() if self.reply.done() else None

    async def run(self, scope):
        await self.server.application(scope, self.requests.get, self.send)

    async def send(self, message):
        if self.reply.done():
            raise RuntimeError(f"the application sent {message['type']} twice")
        self.reply.set_result(message)

    async def start(self):
        reply = await self.ask("startup")
        if reply is None:
            if self.task.exception() is not None and not isinstance(self.task.exception(), Exception):
                raise self.task.exception()  # sys.exit()
        elif reply["type"] == "lifespan.startup.failed":
            raise self.server.channel.LoadError(f"The application's start-up failed.\n{reply.get('message', '')}")

    async def stop(self):
        if self.task.done():
            if not self.task.cancelled() and self.task.exception() is not None and self.reply.done():
                print("asgi-server: the application's lifespan ended early", file=sys.stderr)
            return
        reply = await self.ask("shutdown")
        if reply is None:
            error = self.task.exception()
            if error is not None:
                traceback.print_exception(type(error), error, error.__traceback__)
        elif reply["type"] == "lifespan.shutdown.failed":
            print(f"The application's shutdown failed.\n{reply.get('message', '')}", file=sys.stderr)


# --- Server ------------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, application, channel, loop):
        self.application = application
        self.channel = channel
        self.loop = loop
        self.root_path = channel.options.get("base_uri", "").rstrip("/")
        self.state = {}
        self.hosts = {}
        self.connections = set()
        self.running = set()  # requests and WebSockets
        self.is_leaving = False
        self.is_terminating = False
        self.idle = None  # a future, while the server waits for the end of all that runs

    def remember_host(self, host, secure):
        """Return the address of the server as the client has named it."""
        name, colon, port = host.decode("latin-1").rpartition(":")
        if not colon or not port.isdigit():
            name, port = host.decode("latin-1"), "443" if secure else "80"
        result = (name, int(port))
        if len(self.hosts) < MEMORY_MAX:
            self.hosts[host, secure] = result
        return result

    async def main(self):
        channel, loop = self.channel, self.loop
        lifespan = Lifespan(self)
        await lifespan.start()
        listener = channel.listen("main", "asgi", "http_session", 0)
        server = await loop.create_unix_server(lambda: Connection(self), sock=listener, backlog=1024)
        leave = loop.create_future()
        channel.ready()
        loop.add_reader(channel.control, lambda: leave.done() or leave.set_result(None))
        await leave
        loop.remove_reader(channel.control)
        stops = os.read(channel.control, 1) == b"s"
        server.close()
        channel.remove_sockets()
        self.is_leaving = True
        for connection in list(self.connections):
            if connection.websocket is not None:
                connection.websocket.leave(stops)
            elif connection.request is None:
                connection.transport.close()
        if self.running:
            self.idle = loop.create_future()
            await self.idle
        await lifespan.stop()

    def check_idle(self):
        if not self.running and self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    def terminate(self, task):
        self.is_terminating = True
        task.cancel()

    def dump(self):
        """Write to standard error what each request waits for."""
        now = time.monotonic()
        tasks = {run.task: f"{run.describe()}, for {now - run.since:.1f} s" for run in self.running}
        lines = [f"SIGQUIT: process {os.getpid()}, {len(tasks)} requests in progress\n"]
        for task in asyncio.all_tasks(self.loop):
            lines.append(f"  {tasks.get(task, task.get_name())}\n")
            waits = task.get_coro()
            while waits is not None:
                place = getattr(waits, "cr_frame", None) or getattr(waits, "gi_frame", None) or getattr(waits, "ag_frame", None)
                if place is not None:
                    lines.append(f"    {place.f_code.co_filename}:{place.f_lineno} in {place.f_code.co_name}\n")
                waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None) or getattr(waits, "ag_await", None)
        sys.stderr.write("".join(lines))
        sys.stderr.flush()


def new_loop():
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def serve(application, channel):
    """Serve the application until the server asks the process to leave."""
    loop = new_loop()
    asyncio.set_event_loop(loop)
    server = Server(application, channel, loop)
    main = loop.create_task(server.main())
    loop.add_signal_handler(signal.SIGTERM, server.terminate, main)
    # First the stacks of all threads, written even while the loop is busy; then the loop writes those of its tasks.
    faulthandler.unregister(signal.SIGQUIT)
    loop.add_signal_handler(signal.SIGQUIT, server.dump)
    faulthandler.register(signal.SIGQUIT, all_threads=True, chain=True)
    try:
        loop.run_until_complete(main)
    except asyncio.CancelledError:
        raise channel.Terminated from None
    finally:
        server.is_terminating = True
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        if main.done() and not main.cancelled() and main.exception() is None and hasattr(loop, "shutdown_default_executor"):
            loop.run_until_complete(loop.shutdown_default_executor())
