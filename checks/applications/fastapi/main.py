import asyncio
import hashlib
import logging
import os
from pathlib import Path

from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles

HERE = Path(__file__).parent
VERSION = (HERE / "VERSION").read_text().strip()
app = FastAPI(debug=os.environ["WSGI_ENV"] != "production")
logger = logging.getLogger("fastapi")


@app.get("/", response_class=PlainTextResponse)
def index():
    return f"Hello from FastAPI, version {VERSION}"


@app.get("/stream")
async def stream():
    async def parts():
        yield "first\n"
        while not (HERE / "go").exists():
            await asyncio.sleep(0.01)
        yield "last\n"

    return StreamingResponse(parts(), media_type="text/plain")


@app.post("/upload", response_class=PlainTextResponse)
async def upload(request: Request):
    digest = hashlib.sha256()
    async for part in request.stream():
        digest.update(part)
    return digest.hexdigest()


@app.get("/log")
def log(request: Request):
    logger.warning("logged %s", request.url.query)
    return "ok"


@app.get("/error")
def error(request: Request):
    raise RuntimeError(f"broken on purpose {request.url.query}")


@app.get("/below")
def below(request: Request):
    response = RedirectResponse(request.url_for("log"))
    response.set_cookie("seen", "1", path=request.scope["root_path"])
    return response


app.mount("/files", StaticFiles(directory=HERE / "files"))


@app.websocket("/ws")
async def echo(socket: WebSocket):
    await socket.accept()
    try:
        while True:
            await socket.send_text(await socket.receive_text())
    except WebSocketDisconnect:
        pass
