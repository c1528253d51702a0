# frozen_string_literal: true

# One answer: from status, headers and body of the application to the bytes for the server.

require_relative "rack-request"

module Cabrank
  # What was found out about statuses and header names. Applications use few of them, again and again.
  module Head
    REMEMBERED_MAX = 1000
    SIZE_MAX = (128 << 10) - 100 # the server accepts 128 KiB, with the length and the empty line
    NAME = /\A[!#$%&'*+.^_`|~0-9A-Za-z-]+\z/.freeze
    PLAIN_VALUE = /\A[\t\x20-\x7e]*\z/.freeze
    CONTROL_CHARACTER = /[\x00-\x08\x0a-\x1f\x7f]/n.freeze
    WITHOUT_BODY = [204, 304].freeze
    # A hop-by-hop header concerns the connection, which belongs to the server. `Status` is CGI's name of the status.
    NOT_SENT = %w[connection keep-alive proxy-authenticate proxy-authorization te trailer trailers upgrade status].freeze

    @status_lines = {}
    @prefixes = {}

    class << self
      def status_line(status)
        @status_lines[status] || check_status(status)
      end

      # Returns the beginning of the header's line, or for a header with a meaning here its kind.
      def prefix(name)
        @prefixes[name] || check_name(name)
      end

      private

      def check_status(status)
        number = Integer(status)
        raise ArgumentError, "invalid status: #{status.inspect}" unless number.between?(200, 999)

        line = "Status: #{number} #{Rack::Utils::HTTP_STATUS_CODES[number]}".rstrip << "\r\n"
        remember(@status_lines, status, line)
      end

      def check_name(name)
        raise ArgumentError, "invalid header name: #{name.inspect}" unless name.is_a?(String) && name.match?(NAME)

        lower = name.downcase
        kind = if lower == "content-length" then :length
               elsif lower == "rack.hijack" then :hijack
               elsif lower == "transfer-encoding" then :encoding
               elsif lower.start_with?("rack.") || NOT_SENT.include?(lower) then :not_sent
               else "#{name}: "
               end
        remember(@prefixes, name.dup.freeze, kind)
      end

      def remember(memory, key, value)
        memory[key] = value.freeze if memory.size < REMEMBERED_MAX
        value
      end
    end
  end

  # One request and its answer. It is `rack.hijack`, too: calling it takes the connection over.
  class Exchange
    DIGITS = /\A[0-9]+\z/.freeze
    NOTHING = "".b.freeze

    def initialize(server, connection, env)
      @server = server
      @connection = connection
      @env = env
      @is_answering = false # whether the application has returned or failed
      @is_hijacked = false # also while a thread tries to
      @has_hinted = false
      @has_ended = false # after this, each method for the application raises an error
      @head = nil # without the empty line
      @has_started = false # whether the server has got the head
      @is_bodyless = false
      @declared = nil # the Content-Length
      @sent = 0
      @decoder = nil # for a body that the application has chunked
      @hijack = nil
      @stream = nil
    end

    # `rack.hijack`: gives the application a socket. It writes a whole HTTP/1.1 answer there.
    def call
      exclusively do
        @is_hijacked = true # before the look at `@is_answering`
        if @has_ended || (@is_answering && @hijack.nil?)
          raise IOError, "the answer has begun, and the connection cannot be hijacked"
        end

        @hijack ||= Hijack.new(@server, self, @connection, @env["rack.input"])
      ensure
        @is_hijacked = !@hijack.nil?
      end
      @env["rack.hijack_io"] = @hijack.application_side
    end

    # `rack.early_hints`: sends the headers to the client before the answer.
    def send_early_hints(headers)
      @connection.check_process
      head = @connection.new_head("I") << "Status: 103 Early Hints\r\n"
      headers.each do |name, value|
        prefix = Head.prefix(name)
        add_values(head, name, prefix, value) if prefix.is_a?(String)
      end
      @connection.stay
      @has_hinted = true # before the look at `@is_answering`
      exclusively do
        raise IOError, "the answer has begun" if @is_answering || @hijack

        @connection.send_interim(head)
      end
    end

    # Sends the application's answer. Returns whether the connection is free: `:away` if the answer outlives this call.
    def respond(status, headers, body)
      return hijacked(body) unless begin_answer

      hijacker = make_head(status, headers)
      @connection.stay unless headers.instance_of?(Hash)
      return partially_hijacked(hijacker, body) if hijacker

      callbacks = @env["rack.response_finished"]
      has_callbacks = callbacks && !callbacks.empty?
      return true if !has_callbacks && body.instance_of?(Array) && send_whole(body)

      is_away = send_body(body)
      finished(status, headers, nil) if has_callbacks
      return :away if is_away == :away

      @connection.finish
      true
    end

    # Answers for an application that has failed. Returns whether the connection is free.
    def fail(error)
      return :away if @stream&.away? # an error of another thread came after `stream`: the stream hands the connection back

      unless begin_answer
        @hijack.fail
        return :away
      end
      send_failure
      finished(nil, nil, error)
      if ended?
        @connection.finish
        return true
      end
      exclusively { give_up }
      @connection.abort
      false
    end

    # Ends an answer whose server has gone. The connection is closed, and with it each write in progress.
    def lost(error)
      return fail(error) if @hijack || @stream&.away?

      give_up
      finished(nil, nil, error)
      false
    end

    # Refuses further writes, before the connection is closed.
    def give_up
      @is_answering = @has_ended = true
    end

    # Runs the application's callbacks of `rack.response_finished`.
    def finished(status, headers, error)
      @env["rack.response_finished"]&.reverse_each do |callback|
        callback.call(@env, status, headers, error)
        @connection.stay
      rescue Terminated
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException -- `exit` in a callback does not end the process
        @connection.stay(e)
        @server.log(e)
      end
    end

    def started? = @has_started
    def ended? = @has_ended

    def exclusively(&block) = @connection.exclusively(&block)

    # Sends the head of an answer that the application has written to a hijacked connection.
    def start(status, headers)
      make_head(status, headers)
      send_head
    end

    # Sends the head of an answer 101: the connection is no longer one of frames.
    def switch(headers)
      upgrade = headers.find { |name, _| name.casecmp?("upgrade") }&.last or
        raise IOError, "the answer 101 names no protocol (Upgrade)"
      make_head(200, headers)
      raise IOError, "the answer 101 has a body" if @declared || @decoder

      head = @connection.new_head << "Status: 101 Switching Protocols\r\n"
      add_values(head, "Upgrade", "Upgrade: ", upgrade)
      head << @head.byteslice(@head.index("\r\n") + 2..)
      exclusively do
        raise IOError, "the answer has begun, and cannot switch to another protocol" if @has_started || ended?

        @has_started = @has_ended = true
        @connection.switch(head)
      end
    end

    # Whether the client has asked for another protocol, and this connection can carry it.
    def may_switch? = @connection.switches? && @env.key?("HTTP_UPGRADE")

    # Sends a part of the body.
    def write(chunk)
      raise TypeError, "the body must consist of strings, not #{chunk.class}" unless chunk.is_a?(String)
      raise IOError, "the answer has ended" if ended?

      chunk = own(chunk) || String.new(chunk)
      return if chunk.empty? # the head waits for the first part: the application may still fail

      exclusively { put(chunk) }
    end

    # Ends the answer after the last byte of its body.
    def conclude = exclusively { end_body }

    # Does what `conclude` does, for a caller that excludes others itself.
    def end_body
      raise IOError, "the answer has ended" if ended?

      unless @has_started
        suggest_length(0)
        @has_started = true
        @connection.start(@head, NOTHING)
      end
      if @declared && !@is_bodyless && @sent < @declared
        raise "the body has #{@sent} bytes, but its Content-Length is #{@declared}"
      end
      raise "the chunked body has no end" if @decoder && !@decoder.ended?

      @has_ended = true
      @connection.conclude
    end

    # The default shows all that the loader has.
    def inspect = "#<#{self.class}>"

    private

    # Excludes hijacking and early hints from now on. Returns whether the application has not hijacked the connection.
    #
    # The usual answer takes no lock. Each of two threads sets its flag before it looks at the other's, here and in `call`.
    # So one of them sees both, and `call` decides under the lock.
    def begin_answer
      @is_answering = true
      return true unless @is_hijacked

      exclusively { @hijack.nil? }
    end

    def send_head
      exclusively do
        @has_started = true
        @connection.start(@head, NOTHING)
      end
    end

    def put(chunk)
      raise IOError, "the answer has ended" if ended? # while this thread waited

      chunk = @decoder.decode(chunk) if @decoder
      excess = 0
      if @is_bodyless
        chunk = NOTHING
      elsif @declared
        excess = @sent + chunk.bytesize - @declared
        chunk = chunk.byteslice(0, chunk.bytesize - excess) if excess.positive?
      end
      if @has_started
        @connection.send_more(chunk)
      else
        @has_started = true
        @connection.start(@head, chunk)
      end
      @sent += chunk.bytesize
      return unless excess.positive?

      end_body # the declared length has been sent
      raise "the body is longer than its Content-Length of #{@declared}"
    end

    # Makes the head. Returns what the header `rack.hijack` names, if it is there.
    def make_head(status, headers)
      line = Head.status_line(status)
      head = @connection.new_head << line
      @is_bodyless = @env["REQUEST_METHOD"] == "HEAD" || Head::WITHOUT_BODY.include?(status.to_i)
      hijacker = nil
      headers.each do |name, value|
        prefix = Head.prefix(name)
        if prefix.is_a?(String)
          if value.instance_of?(String) && value.ascii_only? && value.match?(Head::PLAIN_VALUE)
            head << prefix << value << "\r\n"
          else
            add_values(head, name, prefix, value)
          end
        elsif prefix == :length
          declare(value)
          head << "Content-Length: #{@declared}\r\n"
        elsif prefix == :hijack
          hijacker = value if value.respond_to?(:call)
        elsif prefix == :encoding && value.to_s.strip.casecmp?("chunked")
          @decoder = Dechunker.new
        end
      end
      raise ArgumentError, "the headers have #{head.bytesize} bytes, which is too many" if head.bytesize > Head::SIZE_MAX

      @head = head
      hijacker
    end

    # Adds a header with several values, or with characters beyond ASCII. Rack 3 has arrays, Rack 2 joins values by line
    # breaks.
    def add_values(head, name, prefix, value)
      if value.is_a?(Array)
        value.each { |one| add_values(head, name, prefix, one) }
        return
      end
      return if value.nil?

      value.to_s.b.split("\n").each do |one|
        if one.match?(Head::CONTROL_CHARACTER)
          raise ArgumentError, "the header #{name} has a control character: #{value.inspect}"
        end

        head << prefix << one << "\r\n"
      end
    end

    def declare(value)
      value = value.first if value.is_a?(Array) && value.size == 1
      text = value.to_s
      raise ArgumentError, "invalid or repeated Content-Length: #{value.inspect}" if @declared || !text.match?(DIGITS)

      @declared = text.to_i
    end

    # Adds a Content-Length, unless the application has set one, or the answer has no body or is chunked.
    def suggest_length(size)
      return if @is_bodyless || @declared || @decoder

      @declared = size
      @head << "Content-Length: #{size}\r\n"
    end

    # Sends an answer whose body is an array, with its end, if that needs no further look at it.
    def send_whole(parts)
      parts = parts.size == 1 && (part = own(parts[0])) ? [part] : parts.map { |one| own(one) || (return false) }
      size = part ? part.bytesize : parts.sum(&:bytesize)
      return false if @decoder || (@declared && @declared != size && !@is_bodyless)

      suggest_length(size)
      exclusively { nil } if @has_hinted # waits for another thread's early hints
      @has_started = true
      @connection.send_whole(@head, @is_bodyless ? [] : parts, @is_bodyless ? 0 : size)
      @has_ended = true
    end

    # Returns the string, or a copy if another thread could change it, and so the length of its frame. Returns nil for an
    # object of another class: its methods are the application's.
    def own(part)
      return unless part.instance_of?(String)

      part.frozen? ? part : part.b
    end

    def size_of(parts)
      parts.sum do |part|
        raise TypeError, "the body must consist of strings, not #{part.class}" unless part.is_a?(String)

        part.bytesize
      end
    end

    # Sends the body, and closes it. Returns `:away` if the body is written after this call.
    def send_body(body)
      return conclude if @is_bodyless
      return conclude if body.respond_to?(:to_path) && send_file(body)

      if body.respond_to?(:to_ary) && (parts = body.to_ary)
        @connection.stay
        size = size_of(parts)
        suggest_length(size)
        if parts.size > 1 && size <= JOINED_MAX
          write(parts.map(&:b).join)
        else
          parts.each { |part| write(part) }
        end
      elsif body.respond_to?(:each)
        body.each do |part|
          @connection.stay
          write(part)
        end
      elsif body.respond_to?(:call)
        is_streaming = true
        return stream(body)
      else
        raise TypeError, "the body has no method `each` or `call`: #{body.class}"
      end
      @connection.stay
      conclude
    ensure
      close(body) unless is_streaming
    end

    def close(body)
      @connection.stay($!)
      body.close if body.respond_to?(:close)
      @connection.stay($!)
    end

    # Sends a file without copying it through this process. Returns whether it did.
    def send_file(body)
      path = body.to_path
      @connection.stay
      return false unless path && !@decoder && File.file?(path)

      File.open(path, "rb") do |file|
        size = file.size
        return false if @declared && @declared != size

        suggest_length(size)
        exclusively do
          @has_started = true
          @connection.send_file(@head, file, size)
          @sent = size
        end
      end
      true
    end

    # Calls a streaming body of Rack 3, and closes it. Returns `:away` if the application closes the stream later.
    #
    # The body is closed before another thread may hand the connection back: an error of `close` would otherwise end the answer
    # to the next request.
    def stream(body)
      send_head
      @stream = Stream.new(@server, self, @connection, @env["rack.input"])
      begin
        body.call(@stream)
      ensure
        close(body)
      end
      @connection.stay
      @stream.called
    end

    def hijacked(body)
      close(body)
      :away
    end

    def partially_hijacked(hijacker, body)
      send_head
      exclusively do
        @is_hijacked = true
        @hijack = Hijack.new(@server, self, @connection, @env["rack.input"])
      end
      hijacker.call(@hijack.application_side)
      @connection.stay
      :away
    ensure
      close(body)
    end

    # Sends an error, unless the answer has begun. It is one step, because a thread of the application may still write.
    def send_failure
      exclusively do
        next if @has_started || ended?

        @declared = @decoder = nil
        text = "The application failed to answer this request. The server's log has the details.\n"
        make_head(500, { "Content-Type" => "text/plain; charset=utf-8" })
        suggest_length(text.bytesize)
        put(text)
        end_body
      end
    end
  end

  # Decodes the body of an application that applies `Transfer-Encoding: chunked` itself.
  class Dechunker
    def initialize
      @data = String.new
      @missing = 0 # bytes of the current chunk
      @state = :size
    end

    def ended? = @state == :ended

    # Returns the data in the next bytes.
    def decode(bytes)
      @data << bytes.b
      result = String.new
      loop do
        case @state
        when :size
          line = @data.slice!(/\A[^\n]*\n/n) or break
          @missing = Integer(line[/\A[0-9a-f]+/i] || raise(IOError, "invalid chunk: #{line.inspect}"), 16)
          @state = @missing.zero? ? :trailer : :data
        when :data
          part = @data.slice!(0, @missing)
          @missing -= part.bytesize
          result << part
          break unless @missing.zero?

          @state = :gap
        when :gap
          @data.slice!(/\A\r?\n/n) or break
          @state = :size
        when :trailer
          line = @data.slice!(/\A[^\n]*\n/n) or break
          @state = :ended if line.chomp.empty?
        else break
        end
      end
      result
    end
  end
end
