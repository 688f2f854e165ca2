"""Runs the blocks of one script in a database of their own."""

import notation
from bson import Int64, ObjectId, Regex
from bson.binary import Binary
from bson.codec_options import CodecOptions
from bson.decimal128 import Decimal128
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from script import Case, Failure

RAW = CodecOptions(document_class=RawBSONDocument)


class Refused(Exception):
    """The server's answer was an error."""

    def __init__(self, code, text):
        super().__init__(f"error {code} {notation.quoted(text)}")
        self.code, self.text = code, text


def to_driver(value):
    """A value as PyMongo takes it, documents as bytes of our own making."""
    kind, content = value
    match kind:
        case "object":
            return RawBSONDocument(notation.encode(content))
        case "array":
            return [to_driver(item) for item in content]
        case "long":
            return Int64(content)
        case "decimal":
            return Decimal128(content)
        case "objectId":
            return ObjectId(content)
        case "timestamp":
            return Timestamp(*content)
        case "regex":
            return Regex(*content)
        case "binData":
            return Binary(content[1], content[0])
        case "null" | "string" | "int" | "double" | "bool":
            return content
    raise notation.NotationError(f"{kind} cannot be at the top of a command")


class Session:
    def __init__(self, client, database):
        self.client, self.database = client, client[database]

    def run(self, fields):
        """Runs a command and returns the fields of the reply. `$db` names another database."""
        fields = dict(fields)
        name = fields.pop("$db", ("string", None))[1]
        database = self.client[name] if name else self.database
        command = {key: to_driver(value) for key, value in fields.items() if value[0] != "missing"}
        reply = notation.decode(database.command(command, check=False, codec_options=RAW).raw)
        found = dict(reply)
        if found["ok"][1] != 1.0:
            raise Refused(found["code"][1], found["errmsg"][1])
        if "writeErrors" in found:
            error = dict(found["writeErrors"][1][0][1])
            raise Refused(error["code"][1], error["errmsg"][1])
        return found

    def command(self, **fields):
        return self.run({key: lift(value) for key, value in fields.items()})

    def batch(self, **fields):
        cursor = dict(self.command(**fields)["cursor"][1])
        documents = list(cursor["firstBatch"][1])
        while cursor["id"][1]:
            collection = cursor["ns"][1].split(".", 1)[1]
            cursor = dict(self.command(getMore=cursor["id"], collection=collection)["cursor"][1])
            documents += cursor["nextBatch"][1]
        return documents

    def insert(self, collection, documents):
        for at in range(0, len(documents), 500):
            self.command(insert=collection, documents=("array", documents[at : at + 500]))

    def replace_all(self, collection, documents):
        self.command(delete=collection, deletes=[{"q": {}, "limit": 0}])
        if documents:
            self.insert(collection, documents)

    def aggregate(self, collection, pipeline, options=()):
        return self.batch(aggregate=collection, pipeline=pipeline, cursor={}, **dict(options))


def lift(value):
    """A value of the notation from a plain Python one; those that are such already stay."""
    match value:
        case tuple():
            return value
        case bool():
            return ("bool", value)
        case int():
            return ("int", value)
        case str():
            return ("string", value)
        case list():
            return ("array", [lift(item) for item in value])
        case dict():
            return ("object", [(name, lift(item)) for name, item in value.items()])
    raise TypeError(f"{value!r}")


# ---- the blocks: each yields (case, what it gave: a value, a list of values, or Refused) ---------------------------------


def attempt(action):
    try:
        return action()
    except Refused as refused:
        return refused


def run_block(session, block):
    return BLOCKS[block.kind](session, block)


def given(session, block):
    collection = block.header or "c"
    session.replace_all(collection, [case.arguments[0] for case in block.cases])
    return []


def substitute(template, case):
    """The template with the values of the case in the place of `@`, or of `@1`, `@2`."""
    return replace_words(template, [notation.show(value) for value in case.arguments])


def replace_words(template, texts):
    for number in range(len(texts), 0, -1):
        template = template.replace(f"@{number}", texts[number - 1])
    return notation.text_value(template.replace("@", texts[0]) if texts else template)


def expression(session, block):
    documents = []
    for number, case in enumerate(block.cases):
        fields = case.arguments[1][1] if not block.header else [(f"v{i}", v) for i, v in enumerate(case.arguments, 1)]
        documents.append(("object", [("_id", ("int", number)), *[f for f in fields if f[0] != "_id"]]))
    session.replace_all("x", documents)
    for number, case in enumerate(block.cases):
        what = case.arguments[0]
        if block.header:
            what = replace_words(block.header, [f'"$v{i}"' for i in range(1, len(case.arguments) + 1)])
        pipeline = [{"$match": {"_id": number}}, {"$replaceWith": ("object", [("r", what)])}]
        yield case, attempt(lambda: field_of(session.aggregate("x", pipeline)[0], "r"))


def field_of(document, name):
    return dict(document[1]).get(name, notation.MISSING)


def find(session, block):
    for case in block.cases:
        filter, options = filter_of(block, case)
        options.setdefault("projection", lift({"_id": 1}))
        result = attempt(lambda: session.batch(find="c", filter=filter, **options))
        if not isinstance(result, Refused):
            result = [field_of(document, "_id") for document in result]
            if "sort" not in options:
                result.sort(key=notation.show)
                if isinstance(case.expected, list):
                    case.expected.sort(key=notation.show)
        yield case, result


def filter_of(block, case):
    if "@" in block.header:
        return substitute(block.header, case), {}
    return case.arguments[0], dict(case.arguments[1][1]) if len(case.arguments) > 1 else {}


def query(session, block):
    for case in block.cases:
        filter, options = filter_of(block, case)
        result = attempt(lambda: session.batch(find="c", filter=filter, **options))
        yield case, result if isinstance(result, Refused) else ("array", result)


def projection(session, block):
    """`DOCUMENT ; PROJECTION [; FILTER] => DOCUMENT`; the result has no `_id` unless the document has."""
    for case in block.cases:
        document, projection, *filter = case.arguments
        has_id = document[1] and document[1][0][0] == "_id"
        session.replace_all("x", [document])
        result = attempt(lambda: session.batch(find="x", filter=filter[0] if filter else {}, projection=projection)[0])
        yield case, result if has_id or isinstance(result, Refused) else without_id(result)


def without_id(document):
    return ("object", [f for f in document[1] if f[0] != "_id"])


def pipeline(session, block):
    for case in block.cases:
        stages, *options = case.arguments
        result = attempt(lambda: session.aggregate(block.header or "c", stages, options[0][1] if options else ()))
        yield case, result if isinstance(result, Refused) else ("array", result)


def update(session, block):
    """`DOCUMENT ; UPDATE [; OPTIONS] => DOCUMENT`; OPTIONS has `q` for the filter, arrayFilters and so on."""
    documents = []
    for number, case in enumerate(block.cases):
        has_id = any(name == "_id" for name, _ in case.arguments[0][1])
        case.key = dict(case.arguments[0][1])["_id"] if has_id else ("int", number)
        case.has_id = has_id
        documents.append(("object", [*([] if has_id else [("_id", case.key)]), *case.arguments[0][1]]))
    session.replace_all("x", documents)
    for case in block.cases:
        options = dict(case.arguments[2][1]) if len(case.arguments) > 2 else {}
        filter = [("_id", case.key), *options.pop("q", notation.doc())[1]]
        yield case, attempt(lambda: updated(session, case, filter, options))


def updated(session, case, filter, options):
    statement = {"q": ("object", filter), "u": case.arguments[1], **options}
    session.command(update="x", updates=[statement])
    document = session.batch(find="x", filter={"_id": case.key})[0]
    return document if case.has_id else without_id(document)


def field(session, block):
    """`VALUE [; OPERAND] => VALUE`: what an update makes of the field `v`; the header is the update."""
    template = block.header
    documents = [("object", [("_id", ("int", n)), ("v", case.arguments[0])]) for n, case in enumerate(block.cases)]
    session.replace_all("x", documents)
    for number, case in enumerate(block.cases):
        yield case, attempt(lambda: field_updated(session, number, substitute(template, case)))


def field_updated(session, number, update):
    session.command(update="x", updates=[{"q": {"_id": number}, "u": update}])
    return field_of(session.batch(find="x", filter={"_id": number})[0], "v")


def upsert(session, block):
    """`FILTER ; UPDATE [; OPTIONS] => DOCUMENT` that was inserted; an `_id` the server made is left out."""
    for case in block.cases:
        session.replace_all("x", [])
        yield case, attempt(lambda: upserted(session, case))


def upserted(session, case):
    filter, update, *options = case.arguments
    statement = {"q": filter, "u": update, "upsert": True, **(dict(options[0][1]) if options else {})}
    session.command(update="x", updates=[statement])
    document = session.batch(find="x", filter={})[0]
    return ("object", [f for f in document[1] if f[0] != "_id" or f[1][0] != "objectId"])


def gathered(session, block, stages):
    """`[VALUES] => RESULT`: the values are the field `v` of documents in that order."""
    documents, key = [], 0
    for number, case in enumerate(block.cases):
        for value in case.arguments[0][1]:
            documents.append(("object", [("_id", ("int", key)), ("g", ("int", number)), *fields_of(value)]))
            key += 1
    session.replace_all("x", documents)
    for number, case in enumerate(block.cases):
        what = replace_words(block.header, [notation.show(v) for v in case.arguments[1:]])
        head = [{"$match": {"g": number}}, {"$sort": {"_id": 1}}]
        yield case, attempt(lambda: stages(session, head, what))


def fields_of(value):
    """A document is the fields themselves when it says so by `$fields`."""
    if value[0] == "object" and value[1] and value[1][0][0] == "$fields":
        return value[1][0][1][1]
    return [("v", value)]


def accumulator(session, block):
    def group(session, head, what):
        documents = session.aggregate("x", [*head, {"$group": {"_id": ("null", None), "r": what}}])
        return field_of(documents[0], "r") if documents else notation.MISSING

    return gathered(session, block, group)


def window(session, block):
    def stage(session, head, what):
        fields = {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": what}}}
        documents = session.aggregate("x", [*head, fields, {"$sort": {"_id": 1}}])
        return ("array", [field_of(document, "r") for document in documents])

    return gathered(session, block, stage)


def command(session, block):
    for case in block.cases:
        yield case, attempt(lambda: ("object", list(session.run(case.arguments[0][1]).items())))


def plan(session, block):
    """`FILTER [; OPTIONS] => "STAGE STAGE"`: the stages of the winning plan from the top."""
    for case in block.cases:
        options = dict(case.arguments[1][1]) if len(case.arguments) > 1 else {}
        what = {"find": "c", "filter": case.arguments[0], **options}
        yield case, attempt(lambda: plan_of(session, what))


def plan_of(session, what):
    reply = session.command(explain=what, verbosity="queryPlanner")
    node = dict(dict(reply["queryPlanner"][1])["winningPlan"][1])
    node = dict(node["queryPlan"][1]) if "queryPlan" in node else node
    return ("string", " ".join(stage_names(node)))


def stage_names(node):
    yield node["stage"][1]
    inner = [node["inputStage"]] if "inputStage" in node else node.get("inputStages", ("array", []))[1]
    for child in inner:
        yield from stage_names(dict(child[1]))


def order(session, block):
    """Lines of equal values in ascending order. Each pair is compared, all are sorted, and where the values of the block are
    of one kind (`order kind`) also found by `$lt` and its like, without an index and with one."""
    ranked = [(rank, value, case) for rank, case in enumerate(block.cases) for value in case.arguments]
    yield from compared(session, ranked)
    for direction in (1, -1):
        stored = ranked[1::2] + ranked[::2]
        session.replace_all("x", [as_document(n, value, rank) for n, (rank, value, _) in enumerate(stored)])
        pipeline = [{"$sort": {"v": direction, "_id": 1}}, {"$group": {"_id": ("null", None), "r": {"$push": "$rank"}}}]
        expected = ("array", [("int", rank) for rank in sorted((rank for rank, _, _ in ranked), reverse=direction < 0)])
        case = Case(block.line, f"sorted {direction}", [], expected)
        yield case, attempt(lambda: field_of(session.aggregate("x", pipeline)[0], "r"))
    if block.header == "kind":
        for indexed in (False, True):
            if indexed:
                session.command(createIndexes="x", indexes=[{"key": {"v": 1}, "name": "v"}])
            yield from bounded(session, ranked)


def as_document(number, value, rank):
    return ("object", [("_id", ("int", number)), ("v", value), ("rank", ("int", rank))])


def compared(session, ranked):
    pairs = [(a, b) for a in ranked for b in ranked]
    documents = [("object", [("_id", ("int", n)), ("a", a[1]), ("b", b[1])]) for n, (a, b) in enumerate(pairs)]
    session.replace_all("x", documents)
    found = session.aggregate("x", [{"$sort": {"_id": 1}}, {"$project": {"r": {"$cmp": ["$a", "$b"]}}}])
    for (a, b), document in zip(pairs, found):
        expected = ("int", (a[0] > b[0]) - (a[0] < b[0]))
        source = f"{notation.show(a[1])} compared with {notation.show(b[1])}"
        yield Case(a[2].line, source, [], expected), field_of(document, "r")


def bounded(session, ranked):
    holds = {"$lt": int.__lt__, "$lte": int.__le__, "$gt": int.__gt__, "$gte": int.__ge__, "$eq": int.__eq__, "$ne": int.__ne__}
    for rank, value, case in ranked:
        for name, comparison in holds.items():
            expected = sorted((("int", r) for r, _, _ in ranked if comparison(r, rank)), key=notation.show)
            filter = ("object", [("v", ("object", [(name, value)]))])
            found = attempt(lambda: session.batch(find="x", filter=filter, batchSize=1000))
            if not isinstance(found, Refused):
                found = ("array", sorted((field_of(document, "rank") for document in found), key=notation.show))
            yield Case(case.line, f"{{ v: {{ {name}: {notation.show(value)} }} }}", [], ("array", expected)), found


BLOCKS = {
    function.__name__: function
    for function in (
        given, expression, find, query, projection, pipeline, update, field, upsert, accumulator, window, command, plan, order,
    )
}  # fmt: skip


def verdict(block, case, result):
    """None when the case holds, else what was given."""
    expected = case.expected
    if isinstance(expected, Failure):
        if isinstance(result, Refused) and result.code == expected.code and expected.text in result.text:
            return None
    elif not isinstance(result, Refused):
        if expected is None:
            return None
        if block.kind == "find":
            holds = len(result) == len(expected) and all(map(notation.same, result, expected))
        else:
            holds = notation.same(result, expected, subset=block.kind == "command")
        if holds:
            return None
    return result if isinstance(result, Refused) else ", ".join(map(notation.show, result)) if isinstance(result, list) else notation.show(result)
