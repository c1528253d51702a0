# frozen_string_literal: true

# Children that the application forks. A child inherits each socket of the loader, and must touch none of them.
#
# - Right after the fork the child closes the sockets and pipes of the loader (`own`). It never shuts one down: that would
#   end the parent's connection, too.
# - Each send and each receive compares the generation, and raises an error in a child.
# - The child ends (`leave`) as soon as the application's code returns into the loader.

module Cabrank
  # Counts the forks between this process and its first ancestor that had loaded this file.
  #
  # The count is in a page that Linux clears at each fork. So it is 0 in a child that Ruby does not know of, because a C
  # library or a system call has forked it.
  class Forks
    PAGE = 1 << 16 # a multiple of the size of a page on each architecture: no more is cleared
    MADV_WIPEONFORK = 18
    MADVISE = { "x86_64" => 28, "aarch64" => 233 }.freeze # the system call, by architecture
    private_constant :PAGE, :MADV_WIPEONFORK, :MADVISE

    def initialize
      @next = 0
      @bytes = "\0".b * (2 * PAGE) # contain a page, and stay where they are
      address = [@bytes].pack("P").unpack1("J")
      @at = -address % PAGE
      clear_at_fork(address + @at)
      increase
    end

    def count = @bytes.getbyte(@at)

    def increase = @bytes.setbyte(@at, @next = @next % 255 + 1)

    private

    def clear_at_fork(page)
      verbose, $VERBOSE = $VERBOSE, nil # `syscall` warns of itself
      number = MADVISE[RbConfig::CONFIG["host_cpu"]]
      syscall(number, page, PAGE, MADV_WIPEONFORK) if number
    rescue SystemCallError, NotImplementedError, NameError
      # Linux before 4.14, or a Ruby without `syscall`. Ruby's own forks increase the count.
    ensure
      $VERBOSE = verbose
    end
  end

  FORKS = Forks.new # each request reads it: an attribute of a module would cost more
  @owned = {}.compare_by_identity

  class << self
    # Tells a process from the children that the application forks.
    def generation = FORKS.count

    # Adds a socket or pipe of the loader to those that a forked child closes. Returns it.
    def own(io)
      @owned[io] = true
      io
    end

    def disown(io) = @owned.delete(io)

    # Separates this process, a child of the application, from its parent.
    def become_child
      FORKS.increase
      owned = @owned.keys
      @owned = {}.compare_by_identity
      owned.each do |io|
        io.close
      rescue SystemCallError, IOError
        # The next one must be closed nevertheless.
      end
    end

    # Writes to standard error, if the application has not closed it and its reader has not left.
    def log(text)
      STDERR.write(text)
    rescue IOError, SystemCallError, EncodingError
      # The loader goes on.
    end

    # Writes what is buffered, as far as the application has not closed or replaced the stream.
    def flush(*streams)
      streams.each do |io|
        io.flush
      rescue StandardError
        # The next one must be written nevertheless.
      end
    end

    # Runs code of the application. A child that the code forks does not return from here.
    def contain
      generation = self.generation
      yield
    ensure
      leave($!) if generation != self.generation
    end

    # Ends a forked child of the application: by the status of its `exit`, by 0 if its code has returned, or by 1 with a
    # backtrace if its code has failed. The handlers of `at_exit` do not run, because they are the parent's.
    def leave(error)
      status = 1
      status = case error
               when nil then 0
               when SystemExit then error.status
               when Terminated then 128 + Signal.list["TERM"]
               else
                 log(describe(error))
                 1
               end
    ensure
      flush($stdout, $stderr, STDOUT, STDERR)
      Process.exit!(status)
    end
  end

  # Notices each fork of the application.
  module ForkWatch
    def _fork
      pid = super
      Cabrank.become_child if pid.zero?
      pid
    end

    # Ruby 3.1 forks here by a function of the C library, without `_fork`. The parent exits there.
    def daemon(*)
      generation = Cabrank.generation
      result = super
      Cabrank.become_child if [generation, 0].include?(Cabrank.generation)
      result
    end
  end

  if Process.respond_to?(:_fork)
    Process.singleton_class.prepend(ForkWatch)
  else # before Ruby 3.1
    def FORKS.count = Process.pid
  end
end
