"""The loader of Node applications: what outlives an answer never touches another request."""

import json
import os
import re
import time

from common import NodeLoader
from driver import target


class NodeOutlives(NodeLoader):
    def test_a_body_has_no_more_bytes_than_its_length(self):
        loader = self.app("""
            const forged = 'HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nforged';
            require('http').createServer((q, s) => {
              if (q.url === '/next') return s.end('next');
              s.setHeader('Content-Length', 5);
              s.on('error', () => {});
              if (q.url === '/end') return s.end('first' + forged);
              if (q.url === '/buffer') return s.end(Buffer.from('first' + forged));
              if (q.url === '/wide') { s.write('f\u00efrs'); return s.end(forged); }
              s.write('first');
              if (q.url === '/write') { s.write(forged); return s.end(); }
              setTimeout(() => s.end(forged), 20);
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/end", "/buffer", "/wide", "/write", "/late", "/late"):
            with self.subTest(path):
                self.send(conn, path)
                self.assertEqual(self.read(file, 5), "f\xefrs".encode() if path == "/wide" else b"first")
                self.send(conn, "/next")
                head = file.readline()
                while (line := file.readline()) != b"\r\n":
                    head += line
                self.assertIn(b"Content-Length: 4", head)
                self.assertEqual(file.read(4), b"next")

    def test_a_body_with_too_few_bytes_ends_the_connection(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              s.setHeader('Content-Length', 10);
              if (q.method === 'HEAD') return s.end();
              if (q.url === '/write') s.write('fir');
              s.end(q.url === '/whole' ? '0123456789' : 'st');
            }).listen(0);
        """)
        for path, body in (("/write", b"first"), ("/end", b"st")):
            conn, file = self.raw(loader)
            self.send(conn, path)
            self.assertEqual(self.read(file, 10), body)
        conn, file = self.raw(loader)
        for _ in range(2):
            conn.sendall(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            self.read(file, 0)
            self.send(conn, "/whole")
            self.assertEqual(self.read(file, 10), b"0123456789")

    def test_properties_and_listeners_of_the_socket_end_with_the_answer(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => {
              const { socket } = q;
              const seen = [socket.user, socket.hidden, socket.mark, socket.listenerCount('close'), socket.listenerCount('lookup')].join(' ');
              if (q.url === '/alice') {
                socket.user = 'alice';
                Object.defineProperty(socket, 'hidden', { value: 'alice', configurable: true });
                socket.on('close', () => console.log('close'));
                socket.once('close', () => console.log('close once'));
                socket.on('end', () => console.log('end'));
                socket.on('lookup', () => {});
                const done = () => console.log('never');
                socket.on('close', done);
                s.on('finish', () => socket.removeListener('close', done));
                setTimeout(() => { socket.late = 1; socket.on('lookup', () => {}); }, 5);
              }
              if (q.url === '/keys') return s.end(String(socket.late) + seen);
              setTimeout(() => s.end(seen), q.url === '/slow' ? 20 : 0);
            });
            server.on('connection', (socket) => { socket.mark = 'mark'; socket.on('close', () => {}); });
            server.listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/first")
        size = len(b"  mark 2 0")
        first = self.read(file, size)
        for path in ("/alice", "/bob", "/slow", "/alice", "/bob"):
            self.send(conn, path)
            self.assertEqual(self.read(file, size), first)
        self.assertEqual([loader.lines.readline() for _ in range(4)], [b"close\n", b"close once\n"] * 2)
        time.sleep(0.02)
        self.send(conn, "/keys")
        self.assertEqual(self.read(file, size + 9), b"undefined" + first)
        self.assertEqual(loader.read_stderr(), "")

    def test_properties_of_the_socket_that_are_not_enumerable(self):
        loader = self.app("""
            const hide = {
              '/one': (socket) => Object.defineProperty(socket, 'hidden', { value: 1, configurable: true }),
              '/all': (socket) => Object.defineProperties(socket, { hidden: { value: 1, configurable: true } }),
              '/reflect': (socket) => Reflect.defineProperty(socket, 'remoteAddress', { value: 'alice', configurable: true }),
              '/later': (socket) => setTimeout(hide['/one'], 5, socket),
            };
            require('http').createServer((q, s) => {
              const { socket } = q;
              const seen = `${socket.hidden} ${socket.remoteAddress}`;
              if (hide[q.url]) hide[q.url](socket);
              setTimeout(() => s.end(seen), 10);
            }).listen(0);
            if (Object.defineProperty.length !== 3 || Object.defineProperty.name !== 'defineProperty') console.log('changed');
        """)
        conn, file = self.raw(loader)
        for path in ("/first", "/one", "/all", "/reflect", "/later", "/last"):
            with self.subTest(path):
                self.send(conn, path)
                self.assertEqual(self.read(file, len("undefined undefined")), b"undefined undefined")
        loader.process.kill()
        self.assertEqual(loader.lines.read(), b"")

    def test_an_accessor_of_the_connection_that_a_request_has_replaced(self):
        loader = self.app("""
            const define = (socket, name) => Object.defineProperty(socket, 'user', { get: () => name, configurable: true, enumerable: true });
            const server = require('http').createServer((q, s) => {
              const { user } = q.socket;
              if (q.url === '/login') define(q.socket, 'alice');
              s.end(user);
            });
            server.on('connection', (socket) => define(socket, 'nobody')).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/login", "/next"):
            with self.subTest(path):
                self.send(conn, path)
                self.assertEqual(self.read(file, len("nobody")), b"nobody")

    def test_no_request_runs_with_a_method_that_cannot_be_restored(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              const { write } = q.socket;
              console.log(q.url);
              s.end('ok');
              Object.defineProperty(q.socket, 'write', { get: () => write.bind(q.socket), configurable: false });
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/first")
        self.assertEqual(self.read(file, 2), b"ok")
        self.assertEqual(loader.lines.readline(), b"/first\n")
        self.assertEqual(self.rest(conn, file, "/next"), b"")
        self.assertEqual(self.ask(self.http(loader), "/last"), (200, b"ok"))
        self.assertEqual(loader.lines.readline(), b"/last\n")

    def test_methods_that_a_request_has_replaced(self):
        loader = self.app("""
            const net = require('net');
            let seen = [];
            let write;
            class Other extends net.Socket {}
            const change = {
              '/write': (socket) => { socket.write = function (...a) { return write.apply(this, a); }; },
              '/on': (socket) => { const { on } = socket; socket.on = function (...a) { seen.push('on'); return on.apply(this, a); }; },
              '/address': (socket) => { socket.address = () => 'alice'; },
              '/prototype': (socket) => Object.setPrototypeOf(socket, Other.prototype),
              '/domain': (socket) => { const domain = require('domain').create(); domain.user = 'alice'; domain.add(socket); },
              '/delete': (socket) => { delete socket.pause; },
              '/swap': (socket) => { delete socket.pause; socket.user = 'alice'; },
              '/later': (socket) => setTimeout(change['/write'], 5, socket),
              '/getter': (socket) => {
                const hook = function (...a) { return write.apply(this, a); };
                Object.defineProperty(socket, 'write', { get: () => hook, set() {}, configurable: true, enumerable: true });
              },
            };
            require('http').createServer((q, s) => {
              const { socket } = q;
              const own = Object.prototype.hasOwnProperty.call(socket, 'pause');
              const state = `${seen} ${socket.address().address} ${socket instanceof Other} ${process.domain?.user} ${socket.domain?.user} ${own} ${socket.user} ${socket.write === (write = write || socket.write)}`;
              seen = [];
              if (change[q.url]) change[q.url](socket);
              setTimeout(() => { seen = []; s.end(state); process.nextTick(() => { seen = []; }); }, 10);
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        first = b" undefined false undefined undefined true undefined true"
        for path in ("/first", "/write", "/on", "/address", "/prototype", "/domain", "/delete", "/swap", "/getter", "/later", "/last"):
            with self.subTest(path):
                self.send(conn, path)
                self.assertEqual(self.read(file, len(first)), first)

    def test_no_request_runs_with_a_property_that_cannot_be_deleted(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              console.log(q.url, q.socket.user);
              const define = () => Object.defineProperty(q.socket, 'user', { value: 'alice' });
              if (q.url === '/now') define();
              if (q.url === '/late') s.on('close', () => setTimeout(() => { define(); console.log('late'); }, 5));
              s.end('ok');
            }).listen(0);
        """)
        for path in ("/now", "/late"):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path)
                self.assertEqual(self.read(file, 2), b"ok")
                self.assertEqual(loader.lines.readline(), f"{path} undefined\n".encode())
                if path == "/late":
                    self.assertEqual(loader.lines.readline(), b"late\n")
                    self.assertEqual(self.rest(conn, file, "/next", b"x"), b"")
                else:
                    self.assertEqual(self.last(file), b"")  # at once
        self.assertEqual(self.ask(self.http(loader), "/last"), (200, b"ok"))
        self.assertEqual(loader.lines.readline(), b"/last undefined\n")

    def test_a_store_of_a_request_is_not_that_of_the_next(self):
        loader = self.app("""
            const { AsyncLocalStorage } = require('async_hooks');
            const als = new AsyncLocalStorage();
            let later;
            require('http').createServer((q, s) => {
              const seen = [als.getStore(), later && later.getStore()];
              if (q.url !== '/plain') als.enterWith('alice');
              if (q.url === '/later') { later = later || new AsyncLocalStorage(); later.enterWith('alice'); }
              const end = () => s.end(JSON.stringify([...seen, als.getStore()]));
              if (q.url === '/data') { q.on('data', () => als.enterWith('data')); q.on('end', end); }
              else if (q.url === '/end') { q.resume(); q.on('end', () => { als.enterWith('end'); end(); }); }
              else if (q.url === '/async') setTimeout(end, 2);
              else end();
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/plain", "/now", "/async", "/data", "/end", "/later", "/later"):
            self.send(conn, path, b"body")
            size = int(re.search(r"Content-Length: (\d+)", self.head(file))[1])
            before, of_later, after = json.loads(file.read(size))
            self.assertEqual((before, of_later), (None, None), path)
            if path in ("/now", "/later"):
                self.assertEqual(after, "alice")
            self.send(conn, "/plain")
            self.assertEqual(self.read(file, len("[null,null,null]")), b"[null,null,null]")

    def test_properties_of_the_resource_of_requests(self):
        loader = self.app("""
            const { executionAsyncResource } = require('async_hooks');
            require('http').createServer((q, s) => {
              const resource = executionAsyncResource();
              const had = String(resource.user);
              if (q.url === '/set') resource.user = 'alice';
              if (q.url === '/fixed') Object.defineProperty(resource, 'user', { value: 'alice' });
              if (q.url === '/getter') Object.defineProperty(resource, 'user', { get() { return 'alice'; } });
              s.end(had.padEnd(9));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/set", "/get", "/set", "/get"):
            self.send(conn, path)
            self.assertEqual(self.read(file, 9), b"undefined")
        for path in ("/fixed", "/getter"):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path)
                self.assertEqual(self.read(file, 9), b"undefined")
                self.send(conn, "/get")
                self.assertEqual(self.last(file), b"", "the request begins on another connection")

    def test_a_request_that_is_emitted_again_is_not_the_latest(self):
        loader = self.app("""
            let again;
            const server = require('http').createServer((q, s) => {
              if (q === again) return;
              if (q.url === '/first') { again = q; return s.end('x'.padEnd(9)); }
              const before = q.socket.remoteAddress;
              server.emit('request', again, s);
              s.end(String(before === q.socket.remoteAddress).padEnd(9));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path, address, body in (("/first", "192.0.2.1", b"x        "), ("/next", "192.0.2.2", b"true     ")):
            conn.sendall(f"GET {target(path, address)} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            self.assertEqual(self.read(file, 9), body)

    def test_a_late_end_of_the_socket_of_an_earlier_request(self):
        """Express destroys the socket of a request whose answer has left, when it learns of an error."""
        loader = self.app("""
            const http = require('http');
            const net = require('net');
            const held = [];
            const ends = {
              destroy: (q) => q.socket.destroy(), error: (q) => q.socket.destroy(new Error('late')), soon: (q) => q.socket.destroySoon(),
              end: (q) => q.socket.end(), write: (q) => q.socket.write('x'), last: (q) => q.socket.end('x'),
              reset: (q) => (q.socket.resetAndDestroy || q.socket.destroy).call(q.socket), connection: (q) => q.connection.destroy(),
              client: (q) => q.client.destroy(), request: (q) => q.destroy(), pause: (q) => q.socket.pause(),
              timeout: (q) => q.socket.setTimeout(1), data: (q) => q.socket.on('data', () => {}), property: (q) => { q.socket.user = 'x'; },
              methods: (q) => { q.socket.write = q.socket.end = () => {}; q.socket.removeAllListeners(); },
              response: (q) => { const s = new http.ServerResponse(q); s.assignSocket(q.socket); s.end('forged'); },
              ask: (q) => http.request({ createConnection: () => q.socket, method: 'POST' }).on('error', () => {}).end('forged'),
              continue: (q, _, s) => { s.writeContinue(() => {}); s.write('x', () => {}); s.end('x'); s.setTimeout(1); q.setTimeout(1); },
              upgrade: (q, server) => server.emit('upgrade', q, q.socket, Buffer.alloc(0)),
              emit: (q) => q.socket.emit('error', new Error('late')),
              interim: (q, _, s) => {
                for (let nth = 0; nth < 1000; nth++) { s.writeProcessing(); s.writeEarlyHints({ link: `</${'x'.repeat(30000)}>` }); }
              },
              own: (q) => { q.client.query(); }, fixed: () => {}, accessor: () => {}, replaced: () => {},
              define: (q) => {
                Object.defineProperty(q.socket, 'a', { value: 1 });
                if (!Object.getOwnPropertyDescriptor(q.socket, 'a') || !Object.hasOwn(q.socket, 'a')) throw new Error('a');
                Object.preventExtensions(q.socket);
              },
              address: (q) => {
                q.socket.once('close', () => {});
                if (!(q.socket instanceof net.Socket) || !q.socket.destroyed || q.socket !== q.connection) throw new Error('no socket');
                if (q.socket.remoteAddress !== '192.0.2.1' || q.socket.remoteFamily !== 'IPv4') throw new Error(q.socket.remoteAddress);
              },
            };
            const server = http.createServer((q, s) => {
              if (q.url === '/first') {
                const next = q.headers['x-next'];
                if (next === 'own') q.client = { query() {} };
                if (next === 'fixed') Object.defineProperty(q, 'socket', { value: q.socket, writable: false });
                if (next === 'accessor') { const { socket } = q; Object.defineProperty(q, 'socket', { get: () => socket }); }
                if (next === 'replaced') s.req = Object.freeze({});
                held.push(q, s);
                q.on('data', () => {});
                s.on('error', () => {}).on('finish', () => held.push(q.socket));
                return s.end('first');
              }
              const [earlier, answer, socket] = held.splice(0);
              if (socket !== q.socket) return s.end('other');
              ends[q.url.slice(1)](earlier, server, answer);
              setTimeout(() => s.end(q.socket.user === undefined && q.socket.remoteAddress === '192.0.2.2' ? 'whole' : 'wrong'), 10);
            });
            server.on('upgrade', () => {}).listen(0);
        """)
        names = ("destroy error soon end write last reset connection client request pause timeout data property methods upgrade "
                 "address response ask continue emit interim own define fixed accessor replaced").split()
        for method in ("GET", "POST"):
            conn, file = self.raw(loader)
            for name in names:
                with self.subTest(name, method=method):
                    for path, address, body in (("/first", "192.0.2.1", b"first"), (f"/{name}", "192.0.2.2", b"whole")):
                        rest = "Content-Length: 2\r\n\r\nab" if method == "POST" else "\r\n"
                        conn.sendall(f"{method} {target(path, address)} HTTP/1.1\r\nHost: a\r\nX-Next: {name}\r\n{rest}".encode())
                        self.assertEqual(self.read(file, 5), body)

    def test_a_tracer_sets_the_store_of_each_request(self):
        loader = self.app("""
            const { AsyncLocalStorage } = require('async_hooks');
            const [run, entered] = [new AsyncLocalStorage(), new AsyncLocalStorage()];
            require('diagnostics_channel').subscribe('http.server.request.start', ({ request }) => {
              entered.enterWith(request.url);
              request.socket.traced = request.url;
            });
            const server = require('http').createServer((q, s) => {
              s.end(JSON.stringify([run.getStore(), entered.getStore(), q.socket.traced]));
            });
            server.listen(0);
            const { emit } = server;
            server.emit = function (event, first, ...rest) {
              return event === 'request' ? run.run(first.url, () => emit.call(this, event, first, ...rest)) : emit.call(this, event, first, ...rest);
            };
        """)
        conn, file = self.raw(loader)
        for path in ("/alice", "/bobby", "/carol"):
            self.send(conn, path)
            size = int(re.search(r"Content-Length: (\d+)", self.head(file))[1])
            self.assertEqual(json.loads(file.read(size)), [path] * 3)

    def test_a_property_of_the_connection_gets_its_first_value_back(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => {
              const seen = [q.socket.user, q.socket.other, q.socket.swapped];
              if (q.url === '/alice') { q.socket.user = 'alice'; delete q.socket.other; q.socket.swapped = 'alice'; }
              s.end(JSON.stringify(seen));
            });
            server.on('connection', (socket) => { socket.user = null; socket.other = 1; });
            server.listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/alice", "/bobby", "/alice", "/carol"):
            self.send(conn, path)
            size = int(re.search(r"Content-Length: (\d+)", self.head(file))[1])
            self.assertEqual(json.loads(file.read(size)), [None, 1, None], path)

    def test_a_property_that_cannot_be_deleted_ends_the_connection_and_not_the_process(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              const seen = q.socket.encrypted;
              if (q.url === '/lock') Object.defineProperty(q.socket, 'encrypted', { get: () => true, enumerable: true });
              s.end(JSON.stringify([seen === undefined]));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/lock")
        self.read(file, len("[true]"))
        try:
            self.send(conn, "/next")
            self.assertEqual(self.last(file), b"")
        except ConnectionError:
            pass
        conn, file = self.raw(loader)
        self.send(conn, "/next")
        self.assertEqual(self.read(file, len("[true]")), b"[true]")

    def test_a_late_event_of_the_server_gives_no_socket_to_the_application(self):
        loader = self.app("""
            const forged = 'HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nforged';
            let kept;
            const server = require('http').createServer((q, s) => {
              if (q.url === '/keep') { kept = q; kept.own = q.socket; return s.end('kept'); }
              if (q.url === '/next') {
                server.emit(q.headers['x-event'], q.headers['x-event'] === 'clientError' ? new Error() : kept, kept.own, Buffer.alloc(0));
                kept.own.write(forged);
                setTimeout(() => s.end('next'), 20);
              }
            });
            server.on('upgrade', () => {}).on('clientError', () => {}).on('connect', () => {});
            server.listen(0);
        """)
        for event in ("upgrade", "connect", "clientError"):
            with self.subTest(event):
                conn, file = self.raw(loader)
                self.send(conn, "/keep")
                self.assertEqual(self.read(file, 4), b"kept")
                self.send(conn, "/next", **{"X-Event": event})
                self.assertEqual(file.read(), b"")

    def test_no_connection_stands_in_for_a_stream_that_was_closed(self):
        loader = self.app("""
            const fs = require('fs');
            require('http').createServer((q, s) => {
              if (q.url === '/close') for (const number of [1, 2]) fs.closeSync(number);
              if (q.url === '/write') console.log('of alice');
              s.end(q.url);
            }).listen(0);
            console.log('the stream is open');
        """)
        conns = []

        def asks(path):
            """Ask on a new connection. Return whether it is answered: the loader ends it until the streams are back."""
            conns.append(self.raw(loader))
            return asks_again(*conns[-1], path)

        def asks_again(conn, file, path):
            try:
                self.send(conn, path)
                line = file.readline()
            except OSError:
                line = b""
            if line:
                self.assertEqual((line, self.read(file, len(path))), (b"HTTP/1.1 200 OK\r\n", path.encode()))
            return line != b""

        self.assertTrue(asks("/close"))
        for _ in range(4):
            self.eventually(lambda: asks("/write"))
        for conn, file in conns:
            asks_again(conn, file, "/next")
        self.assertTrue(asks("/write"))

    def test_a_write_to_the_socket_ends_the_connection(self):
        loader = self.app("""
            let kept;
            require('http').createServer((q, s) => {
              const socket = q.socket;
              if (q.url === '/keep') { kept = socket; return s.end('kept'); }
              if (q.url === '/now') { socket.write('forged'); return s.end('now'); }
              if (q.url === '/end') return socket.end('forged');
              if (q.url === '/use') { kept.write('forged'); return s.end('used'); }
              if (q.url === '/wait') return console.log('waits');
              s.end('ok');
            }).listen(0);
        """)
        for path in ("/now", "/end"):
            conn, file = self.raw(loader)
            self.send(conn, path)
            self.assertEqual(self.last(file), b"")
        for path in (None, "/wait"):  # an idle connection, and one that carries the next request
            conn, file = self.raw(loader)
            self.send(conn, "/keep")
            self.assertEqual(self.read(file, 4), b"kept")
            if path:
                self.send(conn, path)
                self.assertEqual(loader.lines.readline(), b"waits\n")
            self.assertEqual(self.ask(self.http(loader), "/use"), (200, b"used"))
            self.assertEqual(self.last(file), b"")
        self.assertEqual(self.ask(self.http(loader), "/ok"), (200, b"ok"))
        self.assertIn("wrote to the socket", loader.read_stderr())

    def test_an_application_that_reads_the_socket_sees_no_other_request(self):
        loader = self.app("""
            const http = require('http');
            const { PassThrough } = require('stream');
            http.createServer((q, s) => {
              if (q.url === '/data') q.socket.on('data', (d) => console.log('saw', String(d)));
              if (q.url === '/once') q.socket.once('readable', () => console.log('saw', String(q.socket.read())));
              if (q.url === '/pipe') q.socket.pipe(new PassThrough()).on('data', (d) => console.log('saw', String(d)));
              if (q.url === '/begun') { s.write('be'); q.socket.on('data', (d) => console.log('saw', String(d))); return s.end('gun'); }
              s.end(q.url);
            }).listen(0);
        """)
        for path in ("/data", "/once", "/pipe", "/begun"):
            conn, file = self.raw(loader)
            self.send(conn, path)
            try:
                self.send(conn, "/secret", Cookie="secret")
            except OSError:
                pass  # the loader has closed it
            answer = file.read()
            self.assertNotIn(b"/secret", answer)
        self.assertEqual(self.ask(self.http(loader), "/ok"), (200, b"/ok"))
        loader.process.kill()
        self.assertNotIn(b"secret", loader.lines.read())

    def test_a_response_and_a_request_that_are_kept(self):
        loader = self.app("""
            let kept;
            require('http').createServer((q, s) => {
              if (q.url === '/keep') {
                kept = [q, s];
                s.on('error', (error) => console.log(error.code));
                return s.end('kept');
              }
              const [request, response] = kept;
              response.write('late');
              response.end('late');
              try { response.setHeader('x', 'late'); } catch (error) { console.log(error.code); }
              try { response.writeHead(201); } catch (error) { console.log(error.code); }
              response.writeContinue();
              request.on('data', (d) => console.log('saw', String(d)));
              request.resume();
              let body = '';
              q.on('data', (d) => { body += d; }).on('end', () => s.end(body));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for _ in range(2):
            self.send(conn, "/keep", b"of the first")
            self.assertEqual(self.read(file, 4), b"kept")
            self.send(conn, "/next", b"of the second")
            self.assertEqual(self.read(file, 13), b"of the second")
        loader.process.kill()
        output = loader.lines.read()
        self.assertIn(b"ERR_HTTP_HEADERS_SENT", output)
        self.assertNotIn(b"saw", output)

    def test_a_request_before_the_end_of_an_answer_ends_the_connection(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              console.log(q.url);
              if (q.url === '/whole') return s.end('whole');
              s.write('part');
              setTimeout(() => s.end(), 300);
            }).listen(0);
        """)
        for path in ("/part", "/whole"):
            conn, file = self.raw(loader)
            conn.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\nGET /early HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            try:
                self.assertNotIn(b"early", file.read())
            except ConnectionError:
                pass
            self.assertEqual(loader.lines.readline(), f"{path}\n".encode())
        loader.process.kill()
        self.assertEqual(loader.lines.read(), b"")  # the application has seen no other

    def test_children_have_no_socket_of_their_parent(self):
        child = """
            const fs = require('fs');
            const sockets = [];
            for (const name of fs.readdirSync('/proc/self/fd')) {
              try { if (name > 2) sockets.push(fs.readlinkSync('/proc/self/fd/' + name)); } catch {}
            }
            console.log('child', JSON.stringify(sockets.filter((one) => one.startsWith('socket'))));
        """
        loader = self.app(f"""
            const child = {child!r};
            const {{ fork, spawn }} = require('child_process');
            require('fs').writeFileSync('child.js', child);
            require('http').createServer((q, s) => {{
              const made = q.url === '/fork' ? fork('./child.js') : spawn(process.execPath, ['child.js'], {{ stdio: 'inherit' }});
              made.on('exit', () => s.end('done'));
            }}).listen(0);
        """)
        own = {f"socket:[{inode}]" for inode in self.sockets(loader)}
        for path in ("/fork", "/spawn"):
            conn = self.http(loader)
            own |= {f"socket:[{inode}]" for inode in self.sockets(loader)}
            self.assertEqual(self.ask(conn, path), (200, b"done"))
            own |= {f"socket:[{inode}]" for inode in self.sockets(loader)}
            line = b""
            while not line.startswith(b"child"):
                line = loader.lines.readline()
            self.assertFalse(own & set(json.loads(line[6:])))

    def sockets(self, loader):
        links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{loader.process.pid}/fd")]
        return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}

    def test_the_server_has_no_limit_of_connections(self):
        """Since version 22, 0 would be one."""
        loader = self.app("""
            const server = require('http').createServer((q, s) => s.end(String(server.maxConnections)));
            server.maxConnections = 1;
            server.listen(0);
        """)
        first, second = self.http(loader), self.http(loader)
        self.assertEqual(self.ask(first), (200, b"undefined"))
        self.assertEqual(self.ask(second), (200, b"undefined"))

    def test_a_length_that_is_given_as_a_text_counts(self):
        """Before version 20 Node keeps it as it is."""
        loader = self.app("""
            require('http').createServer((q, s) => {
              s.writeHead(200, { 'Content-Length': q.url === '/short' ? '3' : '2' });
              s.write('hi');
              if (q.url === '/short') return s.end();
              setTimeout(() => { s.write('HTTP/1.1 200 OK'); s.end(); }, 20);
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for _ in range(2):
            self.send(conn, "/more")
            self.assertEqual(self.read(file, 2), b"hi")
        self.send(conn, "/short")
        self.assertEqual(self.read(file, 3), b"hi")

    def test_no_field_of_an_interim_answer_ends_it(self):
        """A client may have chosen its text. The rest would be an answer that the next client gets."""
        loader = self.app("""
            const own = '\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nmark';
            const hints = [
              { link: `</a${own}>; rel=preload` }, { link: ['</a>; rel=preload', `</b${own}>; rel=preload`] },
              { link: '</a>; rel=preload', own: `a${own}` }, { link: '</a>; rel=preload', [`a: b${own}`]: 'c' },
              { link: '</a>; rel=preload', own: [['a', `a${own}`]] },
              { link: '</a>; rel=preload', own: { count: 0, toString() { return this.count++ ? `a${own}` : 'a'; } } },
              { link: '</a>; rel=preload', own: 'fine', more: ['x', 'y'], none: undefined },
            ];
            require('http').createServer((q, s) => {
              if (!s.writeEarlyHints) return s.end('old!!');
              s.writeEarlyHints(hints[Number(q.url.slice(1))], () => s.end('whole'));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for number in range(7):
            with self.subTest(number):
                self.send(conn, f"/{number}")
                head = self.head(file)
                if "103" in head:
                    self.assertGreaterEqual(number, 5)
                    head = self.head(file)
                self.assertIn("HTTP/1.1 200 OK", head)
                self.assertNotIn("length: 4\r", head.lower())
                self.assertIn(file.read(5), (b"whole", b"old!!"))

    def test_a_request_begins_when_the_bytes_of_a_long_answer_have_left(self):
        """A client has the end of a long answer a moment before Node knows it."""
        loader = self.app("""
            let latest;
            require('http').createServer((q, s) => {
              if (latest && latest.socket === q.socket) console.log('early');
              latest = s;
              q.resume().on('end', () => s.end(q.method === 'POST' ? 'small' : Buffer.alloc(600000, 'x')));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for _ in range(150):
            self.send(conn, "/long")
            self.read(file, 600000)
            self.send(conn, "/next", b"body")
            self.assertEqual(self.read(file, 5), b"small")
        loader.process.kill()
        self.assertEqual(loader.lines.read(), b"")

    def test_the_answer_to_a_head_request_whose_method_the_application_changes(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url === '/head') q.method = 'GET';
              s.end('hello');
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for _ in range(2):
            self.send(conn, "/head", method="HEAD")
            self.assertIn("keep-alive", self.head(file))
            self.send(conn, "/", b"body")
            self.assertEqual(self.read(file, 5), b"hello")

    def test_a_request_whose_body_an_exception_has_cut_ends(self):
        """Node's parser takes an exception of `process.nextTick` for its own while a body comes. The rest never does."""
        loader = self.app("""
            process.on('uncaughtException', () => {});
            require('http').createServer((q, s) => {
              q.once('data', () => process.nextTick(() => { throw new Error('mine'); })).on('end', () => s.end('whole'));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/", b"body")
        try:
            self.assertEqual(file.read(), b"")
        except ConnectionError:
            pass

    def test_no_interim_answer_after_the_end(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url === '/next') return s.end('next');
              const told = (name) => () => console.log(name);
              const interim = () => {
                s.writeContinue(told('continue'));
                s.writeProcessing(told('processing'));
                if (s.writeEarlyHints) s.writeEarlyHints({ link: '</mark>; rel=preload' }, told('hints'));
              };
              if (q.url === '/before') { interim(); return s.end('first'); }
              s.setHeader('Content-Length', 5);
              if (q.url === '/within') { s.write('fi'); interim(); return s.end('rst'); }
              s.end('first');
              interim();
              s._writeRaw('mark');
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/end", "/within", "/end"):
            with self.subTest(path):
                self.send(conn, path)
                self.assertEqual(self.read(file, 5), b"first")
                self.send(conn, "/next")
                self.assertEqual(file.readline(), b"HTTP/1.1 200 OK\r\n")
                self.assertEqual(self.read(file, 4), b"next")
                self.assertEqual(loader.lines.readline(), b"continue\n")
                while loader.lines.readline() != b"hints\n":
                    pass
        self.send(conn, "/before")
        self.assertEqual(file.readline(), b"HTTP/1.1 100 Continue\r\n")
        conn, file = self.raw(loader)
        conn.sendall(b"POST /next HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n")
        self.assertEqual(file.readline(), b"HTTP/1.1 100 Continue\r\n")

    def test_another_message_on_the_socket_ends_the_connection(self):
        loader = self.app("""
            const http = require('http');
            let kept;
            http.createServer((q, s) => {
              if (q.url === '/keep') { kept = q; kept.own = q.socket; return s.end('kept'); }
              if (q.url === '/wait') return console.log('waits');
              const socket = kept.own;
              if (q.url === '/response' || q.url === '/taken') {
                const other = new http.ServerResponse(q.url === '/taken' ? q : kept);
                socket._httpMessage = null;
                other.assignSocket(socket);
                other.end('forged');
              }
              if (q.url === '/client') {
                const other = http.request({ createConnection: () => socket, method: 'POST' });
                other.on('error', () => {});
                other.end('forged');
              }
              setTimeout(() => s.end('used'), 20);
            }).listen(0);
        """)
        for use in ("/response", "/taken", "/client"):
            for path in (None, "/wait"):  # an idle connection, and one that carries the next request
                with self.subTest(use, path=path):
                    conn, file = self.raw(loader)
                    self.send(conn, "/keep")
                    self.assertEqual(self.read(file, 4), b"kept")
                    if path:
                        self.send(conn, path)
                        self.assertEqual(loader.lines.readline(), b"waits\n")
                    self.assertEqual(self.ask(self.http(loader), use), (200, b"used"))
                    self.assertEqual(self.last(file), b"")

    def test_a_timeout_ends_with_its_request(self):
        loader = self.app("""
            let kept;
            require('http').createServer((q, s) => {
              const late = () => { console.log('late'); q.socket.destroy(); };
              if (q.url === '/request') q.setTimeout(50, late);
              if (q.url === '/response') s.setTimeout(50, late);
              if (q.url === '/socket') q.socket.setTimeout(50, late);
              if (q.url === '/own') return q.setTimeout(50) && s.setTimeout(50, () => s.end('own!!'));
              if (q.url === '/next') {
                if (kept) { kept.setTimeout(50); }
                return setTimeout(() => s.end('next!'), 200);
              }
              kept = q;
              s.end('first');
              if (q.url === '/after') { q.setTimeout(50, late); s.setTimeout(50, late); }
              if (q.url === '/later') setTimeout(() => q.setTimeout(50, late), 5);
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/request", "/response", "/socket", "/after", "/later"):
            with self.subTest(path):
                for one, body in ((path, b"first"), ("/next", b"next!")):
                    self.send(conn, one, b"body")
                    self.assertEqual(self.read(file, 5), body)
                time.sleep(0.1)
        self.send(conn, "/own")
        self.assertEqual(self.read(file, 5), b"own!!")
        loader.process.kill()
        self.assertEqual(loader.lines.read(), b"")

    def test_a_timeout_of_the_server_closes_no_idle_connection(self):
        """The server may have sent the next request at that moment."""
        for set_timeout in ("server.timeout = 50;", "server.setTimeout(50);", "server.setTimeout(50, (socket) => socket.destroy());"):
            with self.subTest(set_timeout):
                loader = self.app("""
                    const server = require('http').createServer((q, s) => {
                      if (q.url === '/long') return s.write('begun');
                      return s.end('first');
                    });
                    SET
                    server.on('upgrade', (q, socket) => {
                      socket.on('timeout', () => socket.destroy());
                      socket.write('HTTP/1.1 101 Switching\\r\\n\\r\\n');
                    });
                    server.listen(0);
                """.replace("SET", set_timeout))
                conn, file = self.raw(loader)
                for _ in range(2):
                    time.sleep(0.2)
                    self.send(conn, "/", b"body")
                    self.assertEqual(self.read(file, 5), b"first")
                self.send(conn, "/long")
                self.assertNotIn(b"0\r\n\r\n", file.read())  # the timeout of a request stays
                conn, file = self.raw(loader)
                self.send(conn, "/", Connection="Upgrade", Upgrade="x")
                self.assertEqual(file.read(), b"HTTP/1.1 101 Switching\r\n\r\n")

    def test_no_call_or_setting_of_the_server_ends_a_connection(self):
        """The server may have sent the next request at that moment."""
        loader = self.app("""
            const late = {
              '/idle': ({ server }) => server.closeIdleConnections(),
              '/requests': ({ server }) => { server.maxRequestsPerSocket = 1; },
              '/connections': ({ server }) => { server.maxConnections = 1; },
              '/times': ({ server }) => { server.keepAliveTimeout = server.headersTimeout = 1; },
              '/again': (socket) => { socket.server.emit('connection', socket); },
              '/timeout': (socket) => setTimeout(() => socket.setTimeout(1), 5),
              '/end': (socket) => setTimeout(() => socket.emit('end'), 5),
              '/emit': (socket) => setTimeout(() => socket.emit('timeout'), 5),
              '/destroy': (socket, q) => {  // its body is complete, and has not been read
                q.on('data', () => q.pause());
                setTimeout(() => { q.destroy(new Error('late')); process.stdout.write(`${q.complete} ${q.readableEnded}\\n`); }, 20);
              },
            };
            require('http').createServer({ connectionsCheckingInterval: 20 }, (q, s) => {
              if (q.url === '/long') return s.end(Buffer.alloc(3000000, 'x'));
              if (late[q.url]) late[q.url](q.socket, q);
              s.end('done');
            }).listen(0);
        """)
        for what in ("/idle", "/requests", "/connections", "/times", "/again", "/timeout", "/end", "/emit", "/destroy"):
            with self.subTest(what):
                used, fresh, long, own = (self.raw(loader) for _ in range(4))
                self.send(used[0], "/")
                self.assertEqual(self.read(used[1], 4), b"done")
                self.send(long[0], "/long")
                self.head(long[1])  # the rest waits in Node
                self.send(own[0], what, b"x" * 70000 if what == "/destroy" else b"")
                self.assertEqual(self.read(own[1], 4), b"done")
                if what == "/destroy":
                    self.assertEqual(loader.lines.readline(), b"true false\n")
                time.sleep(0.1)
                self.assertEqual(long[1].read(3000000), b"x" * 3000000)
                for conn, file in (used, fresh, long, own, self.raw(loader)) * 2:
                    self.send(conn, "/", b"a request that is not safe")
                    self.assertEqual(self.read(file, 4), b"done")

    def test_a_server_that_closes_cuts_no_answer(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => {
              if (q.url === '/long') return s.end(Buffer.alloc(3000000, 'x'));
              if (q.url === '/close') server.close(() => console.log('closed'));
              s.end('done');
            }).listen(0);
        """)
        idle, long, own = (self.raw(loader) for _ in range(3))
        self.send(idle[0], "/")
        self.assertEqual(self.read(idle[1], 4), b"done")
        self.send(long[0], "/long")
        self.head(long[1])
        self.send(own[0], "/close")
        self.assertEqual(self.read(own[1], 4), b"done")
        own[0].shutdown(2)
        self.assertEqual(self.last(idle[1]), b"")
        self.assertEqual(self.last(long[1]), b"x" * 3000000)
        long[0].shutdown(2)
        self.assertEqual(loader.lines.readline(), b"closed\n")

    def test_a_late_pause_or_end_of_the_socket(self):
        loader = self.app("""
            let kept;
            require('http').createServer((q, s) => {
              const { socket } = q;
              if (q.url === '/pause') { socket.pause(); return s.end('first'); }
              if (q.url === '/late') {
                kept = socket;
                setTimeout(() => { socket.pause(); console.log('paused'); }, 20);
                return s.end('first');
              }
              if (q.url === '/end') { setTimeout(() => { socket.end(); console.log('ended'); }, 20); return s.end('first'); }
              if (kept) kept.pause();
              let size = 0;
              q.on('data', (d) => { size += d.length; q.pause(); setTimeout(() => q.resume(), 1); });
              q.on('end', () => s.end(String(size)));
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/pause", "/late"):
            self.send(conn, path)
            self.assertEqual(self.read(file, 5), b"first")
            if path == "/late":
                self.assertEqual(loader.lines.readline(), b"paused\n")
            self.send(conn, "/next", b"x" * 300000)
            self.assertEqual(self.read(file, 6), b"300000")
        self.send(conn, "/end")
        self.assertEqual(self.read(file, 5), b"first")
        self.assertEqual(loader.lines.readline(), b"ended\n")
        self.assertEqual(self.rest(conn, file, "/next", b"x"), b"")  # the request has not run
        self.assertEqual(self.ask(self.http(loader), "/ok"), (200, b"0"))

    def test_a_text_whose_length_was_estimated(self):
        loader = self.app("""
            const mime = 'YWJj\\r\\nYWJj\\r\\nYWJj\\r\\n';
            require('http').createServer((q, s) => {
              if (q.url === '/end') return s.end(mime, 'base64');
              if (q.url === '/hex') return s.end('6162zz63', 'hex');
              if (q.url === '/chunk') { s.write(mime, 'BASE64'); return s.end(); }
              if (q.url === '/nothing') { s.write('x'); s.write('a', 'hex'); s.write('\\n', 'base64'); return s.end('y'); }
              if (q.url.startsWith('/unknown')) {
                if (q.url === '/unknown/length') s.setHeader('Content-Length', 9);
                s.write('abc');
                try { s.write('def', 'nosuch'); } catch {}
                try { s.end('def', 'nosuch'); } catch {}
                return s.end('defghi');
              }
              if (q.url === '/right') { s.setHeader('Content-Length', 9); return s.end(mime, 'base64'); }
              if (q.url === '/whole') { s.write('YWJj', 'base64'); return s.end('YWJjYWJj', 'base64'); }
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for _ in range(2):
            for path, body in (("/end", b"abcabcabc"), ("/hex", b"ab"), ("/chunk", b"9\r\nabcabcabc\r\n0\r\n\r\n"),
                               ("/nothing", b"1\r\nx\r\n1\r\ny\r\n0\r\n\r\n"), ("/right", b"abcabcabc"), ("/unknown/length", b"abcdefghi"),
                               ("/unknown/chunks", b"3\r\nabc\r\n6\r\ndefghi\r\n0\r\n\r\n")):
                self.send(conn, path)
                self.assertEqual(self.read(file, len(body)), body)
            self.send(conn, "/whole")
            self.assertEqual(self.read(file, 24), b"3\r\nabc\r\n6\r\nabcabc\r\n0\r\n\r\n")

    def test_a_socket_that_the_application_owns(self):
        loader = self.app("""
            const http = require('http');
            const server = http.createServer((q, s) => s.end('ok'));
            server.on('upgrade', (q, socket) => {
              socket.write('HTTP/1.1 101 OK\\r\\nConnection: upgrade\\r\\nUpgrade: x\\r\\n\\r\\n');
              socket.on('data', (d) => socket.write(d));
            });
            server.on('clientError', (error, socket) => socket.end('HTTP/1.1 400 Mine\\r\\n\\r\\n'));
            server.listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/", Connection="upgrade", Upgrade="x")
        self.read(file, 0)
        conn.sendall(b"echo")
        self.assertEqual(file.read(4), b"echo")
        conn, file = self.raw(loader)
        conn.sendall(b"nonsense\r\n\r\n")
        self.assertEqual(file.readline(), b"HTTP/1.1 400 Mine\r\n")
        plain = self.app("require('http').createServer({ maxHeaderSize: 16384 }, (q, s) => s.end('ok')).listen(0)")
        conn, file = self.raw(plain)
        conn.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70000 + b"\r\n\r\n")
        self.assertEqual(file.readline()[:12], b"HTTP/1.1 431")
