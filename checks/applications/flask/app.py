import hashlib
import os
import time

from flask import Flask, request

app = Flask(__name__)
with open(os.path.join(app.root_path, "VERSION")) as file:
    VERSION = file.read().strip()


@app.get("/")
def index():
    return f"Hello from Flask, version {VERSION}"


@app.get("/stream")
def stream():
    def parts():
        yield "first\n"
        while not os.path.exists(os.path.join(app.root_path, "go")):
            time.sleep(0.01)
        yield "last\n"

    return parts(), {"Content-Type": "text/plain"}


@app.post("/upload")
def upload():
    digest = hashlib.sha256()
    while part := request.stream.read(65536):
        digest.update(part)
    return digest.hexdigest()


@app.get("/log")
def log():
    app.logger.warning("logged %s", request.query_string.decode())
    return "ok"


@app.get("/error")
def error():
    raise RuntimeError(f"broken on purpose {request.query_string.decode()}")
