"""Reads scripts (README.md says how they look) into blocks of cases."""

import itertools
import re
from dataclasses import dataclass, field

import notation

# One value of each type: the word `others` means those that a block does not mention.
SAMPLES = {
    "double": "1.5",
    "string": '"text"',
    "object": "{ a: 1 }",
    "array": "[1, 2]",
    "binData": 'Binary(0, "00ff")',
    "undefined": "undefined",
    "objectId": 'ObjectId("0102030405060708090a0b0c")',
    "bool": "true",
    "date": 'Date("2020-02-29T12:34:56.789Z")',
    "null": "null",
    "regex": "/re/i",
    "javascript": 'Code("f()")',
    "symbol": 'Symbol("s")',
    "int": "7",
    "timestamp": "Timestamp(7, 1)",
    "long": "Long(7)",
    "decimal": 'Decimal("7.5")',
    "minKey": "MinKey",
    "maxKey": "MaxKey",
    "missing": "missing",
}
NULLISH = ("null", "undefined", "missing")

KINDS = {
    "given", "expression", "find", "query", "projection", "pipeline", "update", "field", "upsert", "accumulator", "window",
    "command", "plan", "order",
}  # fmt: skip


class ScriptError(Exception):
    pass


@dataclass
class Failure:
    """An error that is expected."""

    code: int
    text: str = ""

    def __str__(self):
        return f"error {self.code}" + (f" {notation.quoted(self.text)}" if self.text else "")


@dataclass
class Case:
    line: int
    source: str
    arguments: list
    expected: object = None


@dataclass
class Block:
    kind: str
    header: str
    line: int
    cases: list = field(default_factory=list)


def load(path):
    blocks = []
    for line, text in statements(path.read_text(), path):
        if not text[0].isspace():
            kind, _, header = text.strip().partition(" ")
            if kind not in KINDS:
                raise ScriptError(f"{path}:{line}: unknown block {kind}")
            blocks.append(Block(kind, header.strip(), line))
            continue
        if not blocks:
            raise ScriptError(f"{path}:{line}: a case outside of a block")
        try:
            add_cases(blocks[-1], line, text.strip())
        except (notation.NotationError, ValueError, IndexError) as error:
            raise ScriptError(f"{path}:{line}: {error}") from error
    for block in blocks:
        if block.kind != "order":
            expand_others(block)
    return blocks


def statements(text, path):
    """Lines that belong together: brackets are closed, and a line that begins with `=>` continues the one before."""
    held = None
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip().startswith("#"):
            continue
        if held and (depth(held[1]) > 0 or line.strip().startswith("=>")):
            if number > held[0] + 200:
                raise ScriptError(f"{path}:{held[0]}: brackets are not closed")
            held = (held[0], held[1] + "\n" + line.strip())
            continue
        if held:
            yield held
        held = (number, line) if line.strip() else None
    if held:
        yield held


STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')


def depth(text):
    bare = STRINGS.sub("", text)
    return sum(bare.count(c) for c in "{[(") - sum(bare.count(c) for c in ")]}")


def add_cases(block, line, source):
    left, arrow, right = split_arrow(source)
    expected = read_expected(block.kind, right) if arrow else None
    if block.kind == "expression" and not block.header:
        expression, rest = notation.read(left)
        document = notation.text_value(rest.removeprefix("on ")) if rest else notation.doc()
        block.cases.append(Case(line, source, [expression, document], expected))
        return
    positions = read_positions(left)
    if block.kind == "order":
        block.cases.append(Case(line, source, positions[0]))
        return
    if any("others" in alternatives for alternatives in positions):
        block.cases.append(Case(line, source, positions, expected))
        return
    add_product(block.cases, line, source, positions, expected)


def add_product(cases, line, source, positions, expected):
    for arguments in itertools.product(*positions):
        cases.append(Case(line, source, list(arguments), fill_types(expected, arguments)))


def fill_types(expected, arguments):
    if not isinstance(expected, Failure):
        return expected
    text = expected.text
    for number, argument in enumerate(arguments, 1):
        text = text.replace("<type>" if number == 1 else f"<type{number}>", argument[0])
    return Failure(expected.code, text)


def split_arrow(source):
    bare = STRINGS.sub(lambda found: "_" * len(found.group()), source)
    at = bare.find("=>")
    return (source.strip(), False, "") if at < 0 else (source[:at].strip(), True, source[at + 2 :].strip())


def read_positions(text):
    """`1, 2 ; others`: what may be at each position."""
    positions = [[]]
    while text:
        if found := re.match(r"(others|nullish)\b", text):
            word = found.group()
            positions[-1] += [word] if word == "others" else [notation.text_value(SAMPLES[kind]) for kind in NULLISH]
            text = text[len(word) :].strip()
        else:
            value, text = notation.read(text)
            positions[-1].append(value)
        if text.startswith(";"):
            positions.append([])
            text = text[1:].strip()
        elif text.startswith(","):
            text = text[1:].strip()
        elif text:
            raise notation.NotationError(f"; or , or => expected at: {text[:60]}")
    return positions


def expand_others(block):
    """Replaces the cases with `others` by one for each type that no case of the block has at that position."""
    mentioned = {}
    for case in block.cases:
        for position, argument in enumerate(case.arguments):
            for value in argument if isinstance(argument, list) else [argument]:
                if value != "others":
                    mentioned.setdefault(position, set()).add(value[0])
    cases = []
    for case in block.cases:
        if not any(isinstance(argument, list) for argument in case.arguments):
            cases.append(case)
            continue
        positions = []
        for position, alternatives in enumerate(case.arguments):
            values = [value for value in alternatives if value != "others"]
            if "others" in alternatives:
                known = mentioned.get(position, set())
                values += [notation.text_value(text) for kind, text in SAMPLES.items() if kind not in known]
            positions.append(values)
        add_product(cases, case.line, case.source, positions, case.expected)
    block.cases = cases


def read_expected(kind, text):
    if found := re.match(r"error\s+(\d+)\s*(.*)$", text, re.S):
        message = notation.text_value(found.group(2))[1] if found.group(2) else ""
        return Failure(int(found.group(1)), message)
    if kind == "find":
        return [] if text == "none" else read_positions(text)[0]
    if kind == "command" and text == "ok":
        return notation.doc()
    return notation.text_value(text)
