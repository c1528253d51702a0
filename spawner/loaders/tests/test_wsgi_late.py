"""The objects of a request that a WSGI application keeps are of no use after the answer, in any thread."""

import os
import unittest

from common import WsgiLoader
from driver import KeptConnection, frame, head, session

# Threads report by the file `report` of the application's directory, one line each.
REPORT = """
import os, signal, threading, time
def report(line):
    with open("report", "a") as file: file.write(line + "\\n")
def attempt(name, call):
    try: report(f"{name}: {call()!r}")
    except BaseException as error: report(f"{name}: {type(error).__name__}")
def answer(environ, start_response):
    start_response("200 OK", [])
    return [environ["QUERY_STRING"].encode()]
"""


# Exceptions with attributes that are wrong, or raise.
LIAR_NAMES = ("class that raises", "class that exits", "class of an end", "text", "cause", "cause that exits", "traceback", "notes")
LIARS = """
import sys
def fails(*_): raise KeyError("a liar")
def exits(*_): raise SystemExit(3)
def terminated(_): return getattr(sys.modules["__main__"], "Terminated")
def liar(**names): return type("liar", (Exception,), names)
liars = {
    "class that raises": liar(__class__=property(fails)),
    "class that exits": liar(__class__=property(exits)),
    "class of an end": liar(__class__=property(terminated)),
    "text": liar(__str__=fails, __repr__=fails),
    "cause": liar(__cause__=property(fails), __context__=property(fails)),
    "cause that exits": liar(__cause__=property(exits)),
    "traceback": liar(__traceback__=property(fails)),
    "notes": liar(__notes__=property(exits)),
}
"""


class WsgiLate(WsgiLoader):
    def late(self, source, **options):
        loader = self.app(REPORT.replace("\n", "\n            ") + source, **options)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        return loader, connection

    def reports(self, loader, count=1):
        path = os.path.join(loader.app_root, "report")

        def lines():
            if not os.path.exists(path):
                return []
            with open(path) as file:
                return file.read().splitlines()

        self.eventually(lambda: len(lines()) >= count)
        return lines()

    def asks(self, connection, *marks):
        """Check that the connection answers more requests, each with its own bytes."""
        for mark in marks:
            connection.send(mark.encode() * 3000, pieces=2, PATH_INFO="/plain", QUERY_STRING=mark)
            self.assertEqual(connection.answer().body, mark.encode())

    def test_a_thread_that_waits_for_the_body_gets_an_error_when_the_answer_ends(self):
        for threads in ("1", "2"):
            with self.subTest(threads=threads):
                loader, connection = self.late("""
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/late":
                    stream = environ["wsgi.input"]
                    waits = threading.Event()
                    def read():
                        waits.set()
                        attempt("late", stream.read)
                        attempt("later", stream.read)
                    threading.Thread(target=read).start()
                    waits.wait()
                    time.sleep(0.1)  # the thread is in the system's wait
                return answer(environ, start_response)
                """, app_threads=threads)
                connection.conn.sendall(head(PATH_INFO="/late", QUERY_STRING="alice") + frame(b"alice"))
                self.assertEqual(connection.answer().body, b"alice")
                # Without a further byte on the connection.
                first, second = self.reports(loader, 2)
                self.assertEqual(first, "late: ClientGone")
                self.assertIn(second, ("later: ClientGone", "later: ValueError"))  # before or after the close
                connection.conn.sendall(frame(b"alice") + frame(b""))
                self.asks(connection, "bob", "carol")

    def test_a_reader_whose_socket_always_waits_holds_up_no_answer(self):
        """Sockets that gevent has patched wait in spite of MSG_DONTWAIT, here under the lock of the input."""
        for protocol in ("kept_session", "session"):
            loader, other = self.late("""
            class Waiting:
                def __init__(self, conn): self.conn = conn
                def recv(self, size, flags=0): return self.conn.recv(size)
                def recv_into(self, buffer, size, flags=0): return self.conn.recv_into(buffer, size)
                def __getattr__(self, name): return getattr(self.conn, name)
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/late":
                    stream = environ["wsgi.input"]
                    stream.raw.conn = Waiting(stream.raw.conn)
                    threading.Thread(target=attempt, args=("late", stream.read)).start()
                    time.sleep(0.1)  # the thread is in the system's wait
                return answer(environ, start_response)
            """)
            with loader.connect(protocol) as conn:
                variables = {"PATH_INFO": "/late", "QUERY_STRING": "alice"}
                if protocol == "session":
                    conn.sendall(head(CONTENT_LENGTH="10", **variables) + b"part")
                else:
                    conn.sendall(head(**variables) + frame(b"part"))
                data = b"".join(iter(lambda: conn.recv(1 << 16), b""))  # the connection ends, because of bytes that the reader has taken
            # The connection takes no further request.
            self.assertIn(b"alice" + b"A\0\0\0" * (protocol == "kept_session"), data)
            self.assertEqual(self.reports(loader), ["late: ClientGone"])
            self.asks(other, "bob")

    def test_threads_that_go_on_reading_never_get_a_byte_of_the_next_request(self):
        loader, connection = self.late("""
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/late":
                    stream = environ["wsgi.input"]
                    def read():
                        try:
                            while True:
                                data = stream.raw.read(100)
                                if data.strip(b"a"): report(f"LEAK {data!r}")
                        except OSError: report("end")
                    for _ in range(2): threading.Thread(target=read).start()
                return answer(environ, start_response)
        """)
        rounds = 300
        for number in range(rounds):
            connection.conn.sendall(head(PATH_INFO="/late", QUERY_STRING="a", REQUEST_METHOD="POST") + frame(b"a" * 500))
            self.assertEqual(connection.answer().body, b"a")
            connection.conn.sendall(frame(b"a" * number) + frame(b"") if number else frame(b""))
            self.asks(connection, "secret")
        self.assertEqual(set(self.reports(loader, 2 * rounds)), {"end"})

    def test_a_body_that_has_come_as_a_whole_ends_with_the_answer_too(self):
        loader, connection = self.late("""
            kept = []
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/keep":
                    kept.append(environ["wsgi.input"])
                    if environ["QUERY_STRING"] == "view": kept.append(environ["wsgi.input"].getbuffer())
                elif kept:
                    for stream in kept[:1]:
                        attempt("read", stream.read)
                        attempt("line", stream.readline)
                        attempt("iteration", lambda: list(stream))
                return answer(environ, start_response)
        """)
        connection.send(b"alice's", PATH_INFO="/keep", QUERY_STRING="alice")
        self.assertEqual(connection.answer().body, b"alice")
        self.asks(connection, "bob")
        self.assertEqual(self.reports(loader, 3), ["read: ValueError", "line: ValueError", "iteration: ValueError"])
        connection.send(b"alice's", PATH_INFO="/keep", QUERY_STRING="view")
        self.assertEqual(connection.answer().body, b"view")
        self.asks(connection, "bob")

    def test_a_whole_body_of_which_the_application_holds_a_view_yields_its_own_bytes(self):
        loader, connection = self.late("""
            kept = []
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/keep":
                    kept.extend((environ["wsgi.input"], environ["wsgi.input"].getbuffer()))
                elif kept:
                    attempt("read", kept[0].read)
                    report(f"view: {bytes(kept.pop())!r}")
                    kept[0].close()
                    attempt("closed", kept.pop().read)
                return answer(environ, start_response)
        """)
        connection.send(b"alice's", PATH_INFO="/keep", QUERY_STRING="alice")
        self.assertEqual(connection.answer().body, b"alice")
        self.asks(connection, "bob", "carol")
        self.assertEqual(self.reports(loader, 3), ["read: b\"alice's\"", "view: b\"alice's\"", "closed: ValueError"])

    def test_write_and_start_response_send_nothing_after_the_answer(self):
        loader, connection = self.late("""
            kept = []
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/keep":
                    kept.append(start_response)
                    kept.append(start_response("200 OK", []))
                    return [b"alice"] if environ["QUERY_STRING"] == "list" else iter([b"ali", b"ce"])
                while kept:
                    start, write = kept.pop(0), kept.pop(0)
                    attempt("write", lambda: write(b"alice again"))
                    attempt("start", lambda: start("500 Oh", []))
                    try: 1 / 0
                    except ZeroDivisionError as error: attempt("error", lambda: start("500 Oh", [], (type(error), error, None)))
                return answer(environ, start_response)
        """)
        for kind in ("list", "iterator"):
            connection.send(PATH_INFO="/keep", QUERY_STRING=kind)
            self.assertEqual(connection.answer().body, b"alice")
            self.asks(connection, "bob")
        self.assertEqual(self.reports(loader, 6),
                         2 * ["write: RuntimeError", "start: RuntimeError", "error: ZeroDivisionError"])

    def test_a_write_in_progress_at_the_end_belongs_to_the_answer(self):
        loader, connection = self.late("""
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/late":
                    write = start_response("200 OK", [])
                    write(b"alice")
                    begins = threading.Event()
                    def go_on():
                        begins.set()
                        attempt("late", lambda: write(b"a" * 20_000_000))
                    threading.Thread(target=go_on).start()
                    begins.wait()
                    time.sleep(0.1)  # the socket's buffer is full
                    return []
                return answer(environ, start_response)
        """)
        connection.send(PATH_INFO="/late")
        self.assertEqual(connection.answer().body, b"alice" + b"a" * 20_000_000)
        self.assertEqual(self.reports(loader), ["late: None"])
        self.asks(connection, "bob")

    def test_the_answer_after_an_exception_within_a_read_is_the_last(self):
        """Bytes of the body may be lost. The server learns of it with the answer: it sends no request that would meet the end."""
        loader, connection = self.late("""
            def ring(*_): raise TimeoutError
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/plain": return answer(environ, start_response)
                signal.signal(signal.SIGALRM, ring)
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                attempt("read", lambda: environ["wsgi.input"].read())
                start_response("200 OK", [])
                return [b"too late"] if environ["PATH_INFO"] == "/whole" else iter([b"too ", b"late"])
        """)
        for path in ("/whole", "/parts"):
            with self.subTest(path):
                connection = KeptConnection(loader)
                self.addCleanup(connection.close)
                connection.conn.sendall(head(PATH_INFO=path) + frame(b"part"))
                self.assertEqual(self.reports(loader), ["read: TimeoutError"])
                data = b"".join(iter(lambda: connection.conn.recv(1 << 16), b""))
                self.assertTrue(data.endswith(b"late" + b"A\0\0\0"), data)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        self.asks(connection, "bob")

    def test_an_exception_within_a_write_ends_the_connection(self):
        loader, connection = self.late("""
            def ring(*_): raise TimeoutError
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/torn":
                    signal.signal(signal.SIGALRM, ring)
                    write = start_response("200 OK", [])
                    signal.setitimer(signal.ITIMER_REAL, 0.5)
                    attempt("write", lambda: write(b"a" * 20_000_000))
                    attempt("again", lambda: write(b"b"))
                    return []
                return answer(environ, start_response)
        """)
        connection.send(PATH_INFO="/torn")
        self.assertEqual(self.reports(loader, 2), ["write: TimeoutError", "again: ClientGone"])
        data = bytearray()
        for part in iter(lambda: connection.conn.recv(1 << 16), b""):
            data += part
        self.assertNotIn(b"b", data[100:])
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        self.asks(connection, "bob")

    def test_an_exception_between_the_parts_of_a_write_ends_the_connection(self):
        """A second answer would stand in the open frame of the first one, or behind its head."""
        loader, connection = self.late("""
            import sys
            class Late(Exception): pass
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/plain": return answer(environ, start_response)
                name, event, left, size = environ["QUERY_STRING"].split("-")
                left = [int(left)]
                def tracer(frame, happened, argument):
                    if frame.f_code.co_name == name and happened == event:
                        left[0] -= 1
                        if not left[0]:
                            sys.settrace(None)
                            raise Late
                    return tracer
                write = start_response("200 OK", [])
                body = b"a" * int(size)
                sys.settrace(tracer)
                write(body)
        """)
        # Before the bytes of a frame (twice), before the header and the bytes of a second frame, and after a small part.
        for query in ("put-call-2-300000", "send-return-1-300000", "put-call-3-17000000", "put-call-4-17000000", "send-return-1-5"):
            with self.subTest(query):
                connection = KeptConnection(loader)
                self.addCleanup(connection.close)
                connection.send(QUERY_STRING=query, PATH_INFO="/torn")
                data = b"".join(iter(lambda: connection.conn.recv(1 << 16), b""))
                self.assertEqual(data.count(b"Status:"), 1)
                self.assertNotIn(b"failed to answer", data)
                self.assertNotIn(b"E\0\0\0", data)
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        self.asks(connection, "bob")

    def test_an_exception_within_a_write_of_the_session_protocol(self):
        loader, connection = self.late("""
            def ring(*_): raise TimeoutError
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/plain": return answer(environ, start_response)
                signal.signal(signal.SIGALRM, ring)
                write = start_response("200 OK", [])
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                attempt("write", lambda: write(b"a" * 20_000_000))
                if environ["PATH_INFO"] == "/raise": raise KeyError
                attempt("again", lambda: write(b"b"))
                return []
        """)
        for number, (path, count) in enumerate((("/raise", 1), ("/again", 3))):
            with self.subTest(path), loader.connect("session") as conn:
                conn.sendall(head(PATH_INFO=path))
                self.assertEqual(self.reports(loader, count)[-1], ("write: TimeoutError", "again: ClientGone")[number])
                data = bytearray()
                with self.assertRaises(ConnectionResetError):  # not the end of a complete answer
                    while part := conn.recv(1 << 16):
                        data += part
                self.assertEqual(data[30:].strip(b"a"), b"")
        self.asks(connection, "bob")

    def test_an_exception_within_a_read_is_no_reason_to_wait_for_more(self):
        loader, connection = self.late("""
            def ring(*_): raise TimeoutError
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/torn":
                    signal.signal(signal.SIGALRM, ring)
                    signal.setitimer(signal.ITIMER_REAL, 0.5)
                    attempt("read", environ["wsgi.input"].read)
                return answer(environ, start_response)
        """)
        connection.conn.sendall(head(PATH_INFO="/torn", QUERY_STRING="alice") + frame(b"part"))
        self.assertEqual(connection.answer().body, b"alice")
        self.assertEqual(self.reports(loader), ["read: TimeoutError"])
        # It is unknown which bytes the read has taken: the connection ends.
        self.assertIsNone(connection.frame())
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        self.asks(connection, "bob")

    def test_an_exception_at_any_moment_leaves_no_client_without_an_end(self):
        source = """
            import random
            class Late(Exception): pass
            def ring(*_): raise Late
            signal.signal(signal.SIGALRM, ring)
            def application(environ, start_response):
                start_response("200 OK", [])
                try:
                    mark = environ["QUERY_STRING"].encode()
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.000002, 0.00008))
                    return [mark] if environ["PATH_INFO"] == "/list" else iter([mark])
                except Late: return [b"late"]
        """
        loader, connection = self.late(source)
        whole = 0
        for number in range(400):
            mark = f"mark{number}x"
            try:
                connection.send(PATH_INFO=("/list", "/iterator")[number % 2], QUERY_STRING=mark)
                answer = connection.answer()  # a time-out is no ConnectionError
            except (ConnectionError, AssertionError, IndexError):
                answer = None  # the connection ended, perhaps with the process
            if answer is not None and not answer.cut:
                self.assertTrue(answer.body in (mark.encode(), b"late") or "500" in answer.status, answer.raw)
                whole += 1
                continue
            connection.close()
            connection = KeptConnection(loader)
        connection.close()
        self.assertGreater(whole, 100)
        self.assertIsNone(loader.process.poll())

    IDLE = """
            import ctypes
            class Late(Exception): pass
            kinds = {"timeout": TimeoutError, "value": ValueError, "late": Late, "interrupt": KeyboardInterrupt, "exit": SystemExit}
            def application(environ, start_response):
                kind = kinds.get(environ["QUERY_STRING"])
                thread = threading.get_ident()
                if environ["PATH_INFO"] == "/ring":
                    def ring(*_): raise kind
                    signal.signal(signal.SIGALRM, ring)
                    signal.setitimer(signal.ITIMER_REAL, 0.5)
                if environ["PATH_INFO"] == "/late":
                    def strike():
                        time.sleep(0.05)  # the thread is in the system's wait
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
                        report(environ["QUERY_STRING"])
                    threading.Thread(target=strike).start()
                if environ["PATH_INFO"] == "/meet": meet.wait(5)
                return answer(environ, start_response)
            meet = threading.Barrier(2)
    """

    def idle_loaders(self):
        """Yield a loader with one thread and one with two, each with two connections."""
        for threads in ("1", "2"):
            loader, connection = self.late(self.IDLE, app_threads=threads)
            other = KeptConnection(loader)
            self.addCleanup(other.close)
            yield threads, loader, connection, other

    def test_an_exception_of_a_signal_between_two_requests(self):
        for threads, loader, connection, other in self.idle_loaders():
            for number, kind in enumerate(("timeout", "value", "late", "interrupt"), 1):
                with self.subTest(kind, threads=threads):
                    # With two threads, one that does not serve the main thread's signals cannot set their handler.
                    while True:
                        connection.send(PATH_INFO="/ring", QUERY_STRING=kind)
                        if connection.answer().body == kind.encode():
                            break
                    self.eventually(lambda: loader.read_stderr().count(", in ring\n") == number)
                    for one in (connection, other):
                        self.asks(one, "bob")
                    self.assertEqual(session(loader, PATH_INFO="/plain", QUERY_STRING="carol").body, b"carol")
            if threads == "2":
                self.meets(connection, other)
            self.assertIsNone(loader.process.poll())
            loader.channel.sendall(b"x")
            self.check_exit(loader)

    def test_an_exception_of_a_signal_while_the_thread_lets_others_wait(self):
        """It is not taken for the error of a closed socket."""
        loader, connection = self.late("""
            import gc, signal, threading, time

            class Interrupted:
                def __init__(self, poller):
                    self.poller, self.exceptions = poller, [OSError("another error")]

                def __getattr__(self, name):
                    return getattr(self.poller, name)

                def modify(self, *arguments):
                    if self.exceptions:
                        raise self.exceptions.pop()
                    return self.poller.modify(*arguments)

            def ring(*_):
                raise ValueError("late error")

            def application(environ, start_response):
                if environ["PATH_INFO"] == "/ring":
                    signal.signal(signal.SIGALRM, ring)
                    server = next(one for one in gc.get_objects() if hasattr(type(one), "take_turns"))
                    server.poller = Interrupted(server.poller)
                    signal.setitimer(signal.ITIMER_REAL, 0.1)
                start_response("200 OK", [])
                return [b"bob"]
        """)
        connection.send(PATH_INFO="/ring")
        self.assertEqual(connection.answer().body, b"bob")
        self.eventually(lambda: "late error" in loader.read_stderr())
        self.assertEqual(session(loader).body, b"bob")
        self.assertNotIn("another error", loader.read_stderr())
        self.assertIsNone(loader.process.poll())

    def meets(self, *connections):
        """Check that there is a thread for each connection."""
        for one in connections:
            one.send(PATH_INFO="/meet", QUERY_STRING="met")
        for one in connections:
            self.assertEqual(one.answer().body, b"met")

    def test_an_exit_of_a_signal_between_two_requests_ends_the_process(self):
        loader, connection = self.late(self.IDLE)
        connection.send(PATH_INFO="/ring", QUERY_STRING="exit")
        self.assertEqual(connection.answer().body, b"exit")
        self.check_exit(loader)

    def test_an_exception_for_a_thread_that_waits_for_a_request(self):
        """It comes when the wait ends, which is with the next request."""
        for threads, loader, connection, other in self.idle_loaders():
            for number, kind in enumerate(("timeout", "value", "late", "interrupt"), 1):
                with self.subTest(kind, threads=threads):
                    connection.send(PATH_INFO="/late", QUERY_STRING=kind)
                    self.assertEqual(connection.answer().body, kind.encode())
                    self.reports(loader, number)
                    if threads == "2":
                        self.meets(connection, other)
                    for _ in range(3):
                        for one in (connection, other):
                            self.asks(one, "bob")
                        self.assertEqual(session(loader, PATH_INFO="/plain", QUERY_STRING="carol").body, b"carol")
            self.assertEqual(loader.read_stderr().count("Traceback"), 4)
            self.assertIsNone(loader.process.poll())

    def test_a_runtime_error_that_interrupts_the_end_of_the_input_ends_the_connection(self):
        loader, connection = self.late("""
            import sys
            class Late(RuntimeError): pass
            def tracer(frame, event, arg):
                if frame.f_code.co_name == "end" and "readinto" in dir(frame.f_locals.get("self")):
                    sys.settrace(None)
                    raise Late
            def application(environ, start_response):
                start_response("200 OK", [])
                sys.settrace(tracer)
                return [b"own"]
        """)
        connection.conn.sendall(head(REQUEST_METHOD="POST") + frame(b"half"))  # the rest of the body has not come
        self.assertIsNone(connection.frame())

    def test_a_handler_of_a_signal_may_write_within_a_write(self):
        loader, connection = self.late("""
            def application(environ, start_response):
                if environ["PATH_INFO"] != "/ring": return answer(environ, start_response)
                write = start_response("200 OK", [])
                signal.signal(signal.SIGALRM, lambda *_: write(b"."))
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                attempt("write", lambda: write(b"x" * 20_000_000))
                return []
        """)
        connection.send(PATH_INFO="/ring")
        self.assertEqual(self.reports(loader), ["write: ClientGone"])
        connection = KeptConnection(loader)
        self.addCleanup(connection.close)
        self.asks(connection, "bob")

    def test_the_objects_of_a_request_hold_nothing_of_the_next(self):
        loader, connection = self.late("""
            kept = []
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/keep":
                    kept.extend((environ["wsgi.input"].raw, start_response.__self__))
                elif kept:
                    import gc
                    held, seen = list(kept), set()
                    while held:
                        one = held.pop()
                        if id(one) in seen or isinstance(one, type) or type(one).__module__ in ("builtins", "threading", "_thread") \
                                and not isinstance(one, (bytes, bytearray, tuple, list, dict)): continue
                        seen.add(id(one))
                        if isinstance(one, (bytes, bytearray)) and b"secret" in one: report("LEAK")
                        held += [getattr(one, name, None) for name in getattr(type(one), "__slots__", ())] + list(getattr(one, "__dict__", {}).values())
                    report("looked")
                return answer(environ, start_response)
        """)
        connection.conn.sendall(head(PATH_INFO="/keep", QUERY_STRING="alice") + frame(b"part"))
        self.assertEqual(connection.answer().body, b"alice")
        connection.conn.sendall(frame(b"") + head(HTTP_COOKIE="secret", QUERY_STRING="bob") + frame(b""))
        self.assertEqual(connection.answer().body, b"bob")
        self.assertEqual(self.reports(loader), ["looked"])

    def test_a_detached_input_and_a_body_of_a_wrong_length_harm_no_one(self):
        loader, connection = self.late("""
            class Liar(bytes):
                def __len__(self): return 2
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/detach": environ["wsgi.input"].detach()
                if environ["PATH_INFO"] == "/liar":
                    start_response("200 OK", [])
                    return [Liar(b"alice")]
                if environ["PATH_INFO"] == "/liars":
                    write = start_response("200 OK", [])
                    write(Liar(b"ali"))
                    return [Liar(b"ce"), b""]
                return answer(environ, start_response)
        """)
        for path in ("/liar", "/liars", "/detach"):
            connection.send(b"x" * 1000, pieces=2, PATH_INFO=path, QUERY_STRING="alice")
            got = connection.answer()
            if path != "/liar":
                self.assertEqual(got.body, b"alice", path)
            self.asks(connection, "bob")

    def test_the_body_is_left_alone_after_its_end(self):
        loader, connection = self.late("""
            kept = []
            class Body:
                def __init__(self): self.rest, self.is_closed = iter((b"al", b"ice")), False
                def __iter__(self): return self
                def __next__(self):
                    if self.is_closed: report("read after close")
                    return next(self.rest)
                def close(self):
                    if self.is_closed: report("closed twice")
                    self.is_closed = True
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/keep":
                    kept.append(Body())
                    start_response("200 OK", [])
                    return kept[0]
                attempt("rest", lambda: (list(kept[0].rest), kept[0].is_closed))
                return answer(environ, start_response)
        """)
        connection.send(PATH_INFO="/keep")
        self.assertEqual(connection.answer().body, b"alice")
        self.asks(connection, "bob")
        self.assertEqual(self.reports(loader), ["rest: ([], True)"])

    def test_the_state_of_a_thread_stays(self):
        """Frameworks keep connections there: see docs/kept-sessions.md."""
        loader, connection = self.late("""
            import contextvars, sys, threading
            variable, local = contextvars.ContextVar("variable", default="none"), threading.local()
            def application(environ, start_response):
                print(variable.get(), getattr(local, "value", "none"), file=sys.stderr, flush=True)
                variable.set(environ["QUERY_STRING"])
                local.value = environ["QUERY_STRING"]
                return answer(environ, start_response)
        """)
        self.asks(connection, "alice", "bob")
        self.assertEqual(loader.read_stderr(), "none none\nalice alice\n")

    def test_no_connection_stands_in_for_a_stream_that_was_closed(self):
        source = """
            import os
            def application(environ, start_response):
                for number in range(3):
                    if environ["PATH_INFO"] == "/close":
                        os.close(number)
                    elif environ["PATH_INFO"] == "/write":
                        try: os.write(number, b"of alice")
                        except OSError: pass
                return answer(environ, start_response)
        """
        for threads in ("1", "2"):
            loader, connection = self.late(source, app_threads=threads)
            connection.send(PATH_INFO="/close", QUERY_STRING="closed")
            self.assertEqual(connection.answer().body, b"closed")
            others = [KeptConnection(loader) for _ in range(4)]
            for other in others:
                self.addCleanup(other.close)
                other.send(PATH_INFO="/write", QUERY_STRING="wrote")
                self.assertEqual(other.answer().body, b"wrote")
            for other in others:
                self.asks(other, "bob")

    def test_the_error_stream_stays(self):
        loader, connection = self.late("""
            kept = []
            def application(environ, start_response):
                kept.append(environ["wsgi.errors"])
                kept[0].write(f"for {environ['QUERY_STRING']}\\n")
                kept[0].flush()
                return answer(environ, start_response)
        """)
        self.asks(connection, "alice", "bob")
        self.assertEqual(loader.read_stderr(), "for alice\nfor bob\n")

    def test_the_session_protocol_has_the_same_rules(self):
        loader, connection = self.late("""
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/late":
                    stream, write = environ["wsgi.input"], start_response("200 OK", [])
                    def use():
                        attempt("late", stream.read)
                        attempt("write", lambda: write(b"late"))
                    threading.Thread(target=use).start()
                    time.sleep(0.1)
                    return [b"alice"]
                return answer(environ, start_response)
        """)
        with loader.connect("session") as conn:
            conn.sendall(head(PATH_INFO="/late", CONTENT_LENGTH="10") + b"part")
            data = b"".join(iter(lambda: conn.recv(1 << 16), b""))
        self.assertTrue(data.endswith(b"\r\n\r\nalice"), data)
        self.assertEqual(self.reports(loader, 2), ["late: ClientGone", "write: RuntimeError"])
        self.asks(connection, "bob")

    def test_exceptions_that_are_not_what_they_seem(self):
        """An exception of the application fails its own request, whatever its attributes are, and those of its class."""
        for threads in ("1", "2"):
            loader, connection = self.late(LIARS.replace("\n", "\n            ") + """
            def application(environ, start_response):
                name = environ["QUERY_STRING"]
                if environ["PATH_INFO"] == "/fork":
                    child = os.fork()
                    if not child: raise liars[name]()
                    return answer({"QUERY_STRING": str(os.waitpid(child, 0)[1] >> 8)}, start_response)
                if environ["PATH_INFO"] == "/close":
                    class Body(list):
                        def close(self): raise liars[name]()
                    start_response("200 OK", [])
                    return Body([b"body"])
                if environ["PATH_INFO"] == "/lie": raise liars[name]()
                return answer(environ, start_response)
            """, app_threads=threads)
            for name in LIAR_NAMES:
                with self.subTest(name, threads=threads):
                    connection.send(PATH_INFO="/lie", QUERY_STRING=name)
                    self.assertEqual(connection.answer().status, "Status: 500 Internal Server Error")
                    self.asks(connection, "bob")
                    connection.send(PATH_INFO="/close", QUERY_STRING=name)
                    self.assertEqual(connection.answer().body, b"body")
                    self.asks(connection, "bob")
                    connection.send(PATH_INFO="/fork", QUERY_STRING=name)
                    self.assertEqual(connection.answer().body, b"1")
            self.assertIsNone(loader.process.poll())
            self.assertIn("an error that cannot be shown: <class", loader.read_stderr())

    def test_an_exception_that_cannot_be_shown_in_the_startup_file(self):
        for name in LIAR_NAMES:
            with self.subTest(name):
                loader = self.app(LIARS.replace("\n", "\n            ") + f"""
            raise liars["{name}"]()
                """)
                self.assertIn("liar", loader.error)

    def test_errors_that_cannot_be_written(self):
        loader, connection = self.late("""
            import sys
            def application(environ, start_response):
                if environ["PATH_INFO"] == "/closed":
                    sys.stderr.close()
                    raise KeyError("nowhere to go")
                return answer(environ, start_response)
        """)
        connection.send(PATH_INFO="/closed")
        self.assertEqual(connection.answer().status, "Status: 500 Internal Server Error")
        self.asks(connection, "bob")


if __name__ == "__main__":
    unittest.main()
