"""MongoEngine, used as a Django-like site does: documents, references, querysets, signals, files, aggregation."""

import datetime
import os

import mongoengine as me
import pymongo
from flow import DATABASE, FULL, URI, empty_database, fails, finish, same, step
from mongoengine import queryset, signals

empty_database()
me.connect(DATABASE, host=URI, uuidRepresentation="standard")


class Address(me.EmbeddedDocument):
    city = me.StringField(required=True)
    zip_code = me.StringField(regex=r"^\d{5}$")


class User(me.Document):
    email = me.EmailField(unique=True, required=True)
    name = me.StringField(max_length=50)
    age = me.IntField(min_value=0)
    balance = me.DecimalField(precision=2, default=0)
    exact = me.Decimal128Field()
    joined = me.DateTimeField(default=lambda: datetime.datetime(2024, 1, 1))
    address = me.EmbeddedDocumentField(Address)
    past = me.EmbeddedDocumentListField(Address)
    tags = me.SortedListField(me.StringField())
    scores = me.MapField(me.IntField())
    extra = me.DictField()
    token = me.UUIDField()
    active = me.BooleanField(default=True)
    long = me.LongField()
    raw = me.BinaryField()
    friend = me.ReferenceField("self", reverse_delete_rule=me.NULLIFY)
    meta = {"indexes": ["name", "-age", ("name", "-age"), {"fields": ["joined"], "expireAfterSeconds": 10**8},
                        {"fields": ["token"], "sparse": True, "unique": True}, "#email"],
            "ordering": ["email"]}


class Comment(me.EmbeddedDocument):
    by = me.ReferenceField(User)
    text = me.StringField()
    votes = me.IntField(default=0)


class Page(me.Document):
    title = me.StringField(required=True)
    author = me.ReferenceField(User, reverse_delete_rule=me.CASCADE)
    comments = me.ListField(me.EmbeddedDocumentField(Comment))
    kind = me.GenericReferenceField()
    meta = {"allow_inheritance": True}


class TextPage(Page):
    body = me.StringField()


class LinkPage(Page):
    url = me.URLField()


class Upload(me.Document):
    name = me.StringField()
    content = me.FileField()


class Counter(me.Document):
    number = me.SequenceField()


with step("documents are validated, saved, read, changed by their differences") as seen:
    with fails(me.ValidationError, text="Invalid email address"):
        User(email="nope").save()
    ada = User(email="ada@x.org", name="Ada", age=36, balance="12.34", exact="1.5", address=Address(city="London", zip_code="12345"),
               past=[Address(city="Paris")], tags=["b", "a"], scores={"x": 1}, extra={"k": [1, {"z": None}]}, long=2**40, raw=b"\0\1").save()
    read = User.objects.get(email="ada@x.org")
    same((read.address.city, read.tags, str(read.balance), read.extra, read.long, read.raw),
         ("London", ["a", "b"], "12.34", {"k": [1, {"z": None}]}, 2**40, b"\0\1"))
    read.address.city, read.age = "Rome", 37
    read.tags.append("c")
    del read.name
    read.save()
    again = User.objects.get(id=ada.id)
    same((again.address.city, again.age, again.name, again.tags), ("Rome", 37, None, ["a", "b", "c"]))
    again.reload().modify(query={"age": 37}, set__name="Ada", inc__age=1)
    same(again.age, 38)
    same(again.modify(query={"age": 1}, inc__age=1), False)

with step("indexes of the class, unique errors") as seen:
    names = sorted(index["name"] for index in User._get_collection().list_indexes())
    same(names, ["_id_", "age_-1", "email_1", "email_hashed", "joined_1", "name_1", "name_1_age_-1", "token_1"])
    with fails(me.NotUniqueError, text="E11000 duplicate key error collection: drivers_mongoengine_site.user index: email_1"):
        User(email="ada@x.org").save()
    User.ensure_indexes()
    same(User.compare_indexes(), {"missing": [], "extra": []})

with step("queryset operators") as seen:
    User.objects.insert([User(email=f"u{n:03}@x.org", name=f"User {n}", age=n, tags=[str(n % 3), "all"], scores={"x": n}, active=n % 2 == 0,
                              past=[Address(city=f"C{n % 4}"), Address(city="Common")]) for n in range(60)])
    users = User.objects(name__startswith="User")
    same([users.count(), users(age__gte=10, age__lt=20).count(), users(age__in=[1, 2, 99]).count(), users(age__nin=range(50)).count(),
          users(age__ne=5).count(), users(age__mod=(10, 3)).count(), users(age__not__gt=4).count(), users(tags__all=["1", "all"]).count()],
         [60, 10, 2, 10, 59, 6, 5, 20])
    same([users(name__iexact="user 7").count(), users(name__icontains="SER 1").count(), users(name__endswith="9").count(),
          users(name__wholeword="7").count(), users(name__regex=r"^User \d$").count(), users(name__exact="User 7").count()], [1, 11, 6, 1, 10, 1])
    same([users(tags__size=2).count(), users(tags__0="1").count(), users(past__city="C1").count(), users(past__0__city="C1").count(),
          users(past__match={"city": "C1"}).count(), users(scores__x__gt=55).count(), users(friend__exists=False).count(), users(age__type="int").count()],
         [60, 20, 15, 15, 15, 4, 60, 60])
    same(users(me.Q(age=1) | (me.Q(age__gt=57) & me.Q(age__ne=58))).count(), 2)
    same(users(__raw__={"$expr": {"$eq": ["$age", "$scores.x"]}}).count(), 60)
    same([user.age for user in users.order_by("-active", "age").skip(1).limit(2)], [2, 4])
    same([user.age for user in users.order_by("age")[5:8]], [5, 6, 7])
    same((users.order_by("age").first().age, users.sum("age"), users.average("age"), sorted(users.distinct("tags"))), (0, 1770, 29.5, ["0", "1", "2", "all"]))
    with fails(pymongo.errors.OperationFailure, code=59):
        users.item_frequencies("tags", map_reduce=False)  # sends eval, which MongoDB removed in 4.2
    same(users.only("age").first().name, None)
    same(users.fields(slice__past=1).first().past[0].city[0], "C")
    same(list(users.order_by("age").scalar("name", "age"))[:2], [("User 0", 0), ("User 1", 1)])
    same(users(age=3).values_list("age").first(), 3)
    same(users.as_pymongo().first()["email"], "u000@x.org")
    same(len(users.in_bulk([user.id for user in users[:3]])), 3)
    same(len(list(users.no_cache().batch_size(7).timeout(False))), 60)
    same(users.hint("name_1").count(), 60)
    same(users.explain()["ok"] if "ok" in users.explain() else 1, 1)
    with fails(queryset.DoesNotExist):
        User.objects.get(email="none")
    with fails(queryset.MultipleObjectsReturned):
        User.objects.get(active=True)

with step("atomic updates") as seen:
    same(User.objects(age__lt=5).update(inc__age=100, set__name="Old", push__tags="t", set__scores__y=5), 5)
    User._get_collection().update_many({"name": "Old"}, {"$inc": {"age": -100}})
    same(User.objects(name="Old").update(pull__tags="t", unset__scores__y=1, multi=True), 5)
    same(User.objects(name="Old").update(add_to_set__tags=["n", "n"]), 5)
    same(User.objects(email="u001@x.org").update_one(push_all__tags=["p", "q"], min__age=0, max__long=9, rename__extra="more"), 1)
    same(User.objects(email="u002@x.org", past__city="Common").update_one(set__past__S__city="Changed"), 1)
    same(User.objects.get(email="u002@x.org").past[1].city, "Changed")
    same(User.objects(email="u003@x.org").update_one(push__tags__0=["first"]), 1)
    same(User._get_collection().find_one({"email": "u003@x.org"})["tags"][0], "first")
    same(User.objects(email="u004@x.org").update_one(pop__tags=1, pull__past__city="Common"), 1)
    same(User.objects(email="new@x.org").upsert_one(set__name="New", set_on_insert__age=1).age, 1)
    same(User.objects(email="new@x.org").modify(set__age=2, new=True, upsert=True).age, 2)
    same(User.objects(email="u005@x.org").update(__raw__=[{"$set": {"age": {"$add": ["$age", 1]}}}]), 1)
    same(User.objects(email="u000@x.org").update(__raw__={"$set": {"past.$[p].city": "F"}}, array_filters=[{"p.city": "Common"}]), 1)
    same(User.objects(email__in=["new@x.org", "none"]).delete(), 1)
    User._get_collection().delete_one({"email": "u001@x.org"})

with step("references: dereferencing, select_related, cascade, nullify, inheritance") as seen:
    bob = User(email="bob@x.org", friend=ada).save()
    TextPage(title="T", author=ada, body="text", comments=[Comment(by=bob, text="hi"), Comment(by=ada, text="yo", votes=3)], kind=bob).save()
    LinkPage(title="L", author=bob, url="http://example.org/").save()
    same([type(page).__name__ for page in Page.objects.order_by("title")], ["LinkPage", "TextPage"])
    same((TextPage.objects.count(), Page.objects(author=bob).count(), Page.objects(author__in=[ada, bob]).count()), (1, 1, 2))
    page = Page.objects(title="T").select_related(max_depth=2)[0]
    same((page.author.email, page.comments[0].by.email, page.kind.email), ("ada@x.org", "bob@x.org", "bob@x.org"))
    Page.objects(comments__text="yo").update(inc__comments__S__votes=1)
    same(Page.objects.get(title="T").comments[1].votes, 4)
    same(Page.objects(comments__votes__gte=4).count(), 1)
    ada.delete()
    same((Page.objects.count(), User.objects.get(email="bob@x.org").friend), (1, None))

with step("signals and sequences") as seen:
    calls = []
    signals.pre_save.connect(lambda sender, document, **_: calls.append("pre"), sender=Counter, weak=False)
    signals.post_save.connect(lambda sender, document, created, **_: calls.append(created), sender=Counter, weak=False)
    signals.post_delete.connect(lambda sender, document, **_: calls.append("gone"), sender=Counter, weak=False)
    counters = [Counter().save() for _ in range(3)]
    counters[0].save()
    counters[1].delete()
    same([counter.number for counter in counters], [1, 2, 3])
    same(calls, ["pre", True] * 3 + ["pre", False, "gone"])

with step("FileField: GridFS files of several megabytes") as seen:
    content = os.urandom((30 if FULL else 4) * 1024 * 1024 + 17)
    upload = Upload(name="big")
    upload.content.put(content, content_type="application/x", filename="big.bin")
    upload.save()
    read = Upload.objects.get(name="big")
    same((read.content.read() == content, read.content.content_type, read.content.length), (True, "application/x", len(content)))
    read.content.replace(b"small", filename="small")
    read.save()
    same(Upload.objects.get(name="big").content.read(), b"small")
    read.content.delete()
    read.save()
    db = me.get_db()
    same((db["fs.files"].count_documents({}), db["fs.chunks"].count_documents({})), (0, 0))
    same(sorted(db["fs.chunks"].index_information()), ["_id_", "files_id_1_n_1"])
    seen.append(f"{len(content)} bytes")

with step("aggregation of querysets") as seen:
    rows = list(User.objects(name__startswith="User").aggregate([{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}, {"$sort": {"n": -1, "_id": 1}}, {"$limit": 1}]))
    same(rows, [{"_id": "all", "n": 55}])
    joined = list(Page.objects.aggregate([{"$lookup": {"from": "user", "localField": "author", "foreignField": "_id", "as": "a"}}, {"$unwind": "$a"}, {"$project": {"e": "$a.email", "_id": 0}}]))
    same(joined, [{"e": "bob@x.org"}])
    same(list(User.objects.order_by("-age").limit(2).aggregate([{"$project": {"_id": 0, "age": 1}}])), [{"age": 59}, {"age": 58}])

with step("a Django-like flow: search, page, edit form, soft delete, report") as seen:
    def page_of(number, per_page=10, **filters):
        found = User.objects(**filters).order_by("name", "id")
        return found.count(), [user.name for user in found.skip((number - 1) * per_page).limit(per_page)]
    total, names = page_of(2, name__icontains="user", active=True)
    same((total, len(names)), (27, 10))
    User.objects(age__lt=20).update(set__active=False)
    User.drop_collection()
    same(User.objects.count(), 0)

finish()
