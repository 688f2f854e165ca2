"""A hidden member on another engine: it has the same data, also of trees that came past the log."""

import pymongo

from arbor_process import Members
from test_members import MAJORITY, direct, in_sync, status, until
from test_member_sync import LIMIT_S, add, equal, fill_collections, writing


def test_builds_and_switches_reach_a_hidden_member_on_another_engine(tmp_path):
    with Members(tmp_path, count=2) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        hidden = members.add_process()
        hidden.flags += ["--storageEngine", "lmdb"]
        hidden.start()
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            fill_collections(client)
            in_sync(client, 2)
            add(client, members, 2, hidden=True, priority=0)
            large = client.db.get_collection("large", write_concern=MAJORITY)
            for begin in range(0, 6_000, 1_000):
                large.insert_many([{"_id": number, "k": number % 100, "text": "x" * 400} for number in range(begin, begin + 1_000)])
            with writing(client):
                large.create_index("k")
                client.db.c.create_index("changed")
                for name, engine in (("large", "lmdb"), ("c", "lmdb"), ("c", "ftree"), ("c", "lmdb")):
                    client.db.command("collMod", name, storageEngine={engine: {}})
            equal(*members.members)
            # What happens while it is away comes afterwards.
            hidden.stop()
            with writing(client) as done:
                client.db.command("collMod", "c", storageEngine={"ftree": {}})
                large.drop_index("k_1")
                large.create_index("text")
                seen = done[0]
                hidden.start()
                until(lambda: done[0] > seen + 20, LIMIT_S, "writes")
            equal(*members.members)
            assert len(status(client)["arbor"]["inSync"]) == 2, "it is never in sync"
