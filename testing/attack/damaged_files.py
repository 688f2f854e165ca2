"""One damage per round to a copy of a data directory: a flipped bit, a zeroed, exchanged or repeated page, a cut, grown or missing
file. `arbor check`, `arbor salvage` and `arbor serve` end by themselves, never by a signal; a server that starts shows each document as it was
written, or an error, and never something else. LMDB's pages have no checksums: documents that were damaged there are shown as
they are, and only that is not a finding."""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

import bson.errors
import pymongo
from pymongo.errors import PyMongoError

from support import Attack, directory, ended

from arbor_process import Arbor

DOCUMENTS = 1200
PAGE = 4096
# an operation on a damaged directory may take long, but it ends
SECONDS_MAX = 60


def document(i):
    digest = hashlib.sha256(str(i).encode()).hexdigest()
    return {"_id": i, "k": i * 7919 % 1000, "s": digest * (1 + i % 9), "large": digest.encode() * (1000 if i % 300 == 0 else 0)}


def make(path, engine, cleanly):
    with ended(Arbor(path / "data", ["--storageEngine", engine, "--cacheSize", "64M"])) as arbor:
        arbor.start()
        with pymongo.MongoClient(arbor.uri) as client:
            for name in ("ftree", "lmdb"):
                coll = client.damage.create_collection(name, storageEngine={name: {}})
                coll.create_index("k")
                coll.create_index("s", unique=True)
                coll.insert_many([document(i) for i in range(DOCUMENTS)])
                client.admin.command("fsync")
                coll.delete_many({"_id": {"$gte": DOCUMENTS - 200}})
        if cleanly:
            arbor.stop()
        else:
            time.sleep(0.3)
            arbor.kill()
    return arbor.dbpath


def place_with_data(data, rng, size):
    for _ in range(50):
        at = rng.randrange(max(1, len(data) - size + 1)) // size * size
        if any(data[at:at + size]):
            return at
    return 0


def flip(data, rng):
    at = place_with_data(data, rng, 16) + rng.randrange(16)
    if at < len(data):
        data[at] ^= 1 << rng.randrange(8)


def zero(data, rng):
    size = rng.choice([512, PAGE])
    at = place_with_data(data, rng, size)
    data[at:at + size] = bytes(len(data[at:at + size]))


def scramble(data, rng):
    at = place_with_data(data, rng, PAGE)
    data[at:at + PAGE] = rng.randbytes(len(data[at:at + PAGE]))


def exchange(data, rng):
    one, other = place_with_data(data, rng, PAGE), place_with_data(data, rng, PAGE)
    if max(one, other) + PAGE <= len(data):
        data[one:one + PAGE], data[other:other + PAGE] = data[other:other + PAGE], data[one:one + PAGE]


def repeat(data, rng):
    one, other = place_with_data(data, rng, PAGE), place_with_data(data, rng, PAGE)
    if max(one, other) + PAGE <= len(data):
        data[one:one + PAGE] = data[other:other + PAGE]


def cut(data, rng):
    del data[rng.randrange(len(data) + 1):]


def grow(data, rng):
    data += rng.randbytes(5000)


KINDS = [flip, flip, flip, zero, scramble, exchange, repeat, cut, grow]
LARGE = ("ftree.data", "data.mdb", ".log")


def damage(path, rng):
    """Returns what was done, to which file."""
    files = sorted(f for f in path.rglob("*") if f.is_file() and "lock" not in f.name.lower())
    chosen = rng.choices(files, [8 if f.name.endswith(LARGE) else 2 for f in files])[0]
    name = chosen.relative_to(path)
    if rng.random() < 0.05:
        chosen.unlink()
        return f"{name} removed"
    kind, data = rng.choice(KINDS), bytearray(chosen.read_bytes())
    kind(data, rng)
    chosen.write_bytes(data)
    return f"{name}: {kind.__name__}"


def problems_of_reads(arbor, checked):
    """What a reader sees in the `checked` collections that was never written. Errors are fine."""
    found = []
    with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=5000, socketTimeoutMS=SECONDS_MAX * 1000) as client:
        for name in ("ftree", "lmdb"):
            coll = client.damage[name]
            looks = [lambda: list(coll.find()), lambda: list(coll.find({"k": {"$gte": 0}}).hint("k_1")),
                     lambda: [d for i in range(0, DOCUMENTS, 37) if (d := coll.find_one({"_id": i}))]]
            for look in looks:
                try:
                    found += [f"{name} shows {str(d)[:200]}" for d in look() if name in checked and d != document(d["_id"])][:1]
                except (PyMongoError, bson.errors.InvalidBSON):
                    pass
            try:
                client.damage.validate_collection(name, full=True)
            except PyMongoError:
                pass
    return found


def attack(found, base, path, label):
    target = path / "damaged"
    shutil.copytree(base, target)
    done = f"{label}, {damage(target, found.random)}"
    into = path / "salvaged"
    into.mkdir()
    for command in (["check", "--dbpath", str(target)], ["salvage", "--dbpath", str(target), "--into", str(into)]):
        ran = subprocess.run([os.environ["ARBOR"], *command], capture_output=True, text=True, timeout=SECONDS_MAX)
        found.expect(ran.returncode >= 0, f"{done}: arbor {command[0]} ended by {signal_name(ran.returncode)}")
        found.expect("panicked" not in ran.stderr, f"{done}: arbor {command[0]} panicked: {ran.stderr[-600:]}")
    shutil.rmtree(into)
    with ended(Arbor(target, ["--cacheSize", "64M"])) as arbor:
        try:
            arbor.start(SECONDS_MAX)
        except RuntimeError:
            status = arbor.process.poll()
            found.expect(status is not None and status > 0, f"{done}: the server ends with {status}: {arbor.log_tail()[-600:]}")
        else:
            for problem in problems_of_reads(arbor, ("ftree",) if "data.mdb" in done else ("ftree", "lmdb")):
                found.finding(f"{done}: {problem}")
            status = arbor.process.poll()
            found.expect(status is None, f"{done}: reads end the server with {status}: {arbor.log_tail()[-600:]}")
            if status is None:
                arbor.stop()
                found.expect(arbor.process.returncode >= 0, f"{done}: the shutdown ends by {signal_name(arbor.process.returncode)}")
    shutil.rmtree(target)
    pathlib.Path(arbor.log_path).unlink(missing_ok=True)
    return done


def signal_name(status):
    return signal.Signals(-status).name if status < 0 else str(status)


def main():
    found = Attack(__doc__)
    with directory() as path:
        bases = [(f"{engine} {'closed' if cleanly else 'killed'}", make(path / f"{engine}-{cleanly}", engine, cleanly))
                 for engine in found.engines for cleanly in (True, False)]
        for number, _ in found.rounds():
            label, base = bases[number % len(bases)]
            attack(found, base, path, label)
    found.end(f"{number + 1} damaged directories")


if __name__ == "__main__":
    main()
