"""Kept sessions (docs/kept-sessions.md), which carry one request of a WSGI application after another."""

import socket
import struct

from cabrank.python_own import POLLRDHUP, ClientGone, own, poll
from cabrank.wsgi_answer import Response
from cabrank.wsgi_request import BUFFER, Body, check_process
from cabrank.wsgi_session import HEAD_MAX, HEAD_TIMEOUT

JOINED_MAX = 256 << 10  # a longer body is not copied behind its head
FRAME_MAX = (1 << 24) - 1

U32 = struct.Struct(">I")
frame = U32.pack  # of `HEAD | size`, `DATA | size`
HEAD, DATA = ord("H") << 24, ord("D") << 24
END, ABORT = b"E\0\0\0", b"A\0\0\0"
END_OF_REQUEST = bytes(4)


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
            self.watch = poll()
            self.watch.register(self.conn, POLLRDHUP)
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
        conn, size = self.conn, len(chunk)
        if self.head_sent:
            # The server half-closes to abandon a request. It goes on reading, so that the system accepts each write.
            conn.check()
            first = b""
        else:
            first = frame(HEAD | len(self.head) + 2) + self.head + b"\r\n"
        # One step: an exception between two writes leaves a frame open, and nothing can follow.
        conn.begin_step()
        self.head_sent = True
        if size <= JOINED_MAX:
            conn.put(b"".join((first, frame(DATA | size), chunk)) if size else first)
        else:
            view = memoryview(chunk)
            for at in range(0, size, FRAME_MAX):
                conn.put(first + frame(DATA | min(size - at, FRAME_MAX)))
                conn.put(view[at:at + FRAME_MAX])
                first = b""
        self.sent += size
        conn.is_torn = False

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
                    conn.put(b"".join((frame(HEAD | len(head) + 2), head, b"\r\n", frame(DATA | len(body)), body, self.last())))
                    conn.is_torn = False
                    return
        super().send_body(result)

    def finish(self):
        if not self.finished:
            self.conn.begin_step()
            # The server may send the next request as soon as it sees the end.
            self.close()
            self.finished = True
            self.conn.put(self.last())
            self.conn.is_torn = False

    def last(self):
        """Return the frame behind the answer. After an interrupted read of the body the connection takes no further request."""
        return END if self.body is None or not self.body.is_torn else ABORT

    def abort(self):
        self.close()
        self.conn.send(ABORT)
