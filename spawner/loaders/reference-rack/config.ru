# frozen_string_literal: true

# The reference application of conformance.py for the Rack loader.

require "socket"

# The path /steps: what the player of walks commands (walks.py).
class Steps
  def initialize(env)
    @input, @control, @mark = env.values_at("rack.input", "HTTP_CONTROL", "HTTP_MARK")
    @is_child = false
  end

  # The block writes: a thread may keep it.
  def each(&write)
    @write = write
    obey("request", "read" => method(:read), "write" => method(:write), "fork" => method(:fork_child),
                    "leave-reader" => -> { leave("reader", "read" => method(:read)) },
                    "leave-writer" => -> { leave("writer", "write" => method(:write)) })
  end

  private

  def obey(kind, commands)
    UNIXSocket.open(@control) do |control|
      control.puts "#{kind} #{@mark}"
      while (command = control.gets&.chomp)
        return if %w[end end-answer].include?(command)
        raise "asked to abort" if command == "abort"

        reply = commands.fetch(command).call
        return if @is_child && kind != "child" # a child goes on as its parent would

        control.puts reply
      end
    end
  end

  def read = attempt { "got #{@input.read(10)}" }

  def write
    attempt do
      @write.call(@mark)
      "ok"
    end
  end

  def attempt
    yield
  rescue StandardError
    "error"
  end

  def leave(kind, commands)
    Thread.new { obey(kind, commands) }.report_on_exception = false
    "ok"
  end

  def fork_child
    return "ok" if fork

    @is_child = true
    obey("child", "try" => -> { "#{read},#{write}" })
  end
end

class Stream
  def initialize(input) = @input = input

  def each
    yield "one"
    nil while @input.read(1000)
    yield "two"
  end
end

class Late
  def each
    yield "begun"
    raise "asked to fail late"
  end
end

endless = Enumerator.new { |out| loop { out << "x" * 1000 } }

run(lambda do |env|
  input = env["rack.input"]
  case env["PATH_INFO"]
  when "/echo"
    seen = "#{env["HTTP_X_ONE"]},#{env["QUERY_STRING"]}"
    [200, { "X-Seen" => seen }, [input.read]]
  when "/unread" then [200, {}, ["unread"]]
  when "/stream" then [200, {}, Stream.new(input)]
  when "/endless" then [200, {}, endless]
  when "/fail" then raise "asked to fail"
  when "/late" then [200, {}, Late.new]
  when "/short" then [200, { "Content-Length" => "10" }, ["begun"].each]
  when "/empty" then [204, {}, []]
  when "/steps" then [200, {}, Steps.new(env)]
  end
end)
