"""The loader of WSGI applications: the session protocol, and how an application is found and loaded."""

import os
import shutil
import signal
import socket
import sys
import tempfile
import textwrap

from common import EXAMPLES, LOADERS, WsgiLoader
from driver import DEADLINE, PASSWORD, head, kept_session, session
from wsgi_answers import WsgiAnswers


class WsgiOverSession(WsgiAnswers, WsgiLoader):
    session = staticmethod(session)

    def test_an_old_interpreter_is_named(self):
        old = "import runpy, sys; sys.version_info = (3, 8, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
        for name in ("python-loader.py", "python-preloader.py"):
            command = [sys.executable, "-c", old, os.path.join(LOADERS, name)]
            loader = self.start("passenger_wsgi.py", "def application(environ, start_response): pass", command=command)
            self.assertIn("needs Python 3.10 or newer", loader.error)

    def test_an_application_that_a_module_names(self):
        source = """
            def one(environ, start_response):
                start_response("200 OK", [])
                return [f"{__name__} {environ['PATH_INFO']}".encode()]
            application = one
            class Container:
                @staticmethod
                def app(environ, start_response): return one(environ, start_response)
                @staticmethod
                def make(path, *, also=""):
                    def app(environ, start_response): return one({"PATH_INFO": path + also}, start_response)
                    return app
            def create(path="/made"): return Container.make(path)
            async def coroutine(scope, receive, send): pass
            broken = None
        """
        served = {
            "package.module:one": "/", "package.module:": "/", "package.module: one": "/", "package.module:Container.app": "/",
            "package.module:create()": "/made", "package.module:create('/a:b')": "/a:b",
            "package.module:Container.make('x', also='y')": "xy",
        }
        refused = {
            "package.other:one": "no module `package.other`", "absent:one": "no module `absent`",
            "package.module:absent": "has no `absent`", "package.module:Container.absent": "`Container` in package.module has no `absent`",
            "package.module:create": "Write `--app MODULE:NAME()`", "package.module:create(path)": "literal values",
            "package.module:1 + 1": "literal values", "package.module:create(": "literal values", "package.module:broken": "not callable",
            "package.module:create(1, 2, 3)": "TypeError", "package.wrong:app": "No module named 'of_another'",
        }
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "package"))
            for name, text in (("module", textwrap.dedent(source)), ("wrong", "import of_another")):
                with open(os.path.join(root, "package", f"{name}.py"), "w") as file:
                    file.write(text)
            for name, path in served.items():
                with self.subTest(name):
                    loader = self.start(name, app_root=root)
                    self.assertIsNone(loader.error)
                    self.assertEqual(session(loader).body.decode(), f"package.module {path}")
            for name, why in refused.items():
                with self.subTest(name):
                    self.assertIn(why, self.start(name, app_root=root).error or "")

    def test_ping(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [b'ok']")
        self.assertEqual(session(loader, REQUEST_METHOD="PING").raw, b"pong")
        self.assertEqual(kept_session(loader, REQUEST_METHOD="PING").body, b"ok")  # an ordinary unknown method

    def test_half_a_body_does_not_look_complete(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        echo = dict(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_TYPE="x/y")
        self.assertEqual(session(loader, bytes(1000), CONTENT_LENGTH=2000, **echo).raw, b"")
        self.assertFalse(session(loader).cut)

    def test_body_is_streamed_both_ways(self):
        loader = self.start("passenger_wsgi.py", app_root=os.path.join(EXAMPLES, "wsgi"))
        with loader.connect() as conn:
            conn.sendall(head(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_LENGTH=200_000) + bytes(100_000))
            self.assertIn(b"Status: 200 OK", conn.recv(1 << 16))  # before the second half was sent
            conn.sendall(bytes(100_000))
            while conn.recv(1 << 16):
                pass

    def test_refused_connections(self):
        loader = self.app("def application(e, s): s('200 OK', []); return [b'ok']")
        for first in (head(PASSENGER_CONNECT_PASSWORD="wrong"), head(PASSENGER_CONNECT_PASSWORD=None),
                      b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\5a\0b\0c", b"\0\0\0\0", b"\0\0", b"", head(REQUEST_METHOD=""),
                      head(CONTENT_LENGTH="-1")):
            with self.subTest(first), loader.connect() as conn:
                conn.sendall(first)
                conn.shutdown(socket.SHUT_WR)
                try:
                    self.assertEqual(conn.recv(1), b"")
                except ConnectionResetError:
                    pass
        self.assertEqual(session(loader).body, b"ok")
        self.assertIn("wrong connect password", loader.read_stderr())
        self.assertNotIn(PASSWORD, loader.read_stderr())

    def test_a_client_that_leaves_does_no_harm(self):
        loader = self.app("""
            import itertools
            def application(environ, start_response):
                start_response("200 OK", [])
                if environ["PATH_INFO"] == "/endless":
                    return (bytes(100_000) for _ in itertools.count())
                return [environ["wsgi.input"].read()]
        """)
        for path, size, closing in (("/endless", 0, lambda conn: conn.recv(10)), ("/read", 9, lambda conn: None)):
            with loader.connect() as conn:
                conn.sendall(head(PATH_INFO=path, CONTENT_LENGTH=size) + b"part"[:size])
                closing(conn)
        self.assertEqual(session(loader, b"alive").body, b"alive")
        self.assertFalse(loader.read_stderr())

    def test_shutdown(self):
        source = """
            import sys, time
            def application(environ, start_response):
                print("begun")
                environ["wsgi.input"].read()
                start_response("200 OK", [])
                return [b"finished"]
        """
        for order in (lambda channel: channel.sendall(b"x"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.app(source)
            loader.process.send_signal(signal.SIGINT)
            self.assertEqual(session(loader).body, b"finished")
            loader.lines.readline()
            with loader.connect() as conn:  # a running request is finished first
                conn.sendall(head())
                self.assertEqual(loader.lines.readline(), b"begun\n")
                order(loader.channel)
                conn.shutdown(socket.SHUT_WR)
                self.assertIn(b"finished", conn.recv(1000))
            self.check_exit(loader)
        loader = self.app(source)
        with loader.connect() as conn:
            conn.sendall(head())
            loader.lines.readline()
            loader.process.terminate()
            self.check_exit(loader, 128 + signal.SIGTERM)


class Wsgi(WsgiLoader):
    def test_module_and_path(self):
        loader = self.start("entry.py", """
            import sys, entry, helper
            assert __name__ == "entry" and entry.__dict__ is globals() and __file__ == sys.path[0] + "/entry.py"
            def application(e, s): s('200 OK', []); return [helper.TEXT]
            """, app_root=self.app_with("helper.py", "TEXT = b'from the helper'"), nonblocking=True)
        self.assertEqual(session(loader).body, b"from the helper")

    def app_with(self, name, source):
        root = tempfile.mkdtemp(prefix="cr")
        self.addCleanup(shutil.rmtree, root)
        with open(os.path.join(root, name), "w") as file:
            file.write(source)
        return root

    def test_start_up_script_may_choose_another_interpreter(self):
        loader = self.app("""
            import os, sys
            if "SECOND" not in os.environ:
                os.environ["SECOND"] = "1"
                os.execl(sys.executable, sys.executable, *sys.argv)
            def application(e, s): s('200 OK', []); return [b'ok']
        """)
        self.assertEqual(session(loader).body, b"ok")

    def test_applications_that_cannot_be_loaded(self):
        for source, expected in (
            ("import no_such_module", 'passenger_wsgi.py", line 1'),
            ("def application(:", "SyntaxError"),
            ("applications = 1", "defines neither `application` nor `app`"),
            ("def app(one): pass", "takes neither (environ, start_response)"),
            ("application = 1", "has the type int"),
            ("import sys; print('!'); sys.exit('gave up')", "SystemExit: gave up"),
            ("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); 1/0", "ZeroDivisionError"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertNotIn("-loader.py", loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
        self.assertIn("longer than", self.app("application = print", generation_dir="/" + "x" * 90).error)
        self.assertIn("Cannot listen", self.app("application = print", generation_dir="/nowhere").error)
