# frozen_string_literal: true

# The interface between an application and its server, by the names that applications know of Passenger.

module PhusionPassenger
  # The version of Passenger whose interface this is. Applications compare it. It is not the version of cabrank.
  VERSION_STRING = "6.0.0"
  MAJOR_VERSION, MINOR_VERSION, TINY_VERSION = VERSION_STRING.split(".").map(&:to_i)
  PACKAGE_NAME = "passenger"

  # The parts that `require_passenger_lib NAME` and `require "phusion_passenger/NAME"` find.
  PARTS = %w[public_api rack/out_of_band_gc].freeze
  # `require` takes a file that stands there for a loaded one.
  $LOADED_FEATURES.concat(PARTS.map { |part| "phusion_passenger/#{part}.rb" })

  EVENTS = %i[
    starting_worker_process stopping_worker_process starting_request_handler_thread credentials
    after_installing_signal_handlers oob_work
  ].to_h { |name| [name, []] }.freeze

  class << self
    # The number of requests that the server may send to this process at once, if the application has chosen one. 0 is any number.
    attr_reader :advertised_concurrency_level

    # The key of a service that has ended. Applications set it.
    attr_accessor :union_station_key

    # Calls the block at an event:
    #
    #   :starting_worker_process             before the first request, with true if the process was forked from a preloader;
    #   :after_installing_signal_handlers    after it. The loader has set its own handlers before it loaded the application;
    #   :starting_request_handler_thread     on each thread of --app-threads, before its first request;
    #   :stopping_worker_process             before the process exits.
    #
    # The other events of Passenger are accepted and do not occur.
    def on_event(name, &block)
      callbacks = EVENTS[name] or raise ArgumentError, "unknown event #{name.inspect}"
      tell_once("the event :oob_work does not occur. Use rack.response_finished, or a thread") if name == :oob_work
      callbacks << block
    end

    # Tells the reader of the log, for the first call, that something is accepted and does nothing.
    def tell_once(text)
      return if (@told ||= []).include?(text)

      @told << text
      Cabrank.log("cabrank: #{text}.\n")
    end

    def call_event(name, *arguments)
      EVENTS.fetch(name).each { |callback| Cabrank.contain { callback.call(*arguments) } }
    end

    # Counts until the process is ready. An application that hijacks its connections can take more than one request at once.
    def advertised_concurrency_level=(level)
      unless level.nil? || (level.is_a?(Integer) && !level.negative?)
        raise ArgumentError, "the concurrency level must be a number of requests, or 0 for any number: #{level.inspect}"
      end

      @advertised_concurrency_level = level
    end

    # Loads a part of Passenger by its path below `phusion_passenger/`. The parts that are here have been loaded.
    def require_passenger_lib(name)
      return false if PARTS.include?(name.to_s.delete_suffix(".rb"))

      raise LoadError, "cabrank has no part #{name} of Passenger, only #{PARTS.join(", ")}"
    end

    # These reported to a service that has ended. The blocks run.
    def install_framework_extensions!(*) = nil
    def measure_and_log_event(_env, _name) = (yield if block_given?)
    def benchmark(_env = nil, _title = nil) = (yield if block_given?)
    def log_cache_hit(_env, _name) = false
    def log_cache_miss(_env, _name, _generation_time = nil) = false
  end

  module Rack
    # Under Passenger, this middleware collects garbage outside of requests, by the event :oob_work. Ruby collects in small steps
    # since 2.2, and the server takes no process out of its pool for such work. So it passes each request on, and no more.
    class OutOfBandGc
      def initialize(app, *, **)
        PhusionPassenger.tell_once("PhusionPassenger::Rack::OutOfBandGc collects no garbage, and passes each request on")
        @app = app
      end

      def call(env) = @app.call(env)
    end
  end
end
