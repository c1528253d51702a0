"""Load one Python application and serve it to the cabrank server.

The server starts this file as a child process. One Unix socketpair is its standard input and output, and a pipe its
standard error. Like every loader it takes four steps:

  1. handshake  `!> I have control 1.0`; the server answers with `key: value` lines and an empty line.
  2. load       the startup file, which must define a callable `application` or `app`.
  3. ready      listen on Unix sockets and send their addresses: `!> Ready`, `!> socket: …`, `!> `.
  4. serve      until standard input is readable: a byte and end of file both ask the process to leave. (Two bytes only ask
                asgi-server.py to end its WebSockets.) It finishes running requests first. SIGTERM ends it at once. SIGQUIT
                writes the backtrace of each thread to standard error, and the process goes on.

If a step before 3 fails, the loader sends `!> Error` and a text, and exits with code 1.

The first two steps are common to all Python applications, and stand here. python-preloader.py uses them, too. What the callable takes decides who serves it:
wsgi-server.py or asgi-server.py with its parts, which lie beside this file. The option `app_type` decides where the callable does not.
"""

import ast
import faulthandler
import fcntl
import hmac
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import signal
import socket
import stat
import sys
import traceback
import types

PROTOCOL_VERSION = "1.0"
VERSION = 3, 10
SOCKET_PATH_MAX = 107  # sun_path has 108 bytes, one of them the final NUL
BACKLOG = 1024
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ("application", "app")
# A file of this directory that runs before the application does. The servers import from it.
OWN = "python-own"
# The files of each server, which lie beside this one. Each may import from those before it. The last one has `serve`.
PARTS = {
    "wsgi": ("wsgi-greenlets", "wsgi-request", "wsgi-answer", "wsgi-session", "wsgi-kept", "wsgi-server"),
    "asgi": ("asgi-request", "asgi-deflate", "asgi-websocket", "asgi-connection", "asgi-fork", "asgi-server"),
}


def read_parts():
    """Return the text of each of these files, before the application is loaded.

    Another user may take the place of a directory that has vanished meanwhile.
    """
    texts = {}
    for name in {OWN, *(name for names in PARTS.values() for name in names)}:
        with open(os.path.join(HERE, f"{name}.py"), "rb") as file:
            texts[name] = file.read()
    return texts


texts_of_parts = read_parts()


class LoadError(Exception):
    """The application cannot be served. The text is for the person who deploys it."""


class Terminated(BaseException):
    """SIGTERM arrived. This is not an Exception, so that an application's `except Exception` does not swallow it."""


def terminate(*_):
    raise Terminated


class Hooks(types.ModuleType):
    """The module `cabrank`, which an application may import.

        @cabrank.on_start      calls the function in each process that serves requests, before the first one.
        @cabrank.after_fork    calls the function in each process that a preloader has forked, before those of `on_start`.
    """

    def __init__(self):
        super().__init__("cabrank", Hooks.__doc__)
        self.starting, self.forked = [], []

    def on_start(self, function):
        self.starting.append(function)
        return function

    def after_fork(self, function):
        self.forked.append(function)
        return function

    @staticmethod
    def call(functions):
        pid = os.getpid()
        for function in functions:
            function()
            if os.getpid() != pid:
                leave_child()  # forked by the function


cabrank = Hooks()


def log(text):
    """Write to standard error, which the application may have closed or replaced. An error of it is of no concern here."""
    try:
        sys.stderr.write(text)
    except Terminated:
        raise
    except BaseException:
        pass


def frames_of(error):
    """Return the frames of an exception, whose class may have a `__traceback__` of its own."""
    return BaseException.__traceback__.__get__(error)


def show(error, frames):
    """Return the text of an exception with these frames. Its attributes and texts are the application's, and may raise."""
    kind = type(error)
    try:
        return "".join(traceback.format_exception(kind, error, frames))
    except Terminated:
        raise
    except BaseException:
        return f"an error that cannot be shown: {type.__repr__(kind)}\n"


def log_error(error, skipped=0):
    """Write an exception to standard error without so many of its first frames."""
    frames = frames_of(error)
    for _ in range(skipped):
        frames = frames and frames.tb_next
    log(show(error, frames))


def leave_child(error=None):
    """End a forked child of the application, whose code has returned or raised the error.

    Handlers of `atexit` belong to the parent, and do not run.
    """
    code, kind = int(error is not None), type(error)  # `isinstance` would ask `__class__`, which may be wrong, or raise
    try:
        if issubclass(kind, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif issubclass(kind, Terminated):
            code = 128 + signal.SIGTERM
        elif error is not None:
            log_error(error)
        flush()
    finally:
        os._exit(code)


def flush():
    """Flush the standard streams, which the application may have closed or replaced."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Terminated:
            raise
        except BaseException:
            pass


fork_hooks = {}  # of the server in this process, by the names of `os.register_at_fork`


def register_fork_hooks():
    """Let the server's hooks run in each process that the application forks.

    Hooks of a child run in the order of their registration. So this comes before the application is loaded: a hook of the
    application must find the sockets closed.
    """
    def caller(name):
        def call():
            hook = fork_hooks.get(name)
            if hook is not None:
                hook()
        return call

    os.register_at_fork(**{name: caller(name) for name in ("before", "after_in_parent", "after_in_child")})


# --- The server ---------------------------------------------------------------------------------------------------------


Socket = socket.socket


class Listener(Socket):
    """A socket whose connections never stand in for the standard streams.

    An application may close one of these. The next connection would get its number, and `print`, or another thread that writes
    there at that moment, would write to a client. So the null device gets the number before a connection can.
    """

    def accept(self):
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                self.open_null()
        # `accept` of the module would make the connection by what gevent or eventlet has put in the place of `socket.socket`.
        descriptor, address = self._accept()
        if descriptor <= 2:  # it was closed meanwhile
            closed, descriptor = descriptor, fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
            os.close(closed)
            self.open_null()
        return Socket(fileno=descriptor), address

    @staticmethod
    def open_null():
        """Open the null device, which gets the lowest free number, like a standard stream."""
        null = os.open(os.devnull, os.O_RDWR)
        if null <= 2:
            os.set_inheritable(null, True)
        else:
            os.close(null)  # another thread has taken the number


def use_null_as_input():
    """Let children of the application find an empty input, unless the application has given them another one."""
    try:
        if not stat.S_ISSOCK(os.fstat(0).st_mode):
            return
    except OSError:
        pass  # it is closed
    null = os.open(os.devnull, os.O_RDONLY)
    if null == 0:
        os.set_inheritable(0, True)
    else:
        os.dup2(null, 0)
        os.close(null)


class Channel:
    """The channel to the server, for the loader and its servers: options, sockets, `Ready`, and the request to leave."""

    LoadError = LoadError
    Terminated = Terminated
    terminate = staticmethod(terminate)  # the handler of SIGTERM
    log = staticmethod(log)
    log_error = staticmethod(log_error)
    flush = staticmethod(flush)
    leave_child = staticmethod(leave_child)
    watch_forks = staticmethod(fork_hooks.update)

    def __init__(self):
        self.pid = os.getpid()
        self.options = {}
        self.is_password = None  # whether some bytes are the password of a request
        # The socket of standard input and output, which the application may close or redirect. After `Ready` it becomes readable
        # when the process has to leave.
        self.control = None
        self.is_ready = False
        self.sockets = []  # name, path, protocol, concurrency

    def say(self, text):
        """Write a block of protocol lines.

        A single write keeps the output of other threads out of the block. The newline in front ends an unfinished line of
        the application or its children (`print(end="")`), which share this socket.
        """
        flush()
        data = memoryview(("\n" + text).encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(self.control, data):]

    def handshake(self):
        """Perform the handshake, which gives the options.

        The function reads byte by byte, so that it consumes no byte after the empty line. A start-up script may replace the
        process by another interpreter (`os.execl(INTERP, INTERP, *sys.argv)`), which starts a new handshake on descriptor 0.
        """
        self.control = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self.say(f"!> I have control {PROTOCOL_VERSION}\n")
        with open(self.control, "rb", buffering=0, closefd=False) as stdin:
            greeting = stdin.readline().rstrip(b"\n")
            if greeting != f"You have control {PROTOCOL_VERSION}".encode():
                raise LoadError(f"The server answered the handshake with {greeting!r}, but this loader speaks version {PROTOCOL_VERSION}.")
            while True:
                line = stdin.readline()
                if not line:
                    raise LoadError("The server hung up during the handshake.")
                if line == b"\n":
                    break
                key, _, value = os.fsdecode(line.rstrip(b"\n")).partition(": ")
                self.options[key] = value
        if sys.version_info < VERSION:
            raise LoadError(f"This is Python {sys.version.split()[0]} ({sys.executable}), and cabrank needs Python 3.10 or newer. Name "
                            "another interpreter with --python.")
        password = os.fsencode(self.options.pop("connect_password", ""))
        # The application can reach this object. A variable of a function is in no dump of objects.
        self.is_password = lambda given: hmac.compare_digest(given, password)
        if not self.options.get("generation_dir"):
            raise LoadError("The handshake has no generation_dir, the directory for the socket.")

    @property
    def threads(self):
        """The number of threads that serve requests."""
        return int(self.options.get("app_threads") or 1)

    def listen(self, name, kind, protocol, concurrency):
        """Return a listening socket, which `ready` will announce by this name. Its file's name begins with `kind`."""
        directory = os.path.join(os.path.abspath(self.options["generation_dir"]), "backends")
        path = os.path.join(directory, f"{kind}.{self.pid}-{os.urandom(4).hex()}")
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            raise LoadError(f"The path {path} is longer than a Unix socket allows ({SOCKET_PATH_MAX} bytes). "
                            "Set XDG_RUNTIME_DIR to a shorter directory.")
        listener = Listener(socket.AF_UNIX)
        try:
            # With fchmod before bind, Linux creates the file with this mode. Changing the umask instead would affect every
            # thread of the application.
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(path)
        except OSError as error:
            raise LoadError(f"Cannot listen on a socket in {directory}: {error}") from None
        self.sockets.append((name, path, protocol, concurrency))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        return listener

    def ready(self, **facts):
        """Announce the sockets and facts. From here on the process serves requests, and `control` asks it to leave."""
        # The socket now carries the shutdown byte. A child that reads its standard input must not consume it.
        use_null_as_input()
        self.is_ready = True
        lines = "".join(f"!> socket: {name};unix:{path};{protocol};{concurrency}\n" for name, path, protocol, concurrency in self.sockets)
        lines += "".join(f"!> {name}: {value}\n" for name, value in facts.items())
        self.say(f"!> Ready\n{lines}!> pid: {self.pid}\n!> \n")

    def is_own_process(self):
        """Return whether this is the loader's process, and not a child that the application has forked."""
        return os.getpid() == self.pid

    def remove_sockets(self):
        for _, path, _, _ in self.sockets:
            try:
                os.unlink(path)
            except OSError:
                pass  # the server has removed it already


# --- Loading -----------------------------------------------------------------------------------------------------------


def run_file(name, path):
    """Run a file as the module of this name."""
    # The module gets its own name in sys.modules, so that an `import passenger_wsgi` does not run the file again.
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def load_application(app_root, startup_file, app_type):
    """Return the application, and its type: `wsgi` or `asgi`.

    In the place of the startup file may stand a module and a name, such as `package.module:name`.
    """
    path = os.path.join(app_root, startup_file)
    module_name, colon, expression = startup_file.partition(":")
    is_module = colon and not os.path.exists(path)
    if not is_module and not os.path.isfile(path):
        raise LoadError(f"The startup file {path} does not exist. Create it, or name another file with --startup-file.")

    # The first entry is this file's directory. Applications expect their own directory there.
    if sys.path and sys.path[0] == HERE:
        del sys.path[0]
    sys.path.insert(0, app_root)

    if is_module:
        module = import_module(module_name)
        if expression:
            source = f"`{startup_file}`"
            application = evaluate(module, expression, source)
            return application, type_of(application, source, app_type)
        path = module_name
    elif os.path.basename(path) == "manage.py":
        application, source = load_django(path, app_type)
        return application, type_of(application, source, app_type)
    else:
        module = run_file(os.path.splitext(os.path.basename(path))[0], path)
    values = vars(module)
    found = [(name, values[name]) for name in NAMES if values.get(name) is not None]
    found = [one for one in found if callable(one[1])] or found
    if not found:
        raise LoadError(f"{path} defines neither `application` nor `app`. Define a WSGI or ASGI callable of that name, or name "
                        "another file with --startup-file.")
    typed = [(value, type_of(value, f"`{name}` in {path}", app_type)) for name, value in found]
    return next((one for one in typed if one[1] == app_type), typed[0])


def import_module(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # of another module, which this one imports
        raise LoadError(f"Python finds no module `{error.name}`, in {sys.path[0]} or elsewhere. Correct --app, or name the directory "
                        "with that module.") from None


def evaluate(module, expression, source):
    """Return what the expression names in the module: a name, perhaps with attributes, or the result of a call with literals."""
    try:
        node = ast.parse(expression.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else None
        arguments = [ast.literal_eval(argument) for argument in call.args] if call else []
        named = {argument.arg: ast.literal_eval(argument.value) for argument in call.keywords} if call else {}
        path, node = [], call.func if call else node
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        path.insert(0, node.id)
    except (SyntaxError, ValueError, AttributeError):
        raise LoadError(f"{source} has neither a name behind the colon, nor the call of a function with literal values, such as "
                        "`create_app()`.") from None
    value, owner = module, f"The module {module.__name__}"
    for name in path:
        try:
            value = getattr(value, name)
        except AttributeError:
            raise LoadError(f"{owner} has no `{name}`. Correct --app.") from None
        owner = f"`{name}` in {module.__name__}"
    return value(*arguments, **named) if call else value


def load_django(path, app_type):
    """Return the application that the settings of a Django project name, and where it comes from."""
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        with open(path, encoding="utf-8") as file:
            named = re.search(r"""['"]DJANGO_SETTINGS_MODULE['"]\s*[,\]]\s*=?\s*['"]([\w.]+)['"]""", file.read())
        if named is None:
            raise LoadError(f"{path} does not set DJANGO_SETTINGS_MODULE, as the manage.py of a Django project does. Set this "
                            "variable, or name another file with --startup-file.")
        os.environ["DJANGO_SETTINGS_MODULE"] = named[1]
    from django.conf import settings

    # A new project has WSGI_APPLICATION. ASGI_APPLICATION is there only if somebody has chosen it.
    asgi_name = getattr(settings, "ASGI_APPLICATION", None)
    if app_type == "asgi" or (app_type != "wsgi" and asgi_name):
        setting, target, default = "ASGI_APPLICATION", asgi_name, "django.core.asgi.get_asgi_application"
    else:
        setting, target, default = "WSGI_APPLICATION", settings.WSGI_APPLICATION, "django.core.wsgi.get_wsgi_application"
    module, _, name = (target or default).rpartition(".")
    try:
        application = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise LoadError(f"The setting {setting} names {target}, but the module {module} has no {name}.") from None
    if not target:
        application = application()
    return application, f"{target or default} (the setting {setting})"


def type_of(application, source, app_type):
    """Return `asgi` or `wsgi`: what the callable takes, or the option where that is not clear."""
    if not callable(application):
        raise LoadError(f"{source} has the type {type(application).__name__}, which is not callable.")
    if inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(getattr(application, "__call__", None)):
        return "asgi"
    try:
        signature = inspect.signature(application)
    except (TypeError, ValueError):  # some callables of C have none
        signature = None
    takes = {2: "wsgi", 3: "asgi"}
    if signature is not None:
        takes = {count: name for count, name in takes.items() if accepts(signature, count)}
    if not takes:
        if accepts(signature, 0):
            raise LoadError(f"{source} takes no argument: it seems to be a function that returns the application. Write "
                            "`--app MODULE:NAME()`, or call it in the startup file.")
        raise LoadError(f"{source} takes neither (environ, start_response) as in WSGI, nor (scope, receive, send) as in ASGI: "
                        f"its parameters are {signature}.")
    if app_type in takes.values():
        return app_type
    return next(iter(takes.values()))


def accepts(signature, count):
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def describe(error):
    """Return the text for the error page: a traceback that begins with the application's own code."""
    if issubclass(type(error), LoadError):
        return f"{error}\n"
    frames = frames_of(error)
    while frames and frames.tb_frame.f_code.co_filename.startswith((HERE, "<frozen importlib")):
        frames = frames.tb_next
    return show(error, frames)


# --- One process -------------------------------------------------------------------------------------------------------


def set_up_process():
    """Install the signal handlers, and make standard output fit for the protocol."""
    # A handler, not SIG_IGN, which children of the application would inherit. Ctrl-C reaches the whole process group of a
    # terminal, and the server decides about the shutdown.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, terminate)
    # The server asks for this when a request takes too long. It works even while the interpreter is stuck in C code.
    faulthandler.register(signal.SIGQUIT, 2, all_threads=True, chain=False)
    os.set_blocking(0, True)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.modules["cabrank"] = cabrank
    # A process that `multiprocessing` spawns would run this file again, and another user may have taken its place.
    vars(sys.modules["__main__"]).pop("__file__", None)
    register_fork_hooks()


def load(channel):
    """Return the application that the options name, and the module that serves it."""
    app_root = os.path.abspath(channel.options.get("app_root") or os.getcwd())
    startup_file = channel.options.get("startup_file") or "passenger_wsgi.py"
    run_part(OWN)
    application, app_type = load_application(app_root, startup_file, channel.options.get("app_type"))
    if not channel.is_own_process():
        leave_child()  # forked by the startup file
    if app_type == "asgi" and channel.threads > 1:
        raise LoadError("The application is an ASGI application: one process serves any number of requests at once without "
                        "threads. Remove --app-threads.")
    for name in PARTS[app_type]:
        server = run_part(name)
    texts_of_parts.clear()
    return application, server


def run_part(name):
    """Run a file of the server as a module, which those that follow may import."""
    module = types.ModuleType(f"cabrank.{name.replace('-', '_')}")
    module.__file__ = os.path.join(HERE, f"{name}.py")
    sys.modules[module.__name__] = module
    exec(compile(texts_of_parts[name], module.__file__, "exec"), module.__dict__)
    return module


def live(channel, work):
    """Call `work` as the life of this process, and report its error to the server. Return what `work` returns."""
    try:
        return work()
    except BaseException as error:
        if not channel.is_own_process():
            leave_child(error)
        if issubclass(type(error), Terminated):
            sys.exit(128 + signal.SIGTERM)
        if channel.is_ready:
            raise  # after `Ready`
        try:
            channel.say(f"!> Error\n!> \n{describe(error)}")
            flush()
            channel.remove_sockets()
        finally:
            os._exit(1)  # without waiting for the application's threads and handlers, also if the server is gone
    finally:
        if channel.is_own_process():
            channel.remove_sockets()


def main():
    def work():
        channel.handshake()
        application, server = load(channel)
        cabrank.call(cabrank.starting)
        server.serve(application, channel)

    set_up_process()
    channel = Channel()
    live(channel, work)


if __name__ == "__main__":
    main()
