"""A flow is a script of named steps against one server; see node/flow.mjs, which this mirrors."""

import contextlib
import os
import pathlib
import sys
import time
import traceback

import pymongo

FULL = os.environ.get("DRIVERS_FULL") == "1"
URI = os.environ.get("MONGODB_URI", "mongodb://127.0.0.1:27017/")
TITLE = pathlib.Path(sys.argv[0]).stem
DATABASE = f"drivers_{TITLE}"

_passed, _failed = 0, []


def same(seen, expected, what=""):
    assert seen == expected, f"{what}\n   seen     {seen!r}\n   expected {expected!r}"


@contextlib.contextmanager
def fails(kind, **expected):
    """The block raises `kind`, with these attributes; `text` is a part of the message."""
    caught = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        for name, value in expected.items():
            if name == "text":
                assert value in str(error), f"{value!r} is not in {error}"
            else:
                same(getattr(error, name), value, f"{name} of {error!r}")
        return
    raise AssertionError(f"no {kind.__name__}, but {expected} was expected")


@contextlib.contextmanager
def step(name):
    """Prints what the block added to the list that it is given; a failure does not end the flow."""
    global _passed
    begin, seen = time.monotonic(), []
    try:
        yield seen
        _passed += 1
        detail = f": {' '.join(str(part) for part in seen)}" if seen else ""
        print(f"  ok    {name} ({(time.monotonic() - begin) * 1000:.0f} ms){detail}", flush=True)
    except Exception as error:
        _failed.append(name)
        here = [frame for frame in traceback.extract_tb(error.__traceback__) if "/drivers/python/" in frame.filename]
        where = ", ".join(f"{pathlib.Path(frame.filename).name}:{frame.lineno}" for frame in here)
        print(f"  FAIL  {name}: {type(error).__name__}: {error}\n        at {where}", flush=True)


def empty_database():
    with pymongo.MongoClient(URI, serverSelectionTimeoutMS=10_000) as client:
        client.drop_database(DATABASE)


def finish():
    print(f"{TITLE}: {_passed} steps passed" + (f", {len(_failed)} FAILED: {'; '.join(_failed)}" if _failed else ""))
    sys.exit(1 if _failed else 0)
