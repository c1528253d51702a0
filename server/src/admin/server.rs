//! The server's side of the tools' socket.
//!
//! Only the same user and root may use it. The mode of its directory keeps other users out, and the
//! server checks the credentials of each peer as well.

use crate::admin::administered::Administered;
use crate::admin::report::{About, Report};
use crate::admin::{Identity, REGISTERED, Reply, Request, SOCKET, restart};
use crate::configuration::file::Source;
use crate::life::signals::Stop;
use crate::listen::listener::Place;
use cabrank::application_pool::{Identifier, ProcessState};
use cabrank_spawner::connections::Connections;
use cabrank_spawner::descriptors::unix_socket;
use cabrank_spawner::instance_dir::{self, Instance, InstanceDir, Restored};
use cabrank_spawner::{Link, Pool};
use rustix::fs::{AtFlags, FileType, Mode, statat};
use rustix::io::Errno;
use rustix::net::{self, SocketAddrUnix, SocketFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// The longest time for one dialogue.
const DIALOGUE_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of tools that may wait to be accepted.
const BACKLOG: i32 = 128;
/// The time between two looks at the instance directory.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two reports that it cannot be restored.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The parts of the server that the tools can reach.
pub(crate) struct Admin {
    pub(crate) pool: Pool,
    pub(crate) connections: Connections,
    pub(crate) link: Link,
    pub(crate) applications: Vec<Administered>,
    /// The file of the configuration, as it was at the start.
    pub(crate) file: Source,
    pub(crate) name: String,
    pub(crate) places: Vec<Place>,
    /// The socket for SCGI, to which a link in the instance directory leads.
    pub(crate) scgi_socket: Option<PathBuf>,
    pub(crate) since: Instant,
    /// Shuts the server down.
    pub(crate) stop: Arc<Stop>,
}

/// Opens the socket in the open instance directory. Only this user can reach it.
///
/// The function blocks. The caller makes the listener one of tokio's.
pub(crate) fn listen(dir: BorrowedFd<'_>) -> io::Result<StdUnixListener> {
    // Another user may have taken the path of the directory meanwhile.
    let path = format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd());
    let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    // Linux creates the file with the mode that the socket has.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The name of the link to the socket for SCGI, as the socket itself has it under Passenger.
const REQUEST: &str = "request";

/// Makes the link to the socket for SCGI in the open instance directory.
pub(crate) fn link(dir: BorrowedFd<'_>, scgi_socket: Option<&Path>) -> io::Result<()> {
    let Some(path) = scgi_socket else { return Ok(()) };
    match rustix::fs::symlinkat(path, dir, REQUEST) {
        Err(Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

/// Registers the server where tools with another temporary directory find it, and answers them there, too.
///
/// The function blocks for a moment.
pub(crate) fn register(instance: &Instance, admin: &Arc<Admin>) -> Option<InstanceDir> {
    let registered = instance_dir::register(REGISTERED, instance).and_then(|dir| {
        let Some(dir) = dir else { return Ok(None) };
        let socket = UnixListener::from_std(listen(dir.shared().open().as_fd())?)?;
        tokio::spawn(serve(socket, dir.shared(), Arc::clone(admin)));
        Ok(Some(dir))
    });
    registered.unwrap_or_else(|e| {
        tracing::info!("not registered: {e}. Tools find this server with its TMPDIR.");
        None
    })
}

/// Answers tools until the server ends.
pub(crate) async fn serve(mut listener: UnixListener, instance: Instance, admin: Arc<Admin>) {
    let ours = rustix::process::geteuid().as_raw();
    let (replace, mut replaced) = mpsc::channel(1);
    // A task of its own: a look may hang with the file system of the directory, and the tools get their answers meanwhile.
    tokio::spawn(look_after(instance, replace, admin.scgi_socket.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            new = replaced.recv() => match new {
                Some(new) => {
                    listener = new;
                    continue;
                }
                None => return,
            },
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == ours || peer.uid() == 0 => {}
            _ => continue,
        }
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(DIALOGUE_TIMEOUT, attend(stream, &admin)).await;
        });
    }
}

/// Replaces an instance directory or socket that vanishes, until the server ends.
async fn look_after(
    instance: Instance,
    replace: mpsc::Sender<UnixListener>,
    scgi_socket: Option<PathBuf>,
) {
    let mut look = tokio::time::interval(LOOK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reported: Option<Instant> = None;
    loop {
        look.tick().await;
        match relisten(Arc::clone(&instance), scgi_socket.clone()).await {
            Ok(Look::Intact) => {}
            Ok(Look::Replaced(new)) => {
                let _ = replace.send(new).await;
            }
            Ok(Look::Removed) => return,
            Err(e) if reported.is_none_or(|then| then.elapsed() > REPORT_INTERVAL) => {
                tracing::error!(
                    "the instance directory {} is gone, and no other can be created: {e}. \
                     No process can start, and the tools cannot find this server.",
                    instance.path().display()
                );
                reported = Some(Instant::now());
            }
            Err(_) => {}
        }
    }
}

/// The result of a look at the instance directory.
enum Look {
    Intact,
    /// The old socket is gone. This one takes its place.
    Replaced(UnixListener),
    /// The server has removed the directory, because it ends.
    Removed,
}

/// Restores the instance directory, and the socket and the link in it.
async fn relisten(instance: Instance, scgi_socket: Option<PathBuf>) -> io::Result<Look> {
    let restored = tokio::task::spawn_blocking(move || {
        // The directory is not removed before the socket is there.
        let upkeep = instance.upkeep();
        if upkeep.restore()? == Restored::Removed {
            return Ok(None);
        }
        let dir = instance.open();
        link(dir.as_fd(), scgi_socket.as_deref())?;
        let found = statat(&dir, SOCKET, AtFlags::SYMLINK_NOFOLLOW);
        let is_there = found.is_ok_and(|m| FileType::from_raw_mode(m.st_mode).is_socket());
        let replaced = (!is_there).then(|| listen(dir.as_fd())).transpose();
        replaced.map(Some)
    });
    let restored: io::Result<Option<Option<StdUnixListener>>> = match restored.await {
        // The program ends while a look hangs.
        Err(e) if e.is_cancelled() => return Ok(Look::Removed),
        joined => joined?,
    };
    match restored? {
        None => Ok(Look::Removed),
        Some(None) => Ok(Look::Intact),
        Some(Some(socket)) => UnixListener::from_std(socket).map(Look::Replaced),
    }
}

async fn attend(mut stream: UnixStream, admin: &Arc<Admin>) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new((&mut stream).take(4096)).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(admin, request).await,
        Err(e) => Reply::Refused(format!(
            "the server does not understand the request: {e}. Use the `cabrank` of the version that the server runs."
        )),
    };
    let mut text = serde_json::to_string(&reply)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).await
}

async fn answer(admin: &Arc<Admin>, request: Request) -> Reply {
    match request {
        Request::Status => {
            let admin = Arc::clone(admin);
            let shutting_down = admin.stop.has_begun();
            let report = tokio::task::spawn_blocking(move || {
                let Admin { connections, link, applications, name, places, since, .. } = &*admin;
                let since = *since;
                let about =
                    About { connections, link, applications, name, places, since, shutting_down };
                Report::of(&admin.pool, &about)
            });
            match report.await {
                Ok(report) => Reply::Status(Box::new(report)),
                Err(e) => Reply::Refused(e.to_string()),
            }
        }
        Request::Identify => Reply::Identity(Identity {
            name: admin.name.clone(),
            directory: admin.applications[0].application.app.root.display().to_string(),
            addresses: admin.places.iter().map(Place::to_string).collect(),
        }),
        Request::Stop => {
            admin.stop.ask();
            Reply::Done("The server is shutting down.".into())
        }
        Request::Restart | Request::Restarted if admin.stop.has_begun() => Reply::Refused(format!(
            "the server {} is shutting down. Start it again when it has ended: `cabrank list` shows it until then.",
            std::process::id()
        )),
        Request::Restart => restart::begin(&admin.pool, &admin.applications, &admin.file).await,
        Request::Restarted => Reply::Restart(restart::progress(&admin.pool, &admin.applications)),
        Request::Detach { pid } => change(&admin.pool, pid, Pool::detach, true, || {
            format!("Process {pid} gets no more requests and shuts down.")
        }),
        Request::Disable { pid } => change(&admin.pool, pid, Pool::disable, false, || {
            format!("Process {pid} gets no more requests until `cabrank enable {pid}`.")
        }),
        Request::Enable { pid } => change(&admin.pool, pid, Pool::enable, false, || {
            format!("Process {pid} gets requests.")
        }),
    }
}

/// Changes the process with this pid, and says so.
fn change(
    pool: &Pool,
    pid: u32,
    change: fn(&Pool, Identifier) -> bool,
    is_detach: bool,
    done: impl Fn() -> String,
) -> Reply {
    let processes = pool.snapshot().groups.into_iter().flat_map(|group| group.processes);
    let mut found = processes.filter(|process| process.pid == Some(pid));
    match found.next() {
        Some(process) if change(pool, process.identifier) => Reply::Done(done()),
        Some(process) if process.state == ProcessState::Draining => {
            let text = format!("Process {pid} is leaving: it finishes its requests.");
            // That is what `detach` asks for.
            if is_detach { Reply::Done(text) } else { Reply::Refused(text) }
        }
        _ => Reply::Refused(format!(
            "the pool has no process {pid}. `cabrank status` lists its processes."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a stop, a look may come after the removal of the directory. It is no error, and makes no other directory.
    #[tokio::test]
    async fn a_look_after_the_removal_ends_the_looks() {
        let dir = InstanceDir::create("cabrank-test", None).unwrap();
        let path = dir.shared().path();
        assert!(matches!(relisten(dir.shared(), None).await, Ok(Look::Replaced(_))));
        assert!(matches!(relisten(dir.shared(), None).await, Ok(Look::Intact)));
        dir.remove();
        assert!(matches!(relisten(dir.shared(), None).await, Ok(Look::Removed)));
        assert!(!path.exists());
    }
}
