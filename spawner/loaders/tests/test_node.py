"""The loader of Node applications."""

import http.client
import json
import os
import signal
import socket
import threading

from common import EXAMPLES, NodeLoader
from driver import DEADLINE, PASSWORD, target


class Node(NodeLoader):
    def test_example_through_every_page(self):
        loader = self.start("app.js", app_root=os.path.join(EXAMPLES, "node"))
        self.check_ready(loader, "node", "http_session", "0")
        self.assertIn(b"listening on port 3000\n", loader.output)  # the callback ran, and address() has the port that it asked for
        conn = self.http(loader)  # one connection for all requests
        self.assertIn(f"<strong>{loader.process.pid}</strong>".encode(), self.ask(conn)[1])
        self.assertIn(b"<strong>2</strong> requests", self.ask(conn)[1])
        self.assertEqual(self.ask(conn, "/slow?ms=1"), (200, f"{loader.process.pid} slept for 1 ms\n".encode()))
        self.assertEqual(self.ask(conn, "/slow?ms=x")[0], 400)
        self.assertEqual(self.ask(conn, "/nowhere")[0], 404)
        self.assertEqual(len(self.ask(conn, "/stream")[1].splitlines()), 10)
        self.assertEqual(json.loads(self.ask(conn, "/env?a=b")[1])["url"], "/env?a=b")
        body = os.urandom(5_000_000)
        loader_conn = self.http(loader)
        self.assertTrue(self.upload(loader_conn, body) == body)
        with loader.connect() as vanishing:
            vanishing.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        self.assertEqual(self.ask(conn)[0], 200)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            conn.request("POST", "/crash")
            conn.getresponse()
        self.assertEqual(loader.process.wait(DEADLINE), -signal.SIGKILL)

    def upload(self, conn, body):
        """Send in a second thread, because the echo begins before the body ends."""
        conn.putrequest("POST", "/upload")
        conn.putheader("Content-Length", str(len(body)))
        conn.endheaders()
        sender = threading.Thread(target=conn.send, args=(body,))
        sender.start()
        data = conn.getresponse().read()
        sender.join(DEADLINE)
        return data

    def test_only_the_first_server_serves_and_a_second_opens_no_port(self):
        loader = self.app("""
            const http = require('http');
            if (require.main !== module || module.parent || process.argv[1] !== __filename) throw new Error('not main');
            process.stdout.write('unfinished');
            const express = { listen(...args) { return http.createServer((q, s) => s.end('first')).listen(...args); } };
            const second = http.createServer((q, s) => s.end('second'));
            const first = express.listen(1, '192.0.2.1', 5, () => {
              console.log(first.address());
              first.keepAliveTimeout = 5;
              console.log(JSON.stringify([first.keepAliveTimeout, first.headersTimeout, first.requestTimeout, first.listening]));
              // The second is the same server at another address, as Fastify has it. The third is another server.
              second.listen({ port: 1, host: '::1' }, () => console.log('second', second.listening, second.address()));
              const third = http.createServer().listen(9090, () => third.close(() => console.log('third has closed')));
            });
        """)
        self.assertEqual(loader.output.strip().replace(b"unfinished", b"").split(b"\n"),
                         [b"{ address: '192.0.2.1', family: 'IPv4', port: 1 }", b"[0,0,0,true]"])
        self.assertEqual(self.ask(self.http(loader)), (200, b"first"))
        self.assertEqual({loader.lines.readline() for _ in range(2)},
                         {b"second true { address: '::1', family: 'IPv6', port: 1 }\n", b"third has closed\n"})
        self.eventually(lambda: os.listdir(os.path.dirname(loader.path)) == [os.path.basename(loader.path)])
        with open(f"/proc/{loader.process.pid}/net/unix") as file:
            unix = {line.split()[6] for line in list(file)[1:]}
        self.assertTrue(self.sockets(loader) and self.sockets(loader) <= unix)
        warned = loader.read_stderr()
        self.assertTrue("port 9090" in warned and "port 1 " not in warned)

    def sockets(self, loader):
        """Return the inodes of the process's sockets."""
        links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{loader.process.pid}/fd")]
        return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}

    def test_a_server_may_listen_again(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => s.end('ok')).listen(3000, () => {
              setImmediate(() => server.close(() => server.listen(3000, () => console.log('again'))));
            });
        """)
        self.assertEqual(loader.lines.readline(), b"again\n")
        self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))

    def test_the_application_may_choose_the_server(self):
        loader = self.app("""
            const http = require('http');
            PhusionPassenger.configure({ autoInstall: false });
            http.createServer((q, s) => s.end('other')).listen(0, () => {
              http.createServer((q, s) => s.end('chosen')).listen('passenger');
              try { http.createServer().listen('/passenger'); } catch (error) { console.log(error.message); }
            });
        """)
        self.assertIn(b"another server", loader.output)
        self.assertEqual(self.ask(self.http(loader)), (200, b"chosen"))

    def test_each_name_of_the_chosen_server(self):
        for address in ("'passenger'", "'/passenger'", "{ path: 'passenger' }", "{ path: '/passenger' }"):
            with self.subTest(address):
                loader = self.app("""
                    if (typeof PhusionPassenger === 'undefined') throw new Error('not under Passenger');
                    PhusionPassenger.configure({ autoInstall: false });
                    PhusionPassenger.once('exit', () => { console.log('exit'); process.exit(0); });
                    require('http').createServer((q, s) => s.end('ok')).listen(%s, () => console.log('listens'));
                """ % address)
                self.assertEqual(loader.output.strip(), b"listens")
                self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))
                loader.channel.sendall(b"x")
                self.assertEqual(loader.lines.readline(), b"exit\n")
                self.check_exit(loader)

    def test_es_module(self):
        loader = self.start("app.mjs", """
            import http from 'node:http';
            await null;
            http.createServer((q, s) => s.end('esm')).listen(3000);
        """)
        self.assertEqual(self.ask(self.http(loader)), (200, b"esm"))

    def test_applications_that_cannot_be_loaded(self):
        for source, expected in (
            ("throw new TypeError('at once')", "app.js:1"),
            ("const x = ;", "app.js:1"),
            ("require('./nothing')", "Cannot find module './nothing'"),
            ("setImmediate(() => { throw new TypeError('soon') })", "TypeError: soon"),
            ("Promise.reject(new TypeError('promised'))", "TypeError: promised"),
            ("throw 'a string'", "'a string'"),
            ("process.exit(0)", "exited with code 0 before it called listen()"),
            ("console.log('nothing to do')", "exited with code 0 before it called listen()"),
            ("require('http').createServer().listen(1, () => { throw new Error('in the callback') })", "in the callback"),
            (None, "does not exist"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(expected, loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
                self.assertEqual(os.listdir(os.path.join(loader.root, "g", "backends")), [])
        self.assertIn("longer than", self.app("application = print", generation_dir="/" + "x" * 90).error)
        loader = self.start("app.mjs", "await null; throw new TypeError('in a module')")
        self.assertIn("TypeError: in a module", loader.error)

    def test_shutdown(self):
        for order in (lambda channel: channel.sendall(b"x"), lambda channel: channel.shutdown(socket.SHUT_WR)):
            loader = self.app("require('http').createServer((q, s) => s.end('ok')).listen()")
            loader.process.send_signal(signal.SIGINT)
            conn = self.http(loader)
            self.assertEqual(self.ask(conn), (200, b"ok"))
            order(loader.channel)
            self.check_exit(loader)

    def test_handlers_run_before_the_process_exits(self):
        order = """
            const http = require('http');
            const server = http.createServer((q, s) => s.end('ok')).listen();
            setInterval(() => {}, 1000);
            const leave = (kind) => (...with_) => {
              console.log(kind, ...with_);
              server.close(() => setTimeout(() => { console.log('closed'); process.exit(0); }, 20));
            };
        """
        exits, message = "PhusionPassenger.on('exit', leave('exit'));", "process.on('message', leave('message'));"
        term = "process.on('SIGTERM', leave('term'));"
        for handlers, expected in (
            (exits + message + term, b"exit\n"), (message + term, b"message shutdown\n"), (term, b"term SIGTERM 15\n"),
        ):
            with self.subTest(handlers):
                loader = self.app(order + handlers)
                loader.channel.sendall(b"x")
                loader.channel.shutdown(socket.SHUT_WR)
                self.assertEqual(loader.lines.read(), expected + b"closed\n")
                self.check_exit(loader)
                loader = self.app(order + handlers)
                if "term" in handlers:  # Node's own way
                    loader.process.terminate()
                    self.assertEqual(loader.lines.read(), b"term SIGTERM 15\nclosed\n")
                    self.check_exit(loader)
        # A handler that leaves the server open: the process exits when no work is left.
        loader = self.app("""
            require('http').createServer((q, s) => s.end('ok')).listen();
            PhusionPassenger.on('exit', async () => { await null; setTimeout(() => console.log('flushed'), 20); });
        """)
        loader.channel.shutdown(socket.SHUT_WR)
        self.assertEqual(loader.lines.read(), b"flushed\n")
        self.check_exit(loader)

    def test_the_address_of_the_client(self):
        loader = self.app("""
            const http = require('http');
            const of = ({ url, socket, connection }) =>
              JSON.stringify([url, socket.remoteAddress, connection.remoteAddress, socket.remoteFamily, socket.remotePort]);
            const server = http.createServer((q, s) => s.end(of(q))).listen(0);
            server.on('upgrade', (q, socket) => socket.end(of(q))).on('connect', (q, socket) => socket.end(of(q)));
            server.on('checkContinue', (q, s) => s.end(`continue ${of(q)}`));
        """)
        self.assertEqual(loader.ready["takes_origin"], "true")
        conn = self.http(loader)
        addresses = (("192.0.2.7", 5555, "IPv4"), ("2001:db8::1", 0, "IPv6"), ("192.0.2.9", 1, "IPv4"))
        for address, port, family in addresses:
            conn.request("GET", target("/a?b,c", address, port), headers={"X-Forwarded-For": "6.6.6.6"})
            self.assertEqual(json.loads(conn.getresponse().read()), ["/a?b,c", address, address, family, port])
        for method, path, fields, body in (
            ("GET", "/", "Connection: upgrade\r\nUpgrade: x", b""), ("POST", "/", "Expect: 100-continue", b"continue "),
            ("OPTIONS", "*", "A: b", b""),
        ):
            with self.subTest(method), loader.connect() as conn:
                conn.sendall(f"{method} {target(path, '192.0.2.8', 7)} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n".encode())
                expected = json.dumps([path, "192.0.2.8", "192.0.2.8", "IPv4", 7], separators=(",", ":")).encode()
                answer = b""
                while not answer.endswith(expected):
                    answer += (part := conn.recv(1000))
                    self.assertTrue(part, answer)
                self.assertTrue(answer.endswith(body + expected), answer)

    def test_a_target_without_the_password_has_no_client(self):
        loader = self.app("""
            require('http').createServer((q, s) => s.end(`${q.url} ${q.socket.remoteAddress} ${q.socket.remotePort}`)).listen(0);
        """)
        conn = self.http(loader)
        conn.request("GET", target("/known"))
        self.assertEqual(conn.getresponse().read(), b"/known 192.0.2.1 5555")
        for path in ("/", target(password="wrong"), f"/{PASSWORD}", f"/{PASSWORD},", f"/{PASSWORD},http;192.0.2.1;1", "/" + target()):
            conn.request("GET", path, headers={"X-Forwarded-For": "192.0.2.1"})
            self.assertEqual(conn.getresponse().read(), f"{path} undefined undefined".encode())
        # The rest behind the origin is the client's, and may look like an origin, too.
        conn.request("GET", target(target("/", "6.6.6.6"), "192.0.2.2"))
        self.assertEqual(conn.getresponse().read(), f"{target('/', '6.6.6.6')} 192.0.2.2 5555".encode())

    def test_the_scheme_of_the_client(self):
        loader = self.app("""
            'use strict';
            require('http').createServer((q, s) => {
              const before = q.socket.encrypted;
              if (q.url === '/set') q.socket.encrypted = 'set';
              s.end(`${before} ${q.connection.encrypted}`);
            }).listen(0);
        """)
        conn = self.http(loader)
        for path, scheme, expected in (("/", "https", "true true"), ("/", "http", "undefined undefined"), ("/set", "http", "undefined set"),
                                       ("/", "http", "undefined undefined"), ("/set", "https", "true set"), ("/", "https", "true true")):
            conn.request("GET", target(path, scheme=scheme))
            self.assertEqual(conn.getresponse().read(), expected.encode())
        conn.request("GET", "/", headers={"X-Forwarded-Proto": "https"})
        self.assertEqual(conn.getresponse().read(), b"undefined undefined")

    def test_the_scheme_that_a_listener_of_connections_sets(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => s.end(String(q.socket.encrypted))).listen(0);
            server.on('connection', (socket) => { socket.encrypted = true; });
        """)
        conn = self.http(loader)
        for _ in range(2):
            self.assertEqual(self.ask(conn), (200, b"true"))

    def test_the_address_of_the_client_when_the_socket_has_ended(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              s.on('close', () => console.log(q.socket.destroyed, q.socket.remoteAddress, q.socket.remotePort));
              q.socket.destroy();
            }).listen(0);
        """)
        with loader.connect() as conn:
            conn.sendall(f"GET {target('/', '192.0.2.8', 7)} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            self.assertEqual(loader.lines.readline(), b"true 192.0.2.8 7\n")

    def test_a_listener_of_diagnostics_sees_the_client_of_the_request_that_begins(self):
        loader = self.app("""
            const seen = [];
            const note = ({ request }) => seen.push([request.url, request.socket.remoteAddress]);
            require('diagnostics_channel').subscribe('http.server.request.start', note);
            require('http').createServer((q, s) => s.end(JSON.stringify(seen.splice(0)))).listen(0);
        """)
        conn = self.http(loader)
        for address in ("192.0.2.1", "192.0.2.2"):
            conn.request("GET", target("/x", address))
            self.assertEqual(json.loads(conn.getresponse().read()), [["/x", address]])

    def test_sigquit_shows_the_requests_in_progress(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url !== '/done') return console.log('begun');
              s.end('ok');
            }).listen(0);
        """)
        done, stuck = self.http(loader), self.http(loader)
        self.ask(done, "/done")
        stuck.request("GET", "/stuck")
        self.assertEqual(loader.lines.readline(), b"begun\n")
        loader.process.send_signal(signal.SIGQUIT)
        self.eventually(lambda: "waits for: " in loader.read_stderr())
        report = loader.read_stderr()
        self.assertTrue("GET /stuck" in report and "/done" not in report, report)
        self.assertEqual(self.ask(done, "/done"), (200, b"ok"))

    def test_a_busy_main_thread_shows_its_stack(self):
        loader = self.app("""
            function spin() { for (;;); }
            require('http').createServer((q, s) => q.url === '/spin' ? spin() : s.end('ok')).listen(0);
        """, max_request_time=1000)
        conn = self.http(loader)
        self.assertEqual(self.ask(conn), (200, b"ok"))
        conn.request("GET", "/spin")
        self.eventually(lambda: "at spin (" in loader.read_stderr())
        loader.process.kill()
        loader.process.wait()
        self.assertEqual(loader.read_stderr().count("has been busy"), 1)
        self.assertIn("app.js:2:", loader.read_stderr())

    def test_uncaught_exception_while_serving(self):
        loader = self.app("require('http').createServer(() => { throw new RangeError('bad') }).listen()")
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            self.ask(self.http(loader))
        self.check_exit(loader, 1)
        self.assertIn("RangeError: bad", loader.read_stderr())
