"""The answers of the loader of Rack applications, over a session and over a kept connection."""

import json
import os
import signal

from common import EXAMPLES
from driver import DEADLINE


class RackAnswers:
    """Tests that hold in both protocols. `session` sends a request and returns the answer."""

    def test_example_through_every_page(self):
        loader = self.start("config.ru", app_root=os.path.join(EXAMPLES, "rack"))
        self.check_ready(loader, "rack", "session", "1")
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
        env = json.loads(seen.body)["env"]
        self.assertEqual((env["HTTP_X_NAME"], env["rack.url_scheme"], env["CONTENT_LENGTH"]), ("\xe9", "https", "5"))
        self.assertEqual((env["SCRIPT_NAME"], env["SERVER_PORT"], env["rack.hijack?"]), ("", "443", True))
        self.assertEqual((env["rack.multithread"], env["rack.multiprocess"], env["rack.run_once"]), (False, True, False))
        self.assertFalse({"PASSENGER_CONNECT_PASSWORD", "HTTP_CONTENT_LENGTH", "REQUEST_URI"} & set(env))
        self.assertTrue(self.session(loader, REQUEST_METHOD="POST", PATH_INFO="/crash").cut)
        self.assertEqual(loader.process.wait(DEADLINE), -signal.SIGKILL)

    def test_bodies(self):
        loader = self.start("config.ru", app_root=os.path.join(EXAMPLES, "rack"))
        body = os.urandom(5_000_000)
        echo = dict(REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_TYPE="x/y")
        answer = self.session(loader, body, CONTENT_LENGTH=len(body), half_close=False, **echo)
        self.assertTrue(answer.body == body and answer.headers["content-type"] == "x/y" and not answer.cut)
        self.assertTrue(self.session(loader, body, **echo).body == body)  # without a length
        ignored = self.session(loader, body, CONTENT_LENGTH=len(body), REQUEST_METHOD="POST")
        self.assertTrue(ignored.body.endswith(b"</html>\n") and not ignored.cut)
        self.assertFalse(self.session(loader).cut)

    def test_the_validator_of_rack(self):
        with open(os.path.join(EXAMPLES, "rack", "config.ru")) as file:
            loader = self.app("require 'rack/lint'\nuse Rack::Lint\n" + file.read())
        for variables in ({}, dict(PATH_INFO="/env"), dict(PATH_INFO="/stream"), dict(PATH_INFO="/nowhere"),
                          dict(REQUEST_METHOD="HEAD"), dict(PATH_INFO="/slow", QUERY_STRING="ms=1")):
            answer = self.session(loader, REQUEST_URI=variables.get("PATH_INFO", "/"), **variables)
            self.assertNotIn("500", answer.status, loader.read_stderr())
        for size in (0, 10, 500_000):
            body = os.urandom(size)
            answer = self.session(loader, body, REQUEST_METHOD="POST", PATH_INFO="/upload", CONTENT_LENGTH=size)
            self.assertEqual(answer.body, body, loader.read_stderr())
        self.assertNotIn("Lint", loader.read_stderr())

    def test_output_of_the_application_does_not_break_the_handshake(self):
        loader = self.app("""
            puts "loading"; print "unfinished"; system("printf ' business'")
            warn "to the log"
            run(lambda do |env|
              puts "serving"
              raise unless STDIN.read == ""
              [200, {}, ["ok"]]
            end)
        """)
        self.assertEqual(loader.output.strip(), b"loading\nunfinished business")
        self.assertEqual(self.session(loader).body, b"ok")
        self.assertEqual(loader.lines.readline(), b"serving\n")
        self.assertIn("to the log", loader.read_stderr())

    def test_errors_of_the_application(self):
        loader = self.app("""
            $closed = 0
            Body = Struct.new(:parts) do
              def each(&block) = parts.each(&block)
              def close = $closed += 1
            end
            late = Enumerator.new { |out| out << "begun"; raise KeyError, "late" }
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/early" then raise KeyError, "early"
              when "/exit" then exit 3
              when "/throw" then throw :async
              when "/split" then [200, { "X" => "a\\r\\nSet-Cookie: b" }, []]
              when "/name" then [200, { "X Y" => "a" }, []]
              when "/status" then ["2000", {}, []]
              when "/symbol" then [200, {}, Body.new([:text])]
              when "/none" then nil
              when "/length" then [200, { "Content-Length" => "x" }, []]
              when "/long" then [200, { "Content-Length" => "3" }, Body.new(["abcdef"])]
              when "/late" then [200, {}, late]
              when "/late-length" then [200, { "Content-Length" => "10" }, late]
              when "/fork"
                if (pid = fork)
                  Process.wait(pid)
                  [200, {}, [$?.exitstatus.to_s]]
                else
                  exit 7
                end
              when "/fork-returns"
                pid = fork
                Process.wait(pid) if pid
                [200, {}, ["parent"]]
              when "/closed" then [200, {}, [$closed.to_s]]
              end
            end)
        """)
        for path in ("/early", "/exit", "/throw", "/split", "/name", "/status", "/symbol", "/none", "/length"):
            with self.subTest(path):
                answer = self.session(loader, PATH_INFO=path)
                self.assertEqual(answer.status, "Status: 500 Internal Server Error")
                self.assertEqual(len(answer.body), int(answer.headers["Content-Length"]))
                self.assertFalse(answer.cut)
                self.assertNotIn(b"Error", answer.body)  # the details belong in the log
        self.assertRegex(loader.read_stderr(), r"config.ru:\d+:in .*: early \(KeyError\)")
        self.assertNotIn("rack-server.rb", loader.read_stderr())
        self.assertEqual(self.session(loader, PATH_INFO="/long").body, b"abc")
        late = self.session(loader, PATH_INFO="/late")
        self.assertEqual((late.body, late.cut), (b"begun", True))
        self.assertTrue(self.session(loader, PATH_INFO="/late-length").short)
        self.assertEqual(self.session(loader, PATH_INFO="/closed").body, b"2")
        self.assertEqual(self.session(loader, PATH_INFO="/fork").body, b"7")
        self.assertEqual(self.session(loader, PATH_INFO="/fork-returns").body, b"parent")
        self.assertTrue(os.path.exists(loader.path))

    def test_headers_and_bodies_of_rack_2_and_3(self):
        loader = self.app("""
            file = File.expand_path("large", __dir__)
            File.binwrite(file, "0123456789" * 300_000)
            PathBody = Struct.new(:to_path) do
              def each = raise("each was called")
            end
            $finished = []
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/two" then [200, { "Set-Cookie" => "a=1\\nb=2", "Connection" => "close", "X-Nil" => nil }, ["\\u00e9", "\\xff".b]]
              when "/three" then ["200", { "set-cookie" => %w[a=1 b=2], "rack.x" => "y", "x-utf" => "\\u00e9" }, ["ok"].freeze].freeze
              when "/path" then [200, {}, PathBody.new(file)]
              when "/call"
                [200, { "x" => "y" }, lambda { |out| out << "one "; out.write("two ", env["rack.input"].read); out.close }]
              when "/chunked" then [200, { "Transfer-Encoding" => "chunked" }, ["3\\r\\nab", "c\\r\\n0\\r\\n", "\\r\\n"].each]
              when "/finished"
                %w[a b].each { |name| env["rack.response_finished"] << ->(e, status, _, error) { $finished << name + status.to_s } }
                [204, {}, []]
              when "/was" then [200, {}, [$finished.join(",")]]
              when "/read"
                input = env["rack.input"]
                parts = [input.read(0), input.read(2), input.gets, input.read(1, +"x")]
                input.rewind
                parts << input.each.to_a.size << input.read << input.read(1).inspect
                input.rewind
                [200, {}, [(parts << input.read).join("|")]]
              end
            end)
        """)

        def fields(name, path):
            raw = self.session(loader, PATH_INFO=path).raw.partition(b"\r\n\r\n")[0].lower()
            return [line for line in raw.split(b"\r\n") if line.startswith(name)]

        two = self.session(loader, PATH_INFO="/two")
        self.assertEqual((two.body, two.headers["Content-Length"]), (b"\xc3\xa9\xff", "3"))
        self.assertFalse({"Connection", "X-Nil"} & set(two.headers))
        for path in ("/two", "/three"):
            self.assertEqual(fields(b"set-cookie", path), [b"set-cookie: a=1", b"set-cookie: b=2"])
        self.assertEqual(fields(b"rack", "/three") + fields(b"x-utf", "/three"), [b"x-utf: \xc3\xa9"])
        path = self.session(loader, PATH_INFO="/path")
        self.assertTrue(path.body == b"0123456789" * 300_000 and path.headers["Content-Length"] == "3000000" and not path.cut)
        self.assertEqual(self.session(loader, b"three", PATH_INFO="/call").body, b"one two three")
        self.assertEqual(self.session(loader, PATH_INFO="/chunked").body, b"abc")
        self.assertEqual(self.session(loader, PATH_INFO="/finished").body, b"")
        self.assertEqual(self.session(loader, PATH_INFO="/was").body, b"b204,a204")
        self.assertEqual(self.session(loader, b"ab\ncd\nef", PATH_INFO="/read").body, b"|ab|\n|c|3||nil|ab\ncd\nef")
        self.assertEqual(self.session(loader, REQUEST_METHOD="HEAD", PATH_INFO="/path").body, b"")
        self.assertFalse(loader.read_stderr())

    def test_size_and_rewind_of_an_input_at_each_size(self):
        source = """
            %s
            run(lambda do |env|
              input = env["rack.input"]
              input.read(3) if env["PATH_INFO"] == "/begun"
              size = input.size
              first = input.read.bytesize
              input.rewind
              [200, {}, [[size, input.length, first, input.read.sum, input.size].join(" ")]]
            end)
        """
        for release in ("", "Rack.define_singleton_method(:release) { '3.0.0' }"):
            loader = self.app(source % release)
            for count in (0, 3, 10, 10_000, 100_000, 500_000):
                body = b"a" * count
                for length in ({}, {"CONTENT_LENGTH": count}):
                    for path, read in (("/", count), ("/begun", max(0, count - 3))):
                        with self.subTest(release=release, count=count, length=length, path=path):
                            answer = self.session(loader, body, PATH_INFO=path, **length).body.decode()
                            self.assertEqual(answer, f"{count} {count} {read} {count * 97 % 65536} {count}")
            self.assertFalse(loader.read_stderr())

    def test_an_error_shows_no_body_of_a_request(self):
        loader = self.app("""
            run(lambda do |env|
              input = env["rack.input"]
              input.read(10)
              puts input.inspect.include?("secret"), input.to_s.include?("secret")
              input.no_such_method
            end)
        """)
        for count in (2, 10_000, 50_000):
            self.assertEqual(self.session(loader, b"secret" * count).status, "Status: 500 Internal Server Error")
            self.assertEqual([loader.lines.readline(), loader.lines.readline()], [b"false\n", b"false\n"])
        self.assertIn("no_such_method", loader.read_stderr())
        self.assertNotIn("secretsecret", loader.read_stderr())

    def test_hijacking(self):
        loader = self.app("""
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/full"
                io = env["rack.hijack"].call
                raise unless io.equal?(env["rack.hijack_io"])
                io.write("HTTP/1.1 201 Created\\r\\nX-A: b\\r\\nConnection: close\\r\\n\\r\\nhi")
                Thread.new { io.write(" there"); io.close }
                nil
              when "/partial"
                later = lambda { |io| Thread.new { io << "one " << "two"; io.flush; io.close } }
                [200, { "rack.hijack" => later, "X-A" => "b" }, []]
              when "/broken"
                env["rack.hijack"].call.close
              when "/raise"
                env["rack.hijack"].call
                raise "after the hijack"
              when "/stream"
                [200, {}, lambda { |out| Thread.new { out << "later"; out.close } }]
              else [200, {}, ["ok"]]
              end
            end)
        """)
        for _ in range(3):
            full = self.session(loader, PATH_INFO="/full")
            self.assertEqual((full.status, full.headers, full.body), ("Status: 201 Created", {"X-A": "b"}, b"hi there"))
            partial = self.session(loader, b"unread", PATH_INFO="/partial")
            self.assertEqual((partial.headers["X-A"], partial.body, partial.cut), ("b", b"one two", False))
            self.assertEqual(self.session(loader, PATH_INFO="/stream").body, b"later")
            for path in ("/broken", "/raise"):
                with self.subTest(path):
                    self.assertTrue(self.failed(loader, path))
            self.assertEqual(self.session(loader).body, b"ok")
        self.assertIn("after the hijack", loader.read_stderr())
