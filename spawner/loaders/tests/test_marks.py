"""No mark of one client reaches the other (marks.py), in each language whose application is here.

    python3 spawner/loaders/tests -p test_marks.py
    CABRANK_MARKS=100000 CABRANK_SEED=7 python3 spawner/loaders/tests -p test_marks.py    a long run
"""

from common import AsgiLoader
from marks import Marks


class AsgiMarks(AsgiLoader, Marks):
    APP = r"""
        import asyncio, os, sys, threading
        tasks = set()
        log = os.open("seen", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def saw(mark, what):
            os.write(log, f"{mark} {what}\n".encode())

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                return
            headers = dict(scope["headers"])
            mark, body, whole = scope["path"][1:], [], []
            steps = headers[b"x-plan"].decode().split(",")
            own = scope["raw_path"] + headers[b"cookie"]

            async def read(once=False):
                while not whole:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    body.append(message["body"])
                    saw(mark, message["body"][:200])
                    if not message["more_body"]:
                        whole.append(True)
                    if once:
                        return

            async def late(what):
                for _ in range(len(mark) % 7 * 3):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.002)
                if what == "late-read":
                    await read()
                    return saw(mark, own)
                for message in ({"type": "http.response.start", "status": 200, "headers": [(b"x-late", own)]},
                                {"type": "http.response.body", "body": own, "more_body": True},
                                {"type": "http.response.body", "body": own}):
                    try:
                        await send(message)
                    except (RuntimeError, OSError) as error:
                        saw(mark, error)

            def start(coroutine):
                task = asyncio.create_task(coroutine)
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            async def fork(what):
                if os.fork():
                    return False
                if what == "fork-send":
                    try:
                        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-child", own)]})
                        await send({"type": "http.response.body", "body": own})
                    except (RuntimeError, OSError) as error:
                        saw(mark, error)
                whole.clear()
                await read()
                if what == "fork-late":
                    await asyncio.sleep(0.001)  # back to the loop
                return True

            for step in steps:
                if step in ("read", "read-some"):
                    await read(step == "read-some")
                elif step in ("late-read", "late-send"):
                    start(late(step))
                elif step.startswith("fork"):
                    if await fork(step):
                        return
                elif step == "thread":
                    await asyncio.get_running_loop().run_in_executor(None, saw, mark, own)
                elif step == "yield":
                    await asyncio.sleep(0)
                elif step == "keep":
                    start(read())
                elif step == "raise":
                    raise KeyError
                elif step == "return":
                    return
                elif step == "exit":
                    sys.exit(1)
                else:
                    await answer(step, own + b"".join(body), send)

        async def answer(step, text, send):
            declared = {"long": 10, "short": len(text) + 10, "empty": 0}.get(step, None if step != "whole" else len(text))
            fields = [] if declared is None else [(b"content-length", b"%d" % declared)]
            try:
                await send({"type": "http.response.start", "status": 200, "headers": fields})
                if step in ("parts", "begin-raise"):
                    for at in range(0, len(text), 1000):
                        await send({"type": "http.response.body", "body": text[at:at + 1000], "more_body": True})
                        await asyncio.sleep(0)
                    if step == "begin-raise":
                        raise KeyError
                    text = b""
                await send({"type": "http.response.body", "body": b"" if step == "empty" else text})
                if step == "send-again":
                    await send({"type": "http.response.body", "body": text})
            except RuntimeError:
                pass

        import signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    """

    def app_with_plans(self):
        return self.app(self.APP)
