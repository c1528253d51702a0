"""The WSGI server of a Python application: python-loader.py has loaded the application, and calls `serve`.

The server listens on two sockets, which serve the same requests. A server that knows kept sessions uses the socket
`kept`: its connections stay open, and frames mark the ends of requests and answers (docs/kept-sessions.md). Other servers
use the socket `main` and the session protocol: one request per connection.

wsgi-request.py has the request, wsgi-answer.py the answer, and wsgi-session.py and wsgi-kept.py the protocols.
"""

import io
import os
import socket
import threading
import time

from cabrank.python_own import EPOLLIN, EPOLLONESHOT, ClientGone, begin_process, epoll, own
from cabrank.wsgi_greenlets import GreenPoller, library_in_use, terminate_main
from cabrank.wsgi_kept import END_OF_REQUEST, U32, Frames, Kept, KeptBody, KeptResponse, checked_size
from cabrank.wsgi_request import BASE, BUFFER, DONTWAIT, content_length, make_environ, wakers
from cabrank.wsgi_session import SessionBody, SessionResponse, drain, read_head


SIGNAL_PAUSE = 1  # seconds


def become_child(server):
    """Close the sockets of the parent. Each send and each receive checks the process, too."""
    own[0] = 0
    server.close_sockets()


def leave(channel, error=None):
    """End a forked child of the application, whose code has returned or raised the error."""
    channel.leave_child(None if issubclass(type(error), ClientGone) else error)


def serve(application, channel):
    """Serve the application until the server asks the process to leave."""
    BASE["wsgi.multithread"] = channel.threads > 1
    server = Server(application, channel)
    if server.library is not None:
        terminate_main(server.library, channel)
    channel.ready()
    try:
        server.serve_until_readable(channel.control)
    finally:
        if own[0]:
            server.end()


class RequestThread(threading.Thread):
    """A thread that serves requests. The process leaves without it, but waits for the threads that it starts.

    A thread inherits the flag `daemon` of the one that starts it. So the flag changes once this thread runs: a thread that
    the application starts is the same whichever thread serves its request.
    """

    has_begun = False

    @property
    def daemon(self):
        return not self.has_begun

    def run(self):
        self.has_begun = True
        super().run()


class Unusable(BaseException):
    """The process can serve no further request."""


class Turn:
    """The event that one thread has in hand, and the kept connection that it serves for it.

    An exception may come between any two steps of the loader: of a signal's handler, or one that a watchdog has set for the
    thread and that waits for the end of a system call. No event may be lost then, because with several threads the system
    reports it once. So `hold` and `put_back` store the result of their call by the same step of the interpreter that makes
    the call: a slice that is assigned from `map`.
    """

    __slots__ = ("hand", "connection")

    def __init__(self):
        self.hand = []  # the list of the one event, while the thread has its descriptor
        self.connection = None  # from the first byte that may be lost

    def is_holding(self):
        # After a time without an event, its list is empty; after `put_back` there is None.
        return bool(self.hand) and bool(self.hand[0])

    def hold(self, poller, seconds):
        """Wait for an event, unless the thread has one, and look each so many seconds. Return the descriptor."""
        while not self.is_holding():
            self.connection = None
            if isinstance(poller, GreenPoller):
                poller.wait()
                self.hand[:] = map(poller.ready.pop, (0,))
            else:
                self.hand[:] = map(poller.poll, (seconds,), (1,))
        return self.hand[0][0][0]

    def put_back(self, modify, descriptor, events):
        """Let threads wait for the descriptor again."""
        self.hand[:] = map(modify, (descriptor,), (events,))  # returns None

    def end(self):
        self.hand.clear()


class Server:
    """The loop of each thread that serves requests.

    All threads wait for the same descriptors. With several threads, an event wakes one of them, and the descriptor rests
    until that thread resumes it. So at most one thread uses a connection. The threads are greenlets if the application has
    replaced the threads of Python by these.

    An exception that comes while a thread is between two requests harms none: the thread logs it, and goes on.
    """

    def __init__(self, application, channel):
        begin_process()
        self.application = application
        self.channel = channel
        self.threads = channel.threads
        self.kept = {}  # descriptor: connection
        self.has_ended = False
        self.sessions = set()  # connections of the session protocol
        # Forked children of the application share this set. So a connection leaves it before it is closed: the child may
        # hold the connection open, and the set would go on reporting it.
        self.library = library_in_use(channel)
        self.poller = epoll() if self.library is None else GreenPoller(self.library, self.threads)
        self.events = EPOLLIN | (EPOLLONESHOT if self.threads > 1 or self.library is not None else 0)
        self.main_listener = channel.listen("main", "wsgi", "session", self.threads)
        self.kept_listener = channel.listen("kept", "kept", "kept_session", self.threads)
        channel.watch_forks(after_in_child=lambda: become_child(self))

    def close_sockets(self):
        """Close the sockets, in a forked child. A shutdown would reach the parent."""
        for connection in self.kept.values():
            connection.conn.close()
        ends = (end for pair in list(wakers) for end in pair)
        for holder in (*self.sessions, *ends, self.main_listener, self.kept_listener, self.poller):
            holder.close()
        if self.channel.control is not None:
            os.close(self.channel.control)
            self.channel.control = None  # a child of the child may have another file of this number

    def end(self):
        """End all connections: the process may live on, until threads of the application and its handlers of `atexit` have come
        to their end. A request that came here meanwhile would wait as long."""
        self.has_ended = True
        for listener in (self.main_listener, self.kept_listener):
            try:
                listener.shutdown(socket.SHUT_RDWR)  # a forked child, or a thread in its wait, may hold it open
            except OSError:
                pass  # the application has closed it
            listener.close()
        for connection in (*list(self.kept.values()), *map(Kept, list(self.sessions))):
            connection.close()

    def serve_until_readable(self, control):
        # Without EPOLLONESHOT: the request to leave is for each thread.
        self.poller.register(control, EPOLLIN)
        for listener in (self.main_listener, self.kept_listener):
            self.poller.register(listener, self.events)
        others = [RequestThread(target=self.run_thread, args=(control,), name=f"request thread {number}")
                  for number in range(2, self.threads + 1)]
        for thread in others:
            thread.start()
        # A handler of the application that calls `sys.exit` means the process.
        ending = self.channel.Terminated, SystemExit
        self.work(control, ending)
        while others:
            try:
                others[-1].join()
                others.pop()
            except ending:
                raise
            except BaseException as error:
                self.survive(error, Turn())

    def run_thread(self, control):
        """Serve as one of several threads. An error ends the process, as it does on the main thread."""
        try:
            self.work(control, ())
        except BaseException as error:
            if not own[0]:
                leave(self.channel, error)
            if self.has_ended:
                return
            self.channel.log_error(error)
            self.channel.flush()
            os._exit(1)

    def work(self, control, ending):
        """Serve one request after another until `control` is readable. Exceptions of the classes `ending` end it, too."""
        turn, failure = Turn(), None
        while True:
            try:
                if failure is not None:
                    self.survive(failure, turn)
                    failure = None
                return self.take_turns(control, turn)
            except (Unusable, *ending):
                raise
            except BaseException as error:
                failure = error

    def survive(self, error, turn):
        """Go on after an exception outside of the application's code, such as one of its signal handlers."""
        if not own[0]:
            if turn.connection is None and turn.is_holding():
                self.give_back(turn.hand[0][0][0])
            # The poller of a child is closed.
            leave(self.channel, None if issubclass(type(error), (OSError, ValueError)) else error)
        if turn.connection is not None:
            self.end_kept(turn)
        # Once more: an exception of a signal's handler may be of the same class.
        if not self.can_wait() and not self.can_wait():
            raise Unusable("the application has closed the sockets of the loader") from error
        self.channel.log_error(error)

    def can_wait(self):
        """Let threads wait for the listeners again. Return whether the application has left them open."""
        try:
            for listener in (self.main_listener, self.kept_listener):
                self.poller.modify(listener, self.events)
            return True
        except (OSError, ValueError):
            return False

    def take_turns(self, control, turn):
        main, kept = self.main_listener.fileno(), self.kept_listener.fileno()
        poller, connections, buffer = self.poller, self.kept, bytearray(BUFFER)
        # Another thread may have taken a signal, and only the main thread runs handlers.
        is_handler = self.threads > 1 and threading.current_thread() is threading.main_thread()
        seconds = SIGNAL_PAUSE if is_handler else -1
        while True:
            descriptor = turn.hold(poller, seconds)
            if not own[0]:
                self.give_back(descriptor)
            connection = connections.get(descriptor)
            if connection is not None:
                turn.connection = connection
                is_kept = self.serve_kept(connection, buffer)
                if not own[0]:
                    leave(self.channel)  # forked by a finalizer of the application
                if is_kept:
                    self.resume(turn, descriptor)
                else:
                    self.end_kept(turn)
            elif descriptor == control:
                return
            elif descriptor == main:
                self.serve_next(turn, self.main_listener)
            else:
                self.keep_next(turn, self.kept_listener)

    def resume(self, turn, descriptor):
        """Let threads wait for the descriptor again."""
        if self.events != EPOLLIN:
            turn.put_back(self.poller.modify, descriptor, self.events)
        else:
            turn.end()

    def end_kept(self, turn):
        """End the kept connection of the turn, also after an exception has interrupted its end."""
        if turn.is_holding():
            connection, descriptor = turn.connection, turn.hand[0][0][0]
            # Another connection may have its number, once this one is closed.
            if self.kept.get(descriptor) is connection:
                try:
                    self.poller.unregister(descriptor)
                except (OSError, ValueError):
                    pass
                del self.kept[descriptor]
            connection.close()
            turn.end()

    def give_back(self, descriptor):
        """Leave, in a child of a C library that a signal handler has forked within the wait. The event is the parent's."""
        if descriptor in self.kept or descriptor in (self.main_listener.fileno(), self.kept_listener.fileno()):
            try:
                if self.events != EPOLLIN:
                    self.poller.modify(descriptor, self.events)
            except (OSError, ValueError):
                pass  # the parent has closed it, or this child has
        leave(self.channel)

    def accept(self, turn, listener):
        try:
            conn = listener.accept()[0]
            return conn if self.library is None else self.library.adopt(conn)
        except BlockingIOError:
            pass
        except OSError as error:
            self.channel.log(f"wsgi-server: cannot accept a connection: {error}\n")
            time.sleep(0.1)  # the process is probably out of descriptors: do not spin
        finally:
            self.resume(turn, listener)
        return None

    def keep_next(self, turn, listener):
        conn = self.accept(turn, listener)
        if conn is not None:
            descriptor = conn.fileno()
            try:
                self.kept[descriptor] = Kept(conn)
                self.poller.register(conn, self.events)
            except BaseException:
                self.kept.pop(descriptor, None)
                conn.close()
                raise

    def serve_next(self, turn, listener):
        conn = self.accept(turn, listener)
        if conn is not None:
            self.sessions.add(conn)
            try:
                self.serve(conn)
            finally:
                self.sessions.discard(conn)
                conn.close()
            if not own[0]:
                leave(self.channel)

    def serve(self, conn):
        """Serve the request of a connection in the session protocol."""
        try:
            block = read_head(conn)
            if block is None:
                return
            environ = make_environ(block, self.channel.is_password)
            del block  # with the password
            if environ["REQUEST_METHOD"] == "PING":
                conn.sendall(b"pong")
                conn.shutdown(socket.SHUT_WR)
                drain(conn)
                return
            body = SessionBody(conn, content_length(environ))
            environ["wsgi.input"] = io.BufferedReader(body, BUFFER)
        except (OSError, ValueError) as error:
            self.channel.log(f"wsgi-server: refused a connection: {error}\n")
            return
        response = SessionResponse(conn, environ["REQUEST_METHOD"] == "HEAD")
        response.input, response.body = environ["wsgi.input"], body
        self.answer(environ, response)
        if response.ended and own[0]:
            drain(conn)

    def serve_kept(self, kept, buffer):
        """Serve the next request of a kept connection. Return whether to keep the connection.

        The buffer is the thread's, and empty again when the application is called: a page for exceptions shows the variables
        of each frame, and the head has the password.
        """
        try:
            count = received = kept.conn.recv_into(buffer, BUFFER, DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not count:
            return False
        data = buffer
        if kept.unread is not None:
            data = kept.discard(buffer[:count])
            if kept.unread is not None or not data:
                return True
            count = len(data)
        try:
            end = 4 + checked_size(data) if count >= 4 else BUFFER
            if count < end:
                data, end = kept.receive_head(data[:count])
                count = len(data)
            environ = make_environ(data[4:end - 1], self.channel.is_password)
        except (OSError, ValueError) as error:
            self.channel.log(f"wsgi-server: refused a connection: {error}\n")
            buffer[:received] = bytes(received)
            return False

        behind = count - end
        body, response = None, KeptResponse(kept, environ["REQUEST_METHOD"] == "HEAD")
        if behind >= 4 and data[count - 4:count] == END_OF_REQUEST and (
                behind == 4 or behind > 8 and U32.unpack_from(data, end)[0] == behind - 8):
            # Nothing, or one frame with the whole body.
            response.input = io.BytesIO(data[end + 4:count - 4])
        else:
            frames = Frames(bytes(data[end:count]))
            body = response.body = KeptBody(kept.conn, frames)
            response.input = io.BufferedReader(body, BUFFER)
        buffer[:received] = bytes(received)
        del data
        environ["wsgi.input"] = response.input
        is_done = self.answer(environ, response) and not kept.is_torn
        response.conn = None  # the application may keep the response
        if body is not None and is_done:
            if body.is_torn:
                return False
            kept.unread = frames
            # The server waits for the end of the answer before it sends the next request.
            return not kept.discard(b"") or kept.unread is not None
        return is_done

    def answer(self, environ, response):
        """Let the application answer, and end the request. Return whether the answer was ended."""
        if not own[0]:
            leave(self.channel)  # forked by a finalizer of the application
        try:
            result = self.application(environ, response.start)
            if not own[0]:
                leave(self.channel)
            response.send_body(result)
            response.finish()
            return True
        except BaseException as error:  # sys.exit() in a request fails that request, and does not end the process
            if not own[0]:
                leave(self.channel, error)
            kind = type(error)  # `isinstance` would ask its `__class__`, which may be wrong, or raise
            if issubclass(kind, self.channel.Terminated):
                raise
            if not issubclass(kind, ClientGone):
                return self.fail(response, error)
            return False
        finally:
            if not response.closed:
                response.close()

    def fail(self, response, error):
        """Answer for an application that has failed. Return whether the answer was ended."""
        self.channel.log_error(error)
        if not own[0]:
            leave(self.channel)  # forked by the exception, which has described itself
        try:
            response.fail()
            if response.ended:
                response.finish()
                return True
            response.abort()
        except ClientGone:
            pass
        return False
