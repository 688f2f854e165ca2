//! The process that listens on a port.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// State `LISTEN` in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Returns the process that listens on a TCP port. None: there is none, or it belongs to another user.
pub fn process_on_port(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inodes: Vec<u64> = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|process| has_one_of(*process, &inodes))
}

/// Returns the sockets that listen on a port, by inode.
fn listening(table: &str, port: u16) -> Vec<u64> {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = words.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(own, 16) == Ok(port) && words.get(3) == Some(&LISTENS);
        if is_it { words.get(9)?.parse().ok() } else { None }
    };
    table.lines().skip(1).filter_map(of_line).collect()
}

fn has_one_of(process: u32, inodes: &[u64]) -> bool {
    let directory = format!("/proc/{process}/fd");
    let descriptors = std::fs::read_dir(Path::new(&directory)).into_iter().flatten().flatten();
    let is_one = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| inodes.contains(&meta.ino()));
    descriptors.map(|descriptor| descriptor.path()).any(|path| is_one(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listening_process_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // a machine may have no IPv6
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert_eq!(process_on_port(port), Some(std::process::id()), "{address}");
            drop(listener);
            assert_eq!(process_on_port(port), None, "{address}");
        }
    }

    #[test]
    fn the_kernels_form() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:6989 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
                    1: 0100007F:6989 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
        assert_eq!(listening(text, 27017), [4711]);
        assert_eq!(listening(text, 1234), [0u64; 0]);
    }
}
