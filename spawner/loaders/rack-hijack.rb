# frozen_string_literal: true

# Answers that outlive the call of the application: `rack.hijack`, full and partial, and streaming bodies.

require_relative "rack-answer"

module Cabrank
  # A connection that the application reads and writes as a socket.
  #
  # The application gets one end of a pair, because the server's connection carries frames. One thread copies the request
  # and another the answer, until the application closes its end.
  class Hijack
    HEAD_MAX = 1 << 20

    attr_reader :application_side

    # The head of a full hijack is the application's: it writes an HTTP/1.1 answer.
    def initialize(server, exchange, connection, input)
      @server = server
      @exchange = exchange
      @connection = connection
      @input = input
      @is_abandoned = false
      @is_switched = false # whether the connection carries another protocol
      @application_side, @side = UNIXSocket.pair
      # A forked child that held the application's end would keep the answer from ending.
      [@side, @application_side].each { |io| Cabrank.own(io) }
      connection.is_away = true
      connection.holder = self
      connection.input&.release
      # Its end must not cut what it does, but only its last wait.
      @reader = start { Thread.handle_interrupt(Object => :never) { copy_request } }
      start { finish(copy_answer) }
    end

    # Ends a hijack whose application has failed.
    def fail
      @application_side.close
    end

    # The default shows all that the loader has.
    def inspect = "#<#{self.class}>"

    private

    def start(&work)
      Thread.new(&work).tap { |thread| thread.report_on_exception = false }
    end

    def copy_request
      while (part = @input.read_some)
        @side.write(part)
      end
      return unless @connection.outlasts_request?

      Thread.handle_interrupt(Object => :immediate) { IO.select([@connection.io]) }
      # The client of another protocol sends only after the answer 101.
      return copy_input if @is_switched

      abandon if @connection.ended?
    rescue ClientGone
      abandon
    rescue SystemCallError
      # The application has closed its end.
    end

    # Copies the bytes of another protocol to the application, up to their end.
    def copy_input
      io = @connection.io
      while true
        @side.write(io.readpartial(BUFFER))
        Thread.handle_interrupt(Object => :immediate) { IO.select([io]) }
      end
    rescue EOFError
      # The application may go on writing.
      @side.close_write
    end

    # Copies the bytes of another protocol to the client, up to the end of the application's side.
    def copy_output(bytes)
      while bytes
        @connection.io.write(bytes)
        bytes = receive
      end
    rescue SystemCallError
      # The client has left.
    end

    def abandon
      @is_abandoned = true
      @side.shutdown
    end

    # Returns whether the answer is complete.
    def copy_answer
      pending = @exchange.started? ? nil : String.new
      while (bytes = receive)
        if pending
          raise IOError, "the answer's head is too long" if pending.bytesize + bytes.bytesize > HEAD_MAX

          bytes = start_answer(pending << bytes) or next
          pending = nil
          if @is_switched
            copy_output(bytes)
            return false
          end
        end
        @exchange.write(bytes)
      end
      return false if @is_abandoned
      raise IOError, "the application closed the connection before the end of its answer's head" if pending

      @exchange.conclude
      true
    rescue ClientGone
      false
    rescue StandardError => e
      @server.log(e)
      false
    end

    # Starts the answer if its head is complete. Returns the bytes behind the head.
    def start_answer(data)
      head, separator, rest = data.partition(/\r?\n\r?\n/n)
      return if separator.empty?

      status_line, *lines = head.split(/\r?\n/n)
      headers = lines.map { |line| line.split(/:[ \t]*/n, 2) }
      if @exchange.may_switch? && status_line.match?(%r{\AHTTP/1\.1 101\b}n)
        @is_switched = true # before the client learns of it, and sends
        @exchange.switch(headers)
        return rest
      end
      status = status_line[%r{\AHTTP/1\.[01] ([2-9][0-9]{2})\b}n, 1] or
        raise IOError, "the answer does not begin with a status line of HTTP/1.1: #{status_line.inspect}"
      @exchange.start(status.to_i, headers)
      rest
    end

    def receive
      @side.readpartial(BUFFER)
    rescue EOFError, SystemCallError
      nil
    end

    def finish(is_complete)
      # The next request must not reach the reader. These two end each other wait of it.
      @connection.input&.finish
      @side.shutdown
      @reader.kill
      @reader.join
      [@side, @application_side].each { |io| Cabrank.disown(io) }
      @side.close
      @exchange.give_up unless is_complete
      @connection.is_away = false
      if is_complete
        @connection.finish
      elsif !@is_switched # a frame would be bytes of the other protocol
        @connection.abort
      end
    rescue ClientGone
      is_complete = false
    ensure
      @server.take_back(@connection, is_complete)
    end
  end

  # The argument of a streaming body of Rack 3.
  class Stream
    def initialize(server, exchange, connection, input)
      @server = server
      @exchange = exchange
      @connection = connection
      @input = input
      @is_closed = false
      @is_away = false
      @is_lost = false # the client has left
    end

    def read(length = nil, buffer = nil) = @input.read(length, buffer)

    def write(*chunks)
      raise IOError, "the stream is closed" if @is_closed

      chunks.sum do |chunk|
        @exchange.write(chunk = chunk.to_s)
        chunk.bytesize
      end
    rescue ClientGone
      # The error ends most threads that write, so `close` may never come.
      give_up
      raise
    ensure
      # A part beyond the Content-Length has ended the answer. The application may never call `close` after that error.
      close if @is_away && @exchange.ended?
    end

    def <<(chunk)
      write(chunk)
      self
    end

    # Ends the answer. Of several threads that call it, one does.
    def close
      return if @connection.foreign? # a forked child: the stream is its parent's

      is_away = is_complete = false
      @exchange.exclusively do
        return if @is_closed

        @is_closed = true
        is_away = @is_away
        # A part beyond the Content-Length has ended it already, or the loader has given it up.
        @exchange.end_body unless @exchange.ended?
      end
      is_complete = true
      nil
    ensure
      hand_back(is_complete) if is_away
    end

    def flush = self
    def close_read = nil
    def close_write = close
    def closed? = @is_closed || @exchange.ended?

    # Whether the answer belongs to the stream since the body's `call` has returned. `close` hands the connection back then.
    def away? = @is_away

    # Notes that the body's `call` has returned. Returns `:away` if the answer has not ended.
    def called
      @exchange.exclusively do
        return if @exchange.ended?
        raise ClientGone if @is_lost
        raise IOError, "the answer is not complete" if @is_closed

        @connection.input&.release
        @connection.holder = self
        @is_away = true
      end
      :away
    end

    # The default shows all that the loader has.
    def inspect = "#<#{self.class}>"

    private

    # Ends an answer that is away without its rest. Before that, `called` ends it.
    def give_up
      @exchange.exclusively do
        @is_lost = true
        return if @is_closed || !@is_away

        @is_closed = true
      end
      hand_back(false)
    end

    # Gives the connection back, from another thread than the request's.
    def hand_back(is_complete)
      @connection.finish if is_complete
    rescue ClientGone
      is_complete = false
    ensure
      @server.take_back(@connection, is_complete)
    end
  end
end
