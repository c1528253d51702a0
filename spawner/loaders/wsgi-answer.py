"""The answer of a WSGI application to one request, apart from the protocol that carries it."""

import re
import threading
from wsgiref.util import is_hop_by_hop

from cabrank.python_own import own
from cabrank.wsgi_request import check_process

REPLY_HEAD_MAX = 128 << 10  # the server accepts no longer one
MEMORY_MAX = 1000  # remembered header names and status lines

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS = re.compile(r"[2-9][0-9]{2}( .*)?")
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

# Known status lines and header names. Applications use few of them, again and again.
status_lines = {}  # status: (first line of the head, whether the answer has no body)
header_kinds = {}  # name: ORDINARY, LENGTH or HOP_BY_HOP
ORDINARY, LENGTH, HOP_BY_HOP = range(3)


def check_status(status):
    if not STATUS.fullmatch(status) or CONTROL_CHARACTER.search(status):
        raise ValueError(f"invalid status: {status!r}")
    result = ("".join(("Status: ", status, "\r\n")), status[:3] in ("204", "304"))
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
      send(chunk)  sends the head, if it was not sent yet, and a part of the body, which may be empty. It notes the head
                   before the first byte, and the part after the last one, so that no exception comes between;
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
            head = "".join((head, name, ": ", value, "\r\n"))  # the characters that were checked, and no `__format__`
        head = head.encode("latin-1")  # an error belongs here, in the application's call, and not in send
        if len(head) > REPLY_HEAD_MAX - 100:  # with the length and the empty line
            raise ValueError(f"the headers have {len(head)} bytes, which is too many")
        self.declared = declared
        self.bodyless = bodyless or self.is_head
        self.head = head  # the last: with it the answer can begin
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
