"""One request of an ASGI application, and its answer.

An application that sends after its client has left gets an OSError, as ASGI recommends since version 2.4. It also gets
`http.disconnect`, as in all versions.

An answer may be complete for its client before the application ends it: it has no body, or all bytes of its Content-Length are
sent. The connection then goes on to the next request, and the coroutine goes on as work in the background.
"""

import asyncio
import re
import time
from http import HTTPStatus
from threading import get_ident

from cabrank.python_own import ClientGone, own

REPLY_HEAD_MAX = 128 << 10  # the server accepts no longer one
BUFFER = 64 << 10  # more unread bytes stop the server
DROP_TIME = 1.0  # seconds for the rest of a body after the answer is complete
JOINED_MAX = 256 << 10  # a longer body is not copied behind its head
MEMORY_MAX = 1000  # remembered header names and hosts

HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status.value >= 200}
HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
              b"transfer-encoding", b"upgrade"}
DISCONNECT = "http.disconnect"


def check_process(server, error=None):
    """End a forked child that no hook has separated from its parent."""
    if not own[0] and not server.is_child:
        server.channel.leave_child(error)


# COMPLETE: the client lacks nothing. DONE: the application has ended its answer, too.
AWAITED, STARTED, BEGUN, COMPLETE, DONE = range(5)
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

    __slots__ = ("connection", "scope", "path", "event", "is_gone", "task", "since")

    def __init__(self, connection, scope):
        self.connection = connection
        self.scope = scope
        self.path = scope["path"]  # the application may change the scope
        self.event = None  # set when `receive` may have something to return; made for the first wait
        self.is_gone = False
        self.task = None
        self.since = 0.0

    def start(self):
        server = self.connection.server
        self.since = time.monotonic()
        server.running.add(self)
        # The task copies the context, which is that of no request: see `run_clean`.
        self.task = server.loop.create_task(self.run())

    async def run(self):
        server = self.connection.server
        try:
            await server.application(self.scope, self.receive, self.send)
            if not own[0]:
                check_process(server)
        except BaseException as error:  # sys.exit() in a request fails that request, and does not end the process
            if not own[0]:
                check_process(server, error)
            if server.is_terminating:
                raise
            if not (self.is_gone and comes_from_leaving(error)):
                server.channel.log_error(error, skipped=1)
            self.fail()
        else:
            self.returned()
        finally:
            server.running.discard(self)
            if self.connection.is_torn:
                self.connection.check_torn()  # also for an application that has caught the exception
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
        connection.begin_step()
        try:
            connection.transport.write(data)
            connection.is_torn = False
        except BaseException:
            connection.check_torn()
            raise
        await self.drain()

    async def drain(self):
        if self.connection.can_write is not None:
            await self.connection.drain()
            self.check_client()

    def check_client(self):
        if not own[0]:
            check_process(self.connection.server)
        if self.is_gone:
            is_child = self.connection.server.is_child
            raise ClientGone("this is a forked child, which has no client" if is_child else "the client has left")
        self.check_thread()

    def check_thread(self):
        """Refuse the calls of other threads: two of them would change one answer at once."""
        if get_ident() != self.connection.server.thread:
            raise RuntimeError("send and receive belong to the thread of the event loop: use asyncio.run_coroutine_threadsafe")


def comes_from_leaving(error):
    """Return whether an error follows from the end of the connection. Its attributes are the application's, and may raise."""
    try:
        return find_leaving(error)
    except BaseException:
        return False


def find_leaving(error):
    seen = set()
    while error is not None and id(error) not in seen:  # `raise e from e` makes a circle
        seen.add(id(error))
        if issubclass(type(error), (ClientGone, asyncio.CancelledError)):
            return True
        if isinstance(error, BaseException) and hasattr(error, "exceptions"):  # a group
            return all(map(find_leaving, error.exceptions))
        error = error.__cause__ or error.__context__
    return False


class Request(Task):
    """One request and its answer."""

    __slots__ = ("method", "body", "has_more", "is_given", "state", "head", "declared", "sent", "dropped_since",
                 "is_bodyless", "is_chunked", "is_head")

    def __init__(self, connection, scope, has_body):
        super().__init__(connection, scope)
        self.body = b""  # what has come of the body, and waits for the application
        self.has_more = has_body
        self.is_given = False  # the application has the whole body
        self.state = AWAITED
        self.head = b""
        self.declared = None
        self.sent = 0
        self.dropped_since = None
        self.method = scope["method"]
        self.is_head = self.method == "HEAD"
        self.is_bodyless = False
        self.is_chunked = False

    def lost(self):
        self.is_gone = True
        self.wake()

    def feed(self, part, has_more):
        if self.state >= COMPLETE:
            return  # `has_more` stays, so that the application does not take what it has for the whole body
        self.has_more = has_more
        if not self.body:
            self.body = part
        else:
            # Many small parts are joined in one array: joining bytes would copy them again and again.
            if type(self.body) is bytes:
                self.body = bytearray(self.body)
            self.body += part
        if len(self.body) > BUFFER:
            self.connection.pause_reading()
        self.wake()

    async def receive(self):
        while True:
            if not own[0]:
                check_process(self.connection.server)
            if self.is_gone or self.state == DONE:
                return {"type": DISCONNECT}
            self.check_thread()
            if self.body or not (self.has_more or self.is_given):
                connection = self.connection
                connection.begin_step()
                try:
                    message = {"type": "http.request", "body": bytes(self.body), "more_body": self.has_more}
                    self.body = b""
                    self.is_given = not self.has_more
                    if not connection.is_reading and self.state < COMPLETE and (self.has_more or not connection.buffer):
                        connection.resume_reading()
                    connection.is_torn = False
                except BaseException:
                    connection.check_torn()
                    raise
                return message
            if self.state == COMPLETE:
                return {"type": DISCONNECT}
            await self.wait()

    async def send(self, message):
        # Code of the application may make the parts of a message, such as a generator of headers, and may send meanwhile.
        # So all parts are there before the state is looked at. From then on nothing else runs until the state has changed.
        kind = message["type"]
        if kind == "http.response.body":
            body, more = message.get("body", b""), bool(message.get("more_body", False))
            if type(body) is not bytes:
                body = bytes(memoryview(body))  # the length of other buffers is not that of their bytes
        elif kind == "http.response.start":
            status = message["status"]
            line = STATUS_LINES.get(status)
            if line is None or not isinstance(status, int):  # 200.0 is found, too
                if not isinstance(status, int) or not 200 <= status <= 999:  # `%d` would write another number than 204.5
                    raise ValueError(f"invalid status: {status!r}")
                line = b"HTTP/1.1 %d \r\n" % status
            fields, declared = encode_fields(message.get("headers", ()))
        elif kind == "http.response.early_hint":
            fields, _ = encode_fields([(b"link", link) for link in message.get("links", ())])
        self.check_client()
        if kind == "http.response.body" and self.state in (STARTED, BEGUN):
            await self.send_body(body, more)
        elif kind == "http.response.start" and self.state == AWAITED:
            self.head = line + fields
            self.declared = declared
            self.is_bodyless = status in (204, 304) or self.is_head
            self.state = STARTED
        elif kind == "http.response.early_hint" and self.state == AWAITED:
            await self.write(b"HTTP/1.1 103 Early Hints\r\n" + fields + b"\r\n")
        elif kind == "http.response.body" and self.state == COMPLETE:
            await self.drop_body(body, more)
        else:
            raise RuntimeError(f"the application sent {kind} " + ("after the end of its answer" if self.state == DONE else
                               "before http.response.start" if self.state == AWAITED else "twice"))

    async def send_body(self, body, more):
        size = 0 if self.is_bodyless else len(body)
        first = self.state == STARTED
        sent, declared, is_chunked, length = self.sent + size, self.declared, self.is_chunked, b""
        if not self.is_bodyless:
            if first and declared is None:
                if more:
                    is_chunked = True
                    length = b"Transfer-Encoding: chunked\r\n"
                else:
                    declared = size
                    length = b"Content-Length: %d\r\n" % size
            if declared is not None and (sent > declared or not more and sent < declared):
                raise RuntimeError(f"the body has {sent} bytes, but its Content-Length is {declared}")
        connection = self.connection
        if connection.transport.is_closing():  # after `fail`, or because the client has left
            raise ClientGone("the client has left")
        parts = [self.head, length, b"\r\n"] if first else []
        if size:
            if is_chunked:
                parts += b"%x\r\n" % size, body, b"\r\n"
            else:
                parts.append(body)
        if is_chunked and not more:
            parts.append(b"0\r\n\r\n")
        is_last = not more or self.is_bodyless or sent == declared
        connection.begin_step()
        try:
            self.state, self.sent, self.declared, self.is_chunked = BEGUN, sent, declared, is_chunked
            if size <= JOINED_MAX:
                data = b"".join(parts)
            else:
                at = parts.index(body)
                connection.transport.write(b"".join(parts[:at]))
                connection.transport.write(body)
                data = b"".join(parts[at + 1:])
            connection.transport.write(data)
            if is_last:
                # The application is free before the server has taken the last part.
                self.state = COMPLETE if more else DONE
                self.wake()
                connection.answered()
            connection.is_torn = False
        except BaseException:
            connection.check_torn()
            raise
        if not is_last:
            await self.drain()

    async def drop_body(self, body, more):
        """Take a part of the body after the answer has become complete. The connection may carry another request."""
        if body and not self.is_bodyless:
            raise RuntimeError(f"the body is longer than its Content-Length of {self.declared}")
        if not more:
            self.state = DONE
            return
        now = asyncio.get_running_loop().time()
        if self.dropped_since is None:
            self.dropped_since = now
        # A stream without an end would go on for as long as other clients use the connection.
        if self.connection.transport.is_closing() or now > self.dropped_since + DROP_TIME:
            self.is_gone = True
            raise ClientGone("the client has its answer")
        await asyncio.sleep(0)  # let the loop run, as a stream does whose client is slow

    def hang_up(self):
        """End the connection, unless it carries another request."""
        if self.connection.request is self:
            self.connection.transport.close()

    def returned(self):
        if self.state < COMPLETE and not self.is_gone:
            self.connection.server.channel.log("asgi-server: the application returned before the end of its answer to "
                                               f"{self.describe()}\n")
            self.fail()

    def fail(self):
        """Send an error if the answer has not begun. Otherwise leave the answer incomplete."""
        connection = self.connection
        if connection.check_torn() or self.is_gone or self.state >= COMPLETE:
            return
        if self.state == BEGUN:
            self.hang_up()
            return
        body = b"The application failed to answer this request. The server's log has the details.\n"
        connection.begin_step()
        connection.transport.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(body), b"" if self.is_head else body))
        self.state = DONE
        self.wake()
        connection.answered()
        connection.is_torn = False

    def describe(self):
        return f"{self.method} {self.path}"
