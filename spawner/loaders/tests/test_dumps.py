"""Dumps of a request by an application: no password, no object of another request, and little text."""

import json
import os
import shutil
import time
import unittest

from common import LOADERS, AsgiLoader, RackLoader, WsgiLoader
from driver import PASSWORD, KeptConnection, frame, head, kept_session, session

# The applications know the password backwards.
BACKWARDS = PASSWORD[::-1]

# Walks each object that the roots refer to. Returns the places where a text has the password.
WALK = """
import json, os, pprint, sys

def walk(roots):
    password, found, seen, todo = "BACKWARDS"[::-1], [], {}, list(roots)
    while todo:
        path, value = todo.pop()
        if id(value) in seen or len(seen) > 300000:
            continue
        seen[id(value)] = value
        if isinstance(value, (bytes, bytearray)):
            value = bytes(value).decode("latin-1")
        if isinstance(value, str):
            if password in value:
                found.append(path)
        elif isinstance(value, dict):
            todo += [(f"{path}[{key!r:.40}]", part) for key, part in list(value.items())]
        elif isinstance(value, (list, tuple, set, frozenset)):
            todo += [(f"{path}[]", part) for part in list(value)]
        else:
            names = ["__dict__", "__self__", *(name for one in type(value).__mro__ for name in one.__dict__.get("__slots__", ()))]
            todo += [(f"{path}.{name}", part) for name in names for part in [getattr(value, name, None)] if part is not None]
    return found

def report(request):
    roots = [("request", request), ("modules", dict(sys.modules)), ("environ", dict(os.environ)), ("argv", sys.argv)]
    found = walk(roots)
    for file in ("cmdline", "environ"):
        with open(f"/proc/self/{file}", "rb") as opened:
            found += walk([(file, opened.read())])
    text = repr(request) + pprint.pformat(request)
    return json.dumps({"found": found, "size": len(text)}).encode()
"""

WSGI = WALK + """
class Application:
    def __init__(self):
        self.secrets = ["KEY OF THE APPLICATION"] * 10000

    def __call__(self, environ, start_response):
        write = start_response("200 OK", [])
        return [report({"environ": environ, "start_response": start_response, "write": write})]

application = Application()
"""

ASGI = WALK + """
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": report({"scope": scope, "receive": receive, "send": send})})
"""

RACK = """
require "json"
require "pp"
require "yaml"

class App
  def initialize
    @secrets = ["KEY OF " + "THE APPLICATION"] * 10_000
  end

  # Walks each object that the request refers to, as serializers do.
  def walk(roots)
    seen, todo, found = {}.compare_by_identity, roots, []
    until todo.empty?
      value = todo.pop
      next if seen[value]
      seen[value] = true
      case value
      when String then found << value if value.b.include?(PASSWORD.b) || value.b.include?("KEY OF " + "THE")
      when Hash then todo.concat(value.keys, value.values)
      when Array then todo.concat(value)
      when Method then todo << value.receiver
      else todo.concat(value.instance_variables.map { |name| value.instance_variable_get(name) })
      end
    end
    found
  end

  def call(env)
    body = env["rack.input"].read
    hijacked = env["PATH_INFO"] == "/hijack" && env["rack.hijack"].call
    texts = [env.inspect, env.to_s, env.pretty_inspect]
    texts += env.values.map { |value| [value.inspect, value.to_s, value.pretty_inspect] }.flatten
    texts << env.reject { |_, value| value.is_a?(IO) || value.is_a?(Method) || value.is_a?(StringIO) }.to_yaml
    outside = [ENV.to_h, ARGV, $0, File.binread("/proc/self/cmdline"), File.binread("/proc/self/environ")]
    report = JSON.generate("found" => walk([env, texts, outside]).map { |text| text[0, 40] }, "size" => env.inspect.size)
    if hijacked
      hijacked.write("HTTP/1.1 200 OK\r\nContent-Length: #{report.bytesize}\r\n\r\n#{report}")
      hijacked.close
    end
    [200, {}, [report]]
  end
end

PASSWORD = "BACKWARDS".reverse
run App.new
"""

NODE = """
const { inspect } = require('util');
const fs = require('fs');
require('http').createServer((request, response) => {
  const options = { depth: 30, showHidden: true, maxArrayLength: 1000 };
  const texts = [request, response, globalThis, process, module, require.cache, process.env, process.argv].map((value) => inspect(value, options));
  texts.push(fs.readFileSync('/proc/self/cmdline', 'latin1'), fs.readFileSync('/proc/self/environ', 'latin1'));
  const password = [...'BACKWARDS'].reverse().join('');
  const found = texts.filter((text) => text.includes(password)).map((text) => text.slice(0, 40));
  response.end(JSON.stringify({ found, size: 0 }));
}).listen(0);
"""


class Dumps:
    def started(self):
        return self.app(self.source.replace("BACKWARDS", BACKWARDS))

    def check(self, report):
        report = json.loads(report)
        self.assertEqual(report["found"], [])
        self.assertLess(report["size"], 8000)


class RackDumps(Dumps, RackLoader):
    source = RACK

    def test_no_dump_of_a_request_shows_secrets(self):
        loader = self.started()
        for ask in (session, kept_session):
            self.check(ask(loader).body)
            self.check(ask(loader, b"text", PATH_INFO="/hijack", REQUEST_METHOD="POST", CONTENT_LENGTH=4).body)

    def test_each_object_of_the_loader_is_short(self):
        loader = self.app("""
            require "stringio"
            run(lambda do |env|
              classes = Cabrank.constants.map { |name| Cabrank.const_get(name) }.grep(Class).reject { |one| one <= Exception }
              [200, {}, [classes.reject { |one| one.include?(Cabrank::Terse) }.join(" ")]]
            end)
        """)
        self.assertEqual(session(loader).body, b"")


class WsgiDumps(Dumps, WsgiLoader):
    source = WSGI

    def test_no_dump_of_a_request_shows_secrets(self):
        loader = self.started()
        for ask in (session, kept_session):
            self.check(ask(loader).body)


    def test_no_variable_of_the_loaders_frames_has_the_password(self):
        """Pages for exceptions and reports of errors show the variables of each frame."""
        loader = self.app(WALK.replace("BACKWARDS", BACKWARDS) + """
def application(environ, start_response):
    start_response("200 OK", [])
    roots = []
    for frame in sys._current_frames().values():
        while frame is not None:
            roots.append((frame.f_code.co_name, dict(frame.f_locals)))
            frame = frame.f_back
    found = walk(roots)
    if "HTTP_UNREAD" not in environ: environ["wsgi.input"].read()
    return [json.dumps({"found": found, "size": len(roots)}).encode()]
""")
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        self.check(session(loader, b"text", REQUEST_METHOD="POST", CONTENT_LENGTH=4).body)
        connection.send()
        self.check(connection.answer().body)
        connection.send(b"text" * 1000, pieces=3)
        self.check(connection.answer().body)
        long = head(HTTP_LONG="x" * 100_000)  # of several reads
        for part in (long[:1000], long[1000:] + frame(b"")):
            connection.conn.sendall(part)
            time.sleep(0.02)
        self.check(connection.answer().body)
        # The rest of a body, and with it the next request.
        connection.conn.sendall(head(HTTP_UNREAD="") + frame(b"text"))
        self.check(connection.answer().body)
        connection.conn.sendall(frame(b"rest") + frame(b"") + head() + frame(b""))
        self.check(connection.answer().body)


class AsgiDumps(Dumps, AsgiLoader):
    source = ASGI

    def test_no_dump_of_a_request_shows_secrets(self):
        loader = self.started()
        self.check(self.ask(self.http(loader))[1])


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class NodeDumps(Dumps, AsgiLoader):
    command = ["node", os.path.join(LOADERS, "node-loader.js")]
    source = NODE

    def app(self, source, **options):
        return self.start("app.js", source, **options)

    def test_no_dump_of_a_request_shows_secrets(self):
        loader = self.started()
        self.check(self.ask(self.http(loader))[1])
