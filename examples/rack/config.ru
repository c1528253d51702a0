# frozen_string_literal: true

# A small application to try cabrank: each page shows one task of an application server.
#
#     cabrank start examples/rack       several processes, restarts, recovery from crashes
#     rackup examples/rack/config.ru    the same pages from one process, on port 9292

require "json"

STYLE = <<~CSS
  :root { color-scheme: light dark }
  body { font: 1rem/1.6 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto; padding: 0 1rem }
  h1 { font-size: 1.3rem } li { margin: .4rem 0 } code { font-size: .95em }
  .facts { border-left: .25rem solid #8888; padding-left: 1rem }
CSS

# The pages. One object answers all requests of a process.
class Example
  PAGES = {
    "/" => :index, "/slow" => :slow, "/upload" => :upload, "/crash" => :crash, "/env" => :env, "/stream" => :stream
  }.freeze

  def initialize
    @answered = 0
  end

  def call(env)
    @answered += 1
    path = env["PATH_INFO"]
    handler = PAGES[path.empty? ? "/" : path]
    return send(handler, env) if handler

    answer(404, "text/html; charset=utf-8",
           page("Not found", '<p>This page does not exist. <a href="/">All pages</a></p>'))
  end

  private

  def page(title, body)
    <<~HTML
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
      <title>#{title}</title><style>#{STYLE}</style></head>
      <body><h1>#{title}</h1>#{body}</body></html>
    HTML
  end

  # The names of headers are in lower case, as Rack 3 demands. Rack 2 does not care.
  def answer(status, content_type, text, headers = {})
    [status, { "content-type" => content_type, "content-length" => text.bytesize.to_s }.merge(headers), [text]]
  end

  def index(_env)
    answer(200, "text/html; charset=utf-8", page("cabrank: Rack example", <<~HTML))

      <p class="facts">Process <strong>#{Process.pid}</strong> answered, Ruby #{RUBY_VERSION}.
      It has answered <strong>#{@answered}</strong> #{@answered == 1 ? "request" : "requests"}.</p>
      <ul>
      <li><a href="/slow?ms=2000">/slow?ms=2000</a>: keeps its process busy for two seconds</li>
      <li><a href="/stream">/stream</a>: ten lines, one every 200 ms</li>
      <li><a href="/upload">/upload</a>: returns your upload</li>
      <li><a href="/env">/env</a>: the request as the application sees it</li>
      </ul>
      <form method="post" action="/crash"><p><button>crash</button> kills the process that gets it. Reload this page, and
      another process answers.</p></form>
      <p>After a change of the code, run <code>touch tmp/restart.txt</code>.</p>
    HTML
  end

  def slow(env)
    ms = Integer(env["QUERY_STRING"][/(?:\A|&)ms=([^&]*)/, 1] || "2000", 10).clamp(0, 60_000)
    sleep(ms / 1000.0)
    answer(200, "text/plain", "#{Process.pid} slept for #{ms} ms\n")
  rescue ArgumentError
    answer(400, "text/plain", "ms must be a whole number\n")
  end

  def upload(env)
    if %w[POST PUT].include?(env["REQUEST_METHOD"])
      type = env["CONTENT_TYPE"]
      headers = { "content-type" => type.to_s.empty? ? "application/octet-stream" : type,
                  "x-content-type-options" => "nosniff" }
      length = env["CONTENT_LENGTH"]
      headers["content-length"] = length unless length.to_s.empty?
      return [200, headers, Parts.new(env["rack.input"])]
    end
    answer(200, "text/html; charset=utf-8", page("Upload", <<~HTML))

      <form method="post" enctype="text/plain"><p><textarea name="text" rows="6" cols="50">Hello</textarea></p>
      <p><button>Send</button></p></form>
      <p>A large upload: <code>curl -T FILE http://…/upload | cmp - FILE</code></p>
    HTML
  end

  # The request's body in pieces.
  Parts = Struct.new(:input) do
    def each
      while (part = input.read(64 * 1024))
        yield part
      end
    end
  end

  def crash(env)
    # A server may send a GET whose process has died to the next process, which would die as well.
    return answer(405, "text/plain", "POST kills this process\n") unless env["REQUEST_METHOD"] == "POST"

    Process.kill(:KILL, Process.pid)
    sleep
  end

  def env(env)
    known = env.select { |_, value| [String, Integer, TrueClass, FalseClass, Array].include?(value.class) }
    # Headers may have any bytes, and JSON is UTF-8.
    known.transform_values! { |value| value.is_a?(String) ? value.dup.force_encoding("ISO-8859-1").encode("UTF-8") : value }
    known.delete("rack.response_finished")
    answer(200, "application/json", "#{JSON.pretty_generate("pid" => Process.pid, "env" => known.sort.to_h)}\n")
  end

  def stream(_env)
    lines = Enumerator.new do |out|
      (1..10).each do |number|
        sleep(0.2) if number > 1
        out << "#{number} of 10 from process #{Process.pid}\n"
      end
    end
    [200, { "content-type" => "text/plain; charset=utf-8", "x-accel-buffering" => "no" }, lines]
  end
end

run Example.new
