"""dbHash: equal for equal documents, whatever the order of writing."""

import hashlib

import bson


def test_the_digest_is_that_of_the_documents_in_id_order(db):
    documents = [{"_id": n, "x": "y" * n} for n in range(20)]
    db.one.insert_many(documents)
    db.other.insert_many(reversed(documents))
    db.third.insert_many(documents[1:])
    reply = db.command("dbHash")
    expected = hashlib.md5(b"".join(bson.encode(doc) for doc in documents)).hexdigest()
    assert reply["collections"]["one"] == reply["collections"]["other"] == expected
    assert reply["collections"]["third"] != expected
    assert set(reply["uuids"]) == {"one", "other", "third"}
    only = db.command("dbHash", collections=["one"])
    assert list(only["collections"]) == ["one"] and only["md5"] != reply["md5"]
    db.one.update_one({"_id": 3}, {"$set": {"x": "z"}})
    assert db.command("dbHash")["collections"]["one"] != expected
