"""The ASGI server of a Python application: python-loader.py has loaded the application, and calls `serve`.

The server speaks HTTP/1.1 over connections that it keeps and reuses (`http_session`). It has no password; the modes of the
socket and its directory protect it. Any number of requests run at once, in one event loop: that of uvloop where it is
installed.

asgi-connection.py parses requests, asgi-request.py answers them, and asgi-websocket.py speaks WebSocket,
whose messages asgi-deflate.py compresses. asgi-fork.py keeps
children that the application forks away from all of them.
"""

import asyncio
import contextvars
import faulthandler
import os
import signal
import socket
import threading
import time

from cabrank.asgi_connection import SPEC, Connection
from cabrank.asgi_fork import Forks, open_descriptors
from cabrank.asgi_request import MEMORY_MAX, check_process
from cabrank.asgi_websocket import MESSAGE_MAX
from cabrank.python_own import begin_process, own

# --- Lifespan ----------------------------------------------------------------------------------------------------------


class Lifespan:
    """The application's start-up and shutdown. An application that does not know the protocol has neither."""

    def __init__(self, server):
        self.server = server
        self.requests = asyncio.Queue()
        self.reply = None  # the future of the reply to the last request
        self.task = None

    async def ask(self, kind):
        """Send `startup` or `shutdown`. Return the message that answers it, or None without an answer."""
        self.reply = self.server.loop.create_future()
        self.requests.put_nowait({"type": f"lifespan.{kind}"})
        if self.task is None:
            scope = {"type": "lifespan", "asgi": SPEC.copy(), "state": self.server.state}
            self.task = self.server.loop.create_task(self.run(scope))
        await asyncio.wait([self.reply, self.task], return_when=asyncio.FIRST_COMPLETED)
        return self.reply.result() if self.reply.done() else None

    async def run(self, scope):
        await self.server.application(scope, self.requests.get, self.send)

    async def send(self, message):
        if self.reply.done():
            raise RuntimeError(f"the application sent {message['type']} twice")
        self.reply.set_result(message)

    async def start(self):
        reply = await self.ask("startup")
        if reply is None:
            if self.task.exception() is not None and not issubclass(type(self.task.exception()), Exception):
                raise self.task.exception()  # sys.exit()
        elif reply["type"] == "lifespan.startup.failed":
            raise self.server.channel.LoadError(f"The application's start-up failed.\n{reply.get('message', '')}")

    async def stop(self):
        if self.task.done():
            if not self.task.cancelled() and self.task.exception() is not None and self.reply.done():
                self.server.channel.log("asgi-server: the application's lifespan ended early\n")
            return
        reply = await self.ask("shutdown")
        if reply is None:
            error = self.task.exception()
            if error is not None:
                self.server.channel.log_error(error)
        elif reply["type"] == "lifespan.shutdown.failed":
            self.server.channel.log(f"The application's shutdown failed.\n{reply.get('message', '')}\n")


# --- Server ------------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, application, channel, loop):
        self.application = application
        self.channel = channel
        self.loop = loop
        self.thread = threading.get_ident()
        self.context = contextvars.copy_context()  # of the application's modules: no request changes it
        self.message_max = int(channel.options.get("max_websocket_message") or MESSAGE_MAX)
        self.state = {}
        self.hosts = {}
        self.connections = set()
        self.running = set()  # requests and WebSockets
        self.listener = None  # the socket
        self.is_child = False  # this is a process that the application has forked
        self.is_leaving = False
        self.farewell = None  # the close code and reason of all WebSockets, once the server has asked for their end
        self.is_terminating = False
        self.idle = None  # a future, while the server waits for the end of all that runs

    def run_clean(self, call, *args):
        """Make a call that starts work of another request, without the context variables of the present one."""
        return self.context.copy().run(call, *args)

    def restore_stream(self, transport, descriptor):
        """End a connection that has the number of a standard stream, which the null device gets: see `Listener`."""
        def restore():
            with open(os.devnull, "r+b", buffering=0) as null:
                os.dup2(null.fileno(), descriptor)

        transport.abort()
        self.loop.call_later(0.01, restore)  # the loop has given it up by then, and uvloop closes none of these numbers

    def remember_host(self, host, secure):
        """Return the address of the server as the client has named it."""
        name, colon, port = host.decode("latin-1").rpartition(":")
        if not colon or not port.isdigit():
            name, port = host.decode("latin-1"), "443" if secure else "80"
        result = (name, int(port))
        if len(self.hosts) < MEMORY_MAX:
            self.hosts[host, secure] = result
        return result

    async def main(self, before):
        """Serve. `before` are the descriptors that the process had before the loop."""
        channel, loop = self.channel, self.loop
        begin_process()
        self.watch_turns()
        # A running loop has all of its descriptors.
        Forks(self, open_descriptors() - before)
        lifespan = Lifespan(self)
        await lifespan.start()
        listener = channel.listen("main", "asgi", "http_session", 0)
        self.listener = listener
        server = await loop.create_unix_server(lambda: Connection(self), sock=listener, backlog=1024)
        leave = loop.create_future()
        channel.ready(ends_websockets="true", takes_origin="true")
        loop.add_reader(channel.control, self.obey, leave)
        stops = await leave
        server.close()
        channel.remove_sockets()
        self.is_leaving = True
        self.end_websockets(stops)
        for connection in list(self.connections):
            if connection.websocket is None and connection.request is None:
                connection.transport.close()
        if self.running:
            self.idle = loop.create_future()
            await self.idle
        await lifespan.stop()

    def obey(self, leave):
        """Read a byte of the server, or the end of its output.

        `g` and `r` ask for the end of all WebSockets, because the server stops (goes away), or because another process takes
        the place (restart). Other requests go on. `s` and everything else ask the process to leave.
        """
        order = os.read(self.channel.control, 1)
        if order in (b"g", b"r"):
            self.end_websockets(order == b"g")
        else:
            self.loop.remove_reader(self.channel.control)
            leave.set_result(order == b"s")

    def end_websockets(self, stops):
        """Ask the peers of all WebSockets to connect to another process, or say that the server stops."""
        self.farewell = (1001, "the server stops") if stops else (1012, "the service restarts")
        for connection in list(self.connections):
            if connection.websocket is not None:
                connection.websocket.say_farewell()

    def watch_turns(self):
        """End a child that awaits before it waits for the parent's sockets and reads from them.

        Each turn of a loop of `asyncio` begins here. A loop of uvloop has no such place: `data_received` ends its child.
        """
        turn = getattr(self.loop, "_run_once", None)
        if turn is None:
            return

        def run_once():
            if not own[0]:
                check_process(self)
            turn()

        self.loop._run_once = run_once

    def check_idle(self):
        if not self.running and self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    def terminate(self, task):
        self.is_terminating = True
        task.cancel()

    def end(self):
        """End all connections: the process may live on, until tasks and threads of the application have come to their end.

        A request that came here meanwhile would wait as long.
        """
        if self.listener is not None:
            try:
                # Without the event loop, which may take turns no more. A forked child may hold the listener open.
                self.listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the application has closed it
        for connection in list(self.connections):
            connection.transport.abort()

    def dump(self):
        """Write to standard error what each request waits for."""
        now = time.monotonic()
        tasks = {run.task: f"{run.describe()}, for {now - run.since:.1f} s" for run in self.running}
        lines = [f"SIGQUIT: process {os.getpid()}, {len(tasks)} requests in progress\n"]
        for task in asyncio.all_tasks(self.loop):
            lines.append(f"  {tasks.get(task, task.get_name())}\n")
            waits = task.get_coro()
            while waits is not None:
                place = getattr(waits, "cr_frame", None) or getattr(waits, "gi_frame", None) or getattr(waits, "ag_frame", None)
                if place is not None:
                    lines.append(f"    {place.f_code.co_filename}:{place.f_lineno} in {place.f_code.co_name}\n")
                waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None) or getattr(waits, "ag_await", None)
        self.channel.log("".join(lines))
        self.channel.flush()


def new_loop():
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def check_import():
    """Refuse tasks that the application has made while it was imported: their loop never runs."""
    policy = getattr(asyncio.events, "_event_loop_policy", None)
    loop = getattr(getattr(policy, "_local", None), "_loop", None)  # to ask for the loop would make one
    lost = asyncio.all_tasks(loop) if loop is not None else ()
    if lost:
        names = ", ".join(sorted(getattr(task.get_coro(), "__qualname__", task.get_name()) for task in lost))
        raise RuntimeError(
            f"the application has made tasks while it was imported, which never run: {names}. Make them in the startup of the "
            "lifespan, or in a request."
        )


def end_tasks(loop):
    """Cancel the tasks that are left, and wait for them.

    `SystemExit` of a task ends a run of the loop, once for the task and once more for each task that awaits it.
    """
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    while rest := {task for task in rest if not task.done()}:
        try:
            loop.run_until_complete(asyncio.wait(rest))
        except SystemExit:
            pass


def serve(application, channel):
    """Serve the application until the server asks the process to leave."""
    check_import()
    before = open_descriptors()
    # `asyncio` allocates 256 KiB for each read. glibc maps and unmaps as much as that each time, until it has freed a larger
    # mapping once. From then on such a block comes from the heap: three system calls and half of the time of a small request.
    bytes(1 << 20)
    loop = new_loop()
    asyncio.set_event_loop(loop)
    server = Server(application, channel, loop)
    main = loop.create_task(server.main(before))
    loop.add_signal_handler(signal.SIGTERM, server.terminate, main)
    # First the stacks of all threads, written even while the loop is busy; then the loop writes those of its tasks.
    faulthandler.unregister(signal.SIGQUIT)
    loop.add_signal_handler(signal.SIGQUIT, server.dump)
    faulthandler.register(signal.SIGQUIT, 2, all_threads=True, chain=True)
    try:
        loop.run_until_complete(main)
    except asyncio.CancelledError:
        raise channel.Terminated from None
    finally:
        server.is_terminating = True
        try:
            server.end()
        finally:
            end_tasks(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        if main.done() and not main.cancelled() and main.exception() is None and hasattr(loop, "shutdown_default_executor"):
            loop.run_until_complete(loop.shutdown_default_executor())
