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

    PR_SET_PDEATHSIG = 1
    # Ruby has no method for prctl. The system call has another number on each architecture.
    PRCTL = {
      "x86_64" => 157, "aarch64" => 167, "riscv64" => 167, "loongarch64" => 167, "powerpc64le" => 171, "ppc64le" => 171,
      "s390x" => 172, "i386" => 172, "i486" => 172, "i586" => 172, "i686" => 172, "arm" => 172, "armv6l" => 172,
      "armv7l" => 172
    }.freeze
    private_constant :PR_SET_PDEATHSIG, :PRCTL

    def run
      install_signal_handlers
      guarded do
        @options = handshake
        @prctl = PRCTL[RbConfig::CONFIG["host_cpu"]] or
          raise Unservable, "A forked process could outlive the server on #{RbConfig::CONFIG["host_cpu"]}."
        application = Cabrank.contain { load_application }
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
    rescue SystemCallError, IOError => e # Ruby flushes standard error, which the application may have closed
      connection.write("Error\ncannot fork: #{e.message}\n")
    end

    # Asks the kernel to kill this process when its parent ends, the server. No other process does so if the reaper is
    # killed, too.
    def die_with_the_server
      server = Process.ppid
      verbose, $VERBOSE = $VERBOSE, nil # `syscall` warns of itself
      syscall(@prctl, PR_SET_PDEATHSIG, Signal.list["KILL"], 0, 0, 0)
      exit!(1) if Process.ppid != server # the request came too late
    ensure
      $VERBOSE = verbose
    end

    def become_process(connection, application)
      @is_ready = false
      guarded do
        Process.setsid # the server ends a process with its group
        die_with_the_server
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
