"""Processes that serve several requests at once by threads: WSGI and Rack."""

import signal

from common import RackLoader, WsgiLoader
from driver import DEADLINE, KeptConnection, frame, head, kept_session, session


class Threads:
    """Tests of `app_threads` for each language.

    The application `MEET` answers `/fork` in the parent alone, and `/end` ends its thread. Every other request prints `begun`,
    reads its body, and answers `finished`.
    """

    def threaded(self, **options):
        loader = self.app(self.MEET, app_threads=3, **options)
        self.assertEqual([loader.sockets[name][1] for name in ("main", "kept")], ["3", "3"])
        return loader

    def begin(self, loader, count):
        """Begin so many requests, all of which are served at the same time."""
        connections = [KeptConnection(loader) for _ in range(count)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.conn.sendall(head())
            self.assertEqual(loader.lines.readline(), b"begun\n")
        return connections

    def end(self, connections):
        for connection in connections:
            connection.conn.sendall(frame(b""))
            answer = connection.answer()
            self.assertEqual((answer.body, answer.cut), (b"finished", False))

    def test_each_thread_serves_a_request_in_both_protocols(self):
        loader = self.threaded()
        for _ in range(3):
            kept = self.begin(loader, 2)
            self.assertEqual(session(loader).body, b"finished")
            self.assertEqual(loader.lines.readline(), b"begun\n")
            self.end(kept)
            # More connections than threads: the fourth request waits for a thread.
            kept += self.begin(loader, 1)
            waiting = KeptConnection(loader)
            self.addCleanup(waiting.close)
            waiting.send()
            self.end(kept[2:])
            self.assertEqual(waiting.answer().body, b"finished")
            self.assertEqual(loader.lines.readline(), b"begun\n")
            for connection in (*kept, waiting):
                connection.close()

    def test_all_running_requests_are_finished_first(self):
        loader = self.threaded()
        busy = self.begin(loader, 3)
        loader.channel.sendall(b"x")
        self.end(busy)
        self.check_exit(loader)

    def test_a_signal_writes_what_each_thread_does(self):
        loader = self.threaded()
        busy = self.begin(loader, 3)
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: loader.read_stderr().count("in wait_for_body") + loader.read_stderr().count("wait_for_body'") >= 3)
        self.end(busy)

    def test_a_forked_child_of_a_thread_ends(self):
        loader = self.threaded()
        busy = self.begin(loader, 2)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        for _ in range(5):
            connection.send(PATH_INFO="/fork")
            self.assertEqual(connection.answer().body, b"parent, child ended by 0")
        self.end(busy)

    def test_sigterm_ends_busy_threads(self):
        loader = self.threaded()
        self.begin(loader, 3)
        loader.process.terminate()
        self.check_exit(loader, 143)


class WsgiThreads(Threads, WsgiLoader):
    MEET = """
        import os
        def wait_for_body(environ):
            print("begun", flush=True)
            environ["wsgi.input"].read()
        def application(environ, start_response):
            assert environ["wsgi.multithread"]
            start_response("200 OK", [])
            if environ["PATH_INFO"] == "/fork":
                child = os.fork()
                if not child:
                    return [b"child"]
                return [b"parent, child ended by %d" % os.waitpid(child, 0)[1]]
            wait_for_body(environ)
            return [b"finished"]
    """

    def test_the_process_waits_for_a_thread_whichever_thread_begins_it(self):
        loader = self.app("""
            import threading
            meet = threading.Barrier(3)
            def application(environ, start_response):
                meet.wait()
                flag = threading.Thread(target=print).daemon
                start_response("200 OK", [])
                return [str(flag).encode()]
        """, app_threads=3)
        connections = [KeptConnection(loader) for _ in range(3)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.send()
        self.assertEqual([connection.answer().body for connection in connections], [b"False"] * 3)

    def test_an_asgi_application_has_none(self):
        loader = self.app("async def app(scope, receive, send): pass", app_threads=3)
        self.assertIn("Remove --app-threads", loader.error)


class RackThreads(Threads, RackLoader):
    MEET = """
        def wait_for_body(env)
          STDOUT.write("begun\\n")
          env["rack.input"].read
        end
        run lambda { |env|
          raise "no threads" unless env["rack.multithread"]
          if env["PATH_INFO"] == "/fork"
            child = fork
            next [200, {}, ["child"]] unless child
            next [200, {}, ["parent, child ended by #{Process.wait2(child)[1].to_i}"]]
          end
          wait_for_body(env)
          [200, {}, ["finished"]]
        }
    """

    def test_an_event_on_each_thread(self):
        loader = self.app("""
            names = Thread::Queue.new
            PhusionPassenger.on_event(:starting_request_handler_thread) { names << Thread.current.name }
            run ->(_) { [200, {}, [Array.new(3) { names.pop }.sort.join(",")]] }
        """, app_threads=3)
        self.assertEqual(session(loader).body, b"request thread 1,request thread 2,request thread 3")

    def test_early_hints(self):
        source = """
            run lambda { |env|
              hints = env["rack.early_hints"]
              next [200, {}, ["none"]] unless hints
              hints.call("link" => "</a.css>; rel=preload\\n</b.js>; rel=preload", "rack.x" => "1", "content-length" => "5")
              hints.call("x-a" => ["1", "2"])
              body = Enumerator.new do |parts|
                parts << "begun"
                hints.call("link" => "too late")
              end
              [200, {}, env["PATH_INFO"] == "/late" ? body : ["answer"]]
            }
        """
        loader = self.app(source, early_hints="true")
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        for path, expected in (("/", b"answer"), ("/late", b"begun")):
            connection.send(PATH_INFO=path)
            self.assertEqual(connection.frame(), ("I", b"Status: 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n"
                                                       b"link: </b.js>; rel=preload\r\n\r\n"))
            self.assertEqual(connection.frame(), ("I", b"Status: 103 Early Hints\r\nx-a: 1\r\nx-a: 2\r\n\r\n"))
            answer = connection.answer()
            self.assertEqual((answer.body, answer.cut), (expected, path == "/late"))
        self.assertEqual(session(loader).body, b"none")
        self.assertEqual(kept_session(self.app(source)).body, b"none")

    def test_an_error_on_a_thread_ends_the_process(self):
        loader = self.app("""
            PhusionPassenger.on_event(:starting_request_handler_thread) { raise "broken event" }
            run ->(_) { [200, {}, []] }
        """, app_threads=2)
        self.assertNotEqual(loader.process.wait(DEADLINE), 0)
        self.assertIn("broken event", loader.read_stderr())
