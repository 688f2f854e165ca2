"""Data directories that are not as the server left them: of an older or a newer release, without their log, with a log that was cut or is older
than the engine. Each is opened as it is, or refused with a sentence that says what is wrong, and nothing in it is changed."""

import os
import shutil
import struct

import pymongo
import pytest

from arbor_process import Arbor, Members, ReplicaSet
from test_members import digest, direct, documents, in_sync, initiated, until

DOCUMENTS = 200
LARGE = 1 << 20
# of a segment of the log, and of arbor.member
HEADER = 64


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def segments(arbor):
    return sorted((arbor.dbpath / "log").glob("*.log"))


def rewrite(path, offset, values):
    """Replaces bytes of a file's header, and its checksum at the header's end."""
    with open(path, "r+b") as file:
        head = bytearray(file.read(HEADER))
        head[offset:offset + len(values)] = values
        head[-4:] = struct.pack("<I", crc32c(head[:-4]))
        file.seek(0)
        file.write(head)


def set_version(path, version):
    rewrite(path, 8, struct.pack("<I", version))


def log_version(path):
    return struct.unpack_from("<I", path.read_bytes(), 8)[0]


def everything(arbor):
    return {path: path.read_bytes() for path in arbor.dbpath.rglob("*") if path.is_file() and path.name not in ("reserve", "arbor.lock")}


def refusal(arbor):
    """Returns the text of the refusal; the directory's files are as before."""
    before = {path: content for path, content in everything(arbor).items() if path.suffix == ".log" or path.name.startswith("arbor.")}
    with pytest.raises(RuntimeError) as refused:
        arbor.start()
    after = everything(arbor)
    changed = [path for path, content in before.items() if after.get(path) != content]
    assert not changed, changed
    return str(refused.value)


def fill(client, first=0):
    collection = client.db.get_collection("c", write_concern=pymongo.WriteConcern(1, j=True))
    collection.insert_many([{"_id": number, "text": "x" * 100} for number in range(first, first + DOCUMENTS)])


@pytest.fixture(params=["ftree", "lmdb"])
def ended(request, tmp_path):
    """A server that was killed, with documents in its log alone."""
    arbor = Arbor(tmp_path / "data", ["--storageEngine", request.param, "--syncdelay", "3600"])
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        fill(client)
        client.admin.command("fsync")
        fill(client, DOCUMENTS)
    arbor.kill()
    yield arbor
    arbor.stop()


def test_a_log_of_version_1_is_opened_and_continued(ended):
    for segment in segments(ended):
        rewrite(segment, 32, bytes(16))
        set_version(segment, 1)
    old = {segment: segment.read_bytes() for segment in segments(ended)}
    ended.start()
    with pymongo.MongoClient(ended.uri) as client:
        assert client.db.c.count_documents({}) == 2 * DOCUMENTS
        # more than a segment
        for number in range(70):
            client.db.large.insert_one({"_id": number, "data": os.urandom(LARGE)})
        assert client.db.command("validate", "c", full=True)["valid"]
    newer = [segment for segment in segments(ended) if segment not in old]
    assert newer and all(log_version(segment) == 2 for segment in newer)
    assert all(segment.read_bytes()[8:12] == content[8:12] for segment, content in old.items() if segment.exists())
    ended.kill()
    ended.start()
    with pymongo.MongoClient(ended.uri) as client:
        assert client.db.c.count_documents({}) == 2 * DOCUMENTS and client.db.large.count_documents({}) == 70


def test_a_log_of_a_newer_release_is_refused(ended):
    last = [segment for segment in segments(ended) if segment.stat().st_size > HEADER][-1]
    set_version(last, 3)
    text = refusal(ended)
    assert last.name in text and "version 3" in text and "newer" in text, text
    set_version(last, 2)
    ended.start()
    with pymongo.MongoClient(ended.uri) as client:
        assert client.db.c.count_documents({}) == 2 * DOCUMENTS


def test_a_member_of_a_newer_release_is_refused(tmp_path):
    server = ReplicaSet(tmp_path / "data")
    with server, pymongo.MongoClient(server.uri) as client:
        fill(client)
    set_version(server.dbpath / "arbor.member", 2)
    text = refusal(server)
    assert "arbor.member was written by a newer release" in text, text
    set_version(server.dbpath / "arbor.member", 1)
    with server, pymongo.MongoClient(server.uri) as client:
        assert client.db.c.count_documents({}) == DOCUMENTS


def test_an_engine_ahead_of_its_log_is_refused(ended, tmp_path):
    """The log is a copy of an earlier time."""
    ended.start()
    shutil.copytree(ended.dbpath / "log", tmp_path / "earlier")
    with pymongo.MongoClient(ended.uri) as client:
        for first in range(2, 5):
            fill(client, first * DOCUMENTS)
        client.admin.command("fsync")
        assert client.db.c.count_documents({}) == 5 * DOCUMENTS
    ended.kill()
    newest = tmp_path / "newest"
    (ended.dbpath / "log").rename(newest)
    shutil.copytree(tmp_path / "earlier", ended.dbpath / "log")
    text = refusal(ended)
    assert "of the log" in text and "are missing" in text and "arbor salvage" in text, text
    # with the right log nothing is lost
    shutil.rmtree(ended.dbpath / "log")
    newest.rename(ended.dbpath / "log")
    ended.start()
    with pymongo.MongoClient(ended.uri) as client:
        assert client.db.c.count_documents({}) == 5 * DOCUMENTS


@pytest.mark.parametrize("keeps", [0.3, 0.9])
def test_a_log_cut_in_the_middle_of_a_chain(tmp_path, keeps):
    """A transaction of several records without its last one never was."""
    arbor = ReplicaSet(tmp_path / "data", ["--syncdelay", "3600"])
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        fill(client)
        client.admin.command("fsync")
        client.db.create_collection("large")
        lengths = {segment: segment.stat().st_size for segment in segments(arbor)}
        with client.start_session() as session, session.start_transaction():
            for number in range(40):
                client.db.large.insert_one({"_id": number, "data": os.urandom(LARGE)}, session=session)
    arbor.kill()
    # behind the chain's begin, which is in the last segment that there was
    cut = False
    for segment in segments(arbor):
        begin = lengths.get(segment, HEADER)
        grown = segment.stat().st_size - begin
        if grown > 10 * LARGE and not cut:
            os.truncate(segment, begin + int(grown * keeps))
            cut = True
        elif cut:
            segment.unlink()
    assert cut
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        assert client.db.c.count_documents({}) == DOCUMENTS
        assert client.db.large.count_documents({}) == 0
        client.db.large.insert_one({"_id": 0})
        assert client.db.command("validate", "large", full=True)["valid"]
    arbor.kill()
    arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        assert client.db.large.find_one() == {"_id": 0}
    arbor.stop()


def test_a_member_without_its_log_copies_the_data(tmp_path):
    """It is refused as it is; without its directory it is a new member."""
    with initiated(tmp_path) as (members, client):
        fill(client)
        follower = next(member for member in members.members if member is not members.at(client.primary))
        until(lambda: len(documents(follower)) == DOCUMENTS + 1, what="the documents on the member")
        with direct(follower) as own:
            own.admin.command("fsync")
        follower.kill()
        in_sync(client, 2)
        shutil.rmtree(follower.dbpath / "log")
        text = refusal(follower)
        assert "are missing" in text, text
        shutil.rmtree(follower.dbpath)
        follower.start()
        in_sync(client, 3)
        until(lambda: len(documents(follower)) == DOCUMENTS + 1, what="the documents on the new member")
        assert len({str(digest(member)) for member in members.members}) == 1


def test_a_copy_of_a_member_in_the_place_of_another(tmp_path):
    """A member is its number and its data: the copy is a new member, whose data happens to be near the end of the log."""
    with initiated(tmp_path) as (members, client):
        fill(client)
        one, other = [member for member in members.members if member is not members.at(client.primary)]
        for member in (one, other):
            member.kill()
        shutil.rmtree(other.dbpath)
        shutil.copytree(one.dbpath, other.dbpath)
        one.start()
        in_sync(client, 2)
        other.start()
        client.db.c.insert_one({"_id": DOCUMENTS})
        in_sync(client, 3)
        for member in (one, other):
            until(lambda member=member: len(documents(member)) == DOCUMENTS + 2, what="the documents on both")
        assert len({str(digest(member)) for member in members.members}) == 1
