"""Transfers between accounts in transactions, under kill -9: the sum never changes.

8 clients move money between accounts on all engines that are named, each transfer with an entry in a journal; readers add all
accounts up in snapshot transactions meanwhile. A kill leaves the clients at work: the driver tries transactions and commits without an
answer again at the server that came back. Then the sum is right, every acknowledged transfer is in the journal exactly once, and
the accounts are what the journal says.
"""

import random
import threading
import time

import pymongo
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from campaign import Problems, arguments, set_server

ACCOUNTS, START, CLIENTS = 40, 100, 8
CONCERNS = dict(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))


def accounts(db, engines, number):
    return db[f"accounts_{engines[number % len(engines)]}"]


class Teller(threading.Thread):
    def __init__(self, number, uri, engines, first, seed):
        super().__init__(daemon=True)
        self.number, self.uri, self.engines, self.next, self.rng = number, uri, engines, first, random.Random(seed)
        self.acknowledged, self.attempts, self.failure, self.stopping = [], 0, None, False

    def run(self):
        try:
            with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=20000) as client:
                with client.start_session() as session:
                    while not self.stopping:
                        _id = f"{self.number}-{self.next}"
                        self.next += 1
                        session.with_transaction(lambda s: self.transfer(client.bank, s, _id), **CONCERNS)
                        self.acknowledged.append(_id)
        except PyMongoError as error:
            self.failure = f"teller {self.number}: {error}"

    def transfer(self, db, session, _id):
        self.attempts += 1
        source, to = self.rng.sample(range(ACCOUNTS), 2)
        amount = self.rng.randint(1, 10)
        taken = accounts(db, self.engines, source).find_one_and_update(
            {"_id": source, "balance": {"$gte": amount}}, {"$inc": {"balance": -amount}}, session=session)
        if taken is None:
            amount = 0
        accounts(db, self.engines, to).update_one({"_id": to}, {"$inc": {"balance": amount}}, session=session)
        db.journal.insert_one({"_id": _id, "from": source, "to": to, "amount": amount}, session=session)


class Auditor(threading.Thread):
    """Adds all accounts up in one snapshot, again and again."""

    def __init__(self, uri, engines):
        super().__init__(daemon=True)
        self.uri, self.engines, self.wrong, self.audits, self.stopping = uri, engines, [], 0, False

    def run(self):
        with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=20000) as client:
            with client.start_session() as session:
                while not self.stopping:
                    try:
                        session.with_transaction(lambda s: self.audit(client.bank, s), **CONCERNS)
                    except PyMongoError as error:
                        self.wrong.append(f"an audit failed: {error}")
                        return

    def audit(self, db, session):
        total = sum(d["balance"] for engine in self.engines for d in db[f"accounts_{engine}"].find({}, session=session))
        self.audits += 1
        if total != ACCOUNTS * START:
            self.wrong.append(f"a snapshot held {total}")


def problems_of(db, engines, acknowledged):
    found = []
    journal = {entry["_id"]: entry for entry in db.journal.find()}
    lost = [_id for _id in acknowledged if _id not in journal]
    if lost:
        found.append(f"{len(lost)} acknowledged transfers are lost: {lost[:5]}")
    balances = dict.fromkeys(range(ACCOUNTS), START)
    for entry in journal.values():
        balances[entry["from"]] -= entry["amount"]
        balances[entry["to"]] += entry["amount"]
    stored = {d["_id"]: d["balance"] for engine in engines for d in db[f"accounts_{engine}"].find()}
    if stored != balances:
        found.append(f"the accounts are not what the journal says: {sum(stored.values())}, {sum(balances.values())}")
    for name in ["journal"] + [f"accounts_{engine}" for engine in engines]:
        if not db.command("validate", name, full=True)["valid"]:
            found.append(f"validate {name}")
    return found


def run(arbor, args, rng, engines):
    with pymongo.MongoClient(arbor.uri) as client:
        for engine in engines:
            client.bank.create_collection(f"accounts_{engine}", storageEngine={engine: {}})
        for number in range(ACCOUNTS):
            accounts(client.bank, engines, number).insert_one({"_id": number, "balance": START})
        client.bank.create_collection("journal")
    acknowledged, first, attempts, audits = [], 0, 0, 0
    for kill in range(args.kills):
        tellers = [Teller(n, arbor.uri, engines, first, rng.random()) for n in range(CLIENTS)]
        auditor = Auditor(arbor.uri, engines)
        for thread in [*tellers, auditor]:
            thread.start()
        time.sleep(rng.uniform(0.3, args.seconds))
        arbor.kill()
        seconds = arbor.start()
        time.sleep(0.5)
        for thread in [*tellers, auditor]:
            thread.stopping = True
        for thread in [*tellers, auditor]:
            thread.join(60)
        first = max(teller.next for teller in tellers)
        now = [_id for teller in tellers for _id in teller.acknowledged]
        acknowledged += now
        attempts, audits = attempts + sum(t.attempts for t in tellers), audits + auditor.audits
        with pymongo.MongoClient(arbor.uri) as client:
            found = problems_of(client.bank, engines, acknowledged) + auditor.wrong
            found += [teller.failure for teller in tellers if teller.failure]
        if not now or not auditor.audits:
            found.append("nothing was done")
        print(f"kill {kill + 1}: {len(now)} transfers, {auditor.audits} audits, primary again after {seconds:.2f} s, "
              f"{'PROBLEMS' if found else 'ok'}", flush=True)
        if found:
            raise Problems(*found)
    print(f"{args.kills} kills, {len(acknowledged)} acknowledged transfers in {attempts} attempts, {audits} audits, the sum never changed")


def main():
    args, rng = arguments(__doc__, kills=20, seconds=4.0, engines="ftree,lmdb")
    engines = args.engines.split(",")
    with set_server("bank", engines[0]) as arbor:
        run(arbor, args, rng, engines)


if __name__ == "__main__":
    main()
