//! The TCP sockets that a process group listens on, as `/proc` shows them.
//!
//! A test by connecting would not do: while a process starts, another program may take its port, and would then get
//! its requests. A connection without a request may also confuse an application.

use crate::ended::{has_ended, running_thread};
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{FDTarget, FDsIter, Process, all_processes};
use procfs::{ProcError, ProcResult};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The answer to the question whether a group listens on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listening {
    /// No program listens on the port.
    Free,
    /// Another program does.
    Another,
    /// The group does, on this address.
    Group(SocketAddr),
}

/// Returns whether the process group listens on the port. `uid` is its user.
pub(crate) fn on_port(group: u32, uid: u32, port: u16) -> ProcResult<Listening> {
    let on_port: Vec<_> =
        listeners()?.into_iter().filter(|l| l.local_address.port() == port).collect();
    if on_port.is_empty() {
        return Ok(Listening::Free);
    }
    let sockets = Sockets::of(group)?;
    let own = on_port.iter().find(|listener| sockets.include(listener, uid));
    Ok(own.map_or(Listening::Another, |own| Listening::Group(own.local_address)))
}

/// Returns the addresses that the process group listens on.
pub(crate) fn addresses(group: u32) -> ProcResult<Vec<SocketAddr>> {
    let sockets = Sockets::of(group)?;
    let own = listeners()?.into_iter().filter(|l| sockets.inodes.contains(&l.inode));
    Ok(own.map(|l| l.local_address).collect())
}

/// Returns the processes of the group that have not ended.
pub(crate) fn members(group: u32) -> ProcResult<Vec<Process>> {
    let is_member = |process: &Process| {
        process
            .stat()
            .is_ok_and(|facts| u32::try_from(facts.pgrp) == Ok(group) && !has_ended(&facts))
    };
    Ok(all_processes()?.flatten().filter(is_member).collect())
}

/// Returns an address to connect to, for a socket with this local address.
pub(crate) fn reachable(local: SocketAddr) -> Option<SocketAddr> {
    let at = |ip: IpAddr| SocketAddr::new(ip, local.port());
    match local.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Some(at(Ipv4Addr::LOCALHOST.into())),
        // A container may have no IPv6 address, and most of these sockets take IPv4, too. Where one does not, the port of
        // IPv4 may be another user's, so IPv6 comes first.
        IpAddr::V6(ip) if ip.is_unspecified() => {
            let loopback = [at(Ipv6Addr::LOCALHOST.into()), at(Ipv4Addr::LOCALHOST.into())];
            let connects =
                |to: &SocketAddr| TcpStream::connect_timeout(to, Duration::from_secs(1)).is_ok();
            loopback.into_iter().find(connects)
        }
        ip => Some(at(ip)),
    }
}

/// Returns the addresses that the process group connects to, without an answer until now.
pub(crate) fn connecting(group: u32) -> ProcResult<Vec<SocketAddr>> {
    let sockets = Sockets::of(group)?;
    let own =
        in_state(TcpState::SynSent)?.into_iter().filter(|c| sockets.inodes.contains(&c.inode));
    Ok(own.map(|connection| connection.remote_address).collect())
}

fn listeners() -> ProcResult<Vec<TcpNetEntry>> {
    in_state(TcpState::Listen)
}

fn in_state(state: TcpState) -> ProcResult<Vec<TcpNetEntry>> {
    let mut all = procfs::net::tcp()?;
    match procfs::net::tcp6() {
        Ok(six) => all.extend(six),
        Err(ProcError::NotFound(_)) => {} // a kernel without IPv6
        Err(e) => return Err(e),
    }
    all.retain(|entry| entry.state == state);
    Ok(all)
}

/// Returns the open descriptors of a process.
fn descriptors(process: &Process) -> ProcResult<FDsIter> {
    // A main thread that has ended shows none, while the others have them open.
    match running_thread(process).filter(|thread| thread.tid != process.pid) {
        None => process.fd(),
        Some(thread) => {
            let path = format!("/proc/{}/task/{}", thread.pid, thread.tid);
            Process::new_with_root(path.into())?.fd()
        }
    }
}

/// The sockets of a process group.
struct Sockets {
    inodes: HashSet<u64>,
    /// Whether the descriptors of every process could be read.
    is_complete: bool,
}

impl Sockets {
    fn of(group: u32) -> ProcResult<Sockets> {
        let mut sockets = Sockets { inodes: HashSet::new(), is_complete: true };
        for process in members(group)? {
            match descriptors(&process) {
                Ok(descriptors) => {
                    sockets.inodes.extend(descriptors.flatten().filter_map(|fd| match fd.target {
                        FDTarget::Socket(inode) => Some(inode),
                        _ => None,
                    }));
                }
                Err(ProcError::PermissionDenied(_)) => sockets.is_complete = false,
                Err(_) => {} // it has ended
            }
        }
        Ok(sockets)
    }

    fn include(&self, listener: &TcpNetEntry, uid: u32) -> bool {
        // A program that changes its rights hides its descriptors. Its user must then do.
        self.inodes.contains(&listener.inode) || (!self.is_complete && listener.uid == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended::tests::{eventually, without_main_thread};
    use rustix::net::sockopt::set_ipv6_v6only;
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_listener_belongs_to_the_group_that_holds_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let group = rustix::process::getpgrp().as_raw_pid().unsigned_abs();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(on_port(group, uid, at.port()).unwrap(), Listening::Group(at));
        assert!(addresses(group).unwrap().contains(&at));
        // Above the largest possible pid.
        assert_eq!(on_port(4_194_305, uid, at.port()).unwrap(), Listening::Another);
        drop(listener);
        assert_eq!(on_port(group, uid, at.port()).unwrap(), Listening::Free);
    }

    #[test]
    fn a_process_without_its_main_thread_holds_its_listener() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let at = file.path().display();
        let mut child = without_main_thread(&format!(
            "s = socket.create_server(('127.0.0.1', 0)); open('{at}', 'w').write(f'{{s.getsockname()[1]}}.')"
        ));
        let text = || std::fs::read_to_string(file.path()).unwrap();
        eventually(|| text().ends_with('.'));
        let port = text().trim_end_matches('.').parse().unwrap();
        assert_eq!(members(child.id()).unwrap().len(), 1);
        let found = on_port(child.id(), rustix::process::geteuid().as_raw() + 1, port).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(found, Listening::Group(_)), "{found:?}");
        assert!(members(child.id()).unwrap().is_empty());
    }

    #[test]
    fn an_address_of_every_network_is_reached_by_the_loopback_interface() {
        let reached = |local: &str| reachable(local.parse().unwrap()).map(|at| at.to_string());
        assert_eq!(reached("0.0.0.0:80").unwrap(), "127.0.0.1:80");
        assert_eq!(reached("10.0.0.1:80").unwrap(), "10.0.0.1:80");
        assert_eq!(reached("[::ffff:127.0.0.1]:80").unwrap(), "127.0.0.1:80");
        let listener = TcpListener::bind("[::]:0");
        if let Some((at, other)) = of_ipv6_alone() {
            assert_eq!(reachable(at).unwrap().to_string(), format!("[::1]:{}", at.port()));
            drop(other);
        }
        if let Ok(listener) = listener {
            let at = reachable(listener.local_addr().unwrap()).unwrap();
            assert!(at.ip().is_loopback());
        }
    }

    /// Returns the address of a listener of IPv6 alone, with this listener and that of another program at its port of IPv4. Without an
    /// address of IPv6, there are none.
    fn of_ipv6_alone() -> Option<(SocketAddr, (OwnedFd, TcpListener))> {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), other.local_addr().unwrap().port());
        let own = socket(AddressFamily::INET6, SocketType::STREAM, None).ok()?;
        set_ipv6_v6only(&own, true).unwrap();
        bind(&own, &at).ok()?;
        listen(&own, 1).unwrap();
        TcpStream::connect((Ipv6Addr::LOCALHOST, at.port())).ok()?;
        Some((at, (own, other)))
    }
}
