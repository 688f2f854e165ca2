"""The shell session that a new user types, with the outputs MongoDB gives."""

import pytest

from mongosh import run_mongosh


@pytest.fixture(scope="module")
def shell(server):
    """Runs a script; each `out(x)` adds to the list that is answered."""

    return lambda script, database="shell": run_mongosh(f"{server.uri}{database}", script)


def test_first_session(shell):
    results = shell("""
        db.dropDatabase();
        out(db.books.insertMany([{_id: 1, t: 'a', n: 3, tags: ['x','y']}, {_id: 2, t: 'b', n: 5}, {_id: 3, t: 'c', n: 7}]).insertedIds);
        out(db.books.find({n: {$gte: 5}}).sort({n: -1}).toArray());
        out(db.books.updateMany({n: {$lt: 6}}, {$inc: {n: 1}, $set: {seen: true}}).modifiedCount);
        out(db.books.aggregate([{$group: {_id: null, s: {$sum: '$n'}}}]).toArray());
        out(db.books.createIndex({n: 1}));
        out(db.books.find({n: 4}).explain().queryPlanner.winningPlan.stage);
        out(db.books.countDocuments());
        out(db.books.getIndexes().map(i => i.name));
        out(db.getCollectionNames());
        out(db.books.distinct('tags'));
        out(db.books.deleteOne({_id: 1}).deletedCount);
        out(db.books.findOne({_id: 2}));
    """)
    assert results == [
        {"0": 1, "1": 2, "2": 3},
        [{"_id": 3, "t": "c", "n": 7}, {"_id": 2, "t": "b", "n": 5}],
        2,
        [{"_id": None, "s": 17}],
        "n_1",
        "FETCH",
        3,
        ["_id_", "n_1"],
        ["books"],
        ["x", "y"],
        1,
        {"_id": 2, "t": "b", "n": 6, "seen": True},
    ]


def test_show_dbs_and_statistics(shell):
    results = shell("""
        db.dropDatabase();
        db.c.insertMany(Array.from({length: 50}, (_, i) => ({_id: i, pad: 'p'.repeat(100)})));
        db.c.createIndex({pad: 1});
        out(db.adminCommand({listDatabases: 1}).databases.map(d => d.name).includes('shell_stats'));
        const s = db.c.stats();
        out([s.ns, s.count, s.nindexes, s.size >= 50 * 100, s.totalIndexSize > 0, s.storageSize > 0]);
        const d = db.stats();
        out([d.db, d.collections, d.objects, d.indexes]);
        out(db.serverStatus().connections.current > 0);
        out(db.version().split('.')[0]);
        out(db.hello().maxWireVersion);
        out(db.c.validate({full: true}).valid);
        out(db.hostInfo().system.numCores > 0);
        out(db.currentOp().inprog.length > 0);
    """, "shell_stats")
    assert results == [
        True, ["shell_stats.c", 50, 2, True, True, True], ["shell_stats", 1, 50, 2], True, "8", 25, True, True, True,
    ]


def test_execution_statistics(shell):
    results = shell("""
        db.dropDatabase();
        db.c.insertMany(Array.from({length: 20}, (_, i) => ({_id: i, a: i})));
        db.c.createIndex({a: -1});
        const e = db.c.find({a: {$gt: 10}}, {_id: 0, a: 1}).explain('executionStats');
        out([e.executionStats.nReturned, e.executionStats.totalKeysExamined, e.executionStats.totalDocsExamined]);
        out(e.queryPlanner.winningPlan.stage);
        out(db.c.aggregate([{$match: {a: 3}}]).explain().ok);
    """, "shell_explain")
    assert results == [[9, 9, 0], "PROJECTION_COVERED", 1]


def test_errors_have_codes_and_texts(shell):
    results = shell("""
        const failing = f => { try { f(); return 'no error'; } catch (e) { return [e.code, e.codeName, e.message]; } };
        out(failing(() => db.runCommand({nope: 1})));
        out(failing(() => db.runCommand({find: 'c', foo: 1})));
        out(failing(() => db.runCommand({find: 'c', filter: 'x'})));
        out(failing(() => db.runCommand({find: 5})));
        out(failing(() => db.c.drop() && db.runCommand({drop: 'c', nope: 1})));
    """, "shell_errors")
    assert results[0] == [59, "CommandNotFound", "no such command: 'nope'"]
    assert results[1] == [40415, "Location40415", "BSON field 'find.foo' is an unknown field."]
    assert results[2] == [14, "TypeMismatch", "BSON field 'find.filter' is the wrong type 'string', expected type 'object'"]
    assert results[3][0:2] in ([73, "InvalidNamespace"], [2, "BadValue"], [14, "TypeMismatch"])
    assert results[4][0] == 40415
