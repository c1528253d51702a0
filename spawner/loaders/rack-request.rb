# frozen_string_literal: true

# The request as the application sees it: `env` and `rack.input`.

module Cabrank
  # The server, or the client behind it, is gone: the answer has no reader, or the rest of the body no writer.
  class ClientGone < IOError; end

  # A request that the loader does not take.
  class BadRequest < StandardError; end

  # Makes the `env` of requests.
  class Environment
    # The keys whose strings all requests share. The server sends the first nine with each request.
    BASE = {
      "REQUEST_METHOD" => "", "REQUEST_URI" => nil, "SCRIPT_NAME" => "", "PATH_INFO" => "", "QUERY_STRING" => "",
      "SERVER_NAME" => "localhost", "SERVER_PORT" => nil, "SERVER_PROTOCOL" => "HTTP/1.1",
      "SERVER_SOFTWARE" => "cabrank", "PASSENGER_CONNECT_PASSWORD" => nil,
      "rack.version" => [1, 3].freeze, "rack.url_scheme" => "http", "rack.input" => nil, "rack.errors" => nil,
      "rack.multithread" => false, "rack.multiprocess" => true, "rack.run_once" => false,
      "rack.hijack?" => true, "rack.hijack" => nil, "rack.response_finished" => nil
    }.freeze

    HTTPS = /\A(?:on|1|yes|true)\z/i.freeze
    private_constant :HTTPS

    def initialize(password, is_multithreaded:)
      @base = BASE.merge("rack.multithread" => is_multithreaded).freeze
      right = password.b.freeze
      right_hash = right.hash
      # The comparison takes constant time: the hash has a secret key, and strings of different hashes are not compared.
      # A variable of a block is in no dump of objects.
      @knows_password = ->(given) { given && given.hash == right_hash && given == right }
    end

    # Returns the `env`, without `rack.input` and `rack.hijack`, for the pairs of a request's head.
    #
    # The block is the head without its last NUL. Its strings are binary.
    def make(block)
      fields = block.split("\0", -1)
      count = fields.size
      raise BadRequest, "a name in the head has no value" if count.odd?

      env = @base.dup
      index = 0
      while index < count
        env[fields[index]] = fields[index + 1]
        index += 2
      end
      raise BadRequest, "wrong connect password" unless @knows_password.call(env.delete("PASSENGER_CONNECT_PASSWORD"))
      raise BadRequest, "the head has no REQUEST_METHOD" if env["REQUEST_METHOD"].empty?

      correct(env)
      env["rack.errors"] = $stderr
      env["rack.response_finished"] = []
      env
    end

    private

    def correct(env)
      # Rack applications decode the path themselves.
      uri = env["REQUEST_URI"]
      if uri.nil?
        env.delete("REQUEST_URI")
      elsif uri.start_with?("/")
        mark = uri.index("?")
        path = mark ? uri.byteslice(0, mark) : uri.dup
        mount = env["SCRIPT_NAME"]
        path = path.byteslice(mount.bytesize..) if !mount.empty? && path.start_with?(mount)
        env["PATH_INFO"] = path
      end
      # CGI names these two without prefix. If both spellings existed, two layers could believe different values.
      rename(env, "HTTP_CONTENT_TYPE", "CONTENT_TYPE") if env.key?("HTTP_CONTENT_TYPE")
      rename(env, "HTTP_CONTENT_LENGTH", "CONTENT_LENGTH") if env.key?("HTTP_CONTENT_LENGTH")
      https = env["HTTPS"]
      env["rack.url_scheme"] = "https" if https && HTTPS.match?(https)
      env["SERVER_PORT"] ||= env["rack.url_scheme"] == "https" ? "443" : "80"
    end

    def rename(env, name, plain)
      value = env.delete(name)
      env[plain] = value unless env.key?(plain)
    end
  end

  # `rack.input` of a request without a body. Each request has its own, because the application may add to it.
  class NoInput
    def read(length = nil, buffer = nil)
      buffer&.clear
      length.nil? || length.zero? ? buffer || String.new : nil
    end

    def gets(*) = nil
    def read_some = nil
    def each = self
    def rewind = 0
    def close = nil
    def size = 0
    alias length size
    def eof? = true
    def binmode = self
    def external_encoding = Encoding::BINARY
  end

  # Loads `stringio`, after the gems of the application were set up: one of them may be another version of it.
  # `WholeInput` is the `rack.input` of a body that came with its head.
  def self.load_stringio
    require "stringio"
    const_set(:WholeInput, Class.new(StringIO) { def read_some = read(1 << 20) })
  end

  # `rack.input` of a body that comes in parts. A subclass has `more`, which returns the next part, or nil at the end.
  class Input
    def initialize
      @part = nil # bytes that `more` has returned
      @at = 0 # the first of them that was not read
    end

    # Reads as IO#read does: the rest of the body, or up to `length` bytes, fewer only at the end.
    def read(length = nil, buffer = nil)
      result = buffer ? buffer.clear.force_encoding(Encoding::BINARY) : String.new
      return result if length&.zero?

      missing = length
      while (missing.nil? || missing.positive?) && fill
        size = @part.bytesize - @at
        size = missing if missing && missing < size
        result << (@at.zero? && size == @part.bytesize ? @part : @part.byteslice(@at, size))
        @at += size
        missing -= size if missing
      end
      length && result.empty? ? nil : result
    end

    # Returns the next bytes, at least one, or nil at the end.
    def read_some
      return unless fill

      part = @part.byteslice(@at..)
      @part = nil
      part
    end

    # Reads the next line with its line break, or the rest of the body.
    def gets
      result = nil
      while fill
        result ||= String.new
        line_end = @part.index("\n", @at)
        size = (line_end ? line_end + 1 : @part.bytesize) - @at
        result << @part.byteslice(@at, size)
        @at += size
        break if line_end
      end
      result
    end

    def each
      return enum_for(:each) unless block_given?

      while (line = gets)
        yield line
      end
      self
    end

    def eof? = !fill
    def close = nil
    def binmode = self
    def external_encoding = Encoding::BINARY

    private

    # Returns whether there is a byte to read.
    def fill
      while @part.nil? || @at == @part.bytesize
        @at = 0
        @part = more or return false
      end
      true
    end
  end

  # Adds `rewind` and `size` to an Input: it keeps all that was read, in memory or in a file.
  #
  # Rack 2 demands `rewind`. Rack 3 does not, but servers that receive a body before they call the application have both, and
  # applications use them.
  #
  # A forked process shares the file and its position with its parent. So it may use none of both.
  class RewindableInput
    IN_MEMORY = 128 * 1024

    # `length` is the request's CONTENT_LENGTH, or nil.
    def initialize(input, length)
      @input = input
      @length = length
      @seen = StringIO.new(String.new)
    end

    # Returns the length of the body. If the client has sent none, the whole body has to come first.
    def size
      @input.check_process
      @length ||= begin
        position = @seen.pos
        @seen.seek(0, IO::SEEK_END)
        while (data = @input.read(IN_MEMORY))
          keep(data)
        end
        length = @seen.pos
        @seen.pos = position
        length
      end
    end
    alias length size

    def read(length = nil, buffer = nil)
      @input.check_process
      buffer&.clear
      result = @seen.read(length, *buffer)
      missing = length && length - (result ? result.bytesize : 0)
      return result if missing&.zero?

      fresh = keep(@input.read(missing)) or return result
      return buffer ? buffer.replace(fresh) : fresh if result.nil? || result.empty?

      result << fresh
    end

    def gets
      @input.check_process
      line = @seen.gets
      return line if line&.end_with?("\n")

      fresh = keep(@input.gets)
      line && fresh ? line << fresh : line || fresh
    end

    def each
      return enum_for(:each) unless block_given?

      while (line = gets)
        yield line
      end
      self
    end

    # Returns the next bytes that were not read yet. They cannot be rewound.
    def read_some = @input.read_some

    def rewind
      @input.check_process
      @seen.rewind
    end

    def eof?
      @input.check_process
      @seen.eof? && @input.eof?
    end

    def close = nil
    def binmode = self
    def external_encoding = Encoding::BINARY

    private

    def keep(data)
      return data if data.nil? || data.empty?

      move_to_file if @seen.is_a?(StringIO) && @seen.size + data.bytesize > IN_MEMORY
      @seen.write(data)
      data
    end

    def move_to_file
      require "tempfile"
      file = Tempfile.create("cabrank", binmode: true)
      File.unlink(file.path)
      file.write(@seen.string)
      @seen = file
    end
  end
end
