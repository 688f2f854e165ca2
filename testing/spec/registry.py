#!/usr/bin/env python3
"""The list of features (registry/*.toml): what is the basis of each row, and the tables of COMPAT.md made from it.

    registry.py             checks that each row's scripts exist and that COMPAT.md is up to date
    registry.py --write     writes the tables of COMPAT.md (`make compat`)
"""

import pathlib
import sys
import tomllib
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMPAT = ROOT / "COMPAT.md"
BEGIN = "<!-- features: from here to the end mark written by `make compat` from testing/spec/registry; change the rows there -->\n"
END = "<!-- end of features -->\n"

# what `how` may be of a row, and nothing else
KEYS = {"tier", "differs", "absent", "how", "scripts", "tests", "probe"}

# The command that shows that a feature of a section is absent, and the code that answers it unless the row says another.
PROBES = {
    "query": ("{ find: 'c', filter: { a: { @: 1 } } }", 2),
    "update": ("{ update: 'c', updates: [{ q: {}, u: { @: { a: 1 } } }] }", 9),
    "stage": ("{ aggregate: 'c', pipeline: [{ @: {} }], cursor: {} }", 40324),
    "expression": ("{ aggregate: 'c', pipeline: [{ $project: { r: { @: {} } } }], cursor: {} }", 31325),
    "accumulator": ("{ aggregate: 'c', pipeline: [{ $group: { _id: null, r: { @: 1 } } }], cursor: {} }", 15952),
    "window": ("{ aggregate: 'c', pipeline: [{ $setWindowFields: { sortBy: { a: 1 }, output: { r: { @: 1 } } } }], cursor: {} }", 9),
    "command": ("{ @: 1, $db: 'admin' }", 59),
}


@dataclass
class Row:
    section: str
    name: str
    tier: str
    differs: str = ""
    absent: int | None = None
    how: str = ""
    scripts: list = field(default_factory=list)
    tests: list = field(default_factory=list)
    probe: str = ""

    @property
    def status(self):
        return "absent" if self.absent is not None else "differs" if self.differs else "works"

    @property
    def paths(self):
        """The scripts and tests behind the row, from the repository's root."""
        scripts = self.scripts or ([] if self.tests or self.absent is not None else [f"{self.section}/{self.name.lstrip('$')}"])
        return [f"testing/spec/{name}.spec" for name in scripts] + self.tests


@dataclass
class Section:
    key: str
    title: str
    rows: list


def sections():
    found = []
    for path in sorted((HERE / "registry").glob("*.toml")):
        content = tomllib.loads(path.read_text())
        key, title = path.stem.split("-", 1)[1], content.pop("title")
        for name, row in content.items():
            if unknown := set(row) - KEYS:
                raise SystemExit(f"{path.name}: {name}: unknown {', '.join(unknown)}")
        found.append(Section(key, title, [Row(key, name, **row) for name, row in content.items()]))
    return found


def check():
    """What is wrong, as lines of text."""
    problems = [
        f"registry: {row.section} {row.name}: no {path}"
        for section in sections()
        for row in section.rows
        for path in row.paths
        if not (ROOT / path).exists()
    ]
    if written(COMPAT.read_text()) != COMPAT.read_text():
        problems.append("COMPAT.md is not what the registry says: run `make compat`")
    return problems


def report(problems):
    for problem in problems:
        print(problem)
    return len(problems)


def probe_absent(session):
    """Asks the server for what is said to be absent: (count, failures). A row that answers otherwise is wrong."""
    import notation
    import session as blocks

    count, failures = 0, []
    for section in sections():
        for row in section.rows:
            if row.absent is None or not (row.probe or section.key in PROBES):
                continue
            count += 1
            command = row.probe or PROBES[section.key][0].replace("@", row.name)
            result = blocks.attempt(lambda: session.run(notation.text_value(command)[1]))
            code = result.code if isinstance(result, blocks.Refused) else "no error"
            if code != row.absent:
                shown = result if isinstance(result, blocks.Refused) else "no error"
                failures.append(f"registry: {section.key} {row.name} is said to answer {row.absent}\n    {command}\n    gives {shown}")
    return count, failures


# ---- COMPAT.md ------------------------------------------------------------------------------------------------------


def written(text):
    """COMPAT.md with the tables as the registry has them."""
    head, mark, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise SystemExit("COMPAT.md has lost its marks of the features")
    return head + mark + "\n" + tables() + "\n" + end + tail


def tables():
    found = sections()
    lines = ["| | works | differs | absent |", "|---|---|---|---|"]
    for section in found:
        lines.append(f"| {section.title} | {counts(section.rows)} |")
    lines.append(f"| **all** | {counts([row for section in found for row in section.rows])} |")
    for section in found:
        lines += ["", f"### {section.title}", "", "| feature | tier | | how it differs, or the error | proof |", "|---|---|---|---|---|"]
        lines += [table_row(row) for row in section.rows]
    return "\n".join(lines) + "\n"


def counts(rows):
    return " | ".join(str(sum(row.status == status for row in rows)) for status in ("works", "differs", "absent"))


def table_row(row):
    answer = f"error {row.absent}" + (f": {row.how}" if row.how else "") if row.absent is not None else row.differs or row.how
    proof = ", ".join(f"[{pathlib.Path(path).stem}]({path})" for path in row.paths)
    cells = [code(row.name), row.tier, row.status, answer, proof or "the run itself"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(name):
    return f"`{name}`" if name.replace("$", "").replace("[", "").replace("]", "").replace("_", "").replace("*", "").isalnum() or name == "$" or name == "$[]" else name


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        COMPAT.write_text(written(COMPAT.read_text()))
    sys.exit(report(check()) > 0)
