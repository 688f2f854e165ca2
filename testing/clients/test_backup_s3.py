"""Backups in an object store that speaks the protocol of S3: moto's server, which checks rights and signatures."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

import boto3
import pymongo
import pytest
from botocore.exceptions import ClientError

from arbor_process import Arbor, ReplicaSet, free_port
from certificates import Authority
from test_backup import Writers, check_restored, fill, state

RIGHTS = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
# Requests by which the store is set up; all others are signed.
SETUP = 6


class Store:
    """A store with one bucket, a user who may do everything, and one who may do nothing."""

    def __init__(self, directory, authority=None):
        self.port, self.tls, self.trusted = free_port(), [], True
        if authority:
            certificate, key = authority.certificate("store", "/O=Test/CN=store", "subjectAltName=IP:127.0.0.1")
            self.tls, self.trusted = ["-s", "-c", str(certificate), "-k", str(key)], str(authority.ca)
        self.endpoint = f"http{'s' if authority else ''}://127.0.0.1:{self.port}"
        self.log = open(directory / "store.log", "ab")

    def __enter__(self):
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port), *self.tls]
        environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP)}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        end = time.monotonic() + 60
        while True:
            try:
                own = ssl.create_default_context(cafile=self.trusted) if self.tls else None
                urllib.request.urlopen(f"{self.endpoint}/moto-api/", context=own).read()
                break
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end
                time.sleep(0.1)
        place = {"endpoint_url": self.endpoint, "region_name": "us-east-1", "verify": self.trusted}
        first = {"aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
        iam = boto3.client("iam", **place, **first)
        iam.create_user(UserName="backup")
        iam.put_user_policy(UserName="backup", PolicyName="all", PolicyDocument=json.dumps(RIGHTS))
        self.key = iam.create_access_key(UserName="backup")["AccessKey"]
        iam.create_user(UserName="guest")
        self.guest = iam.create_access_key(UserName="guest")["AccessKey"]
        boto3.client("s3", **place, **first).create_bucket(Bucket="bucket")
        own = {"aws_access_key_id": self.key["AccessKeyId"], "aws_secret_access_key": self.key["SecretAccessKey"]}
        self.s3 = boto3.client("s3", **place, **own)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def environment(self, key=None):
        key = key or self.key
        return {
            **os.environ,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }

    def keys(self, prefix=""):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def start(self, *arguments, environment=None):
        command = [os.environ["ARBOR"], "backup", *map(str, arguments)]
        own = environment or self.environment()
        return subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments, environment=None):
        process = self.start(*arguments, environment=environment)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def succeeds(self, *arguments):
        status, output = self.run(*arguments)
        assert status == 0, output
        return output

    def refused(self, *arguments, environment=None):
        status, output = self.run(*arguments, environment=environment)
        assert status not in (0, 101), output
        return output


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as store:
        yield store


TARGET = "s3://bucket/of/rs 0"


def test_full_and_incremental_backups_are_restored(store, tmp_path):
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri) as client:
        fill(client)
        # More than one part of an upload.
        client.db.large.insert_many([{"bytes": os.urandom(1 << 20)} for _ in range(40)])
        with Writers(member.uri):
            first = store.succeeds("create", "--uri", member.direct_uri, "--to", TARGET).splitlines()[-1].split()[0]
        added = store.succeeds("create", "--incremental", "--uri", member.direct_uri, "--to", TARGET)
        assert "log: positions" in added, added
        client.db.tree.insert_one({"_id": "last", "n": 3})
        # An index build, whose tree is copied for itself.
        client.db.large.create_index("absent")
        store.succeeds("create", "--incremental", "--uri", member.direct_uri, "--to", TARGET)
        expected, hashes = state(client.db), client.db.command("dbHash")["collections"]
    tags = [found["ETag"] for found in store.s3.list_objects_v2(Bucket="bucket")["Contents"]]
    assert any("-" in tag for tag in tags), "one was sent in parts"
    assert "restorable: " in store.succeeds("list", "--from", TARGET)
    output = store.succeeds("verify", "--from", TARGET, "--restore", "--scratch", tmp_path)
    assert f"{first} ok" in output and "log ok" in output, output
    store.succeeds("restore", "--from", TARGET, "--dbpath", tmp_path / "restored")
    with Arbor(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert state(client.db) == expected
        assert client.db.command("dbHash")["collections"] == hashes
        check_restored(client)
        assert "another deployment" in store.refused("create", "--uri", restored.uri, "--to", TARGET)
        second = store.succeeds("create", "--uri", restored.uri, "--to", "s3://bucket").splitlines()[-1].split()[0]
        assert store.succeeds("list", "--from", "s3://bucket").split()[0] == second


def test_an_archive_continues_and_only_one_process_writes_it(store, tmp_path):
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri) as client:
        client.db.c.insert_one({"_id": 0})
        store.succeeds("create", "--uri", member.uri, "--to", TARGET)
        running = store.start("archive", "--uri", member.uri, "--to", TARGET)
        for turn in range(1, 40):
            client.db.c.insert_one({"_id": turn})
            if turn % 10 == 0:
                running.kill()
                running.wait()
                running = store.start("archive", "--uri", member.uri, "--to", TARGET)
            time.sleep(0.1)
        other = store.start("archive", "--uri", member.uri, "--to", TARGET)
        end = time.monotonic() + 60
        while (codes := (running.poll(), other.poll())) == (None, None):
            assert time.monotonic() < end
            client.db.c.insert_one({})
            time.sleep(0.05)
        assert codes.count(None) == 1, codes
        ended, left = (running, other) if codes[1] is None else (other, running)
        assert "another process archives into" in ended.communicate()[0]
        left.kill()
        left.wait()
        store.succeeds("create", "--incremental", "--uri", member.uri, "--to", TARGET)
        hashes = client.db.command("dbHash")["collections"]
        # The log before the newest backup goes with the older one.
        store.succeeds("restore", "--from", TARGET, "--dbpath", tmp_path / "restored")
        store.succeeds("create", "--uri", member.uri, "--to", TARGET)
        logs = len(store.keys("of/rs 0/log/"))
        assert logs > 5
        assert " removed" in store.succeeds("prune", "--from", TARGET, "--keep", 1)
        assert len(store.keys("of/rs 0/log/")) < logs
        assert "ok" in store.succeeds("verify", "--from", TARGET)
    with Arbor(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert client.db.command("dbHash")["collections"] == hashes


def test_what_is_wrong_is_said(store, tmp_path):
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        client.db.c.insert_many([{"bytes": os.urandom(100_000)} for _ in range(300)])

        def refused(target=TARGET, **variables):
            environment = {**store.environment(), **variables}
            environment = {name: value for name, value in environment.items() if value is not None}
            return store.refused("create", "--uri", server.uri, "--to", target, environment=environment)

        assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in refused(AWS_ACCESS_KEY_ID=None)
        output = refused(AWS_SECRET_ACCESS_KEY="wrong")
        assert "the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) are wrong: the store says 403" in output, output
        assert "InvalidAccessKeyId" in refused(AWS_ACCESS_KEY_ID="unknown")
        output = store.refused("create", "--uri", server.uri, "--to", TARGET, environment=store.environment(store.guest))
        assert "have not the right to do that: the store says 403 (AccessDenied" in output, output
        assert "there is no bucket other" in refused("s3://other/x")
        assert "not of the form s3://BUCKET/PREFIX" in refused("s3://") and "s3://BUCKET" in refused("s3://A b/x")
        assert "cannot reach http://127.0.0.1:1" in refused(AWS_ENDPOINT_URL="http://127.0.0.1:1")
        assert "https://HOST:PORT" in refused(AWS_ENDPOINT_URL="ftp://x")
        assert not store.keys()
        assert "s3://bucket/of/rs 0 has no backup" in store.refused("restore", "--from", TARGET, "--dbpath", tmp_path / "no")

        # Killed in the middle: it is seen, and goes with the parts that were sent.
        running = store.start("create", "--uri", server.uri, "--to", TARGET, "--limit", 8)
        while not store.s3.list_multipart_uploads(Bucket="bucket").get("Uploads"):
            assert running.poll() is None
            time.sleep(0.05)
        running.kill()
        running.wait()
        assert "incomplete" in store.succeeds("list", "--from", TARGET)
        assert "not finished" in store.succeeds("prune", "--from", TARGET, "--keep", 1)
        assert not store.keys() and not store.s3.list_multipart_uploads(Bucket="bucket").get("Uploads")

        # The bucket vanishes.
        running = store.start("create", "--uri", server.uri, "--to", TARGET, "--limit", 8)
        while not store.keys():
            assert running.poll() is None
            time.sleep(0.05)
        end = time.monotonic() + 60
        while True:
            try:
                for key in store.keys():
                    store.s3.delete_object(Bucket="bucket", Key=key)
                store.s3.delete_bucket(Bucket="bucket")
                break
            except ClientError:
                assert time.monotonic() < end
        output, _ = running.communicate(timeout=120)
        assert running.returncode not in (0, 101) and "there is no bucket bucket" in output, output
        store.s3.create_bucket(Bucket="bucket")

        # Damage.
        name = store.succeeds("create", "--uri", server.uri, "--to", TARGET).splitlines()[-1].split()[0]
        key = max(store.keys(), key=lambda key: store.s3.head_object(Bucket="bucket", Key=key)["ContentLength"])
        whole = store.s3.get_object(Bucket="bucket", Key=key)["Body"].read()
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 1
        for damaged in (bytes(changed), whole[:-1], None):
            if damaged is None:
                store.s3.delete_object(Bucket="bucket", Key=key)
            else:
                store.s3.put_object(Bucket="bucket", Key=key, Body=damaged)
            for output in (
                store.refused("verify", "--from", TARGET),
                store.refused("restore", "--from", TARGET, "--backup", name, "--dbpath", tmp_path / "into"),
            ):
                assert f"s3://bucket/{key}" in output and not (tmp_path / "into").exists(), output
        store.s3.put_object(Bucket="bucket", Key=key, Body=whole)
        assert "ok" in store.succeeds("verify", "--from", TARGET)


class Unsteady(threading.Thread):
    """A way to the store on which connections break after some bytes."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.broken, self.bytes = port, 0, 300_000
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port)) as store:
            def requests():
                try:
                    while data := client.recv(65536):
                        store.sendall(data)
                except OSError:
                    pass

            threading.Thread(target=requests, daemon=True).start()
            left = self.bytes
            try:
                while data := store.recv(65536):
                    client.sendall(data[:left])
                    left -= len(data)
                    if left <= 0:
                        self.broken += 1
                        break
            except OSError:
                pass
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


def test_a_restore_continues_where_connections_break(store, tmp_path):
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        client.db.c.insert_many([{"bytes": os.urandom(10_000)} for _ in range(200)])
        store.succeeds("create", "--uri", server.uri, "--to", TARGET)
        hashes = client.db.command("dbHash")["collections"]
    way = Unsteady(store.port)
    way.start()
    # The signature has the host; the store takes the header's.
    environment = {**store.environment(), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{way.own_port}"}
    status, output = store.run("restore", "--from", TARGET, "--dbpath", tmp_path / "restored", environment=environment)
    way.listener.close()
    assert status == 0 and way.broken > 3, (output, way.broken)
    with Arbor(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert client.db.command("dbHash")["collections"] == hashes


def test_a_store_over_tls_is_asked_only_if_its_certificate_is_trusted(tmp_path):
    own, other = Authority(tmp_path, "own"), Authority(tmp_path, "other")
    with Store(tmp_path, own) as store, Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        client.db.c.insert_many([{"bytes": os.urandom(10_000)} for _ in range(2000)])
        hashes = client.db.command("dbHash")["collections"]
        for authority in (other.ca, "/dev/null"):
            output = store.refused(
                "create", "--uri", server.uri, "--to", TARGET, environment={**store.environment(), "SSL_CERT_FILE": str(authority)}
            )
            assert f"cannot reach {store.endpoint}" in output and "certificate" in output.lower(), output
        assert not store.keys()
        trusting = {**store.environment(), "SSL_CERT_FILE": str(own.ca)}
        for arguments in (["create", "--uri", server.uri, "--to", TARGET], ["restore", "--from", TARGET, "--dbpath", tmp_path / "restored"]):
            status, output = store.run(*arguments, environment=trusting)
            assert status == 0, output
    with Arbor(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert client.db.command("dbHash")["collections"] == hashes
