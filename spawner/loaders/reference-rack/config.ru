# frozen_string_literal: true

# The reference application of conformance.py for the Rack loader.

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
  end
end)
