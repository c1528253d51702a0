# frozen_string_literal: true

# Load one Rack application and serve it to the cabrank server.
#
# The server starts this file as a child process. One Unix socketpair is its standard input and output, and a pipe its
# standard error. Like every loader it takes four steps:
#
#   1. handshake  `!> I have control 1.0`; the server answers with `key: value` lines and an empty line.
#   2. load       the startup file (`config.ru`), after the gems of the application's Gemfile, if there is one.
#   3. ready      listen on two Unix sockets and send their addresses: `!> Ready`, `!> socket: …` twice, `!> `.
#   4. serve      one request at a time, or one a thread (`app_threads`), until standard input is readable: a byte and
#                 end of file both ask the process to leave. It finishes running requests first. SIGTERM ends it at once.
#                 SIGQUIT writes the backtrace of each thread to standard error, and the process goes on.
#
# If a step before 3 fails, the loader sends `!> Error` and a text, and exits with code 1.
#
# The two sockets serve the same requests. A server that knows kept sessions uses the socket `kept`: its connections
# stay open, and frames mark the ends of requests and answers (docs/kept-sessions.md). Other servers use the socket
# `main` and the session protocol: one request per connection.
#
# rack-boot.rb      steps 1 to 3, signals, and the end of the process
# rack-passenger.rb what applications call of Passenger
# rack-fork.rb      children that the application forks
# rack-server.rb    step 4: the loop, and the two protocols
# rack-request.rb   `env` and `rack.input`
# rack-input.rb     `rack.input` of a body that comes by the connection
# rack-answer.rb    status, headers and body to the server
# rack-hijack.rb    answers that outlive the call of the application

require_relative "rack-boot"

Cabrank::Boot.new.run if $PROGRAM_NAME == __FILE__
