"""The reference application of conformance.py for loaders of ASGI applications."""

import asyncio
import os
import socket

TASKS = set()


async def app(scope, receive, send):
    assert scope["type"] == "http"
    path = scope["path"]
    if path == "/fail":
        raise RuntimeError("asked to fail")
    headers = []
    if path == "/echo":
        one = dict(scope["headers"]).get(b"x-one", b"")
        headers = [(b"x-seen", one + b"," + scope["query_string"])]
    if path == "/short":
        headers = [(b"content-length", b"10")]
    await send({"type": "http.response.start", "status": 204 if path == "/empty" else 200, "headers": headers})
    if path == "/steps":
        await Steps(scope, receive, send).obey("request")
    if path == "/echo":
        await part(send, b"".join([data async for data in body(receive)]))
    elif path == "/origin":
        client = scope["client"] or ("none", 0)
        await part(send, b"/origin?%s %s %d" % (scope["query_string"], client[0].encode(), client[1]))
    elif path == "/unread":
        await part(send, b"unread")
    elif path == "/stream":
        await part(send, b"one")
        async for _ in body(receive):
            pass
        await part(send, b"two")
    elif path == "/endless":
        while True:
            await part(send, bytes(1000))
    elif path == "/late":
        await part(send, b"begun")
        raise RuntimeError("asked to fail late")
    elif path == "/short":
        await part(send, b"begun")
    await send({"type": "http.response.body"})


async def part(send, data):
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def body(receive):
    has_more = True
    while has_more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        yield event.get("body", b"")
        has_more = event.get("more_body", False)


class Steps:
    """The path /steps: what the player of walks commands (walks.py)."""

    def __init__(self, scope, receive, send):
        headers = dict(scope["headers"])
        self.control, self.mark = headers[b"control"].decode(), headers[b"mark"]
        self.receive, self.send = receive, send
        self.is_child = False

    async def obey(self, kind):
        reader, writer = await asyncio.open_unix_connection(self.control)
        writer.write(f"{kind} ".encode() + self.mark + b"\n")
        while command := (await reader.readline()).strip().decode():
            if command in ("end-answer", "end"):
                break
            if command == "abort":
                raise RuntimeError("asked to abort")
            reply = await getattr(self, command.replace("-", "_"))()
            if self.is_child:
                return  # a child goes on as its parent would
            writer.write(reply + b"\n")
        writer.close()

    async def read(self):
        try:
            return b"got " + (await asyncio.wait_for(self.receive(), 0.01)).get("body", b"")
        except (asyncio.TimeoutError, OSError, RuntimeError):
            return b"error"

    async def write(self):
        try:
            await part(self.send, self.mark)
            return b"ok"
        except (OSError, RuntimeError):
            return b"error"

    async def leave_reader(self):
        return self.leave("reader")

    async def leave_writer(self):
        return self.leave("writer")

    def leave(self, kind):
        task = asyncio.ensure_future(self.obey(kind))
        TASKS.add(task)  # the loop refers to it weakly
        task.add_done_callback(TASKS.discard)
        return b"ok"

    async def fork(self):
        if os.fork():
            return b"ok"
        self.is_child = True
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(self.control)
            control.sendall(b"child " + self.mark + b"\n")
            for command in control.makefile("r"):
                if command.strip() != "try":
                    break
                control.sendall(attempt(self.receive()) + b"," + attempt(part(self.send, self.mark)) + b"\n")


def attempt(call):
    """Run a coroutine to its first wait, without an event loop."""
    try:
        call.send(None)
    except StopIteration as end:
        return b"got " + (end.value or {}).get("body", b"")
    except (OSError, RuntimeError):
        pass
    call.close()
    return b"error"
