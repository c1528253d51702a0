# frozen_string_literal: true

# The loop that serves requests, and the two protocols that carry them.

require_relative "rack-fork"
require_relative "rack-answer"
require_relative "rack-hijack"
require_relative "rack-input"

module Cabrank
  BUFFER = 64 << 10
  JOINED_MAX = 256 << 10 # a longer body is not copied
  HEAD_MAX = 1 << 20 # far above any real head: a guard against a peer that speaks another protocol
  HEAD_TIMEOUT = 10 # the server writes the head at once; a slower peer must not block the thread

  class << self
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Listens on a Unix socket that only this user can reach.
    def listen(path)
      socket = Socket.new(:UNIX, :STREAM)
      # With fchmod before bind, Linux creates the file with this mode. Changing the umask instead would affect every
      # thread of the application.
      File.for_fd(socket.fileno, autoclose: false).chmod(0o600)
      socket.bind(Socket.pack_sockaddr_un(path))
      socket.listen(1024)
      socket.autoclose = false
      UNIXServer.for_fd(socket.fileno)
    end
  end

  # Bytes that are certain to come, or an error.
  module Receiving
    # Returns up to `size` bytes, at least one.
    def receive(io, size, deadline = nil)
      if deadline && !IO.select([io], nil, nil, [deadline - Cabrank.now, 0].max)
        raise BadRequest, "the head did not arrive within #{HEAD_TIMEOUT} seconds"
      end

      io.readpartial(size)
    rescue EOFError
      nil
    rescue SystemCallError => e
      raise ClientGone, e.message
    end

    def checked_size(size)
      raise BadRequest, "the head claims a size of #{size} bytes" unless size > 1 && size <= HEAD_MAX

      size
    end
  end

  # A connection of the server. Each write is a whole step: after one that an exception has cut, nothing more is written.
  class Connection
    attr_reader :io
    # The body of the current request, or of one that was answered before its body had come.
    attr_accessor :input
    # The thread that serves the request, or what has taken the connection over from it: a Hijack or a Stream.
    attr_accessor :holder
    # Whether another thread reads this connection.
    attr_writer :is_away

    def initialize(io)
      @io = Cabrank.own(io)
      @input = nil
      @holder = nil
      @is_away = false
      @lock = Mutex.new # excludes the writes of an answer and its end
      @writer = nil # the thread that has the lock
      @generation = Cabrank.generation
      @is_torn = false
    end

    # Whether this process is a child that the application has forked, to which the connection does not belong.
    def foreign? = Cabrank.generation != @generation

    # Raises an error in a forked child of the application.
    def check_process
      raise ClientGone, "a forked process cannot use the request of its parent" if foreign?
    end

    # Runs the block while no other thread writes or ends the answer. The block calls no code of the application.
    def exclusively
      check_process
      # Ruby would wait for ever for a fiber of the same thread.
      if @lock.locked? && @writer.equal?(Thread.current) && Fiber.blocking?
        raise ClientGone, "a fiber of this thread is in the middle of a write"
      end

      @lock.synchronize do
        @writer = Thread.current
        yield
      ensure
        @writer = nil
      end
    end

    # Ends a forked child of the application.
    def stay(error = nil)
      Cabrank.leave(error) if foreign?
    end

    # Whether it can carry another protocol.
    def switches? = false

    # The default shows all that the loader has.
    def inspect = "#<#{self.class}>"

    private

    # Ruby writes the pieces by one system call, whatever their encodings.
    def put(*pieces)
      wholly { @io.write(*pieces) }
    rescue SystemCallError, IOError => e
      raise ClientGone, e.message
    end

    # Runs a step that leaves the answer out of step if an exception cuts it, such as one by Timeout or Thread#kill.
    def wholly
      check_process if FORKS.count != @generation
      raise ClientGone, "an exception has cut the answer" if @is_torn

      @is_torn = true
      yield
      @is_torn = false
    end

    def release
      Cabrank.disown(@io)
      @io.close
    end
  end

  # A connection that carries one request after another, in frames.
  class Kept < Connection
    include Receiving

    FRAME_MAX = (1 << 24) - 1
    HEAD = "H".ord << 24
    DATA = "D".ord << 24
    FINISH = "E\0\0\0".b.freeze
    ABORT = "A\0\0\0".b.freeze
    END_OF_REQUEST = ("\0" * 4).b.freeze
    FILE_STEP = 1 << 20

    def initialize(io)
      super
      @has_finished = false # whether the last answer has its end
    end

    # Returns the rest of a head that did not arrive as a whole, and where the head ends.
    def receive_head(data)
      deadline = Cabrank.now + HEAD_TIMEOUT
      data = data.dup
      loop do
        size = data.bytesize >= 4 ? 4 + checked_size(data.unpack1("N")) : nil
        return data, size if size && data.bytesize >= size

        more = receive(@io, BUFFER, deadline)
        raise BadRequest, "the head ended after #{data.bytesize} bytes" if more.nil?

        data << more
      end
    end

    # Binary: the bytes of the lengths are no characters.
    def new_head(kind = "H") = String.new("#{kind}\0\0\0", encoding: Encoding::BINARY, capacity: 512)

    # Sends an interim answer, which `new_head("I")` begins.
    def send_interim(head)
      fill_in(head)
      put(head)
    end

    def send_whole(head, parts, size)
      fill_in(head)
      if size.zero?
        finish(head)
      elsif parts.size == 1 && size <= FRAME_MAX
        finish(head << [DATA | size].pack("N"), parts[0])
      elsif size <= JOINED_MAX
        finish(head << [DATA | size].pack("N"), parts.map(&:b).join)
      else
        put(head)
        parts.each { |part| send_more(part) unless part.empty? }
        finish
      end
    end

    def start(head, chunk)
      fill_in(head)
      if chunk.empty?
        put(head)
      elsif chunk.bytesize <= FRAME_MAX
        put(head << [DATA | chunk.bytesize].pack("N"), chunk)
      else
        put(head)
        send_frames(chunk)
      end
    end

    def send_more(chunk)
      # The server half-closes to abandon a request. It goes on reading, so that the system accepts each write.
      check
      size = chunk.bytesize
      return if size.zero?
      return send_frames(chunk) if size > FRAME_MAX

      put([DATA | size].pack("N"), chunk)
    end

    # Sends the head and the file in frames of FILE_STEP bytes.
    def send_file(head, file, size)
      fill_in(head)
      return put(head) if size.zero?

      left = size
      while left.positive?
        step = [left, FILE_STEP].min
        copy_frame(head << [DATA | step].pack("N"), file, step)
        left -= step
        head = "".b
        check
      end
    end

    def conclude = nil

    # Sends the head of an answer 101. Bytes of another protocol follow, both ways, up to the end of the
    # connection: it never carries another request.
    def switch(head)
      fill_in(head)
      put(head)
    end

    def switches? = true

    # Ends the answer, after the last of it. The input ends first: the server may send the next request at once.
    def finish(head = "", part = "")
      return if @has_finished && head.empty? # an exception came after the end

      end_input if @input
      # As `wholly`, without the cost of a block: each request ends here.
      check_process if FORKS.count != @generation
      raise ClientGone, "an exception has cut the answer" if @is_torn

      @is_torn = true
      @io.write(head, part, FINISH)
      @has_finished = true
      @is_torn = false
    rescue SystemCallError, IOError => e
      raise ClientGone, e.message
    end

    def abort
      return if @has_finished # an exception came after the end

      @input&.finish
      put(ABORT)
    end

    # Whether the server keeps its side open after the request.
    def outlasts_request? = true

    # Raises ClientGone if the server has closed or half-closed the connection: the answer has no reader.
    def check
      check_process
      return if @is_away

      raise ClientGone, "the server has abandoned the request" if @input ? @input.broken_off? : ended?
    end

    # Returns whether the connection has ended, if no byte of a request is on its way.
    def ended?
      seen = @io.recv_nonblock(1, Socket::MSG_PEEK, exception: false)
      seen.nil? || (seen.is_a?(String) && seen.empty?)
    rescue SystemCallError
      true
    end

    def close
      return @io.close if foreign?

      @input&.finish
      # A forked child may hold the connection open, before Ruby 3.1. The server must see its end.
      @io.shutdown
    rescue SystemCallError, IOError
      # The server was first.
    ensure
      release
    end

    private

    def end_input
      return if @input.finish

      @is_torn = true
      raise ClientGone, "an exception has cut a read of the input"
    end

    def copy_frame(head, file, size)
      wholly do
        @io.write(head)
        raise "#{file.path} has become shorter" if IO.copy_stream(file, @io, size) < size
      end
    rescue Errno::EPIPE, Errno::ECONNRESET, IOError => e
      raise ClientGone, e.message
    end

    def fill_in(head)
      @has_finished = false
      head << "\r\n"
      size = head.bytesize - 4
      head.setbyte(1, size >> 16)
      head.setbyte(2, size >> 8 & 0xff)
      head.setbyte(3, size & 0xff)
    end

    def send_frames(chunk)
      at = 0
      while at < chunk.bytesize
        part = chunk.byteslice(at, FRAME_MAX)
        put([DATA | part.bytesize].pack("N"), part)
        at += part.bytesize
      end
    end
  end

  # A connection of the session protocol: it carries one request.
  #
  # How an answer ends. A complete answer ends when both sides see end of file after the last byte. The server detects an
  # answer that breaks off in two ways. With a Content-Length, fewer bytes arrive than declared. Without one, the server
  # reads ECONNRESET instead of end of file. For this the loader leaves the last byte of the request's head unread until
  # the application reads the body: Linux resets the peer of a Unix socket that is closed with unread input.
  class Session < Connection
    include Receiving

    DRAIN_TIMEOUT = 2

    def initialize(io)
      super
      @has_concluded = false
    end

    # Returns the head of the request without its last NUL, or nil if the peer connected without sending a request.
    def receive_head
      deadline = Cabrank.now + HEAD_TIMEOUT
      size = receive_exactly(4, deadline) or return
      receive_exactly(checked_size(size.unpack1("N")) - 1, deadline) or raise BadRequest, "the head is missing"
    end

    def new_head = String.new(capacity: 512)

    def send_whole(head, parts, _size)
      put(head << "\r\n", *parts)
      conclude
    end

    def start(head, chunk) = put(head << "\r\n", chunk)
    def send_more(chunk) = put(chunk)

    def send_file(head, file, size)
      put(head << "\r\n")
      wholly { raise "#{file.path} has become shorter" if IO.copy_stream(file, @io, size) < size }
    rescue Errno::EPIPE, Errno::ECONNRESET, IOError => e
      raise ClientGone, e.message
    end

    def pong
      put("pong")
      conclude
    end

    # The server sees the end at once, before the application cleans up.
    def conclude
      wholly { @io.close_write }
      @has_concluded = true
    rescue SystemCallError, IOError => e
      raise ClientGone, e.message
    end

    # The protocol can express neither: the close of the connection does it.
    def finish = nil
    def abort = nil

    # Whether the server keeps its side open after the request: half-closing is how it ends each.
    def outlasts_request? = false

    # Reads the rest of the request, because closing with unread input would look like an incomplete answer.
    #
    # The server has seen the end of the answer and stops sending. The deadline guards against a server that does not.
    def close
      return @io.close if foreign?

      @input&.finish
      deadline = Cabrank.now + DRAIN_TIMEOUT
      if @has_concluded
        while (left = deadline - Cabrank.now).positive? && IO.select([@io], nil, nil, left)
          break unless receive(@io, BUFFER)
        end
      end
    rescue ClientGone, IOError
      # Nothing is left to read.
    ensure
      release
    end

    private

    def receive_exactly(size, deadline)
      data = String.new
      while data.bytesize < size
        part = receive(@io, size - data.bytesize, deadline)
        return if part.nil? && data.empty?
        raise BadRequest, "the head ended after #{data.bytesize} of #{size} bytes" if part.nil?

        data << part
      end
      data
    end
  end

  # The process can serve no further request. This is not a StandardError, as `Terminated`.
  class Unusable < Exception; end # rubocop:disable Lint/InheritException

  # Serves one request at a time, of any connection, or as many as there are threads.
  #
  # The main thread waits for requests. Without other threads it serves them itself. Otherwise a connection with a request
  # goes away to one of the threads, and comes back by `take_back`.
  #
  # An error that comes while the main thread is between two requests, by a signal's handler or `Thread.main.raise`, harms none:
  # the thread logs it, and goes on.
  class Server
    # The time in seconds for which a thread waits for the next request of the same connection.
    LINGER = 0.0005

    def initialize(application, main_path, kept_path, password, threads: 1, sends_early_hints: false)
      @application = application
      @generation = Cabrank.generation
      @environment = Environment.new(password, is_multithreaded: threads > 1)
      @requests = Thread::Queue.new if threads > 1 # connections with a request
      @threads = threads
      @sends_early_hints = sends_early_hints
      @buffer = String.new(capacity: BUFFER)
      @connections = {}.compare_by_identity # by socket
      @returned = [] # connections that were away, and whether they are free; each step of other threads is one call
      @accepts = false # whether a socket may have been accepted that has no connection yet
      @coming = nil # the one of them that the main thread takes back
      @wake, @waker = IO.pipe.each { |io| Cabrank.own(io) }
      @is_closed = false
      @paths = []
      @main_listener = listen(main_path)
      @kept_listener = listen(kept_path)
    end

    # Serves until `control` is readable.
    def run(control)
      # A request to leave comes first: IO.select keeps this order.
      @readers = [control, @main_listener, @kept_listener, @wake]
      @workers = @requests ? Array.new(@threads) { |index| start_thread(index + 1) } : []
      failure = nil
      # An error may come while another one is rescued. So there are two loops.
      while true
        begin
          while true
            begin
              survive(failure) if failure
              failure = nil
              return take_turns(control)
            rescue Terminated, Unusable, SystemExit # `exit` of a signal's handler means the process
              raise
            rescue Exception => e # rubocop:disable Lint/RescueException
              failure = e # `survive` comes outside of `rescue`: this error would be the cause of each later one
            end
          end
        rescue Terminated, Unusable, SystemExit
          raise
        rescue Exception => e # rubocop:disable Lint/RescueException
          failure = e
        end
      end
    end

    # Removes the sockets, and ends the connections that wait for a request: the process may live on, until `at_exit` and threads
    # of the application have come to their end. A request that came here meanwhile would wait as long.
    def close
      @paths.each do |path|
        File.unlink(path)
      rescue SystemCallError
        # The server has removed it already.
      end
      [@main_listener, @kept_listener].each do |listener|
        listener.shutdown # a forked child may hold it open
        listener.close
      rescue SystemCallError, IOError
        # The application has closed it.
      end
      @is_closed = true
      @connections.values.push(*@current).each(&:close)
      close_returned
    end

    # Takes a connection back whose answer has outlived the call of the application, or no connection and a thread that the
    # application has ended. Any thread may call it.
    def take_back(connection, is_free)
      @returned << [connection, is_free]
      return close_returned if @is_closed

      @waker.write_nonblock(".", exception: false)
    end

    def log(error) = Cabrank.log(Cabrank.describe(error))

    private

    def take_turns(control)
      while true
        IO.select(@readers)[0].each do |io|
          Cabrank.leave(nil) if FORKS.count != @generation # a signal handler of the application has forked
          if (connection = @connections[io]) then turn(connection)
          elsif io.equal?(control) then return finish
          elsif io.equal?(@main_listener) then accept(io, Session)
          elsif io.equal?(@kept_listener) then accept(io, Kept)
          else resume
          end
        end
      end
    end

    # Serves the request of a connection, or gives it to the other threads.
    def turn(connection)
      @current = connection # until nothing can be lost any more
      if @requests
        dismiss(connection, :away)
        @requests << connection
      else
        connection.holder = Thread.current
        if connection.is_a?(Session) then serve_session(connection)
        else dismiss(connection, serve_kept(connection, @buffer))
        end
      end
      @current = nil
    end

    # Goes on after an error outside of the application's code for a request. A connection that was in use ends, unless a hijack
    # or a stream has it.
    def survive(error)
      Cabrank.leave(error) if FORKS.count != @generation
      if (connection = @current)
        dismiss(connection, connection.holder.nil? || connection.holder.is_a?(Thread) ? false : :away)
        @current = nil
      end
      # The wake-up may have been read, and the connection that it was for taken out.
      if (connection, worker = @coming)
        connection ? dismiss(connection, false) : replace(worker)
        @coming = nil
      end
      come_back until @returned.empty?
      # The error may have lost a socket on its way to its connection. The server must see its end, and not wait for an answer.
      GC.start if @accepts
      @accepts = false
      @workers.reject(&:alive?).each { |worker| replace(worker) } unless @requests.nil? || @requests.closed?
      check
      log(error)
    end

    # Raises an error if the application has closed a socket of the loader. The next wait would fail, too, and so for ever.
    #
    # Another thread looks: an error of a signal's handler comes to the main thread, and may be of the same class.
    def check
      failure = Thread.new do
        IO.select(@readers, nil, nil, 0)
        nil
      rescue SystemCallError, IOError => e
        e
      end.value
      raise Unusable, "the application has closed a socket of the loader: #{failure.message}" if failure
    end

    # Starts a thread that serves requests. An error of its first callbacks ends the process, as it does on the main thread.
    def start_thread(number)
      thread = Thread.new do
        begin_thread
        work
      end
      thread.name = "request thread #{number}"
      thread.report_on_exception = false
      thread.abort_on_exception = true
      thread
    end

    def begin_thread
      PhusionPassenger.call_event(:starting_request_handler_thread)
    rescue Terminated, SystemExit
      raise
    rescue Exception => e # rubocop:disable Lint/RescueException
      raise Unusable, "a callback of :starting_request_handler_thread has failed: #{e.message}"
    end

    # Serves requests until the process leaves. Code of the application may raise an error in this thread or kill it, also
    # between two requests: a watchdog that is late. Another thread takes this one's place then.
    def work
      has_finished = false
      buffer = String.new(capacity: BUFFER)
      while (connection = @requests.pop)
        serve_away(connection, buffer)
      end
      has_finished = true
    rescue Exception => e # rubocop:disable Lint/RescueException
      Cabrank.leave(e) if FORKS.count != @generation
      log(e)
    ensure
      take_back(nil, Thread.current) unless has_finished
    end

    # Serves the request of a connection, and further ones that follow at once.
    def serve_away(connection, buffer)
      is_free = nil
      connection.holder = Thread.current
      if connection.is_a?(Session)
        serve_session(connection)
      else
        is_free = serve_kept(connection, buffer)
        # Under load the next request comes at once, and mostly by the connection that the server used last.
        while is_free == true && @requests.empty? && connection.io.wait_readable(LINGER)
          is_free = nil
          is_free = serve_kept(connection, buffer)
        end
      end
      # An error of another thread waits meanwhile: a connection that comes back twice would be closed while it is in use.
      Thread.handle_interrupt(Object => :never) do
        if connection.holder.equal?(Thread.current)
          connection.holder = nil
          take_back(connection, is_free) unless is_free.nil?
        end
      end
    ensure
      # Code of the application has ended this thread: in a request, whose answer never ends, or between two of them. A hijacked
      # connection belongs to another thread, and may even carry the next request by now.
      take_back(connection, is_free == true) if connection.holder.equal?(Thread.current)
    end

    # Waits until the threads have served all requests that have come.
    def finish
      @requests&.close
      @workers.each { |worker| worker.join if worker.alive? } # `join` raises the error of a thread that has failed, each time
    end

    def listen(path)
      listener = Cabrank.own(Cabrank.listen(path))
      @paths << path
      listener
    end

    # Accepts a connection of this kind.
    def accept(listener, kind)
      @accepts = true
      socket = accept_socket(listener) or return
      @current = kind.new(socket)
      @accepts = false
      if kind == Kept
        keep(@current)
        @current = nil
      else
        turn(@current)
      end
    end

    def accept_socket(listener)
      socket = listener.accept_nonblock(exception: false)
      socket unless socket == :wait_readable
    rescue SystemCallError => e
      Cabrank.log("rack-loader: cannot accept a connection: #{e.message}\n")
      sleep(0.1) # the process is probably out of descriptors: do not spin
      nil
    end

    def keep(connection)
      @connections[connection.io] = connection
      @readers << connection.io
    end

    # Follows up on a request of a connection by the result of `answer`.
    def dismiss(connection, is_free)
      return if is_free == true

      @connections.delete(connection.io)
      @readers.delete(connection.io)
      connection.close if is_free == false
    end

    # Ends the connections that come back after the end.
    def close_returned
      while (returned = @returned.shift)
        returned[0]&.close
      end
    end

    # Continues with the connections that are no longer away.
    def resume
      @wake.read_nonblock(BUFFER, exception: false)
      come_back until @returned.empty?
    end

    # Takes back the connection, or replaces the thread, that came first. Ruby raises no error of another thread or of a handler
    # between the call and the assignment of its result.
    def come_back
      @coming = @returned.shift
      connection, is_free = @coming
      if connection.nil?
        replace(is_free)
      else
        connection.holder = nil
        is_free = is_free == true && connection.is_a?(Kept) && !connection.io.closed? && leave(connection)
        is_free ? keep(connection) : connection.close
      end
      @coming = nil
    end

    # Starts a thread for one that the application has ended.
    def replace(worker)
      index = @workers.index(worker) or return
      @workers[index] = start_thread(index + 1)
    end

    def serve_session(session)
      block = session.receive_head or return session.close
      env = @environment.make(block)
      if env["REQUEST_METHOD"] == "PING"
        session.pong
        return session.close
      end
      length = env["CONTENT_LENGTH"]
      if length && !length.empty? && !length.match?(/\A[0-9]+\z/)
        raise BadRequest, "invalid CONTENT_LENGTH #{length.inspect}"
      end

      length = length && !length.empty? ? length.to_i : nil
      session.input = SessionInput.new(session.io, length)
      env["rack.input"] = RewindableInput.new(session.input, length)
    rescue BadRequest, ClientGone => e
      Cabrank.log("rack-loader: refused a connection: #{e.message}\n")
      session.close
    else
      session.close unless answer(session, env) == :away
    end

    # Serves the next request of a connection. Returns whether the connection is free, as `answer` does.
    def serve_kept(kept, buffer)
      data = kept.io.read_nonblock(BUFFER, buffer, exception: false)
      return true if data == :wait_readable
      return false if data.nil?

      if (input = kept.input)
        data = input.discard(data)
        return true unless input.ended?

        kept.input = nil
        return true if data.empty?
      end
      count = data.bytesize
      size = count >= 4 ? 4 + kept.checked_size(data.unpack1("N")) : BUFFER
      data, size = kept.receive_head(data) if count < size
      env = @environment.make(data.byteslice(4, size - 5))
      env["rack.input"] = input_of(kept, data, size, env["CONTENT_LENGTH"])
    rescue BadRequest, ClientGone => e
      Cabrank.log("rack-loader: refused a connection: #{e.message}\n")
      false
    rescue SystemCallError
      false
    else
      result = answer(kept, env)
      result == true ? leave(kept) : result
    end

    # Returns `rack.input` for the bytes behind the head.
    def input_of(kept, data, size, length)
      behind = data.bytesize - size
      if behind >= 4 && data.end_with?(Kept::END_OF_REQUEST)
        return NoInput.new if behind == 4
        # One frame with the whole body.
        if behind > 8 && data.byteslice(size, 4).unpack1("N") == behind - 8
          return WholeInput.new(data.byteslice(size + 4, behind - 8))
        end
      end
      kept.input = KeptInput.new(kept.io, data.byteslice(size..))
      RewindableInput.new(kept.input, length && !length.empty? ? length.to_i : nil)
    end

    # Leaves a connection whose answer has ended. Returns whether the connection stays open.
    def leave(kept)
      input = kept.input or return true
      rest = input.discard("")
      return true unless input.ended?

      kept.input = nil
      # The server waits for the end of the answer before it sends the next request.
      rest.empty?
    end

    # Lets the application answer. Returns true if the connection is free, false if it must be closed, and `:away` if
    # the answer is written by another thread.
    def answer(connection, env)
      exchange = Exchange.new(self, connection, env)
      env["rack.hijack"] = exchange
      # The session protocol has no interim answers.
      env["rack.early_hints"] = exchange.method(:send_early_hints) if @sends_early_hints && connection.is_a?(Kept)
      begin
        status, headers, body = @application.call(env)
        Cabrank.leave(nil) if FORKS.count != @generation
        result = exchange.respond(status, headers, body)
      rescue Terminated => e
        connection.stay(e)
        raise
      rescue ClientGone => e
        connection.stay(e)
        exchange.lost(e)
      rescue Exception => e # rubocop:disable Lint/RescueException
        # `exit` in a request fails that request, and does not end the process.
        connection.stay(e)
        log(e)
        begin
          exchange.fail(e)
        rescue Terminated
          raise
        rescue Exception => second # rubocop:disable Lint/RescueException
          connection.stay(second)
          log(second) unless ClientGone === second # rubocop:disable Style/CaseEquality -- `is_a?` may be the application's
          exchange.give_up
          false
        end
      ensure
        connection.stay if result.nil? # after a `throw`, or the end of the thread
      end
    end
  end
end
