"""Assertions per 1,000 production lines of each crate: `python3 scripts/tidy --assertions` prints them. The least numbers in
assertions.tsv may rise and never fall: an author who adds code states what it relies on."""

import re

import files

TABLE = "scripts/tidy/assertions.tsv"
ASSERTION = re.compile(r"\b(?:debug_assert|assert)(?:_eq|_ne)?!|\b(?:paranoid|unreachable)!")
ONLY_IN_TESTS = re.compile(r"\s*#\[cfg\((?:test|all\(test.*)\)\]")
# Tests, models of tests, and the suite that engines pass.
TESTS = re.compile(r"(?:tests?|_tests|_model|testing)\.rs$|/(?:tests|contract)/")


def check(root):
    found = {crate: density for crate, _, _, density in counts(root)}
    for crate, least in rows(root):
        if found.get(crate, 0) < least:
            yield f"{TABLE}: {found.get(crate, 0):.1f} assertions per 1,000 lines of {crate}, at least {least} were there"


def rows(root):
    for line in (root / TABLE).read_text().splitlines():
        crate, least = line.split("\t")
        yield crate, float(least)


def counts(root):
    """Yields crate, production lines, assertions, and assertions per 1,000 lines."""
    lines, assertions = {}, {}
    for path in files.ending(root, ".rs"):
        parts = path.split("/")
        if parts[0] != "crates" or parts[2] != "src" or TESTS.search(path):
            continue
        production = without_tests((root / path).read_text().splitlines())
        code = "\n".join(line for line in production if not line.lstrip().startswith("//"))
        lines[parts[1]] = lines.get(parts[1], 0) + len(production)
        assertions[parts[1]] = assertions.get(parts[1], 0) + len(ASSERTION.findall(code))
    for crate in sorted(lines):
        yield crate, lines[crate], assertions[crate], assertions[crate] * 1000 / lines[crate]


def without_tests(lines):
    """Returns the lines without the items that only tests have."""
    kept, at = [], 0
    while at < len(lines):
        if ONLY_IN_TESTS.match(lines[at]):
            at = end_of_item(lines, at + 1)
        else:
            kept.append(lines[at])
            at += 1
    return kept


def end_of_item(lines, at):
    """Returns the line after the item that begins here."""
    depth = 0
    while at < len(lines):
        line = lines[at]
        depth += line.count("{") - line.count("}")
        at += 1
        if not line.lstrip().startswith("#[") and depth <= 0:
            break
    return at
