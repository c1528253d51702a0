"""Load one Python application once, and fork a process for each `spawn` of the cabrank server (docs/preloaders.md).

The handshake and the loading are python-loader.py's. Instead of requests the preloader takes commands, on a Unix socket of
its own. The connection of a command becomes standard input and output of the new process, which performs a handshake there
and serves requests as if the loader had started it.
"""

import gc
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
# The application may replace them by functions of gevent or eventlet, which let greenlets of the application run meanwhile.
from os import waitpid
from select import POLLIN, poll
from time import sleep

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND_TIMEOUT = 10
PR_SET_PDEATHSIG = 1

try:
    import ctypes
except ImportError:  # some builds of Python lack it
    ctypes = None


def import_loader():
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the loader's directory is the server's
    spec = importlib.util.spec_from_file_location("cabrank.loader", os.path.join(HERE, "python-loader.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = bytecode
    return module


loader = import_loader()


class Command:
    """A command of the server: its connection, its text, and the standard error for the new process, if there is one."""

    def __init__(self, connection):
        self.connection = connection
        self.text = b""
        self.descriptors = []

    def receive(self):
        """Receive the text to its empty line. Return whether it has one."""
        deadline = time.monotonic() + COMMAND_TIMEOUT
        while not self.text.endswith(b"\n\n"):
            self.connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data, descriptors, _, _ = socket.recv_fds(self.connection, 4096, 4)
            except OSError:
                return False
            self.descriptors += descriptors
            if not data:
                return False
            self.text += data
        self.connection.settimeout(None)
        return True

    def answer(self, text):
        try:
            self.connection.sendall(text.encode())
        except OSError:
            pass  # the server has given up

    def close(self):
        self.connection.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


class Preloader:
    """A process that has loaded the application and serves no request."""

    def __init__(self, channel):
        self.channel = channel
        self.path = None

    def run(self):
        """Serve commands. Return the command of a new process there, and None when this process has to leave."""
        listener = self.channel.listen("commands", "preloader", "", 1)
        warn_of_threads()
        close_django_connections()
        # The collector writes to each object that it visits. Forked processes share the memory of those that it skips.
        gc.collect()
        gc.freeze()
        self.ready()
        poller = poll()
        for descriptor in (self.channel.control, listener.fileno()):
            poller.register(descriptor, POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if self.channel.control in ready:
                return None
            try:
                command = Command(listener.accept()[0])
            except BlockingIOError:
                continue
            try:
                if command.receive() and self.spawn(command):
                    listener.close()
                    return command
            finally:
                if self.channel.is_own_process():
                    command.close()

    def ready(self):
        channel = self.channel
        loader.use_null_as_input()
        channel.is_ready = True
        channel.say(f"!> Ready\n!> socket: unix:{channel.sockets[0][1]}\n!> pid: {channel.pid}\n!> \n")

    def spawn(self, command):
        """Fork a process. Return whether this is the new process."""
        if not command.text.startswith(b"spawn\n"):
            command.answer("Error\nunknown command\n")
            return False
        close_django_connections()
        loader.flush()  # each forked process would write it again
        try:
            return fork_for_the_parent()
        except OSError as error:
            command.answer(f"Error\ncannot fork: {error}\n")
            return False


def fork_for_the_parent():
    """Fork twice. Return whether this is the new process.

    The process whose parent ends becomes a child of the server, which watches and reaps it.
    """
    middle = os.fork()
    if middle:
        _, status = waitpid(middle, 0)
        if status:
            raise OSError(f"the process between has ended with status {status}")
        return False
    middle = os.getpid()
    try:
        if os.fork():
            os._exit(0)
    except BaseException:
        os._exit(1)
    while os.getppid() == middle:
        sleep(0.0005)
    return True


def become_process(command, preloader_control):
    """Turn a forked process into one whose channel is the connection of its command."""
    os.setsid()  # the server ends a process with its group
    die_with_the_server()
    os.close(preloader_control)
    for descriptor in (0, 1):
        os.dup2(command.connection.fileno(), descriptor)
    if command.descriptors:
        os.dup2(command.descriptors[0], 2)
    command.answer(f"OK\n{os.getpid()}\n")
    command.close()


def die_with_the_server():
    """Ask the kernel to kill this process when its parent ends, the server. No other process does so if its reaper is killed, too."""
    server = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != server:
        os._exit(1)  # the request came too late


def warn_of_threads():
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if names:
        loader.log(f"python-preloader: no forked process has the threads that the application has started: {', '.join(names)}. "
                   "Start them in a function for cabrank.on_start.\n")


def close_django_connections():
    """Close the database connections that Django has opened while it was loaded.

    Two processes that use one connection destroy its protocol. The preloader closes it, because a forked process would end
    the session of the others. Django opens another one when a process needs it.
    """
    database = sys.modules.get("django.db")
    if database is not None:
        try:
            database.connections.close_all()
        except Exception as error:  # without a setting DATABASES, or with a broken back end
            loader.log(f"python-preloader: cannot close the connections of Django: {error}\n")


def main():
    loaded = None

    def preload():
        nonlocal loaded
        channel.handshake()
        if ctypes is None:
            raise loader.LoadError("This Python lacks the module ctypes, without which a forked process could outlive the server.")
        loaded = loader.load(channel)
        return Preloader(channel).run()

    def serve():
        become_process(command, channel.control)
        process.handshake()
        loader.cabrank.call(loader.cabrank.forked)
        loader.cabrank.call(loader.cabrank.starting)
        application, server = loaded
        server.serve(application, process)

    loader.set_up_process()
    channel = loader.Channel()
    command = loader.live(channel, preload)
    if command is not None:
        process = loader.Channel()
        loader.live(process, serve)


if __name__ == "__main__":
    main()
