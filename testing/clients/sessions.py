"""What tests of sessions send by hand."""

import socket
import struct
import threading
import uuid

import bson
import pytest
from bson.binary import UUID_SUBTYPE, Binary
from bson.int64 import Int64
from pymongo.errors import OperationFailure

#: SHA-256 of nothing: the digest of clients that have not logged in.
NOBODY = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


def new_lsid():
    return {"id": Binary(uuid.uuid4().bytes, UUID_SUBTYPE)}


class Wire(threading.local):
    """Sends commands as they are, without a driver's own `lsid`; a connection for each thread."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=60)

    def send(self, body):
        """The request's bytes, to be sent as they are."""
        return self.exchange(self.request(body))

    @staticmethod
    def request(body):
        encoded = bson.encode(body)
        return struct.pack("<iiiiIB", 21 + len(encoded), 7, 0, 2013, 0, 0) + encoded

    def exchange(self, request):
        self.socket.sendall(request)
        header = self.read(16)
        rest = self.read(struct.unpack("<i", header[:4])[0] - 16)
        return bson.decode(rest[5:])

    def read(self, size):
        out = b""
        while len(out) < size:
            part = self.socket.recv(size - len(out))
            if not part:
                raise ConnectionError("the server closed the connection")
            out += part
        return out


class Session:
    """A session whose fields the test chooses itself."""

    def __init__(self, client, lsid=None):
        self.lsid, self.number = lsid or new_lsid(), 0
        self.reach(client)

    def reach(self, client):
        client.admin.command("ping")
        self.wire = Wire(client.address)

    def run(self, command, db="sessions", **fields):
        """The reply, errors too."""
        return self.wire.send({**command, "lsid": self.lsid, **fields, "$db": db})

    def begin(self, command, number=None, **fields):
        self.number = self.number + 1 if number is None else number
        return self.run(command, txnNumber=Int64(self.number), autocommit=False, startTransaction=True, **fields)

    def go_on(self, command, number=None, **fields):
        return self.run(command, txnNumber=Int64(self.number if number is None else number), autocommit=False, **fields)

    def commit(self, number=None, **fields):
        return self.go_on({"commitTransaction": 1}, number, db="admin", **fields)

    def abort(self, number=None, **fields):
        return self.go_on({"abortTransaction": 1}, number, db="admin", **fields)

    def write(self, command, number=None, **fields):
        if number is None:
            self.number += 1
        return self.run(command, txnNumber=Int64(self.number if number is None else number), **fields)


def without_times(reply):
    """A reply without what differs from time to time."""
    return {name: value for name, value in reply.items() if name not in ("$clusterTime", "operationTime", "electionId", "opTime")}


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def ids(documents):
    return sorted(document["_id"] for document in documents)


def timestamp(value):
    return isinstance(value, bson.Timestamp)
