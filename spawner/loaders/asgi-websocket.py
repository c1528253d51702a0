"""The WebSockets of an ASGI application.

They follow RFC 6455, and RFC 7692 with clients that compress (asgi-deflate.py). A peer that is silent for 20 s gets a ping, and loses its connection if it stays
silent for 20 s more.

The bytes of a peer take a bounded memory: one message of `--max-websocket-message`, however many frames it has and however well it
is compressed, and BUFFER bytes of messages that the application has not taken. A WebSocket at this bound is *full*: its frames wait in the buffer, and
the connection is not read. It is full, too, while its peer does not read, because each ping needs an answer.
"""

import base64
import hashlib
from collections import deque

from cabrank.asgi_deflate import COMPRESSED_MIN, BadData, TooLong, negotiate
from cabrank.asgi_request import AWAITED, BUFFER, DONE, Task, check_process, encode_fields
from cabrank.python_own import ClientGone, own

MESSAGE_MAX = 16 << 20  # without the option
MESSAGE_COST = 512  # of an empty message: its dictionary, and its place in the queue
PING_INTERVAL = 20
CLOSE_TIMEOUT = 10

CONNECTING, OPEN, CLOSING, CLOSED = range(4)
COMPRESSED = 0x40  # the bit of the first frame of a compressed message
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

    __slots__ = ("key", "state", "buffer", "opcode", "is_final", "left", "mask", "size", "joined", "messages", "waiting",
                 "disconnect", "timer", "was_silent", "unsent", "deflate", "accepted", "is_compressed")

    def __init__(self, connection, scope, key, extensions):
        super().__init__(connection, scope)
        self.key = key
        self.deflate, self.accepted = negotiate(extensions) if extensions else (None, None)
        self.is_compressed = False  # the message that has begun
        self.state = CONNECTING
        self.buffer = bytearray()
        self.opcode = None  # of a message that has begun
        self.is_final = False  # its present frame is its last
        self.left = None  # the bytes of this frame that have not come; None between frames
        self.mask = b""  # turned to the next of these bytes
        self.size = 0  # of the message, with the rest of this frame
        self.joined = bytearray()  # what has come of the message
        self.messages = deque([({"type": "websocket.connect"}, 0)])  # for the application, each with its cost
        self.waiting = 0  # their cost
        self.disconnect = None
        self.timer = None
        self.was_silent = False
        self.unsent = 0  # the bytes that the peer had to read at the last tick

    def describe(self):
        return f"WebSocket {self.path}"

    # From the server

    def feed(self, data):
        if self.state == CLOSED:
            return
        self.buffer += data
        self.was_silent = False
        self.take_frames()
        if self.state == CONNECTING and len(self.buffer) > BUFFER:
            self.connection.pause_reading()

    def is_full(self):
        # After its own close frame this side keeps no message and answers no ping. It reads on to the peer's close frame.
        return self.state == OPEN and (self.waiting > BUFFER or self.connection.can_write is not None)

    def take_frames(self):
        """Take what the buffer has, until the WebSocket is full. Read on unless it is."""
        if self.state == CONNECTING:
            return
        try:
            while not self.is_full() and self.take_frame():
                pass
        except ProtocolError as error:
            self.end(*error.args)
            self.hang_up()
        if self.state == CLOSED:
            self.buffer.clear()
        elif self.is_full():
            self.connection.pause_reading()
        else:
            self.connection.resume_reading()

    def take_frame(self):
        """Take the next frame, or the part of its data that has come. Return whether another one may follow."""
        if self.left is not None:
            return self.take_data()
        buffer = self.buffer
        if len(buffer) < 2 or self.state == CLOSED:
            return False
        opcode, size, at = buffer[0] & 15, buffer[1] & 127, 2
        is_final = bool(buffer[0] & 0x80)
        is_compressed = bool(buffer[0] & COMPRESSED)
        if buffer[0] & 0x30 or is_compressed and (self.deflate is None or opcode not in (TEXT, BINARY)):
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
        start = at + 4
        if opcode >= 8:
            if len(buffer) < start + size:
                return False
            data = unmask(buffer[at:start], buffer[start:start + size])
            del buffer[:start + size]
            self.control(opcode, data)
            return True
        most = self.connection.server.message_max
        if self.is_compressed or is_compressed:
            most += (most >> 6) + COMPRESSED_MIN  # data that cannot be compressed grows
        if self.size + size > most:
            raise ProtocolError(1009, "the message is too long")
        if len(buffer) < start:
            return False
        if (opcode == CONTINUATION) != (self.opcode is not None) or opcode > BINARY:
            raise ProtocolError(1002, "a frame is not expected here")
        if opcode:
            self.opcode, self.is_compressed = opcode, is_compressed
        self.is_final, self.left, self.mask = is_final, size, bytes(buffer[at:start])
        self.size += size
        del buffer[:start]
        return self.take_data()

    def take_data(self):
        """Take the data that has come of a frame. Return whether this is the whole frame."""
        part = self.buffer[:self.left]
        del self.buffer[:len(part)]
        self.left -= len(part)
        part = unmask(self.mask, part)
        is_whole = not self.left
        if not is_whole:
            turn = len(part) % 4
            self.mask = self.mask[turn:] + self.mask[:turn]
        if self.state != OPEN:
            part = b""  # the application takes no more
        elif self.is_compressed:
            self.joined += self.inflate(part, is_whole and self.is_final)
            part = self.joined
        elif self.joined or not (is_whole and self.is_final):
            # One array holds the parts of a message, so that a part without data costs nothing.
            self.joined += part
            part = self.joined
        if is_whole:
            self.left = None
            if self.is_final:
                self.end_message(part)
        return is_whole

    def inflate(self, part, is_last):
        try:
            return self.deflate.inflate(part, self.connection.server.message_max - len(self.joined), is_last)
        except TooLong:
            raise ProtocolError(1009, "the message is too long") from None
        except BadData:
            raise ProtocolError(1007, "the message is not compressed well") from None

    def end_message(self, whole):
        opcode, size = self.opcode, len(whole)
        self.opcode, self.is_compressed, self.size, self.joined = None, False, 0, bytearray()
        if self.state != OPEN:
            return
        message = {"type": "websocket.receive"}
        if opcode == TEXT:
            try:
                message["text"] = whole.decode()
            except UnicodeDecodeError:
                raise ProtocolError(1007, "a text is not UTF-8") from None
        else:
            message["bytes"] = bytes(whole)
        self.waiting += size + MESSAGE_COST
        self.messages.append((message, size + MESSAGE_COST))
        self.wake()

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
            self.hang_up()
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

    def hang_up(self):
        """Close the connection, after the peer has read the close frame or a time is over."""
        self.connection.transport.close()
        self.set_timer(CLOSE_TIMEOUT, self.connection.transport.abort)

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
        transport = self.connection.transport
        unsent = transport.get_write_buffer_size()
        # A pong may wait behind messages that the application does not take, or behind what the peer has still to read.
        is_excused = self.waiting > BUFFER or unsent < self.unsent
        self.unsent = unsent
        if self.was_silent and not is_excused:
            self.end(1011, "no answer to a ping")
            transport.abort()
            return
        self.was_silent = True
        if self.connection.can_write is None:
            transport.write(frame(PING, b""))
        self.set_timer(PING_INTERVAL, self.tick)

    # From the application

    async def receive(self):
        self.check_thread()
        while True:
            if not own[0]:
                check_process(self.connection.server)
            if self.messages:
                connection = self.connection
                connection.begin_step()
                try:
                    message, cost = self.messages.popleft()
                    self.waiting -= cost
                    if not connection.is_reading:
                        self.take_frames()
                    connection.is_torn = False
                except BaseException:
                    connection.check_torn()
                    raise
                return message
            if self.disconnect is not None:
                return self.disconnect
            await self.wait()

    async def send(self, message):
        # As in Request.send, all parts of a message are there before the state is looked at.
        kind = message["type"]
        if kind == "websocket.send":
            data, text = message.get("bytes"), message.get("text")
            if data is None and text is None:
                raise ValueError("websocket.send needs bytes or text")
            opcode, data = (BINARY, data) if data is not None else (TEXT, text.encode())
            if type(data) is not bytes:
                data = bytes(memoryview(data))  # the length of other buffers is not that of their bytes
        elif kind == "websocket.accept":
            data = self.encode_accept(message)
        elif kind == "websocket.close":
            code, reason = message.get("code", 1000), message.get("reason") or ""
        self.check_client()
        if self.state == CLOSED or self.state == CLOSING and self.connection.server.farewell is not None:
            raise ClientGone("the WebSocket is closed")
        if self.state == OPEN:
            if kind == "websocket.send":
                await self.write(self.encode(opcode, data))
                return
            if kind == "websocket.close":
                self.do_step(self.close, code, reason)
                return
        elif self.state == CONNECTING:
            if kind == "websocket.accept" and self.connection.request.state == AWAITED:
                self.do_step(self.accept, data)
                return
            if kind == "websocket.close":
                kind, message = "websocket.http.response.body", {}
                await self.deny({"type": "http.response.start", "status": 403})
            if kind.startswith("websocket.http.response."):
                await self.deny({**message, "type": kind[len("websocket."):]})
                return
        raise RuntimeError(f"the application sent {kind}, which does not fit the state of its WebSocket")

    def encode(self, opcode, data):
        if self.deflate is None or len(data) < COMPRESSED_MIN:
            return frame(opcode, data)
        return frame(COMPRESSED | opcode, self.deflate.deflate(data))

    def do_step(self, call, *args):
        self.connection.begin_step()
        try:
            call(*args)
            self.connection.is_torn = False
        except BaseException:
            self.connection.check_torn()
            raise

    async def deny(self, message):
        denial = self.connection.request
        try:
            await denial.send(message)
        finally:
            if denial.state == DONE:
                self.end_of_connection()

    def encode_accept(self, message):
        """Return the head that accepts the WebSocket."""
        subprotocol = message.get("subprotocol")
        headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in (b"sec-websocket-protocol", b"sec-websocket-extensions")]
        if subprotocol is not None:
            headers.append((b"sec-websocket-protocol", subprotocol.encode("latin-1")))
        if self.accepted is not None:
            headers.append((b"sec-websocket-extensions", self.accepted))
        fields, _ = encode_fields(headers)
        accept = base64.b64encode(hashlib.sha1(self.key + GUID).digest())
        return (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n" + fields + b"\r\n")

    def accept(self, head):
        self.connection.transport.write(head)
        self.connection.request = None
        self.state = OPEN
        self.set_timer(PING_INTERVAL, self.tick)
        self.take_frames()
        self.say_farewell()

    def close(self, code, reason):
        """Start the closing handshake. The peer's answer ends the connection, or else a time-out."""
        self.send_close(code, reason)
        self.disconnect = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self.state = CLOSING
        self.set_timer(CLOSE_TIMEOUT, self.connection.transport.abort)
        self.wake()
        self.take_frames()

    def say_farewell(self):
        """Close the WebSocket if the server has asked for the end of all."""
        farewell = self.connection.server.farewell
        if farewell is not None and self.state == OPEN:
            self.close(*farewell)

    def returned(self):
        if self.connection.check_torn():
            return
        if self.state == OPEN:
            self.close(1000, "")
        elif self.state == CONNECTING:
            self.fail()

    def fail(self):
        if self.connection.check_torn():
            return
        if self.state == OPEN:
            self.close(1011, "the application failed")
        elif self.state == CONNECTING:
            self.connection.request.fail()
            self.end_of_connection()
