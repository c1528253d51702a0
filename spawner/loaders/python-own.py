"""What a loader takes before it loads the application, which may replace it.

These are the system's own waits and threads, and the page by which a process knows whether it serves requests, or was forked
from one that does.
"""

import _thread
import mmap
from os import read, write
from select import EPOLLIN, EPOLLONESHOT, POLLIN, POLLRDHUP, epoll, poll

MADV_WIPEONFORK = 18
STARTS = _thread.start_new_thread, getattr(_thread, "start_joinable_thread", None)

# Its first byte is 1 in the process that serves requests, and 0 in each process that the application forks from it. Linux clears
# the page at each fork, also at one by a C library, which runs no hook of Python.
own = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class ClientGone(ConnectionError):
    """The server closed the connection, so the answer has no reader."""


def begin_process():
    try:
        own.madvise(MADV_WIPEONFORK)
    except OSError:
        pass  # Linux before 4.14: the hook clears it
    own[0] = 1


def threads_are_greenlets():
    """Return whether gevent, eventlet or the like has replaced the threads of the system."""
    return (_thread.start_new_thread, getattr(_thread, "start_joinable_thread", None)) != STARTS
