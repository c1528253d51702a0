"""Rack: fibers that a scheduler runs later, and that are in the middle of a read or a write when the answer ends."""

from common import RackLoader
from driver import KeptConnection, frame, head

APP = """
    # The smallest scheduler: a fiber that waits is resumed when its thread waits, or by `Fiber.set_scheduler(nil)`.
    class Scheduler
      def initialize = (@waiting, @ready, @lock = {}, [], Mutex.new)
      def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
      def io_wait(io, events, timeout)
        @waiting[Fiber.current] = [io, events, timeout && Cabrank.now + timeout]
        Fiber.yield
      end
      def kernel_sleep(*) = (@ready << Fiber.current; Fiber.yield)
      def block(*) = (@waiting[Fiber.current] = nil; Fiber.yield)
      def unblock(_, fiber) = (@waiting.delete(fiber); @ready << fiber)
      def fiber_interrupt(*) = nil
      def run
        5_000.times do
          ready, @ready = @ready, []
          ready.each { |fiber| fiber.resume if fiber.alive? }
          due = @waiting.select { |_, wait| wait && due?(*wait) }.keys
          due.each { |fiber| fiber.resume(@waiting.delete(fiber)[1]) if fiber.alive? }
          return if @waiting.empty? && @ready.empty?
          sleep 0.001 if due.empty? && ready.empty?
        end
      end
      def due?(io, events, deadline) = io.closed? || io.wait(events, 0) || (deadline && deadline <= Cabrank.now)
      alias close run
    end

    try = lambda do |name, &block|
      puts "#{name}: #{block.call.inspect[0, 20]}"
    rescue Exception => e
      puts "#{name}: #{e.class}"
    end

    run(lambda do |env|
      input = env["rack.input"]
      case env["PATH_INFO"]
      when "/read"
        input.read(1)
        Fiber.set_scheduler(Scheduler.new)
        Fiber.schedule { try.call("read") { loop { input.read(100) } } }
        [200, {}, ["left"]]
      when "/write"
        Fiber.set_scheduler(Scheduler.new)
        body = Object.new
        body.define_singleton_method(:each) do |&write|
          write.call("begun")
          Fiber.schedule { try.call("write") { write.call("x" * 3_000_000) } }
        end
        [200, {}, body]
      else
        Fiber.set_scheduler(nil)
        [200, {}, ["#{env["HTTP_COOKIE"]} #{input.read}"]]
      end
    end)
"""


class RackFibers(RackLoader):
    def connect(self, loader):
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        return connection

    def test_a_read_that_waits_at_the_end(self):
        loader = self.app(APP)
        connection = self.connect(loader)
        connection.conn.sendall(head(PATH_INFO="/read") + frame(b"alice")[:6])
        self.assertEqual(connection.answer().body, b"left")
        connection.conn.sendall(b"ice" + frame(b""))
        connection.send(b"the body", HTTP_COOKIE="bob")
        self.assertEqual(connection.answer().body, b"bob the body")
        self.assertEqual(loader.lines.readline(), b"read: Cabrank::ClientGone\n")

    def test_a_write_that_waits_at_the_end(self):
        loader = self.app(APP)
        connection, other = self.connect(loader), self.connect(loader)
        connection.send(PATH_INFO="/write")
        self.eventually(lambda: self.has_closed(connection))
        other.send(b"the body", HTTP_COOKIE="bob")
        self.assertEqual(other.answer().body, b"bob the body")
        self.assertRegex(loader.lines.readline(), rb"write: (Cabrank::ClientGone|IOError)\n")
        data = b""
        while part := connection.conn.recv(1 << 16):
            data += part
        self.assertEqual(data.partition(b"begun")[2][4:].strip(b"x"), b"")

    def has_closed(self, connection):
        import select
        closed = select.poll()
        closed.register(connection.conn, select.POLLRDHUP)
        return closed.poll(0)
