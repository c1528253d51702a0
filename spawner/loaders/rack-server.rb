# frozen_string_literal: true

# The loop that serves requests, and the two protocols that carry them.

require_relative "rack-answer"

module Cabrank
  BUFFER = 64 << 10
  JOINED_MAX = 256 << 10 # a longer body is not copied
  HEAD_MAX = 1 << 20 # far above any real head: a guard against a peer that speaks another protocol
  HEAD_TIMEOUT = 10 # the server writes the head at once; a slower peer must not block the thread

  # The number of forks between this process and its first ancestor that had loaded this file.
  @generation = 0

  class << self
    attr_accessor :generation

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

  # Notices each fork of the application.
  module ForkWatch
    def _fork
      pid = super
      Cabrank.generation += 1 if pid.zero?
      pid
    end
  end

  if Process.respond_to?(:_fork)
    Process.singleton_class.prepend(ForkWatch)
  else # before Ruby 3.1
    def self.generation = Process.pid
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

  # A connection that carries one request after another, in frames.
  class Kept
    include Receiving

    FRAME_MAX = (1 << 24) - 1
    HEAD = "H".ord << 24
    DATA = "D".ord << 24
    FINISH = "E\0\0\0".b.freeze
    ABORT = "A\0\0\0".b.freeze
    END_OF_REQUEST = ("\0" * 4).b.freeze
    FILE_STEP = 1 << 20

    attr_reader :io
    # The body of the current request, or of one that was answered before its body had come.
    attr_accessor :input
    # Whether another thread reads this connection.
    attr_writer :is_away

    def initialize(io)
      @io = io
      @input = nil
      @is_away = false
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
        put(head, FINISH)
      elsif parts.size == 1 && size <= FRAME_MAX
        put(head << [DATA | size].pack("N"), parts[0], FINISH)
      elsif size <= JOINED_MAX
        put(head << [DATA | size].pack("N"), parts.map(&:b).join, FINISH)
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

    # Yields the number of bytes after each step.
    def send_file(head, file, size)
      fill_in(head)
      head << [DATA | [size, FILE_STEP].min].pack("N") unless size.zero?
      put(head)
      left = size
      while left.positive?
        step = [left, FILE_STEP].min
        copied = IO.copy_stream(file, @io, step)
        yield copied
        raise IOError, "#{file.path} has become shorter" if copied < step

        left -= step
        check
        put([DATA | [left, FILE_STEP].min].pack("N")) if left.positive?
      end
    rescue Errno::EPIPE, Errno::ECONNRESET => e
      raise ClientGone, e.message
    end

    def conclude = nil
    def finish = put(FINISH)
    def abort = put(ABORT)

    # Whether the server keeps its side open after the request.
    def outlasts_request? = true

    # Raises ClientGone if the server has closed or half-closed the connection: the answer has no reader.
    def check
      return if @is_away

      raise ClientGone, "the server has abandoned the request" if @input.is_a?(KeptInput) ? @input.broken_off? : ended?
    end

    # Returns whether the connection has ended, if no byte of a request is on its way.
    def ended?
      seen = @io.recv_nonblock(1, Socket::MSG_PEEK, exception: false)
      seen.nil? || (seen.is_a?(String) && seen.empty?)
    rescue SystemCallError
      true
    end

    def close
      # A forked child of the application may hold the connection open. The server must see its end.
      @io.shutdown
    rescue SystemCallError, IOError
      # The server was first.
    ensure
      @io.close
    end

    private

    def fill_in(head)
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

    # Ruby writes the pieces by one system call, whatever their encodings.
    def put(*pieces)
      @io.write(*pieces)
    rescue SystemCallError, IOError => e
      raise ClientGone, e.message
    end
  end

  # The request's body, in the frames of a kept session.
  class KeptInput < Input
    include Receiving

    UNREAD_MAX = 1 << 20

    def initialize(io, data)
      super()
      @io = io # nil after the request
      @data = data # bytes that were received
      @used = 0 # the number of them that were used
      @left = 0 # bytes of the current frame
      @has_ended = false
    end

    # The application may keep the input longer than the request.
    def detach
      @io = nil
    end

    def ended? = @has_ended

    def more
      raise ClientGone, "the request has ended" if @io.nil?

      until next?
        part = receive(@io, BUFFER)
        # End of file would make half an upload look complete.
        raise ClientGone, "the client left before the end of the request's body" if part.nil?

        add(part)
      end
      take
    end

    # Discards more of the body that the application did not read. Returns the bytes behind the end of the body.
    def discard(data)
      add(data)
      take while next? && !@has_ended
      @has_ended ? @data.byteslice(@used..) : ""
    end

    # Returns whether the server has closed its side. Reads ahead for it, within a bound.
    def broken_off?
      loop do
        return false if @data.bytesize - @used > UNREAD_MAX

        part = @io.read_nonblock(BUFFER, exception: false)
        return false if part == :wait_readable
        return true if part.nil?

        add(part)
      end
    rescue SystemCallError
      true
    end

    private

    def add(data)
      @data = @data.byteslice(@used..) << data
      @used = 0
    end

    # Goes to the next byte of the body. Returns whether it, or the end of the body, has been received.
    def next?
      while @left.zero? && !@has_ended
        return false if @data.bytesize - @used < 4

        @left = @data.byteslice(@used, 4).unpack1("N")
        @used += 4
        @has_ended = @left.zero?
      end
      @has_ended || @used < @data.bytesize
    end

    # Returns the bytes of the current frame that have been received, or nil at the end.
    def take
      return nil if @has_ended

      part = @data.byteslice(@used, @left)
      @used += part.bytesize
      @left -= part.bytesize
      part
    end
  end

  # A connection of the session protocol: it carries one request.
  #
  # How an answer ends. A complete answer ends when both sides see end of file after the last byte. The server detects an
  # answer that breaks off in two ways. With a Content-Length, fewer bytes arrive than declared. Without one, the server
  # reads ECONNRESET instead of end of file. For this the loader leaves the last byte of the request's head unread until
  # the application reads the body: Linux resets the peer of a Unix socket that is closed with unread input.
  class Session
    include Receiving

    DRAIN_TIMEOUT = 2

    attr_reader :io
    attr_accessor :input
    attr_writer :is_away

    def initialize(io)
      @io = io
      @input = nil
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
      copied = IO.copy_stream(file, @io, size)
      yield copied
      raise IOError, "#{file.path} has become shorter" if copied < size
    rescue Errno::EPIPE, Errno::ECONNRESET => e
      raise ClientGone, e.message
    end

    def pong
      put("pong")
      conclude
    end

    # The server sees the end at once, before the application cleans up.
    def conclude
      @io.close_write
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
      deadline = Cabrank.now + DRAIN_TIMEOUT
      if @has_concluded
        while (left = deadline - Cabrank.now).positive? && IO.select([@io], nil, nil, left)
          break unless receive(@io, BUFFER)
        end
      end
    rescue ClientGone
      # Nothing is left to read.
    ensure
      @io.close
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

    def put(*pieces)
      @io.write(*pieces)
    rescue SystemCallError, IOError => e
      raise ClientGone, e.message
    end
  end

  # The request's body in the session protocol: CONTENT_LENGTH bytes, or else all until the server half-closes.
  class SessionInput < Input
    include Receiving

    def initialize(io, length)
      super()
      @io = io
      @left = length
      @head_is_open = true
    end

    def more
      return if @left&.zero?

      if @head_is_open
        raise ClientGone, "the request's head has no end" unless receive(@io, 1) == "\0"

        @head_is_open = false
      end
      part = receive(@io, @left ? [BUFFER, @left].min : BUFFER)
      if part.nil?
        # End of file would make half an upload look complete.
        raise ClientGone, "the client left before the last #{@left} bytes of the request's body" if @left

        @left = 0
      elsif @left
        @left -= part.bytesize
      end
      part
    end

    def detach = @left = 0
  end

  # Serves one request at a time, of any connection, or as many as there are threads.
  #
  # The main thread waits for requests. Without other threads it serves them itself. Otherwise a connection with a request
  # goes away to one of the threads, and comes back by `take_back`.
  class Server
    # The time in seconds for which a thread waits for the next request of the same connection.
    LINGER = 0.0005

    def initialize(application, main_path, kept_path, password, threads: 1, sends_early_hints: false)
      @application = application
      @environment = Environment.new(password, is_multithreaded: threads > 1)
      @generation = Cabrank.generation
      @demands_rewind = Rack.release.to_i < 3
      @requests = Thread::Queue.new if threads > 1 # connections with a request
      @threads = threads
      @sends_early_hints = sends_early_hints
      @buffer = String.new(capacity: BUFFER)
      @connections = {}.compare_by_identity # by socket
      @returned = Thread::Queue.new # connections that were away, and whether they are free
      @wake, @waker = IO.pipe
      @paths = []
      @main_listener = listen(main_path)
      @kept_listener = listen(kept_path)
    end

    # Serves until `control` is readable.
    def run(control)
      # A request to leave comes first: IO.select keeps this order.
      @readers = [control, @main_listener, @kept_listener, @wake]
      workers = @requests ? Array.new(@threads) { |index| start_thread(index + 1) } : []
      while true
        IO.select(@readers)[0].each do |io|
          if (connection = @connections[io])
            dismiss(connection, @requests ? hand_over(connection) : serve_kept(connection, @buffer))
          elsif io.equal?(control) then return finish(workers)
          elsif io.equal?(@main_listener)
            accept(io) { |socket| @requests ? hand_over(Session.new(socket)) : serve_session(Session.new(socket)) }
          elsif io.equal?(@kept_listener) then accept(io) { |socket| keep(Kept.new(socket)) }
          else resume
          end
        end
      end
    end

    # Removes the sockets.
    def close
      @paths.each do |path|
        File.unlink(path)
      rescue SystemCallError
        # The server has removed it already.
      end
    end

    # Takes a connection back whose answer has outlived the call of the application. Any thread may call it.
    def take_back(connection, is_free)
      @returned << [connection, is_free]
      @waker.write_nonblock(".", exception: false)
    end

    def log(error)
      STDERR.write(Cabrank.describe(error))
    end

    private

    # Starts a thread that serves requests. An error on it ends the process, as it does on the main thread.
    def start_thread(number)
      thread = Thread.new do
        PhusionPassenger.call_event(:starting_request_handler_thread)
        buffer = String.new(capacity: BUFFER)
        while (connection = @requests.pop)
          if connection.is_a?(Session)
            serve_session(connection)
          else
            is_free = serve_kept(connection, buffer)
            # Under load the next request comes at once, and mostly by the connection that the server used last.
            is_free = serve_kept(connection, buffer) while is_free == true && @requests.empty? && connection.io.wait_readable(LINGER)
            take_back(connection, is_free) unless is_free == :away
          end
        end
      end
      thread.name = "request thread #{number}"
      thread.report_on_exception = false
      thread.abort_on_exception = true
      thread
    end

    # Gives a connection with a request to the other threads.
    def hand_over(connection)
      @requests << connection
      :away
    end

    # Waits until the threads have served all requests that have come.
    def finish(workers)
      @requests&.close
      workers.each(&:join)
    end

    def listen(path)
      listener = Cabrank.listen(path)
      @paths << path
      listener
    end

    def accept(listener)
      socket = listener.accept_nonblock(exception: false)
      yield socket unless socket == :wait_readable
    rescue SystemCallError => e
      STDERR.write("rack-loader: cannot accept a connection: #{e.message}\n")
      sleep(0.1) # the process is probably out of descriptors: do not spin
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

    # Continues with the connections that are no longer away.
    def resume
      @wake.read_nonblock(BUFFER, exception: false)
      until @returned.empty?
        connection, is_free = @returned.pop
        is_free &&= connection.is_a?(Kept) && leave(connection)
        is_free ? keep(connection) : connection.close
      end
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

      session.input = SessionInput.new(session.io, length && !length.empty? ? length.to_i : nil)
      env["rack.input"] = @demands_rewind ? RewindableInput.new(session.input) : session.input
    rescue BadRequest, ClientGone => e
      STDERR.write("rack-loader: refused a connection: #{e.message}\n")
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
      env["rack.input"] = input_of(kept, data, size)
    rescue BadRequest, ClientGone => e
      STDERR.write("rack-loader: refused a connection: #{e.message}\n")
      false
    rescue SystemCallError
      false
    else
      result = answer(kept, env)
      result == true ? leave(kept) : result
    end

    # Returns `rack.input` for the bytes behind the head.
    def input_of(kept, data, size)
      behind = data.bytesize - size
      if behind >= 4 && data.end_with?(Kept::END_OF_REQUEST)
        return NoInput if behind == 4
        # One frame with the whole body.
        if behind > 8 && data.byteslice(size, 4).unpack1("N") == behind - 8
          return WholeInput.new(data.byteslice(size + 4, behind - 8))
        end
      end
      kept.input = KeptInput.new(kept.io, data.byteslice(size..))
      @demands_rewind ? RewindableInput.new(kept.input) : kept.input
    end

    # Leaves a connection whose answer has ended. Returns whether the connection stays open.
    def leave(kept)
      input = kept.input or return true
      input.detach
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
        exit if Cabrank.generation != @generation
        exchange.respond(status, headers, body)
      rescue Terminated
        raise
      rescue ClientGone => e
        exchange.finished(nil, nil, e)
        false
      rescue Exception => e # rubocop:disable Lint/RescueException
        # `exit` in a request fails that request, and does not end the process. But a forked child exits: connections
        # and loop belong to the parent.
        raise if Cabrank.generation != @generation

        log(e)
        begin
          exchange.fail(e)
        rescue ClientGone
          false
        end
      end
    end
  end
end
