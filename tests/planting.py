"""Shared by `models/faults.py` and `tests/mutants.py`: a copy of the sources to change, and programs with a time limit.

Needs Python 3.11.
"""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import threading


def copy_sources(root, copy, names):
    """Copies these files and directories, and the manifest with `spec` as its only member."""
    copy.mkdir(parents=True, exist_ok=True)
    for name in names:
        source, target = root / name, copy / name
        if target.is_dir():
            shutil.rmtree(target)
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            shutil.copy2(source, target)
    manifest = (root / "Cargo.toml").read_text()
    lines = ['members = ["spec"]' if line.startswith("members") else line for line in manifest.splitlines()]
    (copy / "Cargo.toml").write_text("\n".join(lines) + "\n")


@dataclasses.dataclass
class Ended:
    """How a program ended."""

    code: int | None  # None: not within its time.
    output: str
    found: re.Match | None  # Where it was stopped early.


def run(command, seconds, stop_at=None, **options):
    """Runs a program and its children until it ends, its time is up, or a line contains `stop_at`."""
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", **options,
    )

    def kill():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    late = threading.Event()
    timer = threading.Timer(seconds, lambda: (late.set(), kill()))
    timer.start()
    output, found = [], None
    for line in process.stdout:
        output.append(line)
        if stop_at and (found := re.search(stop_at, line)):
            break
    timer.cancel()
    if found:
        kill()
    code = process.wait()
    return Ended(None if late.is_set() else code, "".join(output), found)
