"""Links and paths in documents lead somewhere: `[text](path#heading)`, and paths of this repository between backticks."""

import re

import files

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([A-Za-z0-9_./-]+)`")
# A quoted text is a path of the repository when it begins with one of its directories.
TOP = ("crates/", "docs/", "testing/", "scripts/", "fuzz/", ".ci/")
# Made while tests run or by an installation, so not in the repository
MADE = ("testing/.venv", "testing/drivers/.venv", "fuzz/corpus", "fuzz/artifacts", "fuzz/target")
# Says what was, so a path in it may be gone; its links may not.
HISTORY = ("CHANGELOG.md",)


def check(root):
    for path in files.ending(root, ".md"):
        text = without_code_blocks((root / path).read_text())
        yield from dead_links(root, path, text)
        if path not in HISTORY:
            yield from dead_paths(root, path, text)


def without_code_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def dead_links(root, path, text):
    here = (root / path).parent
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, heading = target.partition("#")
        found = (here / file) if file else root / path
        if not found.exists():
            yield f"{path}: the link {target} leads nowhere"
        elif heading and heading not in anchors(found.read_text()):
            yield f"{path}: {target}: no such heading"


def anchors(text):
    """Returns the anchors of a document's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", without_code_blocks(text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_paths(root, path, text):
    for quoted in QUOTED.findall(text):
        if not quoted.startswith(TOP) or quoted.startswith(MADE) or re.search(r"[A-Z]{3}", quoted):
            continue
        if not (root / quoted).exists():
            yield f"{path}: there is no {quoted}"
