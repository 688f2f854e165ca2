"""Snapshot reads at a time show the rows that an engine switch brought, also when nothing was written before it."""

import pytest

DOCUMENTS = 2000


@pytest.mark.parametrize("engine,other", [("ftree", "lmdb"), ("lmdb", "ftree")])
def test_rows_of_an_engine_switch_are_in_past_states(set_client, engine, other):
    db = set_client[f"past_{engine}"]
    db.create_collection("c", storageEngine={engine: {}})
    db.c.insert_many([{"_id": i} for i in range(DOCUMENTS)])

    def seen(time=None):
        concern = {"level": "snapshot"} if time is None else {"level": "snapshot", "atClusterTime": time}
        command = {"find": "c", "batchSize": DOCUMENTS + 1, "singleBatch": True, "readConcern": concern}
        return len(db.command(command)["cursor"]["firstBatch"])

    # a state of the same time is held from before the switch
    assert seen() == DOCUMENTS
    switched = db.command("collMod", "c", storageEngine={other: {}})["operationTime"]
    db.other.insert_one({})
    assert seen(switched) == DOCUMENTS
    assert db.c.count_documents({}) == DOCUMENTS
    set_client.drop_database(db.name)
