"""Rack: what outlives an answer. It yields no byte of the next request, and writes none into the next answer."""

import contextlib
import os
import select
import signal
import socket

from common import RackLoader
from driver import KeptConnection, frame, head, session

# Prints what a block returns or raises.
PROLOGUE = """
    require "timeout"
    def try(name)
      result = begin
        yield.inspect
      rescue => e
        "#{e.class}: #{e.message}"
      end
      puts "#{name}: #{result}"
    end
"""
ENDED = "Cabrank::ClientGone: the request has ended"


class Late(RackLoader):
    def late_app(self, source, threads=1, **options):
        return self.app(PROLOGUE + source, app_threads=threads, **options)

    def connect(self, loader):
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        return connection

    def line(self, loader):
        return loader.lines.readline().decode().rstrip("\n")

    def ask(self, connection, body=b"", **variables):
        """Send a request whose answer is its marks: a late object gets or spoils one of them."""
        connection.send(body, pieces=2, HTTP_COOKIE="secret=bob", **variables)
        self.assertEqual(connection.answer().body, b"secret=bob " + body)


class LateReads(Late):
    APP = """
        run(lambda do |env|
          input = env["rack.input"]
          case env["PATH_INFO"]
          when "/keep"
            $input = input
            read = env["HTTP_READ"].to_i
            [200, {}, [input.read(read) || ""]]
          when "/background"
            input.read(1)
            method, *arguments = env["HTTP_METHOD"].split
            reader = Thread.new { try("read") { loop { input.public_send(method, *arguments.map(&:to_i)).inspect } } }
            Thread.pass until reader.stop?
            [200, {}, ["left"]]
          when "/late"
            $input.rewind if env["HTTP_REWIND"]
            try("late") { $input.read(3) }
            [200, {}, ["ok"]]
          else [200, {}, ["#{env["HTTP_COOKIE"]} #{input.read}"]]
          end
        end)
    """

    def test_a_read_that_waits_at_the_end(self):
        for threads in (1, 2):
            loader = self.late_app(self.APP, threads)
            connection = self.connect(loader)
            for method in ("read", "read 1000", "gets", "read_some"):
                with self.subTest(method, threads=threads):
                    connection.conn.sendall(head(PATH_INFO="/background", HTTP_METHOD=method) + frame(b"a" * 1000)[:504])
                    self.assertEqual(connection.answer().body, b"left")
                    self.assertEqual(self.line(loader), "read: " + ENDED)
                    connection.conn.sendall(b"a" * 500 + frame(b"aaa") + frame(b""))
                    self.ask(connection, b"the body of bob")
        self.assertEqual(loader.read_stderr(), "")

    def test_a_read_after_the_end(self):
        for threads in (1, 2):
            loader = self.late_app(self.APP, threads)
            connection, other = self.connect(loader), self.connect(loader)
            connection.conn.sendall(head(PATH_INFO="/keep", HTTP_READ="2") + frame(b"abcdef")[:8])
            self.assertEqual(connection.answer().body, b"ab")
            # The rest of the body has not come, has come, and is followed by the next request.
            other.send(PATH_INFO="/late")
            self.assertEqual((other.answer().body, self.line(loader)), (b"ok", "late: " + ENDED))
            connection.conn.sendall(b"ef" + frame(b"")[:2])
            other.send(PATH_INFO="/late")
            self.assertEqual((other.answer().body, self.line(loader)), (b"ok", "late: " + ENDED))
            connection.conn.sendall(frame(b"")[2:])
            self.ask(connection, b"body")
            if threads > 1:
                connection.conn.sendall(head(HTTP_COOKIE="secret=bob") + frame(b"half")[:6])
            other.send(PATH_INFO="/late")
            self.assertEqual((other.answer().body, self.line(loader)), (b"ok", "late: " + ENDED))
            if threads > 1:
                connection.conn.sendall(b"lf" + frame(b""))
                self.assertEqual(connection.answer().body, b"secret=bob half")

    def test_an_input_that_came_with_its_head(self):
        loader = self.late_app(self.APP)
        connection = self.connect(loader)
        for body, late in ((b"abcdef", '"cde"'), (b"", "nil")):
            connection.send(body, PATH_INFO="/keep", HTTP_READ="2")
            self.assertEqual(connection.answer().body, body[:2])
            connection.send(b"of bob", PATH_INFO="/late")
            self.assertEqual((connection.answer().body, self.line(loader)), (b"ok", "late: " + late))

    def test_an_input_without_a_body_belongs_to_its_request(self):
        loader = self.late_app("""
            run(lambda do |env|
              input = env["rack.input"]
              seen = [input.instance_variable_get(:@mark), input.read, input.gets, input.each { |line| line }.equal?(input)]
              if env["PATH_INFO"] == "/set"
                input.instance_variable_set(:@mark, env["HTTP_COOKIE"])
                input.define_singleton_method(:read) { |*| env["HTTP_COOKIE"] }
              end
              [200, {}, [seen.inspect]]
            end)
        """)
        connection = self.connect(loader)
        for path in ("/set", "/next", "/set", "/next"):
            connection.send(PATH_INFO=path, HTTP_COOKIE="secret=alice")
            self.assertEqual(connection.answer().body, b'[nil, "", nil, true]')

    def test_an_input_that_is_rewound_late(self):
        loader = self.late_app(self.APP)
        connection = self.connect(loader)
        connection.conn.sendall(head(PATH_INFO="/keep", HTTP_READ="4") + frame(b"abcdef"))
        self.assertEqual(connection.answer().body, b"abcd")
        connection.conn.sendall(frame(b""))
        for late in ("late: \"abc\"", "late: " + ENDED):
            connection.send(PATH_INFO="/late", **({"HTTP_REWIND": "1"} if "abc" in late else {}))
            self.assertEqual((connection.answer().body, self.line(loader)), (b"ok", late))

    def test_a_read_after_the_end_of_a_session(self):
        loader = self.late_app(self.APP)
        session(loader, b"abcdef", PATH_INFO="/keep", HTTP_READ="2", CONTENT_LENGTH=6)
        session(loader, b"ghijkl", PATH_INFO="/late", CONTENT_LENGTH=6)
        self.assertEqual(self.line(loader), "late: " + ENDED)

    def test_a_thread_that_reads_beside_the_first(self):
        loader = self.late_app("""
            run(lambda do |env|
              part = Queue.new
              reader = Thread.new { part << env["rack.input"].read(3) }
              Thread.pass until reader.stop?
              first = Timeout.timeout(0.01) { env["rack.input"].read(3) } rescue "timeout "
              puts first
              [200, {}, [first, part.pop, env["rack.input"].read]]
            end)
        """)
        connection = self.connect(loader)
        for _ in range(20):
            connection.conn.sendall(head())
            self.assertEqual(self.line(loader), "timeout ")
            connection.conn.sendall(frame(b"abcd"))
            connection.conn.sendall(frame(b"ef") + frame(b""))
            self.assertEqual(connection.answer().body, b"timeout abcdef")


class LateWrites(Late):
    APP = """
        run(lambda do |env|
          $hijack = env["rack.hijack"] if env["PATH_INFO"] == "/array"
          $finished = env["rack.response_finished"] if env["PATH_INFO"] == "/array"
          case env["PATH_INFO"]
          when "/stream" then [200, {}, ->(stream) { ($stream = stream) << "one"; stream.close }]
          when "/failed-stream" then [200, {}, ->(stream) { ($stream = stream) << "one"; raise "asked to fail" }]
          when "/away" then [200, {}, ->(stream) { Thread.new { 4.times.map { Thread.new { stream.close } }; $stream = stream } }]
          when "/each"
            body = Object.new
            def body.each(&block) = ($block = block).call("one")
            [200, {}, body]
          when "/hints"
            ($hints = env["rack.early_hints"]).call({ "Link" => "one" })
            [200, {}, ["ok"]]
          when "/array" then [200, {}, ["ok"]]
          when "/full"
            $io = env["rack.hijack"].call
            $io.write("HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\none")
            $io.close_write
          when "/partial" then [200, { "rack.hijack" => ->(io) { ($io = io) << "one"; io.close_write } }, []]
          when "/late"
            [-> { $stream.write("late") }, -> { $stream << "late" }, -> { $stream.close }, -> { $stream.closed? },
             -> { $block.call("late") }, -> { $hints.call({ "X-Late" => "1" }) }, -> { $hijack.call },
             -> { $io.write("late") }, -> { $finished << ->(*) { puts "finished late" } },
             -> { [$stream, $hijack].map(&:inspect).map(&:size).max < 100 }
            ].each_with_index { |late, index| try(index) { late.call } if env["HTTP_WHICH"].split.include?(index.to_s) }
            [200, {}, ["#{env["HTTP_COOKIE"]} "]]
          else [200, {}, ["#{env["HTTP_COOKIE"]} #{env["rack.input"].read}"]]
          end
        end)
    """
    RESULTS = {
        0: "IOError: the stream is closed", 1: "IOError: the stream is closed", 2: "nil", 3: "true",
        4: "IOError: the answer has ended", 5: "IOError: the answer has begun",
        6: "IOError: the answer has begun, and the connection cannot be hijacked", 9: "true",
    }

    def check(self, *which, paths, threads=1, cut=False):
        loader = self.late_app(self.APP, threads, early_hints="true")
        for path in paths:
            with self.subTest(path, threads=threads):
                connection = self.connect(loader)
                connection.send(PATH_INFO=path)
                while (part := connection.frame()) and part[0] != "E":
                    pass
                self.assertEqual(part is None, cut)
                if cut:
                    connection = self.connect(loader)
                for _ in range(2):
                    self.ask(connection, PATH_INFO="/late", HTTP_WHICH=" ".join(map(str, which)))
                    for index in which:
                        self.assertRegex(self.line(loader), f"{index}: " + self.RESULTS.get(index, "."))
                self.ask(connection, b"body")

    def test_a_stream(self):
        for threads in (1, 2):
            self.check(0, 1, 2, 3, threads=threads, paths=("/stream", "/away"))

    def test_a_stream_whose_answer_was_aborted(self):
        ended = "IOError: the (answer has ended|stream is closed)"  # the latter after `close`
        self.RESULTS = {**self.RESULTS, 0: ended, 1: ended}
        self.check(0, 1, 2, 3, paths=("/failed-stream",), cut=True)

    def test_the_block_of_each(self):
        self.check(4, paths=("/each",))

    def test_early_hints(self):
        self.check(5, paths=("/hints",))

    def test_a_hijack(self):
        self.check(6, paths=("/array",))

    def test_a_hijacked_socket(self):
        self.RESULTS = {7: "IOError: not opened for writing"}
        self.check(7, paths=("/full", "/partial"))

    def test_a_callback_of_response_finished(self):
        loader = self.late_app(self.APP)
        connection = self.connect(loader)
        connection.send(PATH_INFO="/array")
        connection.answer()
        self.ask(connection, PATH_INFO="/late", HTTP_WHICH="8")
        self.assertRegex(self.line(loader), "8: ")
        self.ask(connection, PATH_INFO="/late", HTTP_WHICH="6")
        self.assertEqual(self.line(loader), "6: " + self.RESULTS[6])

    def test_the_error_stream(self):
        loader = self.late_app("""
            run(lambda do |env|
              $errors&.puts("late words")
              $errors = env["rack.errors"]
              [200, {}, ["#{env["HTTP_COOKIE"]} #{env["rack.input"].read}"]]
            end)
        """)
        connection = self.connect(loader)
        self.ask(connection, b"body")
        self.ask(connection, b"body")
        self.assertEqual(loader.read_stderr(), "late words\n")

    def test_no_connection_stands_in_for_a_stream_that_was_closed(self):
        """Ruby itself keeps the descriptors of the standard streams open."""
        loader = self.late_app("""
            run(lambda do |env|
              if env["PATH_INFO"] == "/close"
                3.times { |number| IO.for_fd(number).close }
                [STDIN, STDOUT, STDERR].each(&:close)
              end
              3.times { |number| IO.for_fd(number, "w", autoclose: false).syswrite("of alice\n") rescue nil } if env["PATH_INFO"] == "/write"
              [200, {}, ["#{env["HTTP_COOKIE"]} #{env["rack.input"].read}"]]
            end)
        """)
        self.ask(self.connect(loader), PATH_INFO="/close")
        others = [self.connect(loader) for _ in range(4)]
        for other in others:
            self.ask(other, PATH_INFO="/write")
        for other in others:
            self.ask(other, b"body")

    def test_a_body_that_changes(self):
        loader = self.late_app("""
            # Ruby switches threads where `bytesize` or `dup` was called: each of the two is a chance.
            part = +"short"
            change = TracePoint.new(:c_return) do |point|
              next unless point.self.equal?(part) && point.method_id == :bytesize
              change.disable
              part << "E\\0\\0\\0H\\0\\0\\0"
            end
            run(lambda do |env|
              next [200, {}, ["#{env["HTTP_COOKIE"]} "]] if env["PATH_INFO"] == "/next"
              part.replace("short")
              change.enable
              [200, {}, env["PATH_INFO"] == "/each" ? [part].each : [part]]
            end)
        """)
        for path in ("/", "/each"):
            connection = self.connect(loader)
            connection.send(PATH_INFO=path)
            self.assertEqual(connection.answer().body, b"short")
            self.ask(connection, PATH_INFO="/next")

    def test_inspecting_shows_no_secret(self):
        self.check(9, paths=("/stream",))

    def test_a_write_that_goes_on_at_the_end(self):
        loader = self.late_app("""
            run(lambda do |env|
              next [200, {}, ["#{env["HTTP_COOKIE"]} "]] if env["PATH_INFO"] == "/next"
              [200, {}, lambda do |stream|
                writer = Thread.new { try("write") { stream.write("x" * 3_000_000) } }
                Thread.pass until writer.stop?
                puts "ending"
                stream.close
                try("late") { stream.write("late") }
              end]
            end)
        """)
        connection = self.connect(loader)
        connection.send()
        self.assertEqual(self.line(loader), "ending")
        self.assertEqual(len(connection.answer().body), 3_000_000)
        self.assertEqual({self.line(loader), self.line(loader)}, {"write: 3000000", "late: IOError: the stream is closed"})
        self.ask(connection, PATH_INFO="/next")


class CutWrites(Late):
    """A write that an exception cuts: half a frame must not be taken for a whole one."""

    APP = """
        large = "x" * 3_000_000
        # Does what Timeout does, once the thread of the request waits in a write.
        time_out = lambda do
          request = Thread.current
          Thread.new { Thread.pass until request.stop?; request.raise(Timeout::Error) }
        end
        run(lambda do |env|
          case env["PATH_INFO"]
          when "/timeout" then [200, {}, Enumerator.new { |out| time_out.call; out << large }]
          when "/rescued"
            [200, {}, Enumerator.new do |out|
              begin
                time_out.call
                out << large
              rescue Timeout::Error
                puts "cut"
              end
              out << "afterwards"
            end]
          when "/kill"
            request = Thread.current
            Thread.new { Thread.pass until request.stop?; request.kill }
            [200, {}, Enumerator.new { |out| out << large }]
          when "/file"
            body = Struct.new(:to_path).new(env["HTTP_FILE"])
            [200, {}, body]
          else [200, {}, ["#{env["HTTP_COOKIE"]} "]]
          end
        end)
    """

    def check_cut(self, loader, connection, wait=None, **variables):
        """Send a request, wait without reading until the answer is cut, and return the bytes of its body that came."""
        connection.send(**variables)
        closed = select.poll()
        closed.register(connection.conn, select.POLLRDHUP)
        wait() if wait else self.eventually(lambda: closed.poll(0))
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.conn.recv(1 << 16):
                data += part
        self.ask(self.connect(loader))
        self.ask(self.connect(loader))
        return data[data.index(b"\r\n\r\n") + 8:]

    def test_by_a_timeout(self):
        for threads in (1, 2):
            loader = self.late_app(self.APP, threads)
            for path in ("/timeout", "/rescued"):
                data = self.check_cut(loader, self.connect(loader), PATH_INFO=path)
                self.assertEqual(data.strip(b"x"), b"")

    def test_by_the_end_of_its_thread(self):
        loader = self.late_app(self.APP, threads=2)
        for _ in range(4):
            data = self.check_cut(loader, self.connect(loader), PATH_INFO="/kill")
            self.assertEqual(data.strip(b"x"), b"")

    def test_after_the_answer_in_a_thread_that_waits(self):
        """A watchdog that is late ends no process, and takes no thread for ever."""
        loader = self.late_app("""
            require "timeout"
            at_once = Thread::Queue.new
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/late"
                request = Thread.current
                Thread.new do
                  Thread.pass until request.stop?
                  sleep 0.01
                  case env["QUERY_STRING"]
                  when "kill" then request.kill
                  when "error" then request.raise("late error")
                  when "timeout" then request.raise(Timeout::Error)
                  else request.raise(Exception, "late exception")
                  end
                  puts "late"
                end
              when "/both" # needs both threads
                at_once << 1
                Thread.pass until at_once.size == 2
              end
              [200, {}, ["#{env["HTTP_COOKIE"]} "]]
            end)
        """, threads=2)
        for kind in ("kill", "error", "timeout", "exception") * 2:
            self.ask(self.connect(loader), PATH_INFO="/late", QUERY_STRING=kind)
            self.assertEqual(self.line(loader), "late")
        pair = self.connect(loader), self.connect(loader)
        for connection in pair:
            connection.send(HTTP_COOKIE="secret=bob", PATH_INFO="/both")
        for connection in pair:
            self.assertEqual(connection.answer().body, b"secret=bob ")
        self.assertIsNone(loader.process.poll())
        self.assertEqual(loader.read_stderr().count("late error"), 2)

    IDLE = """
        require "timeout"
        kinds = { "error" => RuntimeError, "io" => IOError, "timeout" => Timeout::Error, "exception" => Exception, "exit" => SystemExit }
        at_once = Thread::Queue.new
        run(lambda do |env|
          kind = kinds[env["QUERY_STRING"]]
          request = Thread.current
          case env["PATH_INFO"]
          when "/ring"
            trap("ALRM") { puts "late"; raise kind, "late error" }
            Thread.new { Thread.pass until request.stop?; sleep 0.02; Process.kill("ALRM", Process.pid) }
          when "/main" then Thread.new { Thread.pass until request.stop?; sleep 0.02; puts "late"; Thread.main.raise(kind, "late error") }
          when "/soon"
            Thread.new do
              Thread.pass until request.backtrace[0].match?(/wait_readable|pop/)
              request.raise(kind, "late error")
              puts "late"
            end
          when "/both" # needs both threads
            at_once << 1
            Thread.pass until at_once.size >= 2
          end
          [200, {}, ["#{env["HTTP_COOKIE"]} #{env["rack.input"].read}"]]
        end)
    """

    def test_an_error_between_two_requests(self):
        """An error of a signal's handler, or for the main thread, ends neither the process nor a connection."""
        for threads in (1, 2):
            loader = self.late_app(self.IDLE, threads)
            connection, other = self.connect(loader), self.connect(loader)
            count = 0
            for path in ("/ring", "/main"):
                for kind in ("error", "io", "timeout", "exception"):
                    with self.subTest(path, kind=kind, threads=threads):
                        self.ask(connection, PATH_INFO=path, QUERY_STRING=kind)
                        self.assertEqual(self.line(loader), "late")
                        count += 1
                        self.eventually(lambda: loader.read_stderr().count("late error") == count)
                        for one in (connection, other):
                            self.ask(one, b"body")
                        self.assertEqual(session(loader, HTTP_COOKIE="secret=carol").body, b"secret=carol ")
            if threads == 2:
                for one in (connection, other):
                    one.send(PATH_INFO="/both")
                for one in (connection, other):
                    self.assertEqual(one.answer().body, b" ")
            self.assertIsNone(loader.process.poll())
            loader.channel.sendall(b"x")
            self.check_exit(loader)

    def test_an_error_while_the_thread_looks_for_closed_sockets(self):
        """It is not taken for one of these."""
        loader = self.late_app("""
            IO.singleton_class.prepend(Module.new do
              def select(*args)
                raise IOError, "another error" if args[3] == 0 && Thread.current.equal?(Thread.main)
                super
              end
            end)
            trap("ALRM") { raise "late error" }
            run(->(_) { [200, {}, ["bob"]] })
        """)
        for count in range(3):
            self.assertEqual(session(loader).body, b"bob")
            loader.process.send_signal(signal.SIGALRM)
            self.eventually(lambda: loader.read_stderr().count("late error") == count + 1)
        self.assertEqual(session(loader).body, b"bob")
        self.assertNotIn("another error", loader.read_stderr())

    def test_an_error_while_a_hijacked_connection_comes_back(self):
        """The wake-up for it has been read, and the connection is not lost with its next request."""
        loader = self.late_app("""
            IO.prepend(Module.new do
              def read_nonblock(*args, **options)
                result = super
                return result unless $errors_come && instance_of?(IO)

                $errors_come = false
                raise IOError, "late error"
              end
            end)
            run(lambda do |env|
              next [200, {}, ["bob"]] unless env["PATH_INFO"] == "/hijack"
              $errors_come = true
              io = env["rack.hijack"].call
              Thread.new do
                io.write("HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\ncarol")
                io.close
              end
              [200, {}, []]
            end)
        """)
        connection = self.connect(loader)
        for count in range(1, 4):
            connection.send(PATH_INFO="/hijack")
            self.assertEqual(connection.answer().body, b"carol")
            connection.send()
            self.assertEqual(connection.answer().body, b"bob")
            self.assertEqual(loader.read_stderr().count("late error"), count)

    def test_an_error_while_a_connection_is_accepted(self):
        """The server sees its end, and does not wait for an answer."""
        loader = self.late_app("""
            UNIXServer.prepend(Module.new do
              def accept_nonblock(**options)
                result = super
                return result unless $errors_come && result.is_a?(BasicSocket)

                $errors_come = false
                raise IOError, "late error"
              end
            end)
            run(lambda do |env|
              $errors_come = env["PATH_INFO"] == "/next"
              [200, {}, ["bob"]]
            end)
        """)
        for count in range(1, 4):
            connection = self.connect(loader)
            connection.send(PATH_INFO="/next")
            self.assertEqual(connection.answer().body, b"bob")
            lost = self.connect(loader)
            with contextlib.suppress(BrokenPipeError):
                lost.send()
            with contextlib.suppress(ConnectionResetError):
                self.assertTrue(lost.answer().cut)
            self.eventually(lambda: loader.read_stderr().count("late error") == count)
            self.assertEqual(session(loader).body, b"bob")

    def test_an_exit_of_a_signal_between_two_requests_ends_the_process(self):
        for threads in (1, 2):
            loader = self.late_app(self.IDLE, threads)
            self.ask(self.connect(loader), PATH_INFO="/ring", QUERY_STRING="exit")
            self.check_exit(loader)

    def test_an_error_while_a_thread_waits_for_the_next_request_of_its_connection(self):
        loader = self.late_app(self.IDLE, threads=2)
        connection = self.connect(loader)
        for _ in range(100):
            self.ask(connection, PATH_INFO="/soon", QUERY_STRING="error")
            self.assertEqual(self.line(loader), "late")
        self.eventually(lambda: loader.read_stderr().count("late error") == 100)
        self.ask(connection)
        self.assertIsNone(loader.process.poll())

    def test_a_file_that_becomes_shorter(self):
        for size in (700_000, 2_500_000):
            loader = self.late_app(self.APP)
            connection = self.connect(loader)
            path = os.path.join(loader.root, "large")
            with open(path, "wb") as file:
                file.write(b"x" * size)

            def shorten():
                # The head comes after the loader has looked at the size. The file does not fit into the socket.
                self.eventually(lambda: connection.conn.recv(1, socket.MSG_PEEK))
                os.truncate(path, 100_000)
            data = self.check_cut(loader, connection, shorten, PATH_INFO="/file", HTTP_FILE=path)
            self.assertNotIn(b"A", data)  # an abort inside of the frame
            self.assertIn("has become shorter", loader.read_stderr())


class Failures(Late):
    def test_an_application_that_fails_while_its_thread_writes(self):
        """The error of the loader and the parts of the thread would be one answer."""
        loader = self.late_app("""
            class Body
              def each(&write)
                Thread.new { loop { write.call("part") } rescue nil }
                Thread.pass
                raise "asked to fail"
              end
            end
            STDERR.reopen(File::NULL)
            run ->(env) { [200, {}, env["PATH_INFO"] == "/late" ? Body.new : ["ok"]] }
        """)
        for _ in range(20):
            connection = KeptConnection(loader)
            connection.send(PATH_INFO="/late")
            answer = connection.answer()
            if not answer.cut:
                self.assertEqual(answer.status, "Status: 500 Internal Server Error")
                self.assertNotIn(b"part", answer.body)
            connection.close()
        connection = self.connect(loader)
        connection.send()
        self.assertEqual(connection.answer().body, b"ok")

    def test_errors_that_fail_again(self):
        loader = self.late_app("""
            class Unspeakable < StandardError
              def message = raise("no words")
              def detailed_message(**) = raise("no words")
            end
            run(lambda do |env|
              env["rack.response_finished"] << ->(*) { exit(3) } if env["PATH_INFO"].end_with?("callback")
              raise Unspeakable if env["PATH_INFO"].start_with?("/error")
              [200, {}, ["ok"]]
            end)
        """)
        connection = self.connect(loader)
        for path, status in (("/callback", "200 OK"), ("/error", "500 Internal Server Error"),
                             ("/error/callback", "500 Internal Server Error"), ("/", "200 OK")) * 2:
            with self.subTest(path):
                connection.send(PATH_INFO=path)
                answer = connection.answer()
                self.assertEqual((answer.status, answer.cut), (f"Status: {status}", False))
        self.assertIn("an error that cannot be shown", loader.read_stderr())

    def test_errors_that_are_not_what_they_seem(self):
        loader = self.late_app("""
            liars = %w[class is_a? kind_of? instance_of? message backtrace set_backtrace full_message inspect to_s == nil? hash].to_h do |name|
              kind = Class.new(StandardError) { define_method(name) { |*, **| raise "a liar" } }
              [name, kind]
            end
            liars["name"] = Class.new(StandardError) { %i[to_s name inspect].each { |name| define_singleton_method(name) { raise "a liar" } } }
            liars["==="] = Class.new(StandardError) { define_singleton_method(:===) { |_| raise "a liar" } }
            liars["itself"] = Class.new(StandardError) do
              %i[message full_message class is_a?].each { |name| define_method(name) { |*, **| raise self } }
              %i[to_s name inspect].each { |name| define_singleton_method(name) { raise "a liar" } }
            end
            run(lambda do |env|
              liar = liars[env["QUERY_STRING"]]
              case env["PATH_INFO"]
              when "/list" then next [200, {}, [liars.keys.join(" ")]]
              when "/fork" then next [200, {}, [Process.wait2(fork { raise liar })[1].exitstatus.to_s]]
              when "/lie" then raise liar
              when "/again"
                env["rack.response_finished"] << ->(*) { raise liar }
                raise liar
              when "/worse"
                env["rack.response_finished"] = Object.new.tap { |one| one.define_singleton_method(:reverse_each) { raise liar } }
                raise liar
              when "/begun"
                body = Object.new
                body.define_singleton_method(:each) { |&part| part.call("begun"); raise liar }
                next [200, {}, body]
              end
              [200, {}, ["ok"]]
            end)
        """)
        connection = self.connect(loader)
        connection.send(PATH_INFO="/list")
        for name in connection.answer().body.decode().split():
            with self.subTest(name):
                for path in ("/lie", "/again"):
                    connection.send(PATH_INFO=path, QUERY_STRING=name)
                    self.assertEqual(connection.answer().status, "Status: 500 Internal Server Error")
                connection.send(PATH_INFO="/fork", QUERY_STRING=name)
                self.assertEqual(connection.answer().body, b"1")
                cut = self.connect(loader)
                cut.send(PATH_INFO="/begun", QUERY_STRING=name)
                self.assertTrue(cut.answer().cut)
                failed = self.connect(loader)
                failed.send(PATH_INFO="/worse", QUERY_STRING=name)
                self.assertEqual(failed.frame()[0], "H")
                connection.send()
                self.assertEqual(connection.answer().body, b"ok")
        self.assertIn("an error that cannot be shown", loader.read_stderr())

    def test_a_thread_that_ends_after_its_connection_was_hijacked(self):
        """The connection is no longer the thread's: it carries the hijacked answer, or even the next request."""
        loader = self.late_app("""
            class Body
              def initialize(wait) = @wait = wait
              def each = nil
              def close = (sleep @wait; Thread.exit)
            end
            at_once = Thread::Queue.new
            run(lambda do |env|
              early, late = env["QUERY_STRING"].split("-").map(&:to_f)
              case env["PATH_INFO"]
              when "/full"
                io = env["rack.hijack"].call
                Thread.new do
                  sleep early
                  io.write("HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\nhijacked")
                  io.close
                end
                [200, {}, Body.new(late)]
              when "/partial"
                hijacker = ->(io) { Thread.new { sleep early; io.write("hijacked"); io.close } }
                [200, { "rack.hijack" => hijacker }, Body.new(late)]
              when "/slow"
                [200, {}, Enumerator.new { |parts| 3.times { parts << "part "; sleep 0.05 } }]
              else # needs all threads
                at_once << 1
                Thread.pass until at_once.size >= 2
                [200, {}, ["both"]]
              end
            end)
        """, threads=2)
        for path in ("/full", "/partial"):
            for query in ("0.05-0", "0-0.05", "0-0.1"):
                with self.subTest(path, query=query):
                    connection = self.connect(loader)
                    connection.send(PATH_INFO=path, QUERY_STRING=query)
                    self.assertEqual(connection.answer().body, b"hijacked")
                    connection.send(PATH_INFO="/slow")
                    self.assertEqual(connection.answer().body, b"part part part ")
                    pair = connection, self.connect(loader)
                    for one in pair:
                        one.send()
                    for one in pair:
                        self.assertEqual(one.answer().body, b"both")
        self.assertIsNone(loader.process.poll())

    def test_a_body_whose_close_fails_after_its_thread_has_ended_the_stream(self):
        """The connection would be handed back while its thread still closes the body, and its error would end the next answer."""
        for failure in ("raise 'late'", "raise Cabrank::ClientGone, 'late'", "Thread.exit"):
            with self.subTest(failure):
                loader = self.late_app("""
                    class Body
                      def call(stream) = Thread.new { stream.write("first"); sleep 0.05; stream.close }
                      def close = (sleep 0.2; FAILURE)
                    end
                    class Parts
                      def each = [1, 2].each { |part| yield "part #{part} "; sleep 0.3 }
                    end
                    run ->(env) { [200, {}, env["PATH_INFO"] == "/stream" ? Body.new : Parts.new] }
                """.replace("FAILURE", failure), threads=3)
                connection = KeptConnection(loader)
                connection.send(PATH_INFO="/stream")
                answer = connection.answer()
                self.assertEqual(answer.body, b"first")
                try:
                    connection.send()
                    self.assertIn(connection.answer().body, (b"part 1 part 2 ", b""))
                except (BrokenPipeError, IndexError, ValueError):
                    pass  # the loader has ended the connection
                connection.close()
                other = KeptConnection(loader)
                other.send()
                self.assertEqual(other.answer().body, b"part 1 part 2 ")
                other.close()

    def test_a_stream_whose_client_leaves(self):
        """The process would be busy for ever: the write raises in a thread of the application, which ends before `close`."""
        for threads in (1, 2):
            loader = self.late_app("""
                write = ->(stream) { 200.times { stream.write("x" * 100); sleep 0.005 }; stream.close }
                stream = lambda do |env, stream|
                  thread = Thread.new { Thread.current.report_on_exception = false; write.call(stream) }
                  (thread.join rescue nil) if env["PATH_INFO"] == "/joined"
                end
                run ->(env) { [200, {}, env["PATH_INFO"] == "/" ? ["here"] : stream.curry[env]] }
            """, threads)
            for path in ("/away", "/joined") * threads:
                connection = self.connect(loader)
                connection.send(PATH_INFO=path)
                connection.conn.recv(10)
                # The server reads no more, and waits until the loader has closed the connection.
                connection.conn.shutdown(socket.SHUT_RD)
                ends = select.poll()
                ends.register(connection.conn, 0)
                with self.subTest(path, threads=threads):
                    self.assertTrue(ends.poll(3000), "the loader holds the connection")
            self.assertEqual(session(loader, PATH_INFO="/").body, b"here")

    def test_a_stream_with_more_bytes_than_its_length(self):
        """The process would be busy for ever: the part ends the answer, and so `close` had nothing more to do."""
        for threads in (1, 2):
            loader = self.late_app("""
                def excess(stream) = stream.write("123456")
                rescued = ->(stream) { try("write") { excess(stream) } }
                closed = ->(stream) { rescued.call(stream); stream.close }
                later = ->(work) { ->(stream) { Thread.new { Thread.current.report_on_exception = false; sleep 0.02; work.call(stream) } } }
                twice = ->(stream) { 2.times.map { later.call(closed).call(stream) } }
                works = { "raised" => method(:excess), "rescued" => rescued, "closed" => closed, "twice" => twice }
                run(lambda do |env|
                  _, kind, time = env["PATH_INFO"].split("/")
                  work = works[kind] or next [200, {}, ["#{env["HTTP_COOKIE"]} #{env["rack.input"].read}"]]
                  [200, { "content-length" => "5" }, time == "later" ? later.call(work) : work]
                end)
            """, threads)
            for kind in ("raised", "rescued", "closed", "twice"):
                for time in ("now", "later"):
                    with self.subTest(kind, time=time, threads=threads):
                        answer = session(loader, PATH_INFO=f"/{kind}/{time}")
                        self.assertEqual((answer.body, answer.cut), (b"12345", False))
                        connection = self.connect(loader)
                        connection.send(PATH_INFO=f"/{kind}/{time}")
                        answer = connection.answer()
                        self.assertEqual((answer.body, answer.cut), (b"12345", False))
                        for _ in range(3):
                            self.ask(connection, b"body")

    def test_an_error_after_the_call_of_a_stream_leaves_the_answer_to_its_thread(self):
        for error in ("KeyError", "Cabrank::ClientGone"):
            for rest in ("12345", "123456"):
                loader = self.late_app("""
                    run(lambda do |env|
                      next [200, {}, ["#{env["HTTP_COOKIE"]} #{env["rack.input"].read}"]] if env["PATH_INFO"] == "/"
                      $gate = Queue.new
                      trace = TracePoint.new(:return) do |point|
                        next unless point.method_id == :called
                        trace.disable
                        $gate << 1
                        raise ERROR, "a watchdog"
                      end
                      trace.enable
                      body = ->(stream) { Thread.new { $gate.pop; sleep 0.05; try("write") { stream.write("REST") }; stream.close } }
                      [200, { "content-length" => "5" }, body]
                    end)
                """.replace("ERROR", error).replace("REST", rest), threads=2)
                with self.subTest(error, rest=rest):
                    connection = self.connect(loader)
                    connection.send(PATH_INFO="/stream")
                    self.assertEqual(connection.answer().body, b"12345")
                    for _ in range(3):
                        self.ask(connection, b"body")

    def test_errors_that_cannot_be_written(self):
        loader = self.late_app("""
            class Loud < StandardError
              def message = raise(Exception, "no words")
              def detailed_message(**) = raise(Exception, "no words")
            end
            run(lambda do |env|
              raise Loud if env["PATH_INFO"] == "/loud"
              if env["PATH_INFO"] == "/closed"
                STDERR.close
                raise "nowhere to go"
              end
              [200, {}, ["ok"]]
            end)
        """)
        connection = self.connect(loader)
        for path, status in (("/loud", "500 Internal Server Error"), ("/closed", "500 Internal Server Error"), ("/", "200 OK")):
            with self.subTest(path):
                connection.send(PATH_INFO=path)
                self.assertEqual(connection.answer().status, f"Status: {status}")
