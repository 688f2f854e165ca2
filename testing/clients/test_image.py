"""The container image: what is in it, and its first process as a container starts it: in a root of its own, without rights, on a read-only system."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from arbor_process import free_port

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "image"
USER = 999
ROOT = {"MONGO_INITDB_ROOT_USERNAME": "admin", "MONGO_INITDB_ROOT_PASSWORD": "a secret"}


# What a runtime brings: /proc, /dev, a volume and memory for temporary files; all else cannot be written.
ISOLATED = """set -e
mount --bind "$1" "$1"; mount --rbind /proc "$1/proc"; mount --rbind /dev "$1/dev"; mount -t tmpfs tmpfs "$1/tmp"
for directory in $WRITABLE; do mount --bind "$1/$directory" "$1/$directory"; done
mount -o remount,bind,ro "$1"
exec chroot --userspec=999:999 "$@"
"""


def isolated(root, *command, writable=("data/db",)):
    script = f"WRITABLE='{' '.join(writable)}'\n{ISOLATED}"
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(root), *command]


class Container:
    """`arbor container`, or the program that the image names, in the root of the image if there is one."""

    def __init__(self, directory, environment, *flags, root=None):
        self.port, self.log = free_port(), open(directory / "container.log", "ab")
        command = ["container", "--port", str(self.port), *flags]
        self.command = isolated(root, "/usr/bin/arbor", *command) if root else [os.environ["ARBOR"], *command]
        self.environment, self.log_path = {"PATH": os.environ["PATH"], **environment}, directory / "container.log"

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.environment, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def client(self, **options):
        return pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=5000, **options)

    def preparing(self):
        """The id of the process that sets up the container, as long as it runs."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid), "-f", "container --prepare"], capture_output=True, text=True)
        return int(found.stdout) if found.returncode == 0 else None

    def wait_until_prepared(self):
        end = time.monotonic() + 60
        while self.preparing():
            assert time.monotonic() < end
            time.sleep(0.1)

    def logged_in(self):
        """Waits for the user."""
        end = time.monotonic() + 60
        while True:
            client = self.client(username="admin", password="a secret")
            try:
                client.admin.command("listDatabases")
                return client
            except PyMongoError as error:
                client.close()
                assert time.monotonic() < end and self.process.poll() is None, (error, self.log_path.read_text()[-2000:])
                time.sleep(0.1)


def test_the_first_start_makes_a_user_and_later_ones_keep_it(tmp_path):
    flags = ["--dbpath", str(tmp_path / "data")]
    (tmp_path / "data").mkdir()
    password = tmp_path / "password"
    password.write_text("a secret\n")
    by_file = {"MONGO_INITDB_ROOT_USERNAME": "admin", "MONGO_INITDB_ROOT_PASSWORD_FILE": str(password)}
    with Container(tmp_path, by_file, *flags) as container:
        container.logged_in().db.c.insert_one({"_id": 1})
        with container.client() as client, pytest.raises(OperationFailure) as refused:
            client.db.c.find_one()
        assert refused.value.code == 13
        ping = [os.environ["ARBOR"], "ping", f"mongodb://127.0.0.1:{container.port}"]
        assert subprocess.run(ping, timeout=60).returncode == 0
    assert subprocess.run(ping, capture_output=True, timeout=60).returncode != 0
    with Container(tmp_path, ROOT, *flags) as container, container.logged_in() as client:
        assert client.db.c.find_one() == {"_id": 1}


def members_of_a_set(directory, names):
    key = directory / "key"
    key.write_text("a key of the members of the set")
    key.chmod(0o600)
    members = []
    for number, name in enumerate(names):
        own = directory / str(number)
        (own / "data").mkdir(parents=True)
        flags = ["--dbpath", str(own / "data"), "--replSet", "rs0", "--keyFile", str(key)]
        # the coordinator of tests; in the image each member runs etcd
        environment = {**ROOT, "ARBOR_COORDINATOR_FILE": str(directory / "coordinator"), "HOSTNAME": name}
        members.append(Container(own, environment, *flags))
    return members


def test_a_set_is_founded_by_its_first_member(tmp_path):
    members = members_of_a_set(tmp_path, ["127", "other-1", "other-2"])
    hosts = ",".join(f"127.0.0.1:{member.port}" for member in members)
    with contextlib.ExitStack() as stack:
        for member in members:
            member.environment["ARBOR_SET_MEMBERS"] = hosts
        for member in reversed(members):
            stack.enter_context(member)
        for member in members:
            with member.logged_in() as client:
                status = client.admin.command("replSetGetStatus")
                assert status["set"] == "rs0" and len(status["members"]) == 3
    # all start again, and the set is what it was
    with contextlib.ExitStack() as stack:
        for member in members:
            stack.enter_context(member)
        with members[2].logged_in() as client:
            assert client.admin.command("replSetGetStatus")["set"] == "rs0"


def test_the_member_that_leads_makes_the_user(tmp_path):
    # none has the name of the first host: the set is founded from outside, and led by another one
    members = members_of_a_set(tmp_path, ["other-0", "other-1", "other-2"])
    hosts = [f"127.0.0.1:{member.port}" for member in members]
    with contextlib.ExitStack() as stack:
        for member in members:
            member.environment["ARBOR_SET_MEMBERS"] = ",".join(hosts)
            stack.enter_context(member)
        config = {"_id": "rs0", "members": [{"_id": number, "host": host} for number, host in enumerate(hosts)]}
        with members[2].client() as client:
            client.admin.command("replSetInitiate", config)
        for member in members:
            member.logged_in().close()
            member.wait_until_prepared()


def is_running(process):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{process}/status").read_text()
    return False


def test_nothing_is_left_of_a_container_that_was_killed(tmp_path):
    [member] = members_of_a_set(tmp_path, ["other-0"])
    # it waits for a set that is not founded
    member.environment["ARBOR_SET_MEMBERS"] = "127.0.0.1:1"
    with member:
        end = time.monotonic() + 60
        while not (preparing := member.preparing()):
            assert time.monotonic() < end and member.process.poll() is None, member.log_path.read_text()
            time.sleep(0.01)
        with member.client() as client:
            client.admin.command("ping")
        assert member.preparing() == preparing
        member.process.kill()
        member.process.wait()
        while is_running(preparing):
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("environment", "flags", "reason"),
    [
        ({"MONGO_INITDB_ROOT_USERNAME": "a"}, [], "are set together"),
        ({**ROOT, "MONGO_INITDB_ROOT_PASSWORD_FILE": "x"}, [], "are both set"),
        ({"MONGO_INITDB_ROOT_USERNAME": "a", "MONGO_INITDB_ROOT_PASSWORD_FILE": "/none"}, [], "/none"),
        ({"ARBOR_SET_MEMBERS": "a:1"}, [], "--replSet"),
        ({}, ["--nonsense"], "--nonsense"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, environment, flags, reason):
    command = [os.environ["ARBOR"], "container", "--dbpath", str(tmp_path), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"], **environment})
    assert done.returncode not in (0, 101) and reason in done.stderr, done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if any(shutil.which(tool) is None for tool in ("dpkg-query", "objcopy", "git")):
        pytest.skip("a tool is not installed")
    directory = tmp_path_factory.mktemp("image")
    sums = []
    for name in ("first", "second"):
        command = [str(SCRIPT), "--binary", os.environ["ARBOR"], "--out", str(directory / name / "arbor.oci.tar"), "--level", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, env={**os.environ, "SOURCE_DATE_EPOCH": "1795000000"})
        assert done.returncode == 0, done.stderr
        sums.append(done.stdout)
    assert sums[0] == sums[1], "the same files give the same bytes"
    shutil.rmtree(directory / "second")
    with tarfile.open(directory / "first" / "arbor.oci.tar") as archive:
        archive.extractall(directory / "layout", filter="data")
    return directory / "layout"


def blob(layout, described):
    content = (layout / "blobs" / described["digest"].replace(":", "/")).read_bytes()
    assert described["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}" and described["size"] == len(content)
    return content


@pytest.fixture
def root(image, tmp_path):
    """The root that the image has."""
    [of_manifest] = json.loads((image / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(image, of_manifest))
    config = json.loads(blob(image, manifest["config"]))
    [layer] = manifest["layers"]
    packed = tmp_path / "layer.tar.gz"
    packed.write_bytes(blob(image, layer))
    assert config["config"]["User"] == f"{USER}:{USER}" and config["config"]["Entrypoint"] == ["/usr/bin/arbor", "container"]
    assert config["config"]["Healthcheck"]["Test"] == ["CMD", "/usr/bin/arbor", "ping"]
    with tarfile.open(packed) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert members["data/db"].uid == USER and members["usr/bin/arbor"].mode == 0o755
        assert not any(member.mode & 0o6000 for member in members.values()), "no program runs with other rights than its caller's"
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True).returncode:
            pytest.skip("only root starts a program in a root of its own")
        root = tmp_path / "root"
        archive.extractall(root, filter="tar")
    shutil.chown(root / "data/db", USER, USER)
    return root


def test_the_image_is_one_and_its_server_runs_in_it(root, tmp_path):
    (root / "docker-entrypoint-initdb.d/10.sh").write_text("echo $MONGO_INITDB_DATABASE > /data/db/script-ran\n")
    with Container(tmp_path, {**ROOT, "MONGO_INITDB_DATABASE": "shop"}, root=root) as container:
        container.logged_in().db.c.insert_one({"_id": 1})
        end = time.monotonic() + 60
        while not (root / "data/db/script-ran").exists():
            assert time.monotonic() < end, container.log_path.read_text()
            time.sleep(0.1)
        assert os.stat(root / "data/db/arbor.format").st_uid == USER
        ping = isolated(root, "/usr/bin/arbor", "ping", f"mongodb://127.0.0.1:{container.port}")
        assert subprocess.run(ping, timeout=60).returncode == 0
    assert (root / "data/db/script-ran").read_text() == "shop\n"
    (root / "data/db/script-ran").unlink()
    with Container(tmp_path, ROOT, root=root) as container, container.logged_in() as client:
        assert client.db.c.find_one() == {"_id": 1}
    assert not (root / "data/db/script-ran").exists(), "scripts are of the first start"


def test_no_script_outlives_its_server(root, tmp_path):
    (root / "docker-entrypoint-initdb.d/10.sh").write_text("true\n")
    # nothing is written into it
    os.mkfifo(root / "data/db/never")
    os.chmod(root / "data/db/never", 0o666)
    script = "(read line < /data/db/never) &\necho $$ $! > /data/db/started\nwait\n"
    (root / "docker-entrypoint-initdb.d/20.sh").write_text(script)
    with Container(tmp_path, ROOT, root=root) as container:
        started, end = root / "data/db/started", time.monotonic() + 60
        while not (started.exists() and started.read_text().endswith("\n")):
            assert time.monotonic() < end and container.process.poll() is None, container.log_path.read_text()
            time.sleep(0.1)
        processes = [int(process) for process in started.read_text().split()] + [container.preparing()]
        assert len(processes) == 3 and all(map(is_running, processes))
        container.process.kill()
        container.process.wait()
        while any(map(is_running, processes)):
            assert time.monotonic() < end
            time.sleep(0.1)
