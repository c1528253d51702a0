#!/usr/bin/env python3
"""No model passes by accident: plants each fault of faults.toml in a copy of the sources, and says
which models catch it.

    python3 models/faults.py             every fault, under loom
    python3 models/faults.py restart     only those with this in their name
    python3 models/faults.py --tool shuttle
    python3 models/faults.py --jobs 1    one after the other; two side by side if not told
    python3 models/faults.py --why       and what each failing model said

A fault takes away one line that a model guards. It is caught if the models named beside it fail; each
is run by itself. Exits with 1 if one is not caught, or no longer fits the source; and at once if there
is a model that no fault names.
Needs Python 3.11.
"""

import argparse
import concurrent.futures
import os
import pathlib
import queue
import re
import shutil
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import planting
COPIED = ["src", "models", "benches", "examples", "tests", "spec", "Cargo.lock", "README.md"]


def run(copy, tool, *args, seconds):
    command = ["cargo", "test", "--quiet", "--features", tool, "--lib", *args]
    environment = dict(
        os.environ, CARGO_TARGET_DIR=str(copy / "target"), RUST_BACKTRACE="0",
        # Nobody looks at a fault in a debugger.
        CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_TEST_DEBUG="0",
        # One file changes from each to the next.
        CARGO_INCREMENTAL="1",
        # A fault may change how many executions there are; that is not to be what catches it.
        CABRANK_EXECUTIONS="any", CABRANK_DEEP="1",
    )
    ended = planting.run(command, seconds, cwd=copy, env=environment)
    return ended.code, ended.output


def unguarded(faults):
    """Models that no fault names, and names that no model has."""
    sources = [path.read_text() for path in (ROOT / "models").rglob("*.rs")]
    models = {name for source in sources for name in re.findall(r"#\[test\]\s*fn (\w+)", source)}
    named = {model for fault in faults for model in fault["models"]}
    return [f"no fault shows that {model} can fail" for model in sorted(models - named)] + [
        f"there is no model {model}" for model in sorted(named - models)
    ]


def not_run_by(faults, modules, usual):
    """Models that the tool of their fault does not have."""
    return [
        f"{fault['name']}: {model} is no model of {tool}'s; tool = \"shuttle\" is for those that loom has not"
        for fault in faults
        for tool in [fault.get("tool", usual)]
        for model in fault["models"]
        if model not in modules[tool]
    ]


def reason(output):
    """What the failing model said, in one line."""
    lines = output.splitlines()
    for at, line in enumerate(lines):
        if "panicked at" in line and at + 1 < len(lines):
            said = lines[at + 1].strip()
            if said:
                return said[:90]
    return "no panic"


def plant(fault, copy, modules, options):
    """Plants one fault in this copy of the sources: the table's lines, and those of models that miss it."""
    path = copy / fault["file"]
    source = path.read_text()
    find, replace = fault["find"], fault["replace"]
    # A model that only one of the tools can run says so.
    tool = fault.get("tool", options.tool)
    if source.count(find) != 1:
        line = f"{fault['name']:<58} fits {source.count(find)} places of {fault['file']}, not 1"
        return [line], [line]
    path.write_text(source.replace(find, replace))
    lines, missed = [], []
    code, output = run(copy, tool, "--no-run", seconds=900)
    if code != 0:
        lines.append(f"{fault['name']:<58} does not build:\n{output}")
        missed += lines
    for model in fault["models"] if code == 0 else []:
        begun = time.monotonic()
        code, output = run(copy, tool, modules[tool][model], "--", "--exact", seconds=options.seconds)
        took = f"{time.monotonic() - begun:.1f} s"
        if code is None:
            caught, how = "NO", f"not within {options.seconds} s"
        elif code == 0:
            caught, how = "NO", "the model passes"
        else:
            # What failed is what should: as a rule nobody wants to read it, nor to find it in a log.
            caught, how = "yes", f"{took}  {reason(output)}" if options.why else took
        lines.append(f"{fault['name']:<58} {model:<34} {caught:<8} {how}")
        missed += lines[-1:] if caught == "NO" else []
    path.write_text(source)
    return lines, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="only faults with one of these in their name")
    parser.add_argument("--tool", choices=["loom", "shuttle"], default="loom")
    parser.add_argument("--seconds", type=int, default=180, help="for each model")
    parser.add_argument("--why", action="store_true", help="what each failing model said")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="copies side by side")
    options = parser.parse_args()

    faults = tomllib.loads((ROOT / "models" / "faults.toml").read_text())["fault"]
    if wrong := unguarded(faults):
        sys.exit("\n".join(wrong))
    if options.names:
        faults = [f for f in faults if any(name in f["name"] for name in options.names)]
    copies = queue.SimpleQueue()
    for job in range(max(1, min(options.jobs, len(faults)))):
        copy = ROOT / "target" / "faults" / str(job)
        planting.copy_sources(ROOT, copy, COPIED)
        copies.put(copy)
    modules = {}
    first = copies.get()
    for tool in sorted({fault.get("tool", options.tool) for fault in faults}):
        print(f"building for {tool}: from cold, that takes minutes", file=sys.stderr, flush=True)
        code, output = run(first, tool, "--", "--list", seconds=900)
        if code != 0:
            sys.exit(output)
        tests = [line.removesuffix(": test") for line in output.splitlines() if line.endswith(": test")]
        modules[tool] = {path.rsplit("::", 1)[-1]: path for path in tests}
    copies.put(first)
    if wrong := not_run_by(faults, modules, options.tool):
        sys.exit("\n".join(wrong))
    for _ in range(copies.qsize()):
        copy = copies.get()
        if not (copy / "target").exists():
            # What the library depends on need not be built twice.
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
    # Again at the end, where they are looked for.
    print("\n".join([f"{len(faults)} faults, {len(wrong)} not caught", *wrong]), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
