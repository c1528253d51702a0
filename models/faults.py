#!/usr/bin/env python3
"""Shows that each model can fail: plants each fault in a copy of the sources, and runs the models that must catch it.

    python3 models/faults.py             every fault
    python3 models/faults.py restart     only faults with this in their name or models
    python3 models/faults.py --why       and the message of each model that fails
    python3 models/faults.py --list      which fault is for which models; plants nothing
    python3 models/faults.py --fit       only whether each fault fits the sources; builds nothing
    python3 models/faults.py --jobs 1    one after the other; the default is two side by side

The faults are in faults.txt beside the models, by the file of src/ that they change. A fault is a name, the models that
must catch it, and the change: code of that file in which [-this is removed-] and {+this is added+}. Line breaks, spaces,
comments and commas before a closing bracket do not count. The code must occur once in its file. With `…`, the part after
it is searched from the place of the part before: `fn get … return` is the first return of `get`.

A model that loom cannot run is run by shuttle. The runner exits with 1 if a model misses its fault, if a fault does not
fit the sources, or if a model has no fault. Needs Python 3.11.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import queue
import re
import shutil
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import planting
COPIED = ["src", "models", "examples", "tests", "spec", "Cargo.lock", "README.md"]
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r\#".*?"\#|b?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|\w+|[^\w\s]""", re.DOTALL
)


@dataclasses.dataclass
class Fault:
    """A change of one file, and the models that must notice it."""

    name: str
    models: list[str]
    file: str
    change: str


class Misfit(Exception):
    """The change of a fault fits no place of its file, or several."""


def read_faults(root=ROOT):
    """Reads every models/*/faults.txt."""
    faults, file = [], None
    for path in sorted((root / "models").rglob("faults.txt")):
        for line in path.read_text().splitlines():
            if line.startswith("src/"):
                file = line.strip()
            elif line.startswith(" "):
                faults[-1].change += line.strip() + " "
            elif line and not line.startswith("#"):
                name, models = line.rsplit(": ", 1)
                faults.append(Fault(name, models.split(", "), file, ""))
    return faults


def tokens_of(source):
    """The tokens of Rust code with their places, without comments and commas before a closing bracket."""
    found = [m for m in TOKEN.finditer(source) if not m[0].startswith(("//", "/*"))]
    after = [m[0] for m in found[1:]] + [""]
    return [m for m, following in zip(found, after) if not (m[0] == "," and following in list(")]}"))]


def parts_of(change):
    """What a change says, part by part: (whether it is removed, added or kept, its code)."""
    for part in re.split(r"(\[-.*?-\]|\{\+.*?\+\})", change, flags=re.DOTALL):
        if part.startswith("[-"):
            yield "removed", part[2:-2].strip()
        elif part.startswith("{+"):
            yield "added", part[2:-2].strip()
        elif part.strip():
            yield "kept", part.strip()


def find_once(tokens, wanted, start, name, first):
    """The place of the wanted tokens, from `start` on: the first, or else the only one."""
    places = [at for at in range(start, len(tokens) - len(wanted) + 1) if tokens[at : at + len(wanted)] == wanted]
    if not places or not first and len(places) > 1:
        raise Misfit(f"{name}: `{' '.join(wanted)}` fits {len(places)} places, not 1")
    return places[0]


def planted(source, fault):
    """The source with the fault in it."""
    found = tokens_of(source)
    texts = [m[0] for m in found]
    at, edits = 0, []
    for index, section in enumerate(fault.change.split("…")):
        # The kept and removed code as one text, so that its tokens are those of the source.
        code, spans = "", []
        for kind, part in parts_of(section):
            if kind == "added":
                spans.append((kind, len(code), part))
            else:
                spans.append((kind, len(code), len(code) + len(part)))
                code += part + " "
        wanted = tokens_of(code)
        at = find_once(texts, [m[0] for m in wanted], at, f"{fault.file}: {fault.name}", first=index > 0)
        for kind, start, end in spans:
            before = at + sum(1 for m in wanted if m.start() < start)
            # Added code follows what stands before it, unless the change begins with it.
            place = found[before - 1].end() if before > at else found[before].start()
            if kind == "added":
                edits.append((place, place, f" {end} "))
            if kind == "removed":
                inside = sum(1 for m in wanted if start <= m.start() < end)
                edits.append((found[before].start(), found[before + inside - 1].end(), ""))
        at += len(wanted)
    # From the end on, so that places stay valid; where both begin at one place, code is removed first.
    for start, end, text in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        source = source[:start] + text + source[end:]
    return source


def without_fault(faults):
    """Models that no fault names, and names that no model has."""
    sources = [path.read_text() for path in (ROOT / "models").rglob("*.rs")]
    models = {name for source in sources for name in re.findall(r"#\[test\]\s*fn (\w+)", source)}
    named = {model for fault in faults for model in fault.models}
    return [f"no fault shows that {model} can fail" for model in sorted(models - named)] + [
        f"there is no model {model}" for model in sorted(named - models)
    ]


def misfits(faults):
    """Faults that do not fit the sources."""
    wrong = []
    for fault in faults:
        try:
            planted((ROOT / fault.file).read_text(), fault)
        except (Misfit, OSError) as error:
            wrong.append(str(error))
    return wrong


def run(copy, tool, *args, seconds):
    command = ["cargo", "test", "--quiet", "--features", tool, "--lib", *args]
    environment = dict(
        os.environ, CARGO_TARGET_DIR=str(copy / "target"), RUST_BACKTRACE="0",
        CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_TEST_DEBUG="0",
        # One file changes from each fault to the next.
        CARGO_INCREMENTAL="1",
        # A fault may change the number of executions; the model must catch it by what it asserts.
        CABRANK_EXECUTIONS="any", CABRANK_DEEP="1",
    )
    ended = planting.run(command, seconds, cwd=copy, env=environment)
    return ended.code, ended.output


def reason(output):
    """The message of the failing model, in one line."""
    lines = output.splitlines()
    for at, line in enumerate(lines):
        if "panicked at" in line and at + 1 < len(lines):
            said = lines[at + 1].strip()
            if said:
                return said[:90]
    return "no panic"


def plant(fault, copy, modules, options):
    """Plants one fault in this copy of the sources: the table's lines, and those of models that miss it."""
    path = copy / fault.file
    source = path.read_text()
    path.write_text(planted(source, fault))
    lines, missed, built = [], [], {}
    for model in fault.models:
        tool = "loom" if model in modules["loom"] else "shuttle"
        if tool not in built:
            built[tool] = run(copy, tool, "--no-run", seconds=900)
        code, output = built[tool]
        if code != 0:
            lines.append(f"{fault.name:<58} does not build:\n{output}")
            missed += lines[-1:]
            break
        begun = time.monotonic()
        code, output = run(copy, tool, modules[tool][model], "--", "--exact", seconds=options.seconds)
        took = f"{time.monotonic() - begun:.1f} s"
        if code is None:
            caught, how = "NO", f"not within {options.seconds} s"
        elif code == 0:
            caught, how = "NO", "the model passes"
        else:
            caught, how = "yes", f"{took}  {reason(output)}" if options.why else took
        lines.append(f"{fault.name:<58} {model:<34} {caught:<8} {how}")
        missed += lines[-1:] if caught == "NO" else []
    path.write_text(source)
    return lines, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="only faults with one of these in their name or models")
    parser.add_argument("--seconds", type=int, default=180, help="for each model")
    parser.add_argument("--why", action="store_true", help="print the message of each failing model")
    parser.add_argument("--list", action="store_true", help="print the faults and their models")
    parser.add_argument("--fit", action="store_true", help="only look whether each fault fits the sources")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="copies side by side")
    options = parser.parse_args()

    faults = read_faults()
    if options.names:
        faults = [f for f in faults if any(part in f"{f.name} {f.models}" for part in options.names)]
    elif wrong := without_fault(faults):
        sys.exit("\n".join(wrong))
    if options.list:
        for fault in faults:
            print(f"{fault.file}: {fault.name}: {', '.join(fault.models)}")
        return 0
    if wrong := misfits(faults):
        sys.exit("\n".join(wrong))
    if options.fit:
        print(f"{len(faults)} faults fit the sources")
        return 0

    copies = queue.SimpleQueue()
    for job in range(max(1, min(options.jobs, len(faults)))):
        copy = ROOT / "target" / "faults" / str(job)
        planting.copy_sources(ROOT, copy, COPIED)
        copies.put(copy)
    first = copies.get()
    modules = {"loom": {}, "shuttle": {}}
    for tool in modules:
        if all(model in modules["loom"] for fault in faults for model in fault.models) and tool == "shuttle":
            continue
        print(f"building for {tool}: from cold, that takes minutes", file=sys.stderr, flush=True)
        code, output = run(first, tool, "--", "--list", seconds=900)
        if code != 0:
            sys.exit(output)
        tests = [line.removesuffix(": test") for line in output.splitlines() if line.endswith(": test")]
        modules[tool] = {path.rsplit("::", 1)[-1]: path for path in tests}
    copies.put(first)
    for _ in range(copies.qsize()):
        copy = copies.get()
        if not (copy / "target").exists():
            # The library's dependencies need not be built twice.
            shutil.copytree(first / "target", copy / "target", symlinks=True)
        copies.put(copy)

    def work(fault):
        copy = copies.get()
        try:
            return plant(fault, copy, modules, options)
        finally:
            copies.put(copy)

    wrong = []
    print(f"{'fault':<58} {'model':<34} {'caught':<8} how", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for lines, missed in pool.map(work, faults):
            print("\n".join(lines), flush=True)
            wrong += missed
    # Again at the end, where a reader looks for them.
    print("\n".join([f"{len(faults)} faults, {len(wrong)} not caught", *wrong]), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
