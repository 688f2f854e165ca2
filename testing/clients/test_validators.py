"""Document validation through PyMongo: every statement that writes, levels, actions, errInfo, collMod, validate."""

import pytest
from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, OperationFailure, WriteError

SCHEMA = {
    "$jsonSchema": {
        "bsonType": "object",
        "title": "Student",
        "required": ["name", "gpa"],
        "properties": {"gpa": {"bsonType": ["double"], "description": "'gpa' must be a double"}},
    }
}


@pytest.fixture
def students(db):
    db.create_collection("students", validator=SCHEMA)
    return db.students


def refused(run, code=121, text=""):
    with pytest.raises(OperationFailure) as caught:
        list(run() or [])
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)
    return caught.value


def options(db, name="students"):
    return next(db.list_collections(filter={"name": name}))["options"]


def test_err_info(students):
    error = refused(lambda: students.insert_one({"_id": 7, "name": "ann", "gpa": 3}))
    assert isinstance(error, WriteError)
    assert error.details["errmsg"] == "Document failed validation"
    assert error.details["errInfo"] == {
        "failingDocumentId": 7,
        "details": {
            "operatorName": "$jsonSchema",
            "title": "Student",
            "schemaRulesNotSatisfied": [
                {
                    "operatorName": "properties",
                    "propertiesNotSatisfied": [
                        {
                            "propertyName": "gpa",
                            "description": "'gpa' must be a double",
                            "details": [
                                {
                                    "operatorName": "bsonType",
                                    "specifiedAs": {"bsonType": ["double"]},
                                    "reason": "type did not match",
                                    "consideredValue": 3,
                                    "consideredType": "int",
                                }
                            ],
                        }
                    ],
                }
            ],
        },
    }
    error = refused(lambda: students.insert_one({"_id": 8, "gpa": 1.5}))
    missing = {"operatorName": "required", "specifiedAs": {"required": ["name", "gpa"]}, "missingProperties": ["name"]}
    assert error.details["errInfo"]["details"]["schemaRulesNotSatisfied"] == [missing]


def test_every_write(db, students):
    good, bad = {"_id": 1, "name": "a", "gpa": 1.0}, {"_id": 2, "name": "b", "gpa": "x"}
    students.insert_one(good)
    with pytest.raises(BulkWriteError) as caught:
        students.insert_many([bad, {"_id": 3, "name": "c", "gpa": 2.0}], ordered=False)
    assert [entry["code"] for entry in caught.value.details["writeErrors"]] == [121]
    assert caught.value.details["nInserted"] == 1
    wrong = {"$set": {"gpa": "x"}}
    refused(lambda: students.update_one({"_id": 1}, wrong) and None)
    refused(lambda: students.update_many({}, wrong) and None)
    refused(lambda: students.update_one({"_id": 1}, [{"$unset": "name"}]) and None)
    refused(lambda: students.replace_one({"_id": 1}, {"a": 1}) and None)
    refused(lambda: students.update_one({"_id": 9}, {"$set": {"a": 1}}, upsert=True) and None)
    refused(lambda: students.update_many({"_id": 9}, {"$set": {"a": 1}}, upsert=True) and None)
    error = refused(lambda: students.find_one_and_update({"_id": 1}, wrong))
    assert error.details["errInfo"]["failingDocumentId"] == 1
    refused(lambda: students.find_one_and_replace({"_id": 9}, {"a": 1}, upsert=True))
    db.source.insert_one(bad)
    refused(lambda: db.source.aggregate([{"$out": "students"}]))
    refused(lambda: db.source.aggregate([{"$merge": "students"}]))
    refused(lambda: db.source.aggregate([{"$set": {"_id": 1}}, {"$merge": "students"}]))
    assert list(students.find().sort("_id")) == [good, {"_id": 3, "name": "c", "gpa": 2.0}]
    assert students.update_many({}, {"$set": {"gpa": 3.5}}).modified_count == 2
    assert students.delete_many({}).deleted_count == 2


def test_bypass(db, students):
    through = {"bypass_document_validation": True}
    students.insert_one({"_id": 1}, **through)
    students.insert_many([{"_id": 2}], **through)
    students.update_one({"_id": 1}, {"$set": {"a": 1}}, **through)
    students.update_many({}, {"$set": {"a": 2}}, **through)
    students.replace_one({"_id": 3}, {"a": 2}, upsert=True, **through)
    db.command("findAndModify", "students", query={"_id": 1}, update={"$set": {"a": 3}}, bypassDocumentValidation=True)
    db.source.insert_one({"_id": 5})
    db.source.aggregate([{"$merge": "students"}], bypassDocumentValidation=True)
    assert students.count_documents({}) == 4
    checked = db.command("validate", "students")
    assert checked["nNonCompliantDocuments"] == 4 and checked["valid"] and len(checked["warnings"]) == 1
    db.source.aggregate([{"$out": "students"}], bypassDocumentValidation=True)
    assert list(students.find()) == [{"_id": 5}]
    assert options(db)["validator"] == SCHEMA


def test_levels(db):
    db.c.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 10}])
    db.command("collMod", "c", validator={"n": {"$gte": 5}}, validationLevel="moderate")
    assert options(db, "c") == {"validator": {"n": {"$gte": 5}}, "validationLevel": "moderate", "validationAction": "error"}
    # what was wrong may stay wrong, what was right may not become wrong
    db.c.update_one({"_id": 1}, {"$set": {"n": 2}})
    refused(lambda: db.c.update_one({"_id": 2}, {"$set": {"n": 2}}) and None)
    refused(lambda: db.c.insert_one({"n": 2}) and None)
    db.command("collMod", "c", validationLevel="strict")
    refused(lambda: db.c.update_one({"_id": 1}, {"$set": {"n": 3}}) and None)
    db.c.update_one({"_id": 1}, {"$set": {"n": 2}})  # nothing changes
    db.c.update_one({"_id": 1}, {"$set": {"n": 7}})
    db.command("collMod", "c", validationLevel="off")
    db.c.insert_one({"_id": 3, "n": 0})
    db.command("collMod", "c", validationLevel="strict", validationAction="warn")
    db.c.insert_one({"_id": 4, "n": 0})
    log = "\n".join(db.client.admin.command("getLog", "global")["log"])
    assert "Document would fail validation" in log and f"{db.name}.c" in log
    assert db.command("validate", "c")["nNonCompliantDocuments"] == 2
    db.command("collMod", "c", validator={}, validationAction="error")
    db.c.insert_one({"_id": 5, "n": 0})
    assert "validator" not in options(db, "c")


def test_query_operators_are_described(db):
    def why(validator, doc):
        db.drop_collection("q")
        db.create_collection("q", validator=validator)
        return refused(lambda: db.q.insert_one({"_id": 1, **doc}) and None).details["errInfo"]["details"]

    assert why({"a": {"$gt": 5}}, {"a": 3}) == {
        "operatorName": "$gt",
        "specifiedAs": {"a": {"$gt": 5}},
        "reason": "comparison failed",
        "consideredValue": 3,
    }
    assert why({"a": {"$gt": 5}}, {})["reason"] == "field was missing"
    assert why({"a": {"$exists": True}}, {}) == {"operatorName": "$exists", "specifiedAs": {"a": {"$exists": True}}, "reason": "path does not exist"}
    assert why({"a": {"$in": [1, 2]}}, {"a": 3})["reason"] == "no matching value found in array"
    assert why({"a": {"$ne": 1}}, {"a": 1})["operatorName"] == "$ne"
    assert why({"a": {"$type": "string"}}, {"a": 1})["consideredType"] == "int"
    assert why({"a": {"$regex": "^x"}}, {"a": "y"})["reason"] == "regular expression did not match"
    both = why({"a": 1, "b": {"$lt": 3}, "c": 1}, {"a": 1, "b": 3, "c": 2})
    assert both["operatorName"] == "$and"
    assert [(clause["index"], clause["details"]["operatorName"]) for clause in both["clausesNotSatisfied"]] == [(1, "$lt"), (2, "$eq")]
    either = why({"$or": [{"a": {"$gt": 1}}, {"b": 2}]}, {})
    assert either["operatorName"] == "$or" and len(either["clausesNotSatisfied"]) == 2
    neither = why({"$nor": [{"a": 1}, {"b": 2}]}, {"b": 2})
    assert neither["operatorName"] == "$nor" and neither["clausesSatisfied"][0]["index"] == 1
    compared = why({"$expr": {"$lt": ["$a", "$b"]}}, {"a": 2, "b": 1})
    assert compared["operatorName"] == "$expr" and compared["specifiedAs"] == {"$expr": {"$lt": ["$a", "$b"]}}
    assert compared["reason"] == "expression did not match"


def test_options_are_checked(db):
    def create(code, name="x", **given):
        refused(lambda: db.command("create", name, **given) and None, code)

    create(2, validator={"a": {"$nope": 1}})
    create(9, validator={"$jsonSchema": {"nope": 1}})
    create(14, validator=1)
    create(2, validator={"a": 1}, validationLevel="nope")
    create(2, validator={"a": 1}, validationAction="nope")
    create(14, validationLevel=1)
    refused(lambda: db.client.admin.command("create", "x", validator={"a": 1}) and None, 72)
    db.create_collection("x", validator={"a": 1}, validationAction="warn")
    assert options(db, "x") == {"validator": {"a": 1}, "validationLevel": "strict", "validationAction": "warn"}
    refused(lambda: db.command("collMod", "x", validator={"$nope": 1}) and None, 2)
    refused(lambda: db.command("collMod", "nope", validator={}) and None, 26)
    assert options(db, "x")["validator"] == {"a": 1}


def test_unacknowledged_writes_are_refused_too(students):
    students.with_options(write_concern=WriteConcern(w=0)).insert_one({"_id": 1})
    assert students.count_documents({}) == 0
