"""The reference application of conformance.py for loaders of ASGI applications."""


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
    if path == "/echo":
        await part(send, b"".join([data async for data in body(receive)]))
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
