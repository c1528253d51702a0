"""Serve real applications, and look at what their users would see.

    cargo xtask checks-applications                 all applications; prints a table
    cargo xtask checks-applications --quick         one application a language
    cargo xtask checks-applications flask express   only these
    cargo xtask checks-applications --write         also writes docs/applications.md

The frameworks come from PyPI, from npm and from Debian's packages, in the versions that catalog.py and the applications' own
files name. They are installed below target/applications. An application that cannot be installed is a row that fails, and with --quick a
row that is left out.
"""

import os
import sys
import traceback

import catalog
import probes
from server import ROOT, Server

NOT_INSTALLED = "not installed"
PAGE = os.path.join(ROOT, "docs", "applications.md")
INTRODUCTION = """# Applications

`cargo xtask checks-applications --write` makes this page. Each row is a small application of the framework, below [checks/applications/](../checks/applications), written as the
framework's guide would write it. The command installs the framework, serves the application with `cabrank start`, and asks it as its
users would.

"""


def judge(application):
    """Return the results of the probes, in the order of the columns: `yes`, `–` where a probe does not apply, or an error."""
    results = {}
    try:
        directory = application.install()
    except Exception as error:
        return {"boots": f"{NOT_INSTALLED}: {error}"}
    for environment in ("development", "production"):
        try:
            with Server(directory, environment, application) as server:
                results.setdefault("boots", "yes")
                for probe in probes.PROBES:
                    if probe.environment == environment:
                        results[probe.column] = outcome(probe, server, application)
        except Exception as error:
            traceback.print_exc()
            results["boots"] = str(error)
    return results


def outcome(probe, server, application):
    try:
        return "–" if probe(server, application) is NotImplemented else "yes"
    except Exception as error:
        traceback.print_exc()
        print(f"--- the server's log, {application.name}, {probe.column} ---\n{server.text()[-4000:]}\n---", file=sys.stderr)
        return f"**no**: {type(error).__name__}: {str(error)[:200]}"


def main():
    is_quick = "--quick" in sys.argv
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    unknown = set(names) - {application.name for application in catalog.APPLICATIONS}
    if unknown:
        raise SystemExit(f"there is no application {', '.join(sorted(unknown))}: "
                         f"choose among {', '.join(application.name for application in catalog.APPLICATIONS)}")
    chosen = [application for application in catalog.APPLICATIONS
              if application.name in names or (not names and (application.is_quick or not is_quick))]
    columns = ["boots"] + [probe.column for probe in probes.PROBES]
    lines = ["| application | versions | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    print("\n".join(lines), flush=True)
    has_failed = False
    for application in chosen:
        results = judge(application)
        cells = [results.get(column, "–") for column in columns]
        is_installed = not results["boots"].startswith(NOT_INSTALLED)
        has_failed |= any(cell not in ("yes", "–") for cell in cells) and (is_installed or not is_quick)
        versions = application.versions() if is_installed else "–"
        lines.append(f"| {application.title} | {versions} | " + " | ".join(cells).replace("\n", " ") + " |")
        print(lines[-1], flush=True)
    if "--write" in sys.argv:
        with open(PAGE, "w") as file:
            file.write(INTRODUCTION + "\n".join(lines) + "\n\n" + probes.legend())
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
