"""Measure what preloading gains: memory of 1, 2 and 6 processes, and the time until another process is ready.

    cargo xtask preload             prints a table of a Django project and of a Rails scaffold
    cargo xtask preload --write     also writes it into docs/preloaders.md

Django comes from PyPI, Rails from Debian's package `ruby-rails`; without it, its rows are left out. Both run in production,
with a table of a SQLite database. Memory is the PSS of all processes of the application and of its preloader, after 20
requests a process. The time is that from the end of the only process to the answer of another one, the median of 7.
"""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
PLACE = os.path.join(ROOT, "target", "preload")
BINARY = os.path.join(ROOT, "target", "release", "cabrank")
PAGE = os.path.join(ROOT, "docs", "preloaders.md")
SIZES = 1, 2, 6
TRIES = 7
BEGIN, END = "<!-- cargo xtask preload: begin -->\n", "<!-- cargo xtask preload: end -->\n"

MODELS = "from django.db import models\nclass Post(models.Model):\n    title = models.CharField(max_length=80)\n"
URLS = """from django.contrib import admin
from django.http import HttpResponse
from django.urls import path
from posts.models import Post

urlpatterns = [
    path("admin/", admin.site.urls),
    path("posts", lambda request: HttpResponse(f"{Post.objects.count()} posts")),
]
"""


def run(*words, cwd=PLACE, **variables):
    subprocess.run(words, cwd=cwd, env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL)


def django():
    """Return the directory of a Django project, and the options for it."""
    venv = os.path.join(PLACE, "venv")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        run(sys.executable, "-m", "venv", venv)
        run(python, "-m", "pip", "install", "--quiet", "django==5.2.*")
    project = os.path.join(PLACE, "django")
    if not os.path.exists(project):
        os.mkdir(project)
        run(python, "-m", "django", "startproject", "site_", project)
        run(python, "manage.py", "startapp", "posts", cwd=project)
        settings = os.path.join(project, "site_", "settings.py")
        with open(settings) as file:
            text = file.read()
        text = text.replace("INSTALLED_APPS = [", 'INSTALLED_APPS = [\n    "posts",').replace("DEBUG = True", "DEBUG = False")
        for name, text in ((settings, text.replace("ALLOWED_HOSTS = []", 'ALLOWED_HOSTS = ["*"]')),
                           (os.path.join(project, "site_", "urls.py"), URLS), (os.path.join(project, "posts", "models.py"), MODELS)):
            with open(name, "w") as file:
                file.write(text)
        run(python, "manage.py", "makemigrations", "posts", cwd=project)
        run(python, "manage.py", "migrate", cwd=project)
    return project, ["--python", python], "/posts"


WARMUP = 'warmup { |app| 2.times { Rack::MockRequest.new(app).get("http://localhost/posts") } }\n'


def rails(warmup=""):
    """Return the directory of a Rails scaffold, and the options for it."""
    project = os.path.join(PLACE, "blog")
    production = {"RAILS_ENV": "production", "SECRET_KEY_BASE": "x"}
    if not os.path.exists(project):
        skip = "bundle git javascript webpack-install spring bootsnap listen test system-test action-cable sprockets"
        run("rails", "new", project, "-q", "-d", "sqlite3", *(f"--skip-{name}" for name in skip.split()))
        with open(os.path.join(project, "Gemfile"), "w") as file:
            file.write('source "https://rubygems.org"\ngem "rails"\ngem "sqlite3"\n')
        run("bin/rails", "generate", "scaffold", "post", "title:string", cwd=project, **production)
        run("bin/rails", "db:migrate", cwd=project, **production)
    with open(os.path.join(project, "config.ru"), "w") as file:
        file.write(f'require_relative "config/environment"\n{warmup}run Rails.application\n')
    os.environ.update(SECRET_KEY_BASE="x")
    return project, ["--environment", "production"], "/posts"


class Server:
    def __init__(self, project, options, method, size):
        self.runtime = tempfile.TemporaryDirectory()
        self.log = open(os.path.join(self.runtime.name, "log"), "w+")
        words = [BINARY, "start", project, "--port", "0", "--spawn-method", method, "--min-instances", str(size),
                 "--max-pool-size", str(size), *options]
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": self.runtime.name}
        self.process = subprocess.Popen(words, env=self.environment, stdout=self.log, stderr=self.log)
        self.address = self.until(lambda: re.search(r"http://127.0.0.1:\d+", self.text()))[0]
        self.until(lambda: len(self.pids()) == size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        self.runtime.cleanup()

    def text(self):
        with open(self.log.name) as file:
            return file.read()

    def until(self, look):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            time.sleep(0.02)
        raise SystemExit(f"the server does not become ready:\n{self.text()}")

    def pids(self):
        report = subprocess.run([BINARY, "status", "--json"], env=self.environment, capture_output=True)
        if report.returncode:
            return []
        return [process["pid"] for group in json.loads(report.stdout)["groups"] for process in group["processes"]]

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            return answer.read()

    def memory(self):
        """Return the PSS of all processes that the server has started, in MB."""
        total = 0
        for pid in self.pids() + re.findall(r"preloader (\d+) has loaded", self.text()):
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += int(re.search(r"^Pss: +(\d+)", file.read(), re.M)[1])
        return total / 1024


def measure(name, project, options, path):
    rows = {}
    for method in ("direct", "smart"):
        memory = []
        for size in SIZES:
            with Server(project, options, method, size) as server:
                with concurrent.futures.ThreadPoolExecutor(size) as clients:
                    list(clients.map(lambda _: server.get(path), range(20 * size)))
                memory.append(server.memory())
        with Server(project, options, method, 1) as server:
            times = []
            for _ in range(TRIES):
                server.get(path)
                os.kill(server.pids()[0], signal.SIGKILL)
                begun = time.monotonic()
                server.get(path)
                times.append(time.monotonic() - begun)
        rows[method] = memory, statistics.median(times) * 1000
    yield from (f"| {name} | {method} | " + " | ".join(f"{number:.0f} MB" for number in memory) + f" | {took:.0f} ms |\n"
                for method, (memory, took) in rows.items())
    direct, smart = rows["direct"], rows["smart"]
    ratios = [one / other for one, other in zip(smart[0] + [smart[1]], direct[0] + [direct[1]])]
    yield f"| {name} | smart / direct | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |\n"


def main():
    os.makedirs(PLACE, exist_ok=True)
    table = "| application | spawn method | 1 process | 2 processes | 6 processes | another one is ready after |\n|---|---|---|---|---|---|\n"
    print(table, end="")
    for name, make in (("Django", django), ("Rails", rails), ("Rails with `warmup`", lambda: rails(WARMUP))):
        if name != "Django" and not shutil.which("rails"):
            print("Rails is left out: apt-get install ruby-rails ruby-sqlite3", file=sys.stderr)
            continue
        for row in measure(name, *make()):
            print(row, end="", flush=True)
            table += row
    if "--write" in sys.argv:
        with open(PAGE) as file:
            text = file.read()
        text = text[:text.index(BEGIN) + len(BEGIN)] + table + text[text.index(END):]
        with open(PAGE, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
