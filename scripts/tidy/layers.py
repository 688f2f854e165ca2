"""A crate uses crates of lower layers only, and only some know sockets (ARCHITECTURE.md). Tests may use any crate:
`[dev-dependencies]` are not read."""

import re
import tomllib

import files

# From the bottom up. Crates of one layer do not know each other.
LAYERS = [
    ["base"],
    ["bson", "disk"],
    ["engine", "lang", "log", "metrics", "notation", "protocol", "wire"],
    ["auth"],
    ["client", "engine-contract", "engine-lmdb", "engine-rocksdb", "engine-set", "engine-wiredtiger", "ftree", "repl", "server", "txn"],
    ["etcd", "lab", "member", "oplog"],
    ["session", "store"],
    ["query", "sim"],
    ["command"],
    ["router"],
    ["arbor"],
]
# These answer requests without knowing where they come from.
WITHOUT_SOCKETS = ("bson", "wire", "lang", "query", "store", "txn", "log", "engine", "ftree", "protocol", "auth")
SOCKET = re.compile(r"\b(TcpStream|TcpListener|UdpSocket|UnixStream|tokio|rustls)\b")
LEVEL = {name: number for number, layer in enumerate(LAYERS) for name in layer}


def check(root):
    for manifest in sorted((root / "crates").glob("*/Cargo.toml")):
        yield from upwards(manifest.parent.name, tomllib.loads(manifest.read_text()))
    for path in files.ending(root, ".rs"):
        yield from sockets(path, (root / path).read_text())


def upwards(crate, manifest):
    if crate not in LEVEL:
        yield f"scripts/tidy/layers.py: give the crate {crate} its layer"
        return
    for name in own_dependencies(manifest):
        if LEVEL.get(name, len(LAYERS)) >= LEVEL[crate]:
            yield f"crates/{crate}: uses {name}, which is not in a layer below"


def own_dependencies(manifest):
    """Returns the workspace's crates among the dependencies, without the prefix."""
    tables = [manifest, *manifest.get("target", {}).values()]
    names = {name for table in tables for name in table.get("dependencies", {})}
    return sorted(name.removeprefix("arbor-") for name in names if name.startswith("arbor-"))


def sockets(path, text):
    """Comments may speak of them."""
    parts = path.split("/")
    if parts[0] == "crates" and parts[1] in WITHOUT_SOCKETS and parts[2] == "src" and SOCKET.search(re.sub(r"//.*", "", text)):
        yield f"{path}: the crate {parts[1]} knows no sockets"
