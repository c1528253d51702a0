"""A small application to try cabrank: each page shows one task of an application server.

    cabrank start examples/wsgi               several processes, restarts, recovery from crashes
    python3 examples/wsgi/passenger_wsgi.py   the same pages from one process, on port 3000
"""

import html
import json
import os
import signal
import sys
import time
from urllib.parse import parse_qs

answered = 0

STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } li { margin: .4rem 0 } code { font-size: .95em }
.facts { border-left: .25rem solid #8888; padding-left: 1rem }
"""


def page(title, body):
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{html.escape(title)}</h1>{body}</body></html>
"""
    return text.encode()


def answer(start_response, status, content_type, body, *headers):
    start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(body))), *headers])
    return [body]


def index(environ, start_response):
    body = page("cabrank: WSGI example", f"""
<p class="facts">Process <strong>{os.getpid()}</strong> answered, Python {sys.version.split()[0]}.
It has answered <strong>{answered}</strong> {"request" if answered == 1 else "requests"}.</p>
<ul>
<li><a href="/slow?ms=2000">/slow?ms=2000</a>: keeps its process busy for two seconds</li>
<li><a href="/stream">/stream</a>: ten lines, one every 200 ms</li>
<li><a href="/upload">/upload</a>: returns your upload</li>
<li><a href="/env">/env</a>: the request as the application sees it</li>
</ul>
<form method="post" action="/crash"><p><button>crash</button> kills the process that gets it. Reload this page, and another process
answers.</p></form>
<p>After a change of the code, run <code>touch tmp/restart.txt</code>.</p>""")
    return answer(start_response, "200 OK", "text/html; charset=utf-8", body)


def slow(environ, start_response):
    try:
        ms = int(parse_qs(environ.get("QUERY_STRING", "")).get("ms", ["2000"])[0])
    except ValueError:
        return answer(start_response, "400 Bad Request", "text/plain", b"ms must be a whole number\n")
    ms = max(0, min(ms, 60_000))
    time.sleep(ms / 1000)
    return answer(start_response, "200 OK", "text/plain", f"{os.getpid()} slept for {ms} ms\n".encode())


def body_of(environ, chunk_size=64 * 1024):
    """Yield the request's body in pieces: CONTENT_LENGTH bytes, or all of a chunked body."""
    if environ.get("CONTENT_LENGTH"):
        remaining = int(environ["CONTENT_LENGTH"])
    else:
        remaining = float("inf") if environ.get("wsgi.input_terminated") else 0
    while remaining and (chunk := environ["wsgi.input"].read(min(chunk_size, remaining))):
        remaining -= len(chunk)
        yield chunk


def upload(environ, start_response):
    if environ["REQUEST_METHOD"] in ("POST", "PUT"):
        headers = [("Content-Type", environ.get("CONTENT_TYPE") or "application/octet-stream"),
                   ("X-Content-Type-Options", "nosniff")]
        if environ.get("CONTENT_LENGTH"):
            headers.append(("Content-Length", environ["CONTENT_LENGTH"]))
        start_response("200 OK", headers)
        return body_of(environ)
    body = page("Upload", """
<form method="post" enctype="text/plain"><p><textarea name="text" rows="6" cols="50">Hello</textarea></p>
<p><button>Send</button></p></form>
<p>A large upload: <code>curl -T FILE http://…/upload | cmp - FILE</code></p>""")
    return answer(start_response, "200 OK", "text/html; charset=utf-8", body)


def crash(environ, start_response):
    # A server may send a GET whose process has died to the next process, which would die as well.
    if environ["REQUEST_METHOD"] != "POST":
        return answer(start_response, "405 Method Not Allowed", "text/plain", b"POST kills this process\n")
    os.kill(os.getpid(), signal.SIGKILL)


def env(environ, start_response):
    # Some servers (wsgiref) add the environment of the process, which may hold secrets.
    known = {name: value for name, value in environ.items()
             if isinstance(value, (str, int, tuple)) and name not in os.environ}
    body = json.dumps({"pid": os.getpid(), "environ": known}, indent=2, sort_keys=True) + "\n"
    return answer(start_response, "200 OK", "application/json", body.encode())


def stream(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8"), ("X-Accel-Buffering", "no")])
    for number in range(1, 11):
        yield f"{number} of 10 from process {os.getpid()}\n".encode()
        if number < 10:
            time.sleep(0.2)


PAGES = {"/": index, "/slow": slow, "/upload": upload, "/crash": crash, "/env": env, "/stream": stream}


def application(environ, start_response):
    global answered
    answered += 1
    handler = PAGES.get(environ.get("PATH_INFO") or "/")
    if handler is None:
        return answer(start_response, "404 Not Found", "text/html; charset=utf-8",
                      page("Not found", '<p>This page does not exist. <a href="/">All pages</a></p>'))
    return handler(environ, start_response)


if __name__ == "__main__":
    from wsgiref.simple_server import make_server

    port = int(os.environ.get("PORT", 3000))
    print(f"http://127.0.0.1:{port}/")
    make_server("127.0.0.1", port, application).serve_forever()
