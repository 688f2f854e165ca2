"""From a bare Debian root: install the package, start what its unit starts, log in, back up, lose everything, restore."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time

import pymongo
import pytest
from pymongo.errors import PyMongoError

from arbor_process import free_port
from test_dist import pack
from test_image import SCRIPT, USER, isolated

UNIT = pathlib.Path(__file__).resolve().parents[2] / "ops" / "systemd" / "arbor.service"
WRITABLE = ("var/lib/arbor", "var/log/arbor", "run/arbor")


def can_isolate():
    tools = all(shutil.which(tool) for tool in ("unshare", "dpkg-deb", "objcopy", "dpkg-query", "git", "cargo"))
    return tools and os.geteuid() == 0 and not subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True).returncode


@pytest.mark.skipif(not can_isolate(), reason="only root starts a program in a root of its own")
def test_a_machine_is_set_up_and_restored_after_its_loss(tmp_path):
    # a root with the libraries that the package depends on, and the package
    command = [str(SCRIPT), "--binary", os.environ["ARBOR"], "--out", str(tmp_path / "base.tar"), "--level", "1"]
    subprocess.run(command, check=True, capture_output=True, timeout=280)
    root = tmp_path / "root"
    with tarfile.open(tmp_path / "base.tar") as image:
        layer = max((member for member in image.getmembers() if member.isfile()), key=lambda member: member.size)
        with tarfile.open(fileobj=image.extractfile(layer)) as files:
            files.extractall(root, filter="tar")
    (root / "usr/bin/arbor").unlink()
    pack(tmp_path / "dist")
    [package] = (tmp_path / "dist").glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True, timeout=120)
    # as the script of the package and systemd make them
    for directory in WRITABLE:
        (root / directory).mkdir(parents=True, exist_ok=True)
        shutil.chown(root / directory, USER, USER)
    [start] = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    port = free_port()
    uri = f"mongodb://admin:secret@127.0.0.1:{port}/"

    class Service:
        def __enter__(self):
            with open(tmp_path / "service.log", "ab") as log:
                self.process = subprocess.Popen(isolated(root, *start.split(), "--port", str(port), writable=WRITABLE), stdout=log, stderr=log)
            return self

        def __exit__(self, *_):
            self.process.terminate()
            assert self.process.wait(timeout=60) == 0

    def connected(**login):
        end = time.monotonic() + 60
        while True:
            client = pymongo.MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=2000, **login)
            try:
                client.admin.command("ping")
                return client
            except PyMongoError:
                client.close()
                assert time.monotonic() < end, (tmp_path / "service.log").read_text()[-2000:]

    def arbor(*arguments):
        return subprocess.run([root / "usr/bin/arbor", *map(str, arguments)], check=True, capture_output=True, text=True, timeout=120).stdout

    with Service():
        with connected() as client:
            client.admin.command("createUser", "admin", pwd="secret", roles=["root"])
            with pytest.raises(PyMongoError):
                client.shop.orders.find_one()
        with connected(username="admin", password="secret") as client:
            client.shop.orders.insert_many([{"_id": n} for n in range(1000)])
            client.shop.orders.create_index("x")
            hashes = client.shop.command("dbHash")["collections"]
        arbor("backup", "create", "--uri", uri, "--to", tmp_path / "backups")
    assert "ok" in arbor("backup", "verify", "--from", tmp_path / "backups", "--restore", "--scratch", tmp_path)
    shutil.rmtree(root / "var/lib/arbor")
    arbor("backup", "restore", "--from", tmp_path / "backups", "--dbpath", root / "var/lib/arbor")
    subprocess.run(["chown", "--recursive", f"{USER}:{USER}", str(root / "var/lib/arbor")], check=True)
    with Service(), connected(username="admin", password="secret") as client:
        assert client.shop.command("dbHash")["collections"] == hashes and "x_1" in client.shop.orders.index_information()
    assert (root / "var/log/arbor/arbor.log").stat().st_size > 0
