"""Rack: a child that the application forks, at each point of a request, leaves its parent's connections alone."""

import os
import signal
import socket

from common import RackLoader
from driver import KeptConnection, frame, head, session

# `forks?` forks where the request says so. The child waits until the next request is being served. Then it ends as the
# request says, or returns into the loader. A thread of the parent prints the child's status.
APP = """
    at_exit { File.write(File.join(__dir__, "at_exit.#{Process.pid}"), "") }
    wait_for = ->(name) { sleep 0.005 until File.exist?(File.join(__dir__, name)) }
    watch = ->(pid) { Thread.new { Process.wait(pid); puts "child: #{$?.exitstatus}" } }
    lead = lambda do |how|
      wait_for.call("go")
      case how
      when "raise" then raise KeyError, "of the child"
      when "exit" then exit 7
      when "throw" then throw :elsewhere
      when "thread" then Thread.exit
      end
    end
    Object.define_method(:forks?) do |env, point|
      return false unless env["HTTP_AT"] == point
      pid = env["HTTP_HOW"] == "popen" ? IO.popen("-")&.pid : fork
      pid ? watch.call(pid) : lead.call(env["HTTP_HOW"])
      pid.nil?
    end

    class Body
      def initialize(env) = @env = env
      def to_path
        forks?(@env, "to_path")
        nil
      end
      def each
        forks?(@env, "each")
        yield "of "
        forks?(@env, "each-later")
        yield @env["HTTP_COOKIE"]
        forks?(@env, "each-end")
      end
      def close = forks?(@env, "close")
    end
    class Parts < Body
      undef_method :each
      def to_ary
        forks?(@env, "to_ary")
        ["of ", @env["HTTP_COOKIE"]]
      end
    end
    class Fields
      def initialize(env) = @env = env
      def each
        yield "X-A", "b"
        forks?(@env, "headers")
      end
    end

    run(lambda do |env|
      case env["HTTP_AT"]
      when "slow"
        puts "slow"
        wait_for.call("end")
      when "hints"
        fields = Object.new
        fields.define_singleton_method(:each) { |&take| take.call("X-A", "b"); forks?(env, "hints") }
        env["rack.early_hints"].call(fields)
      when "finished" then env["rack.response_finished"] << ->(*) { forks?(env, "finished") }
      when "stream"
        next [200, {}, ->(stream) { stream << "of "; forks?(env, "stream") and next; stream << env["HTTP_COOKIE"]; stream.close }]
      when "partial"
        next [200, { "rack.hijack" => ->(io) { io << "of #{env["HTTP_COOKIE"]}"; forks?(env, "partial") or io.close } }, []]
      when "full"
        io = env["rack.hijack"].call
        io << "HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\nof #{env["HTTP_COOKIE"]}"
        forks?(env, "full") or io.close
      when "to_ary" then next [200, {}, Parts.new(env)]
      when "failure"
        env["rack.response_finished"] << ->(*) { forks?(env, "failure") }
        raise "asked to fail"
      end
      forks?(env, "call")
      [200, Fields.new(env), Body.new(env)]
    end)
"""
POINTS = ("call", "headers", "to_path", "to_ary", "each", "each-later", "each-end", "close", "finished", "hints", "stream",
          "partial", "full", "failure")


class Fork(RackLoader):
    def connect(self, loader):
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        return connection

    def line(self, loader):
        return loader.lines.readline().decode().rstrip("\n")

    def check(self, loader, at, how="return", status=0):
        """Fork a child in a request, let it go on while the next request is served, and look at both answers."""
        for name in ("go", "end"):
            if os.path.exists(os.path.join(loader.app_root, name)):
                os.remove(os.path.join(loader.app_root, name))
        connection = self.connect(loader)
        connection.send(HTTP_COOKIE="alice", HTTP_AT=at, HTTP_HOW=how)
        while (part := connection.frame())[0] == "I":
            pass
        answer = b""
        while (part := connection.frame())[0] == "D":
            answer += part[1]
        if at != "failure":
            self.assertEqual((answer, part), (b"of alice", ("E", b"")))
        connection.send(HTTP_COOKIE="bob", HTTP_AT="slow")
        self.assertEqual(self.line(loader), "slow")
        open(os.path.join(loader.app_root, "go"), "w").close()
        self.assertEqual(self.line(loader), f"child: {status}")
        open(os.path.join(loader.app_root, "end"), "w").close()
        self.assertEqual(connection.answer().body, b"of bob")
        connection.send(HTTP_COOKIE="carol")
        self.assertEqual(connection.answer().body, b"of carol")
        self.assertEqual([name for name in os.listdir(loader.app_root) if name.startswith("at_exit")], [])

    def start_app(self, threads=1, **options):
        return self.app(APP, app_threads=threads, early_hints="true", **options)

    def test_at_each_point_of_a_request(self):
        for threads in (1, 2):
            loader = self.start_app(threads)
            for point in POINTS:
                with self.subTest(point, threads=threads):
                    self.check(loader, point)

    def test_each_way_to_return(self):
        for threads in (1, 2):
            loader = self.start_app(threads)
            for how, status in (("raise", 1), ("exit", 7), ("throw", 1), ("thread", 0), ("popen", 0)):
                for point in ("call", "each", "close", "finished", "stream"):
                    with self.subTest(point, how=how, threads=threads):
                        self.check(loader, point, how, status)
            self.assertIn("of the child (KeyError)", loader.read_stderr())

    def test_a_ruby_that_does_not_announce_forks(self):
        path = os.path.join(self.start_app().root, "old.rb")
        with open(path, "w") as file:
            file.write("Process.define_singleton_method(:respond_to?) { |name, *| name != :_fork && super(name) }\n")
        os.environ["RUBYOPT"] = f"-r{path}"
        self.addCleanup(os.environ.pop, "RUBYOPT", None)
        loader = self.start_app()
        for point in POINTS:
            if point not in ("partial", "full"):  # there the child holds the hijacked socket open
                with self.subTest(point):
                    self.check(loader, point)

    def test_a_child_has_no_socket_of_its_parent(self):
        loader = self.app("""
            sockets = lambda do
              Dir.children("/proc/self/fd").to_h { |fd| [fd.to_i, (File.readlink("/proc/self/fd/#{fd}") rescue "")] }
                 .select { |fd, name| name.match?(/socket|pipe/) && !name.include?(File.readlink("/proc/self/fd/1")) }.keys
            end
            report = lambda do |pid, reader|
              Process.wait(pid) if pid
              [200, {}, [reader.read]]
            ensure
              reader.close
            end
            run(lambda do |env|
              next [200, {}, ["bob"]] if env["PATH_INFO"] == "/next"
              env["rack.input"].read(1)
              blocked = Thread.new { env["rack.input"].read }
              Thread.pass until blocked.stop?
              reader, writer = IO.pipe
              keep = [reader, writer].map(&:fileno)
              own = -> { writer.write((sockets.call - keep).inspect); exit!(0) }
              pid = case env["PATH_INFO"]
                    when "/fork" then fork(&own)
                    when "/process" then Process.fork || own.call
                    when "/thread" then Thread.new { fork(&own) }.value
                    when "/exec"
                      fork do
                        $stdout.reopen(writer)
                        exec("ls", "-l", "/proc/self/fd")
                      end
                    when "/spawn" then spawn("ls", "-l", "/proc/self/fd", out: writer)
                    when "/daemon" then fork { Process.daemon(true, true); own.call }
                    end
              writer.close
              report.call(pid, reader)
            end)
        """)
        for threads in (1, 2):
            for path in ("/fork", "/process", "/thread", "/daemon", "/exec", "/spawn"):
                with self.subTest(path, threads=threads):
                    connection = self.connect(loader)
                    connection.conn.sendall(head(PATH_INFO=path) + frame(b"ab"))
                    seen = connection.answer().body
                    if path in ("/exec", "/spawn"):
                        self.assertNotIn(b"socket", seen)
                    else:
                        self.assertEqual(seen, b"[]")
                    connection.conn.sendall(frame(b""))
                    connection.send(PATH_INFO="/next")
                    self.assertEqual(connection.answer().body, b"bob")

    def test_objects_of_a_request_in_a_child(self):
        loader = self.app("""
            def try
              yield.inspect
            rescue IOError => e
              "#{e.class}"
            end
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/call"
                reader, writer = IO.pipe
                pid = fork do
                  results = [-> { env["rack.input"].read }, -> { env["rack.early_hints"].call({ "X-A" => "b" }) },
                             -> { env["rack.hijack"].call }].map { |use| try(&use) }
                  results << Thread.new { try { env["rack.input"].read(1) } }.value
                  writer.write(results.join(" "))
                end
              when "/stream"
                next [200, {}, lambda do |stream|
                  reader, writer = IO.pipe
                  Process.wait(fork do
                    results = [-> { stream.write("x") }, -> { stream << "x" }, -> { stream.read }, -> { stream.close }]
                    writer.write(results.map { |use| try(&use) }.join(" "))
                  end)
                  writer.close
                  stream.write(reader.read, " ", stream.read)
                  stream.close
                end]
              else next [200, {}, ["bob"]]
              end
              Process.wait(pid)
              writer.close
              [200, {}, [reader.read, " ", env["rack.input"].read]]
            end)
        """, early_hints="true")
        gone = "Cabrank::ClientGone"
        for path, results in (("/call", [gone] * 4), ("/stream", [gone] * 3 + ["nil"])):
            connection = self.connect(loader)
            connection.conn.sendall(head(PATH_INFO=path) + frame(b"the bo"))
            connection.conn.sendall(frame(b"dy") + frame(b""))
            self.assertEqual(connection.answer().body.decode(), " ".join(results) + " the body")
            connection.send(PATH_INFO="/next")
            self.assertEqual(connection.answer().body, b"bob")

    def test_an_input_that_was_kept_in_a_file_in_a_child(self):
        """The parent's position in the file stays: the parent reads the rest of its body."""
        loader = self.app("""
            run(lambda do |env|
              input = env["rack.input"]
              body = input.read(200_000)
              reader, writer = IO.pipe
              Process.wait(fork do
                uses = [-> { input.rewind }, -> { input.read(10) }, -> { input.gets }, -> { input.each { } }, -> { input.eof? },
                        -> { input.size }]
                results = uses.map do |use|
                  use.call.inspect
                rescue IOError => e
                  e.class.to_s
                end
                writer.write(results.join(" "))
              end)
              writer.close
              body << input.read
              input.rewind
              [200, {}, ["#{reader.read} #{input.read == body} ", body]]
            end)
        """)
        body = b"".join(b"%08d\n" % number for number in range(60_000))
        for length in ({}, {"CONTENT_LENGTH": str(len(body))}):
            connection = self.connect(loader)
            connection.conn.sendall(head(**length) + frame(body) + frame(b""))
            answer = " ".join(["Cabrank::ClientGone"] * 6) + " true "
            self.assertEqual(connection.answer().body, answer.encode() + body)

    def test_a_child_that_a_thread_of_a_finished_request_forks(self):
        loader = self.app("""
            run(lambda do |env|
              case env["PATH_INFO"]
              when "/thread"
                Thread.new do
                  pid = fork
                  Process.wait(pid) if pid
                  env["rack.hijack"].call rescue puts "#{pid ? "parent" : "child"}: #{$!.class}"
                end
              when "/stream"
                next [200, {}, lambda do |stream|
                  Thread.new do
                    pid = fork
                    Process.wait(pid) if pid
                    stream << "alice" rescue puts "child: #{$!.class}"
                    stream.close
                  end
                end]
              end
              [200, {}, ["ok"]]
            end)
        """)
        connection = self.connect(loader)
        for path, lines in (("/thread", ["child: Cabrank::ClientGone", "parent: IOError"]),
                            ("/stream", ["child: Cabrank::ClientGone"])):
            connection.send(PATH_INFO=path)
            self.assertEqual(connection.answer().body, b"ok" if path == "/thread" else b"alice")
            self.assertEqual([self.line(loader) for _ in lines], lines)
            connection.send()
            self.assertEqual(connection.answer().body, b"ok")

    def test_a_request_that_becomes_a_daemon(self):
        loader = self.app("""
            run(lambda do |env|
              Process.daemon(true, true)
              File.write(File.join(__dir__, "pid"), Process.pid)
              [200, {}, ["of the daemon"]]
            end)
        """)
        connection = self.connect(loader)
        connection.send()
        self.assertIsNone(connection.frame())
        self.eventually(lambda: os.path.exists(os.path.join(loader.app_root, "pid")))
        self.eventually(lambda: not self.is_alive(loader))

    def test_a_child_of_a_system_call(self):
        """Ruby does not know that it is a child."""
        number = {"x86_64": "57", "aarch64": "220, 17, 0, 0, 0, 0"}.get(os.uname().machine)  # fork; clone with SIGCHLD
        if number is None:
            self.skipTest("the number of the system call is unknown")
        for act in ("next [200, {}, ['of the child']]", "raise 'of the child'", "throw :elsewhere", "env['rack.input'].read", "exit",
                    "next [200, {}, ->(stream) { stream << 'of the child' }]"):
            with self.subTest(act):
                loader = self.app(f"""
                    run ->(env) {{
                      if env["HTTP_AT"] == "fork"
                        if (pid = syscall({number})).zero?
                          sleep 0.05 until File.exist?(File.join(__dir__, "go"))
                          {act}
                          next [200, {{}}, ["of the child"]]
                        end
                        Thread.new {{ Process.wait(pid); puts "left" }}
                      elsif env["HTTP_AT"] == "slow"
                        puts "slow"
                        sleep 0.005 until File.exist?(File.join(__dir__, "end"))
                      end
                      [200, {{}}, [env["HTTP_COOKIE"]]]
                    }}
                """)
                connection = KeptConnection(loader)
                self.addCleanup(connection.close)
                connection.send(HTTP_AT="fork", HTTP_COOKIE="alice")
                self.assertEqual(connection.answer().body, b"alice")
                connection.send(HTTP_AT="slow", HTTP_COOKIE="bob")
                self.assertEqual(loader.lines.readline(), b"slow\n")
                open(os.path.join(loader.app_root, "go"), "w").close()
                self.assertEqual(loader.lines.readline(), b"left\n")
                open(os.path.join(loader.app_root, "end"), "w").close()
                self.assertEqual(connection.answer().body, b"bob")

    def test_a_child_of_a_signal_handler(self):
        loader = self.app("""
            at_exit { File.write(File.join(__dir__, "at_exit.#{Process.pid}"), "") }
            trap("USR1") { (pid = fork) ? Process.detach(pid) : File.write(File.join(__dir__, "pid"), Process.pid) }
            run ->(env) { [200, {}, ["ok"]] }
        """)
        connection = self.connect(loader)
        connection.send()
        self.assertEqual(connection.answer().body, b"ok")
        loader.process.send_signal(signal.SIGUSR1)
        self.eventually(lambda: os.path.exists(os.path.join(loader.app_root, "pid")))
        connection.send()
        self.assertEqual(connection.answer().body, b"ok")
        self.eventually(lambda: not self.is_alive(loader))
        self.assertEqual([name for name in os.listdir(loader.app_root) if name.startswith("at_exit")], [])

    def is_alive(self, loader):
        """Return whether the process of the file `pid` runs."""
        with open(os.path.join(loader.app_root, "pid")) as file:
            pid = file.read()
        return not pid or os.path.exists(f"/proc/{pid}/exe")

    def test_a_child_outside_of_a_request(self):
        loader = self.app("""
            at_exit { File.write(File.join(__dir__, "at_exit.#{Process.pid}"), "") }
            forks = ->(name) { (pid = fork) ? (Process.wait(pid); puts "#{name}: #{$?.exitstatus}"; true) : nil }
            forks.call("load")
            PhusionPassenger.on_event(:starting_worker_process) { forks.call("start") or exit 3 }
            PhusionPassenger.on_event(:starting_request_handler_thread) { forks.call("thread") }
            run ->(env) { [200, {}, ["ok"]] }
        """, app_threads=2)
        self.assertEqual(loader.output.split(), b"load: 0 start: 3".split())
        self.assertEqual([self.line(loader), self.line(loader)], ["thread: 0"] * 2, loader.read_stderr())
        connection = self.connect(loader)
        connection.send()
        self.assertEqual(connection.answer().body, b"ok")
        self.assertEqual([name for name in os.listdir(loader.app_root) if name.startswith("at_exit")], [])

    def test_over_a_session(self):
        loader = self.start_app()
        for point in ("call", "each", "close", "stream"):
            with self.subTest(point):
                for name in ("go", "end"):
                    if os.path.exists(os.path.join(loader.app_root, name)):
                        os.remove(os.path.join(loader.app_root, name))
                with loader.connect() as conn:
                    conn.sendall(head(HTTP_COOKIE="alice", HTTP_AT=point))
                    conn.shutdown(socket.SHUT_WR)
                    answer = b""
                    while part := conn.recv(1 << 16):  # ends: the child does not hold the connection open
                        answer += part
                self.assertTrue(answer.endswith(b"of alice"))
                open(os.path.join(loader.app_root, "go"), "w").close()
                self.assertEqual(self.line(loader), "child: 0")
                self.assertEqual(session(loader, HTTP_COOKIE="bob").body, b"of bob")
