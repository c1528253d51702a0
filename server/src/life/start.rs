//! `cabrank start`: the life of one server.
//!
//! The server binds the port, boots the application and serves. To shut down, it stops accepting, finishes
//! requests, ends the processes and lets the reaper remove its directory. A failure before serving cleans up the same way.
//!
//! A shutdown has one deadline. After half of the time the server closes the pool, even if requests are open. Otherwise a
//! client that does not end its body would take the time from processes. Requests that have a process go on until the last
//! signals.

use crate::admin;
use crate::admin::administered::Administered;
use crate::admin::server::Admin;
use crate::configuration::Configuration;
use crate::configuration::cli::StartArgs;
use crate::exchange::admission::Admission;
use crate::exchange::buffers::Buffers;
use crate::exchange::served::Served;
use crate::exchange::serving::Serving;
use crate::failure::Failure;
use crate::life::pid_file::PidFile;
use crate::life::signals::Signals;
use crate::life::{events, messages, signals};
use crate::listen::acceptors::Acceptors;
use crate::listen::budget::{self, Budget};
use crate::listen::listener::{self, Listening};
use crate::observe::logging;
use crate::request::spool::Directory;
use crate::request::trust::Trust;
use cabrank::ApplicationPool;
use cabrank::application_pool::{Event, GetError};
use cabrank_spawner::{Helper, Link, Pool, Supervisor};
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::runtime::Handle;

/// How long the server waits for processes that it has killed at the deadline.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for processes to leave if the server has not served.
const UNUSED: Duration = Duration::from_secs(5);
/// The longest wait for the removal of the instance directory, within the deadline.
const REMOVAL: Duration = Duration::from_secs(5);
/// How long the server waits, after the deadline, for the removal of the instance directory. It also waits at least as long
/// for clients of upgraded connections, once the processes have ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Runs a server until a request to stop.
pub(crate) fn run(args: &StartArgs, helper: Helper) -> Result<(), Failure> {
    let configuration = Arc::new(Configuration::load(args)?);
    logging::init(&configuration.log)?;
    configuration.applications.iter().for_each(|application| messages::warn_of_unread(application));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("cabrank")
        .build()
        .map_err(Failure::no_threads)?;
    let done = runtime.block_on(live(configuration, helper));
    // Tasks that still run belong to connections that were cut off.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

async fn live(configuration: Arc<Configuration>, helper: Helper) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|e| Failure::caused_by(&e))?;
    signals::outlive_signals_of_others().map_err(|e| Failure::caused_by(&e))?;
    let listening = listener::listen(&configuration.listeners)?;
    let pid_file = configuration.server.pid_file.as_deref();
    // Removed after all else, when the server has ended.
    let _pid_file = pid_file.map(PidFile::write).transpose()?;
    let threads = configuration.server.threads;
    let user = configuration.applications.iter().find_map(|application| application.user.as_ref());
    let supervisor = Supervisor::start(helper, admin::NAME, user, threads, Handle::current())?;
    let (pool, link) = build_pool(&configuration, &supervisor)?;
    // After the spawner: applications get the limit of open files that the server was started with.
    let shares = budget::raise(threads * (listening.sockets.len() - 1));
    let max_connections = configuration.server.max_connections.unwrap_or(shares.connections);
    let budget = Arc::new(Budget::new(max_connections));
    let of_pool = configuration.server.pool;
    let max_processes =
        of_pool.max_per_application.unwrap_or(usize::MAX).min(of_pool.max_processes);
    let applications = configuration.applications.iter().map(|application| {
        let limits = &application.options;
        let admission = Arc::new(Admission::new(
            limits.max_requests_in_progress.map_or(shares.requests, |n| n.0),
            limits.max_request_queue_size.limit(),
            limits.max_request_queue_time.limit(),
            max_processes,
        ));
        let served = Arc::new(Served::new(application, &pool, &admission));
        (served, Administered { application: Arc::clone(application), admission })
    });
    let (served, administered): (Vec<_>, Vec<_>) = applications.unzip();
    let instance = supervisor.instance();
    let at = admin::socket(&instance.path());
    let scgi_socket = listening.scgi_socket();
    let admin_socket = admin::server::link(instance.open().as_fd(), scgi_socket.as_deref())
        .and_then(|()| admin::server::listen(instance.open().as_fd()))
        .and_then(UnixListener::from_std)
        .map_err(|e| {
            Failure::other(format!("cannot open the tools' socket {}: {e}.", at.display()))
        })?;
    let tools = Arc::new(Admin {
        pool: pool.clone(),
        connections: supervisor.connections().clone(),
        link: link.clone(),
        applications: administered,
        file: configuration.file.clone(),
        name: configuration.server.name.clone(),
        places: listening.places.clone(),
        scgi_socket,
        since: Instant::now(),
        stop: Arc::clone(&signals.stop),
    });
    // Removed at the end, as the pid file.
    let _registered = admin::server::register(&instance, &tools);
    tokio::spawn(admin::server::serve(admin_socket, instance, tools));
    let serving = Serving {
        limits: configuration.server.limits,
        trust: Trust::new(configuration.server.trusted_proxies.as_ref(), &listening.addresses()),
        buffers: Buffers::new(
            Directory::Instance(supervisor.instance()),
            &configuration.server.limits,
        ),
        connections: supervisor.connections().clone(),
        applications: served,
    };
    let booted = tokio::select! {
        booted = boot(&serving) => Some(booted),
        () = signals.next() => None,
    };
    let server = Server { configuration, pool, link, supervisor };
    match booted {
        Some(Ok(())) => {
            for application in &server.configuration.applications {
                messages::announce(application, &listening.text());
            }
            server.serve(listening, budget, serving, &mut signals).await
        }
        None => {
            server.end(Instant::now() + UNUSED, &mut signals).await;
            Ok(())
        }
        Some(Err(error)) => {
            let failure = messages::boot_failure(&error);
            server.end(Instant::now() + UNUSED, &mut signals).await;
            Err(failure)
        }
    }
}

/// Waits until each application has a process.
async fn boot(serving: &Serving) -> Result<(), GetError> {
    for application in &serving.applications {
        application.processes.boot().await?;
    }
    Ok(())
}

/// A running server: everything that its shutdown ends.
struct Server {
    configuration: Arc<Configuration>,
    pool: Pool,
    link: Link,
    supervisor: Supervisor,
}

impl Server {
    async fn serve(
        self,
        mut listening: Listening,
        budget: Arc<Budget>,
        serving: Serving,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let configuration = &self.configuration.server;
        let (threads, shutdown_timeout) = (configuration.threads, configuration.shutdown_timeout);
        let sockets = std::mem::take(&mut listening.sockets);
        let mut acceptors = Acceptors::start(&sockets, threads, &budget, &Arc::new(serving))
            .map_err(|e| {
                Failure::other(format!(
                    "cannot start threads: {e}. Raise the limit on threads (`ulimit -u`)."
                ))
            })?;
        drop(sockets); // each acceptor has its own
        signals.next().await;
        tracing::info!("shutting down: finishing open requests");
        let half = Instant::now() + shutdown_timeout / 2;
        let deadline = half + shutdown_timeout / 2;
        self.supervisor.connections().stop_by(deadline);
        // A client finds only a socket that is served.
        drop(listening);
        acceptors.stop();
        let finished = tokio::time::timeout_at(half.into(), acceptors.all_served());
        let is_served = tokio::select! {
            finished = finished => finished.is_ok(),
            () = signals.next() => return Err(self.end_at_once().await),
        };
        if !is_served {
            tracing::warn!(
                "requests are open after {} s: those that have no process are refused, and processes leave (half of \
                 --shutdown-timeout)",
                (shutdown_timeout / 2).as_secs_f64()
            );
        }
        if !self.end_with_requests(&mut acceptors, deadline, signals).await {
            return Err(Failure::other("ended at once by a second signal."));
        }
        // Upgraded connections end with their processes. Their clients get the last bytes.
        let last = deadline.max(Instant::now() + FAREWELL);
        tokio::select! {
            _ = tokio::time::timeout_at(last.into(), acceptors.all_closed()) => {}
            () = signals.next() => {}
        }
        tracing::info!("shut down");
        Ok(())
    }

    /// Ends the processes, and waits for the rest of the requests. Returns false if a second signal cut it short.
    async fn end_with_requests(
        self,
        acceptors: &mut Acceptors,
        deadline: Instant,
        signals: &mut Signals,
    ) -> bool {
        let shutdown_timeout = self.configuration.server.shutdown_timeout;
        let mut served = pin!(async {
            let served = tokio::time::timeout_at(deadline.into(), acceptors.all_served());
            if served.await.is_err() {
                tracing::warn!(
                    "cutting off requests that are still open after {} s (--shutdown-timeout)",
                    shutdown_timeout.as_secs_f64()
                );
            }
        });
        let ended = {
            let mut end = pin!(self.end(deadline, signals));
            tokio::select! {
                ended = &mut end => ended,
                () = &mut served => return end.await,
            }
        };
        // The processes are gone. Clients take the rest of their answers.
        ended
            && tokio::select! {
                () = served => true,
                () = signals.next() => false,
            }
    }

    /// Ends the processes and removes the directory. Returns false if a second signal cut it short.
    async fn end(self, deadline: Instant, signals: &mut Signals) -> bool {
        self.supervisor.connections().stop_by(deadline);
        self.link.close();
        let pool = self.pool.clone();
        let close = tokio::task::spawn_blocking(move || {
            let closed = pool.close_timeout(deadline.saturating_duration_since(Instant::now()));
            closed.inspect_err(|left| tracing::warn!("ending at the deadline: {left}")).is_ok()
        });
        let gone = async {
            let _ = close.await;
            let all_gone = || self.supervisor.all_gone();
            if tokio::time::timeout_at(deadline.into(), all_gone()).await.is_err() {
                self.supervisor.kill_all();
                let _ = tokio::time::timeout(EXIT_TIMEOUT, all_gone()).await;
            }
            self.remove_dir(deadline).await;
        };
        let graceful = tokio::select! {
            () = gone => true,
            () = signals.next() => false,
        };
        if !graceful {
            self.end_at_once().await;
        }
        graceful
    }

    /// Lets the reaper remove the directory, and waits for it while there is time.
    async fn remove_dir(&self, deadline: Instant) {
        let now = Instant::now();
        let until = deadline.min(now + REMOVAL).max(now + FAREWELL);
        if tokio::time::timeout_at(until.into(), self.supervisor.remove_dir()).await.is_err() {
            tracing::warn!(
                "the instance directory {} is not removed in time: the reaper goes on after the end of this server",
                self.supervisor.instance().path().display()
            );
        }
    }

    async fn end_at_once(&self) -> Failure {
        self.supervisor.kill_all();
        self.remove_dir(Instant::now()).await;
        Failure::other("ended at once by a second signal.")
    }
}

fn build_pool(
    configuration: &Configuration,
    supervisor: &Supervisor,
) -> Result<(Pool, Link), Failure> {
    let applications = configuration.applications.iter();
    let spawner = supervisor
        .spawner(applications.map(|application| application.spawner_options()))
        .map_err(|e| Failure::other(format!("cannot start threads: {e}.")))?;
    let link = spawner.link();
    // The files may be links of the application to any place.
    let mut users =
        configuration.applications.iter().filter_map(|application| application.user.as_ref());
    let user = users.next().cloned();
    let limits = configuration.server.pool;
    let connections = supervisor.connections().clone();
    connections.set_drain_time(configuration.server.drain_timeout);
    let log = events::log();
    let observer = move |event: &Event| {
        if let Event::Detached { identifier, .. } = event {
            connections.drains(*identifier);
        }
        log(event);
    };
    let pool = ApplicationPool::builder(spawner)
        .max(limits.max_processes)
        .max_per_app(limits.max_per_application)
        .max_idle_time(limits.max_idle_time)
        .drain_timeout(configuration.server.drain_timeout)
        .stat_throttle(limits.stat_throttle)
        .restart_files(move |path| cabrank_spawner::modified(user.as_ref(), path))
        .observer(observer)
        .build()
        .map_err(|e| Failure::caused_by(&e))?;
    link.set(&pool);
    Ok((pool, link))
}
