"""Children that the application forks from a process of the ASGI server.

A fork copies every descriptor and the whole event loop. The child and its parent would answer the same clients, and each
would wait on the epoll of both. Therefore

- the child has no socket of its parent: the null device takes the place of each connection, the listener, the control
  channel and the descriptors of the loop, under its number. It closes none of them, because the application may get the
  number of a closed one for a file, to which the loop would write.
- `send` and `receive` behave as if the client had left;
- the child leaves by `os._exit` as soon as the application's code returns to the event loop or to the thread that has
  called it, also by an await, since the child has no event loop to come back to. It may run one of its own (`asyncio.run`).

The loop or thread goes on to other work without asking, so that the interpreter reports the end of the application's
outermost frame. A child of `multiprocessing` leaves by itself.

A fork by a C library runs no hook of Python. `check_process` (asgi-request.py) finds such a child when its code sends, receives,
returns or awaits.
"""

import opcode
import os
import signal
import socket
import sys
import threading
import traceback

# The modules between a thread's or a loop's beginning and the application.
CALLERS = {"anyio", "asgiref", "asyncio", "cabrank", "concurrent", "threading", "uvloop"}
AWAITED = "asgi-server: a forked child of the application awaited, but has no event loop. It may use asyncio.run.\n"


def open_descriptors():
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}  # the list itself has one


def local_address(descriptor):
    """Return the address that a socket is bound to, or None if the descriptor is no socket."""
    try:
        one = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        return one.getsockname()
    except OSError:
        return None
    finally:
        one.detach()


class Forks:
    """The steps that a forked child takes at once."""

    def __init__(self, server, loop_descriptors):
        self.server = server
        self.loop_descriptors = loop_descriptors
        self.script = script()
        self.null = os.open(os.devnull, os.O_RDWR)  # a child at the limit of descriptors could not open it
        # A signal that comes at once waits until the child has handlers of its own. It would go to the parent's loop.
        self.masks = threading.local()
        server.channel.watch_forks(before=self.block_signals, after_in_parent=self.restore_signals, after_in_child=self.become_child)

    def block_signals(self):
        self.masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def restore_signals(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, self.masks.before)

    def become_child(self):
        try:
            self.protect_parent()
        except BaseException as error:  # Python would only report it
            leave_by(error)
        self.restore_signals()

    def protect_parent(self):
        server = self.server
        if server.is_child:
            return
        server.is_child = True
        self.leave_sockets()
        for run in list(server.running):
            run.lost()
        # The loop's handlers only write to the wake-up descriptor, so that the signal would do nothing.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        frame = sys._getframe(3)  # the caller of `os.fork`
        if not name_of(frame).startswith("multiprocessing."):
            leave_after(frame, self.script)

    def leave_sockets(self):
        channel = self.server.channel
        # Accepted sockets have the address of their listener. The server does not know of one that the loop has just accepted.
        own = {path for _, path, _, _ in channel.sockets}
        controls = (channel.control,) if channel.is_ready else (channel.control, 0)
        for descriptor in open_descriptors():
            if descriptor in controls or descriptor in self.loop_descriptors or local_address(descriptor) in own:
                os.dup2(self.null, descriptor, inheritable=descriptor == 0)


def name_of(frame):
    return frame.f_globals.get("__name__") or ""


def script():
    """Return the variables of the loader's script. Its module is `__main__`, as one of the application may be."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals


def is_caller(frame, script):
    return name_of(frame).partition(".")[0] in CALLERS or frame.f_globals is script


def leave_after(frame, script):
    """Leave where the application's outermost frame among the callers of this one ends or awaits."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    while frames and is_caller(frames[-1], script):
        frames.pop()
    if not frames:
        leave(0)  # a thread or loop has called `os.fork` itself
    (watch if hasattr(sys, "monitoring") else trace)(frames[-1])


def watch(outermost):
    """Leave at the end of this frame. Only its code and exceptions cost time (Python 3.12 and newer)."""
    monitoring, events = sys.monitoring, sys.monitoring.events
    tool = next(number for number in reversed(range(6)) if monitoring.get_tool(number) is None)

    def on(event, act):
        # The code may run in several frames.
        monitoring.register_callback(tool, event, lambda _, __, value: act(value) if sys._getframe(1) is outermost else None)

    monitoring.use_tool_id(tool, "cabrank")
    on(events.PY_RETURN, lambda _: leave(0))
    on(events.PY_YIELD, lambda _: leave(1, AWAITED))
    on(events.PY_UNWIND, leave_by)
    monitoring.set_local_events(tool, outermost.f_code, events.PY_RETURN | events.PY_YIELD)
    monitoring.set_events(tool, events.PY_UNWIND)


def trace(outermost):
    """Leave at the end of this frame. Each call costs time."""
    failure = None

    def see(_, event, argument):
        nonlocal failure
        if event == "exception":
            failure = argument[1]
        elif event == "line":
            failure = None  # the frame has caught it
        elif failure is not None:
            leave_by(failure)
        elif opcode.opname[outermost.f_code.co_code[outermost.f_lasti]].startswith("RETURN"):
            leave(0)
        else:
            leave(1, AWAITED)
        return see

    outermost.f_trace = see
    sys.settrace(sys.gettrace() or (lambda *_: None))


def leave_by(error):
    """Leave because of an error, as a Python program would."""
    code, message = 1, "an error that cannot be shown\n"
    try:
        if issubclass(type(error), SystemExit):  # `isinstance` would ask `__class__`, which may be wrong, or raise
            given = error.code
            code, message = ((given or 0) & 255, "") if given is None or isinstance(given, int) else (1, f"{given}\n")
        else:
            message = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except BaseException:
        pass  # its attributes and texts are the application's
    leave(code, message)


def leave(code, message=""):
    try:
        sys.stderr.write(message)
    except BaseException:
        pass  # the application has closed or replaced it
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    os._exit(code)
