"""One request of a WSGI application: its environ, and its input.

Children that the application forks have neither. Each step that uses a connection looks first whether it is in a child.
"""

import io
import socket
import sys
import threading
from wsgiref.util import FileWrapper

from cabrank.python_own import POLLIN, ClientGone, own, poll

BUFFER = 64 << 10
DONTWAIT = socket.MSG_DONTWAIT
END_TIMEOUT = 1  # a reader has the lock for one system call that does not wait


def check_process():
    if not own[0]:
        raise ClientGone("a forked child has no client: the request belongs to its parent")


# --- The environ -------------------------------------------------------------------------------------------------------

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
    environ["wsgi.errors"] = getattr(sys, "stderr", None)
    return environ


def content_length(environ):
    value = environ.get("CONTENT_LENGTH", "")
    if value == "":
        return None
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"invalid CONTENT_LENGTH {value!r}")
    return int(value)


# --- The input ---------------------------------------------------------------------------------------------------------

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
                    wait = self.begin_wait()
                except ConnectionError as error:
                    raise error if isinstance(error, ClientGone) else ClientGone(str(error)) from None
            try:
                wait.poll()
            finally:
                self.end_wait()

    def begin_wait(self):
        """Return a poll object that becomes ready with the next byte, or with the end of the input."""
        if self.waker is None:
            self.waker = socket.socketpair()
            wakers.add(self.waker)
        self.waiters += 1
        wait = poll()
        wait.register(self.conn, POLLIN)
        wait.register(self.waker[0], POLLIN)
        return wait

    def end_wait(self):
        check_process()
        with self.lock:
            self.waiters -= 1
            if self.conn is None and not self.waiters:
                self.close_waker()

    def end(self):
        """End the input."""
        check_process()
        if not self.lock.acquire(timeout=END_TIMEOUT):
            # A reader waits under the lock: gevent's sockets do so, whatever the flags. The end of file makes it leave. The rest of
            # the body does not come: the connection ends behind the answer.
            self.conn.shutdown(socket.SHUT_RD)
            self.lock.acquire()
            self.is_torn = True
        try:
            self.conn = None
            if self.waiters:
                self.waker[1].shutdown(socket.SHUT_WR)  # a close would wake nobody while a forked child has the pair
            elif self.waker is not None:
                self.close_waker()
        finally:
            self.lock.release()

    def close_waker(self):
        wakers.discard(self.waker)
        for end in self.waker:
            end.close()
        self.waker = None
