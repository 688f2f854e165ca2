//! Addresses of this member.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use arbor_protocol::process;

/// Address under which this member is reached.
#[derive(Clone, Debug, Default)]
pub struct OwnAddress {
    /// Names or addresses it listens on.
    pub names: Vec<String>,
    pub port: u16,
}

impl OwnAddress {
    /// Returns `host:port` for a default configuration: the host's name when the member listens on every address, else
    /// the first non-loopback address, else the first.
    pub fn default_host(&self) -> String {
        let everywhere = |name: &String| name == "0.0.0.0" || name == "::";
        let local = |name: &String| name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let host = match self.names.iter().any(everywhere) {
            true => process::host_name(),
            false => {
                let far = self.names.iter().find(|name| !local(name));
                far.or(self.names.first()).cloned().unwrap_or_else(process::host_name)
            }
        };
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }

    /// Returns true if `host:port` is this member. Uses the system's resolver.
    pub fn is_at(&self, host: &str) -> bool {
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port == Some(self.port) && host.to_socket_addrs().is_ok_and(|mut addresses| addresses.any(is_of_this_machine))
    }
}

/// Only the machine's own addresses can be bound.
fn is_of_this_machine(address: SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(names: &[&str]) -> OwnAddress {
        OwnAddress { names: names.iter().map(|name| (*name).to_owned()).collect(), port: 4711 }
    }

    #[test]
    fn the_default_host_is_one_that_others_reach() {
        let named = format!("{}:4711", process::host_name());
        for (names, expect) in [
            (&["127.0.0.1"][..], "127.0.0.1:4711"),
            (&["127.0.0.1", "10.1.2.3"], "10.1.2.3:4711"),
            (&["localhost", "db.example"], "db.example:4711"),
            (&["::1"], "[::1]:4711"),
            (&["127.0.0.1", "0.0.0.0"], &named),
            (&[], &named),
        ] {
            assert_eq!(own(names).default_host(), expect);
        }
    }

    #[test]
    fn its_own_host_and_no_other() {
        let own = own(&["127.0.0.1"]);
        assert!(own.is_at("127.0.0.1:4711") && own.is_at("localhost:4711"));
        assert!(!own.is_at("127.0.0.1:4712") && !own.is_at("192.0.2.1:4711") && !own.is_at("127.0.0.1"));
    }
}
