"""The answers of the loader of WSGI applications, over a session and over a kept connection."""

import json
import os
import signal

from common import EXAMPLES
from driver import DEADLINE


class WsgiAnswers:
    """Tests that hold in both protocols. `session` sends a request and returns the answer."""

    def test_example_through_every_page(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        self.check_ready(loader, "wsgi", "session", "1")
        first = self.session(loader)
        self.assertEqual(first.status, "Status: 200 OK")
        self.assertEqual(len(first.body), int(first.headers["Content-Length"]))
        self.assertIn(f"<strong>{loader.process.pid}</strong>".encode(), first.body)
        self.assertIn(b"<strong>2</strong> requests", self.session(loader).body)
        self.assertEqual(self.session(loader, PATH_INFO="/slow", QUERY_STRING="ms=1").body,
                         f"{loader.process.pid} slept for 1 ms\n".encode())
        self.assertIn("404", self.session(loader, PATH_INFO="/nowhere").status)
        self.assertIn(b"<form", self.session(loader, PATH_INFO="/upload").body)
        self.assertEqual(len(self.session(loader, PATH_INFO="/stream").body.splitlines()), 10)
        seen = self.session(loader, PATH_INFO="/env", HTTPS="on", HTTP_CONTENT_LENGTH="5", HTTP_X_NAME="\xe9")
        environ = json.loads(seen.body)["environ"]
        self.assertEqual((environ["HTTP_X_NAME"], environ["wsgi.url_scheme"], environ["CONTENT_LENGTH"]), ("\xe9", "https", "5"))
        self.assertEqual((environ["SCRIPT_NAME"], environ["wsgi.input_terminated"]), ("", True))
        self.assertEqual((environ["wsgi.multithread"], environ["wsgi.multiprocess"]), (False, True))
        self.assertFalse({"PASSENGER_CONNECT_PASSWORD", "HTTP_CONTENT_LENGTH"} & set(environ))
        self.assertTrue(self.session(loader, REQUEST_METHOD="POST", PATH_INFO="/crash").cut)
        self.assertEqual(loader.process.wait(DEADLINE), -signal.SIGKILL)

    def test_bodies(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        body = os.urandom(5_000_000)
        echo = dict(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_TYPE="x/y")
        answer = self.session(loader, body, CONTENT_LENGTH=len(body), half_close=False, **echo)
        self.assertTrue(answer.body == body and answer.headers["Content-Type"] == "x/y" and not answer.cut)
        self.assertTrue(self.session(loader, body, **echo).body == body)  # without a length
        # The application does not read this body, but the answer must still end without a reset.
        ignored = self.session(loader, body, CONTENT_LENGTH=len(body), REQUEST_METHOD="POST")
        self.assertTrue(ignored.body.endswith(b"</html>\n") and not ignored.cut)
        self.assertFalse(self.session(loader).cut)

    def test_output_of_the_application_does_not_break_the_handshake(self):
        loader = self.app("""
            import os, sys
            print("loading"); print("unfinished", end=""); os.write(1, b" business")
            sys.stderr.write("to the log\\n")
            def application(environ, start_response):
                print("serving")
                assert sys.stdin.read() == ""
                start_response("200 OK", [])
                return [b"ok"]
        """)
        self.assertEqual(loader.output.strip(), b"loading\nunfinished business")
        self.assertEqual(self.session(loader).body, b"ok")
        self.assertEqual(loader.lines.readline(), b"serving\n")
        self.assertIn("to the log", loader.read_stderr())

    def test_errors_of_the_application(self):
        loader = self.app("""
            import os, sys
            closed = []
            class Body(list):
                def close(self): closed.append(1)
            def application(environ, start_response):
                path = environ["PATH_INFO"]
                if path == "/early": raise KeyError("early")
                if path == "/exit": sys.exit(3)
                if path == "/split": start_response("200 OK", [("X", "a\\r\\nSet-Cookie: b")])
                if path == "/name": start_response("200 OK", [("X Y", "a")])
                if path == "/status": start_response("200 OK\\r\\nX: y", [])
                if path == "/str": start_response("200 OK", []); return Body(["text"])
                if path == "/none": return []
                if path == "/twice": start_response("200 OK", []); start_response("200 OK", []); return []
                if path == "/long": start_response("200 OK", [("Content-Length", "3")]); return Body([b"abcdef"])
                if path == "/late": return late(start_response, [])
                if path == "/late-length": return late(start_response, [("Content-Length", "10")])
                if path == "/fork" and os.fork() == 0: sys.exit(7)
                if path == "/fork": start_response("200 OK", []); return [str(os.waitstatus_to_exitcode(os.wait()[1])).encode()]
                if path == "/closed": start_response("200 OK", []); return [str(len(closed)).encode()]
            def late(start_response, headers):
                start_response("200 OK", headers)
                yield b"begun"
                raise KeyError("late")
        """)
        for path in ("/early", "/exit", "/split", "/name", "/status", "/str", "/none", "/twice"):
            with self.subTest(path):
                answer = self.session(loader, PATH_INFO=path)
                self.assertEqual(answer.status, "Status: 500 Internal Server Error")
                self.assertEqual(len(answer.body), int(answer.headers["Content-Length"]))
                self.assertFalse(answer.cut)
                self.assertNotIn(b"Error: ", answer.body)  # the details belong in the log
        self.assertIn("KeyError: 'early'", loader.read_stderr())
        self.assertEqual(self.session(loader, PATH_INFO="/long").body, b"abc")
        late = self.session(loader, PATH_INFO="/late")
        self.assertEqual((late.body, late.cut), (b"begun", True))
        self.assertTrue(self.session(loader, PATH_INFO="/late-length").short)
        self.assertEqual(self.session(loader, PATH_INFO="/closed").body, b"2")
        self.assertEqual(self.session(loader, PATH_INFO="/fork").body, b"7")  # the forked child does not answer, serve or clean up
        self.assertTrue(os.path.exists(loader.path))

    def test_optional_parts_of_wsgi(self):
        loader = self.app("""
            import sys
            def application(environ, start_response):
                path = environ["PATH_INFO"]
                if path == "/write":
                    write = start_response("200 OK", [("Connection", "close")])
                    write(b"one "); write(b"two ")
                    return [b"three"]
                if path == "/exc_info":
                    start_response("200 OK", [])
                    try: raise KeyError
                    except KeyError: start_response("503 Busy", [("Retry-After", "1")], sys.exc_info())
                    return [b"sorry"]
                if path == "/lines":
                    start_response("200 OK", [])
                    return [b"|".join(environ["wsgi.input"])]
                start_response(path[1:], [("Content-Length", "4")] if path[1:] == "200 OK" else [])
                return iter([b"", b"body"])
        """)
        written = self.session(loader, PATH_INFO="/write")
        self.assertEqual((written.body, written.headers), (b"one two three", {}))
        handled = self.session(loader, PATH_INFO="/exc_info")
        self.assertEqual((handled.status, handled.body, handled.headers["Content-Length"]), ("Status: 503 Busy", b"sorry", "5"))
        self.assertEqual(self.session(loader, b"a\nb", PATH_INFO="/lines", CONTENT_LENGTH="3").body, b"a\n|b")
        for method, path in (("HEAD", "/200 OK"), ("GET", "/204 No Content"), ("GET", "/304 Not Modified")):
            answer = self.session(loader, REQUEST_METHOD=method, PATH_INFO=path)
            self.assertEqual((answer.status, answer.body, answer.cut), ("Status: " + path[1:], b"", False))
