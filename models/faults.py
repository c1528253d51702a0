#!/usr/bin/env python3
"""No model passes by accident: plants each fault of faults.toml in a copy of the sources, and says
which models catch it.

    python3 models/faults.py             every fault, under loom
    python3 models/faults.py restart     only those with this in their name
    python3 models/faults.py --tool shuttle

A fault takes away one line that a model guards. It is caught if the models named beside it fail; each
is run by itself. Exits with 1 if one is not caught, or no longer fits the source; and at once if there
is a model that no fault names.
Needs Python 3.11.
"""

import argparse
import os
import pathlib
import re
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import planting
COPY = ROOT / "target" / "faults"
COPIED = ["src", "models", "benches", "examples", "tests", "spec", "Cargo.lock", "README.md"]


def run(tool, *args, seconds):
    command = ["cargo", "test", "--quiet", "--features", tool, "--lib", *args]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(COPY / "target"), RUST_BACKTRACE="0")
    ended = planting.run(command, seconds, cwd=COPY, env=environment)
    return ended.code, ended.output


def unguarded(faults):
    """Models that no fault names, and names that no model has."""
    sources = [path.read_text() for path in (ROOT / "models").rglob("*.rs")]
    models = {name for source in sources for name in re.findall(r"#\[test\]\s*fn (\w+)", source)}
    named = {model for fault in faults for model in fault["models"]}
    return [f"no fault shows that {model} can fail" for model in sorted(models - named)] + [
        f"there is no model {model}" for model in sorted(named - models)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="only faults with one of these in their name")
    parser.add_argument("--tool", choices=["loom", "shuttle"], default="loom")
    parser.add_argument("--seconds", type=int, default=180, help="for each model")
    options = parser.parse_args()

    faults = tomllib.loads((ROOT / "models" / "faults.toml").read_text())["fault"]
    if wrong := unguarded(faults):
        sys.exit("\n".join(wrong))
    if options.names:
        faults = [f for f in faults if any(name in f["name"] for name in options.names)]
    planting.copy_sources(ROOT, COPY, COPIED)
    paths = {}
    for tool in {fault.get("tool", options.tool) for fault in faults}:
        code, output = run(tool, "--", "--list", seconds=900)
        if code != 0:
            sys.exit(output)
        tests = [line.removesuffix(": test") for line in output.splitlines() if line.endswith(": test")]
        paths |= {path.rsplit("::", 1)[-1]: path for path in tests}
    wrong = 0
    print(f"{'fault':<58} {'model':<34} {'caught':<8} how", flush=True)
    for fault in faults:
        path = COPY / fault["file"]
        source = path.read_text()
        find, replace = fault["find"], fault["replace"]
        # A model that only one of the tools can run says so.
        tool = fault.get("tool", options.tool)
        if source.count(find) != 1:
            print(f"{fault['name']:<58} fits {source.count(find)} places of {fault['file']}, not 1")
            wrong += 1
            continue
        path.write_text(source.replace(find, replace))
        code, output = run(tool, "--no-run", seconds=600)
        if code != 0:
            print(f"{fault['name']:<58} does not build:\n{output}")
            wrong += 1
        for model in fault["models"] if code == 0 else []:
            begun = time.monotonic()
            code, output = run(tool, paths[model], "--", "--exact", seconds=options.seconds)
            took = f"{time.monotonic() - begun:.1f} s"
            if code is None:
                caught, how = "NO", f"not within {options.seconds} s"
            elif code == 0:
                caught, how = "NO", "the model passes"
            else:
                caught, how = "yes", f"{reason(output)} ({took})"
            wrong += caught == "NO"
            print(f"{fault['name']:<58} {model:<34} {caught:<8} {how}", flush=True)
        path.write_text(source)
    print(f"{len(faults)} faults, {wrong} not caught")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
