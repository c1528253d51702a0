# frozen_string_literal: true

# Load one Rack application once, and fork a process for each `spawn` of the cabrank server (docs/preloaders.md).
#
# The handshake and the loading are the loader's. Instead of requests the preloader takes commands, on a Unix socket of its
# own. The connection of a command becomes standard input and output of the new process, which performs a handshake there
# and serves requests as if the loader had started it.

require_relative "rack-boot"

module Cabrank
  # A process that has loaded the application and serves no request.
  class Preloader < Boot
    COMMAND_TIMEOUT = 10

    def run
      install_signal_handlers
      guarded do
        @options = handshake
        application = Cabrank.contain { load_application }
        require_relative "rack-server"
        listen
        begin
          serve_commands(application)
        ensure
          File.unlink(@path) if Process.pid == @pid && File.exist?(@path)
        end
      end
    end

    private

    def listen
      @path = socket_path(sockets_directory, "preloader")
      # A later process shares the memory of what is live now. The collector would write to it.
      2.times { GC.start }
      GC.compact if GC.respond_to?(:compact)
      @listener = Cabrank.own(Cabrank.listen(@path))
    rescue SystemCallError => e
      raise Unservable, "Cannot listen on the socket #{@path}: #{e.message}"
    end

    def serve_commands(application)
      STDIN.reopen(File::NULL)
      say("!> Ready\n!> socket: unix:#{@path}\n!> pid: #{@pid}\n!> \n")
      @is_ready = true
      while true
        ready, = IO.select([@channel, @listener])
        return if ready.include?(@channel)

        connection = @listener.accept_nonblock(exception: false)
        next if connection == :wait_readable

        @stderr = nil
        spawn(connection, application) if spawn?(connection)
        connection.close
        @stderr&.close
      end
    end

    # Reads a command to its empty line, and the standard error for the new process.
    def spawn?(connection)
      deadline = Cabrank.now + COMMAND_TIMEOUT
      text = String.new
      until text.end_with?("\n\n")
        return false unless IO.select([connection], nil, nil, [deadline - Cabrank.now, 0].max)

        part, _, _, *controls = connection.recvmsg(4096, scm_rights: true)
        return false if part.nil? || part.empty?

        text << part
        controls.each { |control| @stderr ||= control.unix_rights&.first }
      end
      return true if text.start_with?("spawn\n")

      connection.write("Error\nunknown command\n")
      false
    rescue SystemCallError, EOFError
      false
    end

    # Forks twice: the process whose parent ends becomes a child of the server, which watches and reaps it.
    def spawn(connection, application)
      middle = fork do
        parent = Process.pid
        fork do
          sleep(0.0005) while Process.ppid == parent
          become_process(connection, application)
        end
        exit!(0)
      end
      Process.wait(middle)
    rescue SystemCallError => e
      connection.write("Error\ncannot fork: #{e.message}\n")
    end

    def become_process(connection, application)
      @is_ready = false
      guarded do
        Process.setpgid(0, 0) # the server ends a process with its group
        @listener.close
        @channel.close
        # The class of STDIN and STDOUT stays.
        io = IO.for_fd(connection.fileno, "r+", autoclose: false)
        STDIN.reopen(io)
        STDOUT.reopen(io)
        STDERR.reopen(@stderr) if @stderr
        STDERR.sync = true # reopen clears it
        connection.write("OK\n#{@pid}\n")
        connection.close
        Random.srand
        @options = handshake
        serve(application, forked: true)
      end
    end
  end
end

Cabrank::Preloader.new.run if $PROGRAM_NAME == __FILE__
