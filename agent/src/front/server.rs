//! The HTTP server: accepts connections and speaks HTTP/1.1 with clients until it is stopped.

use super::Peer;
use super::handler::Front;
use crate::chain::Chain;
use crate::http::patience::PatientStream;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};

/// The number of connections that may wait to be accepted. The kernel may have a lower limit.
const BACKLOG: u32 = 4096;
/// How long a shutdown waits for the rest of a connection's first head.
///
/// The time suffices for a head that is on its way. A client that never completes its head does not
/// delay the shutdown for longer.
const LAST_HEAD: Duration = Duration::from_secs(1);
/// The largest number of header fields of a request.
const MAX_HEADERS: usize = 128;

/// Binds the address and listens. Connections wait until they are accepted.
pub(crate) fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a port whose last owner is gone but has lingering connections. A living owner keeps it.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// The connections that are still open.
#[derive(Debug)]
pub(crate) struct Connections(mpsc::Receiver<()>);

impl Connections {
    /// Waits until all are closed. Idle connections close when `Front::closing` becomes true.
    pub(crate) async fn all_closed(mut self) {
        // The channel carries no messages. It closes when the last connection's task drops its sender.
        while self.0.recv().await.is_some() {}
    }
}

/// Serves until `stop` completes. Returns the connections that are still open.
pub(crate) async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    stop: impl Future<Output = ()>,
) -> Connections {
    let (open, connections) = mpsc::channel(1);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return Connections(connections),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                if let Err(e) = attend(stream, remote, Arc::clone(&front), open.clone()) {
                    tracing::debug!("a connection was lost as soon as it was accepted: {e}");
                }
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(e) => {
                // The agent is probably out of descriptors. The connection still waits, so do not spin.
                tracing::error!("cannot accept a connection: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Waits for `true`, and drops the guard that `wait_for` returns: it must not live across an await.
async fn until_true(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|set| *set).await;
}

fn attend(
    stream: TcpStream,
    remote: SocketAddr,
    front: Arc<Front>,
    open: mpsc::Sender<()>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let peer = Peer { remote, local: stream.local_addr()? };
    let settings = Arc::clone(&front.settings);
    let mut closing = front.closing.clone();
    let begun = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::clone(&begun);
    let service = service_fn(move |request: Request<Incoming>| {
        begun.store(true, Ordering::Relaxed);
        let front = Arc::clone(&front);
        async move { Ok::<Response<_>, Infallible>(front.handle(peer, request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(
            (!settings.header_timeout.is_zero()).then_some(settings.header_timeout),
        )
        .max_headers(MAX_HEADERS)
        .max_buf_size(settings.max_header_size);
    let stream = PatientStream::new(stream, settings.client_timeout);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::spawn(async move {
        let mut connection = std::pin::pin!(connection);
        let done = tokio::select! {
            done = &mut connection => done,
            () = until_true(&mut closing) => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(LAST_HEAD, connection.as_mut()).await {
                    Ok(done) => done,
                    Err(_) if has_begun.load(Ordering::Relaxed) => connection.await,
                    Err(_) => Ok(()),
                }
            }
        };
        if let Err(e) = done {
            tracing::debug!("the connection from {remote} ended: {}", Chain(&e));
        }
        drop(open);
    });
    Ok(())
}
