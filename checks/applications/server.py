"""`cabrank start` of one application, and requests to it."""

import http.client
import json
import os
import re
import subprocess
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PATIENCE = 90
BINARY = os.path.join(ROOT, "target", "debug", "cabrank")


class Server:
    def __init__(self, directory, environment, application):
        self.directory = directory
        self.runtime = tempfile.TemporaryDirectory()
        self.log = os.path.join(self.runtime.name, "log")
        words = [BINARY, "start", directory, "--port", "0", "--environment", environment,
                 "--max-pool-size", str(application.processes), "--min-instances", str(application.processes), *application.options]
        # No variable of the caller chooses the application's environment.
        chosen = {name: value for name, value in os.environ.items() if not name.endswith("_ENV")}
        self.environment = {**chosen, "XDG_RUNTIME_DIR": self.runtime.name}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)
        try:
            self.port = int(self.until("the server is ready", lambda: re.search(r"at http://127.0.0.1:(\d+)", self.text()))[1])
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.runtime.cleanup()

    def text(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def until(self, what, look):
        """Return the first true result of `look`."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with the code {self.process.returncode}:\n{self.text()[-3000:]}")
            time.sleep(0.02)
        raise TimeoutError(what)

    def cabrank(self, *words):
        return subprocess.run([BINARY, *words], env=self.environment, check=True, capture_output=True, text=True).stdout

    def pids(self):
        report = json.loads(self.cabrank("status", "--json"))
        return {process["pid"] for group in report["groups"] for process in group["processes"]}

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers={}):
        """Return the status, the headers and the body of an answer."""
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path):
        """Return the text of an answer that must be 200."""
        status, _, body = self.ask("GET", path)
        assert status == 200, f"{path}: {status} {body[:300]}"
        return body.decode()


class Load:
    """Clients that ask for `/` again and again, over connections that stay open, until the end of the block."""

    def __init__(self, server, clients=4):
        self.server = server
        self.is_over = False
        self.texts, self.errors = [], []
        self.threads = [threading.Thread(target=self.work) for _ in range(clients)]

    def work(self):
        connection = self.server.connect()
        while not self.is_over:
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status == 200:
                    self.texts.append(text)
                else:
                    self.errors.append(f"{answer.status} {text[:100]}")
            except OSError as error:
                self.errors.append(repr(error))
                connection.close()
        connection.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.server.until("the first answers", lambda: len(self.texts) >= 8)
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()
