"""A worker for jobs: it loads once, and then does one job a connection.

The program that starts it performs the handshake over standard input and output. The end of standard input is the request to leave.
"""

import os
import socket
import tempfile
import threading

channel = socket.socket(fileno=0)
protocol = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what a job prints belongs to the log

lines = channel.makefile("r")
protocol.write("!> I have control 1.0\n")
assert lines.readline() == "You have control 1.0\n"
keys = dict(line.rstrip("\n").split(": ", 1) for line in iter(lines.readline, "\n"))

path = os.path.join(tempfile.mkdtemp(dir=keys["generation_dir"] + "/backends"), "jobs")
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
protocol.write(f"!> Ready\n!> socket: main;unix:{path};session;1\n!> \n")


def work():
    while True:
        job, _ = listener.accept()
        with job, job.makefile("rw") as stream:
            try:
                number = int(stream.readline())
                stream.write(f"the sum of its divisors is {sum(n for n in range(1, number) if number % n == 0)}\n")
            except ValueError as error:
                stream.write(f"{error}\n")


threading.Thread(target=work, daemon=True).start()
channel.recv(1)  # returns when the pool shuts the worker down, or has gone
os.unlink(path)
os.rmdir(os.path.dirname(path))
