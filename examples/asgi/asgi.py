"""A small ASGI application to try cabrank: streams in both directions and WebSockets, without a framework.

    cabrank start examples/asgi
    uvicorn --app-dir examples/asgi asgi:application   the same application, if uvicorn is installed
"""

import asyncio
import os
import signal

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>cabrank: ASGI example</title>
<style>:root { color-scheme: light dark } body { font: 1rem/1.6 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto }</style>
</head><body><h1>cabrank: ASGI example</h1>
<p>Process <strong>%d</strong> answered. It has answered <strong>%d</strong> requests.</p>
<ul>
<li><a href="/slow?2">/slow?2</a>: takes two seconds, and holds no other request up</li>
<li><a href="/stream">/stream</a>: ten lines, one every 200 ms</li>
<li>POST /upload: returns your upload while it comes</li>
</ul>
<form id="chat"><input id="text" placeholder="a message to the WebSocket /echo"><button>send</button></form><pre id="log"></pre>
<form method="post" action="/crash"><p><button>crash</button> kills the process. Reload this page, and another process answers.</p></form>
<script>
const socket = new WebSocket(location.href.replace(/^http/, 'ws').replace(/[^/]*$/, 'echo'));
const log = (line) => { document.getElementById('log').textContent += line + '\\n'; };
socket.onopen = () => log('connected');
socket.onmessage = (event) => log(event.data);
socket.onclose = (event) => log(`closed: ${event.code} ${event.reason}`);
document.getElementById('chat').onsubmit = (event) => {
  event.preventDefault();
  socket.send(document.getElementById('text').value);
};
</script></body></html>
"""


async def lifespan(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            scope["state"]["counts"] = {"requests": 0}
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            print("shut down")
            return


async def start(send, status, *headers):
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def finish(send, body=b""):
    await send({"type": "http.response.body", "body": body})


async def answer(send, status, kind, text):
    await start(send, status, (b"content-type", kind + b"; charset=utf-8"))
    await finish(send, text.encode())


async def stream(send):
    await start(send, 200, (b"content-type", b"text/plain; charset=utf-8"))
    for number in range(1, 11):
        await send({"type": "http.response.body", "body": b"line %d\n" % number, "more_body": True})
        await asyncio.sleep(0.2)
    await finish(send)


async def upload(receive, send):
    await start(send, 200, (b"content-type", b"application/octet-stream"))
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message["more_body"]
        await send({"type": "http.response.body", "body": message["body"], "more_body": more})


async def echo(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        await send({**message, "type": "websocket.send"})


async def http(scope, receive, send):
    counts = scope["state"]["counts"]
    counts["requests"] += 1
    path, method = scope["path"], scope["method"]
    if path == "/":
        await answer(send, 200, b"text/html", PAGE % (os.getpid(), counts["requests"]))
    elif path == "/slow":
        query = scope["query_string"]
        seconds = min(int(query), 60) if query.isdigit() else 2
        await asyncio.sleep(seconds)
        await answer(send, 200, b"text/plain", f"{os.getpid()} slept for {seconds} s\n")
    elif path == "/stream":
        await stream(send)
    elif path == "/upload" and method in ("POST", "PUT"):
        await upload(receive, send)
    elif path == "/crash" and method == "POST":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        await answer(send, 404, b"text/plain", "There is no such page.\n")


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
    elif scope["type"] == "http":
        await http(scope, receive, send)
    elif scope["path"] == "/echo":
        await echo(receive, send)
    else:
        await send({"type": "websocket.close"})
