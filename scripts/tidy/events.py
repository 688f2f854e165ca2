"""All events of the server's log are in one table, whose test keeps their numbers apart."""

import re

import files

TABLE = "crates/protocol/src/log/"
DEFINED = re.compile(r"\bEvent \{\s*component:")


def check(root):
    for path in files.ending(root, ".rs"):
        if not path.startswith(TABLE) and DEFINED.search((root / path).read_text()):
            yield f"{path}: defines an event of the log; its place is {TABLE}events.rs"
