"""The address that a server of a Node application says it has."""

import json

from common import NodeLoader


class Addresses(NodeLoader):
    def test_the_address_of_a_server_is_the_one_that_it_asked_for(self):
        loader = self.app("""
            const listens = [
              [3000], ['3000'], [3000, 'localhost'], [3000, '0.0.0.0', 5], [{ port: 3000, host: '::1' }], [{ port: '3000' }], [0], [],
              [undefined], [{ port: undefined }], ['/tmp/path'], [{ path: '/tmp/path' }],
            ];
            const server = require('http').createServer((q, s) => s.end('ok'));
            const show = () => console.log('at', JSON.stringify(server.address()));
            show();
            const next = () => {
              const args = listens.shift();
              if (args === undefined) return server.listen(3000, () => console.log('done'));
              server.listen(...args, () => { show(); setImmediate(() => server.close(next)); });
            };
            next();
        """)
        lines = loader.output.splitlines() + list(iter(loader.lines.readline, b"done\n"))
        nothing, *seen = [json.loads(line[len("at "):]) for line in lines if line.startswith(b"at ")]
        self.assertIsNone(nothing)
        any_, local = {"address": "::", "family": "IPv6"}, {"address": "127.0.0.1", "family": "IPv4"}
        six, four = {"address": "::1", "family": "IPv6"}, {"address": "0.0.0.0", "family": "IPv4"}
        for at, (place, port) in enumerate((
            (any_, 3000), (any_, 3000), (local, 3000), (four, 3000), (six, 3000), (any_, 3000), (any_, 0), (any_, 0), (any_, 0), (any_, 0),
        )):
            self.assertEqual(seen[at], {**place, "port": port}, at)
        self.assertEqual(len(seen), 12)
        self.assertTrue(all(path.startswith("/") and "/backends/node." in path for path in seen[10:]), seen)
        self.assertEqual(self.ask(self.http(loader)), (200, b"ok"))

    def test_a_server_that_asks_for_cabrank_shows_its_socket(self):
        loader = self.app("""
            const server = require('http').createServer((q, s) => s.end(server.address())).listen('passenger');
        """)
        self.assertEqual(self.ask(self.http(loader)), (200, loader.path.encode()))
