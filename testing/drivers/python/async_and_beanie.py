"""PyMongo's asynchronous client and Beanie over it."""

import asyncio
import datetime
import os
from typing import Annotated, Optional

import gridfs
import pymongo
from beanie import BulkWriter, Document, Indexed, Link, PydanticObjectId, Update, WriteRules, init_beanie
from beanie.odm.operators.find.comparison import In
from beanie.odm.operators.update.general import Inc, Set
from flow import DATABASE, FULL, URI, empty_database, fails, finish, same, step
from pydantic import BaseModel
from pymongo import AsyncMongoClient, IndexModel
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure


class Category(BaseModel):
    name: str
    rank: int = 0


class Maker(Document):
    name: Annotated[str, Indexed(unique=True)]


class Product(Document):
    name: str
    price: float
    category: Category
    made: datetime.datetime = datetime.datetime(2024, 1, 1)
    maker: Optional[Link[Maker]] = None

    class Settings:
        name = "products"
        use_state_management = True
        use_revision = True
        indexes = [IndexModel([("category.name", pymongo.ASCENDING), ("price", pymongo.DESCENDING)], name="by_category")]


async def async_client(client):
    db = client[DATABASE]
    with step("async: writes, cursors, concurrency") as seen:
        await db.c.insert_many([{"_id": n, "n": n} for n in range(1000)])
        same(sum([doc["n"] async for doc in db.c.find(batch_size=37)]), 499500)
        await asyncio.gather(*(db.c.update_one({"_id": n % 10}, {"$inc": {"hits": 1}}) for n in range(200)))
        same(sum([doc["hits"] async for doc in db.c.find({"hits": {"$gt": 0}})]), 200)
        async with await db.c.aggregate([{"$group": {"_id": {"$mod": ["$n", 3]}, "c": {"$sum": 1}}}, {"$sort": {"_id": 1}}]) as cursor:
            same([row["c"] async for row in cursor], [334, 333, 333])
        with fails(DuplicateKeyError, code=11000):
            await db.c.insert_one({"_id": 1})
        with fails(BulkWriteError) as caught:
            await db.c.bulk_write([pymongo.InsertOne({"_id": 5000}), pymongo.InsertOne({"_id": 1}), pymongo.InsertOne({"_id": 5001})], ordered=False)
        same((caught[0].details["nInserted"], [error["index"] for error in caught[0].details["writeErrors"]]), (2, [1]))

    with step("async: sessions, timeouts, errors") as seen:
        async with client.start_session() as session:
            same((await db.c.find_one({"_id": 3}, session=session))["n"], 3)
            with fails(OperationFailure, code=20):
                async with await session.start_transaction():
                    await db.c.insert_one({"_id": -1}, session=session)
        with pymongo.timeout(30):
            same(await db.c.count_documents({"n": {"$lt": 10}}), 10)
        with fails(OperationFailure, code=40573):
            async with await db.c.watch() as stream:
                await stream.next()

    with step("async: GridFS") as seen:
        bucket = gridfs.AsyncGridFSBucket(db)
        content = os.urandom((20 if FULL else 3) * 1024 * 1024)
        identity = await bucket.upload_from_stream("f", content)
        stream = await bucket.open_download_stream(identity)
        same(await stream.read() == content, True)
        await bucket.delete(identity)
        with fails(gridfs.NoFile):
            await bucket.open_download_stream(identity)

    with step("compressors zlib, snappy, zstd") as seen:
        for name in ("zlib", "snappy", "zstd"):
            async with AsyncMongoClient(URI, compressors=name) as packed:
                await packed[DATABASE].packed.insert_many([{"t": name * 100} for _ in range(100)])
                same(len(await packed[DATABASE].packed.find({"t": name * 100}).to_list()), 100)
            seen.append(name)


async def beanie(client):
    await init_beanie(database=client[DATABASE], document_models=[Maker, Product])

    with step("Beanie: insert, find, sort, project, count") as seen:
        acme = await Maker(name="Acme").insert()
        await Product.insert_many([Product(name=f"p{n}", price=n, category=Category(name="even" if n % 2 == 0 else "odd", rank=n % 5)) for n in range(50)])
        same(await Product.find(Product.price > 10, Product.category.name == "odd").count(), 20)
        same([p.name for p in await Product.find(In(Product.price, [1, 2])).sort(-Product.price).to_list()], ["p2", "p1"])
        same(await Product.find(Product.category.name == "odd").avg(Product.price), 25)
        same((await Product.find(Product.price < 5).max(Product.price)), 4)
        same(await Product.distinct("category.name"), ["even", "odd"])
        same([type(one).__name__ async for one in Product.find().limit(2).project(Short)], ["Short", "Short"])
        with fails(DuplicateKeyError, code=11000):
            await Maker(name="Acme").insert()
        await Product.find_one(Product.name == "p1").set({Product.maker: acme})
        same(acme.name, "Acme")

    with step("Beanie: links are fetched by $lookup") as seen:
        product = await Product.find_one(Product.name == "p2")
        product.maker = await Maker.find_one(Maker.name == "Acme")
        await product.save(link_rule=WriteRules.WRITE)
        same((await Product.find_one(Product.name == "p2", fetch_links=True)).maker.name, "Acme")
        same((await Product.find(Product.maker.name == "Acme", fetch_links=True).to_list())[-1].name, "p2")

    with step("Beanie: updates, upsert, state, revision, bulk, delete") as seen:
        await Product.find(Product.category.rank == 1).update(Inc({Product.price: 100}), Set({"category.rank": 9}))
        same(await Product.find(Product.category.rank == 9).count(), 10)
        await Product.find_one(Product.name == "none").upsert(Set({Product.price: 1}), on_insert=Product(name="none", price=0, category=Category(name="new")))
        same((await Product.find_one(Product.name == "none")).category.name, "new")
        product = await Product.find_one(Product.name == "p3")
        product.price = 33
        same(product.is_changed, True)
        await product.save_changes()
        same((await Product.get(product.id)).price, 33)
        async with BulkWriter() as bulk:
            for number in range(10):
                await Product.find_one(Product.name == f"p{number}").update(Set({Product.price: -1}), bulk_writer=bulk)
        same(await Product.find(Product.price == -1).count(), 10)
        same((await Product.find(Product.price == -1).delete()).deleted_count, 10)
        rows = await Product.find(Product.price > 0).aggregate([{"$group": {"_id": "$category.name", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]).to_list()
        same([row["_id"] for row in rows], ["even", "odd"])
        names = [index["name"] async for index in await Product.get_pymongo_collection().list_indexes()]
        same(names, ["_id_", "by_category"])


class Short(BaseModel):
    name: str


async def main():
    async with AsyncMongoClient(URI) as client:
        await async_client(client)
        await beanie(client)


empty_database()
asyncio.run(main())
finish()
