"""Applications that close, replace or redirect their standard streams boot, serve, and leave when they are asked to."""

import unittest

from common import AsgiLoader, RackLoader, WsgiLoader
from driver import DEADLINE, session


class StandardStreams:
    """`CASES` has lines of the application, by what they do. `SOURCE` answers `ok`."""

    def test_an_application_that_changes_them_is_served(self):
        for case, lines in self.CASES.items():
            for while_loading in (True, False):
                with self.subTest(case, while_loading=while_loading):
                    loader = self.app(self.source(lines, while_loading))
                    self.assertIsNone(loader.error)
                    for _ in range(2):
                        self.assertEqual(self.answer(loader), b"ok")
                    loader.channel.sendall(b"x")
                    self.assertIn(loader.process.wait(DEADLINE), self.CODES)

    def test_an_error_reaches_the_server_all_the_same(self):
        for case, lines in self.CASES.items():
            with self.subTest(case):
                loader = self.app(f"{lines}\n{self.RAISE}")
                self.assertIn("what is wrong", loader.error or "")

    def answer(self, loader):
        return session(loader).body


class PythonStreams(StandardStreams):
    CODES = (0, 120)  # Python cannot flush the streams at its end
    RAISE = "raise RuntimeError('what is wrong')"
    CASES = {
        "no output": "import sys; sys.stdout = sys.stderr = None",
        "a deleted output": "import sys; del sys.stdout, sys.stderr",
        "an output without flush": "import sys\nclass Log:\n    def write(self, text): pass\nsys.stdout = sys.stderr = Log()",
        "an output that raises": "import sys\nclass Log:\n    def __getattr__(self, name): raise KeyError(name)\nsys.stdout = sys.stderr = Log()",
        "a redirected output": "import os\nlog = os.open('log', os.O_CREAT | os.O_WRONLY)\nos.dup2(log, 1); os.dup2(log, 2)",
        "a closed output": "import os\nos.close(1)",
        "a redirected input": "import os\nos.dup2(os.open('/dev/null', os.O_RDONLY), 0)",
        "a closed input": "import os\nos.close(0)",
        "all closed": "import os\nfor number in range(3): os.close(number)",
        "closed files": "import sys\nsys.stdin.close(); sys.stdout.close(); sys.stderr.close()",
    }


class WsgiStreams(PythonStreams, WsgiLoader):
    def source(self, lines, while_loading):
        lines = lines.splitlines()
        return "\n".join([
            *(lines if while_loading else ["did = False"]),
            "def application(environ, start_response):",
            *([] if while_loading else ["    global did", "    if not did:", "        did = True", *(f"        {line}" for line in lines)]),
            "    start_response('200 OK', [])",
            "    return [b'ok']",
        ])


class AsgiStreams(PythonStreams, AsgiLoader):
    def source(self, lines, while_loading):
        lines = lines.splitlines()
        return "\n".join([
            *(lines if while_loading else ["did = False"]),
            "async def app(scope, receive, send):",
            "    if scope['type'] != 'http': return",
            *([] if while_loading else ["    global did", "    if not did:", "        did = True", *(f"        {line}" for line in lines)]),
            "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})",
            "    await send({'type': 'http.response.body', 'body': b'ok'})",
        ])

    def answer(self, loader):
        return self.ask(self.http(loader))[1]


class RackStreams(StandardStreams, RackLoader):
    CODES = (0,)
    RAISE = "raise 'what is wrong'"
    CASES = {
        "an output without flush": "$stdout = $stderr = Class.new { def write(*) = 0 }.new",
        "an output that raises": "$stdout = $stderr = Class.new { def write(*) = raise('no'); def flush = raise('no') }.new",
        "a redirected output": "STDOUT.reopen('log', 'w'); STDERR.reopen('log', 'w')",
        "a closed output": "STDOUT.close",
        "a redirected input": "STDIN.reopen('/dev/null')",
        "a closed input": "STDIN.close",
        "all closed": "STDIN.close; STDOUT.close; STDERR.close",
    }

    def source(self, lines, while_loading):
        if while_loading:
            return f"{lines}\nrun ->(_) {{ [200, {{}}, ['ok']] }}"
        return f"did = false\nrun ->(_) {{\nunless did\ndid = true\n{lines}\nend\n[200, {{}}, ['ok']] }}"


if __name__ == "__main__":
    unittest.main()
