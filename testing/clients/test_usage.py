"""`top` and `$collStats.latencyStats`: how much each collection is used."""


def used(client, namespace):
    return client.admin.command("top")["totals"].get(namespace)


def test_top_counts_by_collection(client, db):
    namespace = f"{db.name}.c"
    assert used(client, namespace) is None
    db.c.insert_many([{"_id": n} for n in range(10)])
    list(db.c.find(batch_size=4))
    db.c.update_one({"_id": 1}, {"$set": {"a": 1}})
    db.c.delete_one({"_id": 2})
    db.c.count_documents({})
    row = used(client, namespace)
    assert [row[kind]["count"] for kind in ("queries", "getmore", "insert", "update", "remove", "commands")] == [1, 2, 1, 1, 1, 1]
    assert row["total"]["count"] == 7 and row["writeLock"]["count"] == 3 and row["total"]["time"] > 0


def test_latencies_of_a_collection(client, db):
    db.create_collection("c")
    for _ in range(3):
        db.c.find_one({"_id": 1})
    db.c.insert_one({"_id": 1})
    latencies = next(db.c.aggregate([{"$collStats": {"latencyStats": {"histograms": True}}}]))["latencyStats"]
    assert latencies["reads"]["ops"] == 3 and latencies["writes"]["ops"] == 1
    assert sum(row["count"] for row in latencies["reads"]["histogram"]) == 3
    assert "histogram" not in next(db.c.aggregate([{"$collStats": {"latencyStats": {}}}]))["latencyStats"]["writes"]


def test_what_is_dropped_or_renamed_begins_again(client, db):
    db.c.insert_one({})
    db.c.drop()
    assert used(client, f"{db.name}.c") is None
    db.c.insert_one({})
    assert used(client, f"{db.name}.c")["insert"]["count"] == 1
    db.c.rename("d")
    assert used(client, f"{db.name}.c") is None
    db.d.find_one()
    assert used(client, f"{db.name}.d")["total"]["count"] == 1
    client.drop_database(db.name)
    assert used(client, f"{db.name}.d") is None


def test_what_is_not_there_is_not_counted(client, db):
    db.none.find_one()
    assert used(client, f"{db.name}.none") is None


def test_views_and_time_series_are_counted(client, db):
    db.create_collection("v", viewOn="c", pipeline=[])
    db.create_collection("series", timeseries={"timeField": "t"})
    for name in ("v", "series"):
        db[name].find_one()
        assert used(client, f"{db.name}.{name}")["queries"]["count"] == 1
        db[name].drop()
        assert used(client, f"{db.name}.{name}") is None
