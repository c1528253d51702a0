class PagesController < ApplicationController
  include ActionController::Live

  skip_forgery_protection only: :upload

  VERSION = Rails.root.join("VERSION").read.strip

  def index
    render plain: "Hello from Rails, version #{VERSION}"
  end

  def stream
    response.headers["Content-Type"] = "text/plain"
    # Otherwise Rack::ETag would wait for the whole answer.
    response.headers["Last-Modified"] = Time.now.httpdate
    response.stream.write("first\n")
    sleep(0.01) until Rails.root.join("go").exist?
    response.stream.write("last\n")
  ensure
    response.stream.close
  end

  def upload
    digest = Digest::SHA256.new
    while (part = request.body.read(65_536))
      digest << part
    end
    render plain: digest.hexdigest
  end

  def log
    logger.info("logged #{request.query_string}")
    render plain: "ok"
  end

  def below
    cookies[:seen] = { value: "1", path: request.script_name }
    redirect_to posts_url
  end

  def chat
    render layout: false
  end

  def error
    raise "broken on purpose #{request.query_string}"
  end
end
