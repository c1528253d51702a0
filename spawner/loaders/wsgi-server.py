"""The WSGI server of a Python application: python-loader.py has loaded the application, and calls `serve`.

The server listens on two sockets, which serve the same requests. A server that knows kept sessions uses the socket
`kept`: its connections stay open, and frames mark the ends of requests and answers (docs/kept-sessions.md). Other servers
use the socket `main` and the session protocol: one request per connection.

How an answer ends in the session protocol. A complete answer ends when both sides see end of file after the last byte. The server detects an answer
that breaks off in two ways. With a Content-Length, fewer bytes arrive than declared. Without one, the server reads
ECONNRESET instead of end of file. For this the server leaves the last byte of the request's head unread until the
application reads the body: Linux resets the peer of a Unix socket that is closed with unread input. (SO_LINGER, which does
this for TCP, has no effect here.) So the server also detects that a process was killed within an answer. It cannot detect an
answer that breaks off without Content-Length after the request's body was read.
"""

import io
import mmap
import os
import re
import select
import socket
import struct
import sys
import threading
import time
import traceback
from wsgiref.util import FileWrapper, is_hop_by_hop

HEAD_MAX = 1 << 20  # far above any real head: a guard against a peer that speaks another protocol
HEAD_TIMEOUT = 10  # the server writes the head at once; a slower peer must not block the thread
DRAIN_TIMEOUT = 2
REPLY_HEAD_MAX = 128 << 10  # the server accepts no longer one
BUFFER = 64 << 10
JOINED_MAX = 256 << 10  # a longer body is not copied behind its head
FRAME_MAX = (1 << 24) - 1
MEMORY_MAX = 1000  # remembered header names and status lines

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS = re.compile(r"[2-9][0-9]{2}( .*)?")
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ClientGone(ConnectionError):
    """The server closed the connection, so the answer has no reader."""


# --- Forked children ---------------------------------------------------------------------------------------------------

MADV_WIPEONFORK = 18

# Its first byte is 1 in the process that serves requests, and 0 in each process that the application forks from it. Linux clears
# the page at each fork, also at one by a C library, which runs no hook of Python.
own = bytearray(1)


def begin_process():
    global own
    own = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        own.madvise(MADV_WIPEONFORK)
    except OSError:
        pass  # Linux before 4.14: the hook clears it
    own[0] = 1


def become_child(server):
    """Close the sockets of the parent. Each send and each receive checks the process, too."""
    own[0] = 0
    server.close_sockets()


def check_process():
    if not own[0]:
        raise ClientGone("a forked child has no client: the request belongs to its parent")


def leave(channel, error=None):
    """End a forked child of the application, whose code has returned or raised the error."""
    channel.leave_child(None if isinstance(error, ClientGone) else error)


# --- One request -------------------------------------------------------------------------------------------------------

# The variables of a request that the server does not send, or not always.
BASE = {
    "SCRIPT_NAME": "",
    "PATH_INFO": "",
    "QUERY_STRING": "",
    "SERVER_NAME": "localhost",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.input_terminated": True,
    "wsgi.multithread": False,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
    "wsgi.file_wrapper": FileWrapper,
}


def make_environ(block, is_password):
    """Return the environ of PEP 3333, without `wsgi.input`, for the pairs of a request's head.

    The block is the head without its last NUL.
    """
    fields = block.decode("latin-1").split("\0")
    if len(fields) % 2:
        raise ValueError("a name in the head has no value")
    pairs = iter(fields)
    environ = BASE.copy()
    environ.update(zip(pairs, pairs))
    if not is_password(environ.pop("PASSENGER_CONNECT_PASSWORD", "").encode("latin-1")):
        raise ValueError("wrong connect password")
    if not environ.get("REQUEST_METHOD"):
        raise ValueError("the head has no REQUEST_METHOD")
    # CGI names these two without prefix. If both spellings existed, two layers could believe different values.
    if "HTTP_CONTENT_TYPE" in environ:
        environ.setdefault("CONTENT_TYPE", environ.pop("HTTP_CONTENT_TYPE"))
    if "HTTP_CONTENT_LENGTH" in environ:
        environ.setdefault("CONTENT_LENGTH", environ.pop("HTTP_CONTENT_LENGTH"))
    if "HTTPS" in environ and environ["HTTPS"].lower() in ("on", "1", "yes", "true"):
        environ["wsgi.url_scheme"] = "https"
    if "SERVER_PORT" not in environ:
        environ["SERVER_PORT"] = "443" if environ["wsgi.url_scheme"] == "https" else "80"
    environ["wsgi.errors"] = sys.stderr
    return environ


def content_length(environ):
    value = environ.get("CONTENT_LENGTH", "")
    if value == "":
        return None
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"invalid CONTENT_LENGTH {value!r}")
    return int(value)


# --- One answer --------------------------------------------------------------------------------------------------------

# Known status lines and header names. Applications use few of them, again and again.
status_lines = {}  # status: (first line of the head, whether the answer has no body)
header_kinds = {}  # name: ORDINARY, LENGTH or HOP_BY_HOP
ORDINARY, LENGTH, HOP_BY_HOP = range(3)


def check_status(status):
    if not STATUS.fullmatch(status) or CONTROL_CHARACTER.search(status):
        raise ValueError(f"invalid status: {status!r}")
    result = (f"Status: {status}\r\n", status[:3] in ("204", "304"))
    if len(status_lines) < MEMORY_MAX:
        status_lines[status] = result
    return result


def check_name(name):
    lower = name.lower()
    if not HEADER_NAME.fullmatch(name) or lower == "status":
        raise ValueError(f"invalid header name: {name!r}")
    # A hop-by-hop header concerns the connection, which belongs to the server.
    kind = LENGTH if lower == "content-length" else HOP_BY_HOP if is_hop_by_hop(name) else ORDINARY
    if len(header_kinds) < MEMORY_MAX:
        header_kinds[name] = kind
    return kind


first_lock = threading.Lock()


class Response:
    """One answer: `start_response`, `write`, and the state of what has been sent.

    A subclass knows the protocol:
      send(chunk)  sends the head, if it was not sent yet, and a part of the body, which may be empty;
      finish()     notifies the server that the application has finished with the request;
      abort()      notifies the server that the answer stays incomplete.

    The application may keep `write` and call it in any thread. A write and the end of the answer exclude each other by the
    lock: after the end, `write` raises and sends nothing. The first write makes the lock before it looks for the end, and the
    end is noted before it looks for a lock. So an answer without a write needs none.
    """

    __slots__ = ("conn", "is_head", "head", "head_sent", "bodyless", "declared", "sent", "ended", "closed", "lock", "input", "body")

    def __init__(self, conn, is_head):
        self.conn = conn
        self.is_head = is_head
        self.head = None  # its bytes without the empty line; None until the application called start_response
        self.head_sent = False
        self.bodyless = False
        self.declared = None  # the Content-Length
        self.sent = 0
        self.ended = False  # after the last byte of the body
        self.closed = False  # after the last byte of all: nothing may be sent
        self.lock = None
        self.input = None  # `wsgi.input`, which ends with the answer
        self.body = None  # the `Body` below it, unless the body has come as a whole

    def start(self, status, headers, exc_info=None):
        if exc_info:
            try:
                if self.head_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # a traceback holds this frame: break the cycle
        elif self.head is not None:
            raise RuntimeError("start_response was called twice without exc_info")
        if self.ended or self.closed:
            raise RuntimeError("start_response was called after the end of the answer")

        head, bodyless = status_lines.get(status) or check_status(status)
        declared = None
        for name, value in headers:
            kind = header_kinds.get(name)
            if kind is None:
                kind = check_name(name)
            # Nearly every value is printable, and that is found out quickly. The rest may be, say, a tab.
            if not value.isprintable() and CONTROL_CHARACTER.search(value):
                raise ValueError(f"the header {name} has a control character: {value!r}")
            if kind:
                if kind == HOP_BY_HOP:
                    continue
                if declared is not None or not (value.isascii() and value.isdigit()):
                    raise ValueError(f"invalid or repeated Content-Length: {value!r}")
                declared = int(value)
            head += f"{name}: {value}\r\n"
        head = head.encode("latin-1")  # an error belongs here, in the application's call, and not in send
        if len(head) > REPLY_HEAD_MAX - 100:  # with the length and the empty line
            raise ValueError(f"the headers have {len(head)} bytes, which is too many")
        self.head = head
        self.declared = declared
        self.bodyless = bodyless or self.is_head
        return self.write

    def suggest_length(self, length):
        """Add a Content-Length, unless the application has set one or the answer has no body."""
        if self.head is not None and not self.head_sent and not self.bodyless and self.declared is None:
            self.declared = length
            self.head += b"Content-Length: %d\r\n" % length

    def write(self, chunk):
        check_process()
        with self.lock or self.make_lock():
            self.write_locked(chunk)

    def make_lock(self):
        with first_lock:
            if self.lock is None:
                self.lock = threading.RLock()  # a signal's handler may write within a write
            return self.lock

    def write_locked(self, chunk):
        if type(chunk) is not bytes:
            if not isinstance(chunk, bytes):
                raise TypeError(f"the body must consist of bytes, not {type(chunk).__name__}")
            chunk = b"".join((chunk,))  # a subclass may have another length than its bytes
        if self.head is None:
            raise RuntimeError("the body began before start_response was called")
        if self.ended or self.closed:
            raise RuntimeError("write was called after the end of the answer")
        if not chunk:
            return  # the head waits for the first non-empty chunk, because the application may still switch to an error
        excess = 0
        if self.bodyless:
            chunk = b""
        elif self.declared is not None:
            excess = max(0, self.sent + len(chunk) - self.declared)
            if excess:
                chunk = chunk[:-excess]
        self.send(chunk)
        self.sent += len(chunk)
        self.head_sent = True
        if excess:
            self.end_locked()  # the declared length has been sent
            raise RuntimeError(f"the body is longer than its Content-Length of {self.declared}")

    def end(self):
        """End the answer after the last byte of its body."""
        check_process()  # before the lock, which a thread of the parent may have held at the fork
        with self.lock or self.make_lock():
            self.end_locked()

    def end_locked(self):
        if self.ended:
            return
        if self.head is None:
            raise RuntimeError("the application never called start_response")
        if not self.head_sent:
            self.suggest_length(0)
            self.send(b"")
            self.head_sent = True
        if self.declared is not None and not self.bodyless and self.sent < self.declared:
            raise RuntimeError(f"the body has {self.sent} bytes, but its Content-Length is {self.declared}")
        self.ended = True

    def fail(self):
        """Send an error if the answer has not begun. Otherwise leave the answer incomplete."""
        check_process()
        with self.lock or self.make_lock():
            if self.head_sent:
                return
            body = b"The application failed to answer this request. The server's log has the details.\n"
            self.head = None
            self.start("500 Internal Server Error", [("Content-Type", "text/plain; charset=utf-8")])
            self.suggest_length(len(body))
            self.write_locked(body)
            self.end_locked()

    def send_body(self, result):
        """Send the body that the application returned, and close it."""
        try:
            if isinstance(result, (list, tuple)):
                self.suggest_length(sum(map(len, result)))
            for chunk in result:
                check_process()
                self.write(chunk)
                if self.bodyless and self.head_sent:
                    break
            self.end()
        finally:
            if hasattr(result, "close") and own[0]:
                result.close()
                check_process()

    def close(self):
        """End the request: from here on, no thread reads its input or writes its answer."""
        check_process()
        self.closed = True
        if self.lock is not None:
            with self.lock:
                pass  # a write in progress has come to its end
        if self.body is not None:
            self.body.end()  # outside of `try`: an exception that interrupts it is the application's, and ends the connection
        try:
            self.input.close()
        except (BufferError, RuntimeError, ValueError):
            pass  # the application holds a view of the bytes, has detached them, or is inside in another greenlet


# --- The input of a request --------------------------------------------------------------------------------------------


wakers = set()  # pairs of sockets, by which threads wait that read a body


class Body(io.RawIOBase):
    """The request's body, read from the connection. A subclass has `take`.

    The application may keep it, and read it in any thread. A read and the end of the input exclude each other by the lock.
    The thread that serves the request waits for bytes under the lock, because it is the thread that ends the input. Another
    thread waits without the lock. So no read is in progress when the input ends, and each later read raises.
    """

    def __init__(self, conn):
        self.conn = conn  # None after the request
        self.thread = threading.get_ident()
        self.lock = threading.RLock()
        self.is_torn = False  # whether a read is in progress, or an exception has interrupted one: bytes may be missing
        self.waker = None  # a pair of sockets; the first becomes readable at the end
        self.waiters = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        flags = 0 if threading.get_ident() == self.thread else DONTWAIT
        while True:
            check_process()
            with self.lock:
                if self.conn is None:
                    raise ClientGone("the request has ended")
                if self.is_torn:
                    raise ClientGone("an exception has interrupted a read")
                try:
                    self.is_torn = True
                    count = self.take(buffer, flags)
                    self.is_torn = False
                    return count
                except BlockingIOError:
                    self.is_torn = False
                    poll = self.begin_wait()
                except ConnectionError as error:
                    raise error if isinstance(error, ClientGone) else ClientGone(str(error)) from None
            try:
                poll.poll()
            finally:
                self.end_wait()

    def begin_wait(self):
        """Return a poll object that becomes ready with the next byte, or with the end of the input."""
        if self.waker is None:
            self.waker = socket.socketpair()
            wakers.add(self.waker)
        self.waiters += 1
        poll = select.poll()
        poll.register(self.conn, select.POLLIN)
        poll.register(self.waker[0], select.POLLIN)
        return poll

    def end_wait(self):
        check_process()
        with self.lock:
            self.waiters -= 1
            if self.conn is None and not self.waiters:
                self.close_waker()

    def end(self):
        """End the input."""
        check_process()
        with self.lock:
            self.conn = None
            if self.waiters:
                self.waker[1].shutdown(socket.SHUT_WR)  # a close would wake nobody while a forked child has the pair
            elif self.waker is not None:
                self.close_waker()

    def close_waker(self):
        wakers.discard(self.waker)
        for end in self.waker:
            end.close()
        self.waker = None


# --- The session protocol ----------------------------------------------------------------------------------------------


def receive_exactly(conn, size):
    data = bytearray()
    while len(data) < size:
        chunk = conn.recv(size - len(data))
        if not chunk:
            raise ValueError(f"the head ended after {len(data)} of {size} bytes")
        data += chunk
    return data


def read_head(conn):
    """Return the head of the request without its last NUL, or None if the peer connected without sending a request."""
    conn.settimeout(HEAD_TIMEOUT)
    first = conn.recv(4)
    if not first:
        return None
    size = int.from_bytes(first + receive_exactly(conn, 4 - len(first)), "big")
    if not 1 < size <= HEAD_MAX:
        raise ValueError(f"the head claims a size of {size} bytes")
    # The final NUL stays unread (see the top of this file).
    block = receive_exactly(conn, size - 1)
    conn.settimeout(None)  # the server limits the time for a body
    return block


class SessionBody(Body):
    """The request's body: CONTENT_LENGTH bytes of the connection, or else all until the server half-closes."""

    def __init__(self, conn, length):
        super().__init__(conn)
        self.remaining = length
        self.head_is_open = True

    def take(self, buffer, flags):
        if self.remaining == 0:
            return 0
        if self.head_is_open:
            if self.conn.recv(1, flags) != b"\0":
                raise ClientGone("the request's head has no end")
            self.head_is_open = False
        count = self.conn.recv_into(buffer, min(len(buffer), self.remaining or len(buffer)), flags)
        if self.remaining is None:
            if count == 0:
                self.remaining = 0
        elif count == 0:
            # End of file would make half an upload look complete.
            raise ClientGone(f"the client left before the last {self.remaining} bytes of the request's body")
        else:
            self.remaining -= count
        return count


class SessionResponse(Response):
    """An answer in the session protocol."""

    __slots__ = ()

    def send(self, chunk):
        check_process()
        if not self.head_sent:
            chunk = self.head + b"\r\n" + chunk
        try:
            self.conn.sendall(chunk)
        except ConnectionError as error:
            raise ClientGone(str(error)) from None

    def end_locked(self):
        """End the answer. The server sees its end at once, before the application cleans up."""
        check_process()
        if self.ended:
            return
        super().end_locked()
        try:
            self.conn.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise ClientGone(str(error)) from None

    def finish(self):
        pass  # the protocol cannot say it

    def abort(self):
        pass  # the close does it (see the top of this file)


def drain(conn):
    """Read the rest of the request, because closing with unread input would look like an incomplete answer.

    The server has seen the end of the answer and stops sending. The deadline guards against a server that does not.
    """
    deadline = time.monotonic() + DRAIN_TIMEOUT
    try:
        while True:
            conn.settimeout(max(0.001, deadline - time.monotonic()))
            if not conn.recv(1 << 16) or time.monotonic() > deadline:
                return
    except OSError:
        pass


# --- Kept sessions -----------------------------------------------------------------------------------------------------

U32 = struct.Struct(">I")
frame = U32.pack  # of `HEAD | size`, `DATA | size`
HEAD, DATA = ord("H") << 24, ord("D") << 24
END, ABORT = b"E\0\0\0", b"A\0\0\0"
END_OF_REQUEST = bytes(4)
DONTWAIT = socket.MSG_DONTWAIT


class Kept:
    """A connection that carries one request after another."""

    __slots__ = ("conn", "watch", "unread", "is_torn")

    def __init__(self, conn):
        conn.settimeout(None)  # the application may have set a default
        self.conn = conn
        self.watch = None  # reports a server that has half-closed; made for the first answer of several parts
        self.unread = None  # the frames of a request that was answered before its body had come
        self.is_torn = False  # whether a step is in progress, or an exception has interrupted one: nothing can follow

    def begin_step(self):
        """Begin to send, and to note that it was sent. `is_torn = False` ends it."""
        if not own[0]:
            check_process()
        if self.is_torn:
            raise ClientGone("an exception has interrupted the answer")
        self.is_torn = True

    def put(self, data):
        try:
            self.conn.sendall(data)
        except ConnectionError as error:
            raise ClientGone(str(error)) from None

    def send(self, data):
        self.begin_step()
        self.put(data)
        self.is_torn = False

    def check(self):
        """Raise ClientGone if the server has closed or half-closed the connection: the answer has no reader."""
        if self.watch is None:
            self.watch = select.poll()
            self.watch.register(self.conn, select.POLLRDHUP)
        if self.watch.poll(0):
            raise ClientGone("the server has abandoned the request")

    def receive_head(self, data):
        """Receive the rest of a head that did not arrive as a whole. Return the data and where the head ends."""
        self.conn.settimeout(HEAD_TIMEOUT)
        end = 4
        while True:
            if end == 4 and len(data) >= 4:
                end += checked_size(data)
            if 4 < end <= len(data):
                break
            chunk = self.conn.recv(BUFFER)
            if not chunk:
                raise ValueError(f"the head ended after {len(data)} of {end} bytes")
            data += chunk
        self.conn.settimeout(None)  # the server limits the time for a body
        return data, end

    def discard(self, data):
        """Discard more of the body that the application did not read. Return the data behind the end of the body."""
        frames = self.unread
        frames.add(data)
        while frames.has_next() and not frames.ended:
            frames.skip(len(frames.data))
        if frames.ended:
            self.unread = None
        return frames.data[frames.at:]

    def close(self):
        try:
            # A forked child of the application may hold the connection open. The server must see its end.
            self.conn.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.conn.close()


def checked_size(data):
    size, = U32.unpack_from(data)
    if not 1 < size <= HEAD_MAX:
        raise ValueError(f"the head claims a size of {size} bytes")
    return size


class Frames:
    """The frames of a request's body, as far as they were received."""

    __slots__ = ("data", "at", "left", "ended")

    def __init__(self, data):
        self.data = data  # bytes that were received
        self.at = 0  # the first of them that was not used
        self.left = 0  # bytes of the current frame
        self.ended = False

    def add(self, data):
        self.data = self.data[self.at:] + data
        self.at = 0

    def has_next(self):
        """Go to the next byte of the body. Return whether it, or the end of the body, has been received."""
        while not self.left and not self.ended:
            if len(self.data) - self.at < 4:
                return False
            self.left, = U32.unpack_from(self.data, self.at)
            self.at += 4
            self.ended = not self.left
        return self.ended or self.at < len(self.data)

    def skip(self, limit):
        count = min(limit, self.left, len(self.data) - self.at)
        self.at += count
        self.left -= count
        return count


class KeptBody(Body):
    """The request's body, in frames."""

    def __init__(self, conn, frames):
        super().__init__(conn)
        self.frames = frames

    def take(self, buffer, flags):
        frames = self.frames
        while not frames.has_next():
            more = self.conn.recv(BUFFER, flags)
            if not more:
                # End of file would make half an upload look complete.
                raise ClientGone("the client left before the end of the request's body")
            frames.add(more)
        at = frames.at
        count = frames.skip(len(buffer))
        buffer[:count] = frames.data[at:frames.at]
        return count

    def end(self):
        super().end()
        self.frames = None  # bytes of the next request will follow


class KeptResponse(Response):
    """An answer in the frames of a kept session."""

    __slots__ = ("finished",)

    def __init__(self, conn, is_head):
        super().__init__(conn, is_head)
        self.finished = False

    def send(self, chunk):
        if self.head_sent:
            # The server half-closes to abandon a request. It goes on reading, so that the system accepts each write.
            self.conn.check()
            first = b""
        else:
            first = frame(HEAD | len(self.head) + 2) + self.head + b"\r\n"
        size = len(chunk)
        if size <= JOINED_MAX:
            self.conn.send(b"".join((first, frame(DATA | size), chunk)) if size else first)
            return
        self.conn.send(first + frame(DATA | min(size, FRAME_MAX)))
        view = memoryview(chunk)
        self.conn.send(view[:FRAME_MAX])
        for at in range(FRAME_MAX, size, FRAME_MAX):
            self.conn.send(frame(DATA | min(size - at, FRAME_MAX)))
            self.conn.send(view[at:at + FRAME_MAX])

    def send_body(self, result):
        # The common case takes one system call: the whole body is there, and there is nothing to close.
        if type(result) in (list, tuple) and self.head is not None and not self.head_sent:
            size = sum(map(len, result))
            if size <= JOINED_MAX and (self.bodyless or self.declared in (None, size)):
                body = result[0] if len(result) == 1 else b"".join(result)
                if type(body) is bytes and len(body) == size:
                    if self.bodyless:
                        body = b""
                    else:
                        self.suggest_length(size)
                    head, conn = self.head, self.conn
                    conn.begin_step()
                    self.close()
                    if self.head_sent:
                        raise RuntimeError("another thread has begun the answer")
                    self.sent = size
                    self.head_sent = self.ended = self.finished = True
                    conn.put(b"".join((frame(HEAD | len(head) + 2), head, b"\r\n", frame(DATA | len(body)), body, END)))
                    conn.is_torn = False
                    return
        super().send_body(result)

    def finish(self):
        if not self.finished:
            self.conn.begin_step()
            # The server may send the next request as soon as it sees the end.
            self.close()
            self.finished = True
            self.conn.put(END)
            self.conn.is_torn = False

    def abort(self):
        self.close()
        self.conn.send(ABORT)


# --- Server ------------------------------------------------------------------------------------------------------------


def serve(application, channel):
    """Serve the application until the server asks the process to leave."""
    BASE["wsgi.multithread"] = channel.threads > 1
    server = Server(application, channel)
    channel.ready()
    server.serve_until_readable(channel.control)


class RequestThread(threading.Thread):
    """A thread that serves requests. The process leaves without it, but waits for the threads that it starts.

    A thread inherits the flag `daemon` of the one that starts it. So the flag changes once this thread runs: a thread that
    the application starts is the same whichever thread serves its request.
    """

    has_begun = False

    @property
    def daemon(self):
        return not self.has_begun

    def run(self):
        self.has_begun = True
        super().run()


class Server:
    """The loop of each thread that serves requests.

    All threads wait for the same descriptors. With several threads, an event wakes one of them, and the descriptor rests
    until that thread resumes it. So at most one thread uses a connection.
    """

    def __init__(self, application, channel):
        begin_process()
        self.application = application
        self.channel = channel
        self.threads = channel.threads
        self.kept = {}  # descriptor: connection
        self.sessions = set()  # connections of the session protocol
        # Forked children of the application share this set. So a connection leaves it before it is closed: the child may
        # hold the connection open, and the set would go on reporting it.
        self.poller = select.epoll()
        self.events = select.EPOLLIN | (select.EPOLLONESHOT if self.threads > 1 else 0)
        self.main_listener = channel.listen("main", "wsgi", "session", self.threads)
        self.kept_listener = channel.listen("kept", "kept", "kept_session", self.threads)
        channel.watch_forks(after_in_child=lambda: become_child(self))

    def close_sockets(self):
        """Close the sockets, in a forked child. A shutdown would reach the parent."""
        for connection in self.kept.values():
            connection.conn.close()
        ends = (end for pair in list(wakers) for end in pair)
        for holder in (*self.sessions, *ends, self.main_listener, self.kept_listener, self.poller):
            holder.close()
        if self.channel.control is not None:
            os.close(self.channel.control)
            self.channel.control = None  # a child of the child may have another file of this number

    def serve_until_readable(self, control):
        # Without EPOLLONESHOT: the request to leave is for each thread.
        self.poller.register(control, select.EPOLLIN)
        for listener in (self.main_listener, self.kept_listener):
            self.poller.register(listener, self.events)
        others = [RequestThread(target=self.run_thread, args=(control,), name=f"request thread {number}")
                  for number in range(2, self.threads + 1)]
        for thread in others:
            thread.start()
        try:
            self.work(control)
        except (OSError, ValueError):
            if not own[0]:  # of a signal handler: its poller is closed
                leave(self.channel)
            raise
        for thread in others:
            thread.join()

    def run_thread(self, control):
        """Serve as one of several threads. An error ends the process, as it does on the main thread."""
        try:
            self.work(control)
        except BaseException as error:
            if not own[0]:
                leave(self.channel, error)
            traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    def work(self, control):
        """Serve one request after another until `control` is readable."""
        main, kept = self.main_listener.fileno(), self.kept_listener.fileno()
        wait, connections, buffer = self.poller.poll, self.kept, bytearray(BUFFER)
        while True:
            for descriptor, _ in wait(-1, 1):
                if not own[0]:
                    self.give_back(descriptor)
                connection = connections.get(descriptor)
                if connection is not None:
                    is_kept = self.serve_kept(connection, buffer)
                    if not own[0]:
                        leave(self.channel)  # forked by a finalizer of the application
                    if is_kept:
                        self.resume(descriptor)
                    else:
                        self.poller.unregister(descriptor)
                        del connections[descriptor]
                        connection.close()
                elif descriptor == control:
                    return
                elif descriptor == main:
                    self.serve_next(self.main_listener)
                else:
                    self.keep_next(self.kept_listener)

    def resume(self, descriptor):
        """Let threads wait for the descriptor again."""
        if self.threads > 1:
            self.poller.modify(descriptor, self.events)

    def give_back(self, descriptor):
        """Leave, in a child of a C library that a signal handler has forked within the wait. The event is the parent's."""
        if descriptor in self.kept or descriptor in (self.main_listener.fileno(), self.kept_listener.fileno()):
            try:
                self.resume(descriptor)
            except (OSError, ValueError):
                pass  # the parent has closed it, or this child has
        leave(self.channel)

    def accept(self, listener):
        try:
            return listener.accept()[0]
        except BlockingIOError:
            pass
        except OSError as error:
            print(f"wsgi-server: cannot accept a connection: {error}", file=sys.stderr)
            time.sleep(0.1)  # the process is probably out of descriptors: do not spin
        finally:
            self.resume(listener)
        return None

    def keep_next(self, listener):
        conn = self.accept(listener)
        if conn is not None:
            self.kept[conn.fileno()] = Kept(conn)
            self.poller.register(conn, self.events)

    def serve_next(self, listener):
        conn = self.accept(listener)
        if conn is not None:
            self.sessions.add(conn)
            try:
                self.serve(conn)
            finally:
                self.sessions.discard(conn)
                conn.close()
            if not own[0]:
                leave(self.channel)

    def serve(self, conn):
        """Serve the request of a connection in the session protocol."""
        try:
            block = read_head(conn)
            if block is None:
                return
            environ = make_environ(block, self.channel.is_password)
            del block  # with the password
            if environ["REQUEST_METHOD"] == "PING":
                conn.sendall(b"pong")
                conn.shutdown(socket.SHUT_WR)
                drain(conn)
                return
            body = SessionBody(conn, content_length(environ))
            environ["wsgi.input"] = io.BufferedReader(body, BUFFER)
        except (OSError, ValueError) as error:
            print(f"wsgi-server: refused a connection: {error}", file=sys.stderr)
            return
        response = SessionResponse(conn, environ["REQUEST_METHOD"] == "HEAD")
        response.input, response.body = environ["wsgi.input"], body
        self.answer(environ, response)
        if response.ended and own[0]:
            drain(conn)

    def serve_kept(self, kept, buffer):
        """Serve the next request of a kept connection. Return whether to keep the connection.

        The buffer is the thread's, and empty again when the application is called: a page for exceptions shows the variables
        of each frame, and the head has the password.
        """
        try:
            count = received = kept.conn.recv_into(buffer, BUFFER, DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not count:
            return False
        data = buffer
        if kept.unread is not None:
            data = kept.discard(buffer[:count])
            if kept.unread is not None or not data:
                return True
            count = len(data)
        try:
            end = 4 + checked_size(data) if count >= 4 else BUFFER
            if count < end:
                data, end = kept.receive_head(data[:count])
                count = len(data)
            environ = make_environ(data[4:end - 1], self.channel.is_password)
        except (OSError, ValueError) as error:
            print(f"wsgi-server: refused a connection: {error}", file=sys.stderr)
            buffer[:received] = bytes(received)
            return False

        behind = count - end
        body, response = None, KeptResponse(kept, environ["REQUEST_METHOD"] == "HEAD")
        if behind >= 4 and data[count - 4:count] == END_OF_REQUEST and (
                behind == 4 or behind > 8 and U32.unpack_from(data, end)[0] == behind - 8):
            # Nothing, or one frame with the whole body.
            response.input = io.BytesIO(data[end + 4:count - 4])
        else:
            frames = Frames(bytes(data[end:count]))
            body = response.body = KeptBody(kept.conn, frames)
            response.input = io.BufferedReader(body, BUFFER)
        buffer[:received] = bytes(received)
        del data
        environ["wsgi.input"] = response.input
        is_done = self.answer(environ, response) and not kept.is_torn
        response.conn = None  # the application may keep the response
        if body is not None and is_done:
            if body.is_torn:
                return False
            kept.unread = frames
            # The server waits for the end of the answer before it sends the next request.
            return not kept.discard(b"") or kept.unread is not None
        return is_done

    def answer(self, environ, response):
        """Let the application answer, and end the request. Return whether the answer was ended."""
        if not own[0]:
            leave(self.channel)  # forked by a finalizer of the application
        try:
            result = self.application(environ, response.start)
            if not own[0]:
                leave(self.channel)
            response.send_body(result)
            response.finish()
            return True
        except BaseException as error:  # sys.exit() in a request fails that request, and does not end the process
            if not own[0]:
                leave(self.channel, error)
            if isinstance(error, self.channel.Terminated):
                raise
            if not isinstance(error, ClientGone):
                return self.fail(response)
            return False
        finally:
            if not response.closed:
                response.close()

    def fail(self, response):
        """Answer for an application that has failed. Return whether the answer was ended."""
        traceback.print_exc()
        if not own[0]:
            leave(self.channel)  # forked by the exception, which has described itself
        try:
            response.fail()
            if response.ended:
                response.finish()
                return True
            response.abort()
        except ClientGone:
            pass
        return False
