//! Unix sockets that take no descriptors.
//!
//! The peer of a Unix socket may send descriptors with its bytes (`SCM_RIGHTS`). The server uses none, so the kernel would close them in
//! the thread of the server that reads the bytes, or that closes the socket. Such a close may last: a TCP socket with `SO_LINGER`
//! waits until its peer has acknowledged all bytes.

use nix::errno::Errno;
use nix::libc::{self, c_int};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The number of the option that lets a Unix socket take descriptors, which Linux has since 6.16.
const SO_PASSRIGHTS: c_int = if cfg!(target_arch = "sparc64") { 92 } else { 83 };

#[derive(Clone)]
struct PassRights;

nix::setsockopt_impl!(PassRights, libc::SOL_SOCKET, SO_PASSRIGHTS, bool, sockopt::SetBool);

/// Lets a Unix socket take no descriptors from its peer, which gets the error `EPERM` if it sends some. A listener passes this on to
/// the connections that clients open later.
///
/// Linux before 6.16 does not have the option. There the function does nothing.
pub fn refuse_descriptors(socket: impl AsFd) -> io::Result<()> {
    match setsockopt(&socket, PassRights, &false) {
        Err(Errno::ENOPROTOOPT) => Ok(()),
        set => Ok(set?),
    }
}

/// Returns a new Unix socket that takes no descriptors.
pub fn unix_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    refuse_descriptors(&socket)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::{IoSlice, Read};
    use std::mem::MaybeUninit;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Returns whether the kernel has the option, and says so if it lacks it.
    fn has_option() -> bool {
        let (socket, _) = UnixStream::pair().unwrap();
        let has = setsockopt(&socket, PassRights, &true) != Err(Errno::ENOPROTOOPT);
        if !has {
            eprintln!("left out: SO_PASSRIGHTS needs Linux 6.16");
        }
        has
    }

    /// Sends one byte with a descriptor.
    fn send_descriptor(from: &UnixStream) -> rustix::io::Result<usize> {
        let descriptors = [from.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(from, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL)
    }

    #[test]
    fn one_end_of_a_pair_refuses_descriptors_and_the_other_takes_them() {
        if !has_option() {
            return;
        }
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(send_descriptor(&theirs), Ok(1), "as any socket");
        refuse_descriptors(&ours).unwrap();
        assert_eq!(send_descriptor(&theirs), Err(rustix::io::Errno::PERM));
        assert_eq!(send_descriptor(&ours), Ok(1));
        drop(theirs);
        let mut got = Vec::new();
        // The end was closed with the byte of `ours` unread.
        let _ = ours.read_to_end(&mut got);
        assert_eq!(got, b"d", "no byte of a refused message arrives");
    }

    #[test]
    fn connections_refuse_descriptors_as_their_listener_does_before_they_are_accepted_and_after() {
        if !has_option() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket = unix_socket(SocketFlags::CLOEXEC).unwrap();
        rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 8).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        assert_eq!(send_descriptor(&client), Err(rustix::io::Errno::PERM));
        let (_accepted, _) = UnixListener::from(socket).accept().unwrap();
        assert_eq!(send_descriptor(&client), Err(rustix::io::Errno::PERM));
    }
}
