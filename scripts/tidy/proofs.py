"""A row of COMPAT.md names a test. (The tables of features come from testing/spec/registry, where `make compat-check` looks.)"""

import re

FEATURES = "<!-- features:"
TEST = re.compile(r"(testing/[\w./-]+|crates/[\w./-]+)")


def check(root):
    yield from without_proof((root / "COMPAT.md").read_text())


def without_proof(text):
    """Yields rows of tables with a column of proofs that name no test in it."""
    column = None
    for number, line in enumerate(text.partition(FEATURES)[0].splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            column = None
        elif column is None:
            column = next((i for i, cell in enumerate(cells) if cell in ("test", "proof")), -1)
        elif column >= 0 and not set(cells[0]) <= set("-:") and not TEST.search(cells[column]):
            yield f"COMPAT.md:{number}: names no test: {cells[0][:60]}"
