"""The loader of Node applications: an answer that the application has not ended leaves its connection to no other client."""

import json
import os
import signal

from common import NodeLoader


class NodeEnds(NodeLoader):
    def test_an_answer_whose_first_head_node_refuses(self):
        """What that head said of the body and the connection does not hold for the next one."""
        loader = self.app("""
            const heads = {
              '/204': [204, {}], '/304': [304, {}], '/trailer': [204, { Trailer: 'x-t' }],
              '/chunked': [200, { 'Transfer-Encoding': 'chunked' }], '/close': [200, { Connection: 'close' }],
              '/length': [200, { 'Content-Length': 3 }],
            };
            require('http').createServer((q, s) => {
              if (q.url === '/next') return s.end('next');
              const [status, fields] = heads[q.url];
              try { s.writeHead(status, { ...fields, ETag: '"\u20ac"' }); } catch {
                s.statusCode = 500;
                if (q.headers['x-length']) s.setHeader('Content-Length', 6);
              }
              s.write('fail');
              s.end('ed');
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/204", "/304", "/trailer", "/chunked", "/close", "/length"):
            with self.subTest(path):
                self.send(conn, path, **{"X-Length": "1"})
                head = self.head(file)
                self.assertIn("HTTP/1.1 500", head)
                self.assertIn("keep-alive", head)
                self.assertNotIn("chunked", head)
                self.assertEqual(file.read(6), b"failed")
                self.send(conn, "/next")
                self.assertEqual(self.read(file, 4), b"next")

    def test_an_answer_with_an_interim_status_is_the_last(self):
        """Its client would wait for the answer behind it, which would be the next client's."""
        loader = self.app("""
            require('http').createServer((q, s) => { s.writeHead(150); s.end(); }).listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/")
        self.assertIn("HTTP/1.1 150", self.head(file))
        self.assertEqual(file.read(), b"")

    def test_an_answer_that_its_head_completes_before_the_end(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url === '/next') return s.end('next');
              if (q.url.startsWith('/204')) s.statusCode = 204;
              if (q.url.startsWith('/304')) s.writeHead(304, { Connection: 'keep-alive' });
              if (q.url.startsWith('/empty')) s.setHeader('Content-Length', 0);
              if (q.url.startsWith('/removed')) { s.statusCode = 204; s.removeHeader('Connection'); }
              if (q.url.startsWith('/named')) { s.statusCode = 204; s.setHeader('Connection', 'X-Hop'); }
              if (q.url.endsWith('/flush')) s.flushHeaders();
              if (q.url.endsWith('/write')) s.write('body');
              if (q.url.endsWith('/both')) { s.flushHeaders(); s.write('body'); }
              if (q.url.endsWith('/late')) return setTimeout(() => s.end(), 20);
              if (q.url.endsWith('/end')) s.end();
            }).listen(0);
        """)
        for method, path in (("HEAD", "/flush"), ("HEAD", "/both"), ("GET", "/204/flush"), ("GET", "/304/flush"), ("GET", "/304/both"),
                             ("GET", "/empty/flush"), ("GET", "/empty/write"), ("GET", "/removed/flush"), ("GET", "/named/flush")):
            with self.subTest(f"{method} {path}"):
                conn, file = self.raw(loader)
                self.send(conn, path, method=method)
                head = self.head(file)
                self.assertIn("\r\nConnection: close\r\n", head)
                self.assertNotIn("keep-alive", head)
        conn, file = self.raw(loader)
        for method, path in (("HEAD", "/end"), ("HEAD", "/late"), ("GET", "/204/end"), ("GET", "/204/late"), ("GET", "/304/end"),
                             ("GET", "/empty/end"), ("GET", "/empty/late")):
            with self.subTest(f"{method} {path}"):
                self.send(conn, path, method=method)
                self.assertIn("keep-alive", self.head(file))
                self.send(conn, "/next")
                self.assertEqual(self.read(file, 4), b"next")

    def test_the_last_byte_of_a_declared_length_waits_for_the_end(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url === '/next') return s.end('next');
              s.setHeader('Content-Length', q.url === '/byte' ? 1 : 6);
              s.on('error', () => {});
              const whole = q.url === '/byte' ? 'x' : q.url === '/buffer' ? Buffer.from('f\u00efrst') : 'f\u00efrst';
              s.write(whole, () => {
                console.log('written');
                if (q.url === '/again') s.write('more');
                if (q.url === '/destroy') s.destroy();
                if (q.url === '/throw') try { s.end(5); } catch (error) { console.log(error.code); }
              });
              process.once('SIGUSR2', () => { if (q.url === '/more') s.end('more'); else s.end(); });
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/text", "/buffer", "/again", "/more", "/byte"):
            with self.subTest(path):
                whole = b"x" if path == "/byte" else "f\xefrst".encode()
                self.send(conn, path)
                self.assertEqual(self.read(file, len(whole) - 1), whole[:-1])
                self.assertEqual(loader.lines.readline(), b"written\n")  # the application may wait for it
                conn.setblocking(False)
                with self.assertRaises(BlockingIOError):
                    conn.recv(1)
                conn.settimeout(10)
                loader.process.send_signal(12)
                self.assertEqual(file.read(1), whole[-1:])
                self.send(conn, "/next")
                self.assertEqual(self.read(file, 4), b"next")
        for path in ("/destroy", "/throw"):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path)
                self.assertEqual(self.read(file, -1), "f\xefrst".encode()[:-1])

    def test_ordinary_answers_of_a_declared_length_keep_their_connection(self):
        loader = self.app("""
            const fs = require('fs');
            fs.writeFileSync('file', 'x'.repeat(200000));
            require('http').createServer((q, s) => {
              s.setHeader('Content-Length', 200000);
              if (q.url === '/file') return fs.createReadStream('file').pipe(s);
              if (q.url === '/end') return s.end('x'.repeat(200000));
              s.write('x'.repeat(100000));
              s.write('x'.repeat(100000));
              s.end();
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/file", "/end", "/parts") * 3:
            self.send(conn, path)
            self.assertIn("keep-alive", self.head(file))
            self.assertEqual(file.read(200000), b"x" * 200000)

    def test_a_reader_that_is_added_with_the_end_sees_no_other_request(self):
        loader = self.app("""
            const { PassThrough } = require('stream');
            const saw = (data) => console.log('saw', String(data));
            const readers = {
              '/data': (socket) => socket.on('data', saw),
              '/readable': (socket) => socket.on('readable', () => saw(socket.read())),
              '/pipe': (socket) => socket.pipe(new PassThrough()).on('data', saw),
              '/each': async (socket) => { try { for await (const data of socket) saw(data); } catch {} },
              '/tick': (socket) => process.nextTick(() => socket.on('data', saw)),
              '/promise': (socket) => Promise.resolve().then(() => socket.on('data', saw)),
              '/soon': (socket) => setImmediate(() => socket.on('data', saw)),
            };
            require('http').createServer((q, s) => {
              if (q.url === '/before') {
                s.setHeader('Content-Length', 3000000);
                s.write('x');
                q.socket.on('data', saw);
                return s.end('x'.repeat(2999999));
              }
              if (!readers[q.url]) return s.end('ok');
              s.end('x'.repeat(q.url === '/soon' ? 5 : 3000000));
              readers[q.url](q.socket);
            }).listen(0);
        """)
        for path in ("/data", "/readable", "/pipe", "/each", "/tick", "/promise", "/soon", "/before"):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path)
                size = 5 if path == "/soon" else 3000000
                self.assertEqual(self.read(file, size), b"x" * size)
                self.assertEqual(self.rest(conn, file, "/secret", b"secret"), b"")
        self.assertEqual(self.ask(self.http(loader), "/ok"), (200, b"ok"))
        loader.process.kill()
        self.assertNotIn(b"secret", loader.lines.read())

    def test_a_cork_or_a_removed_listener_holds_up_no_other_answer(self):
        loader = self.app("""
            let kept;
            const spoil = {
              '/cork': ([q, s]) => { s.cork(); q.socket.cork(); },
              '/corks': ([q]) => { q.socket.cork(); q.socket.cork(); },
              '/all': ([q]) => q.socket.removeAllListeners(),
              '/drain': ([q]) => q.socket.removeAllListeners('drain'),
              '/each': ([{ socket }]) => {
                for (const name of ['data', 'end', 'close', 'drain']) {
                  for (const one of socket.rawListeners(name)) socket.off(name, one).removeListener(name, one);
                }
              },
              '/encoding': ([q]) => q.socket.setDefaultEncoding('utf16le'),
            };
            require('http').createServer((q, s) => {
              const [, what, when] = q.url.split('/');
              const spoiler = spoil['/' + what];
              if (spoiler) {
                if (when === 'before') spoiler([q, s]);
                s.end('done');
                if (when === 'after') spoiler([q, s]);
                if (when === 'later') setTimeout(() => { spoiler([q, s]); console.log('later'); }, 5);
                if (when === 'within') kept = () => spoiler([q, s]);
                return;
              }
              s.on('close', () => console.log('closed'));
              s.write('first');
              if (kept) kept();
              kept = undefined;
              process.once('SIGUSR2', () => {
                let parts = 0;
                const go = () => {
                  while (parts++ < 20) if (!s.write('x'.repeat(100000))) return s.once('drain', go);
                  s.end();
                };
                go();
              });
            }).listen(0);
        """)
        for what in ("cork", "corks", "all", "drain", "each", "encoding"):
            conn, file = self.raw(loader)
            for when in ("before", "after", "later", "within"):
                with self.subTest(f"{what} {when}"):
                    self.send(conn, f"/{what}/{when}")
                    self.assertEqual(self.read(file, 4), b"done")
                    if when == "later":
                        self.assertEqual(loader.lines.readline(), b"later\n")
                    self.send(conn, "/next")
                    self.assertEqual(self.read(file, 10), b"5\r\nfirst\r\n")
                    loader.process.send_signal(12)
                    for _ in range(20):
                        self.assertEqual(len(file.read(100009)), 100009)
                    self.assertEqual(file.read(5), b"0\r\n\r\n")
                    self.assertEqual(loader.lines.readline(), b"closed\n")
            self.send(conn, "/next")
            self.assertEqual(self.read(file, 10), b"5\r\nfirst\r\n")
            conn.shutdown(2)  # the client leaves: all listeners are there
            self.assertEqual(loader.lines.readline(), b"closed\n")

    def test_a_corked_response_sends_no_byte_behind_its_end(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              s.write('one');
              s.cork();
              s.cork();
              if (q.url === '/write') { s.write('two'); s.write('!'); s.end(); }
              if (q.url === '/end') s.end('two!');
              if (q.url === '/both') { s.write('two'); s.end('!'); }
              s.uncork();
            }).listen(0);
        """)
        conn = self.http(loader)
        for path in ("/write", "/end", "/both") * 2:
            with self.subTest(path):
                self.assertEqual(self.ask(conn, path), (200, b"onetwo!"))

    def test_the_cork_of_a_response_and_the_timeout_listener_of_a_request(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url === '/own') return s.setTimeout(20, () => s.end('own'));
              if (q.url === '/idiom') {  // Node's listener would end the socket
                q.socket.removeAllListeners('timeout');
                q.socket.setTimeout(20);
                q.socket.once('timeout', () => setTimeout(() => s.end('idiom'), 5));
                return;
              }
              if (q.url === '/replaced') q.socket.removeAllListeners('timeout').on('timeout', () => q.socket.destroy());
              if (q.url === '/removed') q.socket.removeAllListeners('timeout');
              s.cork();
              s.write('one');
              setImmediate(() => { s.write('two'); s.uncork(); s.cork(); s.write('end'); s.end(); });
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        for path in ("/removed", "/idiom", "/replaced"):
            with self.subTest(path):
                self.send(conn, path)
                if path == "/idiom":
                    self.assertEqual(self.read(file, 5), b"idiom")
                else:
                    self.assertEqual(self.read(file, 29), b"3\r\none\r\n3\r\ntwo\r\n3\r\nend\r\n0\r\n\r\n")
                self.send(conn, "/own")
                self.assertEqual(self.read(file, 3), b"own")

    def test_bytes_that_an_application_puts_into_the_socket_are_no_request(self):
        loader = self.app("""
            const forged = Buffer.from('GET /forged HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n');
            const put = {
              '/unshift': (socket) => socket.unshift(forged),
              '/push': (socket) => socket.push(forged),
              '/emit': (socket) => socket.emit('data', forged),
              '/close': (socket) => socket.emit('close'),
              '/error': (socket) => socket.emit('error', new Error('own')),
            };
            let kept;
            const server = require('http').createServer((q, s) => {
              if (q.url === '/forged') console.log('forged');
              if (q.url === '/next' && kept) kept();
              kept = undefined;
              const [, what, when] = q.url.split('/');
              const { socket } = q;
              if (when === 'before') put['/' + what](socket);
              if (when === 'within') kept = () => put['/' + what](socket);
              s.end(q.url);
              if (when === 'after') put['/' + what](socket);
              if (when === 'later') setTimeout(() => { put['/' + what](socket); console.log('later'); }, 5);
            }).listen(0);
            server.on('upgrade', (q, socket) => {
              socket.on('data', (data) => socket.write(data));
              socket.unshift(Buffer.from('own'));
            });
        """)
        for what in ("/unshift", "/push", "/emit", "/close", "/error"):
            for when in ("/before", "/after", "/later", "/within"):
                with self.subTest(what + when):
                    conn, file = self.raw(loader)
                    self.send(conn, what + when)
                    if when == "/later":
                        self.assertEqual(loader.lines.readline(), b"later\n")
                    answers = self.rest(conn, file, "/next")
                    self.assertFalse(b"/next" in answers or b"400" in answers, answers)
        conn, file = self.raw(loader)
        self.send(conn, "/", Connection="upgrade", Upgrade="x")
        self.assertEqual(file.read(3), b"own")
        self.assertEqual(self.ask(self.http(loader), "/ok"), (200, b"/ok"))
        loader.process.kill()
        self.assertNotIn(b"forged", loader.lines.read())

    def test_a_buffer_that_shrinks_after_its_write(self):
        loader = self.app("""
            const bytes = () => {
              const buffer = new ArrayBuffer(8, { maxByteLength: 64 });
              return [buffer, new Uint8Array(buffer).fill(65)];
            };
            const transfer = (data) => structuredClone(data, { transfer: [data.buffer] });
            const change = {
              '/shrink': (s) => { const [buffer, data] = bytes(); s.write(data); buffer.resize(2); },
              '/grow': (s) => { const [buffer, data] = bytes(); s.write(data); buffer.resize(40); },
              '/transfer': (s) => { const data = new Uint8Array(8).fill(65); s.write(data); transfer(data); },
              '/second': (s) => { s.write('AAAA'); const data = Buffer.alloc(4, 65); s.write(data); transfer(data); },
              '/alone': (s) => { s.flushHeaders(); setImmediate(() => { change['/transfer'](s); s.end(); }); },
              '/plain': (s) => { s.write('ää'); s.write(Buffer.from('ää')); },
            };
            require('http').createServer((q, s) => {
              const [, what, how] = q.url.split('/');
              if (what === 'resizable') return s.end(String(ArrayBuffer.prototype.resize !== undefined));
              if (how === 'length') s.setHeader('Content-Length', 8);
              if (!change['/' + what]) return s.end('next');
              change['/' + what](s);
              if (what !== 'alone') s.end();
            }).listen(0);
        """)
        is_resizable = self.ask(self.http(loader), "/resizable")[1] == b"true"  # since Node 20
        for what in ("/shrink",) * is_resizable + ("/transfer", "/second", "/alone"):
            for how in ("/length", "/chunked"):
                with self.subTest(what + how):
                    conn, file = self.raw(loader)
                    self.send(conn, what + how)
                    answer = file.read()  # the connection ends
                    self.assertNotIn(b"\r\n0\r\n", answer)
        conn, file = self.raw(loader)
        for what, body in (("/plain", "\xe4\xe4\xe4\xe4".encode()), ("/grow", b"A" * 8))[:1 + is_resizable]:
            self.send(conn, what + "/length")
            self.assertEqual(self.read(file, 8), body)
            self.send(conn, "/next")
            self.assertEqual(self.read(file, 4), b"next")
        self.assertIn("shrank", loader.read_stderr())

    def test_an_answer_to_a_client_error_is_the_last_of_its_connection(self):
        """Node's parser stays in its error state. A request that follows an answer which keeps the connection is refused."""
        keeps, closes, lasts = b"Content-Length: 0\r\n", b"Content-Length: 0\r\nConnection: close\r\n", b""
        for call in ("write", "end", "destroy"):
            for fields in (keeps, closes, lasts):
                with self.subTest(call, fields=fields):
                    text = (b"HTTP/1.1 431 Large\r\n" + fields + b"\r\n").decode()
                    loader = self.app(f"""
                        const text = {json.dumps(text)};
                        const server = require('http').createServer({{ maxHeaderSize: 16384 }}, (q, s) => s.end('next'));
                        const calls = {{ write: (c) => c.write(text), end: (c) => c.end(text), destroy: (c) => {{ c.write(text); c.destroy(); }} }};
                        server.on('clientError', (e, c) => calls.{call}(c));
                        server.listen(0);
                    """)
                    conn, file = self.raw(loader)
                    self.send(conn, "/", **{"X-Large": "x" * 20000})
                    self.assertEqual(file.read(), text.encode() + (self.NAK if fields == keeps else b""))

    SURVIVES = """
        process.on('uncaughtException', () => process.stdout.write('survived\\n'));
        let failing;
        class Request extends require('http').IncomingMessage {
          constructor(socket) {
            super(socket);
            if (socket === failing) throw new Error('mine');
          }
        }
        require('http').createServer({ IncomingMessage: Request }, (q, s) => {
          const fail = () => { throw new Error('mine'); };
          const head = (fields) => s.writeHead(200, fields);
          if (q.url === '/finish') s.on('finish', fail);
          if (q.url === '/close') s.on('close', fail);
          if (q.url === '/frozen') setTimeout(() => { Object.freeze(q.socket); fail(); }, 5);
          if (q.url === '/data') q.on('data', fail);
          if (q.url === '/readable') q.on('readable', fail);
          if (q.url === '/request') failing = q.socket;
          if (q.url === '/write' || q.url === '/one') head({ 'Content-Length': 1 });
          if (q.url === '/write') return s.write('', fail), s.write('x', fail), s.end();
          if (q.url === '/one') return s.write('x', fail), s.end();
          if (q.url === '/drain') {
            head({ 'Content-Length': 3000001 }), s.write(Buffer.alloc(3000000, 'x'), fail);
            return s.once('drain', () => { setImmediate(() => s.end('x', fail)); fail(); });
          }
          if (q.url === '/timer') setTimeout(fail, 5);
          if (q.url === '/promise') setTimeout(() => Promise.reject(new Error('mine')), 5);
          if (q.url === '/begun') head({ 'Content-Length': 1 }), s.flushHeaders();
          if (q.url === '/kept') head({ 'Content-Length': 1, Connection: 'keep-alive' });
          if (q.url === '/begun' || q.url === '/kept' || q.url === '/waits') return process.once('SIGUSR2', () => s.end('x'));
          s.end('x', q.url === '/callback' ? fail : undefined);
          if (q.url === '/throw') fail();
        }).listen(0);
    """

    def test_an_exception_within_the_parser_ends_the_connection(self):
        """It leaves Node's parser in its error state."""
        loader = self.app(self.SURVIVES)
        for path, body in (("/data", b"body"), ("/throw", b"body"), ("/frozen", None)):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path, body)
                self.head(file)
                self.assertIn(self.last(file), (b"x", b"1\r\nx\r\n0\r\n\r\n"))
        for path in ("/data", "/readable", "/request"):
            with self.subTest(path, later=True):
                conn, file = self.raw(loader)
                rest = {"/request": b"bodyGET / HTTP/1.1\r\nHost: a\r\n\r\n"}.get(path, b"body")
                conn.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n".encode())
                self.assertEqual(self.read(file, 1), b"x")
                conn.sendall(rest)
                self.assertEqual(self.last(file), b"")
        self.assertEqual(self.ask(self.http(loader)), (200, b"x"))

    def test_an_exception_elsewhere_ends_each_connection_with_an_answer_that_says_so(self):
        """The server may have sent a request to an idle connection, which would fail with it."""
        loader = self.app(self.SURVIVES)
        for path in ("/timer", "/promise", "/finish", "/close", "/callback"):
            with self.subTest(path):
                idle, new, begun, waits, kept, own = (self.raw(loader) for _ in range(6))
                self.send(idle[0], "/")
                self.assertEqual(self.read(idle[1], 1), b"x")
                for (conn, _), what in ((begun, "/begun"), (waits, "/waits"), (kept, "/kept")):
                    self.send(conn, what)
                self.assertNotIn("Connection: close", self.head(begun[1]))
                self.send(own[0], path)
                self.assertEqual(self.read(own[1], 1), b"x")
                self.assertEqual(loader.lines.readline(), b"survived\n")
                loader.process.send_signal(signal.SIGUSR2)
                self.assertEqual(begun[1].read(1), b"x")
                for conn, file in (idle, new, begun, own):
                    self.send(conn, "/", body=b"a request that is not safe")
                for _, file in (idle, new, begun, own, waits, kept):
                    head = self.head(file)
                    self.assertIn("Connection: close", head)
                    self.assertNotIn("keep-alive", head)
                    self.assertEqual(file.read(), b"x")

    def test_an_exception_of_a_callback_of_a_write_loses_no_request(self):
        """The stream has other callbacks to run, and Node learns from one of them that the answer has ended."""
        loader = self.app(self.SURVIVES)
        for path, size in (("/write", 1), ("/one", 1), ("/drain", 3000001)):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path)
                self.assertEqual(self.read(file, size), b"x" * size)
                for _ in range(1 if path == "/one" else 2 if path == "/write" else 3):
                    self.assertEqual(loader.lines.readline(), b"survived\n")
                self.assertEqual(self.ask(self.http(loader)), (200, b"x"))  # some turns of the loop pass
                self.send(conn, "/", body=b"a request that is not safe")
                self.assertIn("Connection: close", self.head(file))
                self.assertEqual(file.read(), b"x")

    def test_callbacks_that_an_exception_has_left_behind_fail_no_other_request(self):
        """They would run while the parser of another connection reads a body. A capture callback, which `domain` sets, takes the
        place of the listeners of `uncaughtException`."""
        for survives in ("process.on('uncaughtException', () => {});", "process.setUncaughtExceptionCaptureCallback(() => {});",
                         "const own = require('domain').create(); own.on('error', () => {}); own.enter();"):
            with self.subTest(survives):
                loader = self.app(survives + """
                    const fail = () => { throw new Error('mine'); };
                    require('http').createServer((q, s) => {
                      if (q.url === '/block') {
                        console.log('blocks');
                        for (const until = Date.now() + 200; Date.now() < until;);
                      }
                      if (q.url === '/ticks') for (let count = 0; count < 20; count++) process.nextTick(fail);
                      let size = 0;
                      q.on('data', (data) => { size += data.length; }).on('end', () => s.end(String(size)));
                    }).listen(0);
                """)
                others = [self.raw(loader) for _ in range(5)]
                for conn, _ in others:
                    conn.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nbody")
                own, block = self.raw(loader), self.raw(loader)
                self.send(block[0], "/block")
                self.assertEqual(loader.lines.readline(), b"blocks\n")
                self.send(own[0], "/ticks")  # one turn of the loop reads this and all bodies
                for conn, _ in others:
                    conn.sendall(b"rest")
                for _, file in others:
                    self.assertIn("HTTP/1.1 200", self.head(file))
                    self.assertEqual(file.read(1), b"8")

    def test_a_connection_that_the_application_reads_from_its_beginning_carries_one_request(self):
        """Its bytes come by the stream, where those that the application puts there look the same."""
        loader = self.app("""
            const server = require('http').createServer((q, s) => s.end(q.url));
            server.on('connection', (socket) => socket.on('data', () => {}));
            server.listen(0);
        """)
        conn, file = self.raw(loader)
        self.send(conn, "/one")
        self.assertIn("Connection: close", self.head(file))
        self.assertEqual(file.read(), b"/one")

    def test_an_answer_that_node_takes_for_the_last_says_so(self):
        """Node reads `close` in more values than the server does."""
        loader = self.app("""
            require('http').createServer((q, s) => {
              if (q.url === '/removed') { s.shouldKeepAlive = false; s.removeHeader('Connection'); }
              else s.setHeader('Connection', decodeURIComponent(q.url.slice(1)));
              s.end('x');
            }).listen(0);
        """)
        for path in ("/x-close", "/close;q=1", "/close", "/removed"):
            with self.subTest(path):
                conn, file = self.raw(loader)
                self.send(conn, path)
                self.assertIn("\r\nConnection: close\r\n", self.head(file))
                self.assertEqual(file.read(), b"x")

    def test_an_answer_whose_end_a_stack_overflow_has_stopped(self):
        """Its socket stays corked, or waits for a callback, and the next answer would wait with it."""
        loader = self.app("""
            function deep(end) { try { deep(end); } catch (error) { if (!end()) throw error; } }
            require('http').createServer((q, s) => {
              const [, kind, height] = q.url.split('/');
              if (kind === 'next') return s.end('next');
              if (kind === 'length') s.setHeader('Content-Length', 4);
              if (kind === 'chunks') s.write('x');
              let level = 0;  // above the deepest call
              deep(() => {
                if (level++ < Number(height)) return false;
                try { s.end('body'); } catch {}
                return true;
              });
            }).listen(0);
        """)
        for kind in ("plain", "length", "chunks"):
            unanswered = 0
            for height in (1000, 1000, *range(60, -1, -1)):  # first it is compiled, which makes its frames smaller
                if unanswered == 5:
                    break
                with self.subTest(kind, height=height):
                    conn, file = self.raw(loader)
                    conn.settimeout(0.2)
                    self.send(conn, f"/{kind}/{height}")
                    try:
                        self.head(file)
                        last = file.readline() if kind == "chunks" else file.read(4)
                        while last and kind == "chunks" and last != b"0\r\n":
                            last = file.readline()
                        if kind == "chunks":
                            file.readline()
                    except TimeoutError:
                        unanswered += 1  # the server waits, and sends no other request
                        continue
                    except AssertionError:
                        continue  # the loader has ended the connection
                    conn.settimeout(20)
                    try:
                        self.send(conn, "/next")
                        line = file.readline()
                    except ConnectionError:
                        line = b""
                    self.assertIn(line, (b"", self.NAK, b"HTTP/1.1 200 OK\r\n"))
        self.assertEqual(self.ask(self.http(loader), "/next"), (200, b"next"))

    def test_an_answer_whose_end_node_does_not_learn_of(self):
        """Node would keep the next answer, which is another client's, for ever. So the next request is refused."""
        loader = self.app("""
            const { ServerResponse } = require('http');
            const ways = {
              all: (s) => s.removeAllListeners(), event: (s) => s.removeAllListeners('finish'), emit: (s) => { s.emit = () => true; },
              throw: (s) => { s.prependListener('finish', () => { throw new Error('finish'); }); },
              noop: (s) => { s.detachSocket = () => {}; }, none: (s) => { s.detachSocket = null; },
              fails: (s) => { s.detachSocket = () => { throw new Error('detach'); }; },
              late: (s) => { s.detachSocket = (...args) => setTimeout(() => ServerResponse.prototype.detachSocket.apply(s, args), 30); },
              dump: (s, q) => { q._dump = () => { throw new Error('dump'); }; },
              mark: (s, { socket }) => setImmediate(() => { socket._httpMessage = { finished: false }; }),
              accessor: (s, { socket }) => {
                setImmediate(() => Object.defineProperty(socket, '_httpMessage', { get() { throw new Error('get'); }, set() {} }));
              },
              prototype: () => { ServerResponse.prototype.detachSocket = () => {}; },
            };
            process.on('uncaughtException', () => {});
            require('http').createServer((q, s) => {
              const [, way, when] = q.url.split('/');
              if (way === 'next') return q.on('data', () => {}).on('end', () => { console.log(`saw ${when}`); s.end('next!'); });
              if (when !== 'after') ways[way](s, q);
              s.end(when === 'long' ? 'x'.repeat(300000) : 'first');
              if (when === 'after') ways[way](s, q);
            }).listen(0);
        """)
        conn, file = self.raw(loader)
        ways = [f"{way}/{when}" for way in ("all", "event", "emit", "noop", "late") for when in ("before", "after", "long")]
        ways += [f"{way}/before" for way in ("throw", "none", "fails", "dump", "mark", "accessor", "prototype")]
        for way in ways:
            with self.subTest(way):
                self.send(conn, f"/{way}", method="POST")
                self.read(file, 300000 if way.endswith("long") else 5)
                for number in range(2):
                    mark = f"{way.replace('/', '-')}-{number}"
                    self.send(conn, f"/next/{mark}", b"a body")
                    try:
                        line = file.readline()
                    except ConnectionError:
                        line = b""
                    if line == self.NAK:
                        conn, file = self.raw(loader)
                        continue
                    self.assertEqual(line, b"HTTP/1.1 200 OK\r\n")
                    self.assertEqual(loader.lines.readline().strip(), f"saw {mark}".encode())
                    head = self.head(file)
                    self.assertEqual(file.read(5), b"next!")
                    if "close" in head:
                        conn, file = self.raw(loader)
