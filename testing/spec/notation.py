"""BSON values in the notation of the scripts, which is that of the examples in crates/lang, and as bytes.

`{ a: 1, "b.c": [1.5, Long(2), Decimal("3"), 'text', /re/i, ObjectId("..."), Date("2020-01-01T00:00:00Z"), Binary(0, "ff") ] }`.
`1` is an int32 (int64 when larger), `1.0` a double. Own codec, since PyMongo has no undefined, symbol or order-proof
documents: a value is the pair (type alias, content), so that int, long and double never compare equal.
"""

import datetime
import math
import re
import struct

from bson.decimal128 import Decimal128

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

MISSING = ("missing", None)
NULL = ("null", None)


class NotationError(Exception):
    pass


def doc(*fields):
    return ("object", list(fields))


def text_value(text):
    value, rest = read(text)
    if rest:
        raise NotationError(f"text after the value: {rest}")
    return value


def read(text):
    """Reads one value; answers it and what follows."""
    reader = Reader(text)
    value = reader.value()
    return value, reader.rest()


NUMBER = re.compile(r"[-+]?(?:Infinity|\d+\.?\d*(?:[eE][-+]?\d+)?)")
NAME = re.compile(r"[\w$.\[\]]+")
WORDS = {
    "true": ("bool", True),
    "false": ("bool", False),
    "null": NULL,
    "undefined": ("undefined", None),
    "missing": MISSING,
    "any": ("any", None),
    "NaN": ("double", math.nan),
    "Infinity": ("double", math.inf),
    "MinKey": ("minKey", None),
    "MaxKey": ("maxKey", None),
}


class Reader:
    def __init__(self, text):
        self.text, self.at = text, 0

    def rest(self):
        return self.text[self.at :].strip()

    def skip(self):
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self):
        self.skip()
        return self.text[self.at : self.at + 1]

    def eat(self, token):
        self.skip()
        found = self.text.startswith(token, self.at)
        self.at += len(token) if found else 0
        return found

    def expect(self, token):
        if not self.eat(token):
            raise NotationError(f"{token} expected at: {self.rest()[:60]}")

    def match(self, pattern):
        found = pattern.match(self.text, self.at)
        if not found:
            raise NotationError(f"a value is expected at: {self.rest()[:60]}")
        self.at = found.end()
        return found.group()

    def value(self):
        c = self.peek()
        if c == "{":
            return self.document()
        if c == "[":
            return self.array()
        if c in "\"'" and c:
            return ("string", self.string())
        if c == "/":
            return self.regex()
        if c and (c in "-+" or c.isdigit()):
            return number(self.match(NUMBER))
        return self.word()

    def document(self):
        self.expect("{")
        fields = []
        while not self.eat("}"):
            name = self.string() if self.peek() in "\"'" else self.match(NAME)
            self.expect(":")
            fields.append((name, self.value()))
            self.eat(",")
        return ("object", fields)

    def array(self):
        self.expect("[")
        items = []
        while not self.eat("]"):
            items.append(self.value())
            self.eat(",")
        return ("array", items)

    def string(self):
        quote = self.peek()
        self.at += 1
        out = []
        while True:
            if self.at >= len(self.text):
                raise NotationError("no end of string")
            c = self.text[self.at]
            self.at += 1
            if c == quote:
                return "".join(out)
            if c == "\\":
                c = self.text[self.at]
                self.at += 1
                if c == "u":
                    c = chr(int(self.text[self.at : self.at + 4], 16))
                    self.at += 4
                else:
                    c = {"n": "\n", "t": "\t", "0": "\0"}.get(c, c)
            out.append(c)

    def regex(self):
        self.expect("/")
        end = self.at
        while self.text[end] != "/":
            end += 2 if self.text[end] == "\\" else 1
        pattern = self.text[self.at : end]
        self.at = end + 1
        return ("regex", (pattern, self.match(re.compile("[a-z]*"))))

    def word(self):
        word = self.match(re.compile(r"\w+"))
        if self.peek() != "(":
            if word in WORDS:
                return WORDS[word]
            raise NotationError(f"unknown word {word}")
        self.expect("(")
        arguments = []
        while not self.eat(")"):
            arguments.append(self.value())
            self.eat(",")
        return call(word, arguments)


def number(text):
    text = text.lstrip("+")
    if text == "-Infinity":
        return ("double", -math.inf)
    if re.fullmatch(r"-?\d+", text):
        value = int(text)
        if -(2**31) <= value < 2**31:
            return ("int", value)
        return ("long", value) if -(2**63) <= value < 2**63 else ("double", float(value))
    return ("double", float(text))


def call(word, arguments):
    contents = [content for _, content in arguments]
    match word, contents:
        case "Long", [value]:
            return ("long", value)
        case "Double", [value]:
            return ("double", float(value))
        case "Decimal", [value]:
            return ("decimal", str(Decimal128(value)))
        case "ObjectId", [value]:
            return ("objectId", bytes.fromhex(value))
        case "Date", [int() as value]:
            return ("date", value)
        case "Date", [str() as value]:
            return ("date", millis(value))
        case "Timestamp", [seconds, increment]:
            return ("timestamp", (seconds, increment))
        case "Binary", [subtype, value]:
            return ("binData", (subtype, bytes.fromhex(value)))
        case "UUID", [value]:
            return ("binData", (4, bytes.fromhex(value.replace("-", ""))))
        case "Symbol", [value]:
            return ("symbol", value)
        case "Code", [value]:
            return ("javascript", value)
        case "CodeWithScope", [value, scope]:
            return ("javascriptWithScope", (value, scope))
        case "DBPointer", [namespace, oid]:
            return ("dbPointer", (namespace, bytes.fromhex(oid)))
        # matchers, for what is expected only
        case "Approx", [value]:
            return ("approx", float(value))
        case "Type", [value]:
            return ("type", value)
        case "Set", [value]:
            return ("set", value)
        case "Matches", [value]:
            return ("matches", value)
        # a string or an array of that many characters or elements: for what is too long to write down
        case "Repeat", [str() as value, int() as times]:
            return ("string", value * times)
        case "RepeatArray", [value, int() as times]:
            return ("array", [arguments[0]] * times)
    raise NotationError(f"unknown notation {word}({contents})")


def millis(text):
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += "T00:00:00Z"
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.timezone.utc)
    return (at - EPOCH) // datetime.timedelta(milliseconds=1)


# ---- printing -------------------------------------------------------------------------------------------------------


def show(value):
    kind, content = value
    match kind:
        case "object":
            return "{ " + ", ".join(f"{show_name(name)}: {show(inner)}" for name, inner in content) + " }" if content else "{}"
        case "array":
            return "[" + ", ".join(map(show, content)) + "]"
        case "string":
            return quoted(content)
        case "double":
            return repr(content).replace("inf", "Infinity").replace("nan", "NaN")
        case "bool":
            return str(content).lower()
        case "int":
            return str(content)
        case "long":
            return f"Long({content})"
        case "decimal":
            return f'Decimal("{content}")'
        case "objectId":
            return f'ObjectId("{content.hex()}")'
        case "date":
            return f"Date({content})"
        case "timestamp":
            return f"Timestamp({content[0]}, {content[1]})"
        case "binData":
            return f'Binary({content[0]}, "{content[1].hex()}")'
        case "regex":
            return f"/{content[0]}/{content[1]}"
        case "symbol" | "javascript":
            return f"{'Symbol' if kind == 'symbol' else 'Code'}({quoted(content)})"
        case "minKey" | "maxKey":
            return kind[0].upper() + kind[1:]
        case "null" | "undefined" | "missing" | "any":
            return kind
        case "approx":
            return f"Approx({content!r})"
        case "set":
            return f"Set([{', '.join(map(show, content))}])"
    return f"{kind}({content!r})"


def quoted(text):
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\0", "\\0")
    return f'"{text}"'


def show_name(name):
    return name if re.fullmatch(r"[\w$]+", name) else quoted(name)


# ---- comparing ------------------------------------------------------------------------------------------------------


def same(got, expected, subset=False):
    """Whether a value is the one expected, types and order of fields included; with `subset`, documents may have more fields."""
    kind, content = expected
    if kind == "any":
        return got[0] != "missing"
    if kind == "type":
        return got[0] == content
    if kind == "matches":
        return got[0] == "string" and re.search(content, got[1]) is not None
    if kind == "set":
        return got[0] == "array" and sorted(map(show, got[1])) == sorted(map(show, content))
    if kind == "approx":
        return got[0] == "double" and math.isclose(got[1], content, rel_tol=1e-13, abs_tol=1e-15)
    if got[0] != kind:
        return False
    if kind == "array":
        return len(got[1]) == len(content) and all(same(a, b, subset) for a, b in zip(got[1], content))
    if kind == "object":
        return same_fields(got[1], content, subset)
    return show(got) == show(expected)


def same_fields(got, expected, subset):
    if not subset:
        return len(got) == len(expected) and all(
            a == b and same(x, y) for (a, x), (b, y) in zip(got, expected)
        )
    found = dict(got)
    return all(same(found.get(name, MISSING), value, True) for name, value in expected)


# ---- bytes ----------------------------------------------------------------------------------------------------------

CODES = {
    "double": 1, "string": 2, "object": 3, "array": 4, "binData": 5, "undefined": 6, "objectId": 7, "bool": 8, "date": 9,
    "null": 10, "regex": 11, "dbPointer": 12, "javascript": 13, "symbol": 14, "javascriptWithScope": 15, "int": 16,
    "timestamp": 17, "long": 18, "decimal": 19, "minKey": 255, "maxKey": 127,
}  # fmt: skip
KINDS = {code: kind for kind, code in CODES.items()}


def encode(fields):
    """The bytes of a document; fields that are missing are left out."""
    body = b"".join(
        bytes([CODES[value[0]]]) + cstring(name) + content_bytes(*value) for name, value in fields if value[0] != "missing"
    )
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def cstring(text):
    return text.encode() + b"\0"


def string_bytes(text):
    data = cstring(text)
    return struct.pack("<i", len(data)) + data


def content_bytes(kind, content):
    match kind:
        case "double":
            return struct.pack("<d", content)
        case "string" | "symbol" | "javascript":
            return string_bytes(content)
        case "object":
            return encode(content)
        case "array":
            return encode([(str(i), item) for i, item in enumerate(content)])
        case "binData":
            subtype, data = content
            data = struct.pack("<i", len(data)) + data if subtype == 2 else data
            return struct.pack("<iB", len(data), subtype) + data
        case "objectId":
            return content
        case "bool":
            return bytes([content])
        case "date" | "long":
            return struct.pack("<q", content)
        case "int":
            return struct.pack("<i", content)
        case "regex":
            return cstring(content[0]) + cstring(content[1])
        case "timestamp":
            return struct.pack("<II", content[1], content[0])
        case "decimal":
            return Decimal128(content).bid
        case "dbPointer":
            return string_bytes(content[0]) + content[1]
        case "javascriptWithScope":
            data = string_bytes(content[0]) + encode(content[1])
            return struct.pack("<i", len(data) + 4) + data
    return b""


def decode(data):
    """The fields of a document."""
    return Decoder(data).fields()


class Decoder:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def cstring(self):
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode()
        self.at = end + 1
        return text

    def string(self):
        return self.take(self.unpack("<i"))[:-1].decode()

    def fields(self):
        self.unpack("<i")
        fields = []
        while code := self.take(1)[0]:
            name = self.cstring()
            kind = KINDS[code]
            fields.append((name, (kind, self.content(kind))))
        return fields

    def content(self, kind):
        match kind:
            case "double":
                return self.unpack("<d")
            case "string" | "symbol" | "javascript":
                return self.string()
            case "object":
                return self.fields()
            case "array":
                return [value for _, value in self.fields()]
            case "binData":
                size, subtype = self.unpack("<i"), self.unpack("<B")
                data = self.take(size)
                return (subtype, data[4:] if subtype == 2 else data)
            case "objectId":
                return self.take(12)
            case "bool":
                return self.take(1) != b"\0"
            case "date" | "long":
                return self.unpack("<q")
            case "int":
                return self.unpack("<i")
            case "regex":
                return (self.cstring(), self.cstring())
            case "timestamp":
                increment, seconds = self.unpack("<I"), self.unpack("<I")
                return (seconds, increment)
            case "decimal":
                return str(Decimal128.from_bid(self.take(16)))
            case "dbPointer":
                return (self.string(), self.take(12))
            case "javascriptWithScope":
                self.unpack("<i")
                return (self.string(), self.fields())
        return None
