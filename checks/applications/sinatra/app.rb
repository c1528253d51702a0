require "digest"
require "sinatra"

VERSION = File.read(File.join(__dir__, "VERSION")).strip

enable :logging

get("/") { "Hello from Sinatra, version #{VERSION}" }

get "/stream" do
  content_type "text/plain"
  stream do |out|
    out << "first\n"
    sleep 0.01 until File.exist?(File.join(__dir__, "go"))
    out << "last\n"
  end
end

post "/upload" do
  digest = Digest::SHA256.new
  while (part = request.body.read(65_536))
    digest << part
  end
  digest.hexdigest
end

get "/log" do
  logger.info "logged #{request.query_string}"
  "ok"
end

get("/error") { raise "broken on purpose #{request.query_string}" }
