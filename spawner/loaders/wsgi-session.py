"""The session protocol, which takes a connection for each request of a WSGI application.

A complete answer ends when both sides see end of file after the last byte. The server detects an answer that breaks off in
two ways. With a Content-Length, fewer bytes arrive than declared. Without one, the server reads ECONNRESET instead of end of
file. For this the server leaves the last byte of the request's head unread until the application reads the body: Linux resets
the peer of a Unix socket that is closed with unread input. (SO_LINGER, which does this for TCP, has no effect here.) So the
server also detects that a process was killed within an answer. It cannot detect an answer that breaks off without
Content-Length after the request's body was read.
"""

import socket
import time

from cabrank.python_own import ClientGone
from cabrank.wsgi_answer import Response
from cabrank.wsgi_request import Body, check_process

HEAD_MAX = 1 << 20  # far above any real head: a guard against a peer that speaks another protocol
HEAD_TIMEOUT = 10  # the server writes the head at once; a slower peer must not block the thread
DRAIN_TIMEOUT = 2


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

    __slots__ = ("is_torn",)

    def __init__(self, conn, is_head):
        super().__init__(conn, is_head)
        self.is_torn = False  # whether a part is being written, or an exception has interrupted that: nothing can follow

    def check_torn(self):
        check_process()
        if self.is_torn:
            raise ClientGone("an exception has interrupted the answer")

    def send(self, chunk):
        self.check_torn()
        data = chunk if self.head_sent else self.head + b"\r\n" + chunk
        self.is_torn = self.head_sent = True
        try:
            self.conn.sendall(data)
        except ConnectionError as error:
            raise ClientGone(str(error)) from None
        self.sent += len(chunk)
        self.is_torn = False

    def end_locked(self):
        """End the answer. The server sees its end at once, before the application cleans up."""
        self.check_torn()
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
