"""mongosh: the helpers that people type, scripts that are loaded, and what the shell does at its start."""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

from flow import DATABASE, FULL, URI, empty_database, finish, same, step  # noqa: E402

MONGOSH = HERE.parent.parent / "clients" / "node_modules" / ".bin" / "mongosh"


def uri_of(database):
    """Returns the connection string with a database, which comes before the options."""
    hosts, *options = URI.split("/?")
    return "?".join([f"{hosts.rstrip('/')}/{database}", *options])


def typed(*lines, database=DATABASE):
    """The shell as a user has it: lines on its standard input, its whole output."""
    done = subprocess.run([str(MONGOSH), "--norc", uri_of(database)], input="\n".join(lines) + "\nexit\n",
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def script(text, *arguments):
    """Each `out(x)` adds to the list that is answered."""
    prelude = "const results = []; const out = x => results.push(x); const code = f => { try { return f() ?? 'no error'; } catch (e) { return e.code ?? e.message; } };"
    done = subprocess.run([str(MONGOSH), "--quiet", "--norc", uri_of(DATABASE), *arguments, "--eval",
                           f"{prelude}\n{text}\nprint('RESULT ' + EJSON.stringify(results));"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))[len("RESULT "):])


empty_database()

with step("the start, show and use") as seen:
    output = typed("db.books.insertOne({_id: 1, title: 'T'})", "show dbs", "show collections", "show tables", "use other_db", "db", "show users", "show roles", "show profile", "show logs", "show log startupWarnings", "help", "it")
    for part in ("Using MongoDB:", "8.0", "acknowledged: true", DATABASE, "books", "switched to db other_db", "startupWarnings", "Shell Help"):
        assert part in output, f"{part!r} is not in\n{output}"
    for part in ("MongoServerError", "Error:"):
        assert part not in output, output

with step("statistics: of database and collection, serverStatus, currentOp, hostInfo") as seen:
    results = script("""
        db.c.insertMany(Array.from({length: 300}, (_, i) => ({_id: i, a: i % 10, pad: 'x'.repeat(50)})));
        db.c.createIndex({a: 1});
        const s = db.c.stats({indexDetails: true}); out([s.ns.split('.')[1], s.count, s.nindexes, s.capped, Object.keys(s.indexSizes)]);
        out([db.c.totalIndexSize() > 0, db.c.dataSize() > 0, db.c.storageSize() > 0, db.c.totalSize() > 0, db.c.isCapped()]);
        const d = db.stats(1024); out([d.collections, d.objects, d.indexes, d.scaleFactor]);
        const t = db.serverStatus(); out([t.ok, t.process, t.connections.current > 0, t.opcounters.insert >= 300]);
        out(db.currentOp().inprog.length > 0); out(db.currentOp({$all: true}).ok);
        out(db.hostInfo().ok); out(db.version().startsWith('8.0')); out(db.serverBuildInfo().bits); out(db.serverCmdLineOpts().ok);
        out(db.getMongo().getDBNames().includes(db.getName())); out(db.c.latencyStats ? 'has' : 'no');
        out(db.getCollectionInfos({name: 'c'})[0].type); out(db.getProfilingStatus().was); out(db.hello().isWritablePrimary);
        out(db.adminCommand('ping').ok); out(db.runCommand({connectionStatus: 1}).ok); out(db.listCommands().find !== undefined);
        out(db.c.getIndexes().map(i => i.name)); out(db.c.getIndexKeys()); out(db.c.exists() !== null); out(db.c.getShardVersion ? 1 : 1);
    """)
    same(results[0], ["c", 300, 2, False, ["_id_", "a_1"]])
    same(results[1], [True, True, True, True, False])
    same(results[2], [2, 301, 3, 1024])
    same(results[3], [1, "mongod", True, True])
    same(results[4:10], [True, 1, 1, True, 64, 1])

with step("explain in all forms") as seen:
    results = script("""
        out(db.c.find({a: 3}).explain().queryPlanner.winningPlan.inputStage.stage);
        out(db.c.explain('executionStats').find({a: 3}).sort({_id: -1}).finish().executionStats.nReturned);
        out(db.c.explain().aggregate([{$match: {a: 3}}, {$group: {_id: '$a'}}]).ok);
        out(db.c.explain('allPlansExecution').count({a: 3}).executionStats.executionStages.stage);
        out(db.c.explain().remove({a: 3}).queryPlanner.winningPlan.stage);
        out(db.c.explain().update({a: 3}, {$set: {b: 1}}).queryPlanner.winningPlan.stage);
        out(db.c.explain().distinct('a').queryPlanner.winningPlan.stage);
        out(db.c.explain().findAndModify({query: {a: 3}, update: {$set: {b: 1}}}).queryPlanner.winningPlan.stage);
        out(db.c.find({_id: 5}).explain().queryPlanner.winningPlan.stage);
    """)
    same(results[0:2], ["IXSCAN", 30])
    same(results[2], 1)
    same([results[4], results[5]], ["DELETE", "UPDATE"])
    seen.append(results)

with step("cursors, bulk API, legacy helpers") as seen:
    results = script("""
        out(db.c.find().batchSize(7).toArray().length); out(db.c.find({a: 1}).size()); out(db.c.find({a: 1}).limit(3).itcount());
        out(db.c.find().sort({_id: -1}).limit(1).next()._id); out(db.c.find({a: {$lt: 2}}).map(d => d.a).toArray().length); out(db.c.count({a: 1}));
        const bulk = db.c.initializeUnorderedBulkOp(); bulk.insert({_id: 1000}); bulk.find({_id: 1}).updateOne({$set: {z: 1}}); bulk.find({_id: 2}).upsert().replaceOne({z: 2}); bulk.find({_id: 1000}).deleteOne();
        const r = bulk.execute(); out([r.insertedCount, r.matchedCount, r.deletedCount]);
        out(db.c.findAndModify({query: {_id: 1}, update: {$inc: {z: 1}}, new: true}).z);
        out(db.c.insert({_id: 'x'}).acknowledged); out(db.c.update({_id: 'x'}, {$set: {q: 1}}).modifiedCount); out(db.c.remove({_id: 'x'}).deletedCount);
        out(code(() => db.c.insertOne({_id: 1}))); out(db.c.distinct('a').length); out(db.c.aggregate([{$count: 'n'}]).toArray()[0].n);
        out(db.c.renameCollection('d').ok); out(db.d.dropIndex('a_1').ok); out(db.d.drop()); out(db.createCollection('e', {capped: true, size: 5000}).ok); out(db.e.convertToCapped(9000).ok); out(db.e.validate().valid);
        out(code(() => db.e.mapReduce(() => {}, () => {}, {out: {inline: 1}})));
        out(code(() => rs.status())); out(code(() => sh.status())); out(code(() => db.watch().tryNext())); out(code(() => db.nope.dropIndex('x')));
        out(code(() => db.createUser({user: 'u', pwd: 'p', roles: []}))); out(db.getUsers().users); db.dropUser('u'); out(code(() => db.setProfilingLevel(0, {slowms: 200}).ok)); out(code(() => { db.fsyncLock(); db.fsyncUnlock(); })); out(db.c.hashCode === undefined);
        const s = db.getMongo().startSession(); out(s.getDatabase(db.getName()).e.countDocuments({})); s.endSession();
    """)
    same(results[:6], [300, 30, 3, 299, 60, 30])
    same(results[6], [1, 2, 1])
    same(results[7:14], [1 + 1, True, 1, 1, 11000, 10, 300])
    same(results[14:20], [1, 1, True, 1, 1, True])
    seen.append(results[20:])

with step("load and files as scripts, EJSON, --json output") as seen:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "fill.js")
        path.write_text(f"function fill(n) {{ for (let i = 0; i < n; i++) db.loaded.insertOne({{i}}); }}\nfill({500 if FULL else 50});\n")
        same(script(f"load({json.dumps(str(path))}); fill(5); out(db.loaded.countDocuments());"), [505 if FULL else 55])
        done = subprocess.run([str(MONGOSH), "--quiet", "--norc", uri_of(DATABASE), str(path)], capture_output=True, text=True, timeout=120)
        same((done.returncode, done.stderr), (0, ""))
    done = subprocess.run([str(MONGOSH), "--quiet", "--norc", "--json=canonical", uri_of(DATABASE), "--eval", "({n: Long(5), d: Decimal128('1.5'), when: new Date(0)})"], capture_output=True, text=True, timeout=120)
    same(json.loads(done.stdout), {"n": {"$numberLong": "5"}, "d": {"$numberDecimal": "1.5"}, "when": {"$date": {"$numberLong": "0"}}})

finish()
