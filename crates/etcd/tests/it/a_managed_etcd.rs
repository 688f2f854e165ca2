use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use arbor_etcd::{Error, Etcd, ManagedEtcd, ManagedOptions, Patience, Ports, TlsFiles, find_binary};
use arbor_repl::coordinator::contract;
use arbor_repl::{Coordinator, Replaced};

use crate::process::{binary, free_port, log, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);
const CHANGE: Patience<'_> = Patience { time: PATIENCE, stopped: None };

fn options(binary: &Path, directory: &Path, name: &str) -> ManagedOptions {
    ManagedOptions {
        binary: binary.to_owned(),
        launcher: vec![],
        directory: directory.join(name).join("etcd"),
        name: name.to_owned(),
        host: "127.0.0.1".to_owned(),
        listen: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        ports: Ports { client: free_port(), peer: free_port() },
        prefix: "/arbor/1".to_owned(),
        set: "rs0".to_owned(),
        tls: TlsFiles::default(),
    }
}

fn cluster_of(etcd: &Etcd, joining: &ManagedOptions) -> String {
    let name_of = |name: &str| if name.is_empty() { joining.name.clone() } else { name.to_owned() };
    let members = etcd.add_member(&joining.peer_url(), &CHANGE).unwrap();
    let parts = members.iter().map(|member| format!("{}={}", name_of(&member.name), member.peer_urls[0]));
    parts.collect::<Vec<_>>().join(",")
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn it_is_started_again_and_ends_with_its_owner() {
    let Some(binary) = binary() else { return };
    let directory = tempfile::tempdir().unwrap();
    let log = log(directory.path());
    let options = options(&binary, directory.path(), "one");
    let managed = ManagedEtcd::found(options.clone(), &log).unwrap();
    let etcd = managed.wait_until_ready(PATIENCE).unwrap();
    assert!(matches!(etcd.replace(None, &contract::agreement(1)).unwrap(), Replaced::Done(_)));
    // More than one where a start fails, as for a port that is still in use.
    let starts = managed.starts();
    kill(managed.pid().unwrap());
    wait_for("another start", || managed.starts() > starts && managed.pid().is_some());
    wait_for("the agreement", || etcd.read().is_ok_and(|read| read.is_some()));
    let again = ManagedEtcd::found(options.clone(), &log).err().unwrap().to_string();
    assert!(again.ends_with("has an etcd member already"), "{again}");
    let pid = managed.pid().unwrap();
    drop(managed);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it outlived its owner");
    let resumed = ManagedEtcd::resume(options.clone(), &log).unwrap().expect("it was begun");
    let etcd = resumed.wait_until_ready(PATIENCE).unwrap();
    assert_eq!(etcd.read().unwrap().unwrap().1, contract::agreement(1));
    drop(resumed);
    // Its data lost, it is not begun a second time.
    std::fs::remove_dir_all(options.directory.join("data")).unwrap();
    let error = ManagedEtcd::resume(options, &log).err().unwrap().to_string();
    assert!(error.contains("is gone"), "{error}");
}

#[test]
fn members_are_added_promoted_and_removed() {
    let Some(binary) = binary() else { return };
    let directory = tempfile::tempdir().unwrap();
    let log = log(directory.path());
    let mut managed = vec![ManagedEtcd::found(options(&binary, directory.path(), "m0"), &log).unwrap()];
    let etcd = managed[0].wait_until_ready(PATIENCE).unwrap();
    assert!(matches!(etcd.replace(None, &contract::agreement(1)).unwrap(), Replaced::Done(_)));
    for name in ["m1", "m2"] {
        let joining = options(&binary, directory.path(), name);
        let cluster = cluster_of(&etcd, &joining);
        let url = joining.peer_url();
        managed.push(ManagedEtcd::join(joining, &cluster, etcd.endpoints(), &log).unwrap());
        let id = etcd.members().unwrap().iter().find(|member| member.peer_urls == [url.clone()]).unwrap().id;
        etcd.promote_member(id, &CHANGE).unwrap();
        managed.iter().for_each(|managed| managed.note_endpoints(&etcd).unwrap());
    }
    let members = etcd.members().unwrap();
    assert!(members.len() == 3 && members.iter().all(|member| !member.is_learner));
    assert_eq!(etcd.endpoints().len(), 3);
    for member in &members {
        wait_for("the lead of this member", || matches!(etcd.lead_by(member, &members), Ok(true)));
    }
    // The first, which leads maybe, is lost: the other two continue.
    let other = managed[1].coordinator().unwrap();
    drop(managed.remove(0));
    wait_for("an agreement after the loss", || {
        let Ok(Some((version, _))) = other.read() else { return false };
        matches!(other.replace(Some(version), &contract::agreement(2)), Ok(Replaced::Done(_)))
    });
    let lost = members.iter().find(|member| member.name == "m0").unwrap().id;
    other.remove_member(lost, &CHANGE).unwrap();
    assert_eq!(other.members().unwrap().len(), 2);
}

#[test]
fn a_binary_that_is_no_etcd_is_refused() {
    let error = find_binary(Some(Path::new("/bin/true"))).unwrap_err();
    assert!(matches!(error, Error::Process(_)));
    assert_eq!(error.to_string(), "/bin/true: is no etcd: it does not name its version");
    assert!(find_binary(Some(Path::new("/no/such/etcd"))).is_err());
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("etcd");
    std::fs::write(&old, "#!/bin/sh\necho etcd Version: 3.4.23\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&old, mode).unwrap();
    let error = find_binary(Some(&old)).unwrap_err().to_string();
    assert!(error.contains("is etcd 3.4.23, which is too old"), "{error}");
}
