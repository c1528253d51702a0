"""Plays walks of the state machine of kept sessions (spec/src/kept) against a real loader.

A walk in walks.txt is a sequence of actions. The player is the server: it sends requests, half-closes and reads answers. It also
commands each step of the application. The reference application answers the path /steps step by step: it connects to the Unix
socket that the header `Control` names, and so does each thread and each child that it leaves behind. Each sends one line, its kind
(`request`, `reader`, `writer` or `child`), a space and the mark. It then obeys one command a line, with one line as the reply:

    read            reads up to 10 bytes of the request; replies `got`, a space and the bytes, or `error`. In HTTP it does not wait
    write           writes the bytes in the header `Mark` to the answer; replies `ok` or `error`
    leave-reader    starts a thread that obeys `read`, and ends with `end`; replies `ok`
    leave-writer    the same with `write`
    fork            forks a child that obeys `try`, and then goes on as its parent would; replies `ok`, or `none` where the language
                    cannot fork
    try             reads and writes as a child; replies with the replies of both, with a comma. The child may leave instead
    end-answer      returns, which ends the answer; no reply
    abort           raises an error; no reply

Each request has a mark of its own of ten bytes. No reply and no answer may have the mark of another request.
"""

import os
import re
import socket

from driver import DEADLINE, KeptConnection, frame, head

PATH = "/steps"
MARK = re.compile(rb"mark-\d{5}")


class Actor:
    """The player's end of the control connection of a request, a thread or a child."""

    def __init__(self, conn):
        self.conn = conn
        self.lines = conn.makefile("rb")
        self.kind, _, self.mark = self.lines.readline().decode().strip().partition(" ")

    def tell(self, command):
        self.conn.sendall(command.encode() + b"\n")

    def ask(self, command):
        self.tell(command)
        reply = self.lines.readline()
        assert reply.endswith(b"\n"), f"no reply to {command}: {reply}"
        return reply

    def close(self):
        self.lines.close()
        self.conn.close()


class Served:
    """One request of a walk."""

    def __init__(self, mark):
        self.mark = mark
        self.answer = b""
        self.actors = {}
        self.has_written = False
        self.is_left = False  # whether its client has left


class HttpConnection:
    """The server's end of a connection of `http_session`."""

    def __init__(self, loader):
        self.conn = loader.connect("http_session")
        self.bytes = self.conn.makefile("rb")

    def line(self):
        line = self.bytes.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection has ended")
        return line[:-2]

    def read(self, size):
        data = self.bytes.read(size)
        if len(data) < size:
            raise ConnectionError("the connection has ended")
        return data

    def parts(self):
        """Yield the parts of the next answer.

        Raises:
            ConnectionError: The answer is cut.
        """
        yield self.line()
        fields = {}
        while line := self.line():
            name, _, value = line.partition(b":")
            fields[name.lower()] = value.strip()
            yield line
        if b"content-length" in fields:
            yield self.read(int(fields[b"content-length"]))
        elif fields.get(b"transfer-encoding") == b"chunked":
            while size := int(self.line(), 16):
                yield self.read(size)
                self.line()
            self.line()

    def close(self):
        self.bytes.close()
        self.conn.close()


class Player:
    """Plays walks, one after the other, against one loader."""

    def open(self):
        return KeptConnection(self.loader)

    def encode(self, mark):
        """Return the items of a request: its head, a part of its body, and its end."""
        return [head(PATH_INFO=PATH, REQUEST_METHOD="POST", HTTP_CONTROL=self.path, HTTP_MARK=mark.decode()), frame(mark), frame(b"")]

    def receive_answer(self, request):
        """Read an answer. Return its last frame, or nothing if the connection has ended before."""
        kind = ""
        while kind not in ("E", "A"):
            got = self.connection.frame()
            if got is None:
                return ""
            kind, data = got
            request.answer += data
        return kind

    def __init__(self, test, loader):
        self.test, self.loader = test, loader
        self.path = os.path.join(loader.root, "control")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(DEADLINE)
        self.listener.bind(self.path)
        self.listener.listen(10)
        self.marks = 0
        self.connection = None
        self.early = {}  # actors that came before the walk has come to them
        self.hung_up = set()  # the marks of requests that were not taken before their connection ended

    def close(self):
        self.listener.close()
        if self.connection:
            self.connection.close()

    def play(self, walk):
        self.requests, self.serving, self.awaited, self.to_send = [], None, None, []
        for action in walk.split():
            name, _, number = action.partition(":")
            step = getattr(self, name.replace("-", "_"))
            step(self.requests[int(number)]) if number else step()
        for request in self.requests:
            for actor in request.actors.values():
                if actor.kind in ("reader", "writer"):
                    actor.tell("end")
                actor.close()
            self.look(request, request.answer)
        if self.connection:
            self.connection.close()
            self.connection = None

    def look(self, request, data):
        foreign = set(MARK.findall(data)) - {request.mark}
        self.test.assertFalse(foreign, f"{request.mark} has got {foreign}")

    def actor(self, kind, request):
        """Return the control connection of an actor of the request."""
        wanted = kind, request.mark.decode()
        while wanted not in self.early:
            conn, _ = self.listener.accept()
            conn.settimeout(DEADLINE)
            actor = Actor(conn)
            if actor.mark in self.hung_up:
                # The loader has taken the head of a request whose connection had ended.
                actor.tell("end-answer")
                actor.close()
            else:
                self.early[actor.kind, actor.mark] = actor
        return self.early.pop(wanted)

    # The server.

    def connect(self):
        self.connection = self.open()

    def begin(self):
        self.marks += 1
        self.awaited = Served(b"mark-%05d" % self.marks)
        self.requests.append(self.awaited)
        self.to_send = self.encode(self.awaited.mark)
        self.send()

    def send(self):
        self.connection.conn.sendall(self.to_send.pop(0))

    def receive(self):
        pass  # the player reads the answer when it has ended

    def receive_end(self):
        self.receive_to("E")

    def receive_abort(self):
        self.receive_to("A")

    def receive_to(self, last):
        """Read the answer to its last frame. A client that has left may get less."""
        request, self.awaited = self.awaited, None
        kind = self.receive_answer(request)
        if kind != last and not request.is_left:
            self.test.fail(f"the answer ends with {kind!r} instead of {last!r}")
        if request.is_left or kind != "E":
            self.connection.close()
            self.connection, self.to_send = None, []

    def half_close(self):
        self.awaited.is_left = True
        self.to_send = []
        self.connection.conn.shutdown(socket.SHUT_WR)

    def hang_up(self):
        if "request" not in self.awaited.actors:
            self.hung_up.add(self.awaited.mark.decode())
        self.connection.close()
        self.connection, self.awaited, self.to_send = None, None, []

    # The loader and the application.

    def take_head(self):
        # The loader serves the oldest request that it has not served.
        self.serving = self.awaited
        self.serving.actors["request"] = self.actor("request", self.serving)

    def discard(self):
        pass  # the loader does it by itself

    def read(self):
        self.look(self.serving, self.serving.actors["request"].ask("read"))

    def write(self):
        self.serving.has_written = True
        self.serving.actors["request"].ask("write")

    def end_answer(self):
        self.serving.actors["request"].tell("end-answer")
        self.serving = None

    def abort(self):
        if not self.serving.has_written:
            self.write()  # an answer that has not begun would be an error page
        self.serving.actors["request"].tell("abort")
        self.serving = None

    def leave(self, kind):
        self.test.assertEqual(self.serving.actors["request"].ask(f"leave-{kind}"), b"ok\n")
        self.serving.actors[kind] = self.actor(kind, self.serving)

    def leave_reader(self):
        self.leave("reader")

    def leave_writer(self):
        self.leave("writer")

    def fork(self):
        if self.serving.actors["request"].ask("fork") != b"none\n":
            self.serving.actors["child"] = self.actor("child", self.serving)

    def reader_takes(self, request):
        self.look(request, request.actors["reader"].ask("read"))

    def writer_writes(self, request):
        request.actors["writer"].ask("write")

    def child_goes_on(self, request):
        child = request.actors.get("child")
        if child is None:
            return
        child.tell("try")
        reply = child.lines.readline()
        self.look(request, reply)  # it may have a copy of bytes that had been read before
        if reply:  # else a write was a return into the loader, and the child has left
            self.test.assertTrue(reply.endswith(b",error\n"), f"a forked child writes: {reply}")
            try:
                child.tell("end-answer")
                self.test.assertEqual(child.lines.readline(), b"", "a forked child goes on")
            except ConnectionError:
                pass  # it has left already


class HttpPlayer(Player):
    """The same over HTTP: an answer that is cut stands for an abort."""

    def open(self):
        return HttpConnection(self.loader)

    def encode(self, mark):
        first = b"POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nControl: %s\r\nMark: %s\r\n\r\n"
        return [first % (PATH.encode(), self.path.encode(), mark), b"%x\r\n%s\r\n" % (len(mark), mark), b"0\r\n\r\n"]

    def receive_answer(self, request):
        try:
            for part in self.connection.parts():
                request.answer += part
            return "E"
        except ConnectionError:
            return "A"
