"""Text indexes and $text: a blog is searched, with weights, languages, phrases, negation, other conditions and scores."""

import pytest
from pymongo.errors import OperationFailure

SCORE = {"score": {"$meta": "textScore"}}

POSTS = [
    {"_id": 1, "title": "Coffee at home", "body": "How to brew coffee.", "tags": ["drinks"], "author": "ann", "year": 2020},
    {"_id": 2, "title": "Tea houses", "body": "Coffee shops close, tea houses open.", "tags": ["drinks", "city"], "author": "bob", "year": 2021},
    {"_id": 3, "title": "Cake shops", "body": "The café next door, and its cakes.", "tags": ["city"], "author": "ann", "year": 2022},
    {"_id": 4, "title": "Cycling", "body": "Pre-market ride through the city.", "tags": ["sport"], "author": "cid", "year": 2022},
]


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def search(text, **options):
    return {"$text": {"$search": text, **{f"${name}": value for name, value in options.items()}}}


def ids(cursor):
    return [doc["_id"] for doc in cursor]


@pytest.fixture
def blog(db):
    db.posts.insert_many(POSTS)
    db.posts.create_index([("title", "text"), ("body", "text")], weights={"title": 10}, name="search")
    return db.posts


def test_the_blog_is_searched(blog):
    for text, expect in [
        ("coffee", [1, 2]),
        ("shopping", [2, 3]),
        ("cafe", [3]),
        ("coffee -tea", [1]),
        ('"coffee shops"', [2]),
        ('"shops close" cake', [2]),
        ('coffee -"tea houses"', [1]),
        ("market", [4]),
        ("the", []),
        ("nothing", []),
        ("", []),
    ]:
        assert sorted(ids(blog.find(search(text)))) == expect, text
        assert blog.count_documents(search(text)) == len(expect), text
    assert ids(blog.find(search("CAFÉ", diacriticSensitive=True))) == [3]
    assert ids(blog.find(search("cafe", diacriticSensitive=True))) == []
    assert ids(blog.find(search("Coffee", caseSensitive=True))) == [1, 2]
    assert ids(blog.find(search("COFFEE", caseSensitive=True))) == []
    assert ids(blog.find(search("the", language="none"))) == []
    assert blog.distinct("author", search("coffee shops")) == ["ann", "bob"]


def test_other_conditions_and_the_best_first(blog):
    found = list(blog.find({**search("coffee shops"), "year": {"$gte": 2021}}, SCORE).sort([("score", {"$meta": "textScore"})]))
    assert ids(found) == [3, 2] and found[0]["score"] > found[1]["score"] > 0 and found[0]["title"] == "Cake shops"
    best = blog.find(search("coffee shops")).sort([("any", {"$meta": "textScore"}), ("_id", 1)]).limit(1)
    assert ids(best) == [1]
    assert ids(blog.find(search("coffee shops")).sort("year", -1)) == [3, 2, 1]
    assert ids(blog.find(search("coffee shops")).sort([("year", 1)]).skip(1).limit(1)) == [2]
    shown = blog.find_one(search("brew"), {"_id": 0, "title": 1, **SCORE})
    assert shown == {"title": "Coffee at home", "score": pytest.approx(0.75)}
    assert sorted(ids(blog.find({"$or": [search("brew"), {"_id": 4}]}))) == [1, 4]


def test_pipelines(blog):
    stages = [{"$match": search("coffee shops")}, {"$sort": {"score": {"$meta": "textScore"}}}, {"$project": {"title": 1, **SCORE}}]
    found = list(blog.aggregate(stages))
    assert ids(found) == [1, 3, 2] and all(doc["score"] > 0 for doc in found)
    grouped = blog.aggregate([{"$match": search("coffee shops")}, {"$group": {"_id": None, "all": {"$sum": {"$meta": "textScore"}}}}])
    assert next(grouped)["all"] == pytest.approx(sum(doc["score"] for doc in found))
    unwound = [{"$match": search("tea")}, {"$unwind": "$tags"}, {"$set": SCORE}, {"$match": {"score": {"$gt": 0}}}]
    assert len(list(blog.aggregate(unwound))) == 2
    facet = [{"$match": search("coffee shops")}, {"$facet": {"a": [{"$project": SCORE}], "b": [{"$count": "n"}]}}]
    both = next(blog.aggregate(facet))
    assert all(doc["score"] > 0 for doc in both["a"]) and both["b"] == [{"n": 3}]
    assert code_of(lambda: blog.aggregate([{"$limit": 1}, {"$match": search("tea")}])) == 17313
    assert code_of(lambda: blog.aggregate([{"$facet": {"a": [{"$match": search("tea")}]}}])) == 17313
    assert code_of(lambda: blog.aggregate([{"$project": SCORE}])) == 40218
    assert code_of(lambda: blog.aggregate([{"$match": search("a")}, {"$count": "n"}, {"$set": SCORE}])) == 40218


def test_changes(blog):
    assert blog.update_many(search("coffee"), {"$set": {"seen": True}}).modified_count == 2
    assert blog.update_one(search("cycling"), {"$set": {"body": "Now about coffee"}}).modified_count == 1
    assert sorted(ids(blog.find(search("coffee")))) == [1, 2, 4] and ids(blog.find(search("ride"))) == []
    assert blog.find_one_and_update(search("brew"), {"$unset": {"body": 1}}, SCORE)["score"] == pytest.approx(0.75)
    assert ids(blog.find(search("brew"))) == []
    assert blog.delete_many(search("coffee -tea")).deleted_count == 2
    assert sorted(ids(blog.find())) == [2, 3]
    assert blog.database.command("validate", "posts", full=True)["valid"]


def test_what_is_listed_and_dropped(blog):
    listed = blog.index_information()["search"]
    assert listed["key"] == [("_fts", "text"), ("_ftsx", 1)]
    assert dict(listed["weights"]) == {"body": 1, "title": 10}
    assert (listed["default_language"], listed["language_override"], listed["textIndexVersion"]) == ("english", "language", 3)
    create = lambda keys, **options: code_of(lambda: blog.create_index(keys, **options))  # noqa: E731
    assert create([("tags", "text")]) == 85
    assert create([("year", 1), ("tags", "text")]) == 67
    blog.create_index([("title", "text"), ("body", "text")], weights={"title": 10}, name="search")
    blog.database.command("dropIndexes", "posts", index={"_fts": "text", "_ftsx": 1})
    assert code_of(lambda: list(blog.find(search("coffee")))) == 27
    for keys, options, code in [
        ([("a", "text")], {"weights": {"a": 0}}, 67),
        ([("a", "text")], {"weights": {"a": "x"}}, 17283),
        ([("a", "text")], {"default_language": "klingon"}, 67),
        ([("a", "text")], {"language_override": ""}, 67),
        ([("a", "text"), ("b", 1), ("c", "text")], {}, 67),
        ([("a", "text"), ("b", "hashed")], {}, 67),
        ([("a", "text")], {"unique": True}, 67),
    ]:
        assert create(keys, **options) == code, (keys, options)
    assert blog.create_index([("$**", "text")]) == "$**_text"
    assert ids(blog.find(search("sport"))) == [4]
    assert code_of(lambda: blog.insert_one({"language": "klingon", "title": "x"})) == 17262
    blog.drop_index("$**_text")


def test_languages(db):
    db.quotes.create_index([("quote", "text"), ("translation.quote", "text")], default_language="spanish", language_override="idioma")
    db.quotes.insert_many([
        {"_id": 1, "quote": "La suerte protege a los audaces", "translation": [{"idioma": "english", "quote": "Fortune favors the bold"}]},
        {"_id": 2, "idioma": "portuguese", "quote": "A sorte protege os audazes"},
        {"_id": 3, "idioma": "none", "quote": "running"},
    ])
    assert ids(db.quotes.find(search("audaces"))) == [1]
    assert ids(db.quotes.find(search("favor", language="en"))) == [1]
    assert ids(db.quotes.find(search("sorte", language="pt"))) == [2]
    assert ids(db.quotes.find(search("running", language="none"))) == [3]
    assert ids(db.quotes.find(search("los", language="es"))) == []


def test_a_prefix_and_a_partial_filter(db):
    db.shop.create_index([("dept", 1), ("text", "text"), ("price", 1)])
    db.shop.insert_many([{"_id": i, "dept": i % 3, "text": f"item {'red' if i % 2 else 'blue'} n{i}", "price": i} for i in range(60)])
    assert len(ids(db.shop.find({"dept": 1, **search("red")}))) == 10
    assert len(ids(db.shop.find({"dept": 1, "price": {"$lt": 30}, **search("red")}))) == 5
    assert ids(db.shop.find({"dept": {"$in": [2]}, **search("n5 n6")})) == [5]
    assert code_of(lambda: list(db.shop.find(search("red")))) == 291
    assert code_of(lambda: list(db.shop.find({"dept": {"$gt": 0}, **search("red")}))) == 291
    assert code_of(lambda: db.shop.insert_one({"dept": [1, 2], "text": "x"})) == 16675
    plan = db.shop.find({"dept": 1, **search("red -blue")}).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "TEXT_MATCH" and plan["indexPrefix"] == {"dept": 1}
    assert plan["parsedTextQuery"] == {"terms": ["red"], "negatedTerms": ["blue"], "phrases": [], "negatedPhrases": []}
    assert plan["inputStage"]["stage"] == "FETCH" and plan["inputStage"]["inputStage"]["stage"] == "IXSCAN"
    db.part.create_index([("text", "text")], partialFilterExpression={"on": True})
    db.part.insert_many([{"_id": 1, "on": True, "text": "red"}, {"_id": 2, "on": False, "text": "red"}])
    assert ids(db.part.find({"on": True, **search("red")})) == [1]
    assert code_of(lambda: list(db.part.find(search("red")))) == 291


def test_where_it_is_not_allowed(blog):
    own = search("coffee")
    for query, code in [
        ({"$nor": [own]}, 2),
        ({"tags": {"$elemMatch": {"a": 1, **own}}}, 2),
        ({**own, "$or": [search("tea"), {"_id": 1}]}, 2),
        ({"$or": [own, {"year": 2020}]}, 291),
        ({"$text": "coffee"}, 2),
        ({"$text": {"$search": 1}}, 14),
        ({"$text": {"$search": "a", "$language": "klingon"}}, 2),
    ]:
        assert code_of(lambda: list(blog.find(query))) == code, query
    assert code_of(lambda: list(blog.find(own).hint([("_id", 1)]))) == 2
    assert code_of(lambda: list(blog.find(own).sort([("$natural", 1)]))) == 2
    assert code_of(lambda: list(blog.find({}, SCORE))) == 40218
    assert code_of(lambda: list(blog.find({"_id": 1}, SCORE))) == 40218
    assert code_of(lambda: list(blog.find({}).sort([("s", {"$meta": "textScore"})]))) == 40218
    assert code_of(lambda: blog.database.command("collMod", "posts", validator=own)) == 2
    assert code_of(lambda: list(blog.database.none.find(own))) == 27


def test_other_engines_and_restarts_have_the_same(blog):
    before = list(blog.find(search("coffee shops"), SCORE).sort([("s", {"$meta": "textScore"})]))
    blog.database.command("collMod", "posts", storageEngine={"lmdb": {}})
    assert list(blog.find(search("coffee shops"), SCORE).sort([("s", {"$meta": "textScore"})])) == before
    assert blog.database.command("validate", "posts", full=True)["valid"]


def test_a_large_search_and_a_large_document_are_bounded(blog):
    words = " ".join(f"w{i}" for i in range(40_000))
    assert ids(blog.find(search(words + " brew"))) == [1]
    blog.insert_one({"_id": 9, "body": " ".join(f"w{i}" for i in range(5_000))})
    assert ids(blog.find(search("w4999"))) == [9]
    assert code_of(lambda: blog.insert_one({"_id": 10, "body": " ".join(f"x{i}" for i in range(100_001))})) == 201
    assert ids(blog.find(search('"' + "y" * 1_000_000 + '"'))) == []
