"""Text search through MongoEngine, together with places."""

import mongoengine as me
from flow import DATABASE, URI, empty_database, finish, same, step

empty_database()
me.connect(DATABASE, host=URI, uuidRepresentation="standard")


class Shop(me.Document):
    name = me.StringField()
    about = me.StringField()
    spot = me.PointField()
    meta = {"indexes": [{"fields": ["$name", "$about"], "default_language": "english", "weights": {"name": 10, "about": 2}}]}


with step("MongoEngine: the text index of a class") as seen:
    Shop.ensure_indexes()
    index = Shop._get_collection().index_information()["name_text_about_text"]
    same((index["key"], index["weights"]), ([("_fts", "text"), ("_ftsx", 1)], {"about": 2, "name": 10}))
    Shop.objects.insert([Shop(name="Books and maps", about="We sell books", spot=[13.40, 52.52]),
                         Shop(name="Bakery", about="Bread, and books of recipes", spot=[13.06, 52.40]),
                         Shop(name="Harbour", about="Ships", spot=[9.99, 53.55])])

with step("MongoEngine: text search with score") as seen:
    found = list(Shop.objects.search_text("book").order_by("$text_score"))
    same([shop.name for shop in found], ["Books and maps", "Bakery"])
    seen.append([shop.get_text_score() for shop in found])
    same(Shop.objects.search_text("books -bread").count(), 1)
    same(Shop.objects(spot__geo_within_box=[(9, 52), (14, 54)]).search_text("ships").count(), 1)
    same(Shop.objects(name__ne="Harbour").search_text("ships").count(), 0)

finish()
