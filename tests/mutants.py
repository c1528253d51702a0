#!/usr/bin/env python3
"""Changes the library one operator or one function body at a time, and reports which tests fail.

    python3 tests/mutants.py                       all mutants of src/ (hours); goes on where it was stopped
    python3 tests/mutants.py session interlock     only those of files or folders with one of these names
    python3 tests/mutants.py --sample 100          as many of them, drawn at random
    python3 tests/mutants.py --again NAME          the known ones with this in their name again
    python3 tests/mutants.py --survivors           the survivors again: after a new test
    python3 tests/mutants.py --report              the table of results, without running anything

`cargo mutants` (27 or newer) lists the mutants, by `.cargo/mutants.toml`; it would build every test,
example and bench for each of them, so this script runs them in layers: the likeliest to fail first,
and the next only if it passes. Results are kept in target/mutants/results.jsonl.
Exits with 1 if a mutant survives that tests/MUTANTS.md does not name. Needs Python 3.11.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

import planting

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "mutants"
COPIED = [".cargo", "src", "models", "examples", "tests", "spec", "Cargo.lock", "README.md"]
RESULTS = COPY / "results.jsonl"

UNIT = (["--lib"], [])


def tests(program, *modules, without=()):
    """Returns the arguments for one test program: only these of its modules, or all but some."""
    skipped = [arg for module in without for arg in ("--skip", module)]
    return ["--test", program], [*(f"{module}::" for module in modules), *skipped]


POOL = tests("application_pool", "errata")
REST = tests("application_pool", without=("errata::", "stress::"))
STRESS = tests("application_pool", "stress")
REAL = tests("process")
RESOURCES = tests("resource_pool", without=("refinement::",))
INTERLOCK = tests("execution", "interlock")
REFINEMENTS = [tests("execution", "interlock_refinement"), tests("resource_pool", "refinement")]
EXECUTOR = tests("execution", "executor", "reloader")
PERIODIC = tests("periodic_executor")
OF_ALL = [RESOURCES, INTERLOCK, EXECUTOR, PERIODIC, *REFINEMENTS]
MODELS = [["--features", tool, "--lib"] for tool in ("loom", "shuttle")]
# For each folder beside the application pool: its tests, and the module of its models.
OTHERS = {
    "src/execution/interlock/": ([INTERLOCK, UNIT, REFINEMENTS[0], EXECUTOR], "interlock::"),
    "src/execution/": ([EXECUTOR, UNIT, INTERLOCK], "execution::"),
    "src/periodic_executor/": ([PERIODIC, UNIT, REAL, POOL], "periodic_executor::"),
    "src/resource_pool/": ([RESOURCES, UNIT, REFINEMENTS[1]], "resource_pool::"),
}
# Files that every system uses: the tests of all of them run.
SHARED = {"section", "wait_queue", "list", "arena", "indexed_heap", "user_code", "clock", "native", "native_signals"}
# Layers that search, or let time pass, get three times as long.
SEARCHES = [UNIT, REST, STRESS, REAL, *REFINEMENTS]
# Files whose unit tests are the likeliest to fail.
BY_UNIT_TESTS = {"list", "rank_list", "indexed_heap", "wait_queue", "clock", "restart_files", "options", "error"}
# Lists, queues and locks come first, messages come last.
ORDER = [
    "section", "wait_queue", "session", "checkout", "capacity", "spawning", "detach", "state", "group", "get_async",
    "effects", "cleaner", "list", "rank_list", "indexed_heap", "restart_files", "process_info", "mod", "clock",
    "options", "snapshot", "user_code", "spawner", "builder", "error", "event", "native",
]


def layers(file, models):
    """Returns the layers in order: arguments for the build, and for the program."""
    folder = next((folder for folder in OTHERS if file.startswith(folder)), None)
    if folder:
        ordinary, models_of_it = OTHERS[folder]
    else:
        first, second = (UNIT, POOL) if pathlib.Path(file).stem in BY_UNIT_TESTS else (POOL, UNIT)
        shared = OF_ALL if pathlib.Path(file).stem in SHARED else []
        ordinary, models_of_it = [first, second, *shared, REST, REAL, STRESS], ""
    return ordinary + [(args, [models_of_it] if models_of_it else []) for args in MODELS if models]


def mutants():
    done = subprocess.run(
        ["cargo", "mutants", "--list", "--json", "-p", "cabrank"],
        cwd=COPY, stdout=subprocess.PIPE, text=True, check=True,
    )
    stem = lambda mutant: pathlib.Path(mutant["file"]).stem
    rank = lambda mutant: ORDER.index(stem(mutant)) if stem(mutant) in ORDER else len(ORDER)
    return sorted(json.loads(done.stdout), key=rank)


def change(source, span, replacement):
    """The source with the span replaced; lines and columns count from 1."""
    lines = source.splitlines(keepends=True)
    at = lambda place: sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1
    return source[: at(span["start"])] + replacement + source[at(span["end"]) :]


def limit_memory():
    # An endless loop may fill a list without bound.
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


def build(args):
    """Returns the test programs, or None if the mutant does not compile."""
    command = ["cargo", "test", "-p", "cabrank", "--no-run", "--message-format=json", *args]
    done = subprocess.run(
        command, cwd=COPY, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        return None, done.stderr
    programs = []
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable") and artifact["target"]["name"] not in ("threads", "tasks", "spawner"):
            programs.append((artifact["target"]["name"], artifact["executable"]))
    return programs, ""


def environment():
    return dict(
        os.environ,
        CARGO_TARGET_DIR=os.environ.get("CARGO_TARGET_DIR", str(COPY / "target")),
        # Debug information is not needed.
        CARGO_PROFILE_DEV_DEBUG="0",
        CARGO_PROFILE_TEST_DEBUG="0",
        RUST_BACKTRACE="0",
        CARGO_TERM_COLOR="never",
        # A model should fail by an assertion, not by its number of executions.
        CABRANK_EXECUTIONS="any",
        CABRANK_DEEP="1",
        CABRANK_CASES=os.environ.get("CABRANK_CASES", "150"),
        PROPTEST_CASES=os.environ.get("PROPTEST_CASES", "64"),
    )


def run(program, only, seconds):
    """Returns how the program ended, or None if all its tests pass. Stops at the first failure."""
    ended = planting.run(
        [program, "--nocapture", *only], seconds, stop_at=r"test (\S+) (?:- should panic )?\.\.\. FAILED",
        cwd=COPY, env=environment(), preexec_fn=limit_memory,
    )
    if not ended.found and ended.code == 0:
        return None
    # The unit tests break each invariant on purpose, and print that.
    broken = None if "/deps/cabrank-" in program else re.search(r"((?:INV|ILK)-[A-Z-]+) does not hold", ended.output)
    if broken:
        return "invariant", broken[1]
    if ended.found:
        return "test", ended.found[1]
    if ended.code is None:
        return "time", f"not within {seconds} s"
    said = re.search(r"panicked at [^\n]*\n([^\n]*)", ended.output)
    return "panic", said[1] if said else f"exit {ended.code}"


def judge(mutant, options):
    for args, only in layers(mutant["file"], options.models):
        programs, error = build(args)
        if programs is None:
            return {"how": "unviable", "what": (re.search(r"error[^\n]*", error) or [""])[0]}
        for name, program in programs:
            slow = 15 if args in MODELS else 3 if (args, only) in SEARCHES else 1
            ended = run(program, only, options.seconds * slow)
            if ended:
                layer = args[1] if args in MODELS else " ".join([name, *only])
                return {"how": ended[0], "what": ended[1], "by": layer}
    return {"how": "survived"}


def known():
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {line["name"]: line for line in lines}


def report(listed):
    results = known()
    table = collections.defaultdict(collections.Counter)
    hows = ["invariant", "test", "panic", "time", "unviable", "survived", "not run"]
    for mutant in listed:
        how = results.get(mutant["name"], {}).get("how", "not run")
        table[mutant["file"].removeprefix("src/")][how] += 1
    print(f"| {'file':<34} | mutants | " + " | ".join(hows) + " |")
    total = collections.Counter()
    for file, counts in table.items():
        total += counts
        print(f"| {file:<34} | {counts.total():>7} | " + " | ".join(f"{counts[h]:>{len(h)}}" for h in hows) + " |")
    print(f"| {'all':<34} | {total.total():>7} | " + " | ".join(f"{total[h]:>{len(h)}}" for h in hows) + " |")
    by = collections.Counter(r["by"] for r in results.values() if "by" in r)
    print("noticed first by: " + ", ".join(f"{name} {n}" for name, n in by.most_common()))
    # MUTANTS.md has the names without line numbers, which change with every edit.
    explained = (ROOT / "tests" / "MUTANTS.md").read_text() if (ROOT / "tests" / "MUTANTS.md").exists() else ""
    new = 0
    for mutant in listed:
        if results.get(mutant["name"], {}).get("how") == "survived":
            is_explained = re.sub(r":\d+:\d+", "", mutant["name"]).removeprefix("src/") in explained
            new += not is_explained
            print(("explained " if is_explained else "SURVIVED  ") + mutant["name"])
    return new


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="only mutants of files or folders of these names")
    parser.add_argument("--again", metavar="NAME", help="only mutants with this in their name, known or not")
    parser.add_argument("--survivors", action="store_true", help="only those that survived")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--models", action="store_true", help="show survivors to the models, too")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--seconds", type=int, default=20, help="for each test program")
    parser.add_argument("--minutes", type=int, help="stop after so many")
    options = parser.parse_args()

    planting.copy_sources(ROOT, COPY, COPIED)
    listed = mutants()
    results, begun = known(), time.monotonic()
    named = lambda file: set(pathlib.Path(file).with_suffix("").parts) & set(options.names)
    chosen = [mutant for mutant in listed if not options.names or named(mutant["file"])]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    for mutant in [] if options.report else chosen:
        name, path = mutant["name"], COPY / mutant["file"]
        if options.again is not None or options.survivors:
            again = options.again is not None and options.again in name
            if not (again or options.survivors and results.get(name, {}).get("how") == "survived"):
                continue
        elif name in results:
            continue
        if options.minutes and time.monotonic() - begun > options.minutes * 60:
            break
        source = path.read_text()
        started = time.monotonic()
        path.write_text(change(source, mutant["span"], mutant["replacement"]))
        try:
            result = judge(mutant, options)
        finally:
            path.write_text(source)
        result |= {"name": name, "seconds": round(time.monotonic() - started, 1)}
        with RESULTS.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(result["how"].ljust(10), result["seconds"], name, result.get("by", ""), result.get("what", ""), flush=True)
    return 1 if report(listed) else 0


if __name__ == "__main__":
    sys.exit(main())
