//! Wrong passwords: from an address that has sent too many for a user, no password of that user is accepted for a while. Other addresses
//! are not affected, so no one else can lock a user out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use arbor_auth::UserName;
use arbor_protocol::transport::Peer;
use parking_lot::Mutex;

use crate::{Commands, Connection};

/// Pairs of users and addresses that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// Wrong passwords since the last right one.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<(UserName, IpAddr), Row>>);

#[derive(Clone, Copy, Debug)]
struct Row {
    count: u64,
    last: Instant,
}

/// Rule by which an address is locked out (`authFailedLockoutThreshold`, `authFailedLockoutSecs`).
#[derive(Clone, Copy, Debug)]
struct Rule {
    count: u64,
    time: Duration,
}

impl Failures {
    fn note(&self, key: (UserName, IpAddr), now: Instant, rule: Rule) {
        let mut rows = self.0.lock();
        if rows.len() >= REMEMBERED_MAX {
            rows.retain(|_, row| now.duration_since(row.last) < rule.time);
        }
        // someone who tries more names than are remembered guesses none of them often
        if rows.len() >= REMEMBERED_MAX {
            rows.clear();
        }
        let row = rows.entry(key).or_insert(Row { count: 0, last: now });
        if now.duration_since(row.last) >= rule.time {
            row.count = 0;
        }
        *row = Row { count: row.count + 1, last: now };
        assert!(rows.len() <= REMEMBERED_MAX, "failures are remembered within bounds");
    }

    fn is_locked(&self, key: &(UserName, IpAddr), now: Instant, rule: Rule) -> bool {
        let row = self.0.lock().get(key).copied();
        row.is_some_and(|row| row.count >= rule.count && now.duration_since(row.last) < rule.time)
    }

    /// A login was right.
    pub(crate) fn forget(&self, peer: &Peer, user: &UserName) {
        let mut rows = self.0.lock();
        if !rows.is_empty() {
            rows.remove(&key(peer, user));
        }
    }
}

fn key(peer: &Peer, user: &UserName) -> (UserName, IpAddr) {
    (user.clone(), peer.remote.ip().to_canonical())
}

impl Commands {
    /// Returns the rule; None: no address is locked out.
    fn lockout(&self) -> Option<Rule> {
        let number = |name| self.parameters.int(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let count = number("authFailedLockoutThreshold");
        (count > 0).then(|| Rule { count, time: Duration::from_secs(number("authFailedLockoutSecs")) })
    }

    pub(super) fn is_locked_out(&self, connection: &Connection, user: &UserName) -> bool {
        let now = Instant::now();
        self.lockout().is_some_and(|rule| self.accounts.failures.is_locked(&key(&connection.peer, user), now, rule))
    }

    pub(super) fn note_wrong_password(&self, connection: &Connection, user: &UserName) {
        if let Some(rule) = self.lockout() {
            self.accounts.failures.note(key(&connection.peer, user), Instant::now(), rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_locked_out_for_a_while() {
        let failures = Failures::default();
        let key = |user: &str, address: &str| (UserName::new(user, "admin"), address.parse().unwrap());
        let rule = Rule { count: 3, time: Duration::from_secs(60) };
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let one = key("u", "10.0.0.1");
        for second in 0..3 {
            assert!(!failures.is_locked(&one, at(second), rule));
            failures.note(one.clone(), at(second), rule);
        }
        assert!(failures.is_locked(&one, at(3), rule) && failures.is_locked(&one, at(61), rule));
        assert!(!failures.is_locked(&key("u", "10.0.0.2"), at(3), rule), "another address");
        assert!(!failures.is_locked(&key("v", "10.0.0.1"), at(3), rule), "another user");
        assert!(!failures.is_locked(&one, at(62), rule), "the time is over");
        failures.note(one.clone(), at(70), rule);
        assert!(!failures.is_locked(&one, at(71), rule), "the count begins again");
        for number in 0..REMEMBERED_MAX * 2 {
            failures.note(key(&number.to_string(), "10.0.0.1"), at(100), rule);
        }
        assert!(failures.0.lock().len() <= REMEMBERED_MAX);
    }
}
