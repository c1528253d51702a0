"""Rack: random applications under two clients. No mark of one client reaches the other's answer or input.

Each request carries a program for the application: steps in the call, in the body, in its `close` and afterwards. A step
reads, writes, reads or writes late (in a thread that outlives the answer), forks, or raises an error. The body is an array,
has `each`, is a stream that is closed at once or later, or is written to a hijacked socket. The requests of the two
clients alternate on the same kept connections. Each has a mark in its head and cookie, and a body of one letter.

    CABRANK_DEEP=1   sends 100,000 requests instead of 2,500
    CABRANK_SEED=N   repeats the run of the seed that a failure has printed
"""

import os
import random
import re
import select
import socket
import string

from common import RackLoader
from driver import DEADLINE, frame, head

DEEP = os.environ.get("CABRANK_DEEP") == "1"
REQUESTS = 100_000 if DEEP else 2_500
APP = """
    $leaks = Queue.new

    class Program
      def initialize(env)
        @env, @mark, @letter, @input = env, env["HTTP_COOKIE"], env["HTTP_LETTER"], env["rack.input"]
        @steps = env["HTTP_STEPS"].split(";", -1).map { |steps| steps.split(",") }
        $leaks << "heads #{@mark} and #{env["HTTP_X_MARK"]}" if env["HTTP_X_MARK"] != @mark
      end

      def run(phase, &write)
        @steps[phase].each do |step|
          case step
          when "read" then check(@input.read(700))
          when "write" then write&.call(@mark)
          when "late read" then late { 50.times { check(@input.read(100)) or break } }
          when "late write" then late { 50.times { Thread.pass; write.call(@mark) } } if write
          when "fork" then (pid = fork) ? Process.detach(pid) : sleep(rand(5) / 1000.0)
          when "exception" then raise "asked to fail"
          end
        end
      end

      def late
        Thread.new do
          yield
        rescue IOError, SystemCallError
          # The request has ended.
        end
      end

      def check(data)
        $leaks << "input of #{@mark}: #{data[0, 100].inspect}" unless data.nil? || data.delete(@letter).empty?
        data
      end

      def each(&write) = run(1, &write)
      def close = run(2)

      def answer
        @env["rack.response_finished"] << ->(*) { run(3) }
        run(0)
        headers = { "X-Mark" => @mark }
        case @env["HTTP_STYLE"]
        when "array" then run(1) { |part| (@parts ||= []) << part }
                          [200, headers, @parts || []]
        when "each" then [200, headers, self]
        when "stream" then [200, headers, ->(stream) { run(1) { |part| stream << part }; stream.close }]
        when "away" then [200, headers, ->(stream) { late { finish(stream) { |part| stream << part } } }]
        when "partial" then [200, headers.merge("rack.hijack" => ->(io) { late { finish(io) { |part| io << part } } }), []]
        when "full"
          io = @env["rack.hijack"].call
          io << "HTTP/1.1 200 OK\\r\\nX-Mark: #{@mark}\\r\\n\\r\\n"
          late { finish(io) { |part| io << part } }
          nil
        end
      end

      def finish(io, &write)
        run(1, &write)
      rescue RuntimeError
        # The answer is as complete as it will be.
      ensure
        io.close
      end
    end

    STDERR.reopen(File::NULL) # the errors that the programs ask for
    run(lambda do |env|
      next [200, {}, [Array.new($leaks.size) { $leaks.pop }.join("\\n")]] if env["PATH_INFO"] == "/leaks"
      Program.new(env).answer
    end)
"""
STEPS = ("read", "read", "write", "write", "late read", "late write", "exception")
MARK = re.compile(rb"<[AB][0-9]+>")


class Client:
    """One kept connection, on which the requests of the two clients alternate."""

    def __init__(self, test, loader, rng):
        self.test, self.loader, self.rng = test, loader, rng
        self.conn, self.sending = None, b""

    def steps(self, most):
        chosen = [self.rng.choice(STEPS) for _ in range(self.rng.randrange(most + 1))]
        if self.rng.random() < 0.03:
            chosen.insert(self.rng.randrange(len(chosen) + 1), "fork")
        return ",".join(chosen)

    def send(self, number):
        """Begin to send a request. A part of its body may come late, or after the answer."""
        if self.conn is None:
            self.conn, self.sending = self.loader.connect("kept_session"), b""
            self.conn.setblocking(False)
        rng = self.rng
        self.mark = f"<{'AB'[number % 2]}{number}>"
        letter = string.ascii_lowercase[number % 26]
        self.program = ";".join(self.steps(most) for most in (2, 4, 1, 1))
        if rng.random() < 0.8:
            self.program = self.program.replace("exception", "write")
        self.style = rng.choice(("array", "each", "stream", "away", "partial", "full"))
        body = rng.choice((0, 0, 10, 2_000, 100_000)) * letter.encode()
        frames = (frame(body) if body else b"") + frame(b"")
        at = rng.choice((len(frames), len(frames), min(len(frames), 500), 3))
        self.rest = frames[at:]
        self.sending += head(HTTP_COOKIE=self.mark, HTTP_X_MARK=self.mark, HTTP_LETTER=letter, REQUEST_METHOD="POST",
                             HTTP_STYLE=self.style, HTTP_STEPS=self.program) + frames[:at]
        self.abort = rng.choice((None,) * 30 + ("half-close", "close"))

    def receive(self):
        """Read the answer to its end, while the request is sent, and check it."""
        data, position, kind = bytearray(), 0, None
        while kind not in ("E", "A", "end"):
            # The application may wait for the rest.
            readable, writable, _ = select.select([self.conn], [self.conn] if self.sending else [], [],
                                                  0.002 if self.rest else DEADLINE)
            if not readable and not writable:
                self.test.assertTrue(self.rest, f"no answer to {self.mark}, {self.style}, {self.program}: {data[-200:]}")
                self.sending, self.rest = self.sending + self.rest, b""
            try:
                if writable:
                    self.sending = self.sending[self.conn.send(self.sending):]
                if self.abort and not self.sending:
                    if self.abort == "close":
                        break
                    self.conn.shutdown(socket.SHUT_WR)
                    self.abort, self.rest = None, b""
                part = self.conn.recv(1 << 16) if readable else None
            except OSError:
                part = b""
            data += part or b""
            while len(data) >= position + 4:
                size = 4 + int.from_bytes(data[position + 1:position + 4], "big")
                if len(data) < position + size:
                    break
                kind, position = chr(data[position]), position + size
                self.test.assertIn(kind, "HDAE", (self.mark, self.style, self.program, data[-200:]))
            kind = "end" if part == b"" else kind
        self.test.assertLessEqual(set(MARK.findall(data)), {self.mark.encode()}, (self.style, self.program))
        if kind == "E" and self.rng.random() < 0.9:
            self.test.assertEqual(position, len(data), (self.mark, self.style, self.program, data[-200:]))
            self.sending += self.rest
        else:
            self.conn.close()
            self.conn = None


class RackProperty(RackLoader):
    def test_no_mark_of_one_client_reaches_the_other(self):
        seed = int(os.environ.get("CABRANK_SEED") or random.randrange(1 << 32))
        rng = random.Random(seed)
        with self.subTest(f"CABRANK_SEED={seed}"):
            for threads in (1, 2):
                loader = self.app(APP, app_threads=threads)
                clients = [Client(self, loader, rng) for _ in range(2)]
                for number in range(0, REQUESTS // 2, 2):
                    for index, client in enumerate(clients):
                        client.send(number + (index + number // 2) % 2)
                    for client in clients:
                        client.receive()
                    if number % 500 == 0 or number + 2 >= REQUESTS // 2:
                        with loader.connect("kept_session") as conn:
                            conn.sendall(head(PATH_INFO="/leaks") + frame(b""))
                            self.assertIn(b"Content-Length: 0\r\n", conn.recv(1 << 16))
                for client in clients:
                    if client.conn:
                        client.conn.close()
