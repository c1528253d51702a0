#!/usr/bin/env python3
"""Shows that each model can fail: plants each fault in a copy of the sources, and runs the models that must catch it.

    python3 models/faults.py             every fault
    python3 models/faults.py restart     only faults with this in their name or models
    python3 models/faults.py --why       and the message of each model that fails
    python3 models/faults.py --list      which fault is for which models; plants nothing
    python3 models/faults.py --fit       only whether each fault fits the sources; builds nothing
    python3 models/faults.py --alone     each in a build of its own: slow, shows the same

The faults are in faults.txt beside the models, by the file of src/ that they change. A fault is a name, the models that
must catch it, and the change: code of that file in which [-this is removed-] and {+this is added+}. Line breaks, spaces,
comments and commas before a closing bracket do not count. The code must occur once in its file. With `…`, the part after
it is searched from the place of the part before: `fn get … return` is the first return of `get`.

One build holds all faults that lie inside functions: such a function begins with a choice between its body and copies of
it, each with one fault, and an environment variable names the fault of a run. A fault that changes anything else, or that
does not compile in this form, gets a build of its own.

A model that loom cannot run is run by shuttle. The runner exits with 1 if a model misses its fault, if a fault does not
fit the sources, or if a model has no fault. Needs Python 3.11.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
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


def edits_of(source, fault):
    """What the fault changes: (from, to, the text that replaces it)."""
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
    return edits


def edited(source, edits):
    """The source after these edits."""
    # From the end on, so that places stay valid; where both begin at one place, code is removed first.
    for start, end, text in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        source = source[:start] + text + source[end:]
    return source


def bodies_of(source):
    """The bodies of the outermost functions, without their braces: (from, to)."""
    found = tokens_of(source)
    closing = {"(": ")", "[": "]", "{": "}"}

    def after_group(at):
        """The place after the bracket that closes the one at `at`."""
        depth = 0
        for place in range(at, len(found)):
            depth += (found[place][0] in closing) - (found[place][0] in closing.values())
            if depth == 0:
                return place + 1
        raise Misfit("brackets do not match")

    bodies, at = [], 0
    while at + 1 < len(found):
        # `fn(` is a type; a constant function cannot look which fault is planted.
        if found[at][0] != "fn" or found[at + 1][0] == "(" or found[at - 1][0] == "const":
            at += 1
            continue
        while found[at][0] not in "{;":
            at = after_group(at) if found[at][0] in closing else at + 1
        if found[at][0] == "{":
            end = after_group(at)
            bodies.append((found[at].end(), found[end - 1].start()))
            at = end
    return bodies


def with_choice(source, faults):
    """The source with all these faults, of which `crate::planted` chooses; and the lines that belong to each.

    `faults` are pairs of a number and a fault. A fault outside of every function is left out.
    """
    bodies = bodies_of(source)
    copies = {body: [] for body in bodies}
    for number, fault in faults:
        edits = edits_of(source, fault)
        within = [next((body for body in bodies if body[0] <= edit[0] and edit[1] <= body[1]), None) for edit in edits]
        if None in within:
            continue
        for body in set(within):
            moved = [(s - body[0], e - body[0], text) for (s, e, text), b in zip(edits, within) if b == body]
            copies[body].append((number, edited(source[slice(*body)], moved)))
    text, lines, at = "", {}, 0
    for body in bodies:
        text += source[at : body[0]]
        for number, code in copies[body]:
            text += f"\nif crate::planted::is({number}) {{"
            first = text.count("\n") + 1
            text += f"{code}}} else"
            lines.setdefault(number, []).append(range(first, text.count("\n") + 1))
        original = source[slice(*body)]
        text += f" {{ {original} }} " if copies[body] else original
        at = body[1]
    return text + source[at:], lines


def without_fault(faults):
    """Models that no fault names, and names that no model has."""
    # The tests of the tool are no models.
    files = [path for path in (ROOT / "models").rglob("*.rs") if path.parent.name != "tool"]
    sources = [path.read_text() for path in files]
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
            edits_of((ROOT / fault.file).read_text(), fault)
        except (Misfit, OSError) as error:
            wrong.append(str(error))
    return wrong


CHOICE = """
/// Which of the faults is planted in this run.
pub(crate) mod planted {
    pub(crate) fn is(number: usize) -> bool {
        static CHOSEN: std::sync::LazyLock<Option<usize>> =
            std::sync::LazyLock::new(|| std::env::var("CABRANK_FAULT").ok().and_then(|chosen| chosen.parse().ok()));
        *CHOSEN == Some(number)
    }
}
"""


def build(copy, tool):
    """Builds the models: the program or None, and what the compiler said."""
    command = ["cargo", "test", "--quiet", "--features", tool, "--lib", "--no-run", "--message-format", "json"]
    if tool == "shuttle":
        # Few models run by it, so that optimising would cost more than it gains. loom's stacks are too small for that.
        command += ["--config", "profile.test.package.cabrank.opt-level=0"]
    # The dependencies are those of `cargo xtask loom`. From one build to the next of a copy little changes.
    environment = dict(os.environ, CARGO_TARGET_DIR=str(TARGET), CARGO_INCREMENTAL="1")
    ended = planting.run(command, 1200, cwd=copy, env=environment)
    program, errors, places = None, [], []
    for line in ended.output.splitlines():
        if not line.startswith("{"):
            errors.append(line)
            continue
        said = json.loads(line)
        message = said.get("message") or {}
        if said.get("executable"):
            program = said["executable"]
        if message.get("level") == "error":
            errors.append(message["rendered"])
            places += [(span["file_name"], span["line_start"]) for span in message["spans"] if span["is_primary"]]
    return (program if ended.code == 0 else None), "\n".join(errors), places


def models_of(program):
    """The path of each model in this program, by its name."""
    ended = planting.run([program, "--list"], 60)
    paths = [line.removesuffix(": test") for line in ended.output.splitlines() if line.endswith(": test")]
    # The tests of the tool are no models.
    return {path.rsplit("::", 1)[-1]: path for path in paths if "::tool::" not in path}


def copy_of(name):
    copy = TARGET / "faults" / name
    planting.copy_sources(ROOT, copy, COPIED)
    # Cargo tells the packages of two workspaces apart by name and version, not by path: without a version of its own the
    # copy would share its programs with the tree.
    manifest = copy / "Cargo.toml"
    manifest.write_text(re.sub(r'^version = "[^"]*', rf"\g<0>-{name}", manifest.read_text(), count=1, flags=re.MULTILINE))
    return copy


def build_together(faults, needed):
    """Builds all faults that lie in functions at once, by loom, and by shuttle if loom lacks one of the models needed.

    Returns the program and the path of each model, and the numbers of these faults.
    """
    copy = copy_of("together")
    library = copy / "src" / "lib.rs"
    library.write_text(library.read_text() + CHOICE)
    left_out = set()
    while True:
        together, lines = set(), {}
        for file in sorted({fault.file for fault in faults}):
            here = [(n, f) for n, f in enumerate(faults) if f.file == file and n not in left_out]
            text, lines[file] = with_choice((ROOT / file).read_text(), here)
            if file == "src/lib.rs":
                text += CHOICE
            (copy / file).write_text(text)
            together |= lines[file].keys()
        found, wrong = {}, set()
        for tool in "loom", "shuttle":
            if needed <= found.keys():
                break
            program, said, places = build(copy, tool)
            if program is not None:
                found = {model: (tool, program, path) for model, path in models_of(program).items()} | found
                continue
            wrong = {
                number
                for file, line in places
                for number, ranges in lines.get(file, {}).items()
                if any(line in inside for inside in ranges)
            }
            if not wrong:
                sys.exit(said)
            break
        if not wrong:
            return found, together
        left_out |= wrong


def reason(output):
    """The message of the failing model, in one line."""
    lines = output.splitlines()
    for at, line in enumerate(lines):
        if "panicked at" in line and at + 1 < len(lines):
            said = lines[at + 1].strip()
            if said:
                return said[:90]
    return "no panic"


def judge(fault, model, program, path, number, options):
    """Runs a model with the fault planted: its line of the table, and whether it has caught the fault."""
    environment = dict(
        os.environ, RUST_BACKTRACE="0", CABRANK_DEEP="1", CABRANK_FAULT=str(number),
        # A fault may change the number of executions; the model must catch it by what it asserts.
        CABRANK_EXECUTIONS="any",
    )
    begun = time.monotonic()
    ended = planting.run([program, path, "--exact"], options.seconds, cwd=ROOT, env=environment)
    took = f"{time.monotonic() - begun:.1f} s"
    if ended.code is None:
        caught, how = "NO", f"not within {options.seconds} s"
    elif ended.code == 0:
        caught, how = "NO", "the model passes"
    elif "overflowed its stack" in ended.output or ended.code != 101 and "panicked at" not in ended.output:
        caught, how = "NO", f"the program fails, not the model: {ended.code}"
    else:
        caught, how = "yes", f"{took}  {reason(ended.output)}" if options.why else took
    return f"{fault.name:<58} {model:<34} {caught:<8} {how}", caught == "yes"


def build_alone(fault, copy, tool):
    """Builds the sources with this fault only: the program, and what the compiler said."""
    path = copy / fault.file
    source = (ROOT / fault.file).read_text()
    path.write_text(edited(source, edits_of(source, fault)))
    program, said, _ = build(copy, tool)
    path.write_text(source)
    return program, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="only faults with one of these in their name or models")
    parser.add_argument("--seconds", type=int, default=180, help="for each model")
    parser.add_argument("--why", action="store_true", help="print the message of each failing model")
    parser.add_argument("--list", action="store_true", help="print the faults and their models")
    parser.add_argument("--fit", action="store_true", help="only look whether each fault fits the sources")
    parser.add_argument("--alone", action="store_true", help="build each fault alone")
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

    print("building: from cold, that takes minutes", file=sys.stderr, flush=True)
    # Where each fault is built alone, this program only lists the models.
    needed = {model for fault in faults for model in fault.models}
    models, together = build_together([] if options.alone else faults, needed)

    wrong = []

    def report(line, is_caught):
        print(line, flush=True)
        if not is_caught:
            wrong.append(line)

    print(f"{'fault':<58} {'model':<34} {'caught':<8} how", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [
            pool.submit(judge, fault, model, *models[model][1:], number, options)
            for number, fault in enumerate(faults)
            if number in together
            for model in fault.models
        ]
        for run in runs:
            report(*run.result())
    alone = [(number, fault) for number, fault in enumerate(faults) if number not in together]
    copy = copy_of("alone")
    for number, fault in alone:
        for tool in sorted({models[model][0] for model in fault.models}):
            program, said = build_alone(fault, copy, tool)
            for model in (model for model in fault.models if models[model][0] == tool):
                if program is None:
                    report(f"{fault.name:<58} does not build:\n{said}", False)
                else:
                    report(*judge(fault, model, program, models[model][2], number, options))
    # Again at the end, where a reader looks for them.
    print("\n".join([f"{len(faults)} faults, {len(alone)} in builds of their own, {len(wrong)} not caught", *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
