"""The page by which a process knows whether it serves requests, or was forked from one that does."""

import mmap

MADV_WIPEONFORK = 18

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
