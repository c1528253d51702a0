"""No mark of one client reaches the other (marks.py), in each language whose application is here.

    python3 spawner/loaders/tests -p test_marks.py
    CABRANK_MARKS=100000 CABRANK_SEED=7 python3 spawner/loaders/tests -p test_marks.py    a long run
"""

from common import AsgiLoader, NodeLoader
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
                if step == "whole" and len(mark) % 2:  # complete for the client, and ended later
                    await send({"type": "http.response.body", "body": text, "more_body": True})
                    await asyncio.sleep(0.001)
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


class NodeMarks(NodeLoader, Marks):
    """Node has no fork. The steps of that name write to the socket, or read it."""

    APP = r"""
        const fs = require('fs');
        const http = require('http');
        const log = fs.openSync('seen', 'a');
        const saw = (mark, what) => fs.writeSync(log, `${mark} ${String(what).replace(/[\r\n]/g, ' ').slice(0, 300)}\n`);
        const pause = (ms) => new Promise((done) => setTimeout(done, ms));

        async function run(q, s) {
          const mark = q.url.slice(1);
          const own = q.url + q.headers.cookie;
          const { socket } = q;
          let body = '';
          s.on('error', (error) => saw(mark, error.code));
          q.on('error', (error) => saw(mark, error.code));
          const read = (once) => new Promise((done) => {
            if (q.readableEnded || q.destroyed) return done();
            q.on('data', (data) => { body += data; saw(mark, data); if (once) done(); });
            q.on('end', done).on('close', done);
          });
          const late = async (step) => {
            await pause(mark.length % 7);
            if (step === 'late-read') await read();
            if (step === 'late-send') {
              s.write(own);
              s.end(own);
              try { s.setHeader('x-late', own); } catch (error) { saw(mark, error.code); }
            }
            if (step === 'fork-send') socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${own.length}\r\n\r\n${own}`);
            if (step === 'fork-late') socket.on('data', (data) => saw(mark, data));
            saw(mark, own);
          };
          for (const step of q.headers['x-plan'].split(',')) {
            if (step === 'read' || step === 'read-some') await read(step === 'read-some');
            else if (step.startsWith('late-') || step.startsWith('fork-')) late(step);
            else if (step === 'fork' || step === 'thread') saw(mark, own);
            else if (step === 'yield') await null;
            else if (step === 'keep') read();
            else if (step === 'raise' || step === 'exit') throw new Error(step);
            else if (step === 'return') return s.destroy();
            else if (step === 'send-again') s.end(own);
            else await answer(step, own + body, s);
          }
        }

        async function answer(step, text, s) {
          const declared = { long: 10, short: text.length + 10, empty: 0, whole: text.length }[step];
          if (s.headersSent) return;
          if (declared !== undefined) s.setHeader('Content-Length', declared);
          if (step === 'parts' || step === 'begin-raise') {
            for (let at = 0; at < text.length; at += 1000) { s.write(text.slice(at, at + 1000)); await null; }
            if (step === 'begin-raise') throw new Error(step);
            text = '';
          }
          s.end(step === 'empty' ? '' : text);
        }

        http.createServer((q, s) => run(q, s).catch(() => {
          if (s.headersSent) return s.destroy();
          s.statusCode = 500;
          s.end();
        })).listen(0);
    """

    def app_with_plans(self):
        return self.app(self.APP)
