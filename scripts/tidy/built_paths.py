"""A build directory is shared by checkouts, so no binary remembers the path of the one that built it."""

import re

import files

BUILT_IN = re.compile(r'env!\("CARGO_MANIFEST_DIR"\)')


def check(root):
    for path in files.ending(root, ".rs"):
        if BUILT_IN.search((root / path).read_text()):
            yield f"{path}: env!(\"CARGO_MANIFEST_DIR\") is the checkout that built it; read std::env::var_os in tests"
