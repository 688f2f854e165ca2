"""Words of Arbor's early dialect, each with the field's word for it. The counts in words.tsv may fall and never rise: who rewrites a
text lowers them (`python3 scripts/tidy --lower`), and a word at 0 stays banned."""

import functools
import re

import files

TABLE = "scripts/tidy/words.tsv"
# The glossary explains old words; the change log and the tables of experiments say what was.
SOURCES = (".rs", ".py", ".mjs", ".js", ".sh", ".go", ".java", ".c", ".toml", ".yml", ".yaml", ".spec", "Makefile")
SCRIPTS = ("scripts/again", "scripts/dist", "scripts/fuzz", "scripts/miri", "scripts/setup", "scripts/split-debug")
APART = ("CHANGELOG.md", "docs/glossary.md", "docs/experiments/", "scripts/tidy/")


def check(root):
    text = prose(root)
    for pattern, limit, instead in rows(root):
        found = count(pattern, text)
        if found > limit:
            yield f"{TABLE}: {found} of `{pattern}`, at most {limit} were there: say {instead}"


def lower(root):
    """Writes the counts that have fallen."""
    text = prose(root)
    lines = [f"{pattern}\t{min(limit, count(pattern, text))}\t{instead}\n" for pattern, limit, instead in rows(root)]
    (root / TABLE).write_text("".join(lines))


def rows(root):
    for line in (root / TABLE).read_text().splitlines():
        pattern, limit, instead = line.split("\t")
        yield pattern, int(limit), instead


def prose(root):
    """Returns sources, scripts and documents, as one text."""
    paths = [path for path in files.ending(root, ".md", *SOURCES, *SCRIPTS) if not path.startswith(APART)]
    return "\n".join((root / path).read_text() for path in paths)


def count(pattern, text):
    return len(re.findall(expression(pattern), "\n".join(candidates(pattern, text)), re.M))


def candidates(pattern, text):
    """Returns the lines that may have the pattern: a search for plain text is much faster than one for an expression."""
    if not is_plain(pattern):
        return [text]
    starts = [(word.split("?")[0][:-1] if "?" in word else word)[1:] for word in pattern.split("|")]
    lines, lowered = split_lines(text)
    return [line for line, small in zip(lines, lowered) if any(start in small for start in starts)]


@functools.cache
def split_lines(text):
    return text.splitlines(), text.lower().splitlines()


def is_plain(pattern):
    return re.fullmatch(r"[a-z ?|]+", pattern)


def expression(pattern):
    """A plain word is meant in names as well: `folder` is in `data_folder` and in `DataFolder`. All else is a regular expression."""
    if not is_plain(pattern):
        return rf"(?<![A-Za-z])(?:{pattern})(?![a-z])"
    words = [rf"(?:(?<![A-Za-z])[{word[0].upper()}{word[0]}]|(?<=[a-z]){word[0].upper()}){word[1:]}" for word in pattern.split("|")]
    return rf"(?:{'|'.join(words)})(?![a-z])"
