"""What GUI tools ask: Compass (connection, sidebar, schema, indexes, explain, performance), mongo-express, mongotop, mongostat."""

import pymongo
from flow import DATABASE, URI, empty_database, fails, finish, same, step
from pymongo.errors import OperationFailure

empty_database()
client = pymongo.MongoClient(URI, appname="MongoDB Compass")
admin, db = client.admin, client[DATABASE]
people = db.people
people.insert_many([{"_id": n, "name": f"n{n}", "age": n % 50, "tags": ["a", n % 3], "maybe": None if n % 2 else {"x": n}} for n in range(500)])
people.create_index([("age", 1), ("name", -1)])
db.create_collection("adults", viewOn="people", pipeline=[{"$match": {"age": {"$gte": 18}}}])
db.create_collection("small", capped=True, size=4096)


def has(reply, *paths):
    """Every dotted path is in the reply."""
    for path in paths:
        value = reply
        for part in path.split("."):
            assert isinstance(value, dict) and part in value, f"{path} is missing in {list(value) if isinstance(value, dict) else value}"
            value = value[part]


with step("connection: status, host, build, options, parameters, log") as seen:
    has(admin.command("connectionStatus", showPrivileges=True), "authInfo.authenticatedUsers", "authInfo.authenticatedUserRoles", "authInfo.authenticatedUserPrivileges")
    has(admin.command("hostInfo"), "system.hostname", "system.memSizeMB", "system.numCores", "system.cpuArch", "os.type", "os.name", "os.version", "extra")
    has(admin.command("buildInfo"), "version", "gitVersion", "versionArray", "modules", "bits", "maxBsonObjectSize", "storageEngines", "openssl", "javascriptEngine", "allocator", "debug")
    has(admin.command("getCmdLineOpts"), "argv", "parsed")
    same(admin.command("getParameter", featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"], "8.0")
    has(admin.command("getLog", "startupWarnings"), "totalLinesWritten", "log")
    has(admin.command("getLog", "*"), "names")
    for name in ("atlasVersion", "isdbgrid", "getShardMap"):
        with fails(OperationFailure, code=59, text=f"no such command: '{name}'"):
            admin.command(name)
    for name in ("replSetGetStatus", "replSetGetConfig"):
        with fails(OperationFailure, code=76, text="not running with --replSet"):
            admin.command(name)
    has(admin.command("hello"), "isWritablePrimary", "maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "localTime", "logicalSessionTimeoutMinutes", "connectionId", "minWireVersion", "maxWireVersion", "readOnly")
    with fails(OperationFailure, code=20):
        admin.command("getDefaultRWConcern")
    same(admin.command("getFreeMonitoringStatus")["ok"], 1)

with step("sidebar: databases, collections, statistics") as seen:
    has(admin.command("listDatabases", nameOnly=True), "databases")
    full = admin.command("listDatabases", filter={"name": DATABASE}, authorizedDatabases=True)
    has(full, "totalSize", "totalSizeMb")
    has(full["databases"][0], "name", "sizeOnDisk", "empty")
    listed = {one["name"]: one for one in db.command("listCollections", authorizedCollections=True)["cursor"]["firstBatch"]}
    same({name: one["type"] for name, one in listed.items() if name != "system.views"}, {"people": "collection", "adults": "view", "small": "collection"})
    has(db.command("dbStats"), "db", "collections", "views", "objects", "avgObjSize", "dataSize", "storageSize", "indexes", "indexSize", "totalSize", "scaleFactor", "fsUsedSize", "fsTotalSize", "ok")
    row = next(people.aggregate([{"$collStats": {"storageStats": {"scale": 1}}}]))
    has(row, "ns", "host", "localTime", "storageStats.size", "storageStats.count", "storageStats.avgObjSize", "storageStats.storageSize", "storageStats.freeStorageSize", "storageStats.capped", "storageStats.nindexes", "storageStats.totalIndexSize", "storageStats.totalSize", "storageStats.indexSizes", "storageStats.indexBuilds", "storageStats.scaleFactor")
    has(next(people.aggregate([{"$collStats": {"count": {}, "latencyStats": {"histograms": True}}}])), "count", "latencyStats.reads.ops", "latencyStats.reads.latency", "latencyStats.writes.histogram")
    has(db.command("collStats", "people"), "ns", "count", "size", "avgObjSize", "storageSize", "nindexes", "indexSizes", "capped", "totalSize")
    same(next(people.aggregate([{"$collStats": {"storageStats": {}}}, {"$group": {"_id": None, "n": {"$sum": "$storageStats.count"}}}]))["n"], 500)

with step("documents tab: find with count, schema analysis by $sample") as seen:
    same(len(list(people.find({}, limit=20, skip=0, max_time_ms=60000, sort=[("_id", -1)], batch_size=20))), 20)
    same(people.count_documents({}, hint="_id_", maxTimeMS=5000), 500)
    same(list(people.aggregate([{"$match": {"age": 3}}, {"$count": "count"}], maxTimeMS=5000)), [{"count": 10}])
    same(len(list(people.aggregate([{"$match": {}}, {"$sample": {"size": 100}}], allowDiskUse=True, maxTimeMS=10000))), 100)
    kinds = list(people.aggregate([{"$sample": {"size": 500}}, {"$project": {"t": {"$type": "$maybe"}}}, {"$group": {"_id": "$t", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]))
    same(kinds, [{"_id": "null", "n": 250}, {"_id": "object", "n": 250}])
    same(len(list(db.adults.aggregate([{"$sample": {"size": 5}}]))), 5)
    same(people.find_one_and_update({"_id": 1, "name": "n1"}, {"$set": {"name": "edited"}}, return_document=True)["name"], "edited")
    same(people.find_one_and_replace({"_id": 1}, {"name": "n1"}, return_document=True)["name"], "n1")
    same(list(people.find({"$expr": {"$gt": [{"$bsonSize": "$$ROOT"}, 10_000]}})), [])

with step("indexes tab: $indexStats, listIndexes, sizes, hide, drop") as seen:
    rows = {row["name"]: row for row in people.aggregate([{"$indexStats": {}}])}
    has(rows["age_1_name_-1"], "key", "host", "accesses.ops", "accesses.since", "spec.v")
    same(sorted(people.index_information()), ["_id_", "age_1_name_-1"])
    has(next(people.aggregate([{"$collStats": {"storageStats": {}}}, {"$project": {"s": "$storageStats.indexSizes"}}])), "s._id_", "s.age_1_name_-1")
    reply = db.command("collMod", "people", index={"name": "age_1_name_-1", "hidden": True})
    same((reply["hidden_old"], reply["hidden_new"]), (False, True))
    db.command("collMod", "people", index={"name": "age_1_name_-1", "hidden": False})

with step("explain tab draws stages") as seen:
    plan = db.command("explain", {"find": "people", "filter": {"age": 3}, "sort": {"name": 1}}, verbosity="allPlansExecution")
    has(plan, "explainVersion", "queryPlanner.namespace", "queryPlanner.parsedQuery", "queryPlanner.winningPlan.stage", "queryPlanner.rejectedPlans", "executionStats.executionSuccess", "executionStats.nReturned",
        "executionStats.executionTimeMillis", "executionStats.totalKeysExamined", "executionStats.totalDocsExamined", "executionStats.executionStages.stage", "executionStats.executionStages.executionTimeMillisEstimate",
        "executionStats.executionStages.works", "executionStats.executionStages.advanced", "command", "serverInfo.host", "serverInfo.port", "serverInfo.version", "serverParameters")
    stages, stage = [], plan["executionStats"]["executionStages"]
    while stage:
        stages.append(stage["stage"])
        stage = stage.get("inputStage")
    same(stages, ["FETCH", "IXSCAN"])
    pipeline = db.command("explain", {"aggregate": "people", "pipeline": [{"$match": {"age": 3}}, {"$group": {"_id": "$name"}}], "cursor": {}}, verbosity="executionStats")
    same([list(stage)[0] for stage in pipeline["stages"]], ["$cursor", "$group"])
    seen.append(" <- ".join(stages))

with step("performance tab, mongostat, mongotop: serverStatus, top, currentOp") as seen:
    has(admin.command("serverStatus"), "host", "version", "process", "pid", "uptime", "localTime", "asserts.regular", "connections.current", "connections.available", "extra_info.page_faults",
        "globalLock.activeClients.readers", "globalLock.currentQueue.total", "mem.resident", "mem.virtual", "network.bytesIn", "network.bytesOut", "network.numRequests", "opcounters.insert", "opcounters.query",
        "opcounters.update", "opcounters.delete", "opcounters.getmore", "opcounters.command", "metrics.cursor.open.total", "metrics.document.inserted", "storageEngine.name", "logicalSessionRecordCache", "transactions")
    top = admin.command("top")["totals"]
    has(top[f"{DATABASE}.people"], "total.time", "readLock.count", "writeLock.time", "queries", "getmore", "insert", "update", "remove", "commands")
    has(admin.command("currentOp", 1), "inprog")
    operations = list(admin.aggregate([{"$currentOp": {"allUsers": True, "idleConnections": False}}, {"$match": {"active": True}}]))
    has(operations[0], "opid", "host", "desc", "op", "ns", "command", "secs_running", "microsecs_running", "currentOpTime")
    same(db.command("profile", -1)["was"] in (0, 1), True)

with step("create dialogs: validation rules, database and collection, rename, view, drop") as seen:
    db.command("collMod", "people", validator={"$jsonSchema": {"required": ["name"]}}, validationLevel="moderate", validationAction="warn")
    same(db.command("listCollections", filter={"name": "people"})["cursor"]["firstBatch"][0]["options"]["validationLevel"], "moderate")
    same(list(people.aggregate([{"$match": {"$nor": [{"$jsonSchema": {"required": ["name"]}}]}}, {"$limit": 1}])), [])
    admin.command("renameCollection", f"{DATABASE}.small", to=f"{DATABASE}.tiny", dropTarget=False)
    db.command("collMod", "adults", viewOn="people", pipeline=[])
    same(db.adults.count_documents({}), 500)
    db.drop_collection("tiny")

with step("mongo-express: its start and its pages") as seen:
    same(sorted(one["name"] for one in db.command("listCollections", nameOnly=True)["cursor"]["firstBatch"] if one["name"] != "system.views"), ["adults", "people"])
    has(admin.command("serverStatus"), "opcounters", "connections")
    same(people.estimated_document_count(), 500)
    has(db.command("collStats", "people", scale=1024), "scaleFactor")
    same(list(people.find({"name": {"$regex": "n12", "$options": "i"}}).sort("_id", 1).skip(0).limit(10))[0]["_id"], 12)
    same(db.command("validate", "people", full=True)["valid"], True)
    with fails(OperationFailure):
        db.command("reIndex", "nothing")

with step("users, roles and profile as an open server shows them") as seen:
    same(admin.command("usersInfo", 1)["users"], [])
    # other flows run concurrently, in databases of their own
    same([user for user in db.command("usersInfo", {"forAllDBs": True})["users"] if not user["db"].startswith("drivers_")], [])
    has(admin.command("rolesInfo", 1, showBuiltinRoles=True), "roles")
    same(list(db["system.profile"].find().limit(5)), [])
    same(client.local.list_collection_names() is not None, True)
    same(client.config.list_collection_names() is not None, True)

with step("plan cache") as seen:
    same(db.command("planCacheClear", "people")["ok"], 1)
    same(db.command("planCacheListFilters", "people")["filters"], [])
    rows = list(people.aggregate([{"$planCacheStats": {}}]))
    seen.append(f"{len(rows)} rows")

finish()
