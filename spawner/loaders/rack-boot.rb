# frozen_string_literal: true

# From the start of the process to the first request: handshake, loading, signals, readiness.

# `socket` is the only library here. Most others are gems as well, and a version that is loaded before the application's
# Gemfile is read could be the wrong one.
require "socket"
# All files of the loader, before any code of the application: another user may take the place of a directory that has vanished.
require_relative "rack-fork"
require_relative "rack-passenger"
require_relative "rack-server"

module Cabrank
  HERE = __dir__

  # The application cannot be served. The text is for the person who deploys it.
  class Unservable < StandardError; end

  # SIGTERM arrived. This is not a StandardError, so that a `rescue` of the application does not swallow it.
  class Terminated < Exception; end # rubocop:disable Lint/InheritException

  # Objects that an application can reach, and that refer to it and to its other requests. Pages for exceptions, loggers and
  # serializers show an object with all that it refers to, and so would show secrets.
  module Terse
    # Makes each class of this module terse that has been defined so far. Exceptions have their messages.
    def self.cover
      classes = Cabrank.constants.map { |name| Cabrank.const_get(name) }.grep(Class)
      classes.each { |one| one.include(self) unless one <= Exception }
    end

    def inspect = "#<#{self.class}>"

    # Serializers, such as those of YAML and of Active Support, ask for these.
    def instance_variables = []
  end

  # One process from its start to its end.
  class Boot
    PROTOCOL_VERSION = "1.0"
    SOCKET_PATH_MAX = 107 # sun_path has 108 bytes, one of them the final NUL

    # Serves until the server asks the process to leave.
    def run
      install_signal_handlers
      guarded do
        @options = handshake
        serve(Cabrank.contain { load_application }, forked: false)
      end
    end

    private

    # Runs the block as the life of this process. Reports an error to the server, unless the process was ready.
    def guarded
      @pid = Process.pid
      begin
        yield
      rescue Exception => e # rubocop:disable Lint/RescueException
        Cabrank.leave(e) if Process.pid != @pid # a forked child of the application
        raise if @is_ready || e.is_a?(Terminated)

        fail_boot(e)
      end
    rescue Terminated
      exit(128 + Signal.list["TERM"])
    end

    # Writes a block of protocol lines. The newline in front ends an unfinished line of the application or its children
    # (`print "a"`), which share this descriptor.
    def say(text)
      Cabrank.flush($stdout, STDOUT)
      @channel.write("\n#{text}")
    end

    # Performs the handshake and returns the server's options.
    #
    # It consumes no byte after the empty line: the startup file may replace the process by another interpreter, which
    # starts a new handshake on descriptor 0.
    def handshake
      STDOUT.sync = true
      # The application may reopen STDIN and STDOUT.
      @channel = Cabrank.own(UNIXSocket.for_fd(STDIN.fcntl(0, 3))) # F_DUPFD
      @channel.close_on_exec = true
      say("!> I have control #{PROTOCOL_VERSION}\n")
      greeting = next_line
      unless greeting == "You have control #{PROTOCOL_VERSION}"
        raise Unservable, "The server answered the handshake with #{greeting.inspect}, " \
                          "but this loader speaks version #{PROTOCOL_VERSION}."
      end
      options = {}
      until (line = next_line).empty?
        key, value = line.split(": ", 2)
        options[key] = value
      end
      options
    end

    def next_line
      line = +""
      until line.end_with?("\n")
        seen = @channel.recv(4096, Socket::MSG_PEEK)
        raise Unservable, "The server hung up during the handshake." if seen.nil? || seen.empty?

        line << @channel.recv((seen.index("\n") || seen.bytesize - 1) + 1)
      end
      line.chomp.force_encoding(Encoding::UTF_8)
    end

    def load_application
      root = File.expand_path(@options["app_root"] || Dir.pwd)
      file = File.expand_path(@options["startup_file"] || "config.ru", root)
      unless File.file?(file)
        raise Unservable, "The startup file #{file} does not exist. " \
                          "Create it, or name another file with --startup-file."
      end

      set_up_gems(root)
      Cabrank.load_stringio
      require_rack(root)
      result = Rack::Builder.respond_to?(:load_file) ? Rack::Builder.load_file(file) : Rack::Builder.parse_file(file)
      application = result.is_a?(Array) ? result.first : result # Rack 2 returns options, too
      return application if application.respond_to?(:call)

      raise Unservable, "#{file} runs an object of the class #{application.class}, which has no method `call`."
    end

    def set_up_gems(root)
      gemfile = ENV["BUNDLE_GEMFILE"]
      if gemfile.nil? || gemfile.empty?
        gemfile = %w[Gemfile gems.rb].map { |name| File.join(root, name) }.find { |path| File.file?(path) } or return
        ENV["BUNDLE_GEMFILE"] = gemfile
      end
      begin
        require "bundler"
        Bundler.setup
      rescue LoadError, StandardError => e
        # One line, because logs show one. The server adds what to try.
        raise Unservable, "Bundler cannot set up the gems of #{gemfile}: #{e.message.split.join(" ")} (#{e.class})"
      end
    end

    def require_rack(root)
      require "rack"
      Rack::Utils # loads it
    rescue LoadError => e
      raise unless e.path == "rack"

      remedy = if ENV["BUNDLE_GEMFILE"]
                 "Add `gem \"rack\"` to #{ENV["BUNDLE_GEMFILE"]} and run `bundle install` in #{root}."
               else
                 "Install it with `gem install rack`, or with the package ruby-rack of your system."
               end
      raise Unservable, "The gem `rack` is not installed for Ruby #{RUBY_VERSION} (#{RbConfig.ruby}). #{remedy}"
    end

    # Sends that the application is ready, and serves it.
    def serve(application, forked:)
      Terse.cover
      directory = sockets_directory
      paths = %w[rack kept].map { |name| socket_path(directory, name) }
      begin
        threads = [@options["app_threads"].to_i, 1].max
        server = Server.new(application, *paths, @options.delete("connect_password") || "", threads: threads,
                            sends_early_hints: @options["early_hints"] == "true")
      rescue SystemCallError => e
        raise Unservable, "Cannot listen on a socket in #{directory}: #{e.message}"
      end
      begin
        title = @options["process_title"]
        Process.setproctitle(title) if title
        PhusionPassenger.call_event(:starting_worker_process, forked)
        PhusionPassenger.call_event(:after_installing_signal_handlers)
        concurrency = PhusionPassenger.advertised_concurrency_level || threads
        # A child of the application that reads its standard input must not consume the byte that asks to leave.
        STDIN.reopen(File::NULL)
        say("!> Ready\n!> socket: main;unix:#{paths[0]};session;#{concurrency}\n" \
            "!> socket: kept;unix:#{paths[1]};kept_session;#{concurrency}\n!> takes_upgrades: true\n!> pid: #{@pid}\n!> \n")
        @is_ready = true
        server.run(@channel)
      ensure
        if Process.pid == @pid
          server.close
          PhusionPassenger.call_event(:stopping_worker_process)
        end
      end
    end

    def sockets_directory
      directory = @options["generation_dir"]
      return File.join(File.expand_path(directory), "backends") unless directory.nil? || directory.empty?

      raise Unservable, "The handshake has no generation_dir, the directory for the socket."
    end

    def socket_path(directory, name)
      path = File.join(directory, "#{name}.#{@pid}-#{Random.urandom(4).unpack1("H*")}")
      return path if path.bytesize <= SOCKET_PATH_MAX

      raise Unservable, "The path #{path} is longer than a Unix socket allows (#{SOCKET_PATH_MAX} bytes). " \
                        "Set XDG_RUNTIME_DIR to a shorter directory."
    end

    # Sends the error, and ends the process without waiting for threads and handlers of the application.
    def fail_boot(error)
      say("!> Error\n!> \n#{Cabrank.describe(error)}")
    rescue SystemCallError
      # The server has given up.
    ensure
      Cabrank.flush(STDERR)
      exit!(1)
    end

    def install_signal_handlers
      # A handler, not "IGNORE", which children of the application would inherit. Ctrl-C reaches the whole process group
      # of a terminal, and the server decides about the shutdown.
      trap("INT") {}
      trap("TERM") { raise Terminated }
      trap("QUIT") { Cabrank.dump_threads }
    end
  end

  # Returns the text for the error page and the log, without the frames of this loader.
  #
  # The message of an error, its backtrace, its class and each of its methods may be the application's.
  def self.describe(error)
    before = generation
    return "#{error.message}\n" if Unservable === error # rubocop:disable Style/CaseEquality

    frames = (error.backtrace || []).reject { |frame| frame.start_with?(HERE, "<internal:") }
    error.set_backtrace(frames)
    error.full_message(highlight: false, order: :top).b.force_encoding(Encoding::UTF_8).scrub.chomp << "\n"
  rescue Terminated
    raise
  rescue Exception => e # rubocop:disable Lint/RescueException
    leave(e) if generation != before
    kind = Kernel.instance_method(:class).bind(error).call
    "an error that cannot be shown: #{Module.instance_method(:to_s).bind(kind).call}\n"
  end

  # Writes the backtrace of each thread to standard error. Ruby runs signal handlers between two instructions of the
  # main thread, so that a main thread that is stuck in C code writes none.
  def self.dump_threads
    text = +"Backtraces of process #{Process.pid}:\n"
    Thread.list.each do |thread|
      name = thread == Thread.main ? "main thread" : "thread #{thread.name || thread.object_id}"
      frames = (thread.backtrace || []).reject { |frame| frame.start_with?(HERE) && frame.include?("dump_threads") }
      text << "#{name} (#{thread.status}):\n" << frames.map { |frame| "    from #{frame}\n" }.join
    end
    log(text)
  end
end
