"""The applications, and how each is installed."""

import json
import os
import re
import shutil
import subprocess
import sys

from probes import client, echo
from server import ROOT

SOURCES = os.path.join(ROOT, "checks", "applications")
PLACE = os.path.join(ROOT, "target", "applications")


def run(*words, cwd=None, **variables):
    """Run a command whose output counts only if it fails. Return the output."""
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stdout[-1500:]}")
    return done.stdout


class Application:
    """One application. The files below checks/applications/NAME are copied to target/applications/NAME, where it runs."""

    is_quick = False
    options = ()
    processes = 2
    pages = {}  # path: a text of the page
    websocket = None

    def __init__(self, name, title, **attributes):
        self.name, self.title = name, title
        self.directory = os.path.join(PLACE, name)
        for attribute, value in attributes.items():
            setattr(self, attribute, value)

    def install(self):
        """Return the directory of the application, ready to start."""
        os.makedirs(self.directory, exist_ok=True)
        self.prepare()
        shutil.copytree(os.path.join(SOURCES, self.name), self.directory, dirs_exist_ok=True)
        with open(os.path.join(self.directory, "VERSION"), "w") as file:
            file.write("1\n")
        self.finish()
        return self.directory

    def prepare(self):
        """Install what the copied files need."""

    def finish(self):
        """Complete the directory."""


class Python(Application):
    """An application with a `requirements.txt`, in a virtual environment that all share."""

    python = os.path.join(PLACE, "venv", "bin", "python")

    def prepare(self):
        self.options = ("--python", self.python)
        if not os.path.exists(self.python):
            run(sys.executable, "-m", "venv", os.path.join(PLACE, "venv"))
        source = os.path.join(SOURCES, self.name, "requirements.txt")
        if not same(source, os.path.join(self.directory, "requirements.txt")):
            run(self.python, "-m", "pip", "install", "--quiet", "-r", source)

    def versions(self):
        with open(os.path.join(SOURCES, self.name, "requirements.txt")) as file:
            return ", ".join(line.strip().replace("==", " ") for line in file)


class Node(Application):
    """An application with a `package.json`."""

    def prepare(self):
        source = os.path.join(SOURCES, self.name, "package.json")
        target = os.path.join(self.directory, "package.json")
        if not same(source, target):
            shutil.copy(source, target)
            try:
                run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=self.directory)
            except BaseException:
                os.unlink(target)
                raise

    def versions(self):
        with open(os.path.join(SOURCES, self.name, "package.json")) as file:
            return ", ".join(f"{name} {version}" for name, version in json.load(file)["dependencies"].items())


class Next(Node):
    def finish(self):
        run("npx", "next", "build", cwd=self.directory, NEXT_TELEMETRY_DISABLED="1", NODE_ENV="production")


class Ruby(Application):
    """An application whose gems are packages of Debian."""

    packages = ()

    def prepare(self):
        missing = [name for name in self.packages if subprocess.run(["dpkg", "-s", name], capture_output=True).returncode]
        if missing:
            run("apt-get", "update", "-qq")
            run("apt-get", "install", "-y", "-qq", *missing, DEBIAN_FRONTEND="noninteractive")

    def versions(self):
        listed = run("dpkg-query", "-W", "-f", "${Package} ${Version}, ", *self.packages)
        return re.sub(r"ruby-| \d+:|[+~-][^ ]*(?=,)", lambda m: " " if m[0].startswith(" ") else "", listed).rstrip(", ")


class Rails(Ruby):
    """A generated application with a scaffold, and the files below checks/applications/rails."""

    options = ("--start-timeout", "60")

    def prepare(self):
        super().prepare()
        os.environ["SECRET_KEY_BASE"] = "for tests"
        if not os.path.exists(os.path.join(self.directory, "app")):
            shutil.rmtree(self.directory)
            skip = "bundle git javascript webpack-install spring bootsnap listen test system-test action-cable sprockets"
            run("rails", "new", self.directory, "-q", "-d", "sqlite3", *(f"--skip-{name}" for name in skip.split()))

    def finish(self):
        if not os.path.exists(os.path.join(self.directory, "app/models/post.rb")):
            run("bin/rails", "generate", "scaffold", "post", "title:string", "--skip-routes", cwd=self.directory)
        for environment in ("development", "production"):
            run("bin/rails", "db:migrate", cwd=self.directory, RAILS_ENV=environment)


class Django(Python):
    def finish(self):
        run(self.python, "manage.py", "migrate", cwd=self.directory)


def same(one, other):
    if not os.path.exists(other):
        return False
    with open(one) as first, open(other) as second:
        return first.read() == second.read()

APPLICATIONS = [
    Ruby("sinatra", "Sinatra", is_quick=True, packages=("ruby-sinatra",), error_page="RuntimeError at &#x2F;error"),
    # Rails accepts no application of the name `rails`.
    Rails("rails", "Rails", directory=os.path.join(PLACE, "blog"), packages=("ruby-rails", "ruby-sqlite3"),
          error_page="Action Controller: Exception caught", pages={"/posts": "New Post"}),
    Python("flask", "Flask", is_quick=True, error_page="The server encountered an internal error"),
    Django("django", "Django", error_page="RuntimeError at /error",
           pages={"/admin/login/": "Django administration", "/static/admin/css/base.css": "--primary"}),
    Python("fastapi", "FastAPI", error_page="RuntimeError", websocket=echo("/ws"), pages={"/docs": "swagger"}),
    Python("starlette", "Starlette", error_page="RuntimeError", websocket=echo("/ws")),
    Node("express", "Express", is_quick=True, error_page="Error: broken on purpose"),
    Node("fastify", "Fastify", error_page="broken on purpose"),
    Node("koa", "Koa", error_page="Internal Server Error"),
    Next("next", "Next", error_page="__next_error__"),
    # Long polling needs all requests of a client in one process.
    Node("socketio", "Socket.IO", processes=1, error_page="Error: broken on purpose", websocket=client("client.js")),
]
