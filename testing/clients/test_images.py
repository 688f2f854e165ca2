"""changeStreamPreAndPostImages: set by create and collMod, shown by listCollections, refused where it means nothing."""

import pytest
from pymongo.errors import OperationFailure


def options(db, name="c"):
    return db.command("listCollections", filter={"name": name})["cursor"]["firstBatch"][0]["options"]


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def test_it_is_set_and_shown_while_it_is_enabled(db):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    assert options(db) == {"changeStreamPreAndPostImages": {"enabled": True}}
    db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": False})
    assert options(db) == {}
    db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True}, validationLevel="off")
    assert options(db) == {"changeStreamPreAndPostImages": {"enabled": True}, "validationLevel": "off"}
    db.create_collection("d", changeStreamPreAndPostImages={"enabled": False})
    assert options(db, "d") == {}


def test_it_is_checked(db, client):
    for bad, code in [({}, 40414), ({"enabled": True, "more": 1}, 40415), ({"enabled": "yes"}, 14), (1, 14)]:
        assert code_of(lambda: db.command("create", "x", changeStreamPreAndPostImages=bad)) == code, bad
    on = {"enabled": True}
    assert code_of(lambda: client.admin.command("create", "x", changeStreamPreAndPostImages=on)) == 72
    db.command("create", "v", viewOn="c", pipeline=[])
    assert code_of(lambda: db.command("collMod", "v", changeStreamPreAndPostImages=on)) == 72
    assert code_of(lambda: db.command("collMod", "missing", changeStreamPreAndPostImages=on)) == 26
