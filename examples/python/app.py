"""A Python application whose file name leaves its type open: the loader sees that `app` is a WSGI callable.

    cabrank start examples/python
"""

import os


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"Process {os.getpid()} answered {environ['PATH_INFO']}\n".encode()]
