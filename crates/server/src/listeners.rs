//! Listening sockets, bound before the runtime starts so that a busy port is an error of the start.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Error, Result};

pub type Listeners = Vec<TcpListener>;

/// Binds every address of every name; the sockets listen only once [`listen`] is called: a busy port is found at once, and no
/// client connects to a server that is still recovering. Port 0 lets the system choose (one port for the first address, reused
/// for the rest).
pub fn bind(names: &[String], port: u16, ipv6: bool) -> Result<Listeners> {
    let mut listeners: Listeners = Vec::new();
    let mut port = port;
    for address in resolve(names, ipv6)? {
        let listener = bind_one(SocketAddr::new(address.ip(), port))?;
        if port == 0 {
            port = listener.local_addr().map(|a| a.port()).unwrap_or(0);
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Begins to take connections, which wait until the server runs.
pub fn listen(listeners: &[TcpListener]) -> Result<()> {
    for listener in listeners {
        rustix::net::listen(listener, 4096).map_err(|errno| cannot(listener.local_addr(), errno))?;
    }
    Ok(())
}

fn cannot(address: io::Result<SocketAddr>, errno: rustix::io::Errno) -> Error {
    let address = address.unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
    match errno {
        rustix::io::Errno::ADDRINUSE => Error::AddressInUse { address },
        errno => Error::Listen { address, source: io::Error::from(errno) },
    }
}

fn resolve(names: &[String], ipv6: bool) -> Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for name in names {
        let name = name.trim();
        let found = (name, 0).to_socket_addrs().map_err(|source| Error::Resolve { name: name.to_owned(), source })?;
        let literal = name.parse::<std::net::IpAddr>().is_ok();
        for address in found.filter(|a| literal || ipv6 || a.is_ipv4()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    Ok(addresses)
}

fn bind_one(address: SocketAddr) -> Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = || -> rustix::io::Result<_> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &address)?;
        Ok(socket)
    };
    listener().map(TcpListener::from).map_err(|errno| cannot(Ok(address), errno))
}

/// A listening Unix socket; its file goes with it.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode: another server's file of the same name is not ours to remove.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens at a path. A file that a server left behind is replaced; one on which a server listens is an error.
    pub fn listen(path: &Path, permissions: u32) -> Result<UnixSocket> {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
        let cannot = |source: io::Error| Error::UnixSocket { path: path.to_owned(), source };
        match std::fs::symlink_metadata(path) {
            Ok(file) if !file.file_type().is_socket() => return Err(cannot(io::ErrorKind::AlreadyExists.into())),
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(cannot(io::ErrorKind::AddrInUse.into())),
            Ok(_) => std::fs::remove_file(path).map_err(cannot)?,
            Err(_) => {}
        }
        let address = SocketAddrUnix::new(path).map_err(|errno| cannot(errno.into()))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|e| cannot(e.into()))?;
        bind(&socket, &address).map_err(|errno| cannot(errno.into()))?;
        // before anyone can connect
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions)).map_err(cannot)?;
        let file = std::fs::symlink_metadata(path).map_err(cannot)?;
        listen(&socket, 4096).map_err(|errno| cannot(errno.into()))?;
        let file = (file.dev(), file.ino());
        Ok(UnixSocket { listener: UnixListener::from(socket), path: path.to_owned(), file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn accept_from(&self) -> io::Result<(tokio::net::UnixListener, Arc<str>)> {
        let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
        Ok((listener, self.path.to_string_lossy().into()))
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let own = std::fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file);
        if own {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_socket_is_taken_over_only_from_the_dead() {
        let path = std::env::temp_dir().join(format!("arbor-socket-test-{}.sock", std::process::id()));
        let first = UnixSocket::listen(&path, 0o700).unwrap();
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(UnixSocket::listen(&path, 0o700).is_err(), "a server listens there");
        drop(first);
        assert!(!path.exists());
        // a process that was killed leaves its file
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let second = UnixSocket::listen(&path, 0o770).unwrap();
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o770);
        drop(second);
        std::fs::write(&path, "a file").unwrap();
        assert!(UnixSocket::listen(&path, 0o700).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_busy_port_is_named() {
        let first = bind(&["127.0.0.1".to_owned()], 0, false).unwrap();
        listen(&first).unwrap();
        let port = first[0].local_addr().unwrap().port();
        let error = bind(&["127.0.0.1".to_owned()], port, false).unwrap_err();
        assert!(matches!(error, Error::AddressInUse { address } if address.port() == port), "{error}");
    }
}
