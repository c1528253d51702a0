//! Accepts connections, and shares them among cores.
//!
//! Each core has a thread with a runtime of its own, and accepts from duplicates of all listeners. It keeps
//! the connection, or hands it to the core that has the fewest. All later work for the connection is done by
//! that core.

use crate::client::Page;
use crate::connection::core::Core;
use crate::connection::serve;
use crate::connection::stream::Stream;
use crate::connection::sweep::Idle;
use crate::exchange::serving::Serving;
use crate::listen::budget::Budget;
use crate::listen::listener::Socket;
use crate::listen::listeners::{Family, Incoming, Listeners};
use crate::observe::record::{Ended, Record};
use crate::request::head::{AnswerTo, Head};
use crate::request::peer::{Peer, Scheme};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// How long the end of the server waits until the cores have dropped their tasks.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// The acceptors of all cores.
#[derive(Debug)]
pub(crate) struct Acceptors {
    cores: Vec<Arc<Core>>,
    stop: Vec<Arc<Notify>>,
    requests: mpsc::Receiver<()>,
    connections: mpsc::Receiver<()>,
    /// Its drop ends the threads.
    running: Option<watch::Sender<()>>,
    /// Disconnected when all threads have dropped their tasks.
    threads: std::sync::mpsc::Receiver<()>,
}

/// An accepted connection on its way to its core.
struct Accepted {
    stream: OwnedFd,
    family: Family,
    incoming: Incoming,
}

/// The address of the server's own end. The port is HTTP's.
const AT_UNIX: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 80);

impl Acceptors {
    /// Starts one thread for each core. They serve until [`stop`](Self::stop).
    pub(crate) fn start(
        listeners: &[Socket],
        threads: usize,
        budget: &Arc<Budget>,
        serving: &Arc<Serving>,
    ) -> io::Result<Acceptors> {
        let cores: Vec<_> =
            (0..threads).map(|index| Arc::new(Core::new(Arc::clone(serving), index))).collect();
        let (requests_open, requests) = mpsc::channel(1);
        let (open, connections) = mpsc::channel(1);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            cores.iter().map(|_| mpsc::unbounded_channel()).unzip();
        let (running, ended) = watch::channel(());
        let (runs, threads_run) = std::sync::mpsc::channel();
        let mut stop = Vec::new();
        for (core, receiver) in cores.iter().zip(receivers) {
            let stopped = Arc::new(Notify::new());
            stop.push(Arc::clone(&stopped));
            let acceptor = Acceptor {
                core: Arc::clone(core),
                cores: cores.clone(),
                senders: senders.clone(),
                budget: Arc::clone(budget),
                counts: (requests_open.clone(), open.clone()),
            };
            let listeners = listeners.iter().map(Socket::try_clone).collect::<io::Result<_>>()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(32)
                .build()?;
            let name = format!("core {}", core.index);
            let (mut ended, runs) = (ended.clone(), runs.clone());
            std::thread::Builder::new().name(name).spawn(move || {
                runtime.block_on(async {
                    acceptor.serve(listeners, receiver, &stopped).await;
                    // The thread's connections live on until they end, or the server does.
                    let _ = ended.changed().await;
                });
                // Drops the tasks of open connections, and does not wait for work on files.
                runtime.shutdown_background();
                drop(runs);
            })?;
        }
        Ok(Acceptors {
            cores,
            stop,
            requests,
            connections,
            running: Some(running),
            threads: threads_run,
        })
    }

    /// Stops accepting. Idle connections close. The requests in the listener's backlog are still served.
    pub(crate) fn stop(&self) {
        for (core, stop) in self.cores.iter().zip(&self.stop) {
            core.sweep.close();
            stop.notify_one();
        }
    }

    /// Waits until no connection carries requests. Upgraded connections may be open still.
    pub(crate) async fn all_served(&mut self) {
        // The channel carries no messages. It closes when the last connection drops its sender.
        while self.requests.recv().await.is_some() {}
    }

    /// Waits until all connections are closed.
    pub(crate) async fn all_closed(&mut self) {
        while self.connections.recv().await.is_some() {}
    }
}

impl Drop for Acceptors {
    /// Drops the tasks of connections that are still open, whose requests end so. A thread that hangs is left behind.
    fn drop(&mut self) {
        self.stop();
        self.running = None;
        let _ = self.threads.recv_timeout(LAST_TASKS);
    }
}

/// One core's part in accepting connections.
struct Acceptor {
    budget: Arc<Budget>,
    core: Arc<Core>,
    cores: Vec<Arc<Core>>,
    senders: Vec<mpsc::UnboundedSender<Accepted>>,
    /// Each connection has a clone of the first while it carries requests, and of the second while it is open.
    counts: (mpsc::Sender<()>, mpsc::Sender<()>),
}

impl Acceptor {
    async fn serve(
        self,
        listeners: Vec<Socket>,
        mut handed: mpsc::UnboundedReceiver<Accepted>,
        stopped: &Notify,
    ) {
        let sweep = Arc::clone(&self.core.sweep);
        tokio::spawn(async move { sweep.run().await });
        let core = Arc::clone(&self.core);
        tokio::spawn(async move { core.sweep.follow(&core.serving.connections).await });
        let Ok(mut listeners) = Listeners::new(listeners) else { return };
        loop {
            tokio::select! {
                biased;
                () = stopped.notified() => break,
                Some(accepted) = handed.recv() => self.take(accepted),
                accepted = poll_fn(|cx| listeners.poll_accept(cx)) => {
                    match accepted {
                        Ok((stream, incoming)) => self.distribute(stream, incoming),
                        Err(e) => self.failed(&e).await,
                    }
                    // Connections that come at once are shared fairly, and their requests begin.
                    tokio::task::yield_now().await;
                }
            }
        }
        // Each client whose connection the kernel has established gets its answer.
        while let Some((stream, family, incoming)) = listeners.accept_waiting() {
            if let Ok(stream) = family.stream(stream) {
                self.distribute(stream, incoming);
            }
        }
        drop(listeners);
        let Acceptor { budget, core, cores, senders, counts } = self;
        drop(senders);
        let rest = Acceptor { budget, core, cores, senders: Vec::new(), counts };
        // Ends when all cores have taken their backlog.
        while let Some(accepted) = handed.recv().await {
            rest.take(accepted);
        }
    }

    /// Gives the connection to the core that has the fewest.
    fn distribute(&self, stream: Stream, incoming: Incoming) {
        if self.budget.open() && !self.make_room() {
            self.budget.close();
            return self.refuse(&stream, incoming);
        }
        let own = self.core.connections();
        let fewest = self.cores.iter().min_by_key(|core| core.connections());
        match fewest.filter(|core| core.connections() < own) {
            Some(other) => {
                other.opened();
                // The other core's runtime watches the stream from now on.
                let family = match stream {
                    Stream::Tcp(_) => Family::Tcp,
                    Stream::Unix(_) => Family::Unix,
                };
                let sent = stream.into_socket().map(|stream| {
                    self.senders[other.index].send(Accepted { stream, family, incoming }).is_ok()
                });
                if !sent.unwrap_or(false) {
                    self.closed(other);
                }
            }
            None => {
                self.core.opened();
                self.attend(stream, incoming);
            }
        }
    }

    /// Closes the oldest idle connection. Returns false if every connection is busy.
    fn make_room(&self) -> bool {
        let others = self.cores.iter().filter(|core| core.index != self.core.index);
        let all = std::iter::once(&self.core).chain(others);
        let evict = |kind| all.clone().any(|core| core.sweep.evict_oldest(kind));
        if ![Idle::Answered, Idle::Owing, Idle::Between].into_iter().any(evict) {
            return false;
        }
        let budget = &self.budget;
        budget.evictions.log(|left_out| {
            tracing::warn!(
                "the limit of {} connections is reached: closing idle ones ({left_out} more since the last such line)",
                budget.max()
            );
        });
        true
    }

    /// Answers 503 without waiting for the request.
    fn refuse(&self, stream: &Stream, incoming: Incoming) {
        let budget = &self.budget;
        budget.refusals.log(|left_out| {
            tracing::warn!(
                "refusing a connection: all {} are busy ({left_out} more since the last such line). Raise --max-connections, and the limit of open files if need be",
                budget.max()
            );
        });
        let page = Page {
            status: 503,
            content_type: "text/plain; charset=utf-8",
            body: b"503 The server has too many connections\n\nPlease try again in a moment.\n",
            fields: &[("retry-after", "1"), ("cache-control", "no-store")],
        };
        let mut out = Vec::new();
        incoming.protocol.unreadable().push_page(&mut out, &page, AnswerTo::Other, true);
        // A new socket has room for the page. The end of output follows it, before a reset by the close.
        let sent = rustix::io::write(stream, &out).unwrap_or(0);
        let unread = Head::default();
        let mut record = Record::new(&unread, incoming.remote.ip().to_canonical());
        (record.end, record.status, record.sent) = (Ended::Refused, page.status, sent as u64);
        let _ = rustix::net::shutdown(stream, rustix::net::Shutdown::Write);
    }

    async fn failed(&self, e: &io::Error) {
        if e.kind() == io::ErrorKind::ConnectionAborted {
            return;
        }
        self.budget.failures.log(|left_out| {
            tracing::error!(
                "cannot accept a connection: {e} ({left_out} more since the last such line)"
            );
        });
        // The server is probably out of descriptors. The connection still waits, so do not spin.
        self.make_room();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// Serves a connection that another core has accepted.
    fn take(&self, accepted: Accepted) {
        let Accepted { stream, family, incoming } = accepted;
        match family.stream(stream) {
            Ok(stream) => self.attend(stream, incoming),
            Err(e) => self.lost(&e),
        }
    }

    /// Serves the connection on this core.
    fn attend(&self, stream: Stream, incoming: Incoming) {
        let Incoming { remote, protocol } = incoming;
        let local = match &stream {
            Stream::Tcp(stream) => stream.local_addr(),
            Stream::Unix(_) => Ok(AT_UNIX),
        };
        let local = match local {
            Ok(local) => local,
            Err(e) => return self.lost(&e),
        };
        let peer = Peer { remote, local, scheme: Scheme::Http, is_reported: false };
        let (core, budget) = (Arc::clone(&self.core), Arc::clone(&self.budget));
        let (counts, open) = self.counts.clone();
        tokio::spawn(async move {
            serve::serve(&core, stream, peer, protocol, counts).await;
            core.closed();
            budget.close();
            drop(open);
        });
    }

    /// Counts the end of a connection that no task has served.
    fn closed(&self, core: &Core) {
        core.closed();
        self.budget.close();
    }

    fn lost(&self, e: &io::Error) {
        self.closed(&self.core);
        tracing::debug!("a connection was lost as soon as it was accepted: {e}");
    }
}
