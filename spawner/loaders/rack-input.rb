# frozen_string_literal: true

# `rack.input` of a body that comes by the connection.

require_relative "rack-request"

module Cabrank
  # An input that yields bytes of its own request only.
  #
  # The application may read it in any thread, and keep it after the answer has ended. The next request comes by the same
  # connection. So a lock guards each look at the connection:
  #
  # - A thread waits for bytes without the lock, and receives them under the lock without waiting. While the lock is free,
  #   no read is in progress.
  # - One thread at a time watches the connection, and only it receives then. Others wait for it.
  # - The end of the request takes the lock, too. Later reads raise ClientGone before they look at the connection.
  class ConnectionInput < Input
    FIBER_WAIT = 0.1 # seconds

    def initialize(io)
      super()
      @io = io
      @generation = Cabrank.generation
      @lock = Mutex.new # no code of the application runs under it
      @owner = Thread.current # the thread that answers the request, which does not end while this thread waits
      @is_over = false
      @is_torn = false # whether an exception may have lost received bytes
      @watcher = nil # the thread that waits for bytes of the connection
      @waker = nil # a pipe that wakes it at the end of the request
      @watch_ended = ConditionVariable.new
    end

    def more
      check_process
      loop do
        part = @lock.synchronize { part_or_watch }
        return part unless part == :watch

        wait
      ensure
        unwatch if @watcher.equal?(Thread.current)
      end
    end

    # Notes that the request may end while its first thread waits.
    def release
      @owner = nil
    end

    # Raises ClientGone in a forked process: the request is its parent's.
    def check_process
      return if Cabrank.generation == @generation

      raise ClientGone, "a forked process cannot read the request of its parent"
    end

    # Ends the request for all threads. Returns whether the bytes behind the request are still in place.
    def finish
      @lock.synchronize do
        @is_over = true
        @waker&.last&.write_nonblock(".", exception: false)
        @watch_ended.broadcast
        close_waker unless @watcher
      end
      !@is_torn
    end

    # The default shows all that the loader has.
    def inspect = "#<#{self.class}>"

    private

    # Received bytes of a request that has ended are not handed out either: a read of the rest must not look complete.
    def fill
      raise ClientGone, "the request has ended" if @is_over

      super
    end

    # Returns the next part, nil at the end, or `:watch` if this thread has to watch the connection.
    def part_or_watch
      loop do
        raise ClientGone, "the request has ended" if @is_over

        part = next_part
        return part unless part == :none
        break unless others_watch?

        @watch_ended.wait(@lock)
      end
      @waker ||= IO.pipe.each { |io| Cabrank.own(io) } unless @owner.equal?(Thread.current)
      @watcher = Thread.current
      :watch
    end

    def others_watch? = @watcher && !@watcher.equal?(Thread.current)

    # Waits until there may be bytes, or the request has ended.
    def wait
      if Fiber.scheduler && !Fiber.blocking?
        # The request may end while this fiber waits. Before Ruby 3.2, IO.select would block the other fibers.
        @io.wait_readable(FIBER_WAIT)
      elsif @waker
        IO.select([@io, @waker[0]])
      else
        @io.wait_readable
      end
    rescue SystemCallError, IOError
      # The connection was closed meanwhile.
    end

    def unwatch
      @lock.synchronize do
        @watcher = nil
        @watch_ended.broadcast
        close_waker if @is_over
      end
    end

    def close_waker
      @waker&.each do |io|
        Cabrank.disown(io)
        io.close
      end
      @waker = nil
    end

    # Yields up to `size` bytes that have come, or nil at the end of the connection. Returns false if none have come, or
    # another thread watches.
    #
    # No other code of Ruby runs between the system call and the block, except an exception from another thread or from a
    # signal handler.
    def receive(size)
      return false if others_watch?

      @is_torn = true
      # Unlike `read_nonblock`, it leaves the scheduler of fibers alone, which could switch to another fiber here.
      bytes = @io.recv_nonblock(size, exception: false)
      if bytes == :wait_readable
        @is_torn = false
        return false
      end
      bytes = nil if bytes&.empty? # before Ruby 3.3
      yield bytes
      @is_torn = false
      true
    rescue SystemCallError => e
      raise ClientGone, e.message
    end
  end

  # The request's body, in the frames of a kept session.
  class KeptInput < ConnectionInput
    UNREAD_MAX = 1 << 20

    def initialize(io, data)
      super(io)
      @data = data # bytes that were received
      @used = 0 # the number of them that were used
      @left = 0 # bytes of the current frame
      @has_ended = false
    end

    def ended? = @has_ended

    # Discards more of the body, after the request. Returns the bytes behind the end of the body.
    def discard(data)
      add(data)
      take while next? && !@has_ended
      return "" unless @has_ended

      behind = @data.byteslice(@used..)
      @data = @data.byteslice(0, @used) # the application may keep this object, and must not find the next request in it
      behind
    end

    # Returns whether the server has closed its side. Reads ahead for it, within a bound.
    def broken_off?
      @lock.synchronize do
        return false if @is_over
        return seen_end? if @watcher

        until @data.bytesize - @used > UNREAD_MAX
          is_at_end = false
          receive(BUFFER) { |bytes| bytes ? add(bytes) : is_at_end = true } or return false
          return true if is_at_end
        end
      end
      false
    rescue ClientGone
      true
    end

    private

    def seen_end?
      seen = @io.recv_nonblock(1, Socket::MSG_PEEK, exception: false)
      seen.nil? || (seen.is_a?(String) && seen.empty?)
    rescue SystemCallError
      true
    end

    def next_part
      is_at_end = false
      until next?
        receive(BUFFER) { |bytes| bytes ? add(bytes) : is_at_end = true } or return :none
        # End of file would make half an upload look complete.
        raise ClientGone, "the client left before the end of the request's body" if is_at_end
      end
      take
    end

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

  # The request's body in the session protocol: CONTENT_LENGTH bytes, or else all until the server half-closes.
  class SessionInput < ConnectionInput
    def initialize(io, length)
      super(io)
      @left = length
      @head_is_open = true
    end

    private

    def next_part
      return if @left&.zero?

      if @head_is_open
        last = nil
        receive(1) { |bytes| last = bytes } or return :none
        raise ClientGone, "the request's head has no end" unless last == "\0"

        @head_is_open = false
      end
      part = nil
      receive(@left ? [BUFFER, @left].min : BUFFER) { |bytes| part = count(bytes) } or return :none
      part
    end

    # Returns the bytes, or nil at the end of the body.
    def count(bytes)
      if bytes
        @left -= bytes.bytesize if @left
        return bytes
      end
      # End of file would make half an upload look complete.
      raise ClientGone, "the client left before the last #{@left} bytes of the request's body" if @left

      @left = 0
      nil
    end
  end
end
