"""Greenlets of gevent and eventlet, for a WSGI application that has replaced the threads or the sockets of Python by them.

A greenlet that waits in a system call holds up all others of its thread. So the loader waits by means of the library, and the
library runs other greenlets meanwhile: those that serve other requests, and those of the application.
"""

import os
import signal
import sys

from cabrank.python_own import EPOLLIN, EPOLLONESHOT, own, read, threads_are_greenlets, write


class Gevent:
    """What the loader uses of gevent."""

    def __init__(self):
        import gevent.lock
        import gevent.socket

        self.spawn = gevent.spawn
        self.semaphore = gevent.lock.Semaphore
        self.wait_read = gevent.socket.wait_read

    @staticmethod
    def adopt(conn):
        """Return the connection as a socket that waits by means of the library."""
        import gevent.socket

        return gevent.socket.socket(fileno=conn.detach())


class Eventlet:
    """What the loader uses of eventlet."""

    def __init__(self):
        import eventlet
        import eventlet.hubs
        import eventlet.semaphore

        self.spawn = eventlet.spawn_n
        self.semaphore = eventlet.semaphore.Semaphore

    @staticmethod
    def wait_read(descriptor):
        import eventlet.hubs

        eventlet.hubs.trampoline(descriptor, read=True)

    @staticmethod
    def adopt(conn):
        """Return the connection as a socket that waits by means of the library."""
        from eventlet.greenio import GreenSocket

        return GreenSocket(conn)


def terminate_main(library, channel):
    """Let SIGTERM end the current greenlet, which is the main one.

    The handler runs in any greenlet. The library swallows an exception in its own, and a request one in that of a request. And if
    a signal comes just before the library waits for events, its handler runs behind the wait, unless the signal itself is an event.
    """
    if signal.getsignal(signal.SIGTERM) is not channel.terminate:
        return  # it is the application's
    from greenlet import getcurrent

    main, asked, (reader, writer) = getcurrent(), [], os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)

    def terminate(*_):
        if getcurrent() is main or not own[0]:
            raise channel.Terminated
        asked.append(True)
        write(writer, b"x")

    def wait():
        while not asked:
            library.wait_read(reader)
            try:
                read(reader, 512)
            except BlockingIOError:
                pass  # a forked child has read it
        if own[0]:
            main.throw(channel.Terminated)

    library.spawn(wait)
    signal.signal(signal.SIGTERM, terminate)
    other = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if other != -1:
        signal.set_wakeup_fd(other)  # of the application


PATCHES = (("gevent.monkey", "is_module_patched", Gevent), ("eventlet.patcher", "is_monkey_patched", Eventlet))


def library_in_use(channel):
    """Return the library by which the loader has to wait, or None if threads of the system serve the requests.

    Several threads of the system serve requests if the application has replaced its sockets, but not its threads.
    """
    are_greenlets = threads_are_greenlets()
    if are_greenlets or channel.threads == 1:
        for module, name, library in PATCHES:
            is_patched = getattr(sys.modules.get(module), name, None)
            if is_patched is not None and any(map(is_patched, ("thread", "select", "socket"))):
                return library()
    if are_greenlets and channel.threads > 1:
        raise channel.LoadError("The application has replaced the threads of Python by something that is neither gevent nor "
                                "eventlet, and may hold up all requests while one waits. Remove --app-threads, or what replaces them.")
    return None


class GreenPoller:
    """Waits for sockets as an epoll object does, and lets other greenlets run meanwhile.

    A socket rests after an event until `modify` resumes it, as with EPOLLONESHOT. `ready` has an event until a greenlet takes
    it: by `pop`, in one step, so that an exception loses none. A socket without EPOLLONESHOT has one event for each of the
    greenlets that serve requests.
    """

    def __init__(self, library, greenlets):
        self.library = library
        self.greenlets = greenlets
        self.ready = []  # lists of one event, as `epoll.poll` returns them
        self.waits = {}  # descriptor: the object of its wait, until its event is in `ready`
        self.turnstile = library.semaphore(0)

    def register(self, source, events):
        descriptor = source if isinstance(source, int) else source.fileno()
        if descriptor not in self.waits:
            wait = self.waits[descriptor] = object()
            self.library.spawn(self.watch, descriptor, wait, 1 if events & EPOLLONESHOT else self.greenlets)

    modify = register

    def unregister(self, source):
        """Forget a socket. A wait that an exception has left for it has no effect: another socket may get its number."""
        self.waits.pop(source, None)

    def watch(self, descriptor, wait, times):
        try:
            self.library.wait_read(descriptor)
        except OSError:
            pass  # the application has closed it: the next read says so
        finally:
            # The greenlets of the parent run on in a forked child.
            if own[0] and self.waits.get(descriptor) is wait:
                del self.waits[descriptor]
                self.ready += [[(descriptor, EPOLLIN)]] * times
                self.wake()

    def wait(self):
        """Return when `ready` has an event for the caller, which takes it by its next step."""
        while not self.ready:
            self.turnstile.acquire()
        if len(self.ready) > 1:
            self.wake()

    def wake(self):
        """Wake a greenlet that waits. It wakes the next if there is more."""
        if self.turnstile.locked():
            self.turnstile.release()

    def close(self):
        """Forget all sockets. In a forked child the greenlets of the parent wait for ever."""
        self.ready.clear()
