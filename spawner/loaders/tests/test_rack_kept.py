"""The loader of Rack applications over connections that stay open."""

import os
import shutil
import signal
import socket
import subprocess
import unittest

from common import RackLoader
from driver import DEADLINE, KeptConnection, frame, head, kept_session, session
from rack_answers import RackAnswers


class RackOverKept(RackAnswers, RackLoader):
    session = staticmethod(kept_session)

    def failed(self, loader, path):
        connection = KeptConnection(loader)
        connection.send(PATH_INFO=path)
        frames = [connection.frame(), connection.frame()]
        connection.close()
        return frames == [("A", b""), None]

    def test_lengths_of_heads_and_bodies_with_high_bytes(self):
        loader = self.app("""
            run ->(env) {
              length = env['PATH_INFO'].delete('/').to_i
              body = Object.new
              body.define_singleton_method(:each) { |&take| take.call('\u00e9' * length) }
              [200, { 'x-fill' => 'x' * length }, body]
            }
        """)
        for length in range(50, 200, 7):
            self.assertEqual(kept_session(loader, PATH_INFO=f"/{length}").body, "é".encode() * length)

    def test_abandoned_requests(self):
        loader = self.app("""
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/endless" then [200, {}, Enumerator.new { |out| loop { out << "x" } }]
              when "/hijack" then [200, { "rack.hijack" => ->(io) { Thread.new { loop { io << "x" } rescue puts "noticed" } } }, []]
              when "/read" then [200, {}, [env["rack.input"].read]]
              else [200, {}, ["alive"]]
              end
            end)
        """)
        for path in ("/endless", "/hijack", "/read"):
            for leave in (lambda conn: conn.shutdown(socket.SHUT_WR), socket.socket.close):
                with self.subTest(path):
                    connection = KeptConnection(loader)
                    connection.conn.sendall(head(PATH_INFO=path) + (frame(b"part") if path == "/read" else frame(b"")))
                    if path != "/read":
                        connection.frame()
                    leave(connection.conn)
                    self.assertEqual(self.session(loader).body, b"alive")
                    if connection.conn.fileno() >= 0:
                        while connection.conn.recv(1 << 16):
                            pass  # ends: the loader closes the connection
                    if path == "/hijack":
                        self.assertEqual(loader.lines.readline(), b"noticed\n")
                    connection.close()
        self.assertFalse(loader.read_stderr())

    def test_an_unread_body_is_discarded_when_it_comes(self):
        loader = self.app("run ->(env) { [200, {}, [env['rack.input'].read(env['HTTP_READ'].to_i) || '']] }")
        connection = KeptConnection(loader)
        other = KeptConnection(loader)
        for read in (0, 2, 5):
            connection.conn.sendall(head(HTTP_READ=read) + frame(b"abc")[:5])
            if read == 5:
                connection.conn.sendall(b"bc" + frame(b"defg"))
            elif read == 2:
                connection.conn.sendall(b"b")
            self.assertEqual(connection.answer().body, b"abcde"[:read])
            other.send(HTTP_READ=0)  # the process is free
            self.assertFalse(other.answer().cut)
            connection.conn.sendall(b"bc"[read // 2:] + frame(bytes(300_000)) + frame(b"") if read < 5 else frame(b""))
        connection.send(b"next", HTTP_READ=9)
        self.assertEqual(connection.answer().body, b"next")
        connection.close()
        other.close()

    def test_answers_end_after_close(self):
        loader = self.app("""
            Body = Struct.new(:path) do
              def each
                yield "one"
                Thread.pass until File.exist?(path)
                yield "two"
              end
              def close = File.rename(path, path + ".closed")
            end
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/large" then [200, {}, ["\\0" * 40_000_000]]
              when "/parts" then [200, {}, ["\\0" * 20_000_000] * 2]
              else [200, { "Content-Length" => "6" }, Body.new(env["PATH_INFO"])]
              end
            end)
        """)
        connection = KeptConnection(loader)
        path = os.path.join(loader.root, "go")
        connection.send(PATH_INFO=path)
        self.assertEqual(connection.frame()[0], "H")
        self.assertEqual(connection.frame(), ("D", b"one"))
        open(path, "w").close()
        self.assertEqual(connection.frame(), ("D", b"two"))
        self.assertEqual(connection.frame(), ("E", b""))
        self.assertTrue(os.path.exists(path + ".closed"))
        for path in ("/large", "/parts"):
            connection.send(PATH_INFO=path)  # several frames
            self.assertEqual(len(connection.answer().body), 40_000_000)
        connection.close()

    def test_backtrace_on_request(self):
        loader = self.app("""
            def stuck
              puts "begun"
              sleep(60)
            end
            named = Queue.new
            Thread.new { Thread.current.name = "helper"; named << true; sleep }
            named.pop
            run ->(env) { env["PATH_INFO"] == "/stuck" ? stuck : [200, {}, ["ok"]] }
        """)
        connection = KeptConnection(loader)
        connection.send(PATH_INFO="/stuck")
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: "helper" in loader.read_stderr() and "`stuck'" in loader.read_stderr())
        self.assertIsNone(loader.process.poll())
        loader.process.terminate()
        self.assertEqual(loader.process.wait(DEADLINE), 128 + signal.SIGTERM)
        connection.close()

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_four_system_calls_per_request(self):
        loader = self.app("run ->(_) { [200, {}, ['hello']] }")
        self.session(loader)
        trace = os.path.join(loader.root, "trace")
        with open(os.path.join(loader.root, "log"), "wb") as log:
            tracer = subprocess.Popen(["strace", "-o", trace, "-p", str(loader.process.pid)], stderr=log)
            self.eventually(lambda: tracer.poll() is not None or os.path.getsize(log.name))
            if tracer.poll() is not None:
                self.skipTest("this system does not allow strace")
            for _ in range(100):
                self.assertEqual(self.session(loader).body, b"hello")
            tracer.send_signal(signal.SIGINT)
            tracer.wait(DEADLINE)
        with open(trace) as file:
            calls = [line.partition("(")[0] for line in file if not line.startswith(("strace", "---", "+++"))]
        self.assertLessEqual(len(calls), 4 * 100 + 40, calls)  # Ruby asks for its pid before each select
