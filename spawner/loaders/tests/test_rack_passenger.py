"""What applications in Ruby call of Passenger: the module PhusionPassenger. docs/from-passenger.md lists it."""

import signal

from common import RackLoader
from driver import head, kept_session, session


class Passenger(RackLoader):
    APP = "run ->(_) { [200, {}, [ANSWER.inspect]] }\n"

    def answer(self, ruby):
        """Return what Ruby shows for the value of an expression while the application loads."""
        loader = self.app(f"ANSWER = begin\n{ruby}\nend\n{self.APP}")
        self.assertIsNone(loader.error)
        return session(loader).body.decode()

    def test_the_version_is_that_of_the_interface(self):
        self.assertEqual(self.answer("""
            raise unless defined?(PhusionPassenger) && Gem::Version.new(PhusionPassenger::VERSION_STRING) >= Gem::Version.new("5.0")
            [PhusionPassenger::VERSION_STRING, PhusionPassenger::MAJOR_VERSION, PhusionPassenger::MINOR_VERSION,
             PhusionPassenger::TINY_VERSION, PhusionPassenger::PACKAGE_NAME]
        """), '["6.0.0", 6, 0, 0, "passenger"]')

    def test_events_occur_in_their_order(self):
        source = """
            %i[stopping_worker_process after_installing_signal_handlers starting_worker_process credentials oob_work].each do |name|
              PhusionPassenger.on_event(name) { |*with| puts "#{name} #{with.inspect}" }
            end
            begin
              PhusionPassenger.on_event(:no_such_event) {}
            rescue ArgumentError => e
              puts e.message
            end
        """ + self.APP.replace("ANSWER.inspect", "'ok'")
        loader = self.app(source)
        self.assertEqual(loader.output.split(b"\n")[1:-1], [
            b"unknown event :no_such_event", b"starting_worker_process [false]", b"after_installing_signal_handlers []", b"",
        ])
        self.assertEqual(session(loader).body, b"ok")
        loader.channel.sendall(b"x")
        self.assertEqual(loader.lines.readline(), b"stopping_worker_process []\n")
        self.check_exit(loader)

    def test_a_handler_that_an_event_sets_stays(self):
        loader = self.app("""
            PhusionPassenger.on_event(:after_installing_signal_handlers) { trap("USR1") { STDOUT.syswrite("caught\\n") } }
        """ + self.APP.replace("ANSWER.inspect", "'ok'"))
        loader.process.send_signal(signal.SIGUSR1)
        self.assertEqual(loader.lines.readline(), b"caught\n")
        self.assertEqual(session(loader).body, b"ok")

    def test_the_concurrency_level_is_announced(self):
        for lines, expected in (
            ("", "3"), ("PhusionPassenger.advertised_concurrency_level = 0", "0"),
            ("PhusionPassenger.advertised_concurrency_level = 7", "7"),
            ("PhusionPassenger.advertised_concurrency_level = nil", "3"),
            ("PhusionPassenger.on_event(:starting_worker_process) { PhusionPassenger.advertised_concurrency_level = 2 }", "2"),
        ):
            with self.subTest(lines):
                loader = self.app(f"{lines}\n{self.APP.replace('ANSWER', 'PhusionPassenger.advertised_concurrency_level')}", app_threads=3)
                self.assertEqual({concurrency for _, concurrency, _ in loader.sockets.values()}, {expected})
                self.assertEqual(session(loader).body, b"nil" if expected == "3" else expected.encode())
        for level in ("-1", "'0'", "1.5"):
            error = self.app(f"PhusionPassenger.advertised_concurrency_level = {level}\n{self.APP}").error
            self.assertIn("must be a number of requests, or 0 for any number", error)
            self.assertIn("config.ru:1", error)

    def test_a_process_serves_others_while_the_application_has_connections(self):
        loader = self.app("""
            PhusionPassenger.advertised_concurrency_level = 0
            sockets = []
            run(lambda do |env|
              if env["PATH_INFO"] == "/wait"
                sockets << env["rack.hijack"].call
                return [200, {}, []]
              end
              (env["PATH_INFO"] == "/send" ? sockets : []).each do |socket|
                socket.write("HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nsent")
                socket.close
              end
              [200, {}, [sockets.size.to_s]]
            end)
        """)
        waiting = [loader.connect() for _ in range(3)]
        for conn in waiting:
            self.addCleanup(conn.close)
            conn.sendall(head(PATH_INFO="/wait"))
        self.eventually(lambda: kept_session(loader).body == b"3")
        self.assertEqual(kept_session(loader, PATH_INFO="/send").body, b"3")
        for conn in waiting:
            answer = b""
            while part := conn.recv(1000):
                answer += part
            self.assertTrue(answer.endswith(b"sent"), answer)

    def test_parts_of_passenger_are_found_by_their_names(self):
        for line in ("PhusionPassenger.require_passenger_lib 'rack/out_of_band_gc'", "require 'phusion_passenger/rack/out_of_band_gc'"):
            for use in ("5", "strategy: :counter, frequency: 5", "{ strategy: :gctools_oobgc }"):
                with self.subTest(line, use=use):
                    loader = self.app(f"{line}\nuse PhusionPassenger::Rack::OutOfBandGc, {use}\n{self.APP.replace('ANSWER', 'Rack::Utils')}")
                    self.assertIsNone(loader.error)
                    self.assertEqual(session(loader).body, b"Rack::Utils")
        self.assertEqual(self.answer("PhusionPassenger.require_passenger_lib('public_api')"), "false")
        error = self.app(f"PhusionPassenger.require_passenger_lib 'utils/json'\n{self.APP}").error
        self.assertIn("cabrank has no part utils/json of Passenger, only public_api, rack/out_of_band_gc", error)

    def test_the_log_says_once_that_there_is_no_work_out_of_band(self):
        loader = self.app("""
            2.times { PhusionPassenger.on_event(:oob_work) { GC.start } }
            2.times { use PhusionPassenger::Rack::OutOfBandGc, 5 }
            run ->(_) { [200, { '!~Request-OOB-Work' => 'true', 'X-Passenger-Request-OOB-Work' => 'true' }, ['ok']] }
        """)
        answer = session(loader)
        self.assertEqual(answer.body, b"ok")
        for name in (b"!~Request-OOB-Work", b"X-Passenger-Request-OOB-Work"):
            self.assertIn(name, answer.raw)
        log = loader.read_stderr()
        self.assertEqual(log.count("cabrank: "), 2, log)
        for line in ("the event :oob_work does not occur", "OutOfBandGc collects no garbage"):
            self.assertEqual(log.count(line), 1, log)

    def test_calls_of_a_service_that_has_ended_do_nothing(self):
        self.assertEqual(self.answer("""
            PhusionPassenger.install_framework_extensions!(event_preprocessor: nil)
            PhusionPassenger.union_station_key = "key"
            [PhusionPassenger.union_station_key, PhusionPassenger.measure_and_log_event({}, "name") { 1 },
             PhusionPassenger.benchmark({}, "title") { 2 }, PhusionPassenger.benchmark { 3 }, PhusionPassenger.log_cache_hit({}, "name"),
             PhusionPassenger.log_cache_miss({}, "name"), PhusionPassenger.log_cache_miss({}, "name", 10)]
        """), '["key", 1, 2, 3, false, false, false]')
