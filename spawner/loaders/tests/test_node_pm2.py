"""What applications of Node expect of pm2 and of Node's own parts: signals, `process.send`, and clear errors."""

import signal

from common import NodeLoader
from driver import DEADLINE


class Signals(NodeLoader):
    SERVER = """
        const server = require('http').createServer((q, s) => s.end('ok')).listen(3000);
        setInterval(() => {}, 1000);
        const leave = (...signal) => {
          console.log(...signal);
          server.close(() => setTimeout(() => { console.log('cleaned up'); process.exit(0); }, 20));
        };
    """
    INT, TERM = "process.on('SIGINT', leave);", "process.on('SIGTERM', leave);"
    # As the library signal-exit does it: with no other handler the signal ends the process.
    LIBRARY = """
        for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
          process.on(name, function listener() {
            if (process.listenerCount(name) === 1) { process.removeListener(name, listener); process.kill(process.pid, name); }
          });
        }
    """

    def test_an_application_cleans_up_by_the_signal_that_it_handles(self):
        interrupt, terminate = b"SIGINT 2\n", b"SIGTERM 15\n"
        for handlers, expected in (
            (self.INT, interrupt), (self.INT.replace("on(", "once("), interrupt), (self.TERM, terminate), (self.INT + self.TERM, terminate),
            (self.LIBRARY + self.INT, interrupt), (self.LIBRARY + self.TERM, terminate), (self.TERM + self.INT + self.LIBRARY, terminate),
        ):
            with self.subTest(handlers):
                loader = self.app(self.SERVER + handlers)
                conn = self.http(loader)
                self.assertEqual(self.ask(conn), (200, b"ok"))
                conn.close()  # before Node 19 `server.close()` waits for it
                loader.channel.sendall(b"x")
                self.assertEqual(loader.lines.read(), expected + b"cleaned up\n")
                self.check_exit(loader)

    def test_a_library_may_end_a_process_without_other_handlers(self):
        loader = self.app(self.SERVER + self.LIBRARY)
        loader.channel.sendall(b"x")
        self.check_exit_by(loader, signal.SIGTERM)

    def check_exit_by(self, loader, number):
        self.assertEqual(loader.process.wait(DEADLINE), -number)

    def test_a_signal_of_somebody_else_reaches_the_handler_and_ends_no_process_without_one(self):
        loader = self.app(self.SERVER)
        loader.process.send_signal(signal.SIGINT)
        self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))
        loader = self.app(self.SERVER + self.INT)
        loader.process.send_signal(signal.SIGINT)
        self.assertEqual(loader.lines.read(), b"SIGINT 2\ncleaned up\n")
        self.check_exit(loader)


class Messages(NodeLoader):
    def test_messages_to_the_parent_are_dropped(self):
        loader = self.app("""
            require('http').createServer((q, s) => s.end('ok')).listen(3000, () => {
              console.log(process.send('ready'), process.connected);
              process.send({ type: 'process:msg' }, undefined, {}, (error) => console.log('sent', error));
            });
        """)
        self.assertEqual(loader.output.strip(), b"true undefined")
        self.assertEqual(loader.lines.readline(), b"sent null\n")
        self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))


class Unserved(NodeLoader):
    HTTPS = "require('https').createServer({}).listen(4430);"

    def test_an_application_that_cabrank_cannot_serve_is_reported_at_once(self):
        fork = "if (require('cluster').isPrimary) require('cluster').fork(); else require('http').createServer().listen(3000);"
        for source, part in (
            (fork, "calls cluster.fork()"),
            ("try { require('cluster').fork(); } catch {}\nsetInterval(() => {}, 1000);", "calls cluster.fork()"),
            (self.HTTPS, "with a server for HTTPS"),
            ("require('http2').createServer().listen(4430);", "with a server for HTTP/2"),
            ("require('http2').createSecureServer({}).listen(4430);", "with a server for HTTP/2"),
        ):
            with self.subTest(source):
                loader = self.app(source)
                self.assertIn(part, loader.error)
                self.assertEqual(loader.process.wait(DEADLINE), 1)
        loader = self.start("app.mjs", "import { fork } from 'node:cluster'; fork(); setInterval(() => {}, 1000);")
        self.assertIn("calls cluster.fork()", loader.error)

    def test_an_application_may_listen_for_https_beside_http(self):
        for order in (0, 1):
            listens = ["server.listen(0, '127.0.0.1', () => console.log('listens', server.address().port > 0));",
                       "require('http').createServer((q, s) => s.end('ok')).listen(3000);"]
            source = "const server = require('https').createServer({});" + listens[order] + listens[1 - order]
            loader = self.app(source)
            self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))
            output = loader.output.strip() or loader.lines.readline().strip()
            self.assertEqual(output, b"listens true")

    def test_an_application_that_serves_may_not_fork_workers(self):
        loader = self.app("""
            require('http').createServer((q, s) => {
              try { require('cluster').fork(); } catch (error) { s.end(error.message); }
            }).listen(3000);
        """)
        self.assertIn(b"--min-instances", self.ask(self.http(loader))[1])
