//! The start and the end of the server.
//!
//! Start: log file, directory (lock, identity), addresses (bound, so that a busy port shows before a long recovery),
//! storage with its recovery, then listen. End: stop accepting, interrupt and finish what runs, a last checkpoint, close.
//! A crash at any point leaves what the log holds.

use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use arbor_base::memory;
use arbor_bson::{ArrayBuf, DocBuf};
use arbor_command::{BACKUP_CURSOR_DIRECTORY, Commands, Options, Parameters};
use arbor_disk::ring::{self, Rings};
use arbor_engine::MemberState;
use arbor_member::Dialer;
use arbor_protocol::log::{Log, events};
use arbor_query::Database;
use arbor_repl::{OwnAddress, Replication};
use arbor_router::Connect;
use arbor_server::{Hooks, Limits, Listeners, Reads, Server, Signal, Stop, UnixSocket};
use arbor_store::UnfinishedBuild;

use crate::config::{self, Settings, TlsMode};
use crate::directory::{self, Directory};
use crate::engines::{EngineChoice, Engines};
use crate::failure::{BAD_OPTIONS, CANNOT_LISTEN, Failure};
use crate::front::{CommandsCell, Front, Process};
use crate::memory::{Sizes, start as start_monitor};
use crate::storage::{Pace, Part, Storage};
use crate::{allocator, audit, background, descriptors, http, membership, notify, oplog, recorder, security};

const CONTEXT: &str = "initandlisten";
const HOOKS: Hooks = Hooks { worker_start: allocator::large_thread_cache, idle: allocator::empty_thread_cache };

pub(crate) fn run(settings: Settings) -> Result<(), Failure> {
    let log = Arc::new(open_log(&settings)?);
    let outcome = serve(settings, &log);
    if let Err(failure) = &outcome {
        log.error(events::START_FAILED, CONTEXT, DocBuf::new().with("error", &failure.message));
    }
    let code = outcome.as_ref().err().map_or(0, |failure| i32::from(failure.code));
    log.info(events::CLOSED, CONTEXT, DocBuf::new());
    log.info(events::EXITING, CONTEXT, DocBuf::new().with("exitCode", code));
    outcome
}

/// Returns the queues of reads that no thread waits for, if the kernel has them.
fn reads() -> Option<&'static dyn Reads> {
    struct Queues(&'static Rings);
    impl Reads for Queues {
        fn event(&self) -> BorrowedFd<'_> {
            self.0.event()
        }

        fn reap(&self) {
            self.0.reap();
        }
    }
    static QUEUES: OnceLock<Option<Queues>> = OnceLock::new();
    let threads = available_parallelism().map_or(1, usize::from);
    let queues = QUEUES.get_or_init(|| ring::start(threads).map(Queues)).as_ref();
    queues.map(|queues| queues as &dyn Reads)
}

fn open_log(settings: &Settings) -> Result<Log, Failure> {
    let log = match &settings.logpath {
        None => Log::to_standard_output(),
        Some(path) => Log::to_file(path, settings.logappend)
            .map_err(|error| Failure::cannot_start(format!("cannot open the log file {}: {error}", path.display())))?,
    };
    log.set_quiet(settings.quiet);
    log.set_verbosity(settings.verbosity);
    Ok(log)
}

fn serve(mut settings: Settings, log: &Arc<Log>) -> Result<(), Failure> {
    check_role(&settings)?;
    limit_connections(&mut settings, log);
    let (parameters, without_effect) =
        Parameters::new(&settings.parameters).map_err(|reason| Failure::new(BAD_OPTIONS, reason))?;
    let engines = Engines::of(&settings, directory::engine_of(&settings.dbpath).as_deref())?;
    let reported = log.clone();
    let engines = engines.reporting(move |text| {
        let attributes = DocBuf::new().with("setting", "storageEngine").with("reason", text);
        reported.startup_warning(events::SETTING_NOT_APPLIED, attributes);
    });
    announce(&settings, &engines, log, without_effect.iter().map(|parameter| parameter.0.as_str()));
    let sizes = Sizes::of(&settings);
    let budget = memory::process();
    budget.set_limit(sizes.limit.unwrap_or(0));
    memory::set_thread_meter(allocator::thread_allocated);
    if sizes.is_small() {
        allocator::return_large_at_once();
    }
    let cell = CommandsCell::default();
    let silence = parameters.int("firstMessageTimeoutSecs").and_then(|seconds| u64::try_from(seconds).ok());
    let limits = Limits {
        connections_max: settings.connections_max,
        connections_per_address_max: settings.connections_per_address_max,
        new_connections_per_second: settings.new_connections_per_second,
        silence: silence
            .filter(|_| settings.has_access_control())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        ..Limits::default()
    };
    let tls = security::tls(&settings)?;
    let server = Server::new(limits).with_tls(tls.clone()).with_hooks(HOOKS).with_reads(reads());
    let (stop, metrics, bell) = (server.stop(), server.metrics(), server.bell());
    arbor_server::watch_signals(on_signal(log.clone(), stop.clone(), cell.clone())).map_err(Failure::cannot_start)?;
    let directory = Directory::open(&settings.dbpath, engines.home)?;
    // a backup cursor ends with its server
    let _there_was_none = std::fs::remove_dir_all(settings.dbpath.join(BACKUP_CURSOR_DIRECTORY));
    write_pidfile(&settings)?;
    let accounts = security::accounts(&settings)?;
    let audit = audit::open(&settings)?;
    let listeners = bind(&settings)?;
    security::check_addresses(&settings, &listeners, log)?;
    let http = http::start(&settings, &cell, &stop, tls.clone(), log)?;
    let pace = Pace {
        commit_interval: Duration::from_millis(settings.commit_interval_ms),
        log_compression: settings.log_compression,
        // 0 meant "never" in MongoDB; the log would grow without end.
        checkpoint_interval: Duration::from_secs(settings.checkpoint_seconds.max(1)),
        cache_bytes: sizes.cache(),
        history: match settings.replica_set {
            Some(_) => Some(oplog::retention(&settings.oplog, &settings.dbpath)),
            None => oplog::retention_of_directory(&settings.dbpath),
        },
    };
    let replication = open_replication(&settings, &listeners, log)?;
    let dialer = Dialer::new(security::credentials(&settings).map_err(|reason| Failure::new(BAD_OPTIONS, reason))?);
    let membership = membership::of(&settings, &listeners, log, &cell, dialer.clone())?;
    let opening = match &replication {
        None => Part::Own,
        Some(replication) if replication.is_of_several() => Part::OfSeveral,
        Some(replication) if replication.is_initiated() => Part::Own,
        Some(_) => Part::OwnUnlessEmpty,
    };
    let options = options(&settings, &listeners, &directory);
    let storage = Storage::open(directory, &engines, &pace, opening)?;
    let engine = storage.transactions.engine().clone();
    let monitor = start_monitor(budget, engine, stop.clone()).map_err(Failure::cannot_start)?;
    log_recovery(log, &storage);
    warn_of_unavailable(log, &storage);

    let router = open_router(&settings, &listeners, &dialer)?;
    let balancer = open_balancer(&settings, &listeners, &dialer);
    let host = Process { metrics, stop: stop.clone(), bell, tls, settings: settings.clone(), dialer };
    let database = Database::new(storage.store.clone(), storage.transactions.clone());
    let commands = Commands::new(database, log.clone(), parameters, options, Box::new(host));
    let commands = commands.with_replication(replication).with_membership(membership).with_accounts(accounts);
    let seam = balancer.clone().map(|balancer| balancer as Arc<dyn arbor_command::Balancer>);
    let commands = commands.with_balancer(seam);
    let commands =
        commands.as_shard(settings.is_shard).as_config_server(settings.is_config_server).with_router(router.clone());
    let commands = Arc::new(commands.with_audit(audit.clone()));
    set_storage_parameters(&commands, log)?;
    commands.apply_parameters();
    if cell.set(commands.clone()).is_err() {
        return Err(Failure::cannot_start("the commands were there already"));
    }
    commands.begin_replication();
    commands.begin_sharding().map_err(Failure::cannot_start)?;
    commands.read_cluster_parameters().map_err(Failure::cannot_start)?;
    commands.read_feature_version().map_err(Failure::cannot_start)?;

    let clock = start_clock(commands.clone(), stop.clone())?;
    let recorder = recorder::start(commands.clone(), log.clone(), &settings.dbpath, stop.clone())?;
    let feed = start_feed(&commands)?;
    let (upkeep_stop, balancer_stop, changes_stop) = (stop.clone(), stop.clone(), stop.clone());
    let ttl = start_ttl_monitor(commands.clone(), stop)?;
    let upkeep = start_upkeep(commands.clone(), upkeep_stop)?;
    let balancer = balancer.map(|balancer| start_balancer(balancer, commands.clone(), balancer_stop)).transpose()?;
    if router.is_some() {
        start_changes(commands.clone(), changes_stop)?;
    }
    let builds = begin_builds_again(&commands)?;
    commands.audit_start();
    let unix = listen(&settings, log, &listeners)?;
    let served = server.with_unix_socket(unix).run(listeners, Arc::new(Front { commands: commands.clone() }));
    log.info(events::CLOSING, CONTEXT, DocBuf::new());
    notify::stopping();
    commands.database.transactions.end_waits();
    let _ = clock.join();
    let _ = recorder.join();
    http.into_iter().for_each(|http| drop(http.join()));
    let _ = ttl.join();
    let _ = upkeep.join();
    balancer.into_iter().for_each(|balancer| drop(balancer.join()));
    let _ = monitor.join();
    commands.database.feed.stop();
    feed.into_iter().for_each(|feed| drop(feed.join()));
    builds.into_iter().for_each(|build| drop(build.join()));
    commands.end_membership();
    drop(commands);
    if let Some(audit) = audit {
        audit.close();
    }
    let closed = storage.close();
    remove_pidfile(&settings);
    served.map_err(Failure::cannot_start).and(closed)
}

/// Raises the limit of descriptors and takes no more connections than it bears.
fn limit_connections(settings: &mut Settings, log: &Log) {
    let limit = descriptors::raise_limit();
    let most = descriptors::connections_max(settings.connections_max, limit);
    let shown = i64::try_from(limit).unwrap_or(i64::MAX);
    if limit < descriptors::RECOMMENDED {
        let recommended = descriptors::RECOMMENDED as i64;
        log.startup_warning(
            events::FEW_DESCRIPTORS,
            DocBuf::new().with("currentValue", shown).with("recommendedMinimum", recommended),
        );
    }
    if most < settings.connections_max {
        let asked = settings.connections_max as i64;
        let attributes = DocBuf::new().with("asked", asked).with("taken", most as i64).with("descriptors", shown);
        log.info(events::FEWER_CONNECTIONS, CONTEXT, attributes);
    }
    settings.connections_max = most;
}

/// The lines at the head of the log: what was asked for, and what of it is not done.
fn announce<'a>(settings: &Settings, engines: &Engines, log: &Log, without_effect: impl Iterator<Item = &'a str>) {
    let name = engines.default;
    let attributes = DocBuf::new()
        .with("pid", i64::from(std::process::id()))
        .with("port", i32::from(settings.port))
        .with("dbPath", &*settings.dbpath.to_string_lossy())
        .with("version", crate::version::VERSION)
        .with("gitVersion", crate::version::COMMIT)
        .with("engine", name)
        .with("homeEngine", engines.home);
    log.info(events::STARTING, CONTEXT, attributes);
    log.info(events::OPTIONS_SET, CONTEXT, DocBuf::new().with("options", &config::nested(&settings.given)));
    if !settings.has_access_control() {
        log.startup_warning(events::NO_ACCESS_CONTROL, DocBuf::new());
    }
    warn_of_machine(log, Path::new("/"));
    let warn = |key: &str, text: &str| {
        log.startup_warning(events::SETTING_NOT_APPLIED, DocBuf::new().with("setting", key).with("reason", text));
    };
    settings.warnings.iter().for_each(|warning| warn(&warning.key, &warning.text));
    without_effect.for_each(|name| warn(&format!("setParameter.{name}"), "the parameter has no effect here"));
    if settings.cache_bytes.is_some() && !engines.default().is_some_and(EngineChoice::has_cache) {
        let text =
            format!("'{name}' reads through the page cache of the operating system; bound it with a control group");
        warn("cache size", &text);
    }
    engines.refused().iter().for_each(|(option, reason)| warn(option, reason));
}

/// Settings of the machine that make a database slow. `root` is the directory that contains `proc` and `sys`.
fn warn_of_machine(log: &Log, root: &Path) {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let huge_pages = "sys/kernel/mm/transparent_hugepage/enabled";
    if read(huge_pages).contains("[always]") {
        let attributes = DocBuf::new().with("sysfsFile", &format!("/{huge_pages}")).with("currentValue", "always");
        log.startup_warning(events::HUGE_PAGES, attributes.with("desiredValue", "madvise"));
    }
    let swappiness: i32 = read("proc/sys/vm/swappiness").trim().parse().unwrap_or(0);
    let swap = read("proc/meminfo").lines().any(|line| line.starts_with("SwapTotal:") && !line.ends_with(" 0 kB"));
    if swap && swappiness > 1 {
        let attributes = DocBuf::new().with("sysfsFile", "/proc/sys/vm/swappiness").with("currentValue", swappiness);
        log.startup_warning(events::SWAP, attributes);
    }
}

/// Applies the `--setParameter` values of log, checkpoints and engines, which are open now.
fn set_storage_parameters(commands: &Commands, log: &Log) -> Result<(), Failure> {
    let set = commands.set_storage_parameters().map_err(|error| Failure::new(BAD_OPTIONS, error.to_string()))?;
    for (name, reason) in set {
        let attributes = DocBuf::new().with("setting", &*format!("setParameter.{name}")).with("reason", &*reason);
        log.startup_warning(events::SETTING_NOT_APPLIED, attributes);
    }
    Ok(())
}

/// This server as the member of a set, if it is to be one.
fn open_replication(settings: &Settings, listeners: &Listeners, log: &Log) -> Result<Option<Replication>, Failure> {
    let Some(name) = &settings.replica_set else {
        if arbor_repl::was_initiated(&settings.dbpath) {
            log.startup_warning(events::MEMBER_ALONE, DocBuf::new());
        }
        return Ok(None);
    };
    let own = OwnAddress { names: settings.addresses(), port: port_of(settings, listeners) };
    Replication::open(name, own, &settings.dbpath).map(Some).map_err(Failure::cannot_start)
}

/// The router to the shards of a cluster, if this is to be one.
fn open_router(
    settings: &Settings,
    listeners: &Listeners,
    dialer: &Dialer,
) -> Result<Option<Arc<dyn arbor_command::Router>>, Failure> {
    let Some(config_db) = &settings.config_db else { return Ok(None) };
    let address = format!("{}:{}", arbor_protocol::process::host_name(), port_of(settings, listeners));
    let router = arbor_router::Router::new(config_db, address, connect_by(dialer))
        .map_err(|reason| Failure::new(BAD_OPTIONS, reason))?;
    Ok(Some(Arc::new(router)))
}

fn connect_by(dialer: &Dialer) -> Connect {
    let dialer = dialer.clone();
    Arc::new(move |host, timeout| dialer.connect(host, timeout))
}

/// The balancer of a cluster, if this is one of its config servers.
fn open_balancer(settings: &Settings, listeners: &Listeners, dialer: &Dialer) -> Option<Arc<arbor_router::Balancer>> {
    let address = format!("{}:{}", arbor_protocol::process::host_name(), port_of(settings, listeners));
    settings.is_config_server.then(|| Arc::new(arbor_router::Balancer::new(&address, connect_by(dialer))))
}

/// Refuses roles that a server alone cannot have.
fn check_role(settings: &Settings) -> Result<(), Failure> {
    let refused = |text: &str| Err(Failure::new(BAD_OPTIONS, text));
    match (settings.is_shard, settings.is_config_server) {
        (true, true) => refused("a server is a shard or a config server, not both"),
        (true, _) | (_, true) if settings.replica_set.is_none() => {
            refused("--shardsvr and --configsvr are for members of replica sets: --replSet is missing")
        }
        _ => Ok(()),
    }
}

fn bind(settings: &Settings) -> Result<Listeners, Failure> {
    arbor_server::bind(&settings.addresses(), settings.port, settings.ipv6).map_err(cannot_listen)
}

fn cannot_listen(error: arbor_server::Error) -> Failure {
    match error {
        arbor_server::Error::AddressInUse { address } => {
            Failure::new(CANNOT_LISTEN, format!("SocketException: Address already in use: {address}"))
        }
        error => Failure::new(CANNOT_LISTEN, error.to_string()),
    }
}

fn listen(settings: &Settings, log: &Log, listeners: &Listeners) -> Result<Option<UnixSocket>, Failure> {
    arbor_server::listen(listeners).map_err(cannot_listen)?;
    for address in listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
        log.info(events::LISTENING, "listener", DocBuf::new().with("address", &address.to_string()));
    }
    let port = port_of(settings, listeners);
    let unix = security::unix_socket(settings, port, log)?;
    if let Some(unix) = &unix {
        log.info(events::LISTENING, "listener", DocBuf::new().with("address", &*unix.path().to_string_lossy()));
    }
    log.info(
        events::WAITING_FOR_CONNECTIONS,
        "listener",
        DocBuf::new()
            .with("port", i32::from(port))
            .with("ssl", if settings.tls.mode == TlsMode::Disabled { "off" } else { "on" }),
    );
    if settings.welcome || (settings.logpath.is_some() && std::io::stdout().is_terminal()) {
        welcome(settings, port);
    }
    background::ready();
    notify::ready();
    Ok(unix)
}

fn port_of(settings: &Settings, listeners: &Listeners) -> u16 {
    let bound = listeners.first().and_then(|listener| listener.local_addr().ok());
    bound.map_or(settings.port, |address| address.port())
}

fn welcome(settings: &Settings, port: u16) {
    let host = match settings.bind_ip.first().map(String::as_str) {
        Some("0.0.0.0" | "::") | None => "127.0.0.1",
        Some(host) => host,
    };
    println!(
        "\nArbor is ready: mongodb://{host}:{port}\n\n    mongosh mongodb://{host}:{port}/test\n    \
         test> db.trees.insertMany([{{ name: 'oak', height: 30 }}, {{ name: 'birch', height: 20 }}])\n    \
         test> db.trees.createIndex({{ height: 1 }})\n    \
         test> db.trees.find({{ height: {{ $gt: 25 }} }})\n\nCtrl-C stops the server cleanly.\n"
    );
}

fn options(settings: &Settings, listeners: &Listeners, directory: &Directory) -> Options {
    Options {
        commit: crate::version::COMMIT,
        build: crate::version::long(),
        argv: config::without_secrets(std::env::args()),
        parsed: config::nested(&settings.given),
        dbpath: settings.dbpath.clone(),
        directory_id: directory.id.clone(),
        port: port_of(settings, listeners),
        slow_ms: settings.slow_ms,
        slow_sample_rate: settings.slow_sample_rate,
        profile_level: settings.profile_level,
        connections_max: settings.connections_max,
    }
}

fn log_recovery(log: &Log, storage: &Storage) {
    let recovery = storage.recovery;
    let attributes = DocBuf::new()
        .with("checkpointPosition", recovery.applied.0 as i64)
        .with("logEndPosition", recovery.end.0 as i64)
        .with("recordsReplayed", recovery.end.0.saturating_sub(recovery.applied.0) as i64)
        .with("databases", &storage.store.list_databases().iter().map(String::as_str).collect::<ArrayBuf>())
        .with("durationMillis", recovery.took.as_millis() as i64);
    log.info(events::RECOVERED, CONTEXT, attributes);
}

/// Collections on an engine that does not open are missed; the others are there.
fn warn_of_unavailable(log: &Log, storage: &Storage) {
    for member in storage.transactions.engine().members() {
        if let MemberState::Unavailable { reason } = &member.state {
            log.startup_warning(
                events::ENGINE_UNAVAILABLE,
                DocBuf::new().with("engine", &*member.name).with("reason", &**reason),
            );
        }
    }
}

/// The first signal to end stops cleanly, a second one at once: the log holds what was acknowledged. Before the server
/// listens there is nothing to finish.
fn on_signal(log: Arc<Log>, stop: Stop, commands: CommandsCell) -> impl Fn(Signal) + Send + Sync {
    let stop_cleanly = {
        let (log, stop, commands) = (log.clone(), stop.clone(), commands.clone());
        move |name| {
            log.info(events::SIGNAL_RECEIVED, "signal", DocBuf::new().with("signal", name).with("action", "stop"));
            let Some(commands) = commands.get() else { std::process::exit(0) };
            commands.interrupt_all();
            stop.now();
        }
    };
    move |signal| match signal {
        Signal::Rotate => {
            if let Err(error) = log.rotate() {
                log.error(events::SIGNAL_RECEIVED, "signal", DocBuf::new().with("rotate", &error.to_string()));
            }
        }
        Signal::LogOperations => log_operations(&log, &commands),
        Signal::HangUp if stop.is_stopping() => {}
        Signal::Terminate(name) if stop.is_stopping() => {
            log.warn(
                events::SIGNAL_RECEIVED,
                "signal",
                DocBuf::new().with("signal", name).with("action", "stop without a checkpoint"),
            );
            std::process::exit(1);
        }
        Signal::Terminate(name) => stop_cleanly(name),
        Signal::HangUp => stop_cleanly("SIGHUP"),
    }
}

/// Fields of an operation that are logged on SIGUSR2: none of them holds a value of a client.
const LOGGED_OF_OPERATIONS: [&str; 7] =
    ["opid", "op", "ns", "client", "planSummary", "microsecs_running", "waitingForLock"];

fn log_operations(log: &Log, commands: &CommandsCell) {
    let running = commands.get().map(|commands| commands.running_operations()).unwrap_or_default();
    log.info(
        events::SIGNAL_RECEIVED,
        "signal",
        DocBuf::new().with("signal", "SIGUSR2").with("operations", running.len() as i64),
    );
    for operation in running {
        let fields = LOGGED_OF_OPERATIONS.iter().filter_map(|name| operation.get(name).map(|value| (*name, value)));
        log.info(events::OPERATION_RUNNING, "signal", fields.collect());
    }
}

/// Interval at which the clock and the monitor check for a stop of the server.
const TICK: Duration = Duration::from_millis(250);

/// Ticks between two searches for changes that routers have left.
const CHANGES_TICKS: u64 = 8;

/// A thread that works on documents as those of requests do.
fn statement_thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned()).stack_size(arbor_base::STATEMENT_STACK_BYTES)
}

/// A thread for each index build that the end of the process interrupted.
fn begin_builds_again(commands: &Arc<Commands>) -> Result<Vec<std::thread::JoinHandle<()>>, Failure> {
    let begin = |(number, build): (u64, UnfinishedBuild)| {
        let commands = commands.clone();
        let name = format!("arbor-build-{number}");
        statement_thread(&name).spawn(move || commands.build_again(number, &build)).map_err(Failure::cannot_start)
    };
    (0..).zip(commands.unfinished_builds()).map(begin).collect()
}

/// Starts the thread that deletes expired documents. It reads its parameters each time, since they may change.
fn start_ttl_monitor(commands: Arc<Commands>, stop: Stop) -> Result<std::thread::JoinHandle<()>, Failure> {
    let monitor = move || {
        let mut last = Instant::now();
        while !stop.is_stopping() {
            std::thread::sleep(TICK);
            if commands.ttl_pause().is_some_and(|pause| last.elapsed() >= pause) {
                commands.delete_expired();
                last = Instant::now();
            }
        }
    };
    statement_thread("arbor-ttl").spawn(monitor).map_err(Failure::cannot_start)
}

/// Starts the thread that works at each tick: on shards it deletes documents of chunks that have left, elsewhere it writes samples of
/// statements.
fn start_upkeep(commands: Arc<Commands>, stop: Stop) -> Result<std::thread::JoinHandle<()>, Failure> {
    let upkeep = move || {
        while !stop.is_stopping() {
            std::thread::sleep(TICK);
            commands.delete_orphans();
            commands.write_samples();
        }
    };
    statement_thread("arbor-upkeep").spawn(upkeep).map_err(Failure::cannot_start)
}

/// Starts the thread of the balancer, which does something on the primary only.
fn start_balancer(
    balancer: Arc<arbor_router::Balancer>,
    commands: Arc<Commands>,
    stop: Stop,
) -> Result<std::thread::JoinHandle<()>, Failure> {
    let rounds = move || {
        while !stop.is_stopping() {
            std::thread::sleep(TICK);
            balancer.tick(&commands);
        }
    };
    statement_thread("arbor-balancer").spawn(rounds).map_err(Failure::cannot_start)
}

/// Starts the thread of a router that completes what other routers have left. It ends with the process: others complete what it has begun.
fn start_changes(commands: Arc<Commands>, stop: Stop) -> Result<(), Failure> {
    let work = move || {
        for tick in 1u64.. {
            std::thread::sleep(TICK);
            if stop.is_stopping() {
                return;
            }
            if tick.is_multiple_of(CHANGES_TICKS) {
                commands.continue_changes();
            }
        }
    };
    statement_thread("arbor-changes").spawn(work).map(drop).map_err(Failure::cannot_start)
}

/// Starts the thread that reads committed entries for subscribers; none on a standalone, which has no subscribers.
fn start_feed(commands: &Commands) -> Result<Option<std::thread::JoinHandle<()>>, Failure> {
    if commands.database.transactions.retention().is_none() {
        return Ok(None);
    }
    let feed = commands.database.feed.clone();
    let thread = statement_thread("arbor-feed").spawn(move || feed.run());
    thread.map(Some).map_err(Failure::cannot_start)
}

/// The thread that closes forgotten cursors and sessions.
fn start_clock(commands: Arc<Commands>, stop: Stop) -> Result<std::thread::JoinHandle<()>, Failure> {
    let clock = move || {
        let mut watchdog = notify::Watchdog::from_environment();
        for tick in 0u64.. {
            if stop.is_stopping() {
                return;
            }
            if tick.is_multiple_of(4) {
                commands.tick();
            }
            watchdog.tick();
            std::thread::sleep(TICK);
        }
    };
    statement_thread("arbor-clock").spawn(clock).map_err(Failure::cannot_start)
}

fn write_pidfile(settings: &Settings) -> Result<(), Failure> {
    let Some(path) = &settings.pidfile else { return Ok(()) };
    std::fs::write(path, format!("{}\n", std::process::id()))
        .map_err(|error| Failure::cannot_start(format!("cannot write the pid file {}: {error}", path.display())))
}

fn remove_pidfile(settings: &Settings) {
    if let Some(path) = &settings.pidfile {
        let _ = std::fs::remove_file(path);
    }
}
