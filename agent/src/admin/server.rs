//! The agent's side of the tools' socket.
//!
//! Only the same user and root may use it. The mode of its directory keeps other users out, and the
//! server checks the credentials of each peer as well.

use super::report::{About, Report};
use super::{Reply, Request};
use crate::app::Pool;
use crate::app::connections::Connections;
use crate::config::Settings;
use crate::regular_file;
use cabrank::PoolOptions;
use cabrank::application_pool::Identifier;
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

/// The longest time for one dialogue.
const DIALOGUE_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts of the agent that the tools can reach.
pub(crate) struct Admin {
    pub(crate) pool: Pool,
    pub(crate) connections: Connections,
    pub(crate) options: PoolOptions,
    pub(crate) settings: Arc<Settings>,
    pub(crate) address: SocketAddr,
    pub(crate) since: Instant,
    /// Notified to shut the agent down.
    pub(crate) stop: Arc<Notify>,
}

/// Opens the socket. Other users cannot connect before its mode is set, because its directory is private.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers tools until the agent ends.
pub(crate) async fn serve(listener: UnixListener, admin: Arc<Admin>) {
    let ours = rustix::process::geteuid().as_raw();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
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

async fn attend(mut stream: UnixStream, admin: &Arc<Admin>) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new((&mut stream).take(4096)).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(admin, request).await,
        Err(e) => Reply::Refused(format!(
            "the agent does not understand the request: {e}. Use the `cabrank` of the version that the agent runs."
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
            let report = tokio::task::spawn_blocking(move || {
                let Admin { connections, settings, address, since, .. } = &*admin;
                let about = About { connections, settings, address: *address, since: *since };
                Report::of(&admin.pool, &about)
            });
            match report.await {
                Ok(report) => Reply::Status(Box::new(report)),
                Err(e) => Reply::Refused(e.to_string()),
            }
        }
        Request::Stop => {
            admin.stop.notify_one();
            Reply::Done("The agent is shutting down.".into())
        }
        Request::Restart => restart(admin),
        Request::Detach { pid } => detach(&admin.pool, pid),
    }
}

/// Restarts the application: touches `tmp/restart.txt`, as an operator would, and lets the pool check it.
fn restart(admin: &Arc<Admin>) -> Reply {
    let dir = admin.options.restart_dir();
    let file = dir.join("restart.txt");
    if let Err(e) = touch(&dir, &file) {
        return Reply::Refused(format!(
            "cannot write {}: {e}. Move it away, or set --restart-dir to a directory that this user may \
             write to.",
            file.display()
        ));
    }
    let admin = Arc::clone(admin);
    tokio::spawn(async move {
        // Wait until the pool checks the file again.
        tokio::time::sleep(admin.settings.stat_throttle_rate + Duration::from_millis(5)).await;
        let _ = admin.pool.get_async(&admin.options).await;
    });
    Reply::Done("The application is being restarted.".into())
}

fn touch(dir: &Path, file: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    match regular_file::check(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => std::fs::write(file, ""),
    }
}

fn detach(pool: &Pool, pid: u32) -> Reply {
    let found: Option<Identifier> = pool
        .snapshot()
        .groups
        .iter()
        .flat_map(|g| &g.processes)
        .find(|p| p.pid == Some(pid))
        .map(|p| p.identifier);
    match found {
        Some(identifier) if pool.detach(identifier) => {
            Reply::Done(format!("Process {pid} gets no more requests and shuts down."))
        }
        _ => Reply::Refused(format!(
            "the pool has no process {pid}. `cabrank status` lists its processes."
        )),
    }
}
