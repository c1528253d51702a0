"""A server of its own, which cabrank starts by the command in the Procfile, without a loader.

    cabrank start examples/generic
    PORT=8000 python3 examples/generic/server.py
"""

import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/slow":
            time.sleep(2)
        text = f"Process {os.getpid()} of a server without a loader answered {path}\n"
        self.answer(200 if path in ("/", "/slow") else 404, text)

    def do_POST(self):
        if self.path == "/crash":
            os.kill(os.getpid(), signal.SIGKILL)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, f"{len(body)} bytes\n")

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        pass  # the server in front knows the requests


def leave(signum, frame):
    print("leaving", flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, leave)
port = int(os.environ.get("PORT", 8000))
print(f"listening on port {port}", flush=True)
# Only this machine reaches 127.0.0.1: clients come through cabrank.
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
