//! Everything that the server writes into its log: one table of events, in the order of their numbers.
//!
//! An event id is permanent, since tools search for it. Those of MongoDB's own events are MongoDB's; ours begin at 9,000,000.

use super::{Component, Event};

macro_rules! events {
    ($($name:ident = $component:ident $id:literal $message:literal),* $(,)?) => {
        $(pub const $name: Event = Event { component: Component::$component, id: $id, message: $message };)*

        #[cfg(test)]
        const ALL: &[Event] = &[$($name),*];
    };
}

#[rustfmt::skip]
events! {
    INVALID_DOCUMENT = Write 20_294 "Document would fail validation",
    NOT_AUTHORIZED = Access 20_436 "Checking authorization failed",
    MEMBER_ALONE = Repl 20_547 "Document(s) exist in 'system.replset', but started without --replSet. Database contents may appear inconsistent \
             with the writes that were visible when this node was running as part of a replica set. Restart with --replSet \
             unless you are doing maintenance and no other clients are connected",
    START_FAILED = Control 20_557 "DBException in initAndListen, terminating",
    CLOSED = Control 20_565 "Now exiting",
    INDEX_BUILD_FAILED = Index 20_649 "Index build: failed",
    INDEX_BUILD_DONE = Index 20_663 "Index build: completed",
    ROLE_CHANGED = Repl 21_358 "Replica set state transition",
    NOT_A_MEMBER = Repl 21_405 "Locally stored replica set configuration does not have a valid entry for the current node",
    OPTIONS_SET = Control 21_951 "Options set by command line",
    NO_ACCESS_CONTROL = Control 22_120 "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted",
    HUGE_PAGES = Control 22_178 "Transparent huge pages are always on: memory is taken and released in units of 2 MB",
    FEW_DESCRIPTORS = Control 22_184 "Soft rlimits for open file descriptors too low",
    CONNECTION_REFUSED = Network 22_942 "Connection refused because there are too many open connections",
    CONNECTION_ACCEPTED = Network 22_943 "Connection accepted",
    CONNECTION_ENDED = Network 22_944 "Connection ended",
    HANDSHAKE_FAILED = Network 22_988 "Error receiving request from client. Ending connection from remote",
    LISTENING = Network 23_015 "Listening on",
    WAITING_FOR_CONNECTIONS = Network 23_016 "Waiting for connections",
    EXITING = Control 23_138 "Shutting down",
    SIGNAL_RECEIVED = Control 23_377 "Received signal",
    CLIENT_METADATA = Network 51_800 "client metadata",
    SLOW_QUERY = Command 51_803 "Slow query",
    SHUTDOWN_ASKED = Command 4_615_003 "Shutdown command",
    STARTING = Control 4_615_611 "Arbor starting",
    CLOSING = Control 4_784_901 "Shutting down",
    INDEX_BUILD_AGAIN = Index 5_043_100 "Index build: begins again after a restart",
    LOGGED_IN = Access 5_286_306 "Successfully authenticated",
    LOGIN_FAILED = Access 5_286_307 "Failed to authenticate",
    TTL_FAILED = Index 5_400_703 "Error running TTL job on collection",
    SWAP = Control 8_386_700 "Memory of the process may be swapped out. Set swappiness to 0 or 1",
    BAD_FRAME = Network 9_000_001 "Connection closed for a bad frame",
    REQUEST_PANICKED = Command 9_000_002 "Request failed by a panic",
    SETTING_NOT_APPLIED = Control 9_000_010 "Option ignored or adjusted",
    RECOVERED = Recovery 9_000_011 "Recovery done",
    ENGINE_UNAVAILABLE = Storage 9_000_012 "Storage engine unavailable; its collections are offline",
    FEWER_CONNECTIONS = Network 9_000_013 "Connection limit lowered to leave descriptors for the log and the engines",
    LOW_ON_SPACE = Storage 9_000_014 "The device of the data directory is full. The space reserve was released: deletions, drops and checkpoints work, other \
    writes are refused",
    SPACE_AGAIN = Storage 9_000_015 "There is space on the device again. The space reserve was restored, and writes are accepted",
    EXPIRED_SESSIONS_KEPT = Command 9_000_016 "Rows of expired sessions could not be deleted",
    OPEN_TO_ALL = Access 9_000_017 "Access control is off, and other machines reach this server (--allowInsecure)",
    PROFILE_FAILED = Command 9_000_018 "An operation could not be added to system.profile",
    ADDRESS_REFUSED = Network 9_000_019 "Connection refused because its address has too many",
    ROLE_NOT_WRITTEN = Repl 9_000_020 "Cannot write the entries of a new role or configuration",
    USER_NOT_READ = Access 9_000_021 "Could not fetch updated user privilege information; continuing to use old information",
    ETCD_STARTED = Repl 9_000_031 "etcd was started",
    ETCD_ENDED = Repl 9_000_032 "etcd ended, and is started again",
    ETCD_LINE = Repl 9_000_033 "etcd",
    ETCD_OLD = Repl 9_000_034 "The release of etcd has known defects",
    ETCD_MEMBERS = Repl 9_000_035 "The members of etcd follow those of the set",
    ETCD_MEMBERS_FAILED = Repl 9_000_036 "The members of etcd cannot follow those of the set yet",
    MEMBER_FAILED = Repl 9_000_040 "This member of the replica set cannot continue",
    MEMBER_TOO_STALE = Repl 9_000_041 "The other members no longer have the records that this one needs: it has to copy the data",
    INITIAL_SYNC_BEGINS = Repl 9_000_042 "Initial sync begins",
    INITIAL_SYNC_PROGRESS = Repl 9_000_043 "Initial sync continues",
    INITIAL_SYNC_ENDED = Repl 9_000_044 "Initial sync is done",
    INITIAL_SYNC_FAILED = Repl 9_000_045 "An attempt of the initial sync failed; it is tried again",
    TREE_FETCH_FAILED = Repl 9_000_046 "A tree of another member could not be fetched; it is tried again",
    BACKUP_BEGUN = Storage 9_000_047 "A backup begins: the state of this moment is held",
    RANGE_NOT_DELETED = Storage 9_000_050 "Documents of a range that has left could not be deleted; it is tried again",
    RECORDER_FAILS = Control 9_000_051 "The flight recorder cannot write its samples; it tries again",
    RECORDER_WORKS = Control 9_000_052 "The flight recorder writes again",
    OPERATION_RUNNING = Control 9_000_053 "Operation running",
    COORDINATOR_FAILS = Repl 9_000_054 "The coordinator of the replica set cannot be used: no failover and no change of the set is possible from here",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_event() {
        for pair in ALL.windows(2) {
            assert!(
                pair[0].id < pair[1].id,
                "{} {:?} precedes {} {:?}",
                pair[0].id,
                pair[0].message,
                pair[1].id,
                pair[1].message
            );
        }
    }
}
