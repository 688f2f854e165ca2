//! Bounds of what one address, and all of them together, may open: connections at a time, and new ones in a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Open connections of each address. Counts nothing while there is no limit.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// 0: any number.
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Addresses {
    pub(crate) fn new(most: usize) -> Addresses {
        Addresses { most, open: Mutex::default() }
    }

    /// Counts a new connection; returns false if its address has as many as it may have.
    pub(crate) fn came(&self, address: IpAddr) -> bool {
        if self.most == 0 {
            return true;
        }
        let mut open = self.open.lock();
        let count = open.entry(address.to_canonical()).or_default();
        let admitted = *count < self.most;
        *count += usize::from(admitted);
        admitted
    }

    /// Requires that the connection was counted.
    pub(crate) fn left(&self, address: IpAddr) {
        if self.most == 0 {
            return;
        }
        let mut open = self.open.lock();
        let count = open.get_mut(&address.to_canonical()).expect("a connection that leaves was counted");
        assert!(*count > 0, "a connection leaves once");
        *count -= 1;
        if *count == 0 {
            open.remove(&address.to_canonical());
        }
    }
}

/// Rate of new connections: one second's number may come at once, then as many as the rate allows.
#[derive(Debug)]
pub(crate) struct Rate {
    /// 0: any number.
    per_second: u32,
    /// Connections that may come now, and when that was.
    left: Mutex<(f64, Instant)>,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Rate {
        Rate { per_second, left: Mutex::new((f64::from(per_second), Instant::now())) }
    }

    /// Counts a new connection; returns how long it has to wait.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        if self.per_second == 0 {
            return Duration::ZERO;
        }
        let rate = f64::from(self.per_second);
        let mut left = self.left.lock();
        let (count, then) = *left;
        let earned = now.saturating_duration_since(then).as_secs_f64() * rate;
        let count = (count + earned).min(rate) - 1.0;
        *left = (count, now.max(then));
        assert!(count <= rate, "no more than one second's number is saved");
        if count >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-count / rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_own_count() {
        let addresses = Addresses::new(2);
        let (one, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert!(addresses.came(one) && addresses.came(one) && !addresses.came(one));
        assert!(!addresses.came("::ffff:10.0.0.1".parse().unwrap()), "the same address in another form");
        assert!(addresses.came(other));
        addresses.left(one);
        assert!(addresses.came(one) && !addresses.came(one));
        for address in [one, one, other] {
            addresses.left(address);
        }
        assert!(addresses.open.lock().is_empty());
        let unlimited = Addresses::new(0);
        assert!((0..100).all(|_| unlimited.came(one)) && unlimited.open.lock().is_empty());
    }

    #[test]
    fn new_connections_beyond_the_rate_wait() {
        let begin = Instant::now();
        let rate = Rate::new(10);
        assert!((0..10).all(|_| rate.wait(begin) == Duration::ZERO));
        let waits: Vec<u128> = (0..3).map(|_| rate.wait(begin).as_millis()).collect();
        assert_eq!(waits, [100, 200, 300]);
        // four have been earned since, three of them were taken in advance
        let later = begin + Duration::from_millis(450);
        assert_eq!(rate.wait(later), Duration::ZERO);
        assert!((1..100).contains(&rate.wait(later).as_millis()));
        let much_later = begin + Duration::from_secs(100);
        assert!((0..10).all(|_| rate.wait(much_later) == Duration::ZERO) && rate.wait(much_later) > Duration::ZERO);
        assert!((0..1000).all(|_| Rate::new(0).wait(begin) == Duration::ZERO));
    }
}
