import asyncio
import hashlib
import logging
import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute

HERE = Path(__file__).parent
VERSION = (HERE / "VERSION").read_text().strip()
logger = logging.getLogger("app")


async def index(request):
    return PlainTextResponse(f"Hello from Starlette, version {VERSION}")


async def stream(request):
    async def parts():
        yield "first\n"
        while not (HERE / "go").exists():
            await asyncio.sleep(0.01)
        yield "last\n"

    return StreamingResponse(parts(), media_type="text/plain")


async def upload(request):
    digest = hashlib.sha256()
    async for part in request.stream():
        digest.update(part)
    return PlainTextResponse(digest.hexdigest())


async def log(request):
    logger.warning("logged %s", request.url.query)
    return PlainTextResponse("ok")


async def error(request):
    raise RuntimeError(f"broken on purpose {request.url.query}")


async def echo(socket):
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)


app = Starlette(
    debug=os.environ["WSGI_ENV"] != "production",
    routes=[
        Route("/", index),
        Route("/stream", stream),
        Route("/upload", upload, methods=["POST"]),
        Route("/log", log),
        Route("/error", error),
        WebSocketRoute("/ws", echo),
    ],
)
