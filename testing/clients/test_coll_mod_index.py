"""collMod changes indexes while they stay where they are, and makes them unique."""

import pytest
from pymongo.errors import DuplicateKeyError, OperationFailure


def error_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code, caught.value.details


def coll_mod(db, **fields):
    dry_run = {"dryRun": True} if fields.pop("dryRun", False) else {}
    return db.command("collMod", "c", index={"name": "a_1", **fields}, **dry_run)


def stage_of(db):
    plan = db.c.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]
    return plan.get("inputStage", plan)["stage"]


def test_hidden(db):
    db.c.create_index("a")
    db.c.insert_many([{"a": i} for i in range(10)])
    assert stage_of(db) == "IXSCAN"
    reply = coll_mod(db, hidden=True)
    assert (reply["hidden_old"], reply["hidden_new"]) == (False, True)
    assert stage_of(db) == "COLLSCAN" and db.c.index_information()["a_1"]["hidden"] is True
    assert "hidden_old" not in coll_mod(db, hidden=True)
    db.c.insert_one({"a": 1})
    assert coll_mod(db, hidden=False)["hidden_new"] is False
    assert stage_of(db) == "IXSCAN" and db.c.count_documents({"a": 1}) == 2
    assert "hidden" not in db.c.index_information()["a_1"]


def test_to_a_unique_index(db):
    db.c.create_index("a")
    db.c.insert_many([{"_id": i, "a": a} for i, a in enumerate([1, 2, 2, 3])])
    assert error_of(lambda: coll_mod(db, unique=True))[0] == 72
    reply = coll_mod(db, prepareUnique=True)
    assert (reply["prepareUnique_old"], reply["prepareUnique_new"]) == (False, True)
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"a": 3})
    with pytest.raises(DuplicateKeyError):
        db.c.update_one({"_id": 0}, {"$set": {"a": 2}})
    for dry_run in [True, False]:
        code, details = error_of(lambda: coll_mod(db, unique=True, dryRun=dry_run))
        assert code == 359 and details["violations"] == [{"ids": [1, 2]}]
        assert details["errmsg"].startswith("Cannot convert the index to unique.")
    db.c.delete_one({"_id": 2})
    assert "unique_new" not in coll_mod(db, unique=True, dryRun=True)
    assert coll_mod(db, unique=True)["unique_new"] is True
    shown = db.c.index_information()["a_1"]
    assert shown["unique"] is True and "prepareUnique" not in shown
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"a": 3})
    assert db.c.count_documents({"a": 2}) == 1 and db.validate_collection("c", full=True)["valid"]


def test_what_cannot_be_changed(db):
    db.c.create_index("a")
    db.c.create_index([("a", 1), ("b", 1)])
    run = lambda **index: error_of(lambda: db.command("collMod", "c", index=index))[0]  # noqa: E731
    assert run(name="x", hidden=True) == 27
    assert run(name="_id_", hidden=True) == 2
    assert run(name="a_1_b_1", expireAfterSeconds=5) == 72
    assert run(name="a_1", expireAfterSeconds=-5) == 72
    assert run(name="a_1", expireAfterSeconds="x") == 14
    assert run(name="a_1") == 72
    assert run(hidden=True) == 72
    assert error_of(lambda: db.command("collMod", "none", index={"name": "a_1", "hidden": True}))[0] == 26
