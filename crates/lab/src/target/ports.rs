//! Free ports, for servers we are about to start.

use std::net::TcpListener;

use rand::RngExt;

/// Another program may take the port between this and the server's bind; the server then reports it and the run ends.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Below the range from which the system gives ports to connections.
const FIRST_PORTS: std::ops::Range<u16> = 10_000..30_000;
const ATTEMPTS_MAX: usize = 100;

/// Distances from a member's port to those of the etcd that it may run.
const ETCD: [u16; 2] = [1_000, 2_000];

/// Port at which the etcd of a member replies to its clients.
pub(crate) fn etcd_port(member: u16) -> u16 {
    member + ETCD[0]
}

/// Returns the first of `count` ports in a row that are free, as are those of the etcd of a member at each of them.
pub(crate) fn free_ports(count: u16) -> std::io::Result<u16> {
    let is_free =
        |port: u16| [0, ETCD[0], ETCD[1]].iter().all(|by| TcpListener::bind(("127.0.0.1", port + by)).is_ok());
    for _ in 0..ATTEMPTS_MAX {
        let first = rand::rng().random_range(FIRST_PORTS);
        if (first..first + count).all(is_free) {
            return Ok(first);
        }
    }
    Err(std::io::Error::other(format!("there are no {count} free ports in a row")))
}
