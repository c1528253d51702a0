"""Load one WSGI application and serve it to the cabrank agent.

The agent starts this file as a child process. One Unix socketpair is its standard input and output, and a pipe its
standard error. Like every loader it takes four steps:

  1. handshake  `!> I have control 1.0`; the agent answers with `key: value` lines and an empty line.
  2. load       the startup file (`passenger_wsgi.py`), which must define a callable `application`.
  3. ready      listen on a Unix socket and send its address: `!> Ready`, `!> socket: …`, `!> `.
  4. serve      one request per connection in the session protocol, one at a time, until standard input is readable:
                a byte and end of file both ask the process to leave. It finishes a running request first. SIGTERM
                ends it at once.

If a step before 3 fails, the loader sends `!> Error` and a text, and exits with code 1.

How an answer ends. A complete answer ends when both sides see end of file after the last byte. The agent detects an answer
that breaks off in two ways. With a Content-Length, fewer bytes arrive than declared. Without one, the agent reads
ECONNRESET instead of end of file. For this the loader leaves the last byte of the request's head unread until the
application reads the body: Linux resets the peer of a Unix socket that is closed with unread input. (SO_LINGER, which does
this for TCP, has no effect here.) So the agent also detects that a process was killed within an answer. It cannot detect an
answer that breaks off without Content-Length after the request's body was read.
"""

import hmac
import importlib.machinery
import importlib.util
import io
import os
import re
import selectors
import signal
import socket
import sys
import time
import traceback
from wsgiref.util import FileWrapper, is_hop_by_hop

PROTOCOL_VERSION = "1.0"
SOCKET_PATH_MAX = 107  # sun_path has 108 bytes, one of them the final NUL
BACKLOG = 1024
HEAD_MAX = 1 << 20  # far above any real head: a guard against a peer that speaks another protocol
HEAD_TIMEOUT = 10  # the agent writes the head at once; a slower peer must not block the only thread
DRAIN_TIMEOUT = 2

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS = re.compile(r"[2-9][0-9]{2}( .*)?")
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class LoadError(Exception):
    """The application cannot be served. The text is for the person who deploys it."""


class ClientGone(ConnectionError):
    """The agent closed the connection, so the answer has no reader."""


class Terminated(BaseException):
    """SIGTERM arrived. This is not an Exception, so that an application's `except Exception` does not swallow it."""


def say(text):
    """Write a block of protocol lines.

    A single write keeps the output of other threads out of the block. The newline in front ends an unfinished line of
    the application or its children (`print(end="")`), which share this descriptor.
    """
    sys.stdout.flush()
    data = memoryview(("\n" + text).encode("utf-8", "surrogateescape"))
    while data:
        data = data[os.write(1, data):]


# --- Handshake ---------------------------------------------------------------------------------------------------------


def handshake():
    """Perform the handshake and return the agent's options.

    The function reads byte by byte, so that it consumes no byte after the empty line. A start-up script may replace the
    process by another interpreter (`os.execl(INTERP, INTERP, *sys.argv)`), which starts a new handshake on descriptor 0.
    """
    say(f"!> I have control {PROTOCOL_VERSION}\n")
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        greeting = stdin.readline().rstrip(b"\n")
        if greeting != f"You have control {PROTOCOL_VERSION}".encode():
            raise LoadError(f"The agent answered the handshake with {greeting!r}, but this loader speaks version {PROTOCOL_VERSION}.")
        options = {}
        while True:
            line = stdin.readline()
            if not line:
                raise LoadError("The agent hung up during the handshake.")
            if line == b"\n":
                return options
            key, _, value = os.fsdecode(line.rstrip(b"\n")).partition(": ")
            options[key] = value


# --- Loading -----------------------------------------------------------------------------------------------------------


def load_application(app_root, startup_file):
    path = os.path.join(app_root, startup_file)
    if not os.path.isfile(path):
        raise LoadError(f"The startup file {path} does not exist. Create it, or name another file with --startup-file.")

    # The first entry is this file's directory. Applications expect their own directory there.
    if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    sys.path.insert(0, app_root)

    # The module gets its own name in sys.modules, so that an `import passenger_wsgi` does not run the file again.
    name = os.path.splitext(os.path.basename(path))[0]
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)

    application = getattr(module, "application", None)
    if application is None:
        raise LoadError(f"{path} does not define `application`. Define a WSGI callable of that name.")
    if not callable(application):
        raise LoadError(f"`application` in {path} has the type {type(application).__name__}, which is not callable.")
    return application


def describe(error):
    """Return the text for the error page: a traceback that begins with the application's own code."""
    if isinstance(error, LoadError):
        return f"{error}\n"
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename.startswith((__file__, "<frozen importlib")):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


# --- One request -------------------------------------------------------------------------------------------------------


def receive_exactly(conn, size):
    data = bytearray()
    while len(data) < size:
        chunk = conn.recv(size - len(data))
        if not chunk:
            raise ValueError(f"the head ended after {len(data)} of {size} bytes")
        data += chunk
    return data


def read_head(conn, password):
    """Return the CGI variables of the request, or None if the peer connected without sending a request."""
    conn.settimeout(HEAD_TIMEOUT)
    first = conn.recv(4)
    if not first:
        return None
    size = int.from_bytes(first + receive_exactly(conn, 4 - len(first)), "big")
    if not 1 < size <= HEAD_MAX:
        raise ValueError(f"the head claims a size of {size} bytes")
    # The final NUL stays unread (see the top of this file).
    fields = receive_exactly(conn, size - 1).decode("latin-1").split("\0")
    if len(fields) % 2:
        raise ValueError("a name in the head has no value")
    head = dict(zip(fields[0::2], fields[1::2]))
    given = head.pop("PASSENGER_CONNECT_PASSWORD", "")
    if not hmac.compare_digest(given.encode("latin-1"), os.fsencode(password)):
        raise ValueError("wrong connect password")
    if not head.get("REQUEST_METHOD"):
        raise ValueError("the head has no REQUEST_METHOD")
    conn.settimeout(None)  # the agent limits the time for a body
    return head


class RequestBody(io.RawIOBase):
    """The request's body: CONTENT_LENGTH bytes of the connection, or else all until the agent half-closes."""

    def __init__(self, conn, length):
        self.conn = conn
        self.remaining = length
        self.head_is_open = True

    def readable(self):
        return True

    def readinto(self, buffer):
        if self.remaining == 0:
            return 0
        try:
            if self.head_is_open:
                if self.conn.recv(1) != b"\0":
                    raise ClientGone("the request's head has no end")
                self.head_is_open = False
            count = self.conn.recv_into(buffer, min(len(buffer), self.remaining or len(buffer)))
        except ConnectionError as error:
            raise ClientGone(str(error)) from None
        if self.remaining is None:
            if count == 0:
                self.remaining = 0
        elif count == 0:
            # End of file would make half an upload look complete.
            raise ClientGone(f"the client left before the last {self.remaining} bytes of the request's body")
        else:
            self.remaining -= count
        return count


def content_length(head):
    value = head.get("CONTENT_LENGTH", "")
    if value == "":
        return None
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"invalid CONTENT_LENGTH {value!r}")
    return int(value)


def wsgi_environ(conn, head):
    """Return the environ of PEP 3333 for the CGI variables of a request."""
    # CGI names these two without prefix. If both spellings existed, two layers could believe different values.
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        spelled = head.pop("HTTP_" + name, None)
        if spelled is not None:
            head.setdefault(name, spelled)
    https = head.get("HTTPS", "").lower() in ("on", "1", "yes", "true")
    scheme = head.get("wsgi.url_scheme") or ("https" if https else "http")
    environ = {
        "SCRIPT_NAME": "",
        "PATH_INFO": "",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "443" if scheme == "https" else "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }
    environ.update(head)
    environ.update({
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BufferedReader(RequestBody(conn, content_length(head)), 1 << 16),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
    })
    return environ


# --- One answer --------------------------------------------------------------------------------------------------------


class Response:
    """One answer: `start_response`, `write`, and the state of what has been sent."""

    def __init__(self, conn, method):
        self.conn = conn
        self.is_head = method == "HEAD"
        self.lines = None  # the head; None until the application called start_response
        self.head_sent = False
        self.bodyless = False
        self.declared = None  # the Content-Length
        self.sent = 0
        self.ended = False

    def start(self, status, headers, exc_info=None):
        if exc_info:
            try:
                if self.head_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # a traceback holds this frame: break the cycle
        elif self.lines is not None:
            raise RuntimeError("start_response was called twice without exc_info")

        if not STATUS.fullmatch(status) or CONTROL_CHARACTER.search(status):
            raise ValueError(f"invalid status: {status!r}")
        lines = [f"Status: {status}"]
        declared = None
        for name, value in headers:
            if not HEADER_NAME.fullmatch(name) or name.lower() == "status":
                raise ValueError(f"invalid header name: {name!r}")
            if CONTROL_CHARACTER.search(value):
                raise ValueError(f"the header {name} has a control character: {value!r}")
            if is_hop_by_hop(name):
                continue  # it concerns the connection, which belongs to the agent
            if name.lower() == "content-length":
                if declared is not None or not (value.isascii() and value.isdigit()):
                    raise ValueError(f"invalid or repeated Content-Length: {value!r}")
                declared = int(value)
            lines.append(f"{name}: {value}")
        "\n".join(lines).encode("latin-1")  # an error belongs here, in the application's call, and not in send
        self.lines = lines
        self.declared = declared
        self.bodyless = self.is_head or status[:3] in ("204", "304")
        return self.write

    def suggest_length(self, length):
        """Add a Content-Length, unless the application has set one or the answer has no body."""
        if self.lines is not None and not self.head_sent and not self.bodyless and self.declared is None:
            self.declared = length
            self.lines.append(f"Content-Length: {length}")

    def write(self, chunk):
        if not isinstance(chunk, bytes):
            raise TypeError(f"the body must consist of bytes, not {type(chunk).__name__}")
        if self.lines is None:
            raise RuntimeError("the body began before start_response was called")
        if not chunk:
            return  # the head waits for the first non-empty chunk, because the application may still switch to an error
        excess = 0
        if self.bodyless:
            chunk = b""
        elif self.declared is not None:
            excess = max(0, self.sent + len(chunk) - self.declared)
            chunk = chunk[:len(chunk) - excess]
        self.send(chunk)
        if excess:
            self.finish()  # the declared length has been sent
            raise RuntimeError(f"the body is longer than its Content-Length of {self.declared}")

    def send(self, chunk):
        self.sent += len(chunk)
        if not self.head_sent:
            chunk = "\r\n".join(self.lines + ["", ""]).encode("latin-1") + chunk
            self.head_sent = True
        try:
            self.conn.sendall(chunk)
        except ConnectionError as error:
            raise ClientGone(str(error)) from None

    def end(self):
        """End the answer. The agent sees its end at once, before the application cleans up."""
        if self.lines is None:
            raise RuntimeError("the application never called start_response")
        if not self.head_sent:
            self.suggest_length(0)
            self.send(b"")
        if self.declared is not None and not self.bodyless and self.sent < self.declared:
            raise RuntimeError(f"the body has {self.sent} bytes, but its Content-Length is {self.declared}")
        self.finish()

    def finish(self):
        self.ended = True
        try:
            self.conn.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise ClientGone(str(error)) from None

    def fail(self):
        """Send an error if the answer has not begun. Otherwise leave the answer incomplete."""
        if self.head_sent:
            return
        body = b"The application failed to answer this request. The server's log has the details.\n"
        self.lines = None
        self.start("500 Internal Server Error", [("Content-Type", "text/plain; charset=utf-8")])
        self.suggest_length(len(body))
        self.write(body)
        self.end()


def run(application, environ, response):
    result = application(environ, response.start)
    try:
        if isinstance(result, (list, tuple)):
            response.suggest_length(sum(map(len, result)))
        for chunk in result:
            response.write(chunk)
            if response.bodyless and response.head_sent:
                break
        response.end()
    finally:
        if hasattr(result, "close"):
            result.close()


def drain(conn):
    """Read the rest of the request, because closing with unread input would look like an incomplete answer.

    The agent has seen the end of the answer and stops sending. The deadline guards against an agent that does not.
    """
    deadline = time.monotonic() + DRAIN_TIMEOUT
    try:
        while True:
            conn.settimeout(max(0.001, deadline - time.monotonic()))
            if not conn.recv(1 << 16) or time.monotonic() > deadline:
                return
    except OSError:
        pass


# --- Server ------------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, application, path, password):
        self.application = application
        self.path = path
        self.password = password
        self.pid = os.getpid()
        self.listener = socket.socket(socket.AF_UNIX)
        # With fchmod before bind, Linux creates the file with this mode. Changing the umask instead would affect every
        # thread of the application.
        os.fchmod(self.listener.fileno(), 0o600)
        self.listener.bind(path)
        self.listener.listen(BACKLOG)
        self.listener.setblocking(False)

    def close(self):
        # A forked child of the application may get here, and must not remove the socket.
        if os.getpid() == self.pid:
            try:
                os.unlink(self.path)
            except OSError:
                pass  # the agent has removed it already

    def serve_until_readable(self, control):
        # poll, not epoll: forked children of the application would share an epoll set.
        with selectors.PollSelector() as selector:
            selector.register(control, selectors.EVENT_READ)
            selector.register(self.listener, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if control in ready:
                    return
                try:
                    conn, _ = self.listener.accept()
                except BlockingIOError:
                    continue
                except OSError as error:
                    print(f"wsgi-loader: cannot accept a connection: {error}", file=sys.stderr)
                    time.sleep(0.1)  # the process is probably out of descriptors: do not spin
                    continue
                with conn:
                    self.serve(conn)

    def serve(self, conn):
        try:
            head = read_head(conn, self.password)
            if head is None:
                return
            if head["REQUEST_METHOD"] == "PING":
                conn.sendall(b"pong")
                conn.shutdown(socket.SHUT_WR)
                drain(conn)
                return
            environ = wsgi_environ(conn, head)
        except (OSError, ValueError) as error:
            print(f"wsgi-loader: refused a connection: {error}", file=sys.stderr)
            return

        response = Response(conn, head["REQUEST_METHOD"])
        try:
            run(self.application, environ, response)
        except Terminated:
            raise
        except ClientGone:
            pass
        except BaseException:  # sys.exit() in a request fails that request, and does not end the process
            if os.getpid() != self.pid:
                raise  # a forked child exits; connection and main loop belong to the parent
            traceback.print_exc()
            try:
                response.fail()
            except ClientGone:
                pass
        if response.ended:
            drain(conn)


def main():
    # A handler, not SIG_IGN, which children of the application would inherit. Ctrl-C reaches the whole process group of a
    # terminal, and the agent decides about the shutdown.
    signal.signal(signal.SIGINT, lambda *_: None)

    def terminate(*_):
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    os.set_blocking(0, True)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")

    server = None
    pid = os.getpid()
    try:
        try:
            options = handshake()
            if not options.get("generation_dir"):
                raise LoadError("The handshake has no generation_dir, the directory for the socket.")
            directory = os.path.join(os.path.abspath(options["generation_dir"]), "backends")
            path = os.path.join(directory, f"wsgi.{pid}-{os.urandom(4).hex()}")
            if len(os.fsencode(path)) > SOCKET_PATH_MAX:
                raise LoadError(f"The path {path} is longer than a Unix socket allows ({SOCKET_PATH_MAX} bytes). "
                                "Set XDG_RUNTIME_DIR to a shorter directory.")
            app_root = os.path.abspath(options.get("app_root") or os.getcwd())
            application = load_application(app_root, options.get("startup_file") or "passenger_wsgi.py")
            try:
                server = Server(application, path, options.get("connect_password", ""))
            except OSError as error:
                raise LoadError(f"Cannot listen on {path}: {error}") from None
        except Terminated:
            raise
        except BaseException as error:
            if os.getpid() != pid:
                raise  # a forked child of the start-up script
            say(f"!> Error\n!> \n{describe(error)}")
            sys.stderr.flush()
            os._exit(1)  # without waiting for threads of the application

        # Descriptor 0 now carries the shutdown byte. A child that reads its standard input must not consume it.
        control = os.dup(0)
        with open(os.devnull, "rb") as null:
            os.dup2(null.fileno(), 0)
        say(f"!> Ready\n!> socket: main;unix:{path};session;1\n!> pid: {pid}\n!> \n")
        server.serve_until_readable(control)
    except Terminated:
        sys.exit(128 + signal.SIGTERM)
    finally:
        if server:
            server.close()


if __name__ == "__main__":
    main()
