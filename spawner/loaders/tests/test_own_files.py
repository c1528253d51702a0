"""A loader reads its own files before it loads the application: another user may put files in the place of a directory that vanishes."""

import glob
import shutil
import sys
import tempfile

from common import LOADERS, AsgiLoader, LoaderTest, NodeLoader, RackLoader, WsgiLoader
from driver import session

REMOVE = {".py": "import shutil; shutil.rmtree({0!r})", ".rb": "require 'fileutils'; FileUtils.rm_rf({0!r})",
          ".js": "require('fs').rmSync({0!r}, {{ recursive: true }});"}


class OwnFiles:
    def start_and_remove(self, loader, startup_file, source):
        """Start a loader from a directory that the application removes while it is loaded."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        suffix = loader[loader.index("."):]
        for file in glob.glob(f"{LOADERS}/*{suffix}"):
            shutil.copy(file, directory)
        interpreter = {".py": sys.executable, ".rb": "ruby", ".js": "node"}[suffix]
        return self.start(startup_file, f"{REMOVE[suffix].format(directory)}\n{source}", command=[interpreter, f"{directory}/{loader}"])


class OwnFilesOfWsgi(OwnFiles, LoaderTest):
    def test_a_loader_whose_directory_the_application_removes(self):
        loader = self.start_and_remove("python-loader.py", "passenger_wsgi.py", """if True:
            def application(environ, start_response):
                start_response("200 OK", [])
                return [b"served"]
        """)
        self.assertEqual(session(loader).body, b"served")


class OwnFilesOfAsgi(OwnFiles, AsgiLoader):
    def test_a_loader_whose_directory_the_application_removes(self):
        loader = self.start_and_remove("python-loader.py", "asgi.py", """if True:
            async def application(scope, receive, send):
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"served"})
        """)
        self.assertEqual(self.ask(self.http(loader), "/"), (200, b"served"))


class OwnFilesOfRack(OwnFiles, RackLoader):
    def test_a_loader_whose_directory_the_application_removes(self):
        loader = self.start_and_remove("rack-loader.rb", "config.ru", """
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/full" then env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\\r\\n\\r\\nserved"); io.close }
              when "/partial" then return [200, { "rack.hijack" => ->(io) { io.write("served"); io.close } }, []]
              when "/stream" then return [200, {}, ->(stream) { stream.write("served"); stream.close }]
              end
              [200, {}, ["served"]]
            end)
        """)
        for path in ("/", "/full", "/partial", "/stream"):
            with self.subTest(path):
                self.assertEqual(session(loader, PATH_INFO=path).body, b"served")


class OwnFilesOfNode(OwnFiles, NodeLoader):
    def test_a_loader_whose_directory_the_application_removes(self):
        loader = self.start_and_remove("node-loader.js", "app.js", "require('http').createServer((q, s) => s.end('served')).listen(0);")
        self.assertEqual(self.ask(self.http(loader), "/"), (200, b"served"))


class MainOfPython(OwnFiles, LoaderTest):
    def test_a_process_of_multiprocessing_does_not_run_the_loader(self):
        """It runs the file of `__main__`, if there is one."""
        loader = self.start_and_remove("python-loader.py", "passenger_wsgi.py", """if True:
            import multiprocessing, os
            def application(environ, start_response):
                start_response("200 OK", [])
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    return [str(pool.apply(os.path.basename, ("a/served",))).encode()]
        """)
        self.assertEqual(session(loader).body, b"served")


class GreenThreads(WsgiLoader):
    def test_threads_that_are_greenlets_are_refused(self):
        source = """if True:
            import _thread, threading
            start = _thread.start_new_thread
            _thread.start_new_thread = lambda *arguments: start(*arguments)
            def application(environ, start_response): pass
        """
        self.assertIsNone(self.app(source).error)
        self.assertIn("Remove --app-threads", self.app(source, app_threads=2).error)
