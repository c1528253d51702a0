"""The page on kept sessions names a test for each object that outlives an answer."""

import os
import re
import unittest

from common import LOADERS

ROOT = os.path.join(LOADERS, "..", "..")


class Pages(unittest.TestCase):
    def test_each_test_that_the_table_names_exists(self):
        with open(os.path.join(ROOT, "docs", "kept-sessions.md")) as file:
            section = file.read().partition("## What outlives an answer\n")[2].partition("\n## ")[0]
        rows = [line for line in section.split("\n") if line.startswith("|")]
        self.assertTrue(rows)
        for row in rows:
            names = re.findall(r"`(\w+)::(\w+)`", row)
            self.assertTrue(names or row.startswith(("| object", "|---")), row)
            for module, name in names:
                paths = [os.path.join(LOADERS, "tests", f"{module}.py"), os.path.join(LOADERS, "tests", f"{module.removeprefix('test_')}.py"),
                         os.path.join(ROOT, "server", "tests", "e2e", f"{module}.rs")]
                text = ""
                for path in filter(os.path.exists, paths):
                    with open(path) as file:
                        text += file.read()
                self.assertRegex(text, rf"\b(def|fn) {name}\(")
