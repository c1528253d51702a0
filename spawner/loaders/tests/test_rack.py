"""The loader of Rack applications: the session protocol, and how an application is loaded."""

import os
import shutil
import signal
import socket
import tempfile

from common import EXAMPLES, RackLoader
from driver import DEADLINE, head, session
from rack_answers import RackAnswers


class RackOverSession(RackAnswers, RackLoader):
    session = staticmethod(session)

    def failed(self, loader, path):
        with loader.connect() as conn:
            conn.sendall(head(PATH_INFO=path))
            conn.shutdown(socket.SHUT_WR)
            try:
                return conn.recv(1) == b""
            except ConnectionResetError:
                return True

    def test_half_a_body_does_not_look_complete(self):
        loader = self.start("config.ru", app_root=os.path.join(EXAMPLES, "rack"))
        half = session(loader, bytes(1000), REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_LENGTH=2000)
        self.assertEqual(half.raw, b"")
        self.assertFalse(session(loader).cut)

    def test_shutdown(self):
        source = """
            PhusionPassenger.on_event(:starting_worker_process) { |forked| puts "starting #{forked}" }
            PhusionPassenger.on_event(:stopping_worker_process) { puts "stopping" }
            run(lambda do |env|
              puts "begun"
              env["rack.input"].read
              [200, {}, ["finished"]]
            end)
        """
        for order in (lambda channel: channel.sendall(b"x"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.app(source, nonblocking=True)
            self.assertEqual(loader.output.strip(), b"starting false")
            loader.process.send_signal(signal.SIGINT)
            self.assertEqual(session(loader).body, b"finished")
            loader.lines.readline()
            with loader.connect() as conn:  # a running request is finished first
                conn.sendall(head())
                self.assertEqual(loader.lines.readline(), b"begun\n")
                order(loader.channel)
                conn.shutdown(socket.SHUT_WR)
                self.assertIn(b"finished", conn.recv(1000))
            self.assertEqual(loader.lines.readline(), b"stopping\n")
            self.check_exit(loader)
        loader = self.app(source)
        with loader.connect() as conn:
            conn.sendall(head())
            loader.lines.readline()
            loader.process.terminate()
            self.check_exit(loader, 128 + signal.SIGTERM)


class Rack(RackLoader):
    def test_applications_that_cannot_be_loaded(self):
        for source, expected in (
            ("require 'no_such_library'", "cannot load such file -- no_such_library (LoadError)"),
            ("run ->(", "SyntaxError"),
            ("run 1", "no method `call`"),
            ("use Rack::Head", "missing run or map statement"),
            ("exit 5", "SystemExit"),
            ("Thread.new { sleep 60 }; at_exit { sleep 60 }; 1/0", "ZeroDivisionError"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertNotIn("rack-boot.rb", loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
        self.assertIn("longer than", self.app("run ->(_) {}", generation_dir="/" + "x" * 90).error)
        self.assertIn("Cannot listen", self.app("run ->(_) {}", generation_dir="/nowhere").error)

    def test_the_gems_of_a_gemfile(self):
        def start(gems):
            root = tempfile.mkdtemp(prefix="cr")
            self.addCleanup(shutil.rmtree, root)
            with open(os.path.join(root, "Gemfile"), "w") as file:
                file.write(gems)
            return self.app("run ->(_) { [200, {}, [Bundler.definition.specs.map(&:name).sort.join(',')]] }", app_root=root)
        self.assertIn(b"rack", session(start("gem 'rack'\n")).body)
        for gems, text in (("gem 'no_such_gem_at_all'\n", "no_such_gem_at_all"), ("gem 'rake'\n", "`gem \"rack\"`")):
            error = start(gems).error
            self.assertIn(text, error)
            self.assertEqual(error.count("\n"), 1, "the log shows one line")

    def test_rack_that_is_not_installed(self):
        with tempfile.TemporaryDirectory() as empty:
            os.environ["RUBYOPT"] = f"-I{empty}"
            self.addCleanup(os.environ.pop, "RUBYOPT")
            with open(os.path.join(empty, "rack.rb"), "w") as file:
                file.write("raise LoadError.new('cannot load such file -- rack').tap { |e| e.instance_variable_set(:@path, 'rack') }\n")
            self.assertIn("gem install rack", self.app("run 1").error)
