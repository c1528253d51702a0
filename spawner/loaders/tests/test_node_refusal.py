"""The loader of Node applications: a connection that ends without a word refuses the request that the server may have sent."""

from common import NodeLoader


class NodeRefusal(NodeLoader):
    """The server sends a request to an idle connection at any moment. If the application never sees it, the server may send it
    once more, whatever its method is: the byte NAK says so, in place of an answer."""

    APP = """
        process.on('uncaughtException', () => {});
        const fail = () => { throw new Error('mine'); };
        const define = (socket) => Object.defineProperty(socket, 'own', { value: 1, configurable: false });
        const acts = {
          '/throw': (q, s) => { s.end('x'); fail(); },
          '/prefinish': (q, s) => { s.on('prefinish', fail); s.end('x'); },
          '/begun': (q, s) => { s.write('x'); setTimeout(() => s.end(), 5); fail(); },
          '/data': (q, s) => { s.write('x'); q.socket.on('data', () => {}); s.end(); },
          '/late-data': (q, s) => { s.end('x'); q.socket.on('data', () => {}); },
          '/property': (q, s) => { define(q.socket); s.end('x'); },
          '/late-property': (q, s) => { s.end('x'); define(q.socket); },
          '/frozen': (q, s) => { s.end('x'); Object.freeze(q.socket); },
          '/sealed': (q, s) => { Object.preventExtensions(q.socket); s.end('x'); },
          '/end': (q, s) => { s.end('x'); q.socket.end(); },
          '/soon': (q, s) => { s.end('x'); q.socket.destroySoon(); },
          '/destroy': (q, s) => { s.end('x'); q.socket.destroy(); },
          '/destroy-later': (q, s) => { s.end('x'); setTimeout(() => q.socket.destroy(), 5); },
          '/destroy-error': (q, s) => { s.end('x'); q.socket.destroy(new Error('mine')); },
          '/reset': (q, s) => { s.end('x'); q.socket.resetAndDestroy(); },
          '/response': (q, s) => { s.end('x'); s.destroy(new Error('mine')); },
          '/request': (q, s) => { s.end('x'); q.destroy(new Error('mine')); },
          '/strict': (q, s) => { s.strictContentLength = true; s.setHeader('Content-Length', 1); s.end('xyz'); },
          '/strict-again': (q, s) => {
            s.strictContentLength = true;
            s.setHeader('Content-Length', 1);
            try { s.end('xyz'); } catch { s.end(); }
          },
          '/prefinish-destroy': (q, s) => { s.on('prefinish', () => s.destroy()); s.end('x'); },
          '/write': (q, s) => { s.end('x'); setTimeout(() => q.socket.write('own'), 5); },
          '/error': (q, s) => { s.end('x'); setTimeout(() => q.socket.emit('error', new Error('mine')), 5); },
          '/exit': (q, s) => { s.end('x'); setImmediate(() => process.exit(0)); },
          '/crash': (q, s) => { s.end('x'); process.removeAllListeners('uncaughtException'); fail(); },
        };
        require('http').createServer((q, s) => {
          if (q.method === 'POST') console.log('saw', q.url);
          const act = acts[q.url];
          if (act) return act(q, s);
          q.resume().on('end', () => s.end('next'));
        }).listen(0);
    """

    LAST = ("/exit", "/crash")

    def answer(self, file):
        """Return the head and the body of the next answer, or the byte that came in its place."""
        head = file.read(1)
        if head != b"H":
            return head, b""
        while not head.endswith(b"\r\n\r\n"):
            head += file.readline()
        if b"chunked" not in head:
            return head, file.read(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
        body = b""
        while size := int(file.readline(), 16):
            body += file.read(size)
            file.readline()
        file.readline()
        return head, body

    def meet(self, loader, path, mark):
        """Send a request right behind the answer to another one. Return whether it was refused; else it was answered."""
        conn, file = self.raw(loader)
        self.send(conn, path)
        head, body = self.answer(file)
        self.assertEqual(body, b"x")
        if b"Connection: close" in head:
            self.assertEqual(file.read(), b"")
            return False
        try:
            self.send(conn, mark, b"body")
        except OSError:
            pass  # the loader has refused it already
        head, body = self.answer(file)
        if body != b"next":
            self.assertEqual(head, self.NAK)
        return body != b"next"

    def test_a_request_that_meets_the_end_of_its_connection(self):
        loader = self.app(self.APP)
        paths = [line.split("'")[1] for line in self.APP.splitlines() if line.lstrip().startswith("'/")]
        refused = []
        for path in paths:
            if path in self.LAST:
                continue
            for number in range(3):
                with self.subTest(path, number=number):
                    mark = f"{path}/{number}"
                    if self.meet(loader, path, mark):
                        refused.append(mark)
        self.assertGreater(len(refused), 20)
        loader.process.kill()
        seen = loader.lines.read().decode().split()
        self.assertEqual([mark for mark in refused if mark in seen], [])

    def test_a_request_that_meets_the_end_of_its_process(self):
        for path in self.LAST:
            with self.subTest(path):
                loader = self.app(self.APP)
                idle, file = self.raw(loader)
                self.send(idle, "/")
                self.assertEqual(self.answer(file)[1], b"next")
                self.meet(loader, path, "/mark")
                self.assertEqual(file.read(1), self.NAK)

    def test_a_request_that_meets_the_end_of_a_long_answer(self):
        """The stream does not know yet that the bytes of the answer have left."""
        loader = self.app("""
            process.on('uncaughtException', () => {});
            const long = Buffer.alloc(400000, 'x');
            const acts = {
              '/throw': () => { throw new Error('mine'); }, '/end': (q) => q.socket.end(), '/soon': (q) => q.socket.destroySoon(),
              '/late-end': (q) => setImmediate(() => q.socket.end()), '/destroy': (q) => setTimeout(() => q.socket.destroy(), 1),
              '/resume': (q) => { q.resume = () => { throw new Error('mine'); }; },
              '/accessor': (q) => Object.defineProperty(q, 'socket', { get() { throw new Error('mine'); } }),
              '/frozen': (q, s) => Object.freeze(s),
            };
            require('http').createServer((q, s) => {
              if (q.url.startsWith('/next')) { console.log(q.url); return q.resume().on('end', () => s.end('next')); }
              s.end(long);
              acts[q.url](q, s);
            }).listen(0);
        """)
        refused = []
        for path in ("/throw", "/end", "/soon", "/late-end", "/destroy", "/resume", "/accessor", "/frozen"):
            for number in range(20):
                with self.subTest(path, number=number):
                    conn, file = self.raw(loader)
                    self.send(conn, path)
                    try:
                        if len(self.answer(file)[1]) < 400000:
                            continue  # the application has cut its own answer
                        self.send(conn, mark := f"/next{path}/{number}", b"body")
                    except (ValueError, ConnectionError):
                        pass  # cut, or refused already
                    head, body = self.answer(file)
                    if body != b"next":
                        self.assertEqual(head, self.NAK)
                        refused.append(mark)
        self.assertGreater(len(refused), 20)
        loader.process.kill()
        seen = loader.lines.read().decode().split()
        self.assertEqual([mark for mark in refused if mark in seen], [])
