"""Random histories of a time series on one server and on three shards behind two routers, while chunks of buckets move."""

import datetime

import bson

import same_answers
from same_answers import BEGIN, Pair, canonical

KEYS = [{"m.s": 1}, {"m.s": 1, "t": 1}, {"t": 1}, {"m": "hashed"}, {"m": 1, "t": 1}, {"m.s": "hashed"}]
OPTIONS = {"timeField": "t", "metaField": "m"}


class SeriesPair(Pair):
    """Pairs of the same time series; `seed` chooses the shard key."""

    def __init__(self, cluster, server, seed):
        super().__init__(cluster, server, seed)
        self.db, self.key = f"series{seed}", KEYS[seed % len(KEYS)]
        self.next_id = 0

    def __enter__(self):
        admin = self.routed[0].admin
        for client in (self.one, self.routed[0]):
            client.drop_database(self.db)
        admin.command("enableSharding", self.db, primaryShard=f"s{self.rng.randrange(3)}")
        self.one[self.db].create_collection("w", timeseries=OPTIONS)
        if self.rng.random() < 0.5:
            # one that has measurements already
            self.routed[0][self.db].create_collection("w", timeseries=OPTIONS)
            self.run(self.insert(30))
            for client in (self.one, self.routed[0]):
                client[self.db].w.create_index([(path, self.key[path]) for path in self.key])
        admin.command("shardCollection", f"{self.db}.w", key=self.key, timeseries=OPTIONS)
        if "hashed" not in self.key.values():
            for at in range(1, 4):
                first = next(iter(self.key))
                values = {"m.s": 3 * at, "t": BEGIN + datetime.timedelta(minutes=150 * at), "m": {"s": 3 * at}}
                bound = {path: values[path] if path == first else bson.MinKey() for path in self.key}
                admin.command("split", f"{self.db}.w", middle=bound)
        self.run(self.insert(60))
        return self

    def time(self):
        return BEGIN + datetime.timedelta(seconds=self.rng.randrange(10 * 3600))

    def owner(self):
        return {"s": self.rng.randrange(12), "x": self.rng.randrange(2)}

    def measurement(self):
        rng = self.rng
        self.next_id += 1
        own = {"_id": self.next_id, "t": self.time(), "m": self.owner(), "v": rng.randrange(100)}
        if rng.random() < 0.1:
            del own["m"]
        if rng.random() < 0.3:
            own["w"] = rng.choice(["a", None, {"y": 1}])
        if rng.random() < 0.02:
            own["t"] = rng.choice([5, None])
        return own

    def insert(self, count):
        return {"insert": "w", "documents": [self.measurement() for _ in range(count)], "ordered": self.rng.random() < 0.7}

    def about_meta(self):
        rng = self.rng
        return rng.choice([{"m.s": rng.randrange(12)}, {"m": self.owner()}, {"m.s": {"$gte": 3, "$lt": rng.randrange(12)}},
                           {"m.s": {"$in": [rng.randrange(12), 5]}}, {"m.x": 1}, {"m": None}])

    def filter(self):
        rng, time = self.rng, self.time()
        return rng.choice([
            {}, self.about_meta(), self.about_meta(), {"t": time}, {"t": {"$gte": time}}, {"t": {"$lt": time, "$gt": time - datetime.timedelta(hours=2)}},
            {**self.about_meta(), "t": {"$lte": time}}, {"v": rng.randrange(100)}, {"v": {"$lt": 40}, "m.s": rng.randrange(12)},
            {"$or": [self.about_meta(), {"t": {"$gt": time}}]}, {"_id": rng.randrange(1, self.next_id + 1)}])

    def step(self):
        rng, kind = self.rng, self.rng.random()
        by_id = {"$sort": {"_id": 1}}
        if kind < 0.25:
            self.run(self.insert(rng.randrange(1, 12)))
        elif kind < 0.32:
            statements = [{"q": {"_id": rng.randrange(1, self.next_id + 1)}, "limit": 1}, {"q": self.filter(), "limit": 0}]
            self.run({"delete": "w", "deletes": [rng.choice(statements)]})
        elif kind < 0.42:
            update = rng.choice([{"$set": {"m.x": rng.randrange(3)}}, {"$inc": {"m.n": 1}}, {"$set": {"v": 1}}, {"$unset": {"m.n": 1}}, {"m": 5}])
            query = self.about_meta() if rng.random() < 0.8 else self.filter()
            # the shard key of many documents is not changed
            if "m" not in self.key or "$set" in update and "v" in update["$set"]:
                self.run({"update": "w", "updates": [{"q": {**query, "m.s": {"$exists": True}, **query}, "u": update, "multi": rng.random() < 0.9}]})
        elif kind < 0.60:
            command = {"find": "w", "filter": self.filter(), "sort": rng.choice([{"_id": 1}, {"t": -1, "_id": 1}, {"m.s": 1, "v": -1, "_id": -1}])}
            self.run({**command, **rng.choice([{}, {"limit": 7}, {"skip": 3, "limit": 9}, {"projection": {"v": 1}}, {"batchSize": 2}])}, True)
        elif kind < 0.65:
            self.run({"count": "w", "query": self.filter()})
        elif kind < 0.69:
            self.run({"distinct": "w", "key": rng.choice(["m.s", "v", "w"]), "query": self.filter()})
        elif kind < 0.88:
            group = {"_id": rng.choice(["$m.s", "$m", None]), "n": {"$sum": 1}, "v": {"$avg": "$v"}, "last": {"$max": "$t"}}
            stages = rng.choice([
                [{"$group": group}, by_id], [{"$sort": {"t": 1, "_id": 1}}, {"$group": {"_id": "$m.x", "all": {"$push": "$v"}}}, by_id],
                [by_id, {"$limit": 5}], [{"$set": {"z": {"$add": ["$v", 1]}}}, by_id],
                [{"$unionWith": {"coll": "w", "pipeline": [{"$match": self.filter()}]}}, {"$group": group}, by_id],
                [{"$lookup": {"from": "w", "localField": "v", "foreignField": "v", "as": "j", "pipeline": [by_id]}}, by_id],
                [{"$setWindowFields": {"partitionBy": "$m.s", "sortBy": {"t": 1}, "output": {"w": {"$sum": "$v", "window": {"documents": [-1, 0]}}}}}, by_id],
            ])
            self.run({"aggregate": "w", "pipeline": [{"$match": self.filter()}, *stages], "cursor": {}}, True)
        elif kind < 0.91:
            self.run(rng.choice([{"createIndexes": "w", "indexes": [{"key": {"v": 1}, "name": "v_1"}]}, {"dropIndexes": "w", "index": "v_1"}]))
        elif kind < 0.94:
            ops = [{"insert": 0, "document": self.measurement()} for _ in range(3)] + [{"delete": 0, "filter": self.about_meta(), "multi": True}]
            self.run({"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": f"{self.db}.w"}]})
        else:
            self.move()

    def move(self, to=None, bound=None):
        admin = self.routed[self.rng.randrange(2)].admin
        uuid = admin.client.config.collections.find_one({"_id": f"{self.db}.system.buckets.w"})["uuid"]
        chunk = self.rng.choice(list(admin.client.config.chunks.find({"uuid": uuid}).sort("min", 1)))
        to = f"s{self.rng.randrange(3)}"
        try:
            admin.command("moveRange", f"{self.db}.w", min=chunk["min"], max=chunk["max"], toShard=to)
        except same_answers.OperationFailure as error:
            # the documents of an earlier move wait for their deletion there
            assert error.code in (46, 117, 208, 210), error

    def compare(self):
        content = lambda client: [canonical(document) for document in client[self.db].w.find().sort("_id", 1)]
        expected = content(self.one)
        for routed in self.routed:
            assert content(routed) == expected, f"{self.key}: {len(expected)} on one server, {len(content(routed))} in the cluster"


def history(cluster, server, seed, steps):
    with SeriesPair(cluster, server, seed) as pair:
        for step in range(steps):
            try:
                pair.step()
                if step % 40 == 39:
                    pair.compare()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}: {error}") from None
        pair.compare()
