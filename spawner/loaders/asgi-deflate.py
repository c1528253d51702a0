"""The compression of WebSocket messages: `permessage-deflate`, RFC 7692.

Both sides keep what they have seen from one message to the next, in windows of 4 KiB, unless the client asks for less. A client that
cannot be told so has a window of 32 KiB. So a WebSocket takes 32 KiB for its messages, and 11 or 40 KiB for those of its client.
"""

import re
import zlib

WINDOW_BITS = 12
MEMORY_LEVEL = 5
COMPRESSED_MIN = 64  # a shorter message gains little
TAIL = b"\0\0\xff\xff"  # the end of each message, which is not sent

OFFER = re.compile(rb'[ \t]*(?:([!#$%&\'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*(?:([!#$%&\'*+.^_`|~0-9A-Za-z-]+)|"([^"\\]*)"))?)?[ \t]*([;,]|$)')


class BadData(Exception):
    """The data of a message is not compressed as it should be."""


class TooLong(Exception):
    """A message is longer than it may be."""


def offers(field):
    """Yield the extensions of a field, each as a list of names and values. It ends where the field is malformed."""
    at, extension = 0, []
    while at < len(field) and (found := OFFER.match(field, at)):
        at = found.end()
        name, token, quoted, separator = found.groups()
        if name is not None:
            extension.append((name.lower(), token if quoted is None else quoted))
        if separator != b";":
            if extension:
                yield extension
            extension = []


def bits(value):
    """Return the number of bits of a window, or None for a bad one."""
    return int(value) if value is not None and re.fullmatch(rb"[89]|1[0-5]", value) else None


def negotiate(field):
    """Return the compression by the first offer of the client that can be taken, and the field that accepts it, or None twice."""
    for (name, value), *parameters in offers(field):
        if name == b"permessage-deflate" and value is None and (accepted := accept(parameters)):
            return accepted
    return None, None


def accept(parameters):
    if len({name for name, _ in parameters}) < len(parameters):
        return None
    own_bits, peer_bits, forgets, peer_forgets = WINDOW_BITS, 15, False, False
    answer = [b"permessage-deflate"]
    for name, value in parameters:
        if name == b"server_no_context_takeover" and value is None:
            forgets = True
        elif name == b"client_no_context_takeover" and value is None:
            peer_forgets = True
        elif name == b"client_max_window_bits" and (value is None or bits(value)):
            peer_bits = min(bits(value) or 15, WINDOW_BITS)
        elif name == b"server_max_window_bits" and (bits(value) or 0) > 8:  # zlib compresses with 9 at least
            own_bits = min(bits(value), WINDOW_BITS)
        else:
            return None
    answer += [b"server_no_context_takeover"] * forgets + [b"client_no_context_takeover"] * peer_forgets
    answer.append(b"server_max_window_bits=%d" % own_bits)
    if any(name == b"client_max_window_bits" for name, _ in parameters):
        answer.append(b"client_max_window_bits=%d" % peer_bits)
    return Deflate(own_bits, peer_bits, forgets, peer_forgets), b"; ".join(answer)


class Deflate:
    """The compression of both directions of one WebSocket."""

    __slots__ = ("own_bits", "peer_bits", "forgets", "peer_forgets", "deflater", "inflater")

    def __init__(self, own_bits, peer_bits, forgets, peer_forgets):
        self.own_bits, self.peer_bits = own_bits, peer_bits
        self.forgets, self.peer_forgets = forgets, peer_forgets
        self.deflater = self.inflater = None  # they take memory from the first message on

    def deflate(self, data):
        """Compress a whole message. Each message that is compressed must be sent, in this order."""
        if self.deflater is None:
            self.deflater = zlib.compressobj(wbits=-self.own_bits, memLevel=MEMORY_LEVEL)
        compressed = self.deflater.compress(data) + self.deflater.flush(zlib.Z_SYNC_FLUSH)
        if self.forgets:
            self.deflater = None
        return compressed[:-len(TAIL)]

    def inflate(self, part, room, is_last):
        """Return what a part of a message has held: at most `room` bytes."""
        data = self.inflate_some(part, room)
        if is_last:
            # The end of a block, and the data that zlib still has.
            data += self.inflate_some(TAIL, room - len(data))
            if self.peer_forgets or self.inflater.eof:
                self.inflater = None
        return data

    def inflate_some(self, part, room):
        if self.inflater is None:
            self.inflater = zlib.decompressobj(wbits=-self.peer_bits)
        inflater = self.inflater
        if inflater.eof:
            # A compressor that ends its stream with a message appends a zero, which begins an empty block.
            if part not in (b"", b"\0", TAIL):
                raise BadData("data behind its end")
            return b""
        try:
            data = inflater.decompress(part, room + 1)
        except zlib.error as error:
            raise BadData(str(error)) from None
        if len(data) > room:
            raise TooLong
        if inflater.eof and inflater.unused_data not in (b"", b"\0", b"\0" + TAIL, TAIL):
            raise BadData("data behind its end")
        return data
