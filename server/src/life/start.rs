//! `cabrank start`: the life of one server.
//!
//! The server binds the port, boots the application and serves. To shut down, it stops accepting, finishes
//! requests, ends the processes and removes its directory. A failure before serving cleans up the same way.

use crate::admin;
use crate::admin::server::Admin;
use crate::configuration::Settings;
use crate::configuration::cli::StartArgs;
use crate::exchange::admission::Admission;
use crate::exchange::application::Application;
use crate::exchange::buffers::{Buffers, Directory};
use crate::exchange::processes::Processes;
use crate::exchange::serving::Serving;
use crate::failure::{Failure, Kind};
use crate::life::signals::Signals;
use crate::listen::acceptors::{self, Acceptors};
use crate::listen::budget;
use crate::listen::budget::Budget;
use crate::observe::logging;
use cabrank::ApplicationPool;
use cabrank::application_pool::{DetachReason, Event, GetError, RestartMode, SpawnError};
use cabrank_spawner::chain::Chain;
use cabrank_spawner::{BootError, Helper, Link, Pool, Supervisor};
use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::runtime::Handle;

/// How long the server waits for the last processes after the pool has detached them.
///
/// It exceeds the time in which the lifeline ends a process.
const EXIT_TIMEOUT: Duration = Duration::from_secs(12);
/// How long the server waits for clients of upgraded connections, at least, after the processes have ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Runs a server until a request to stop.
pub(crate) fn run(args: Box<StartArgs>, helper: Helper) -> Result<(), Failure> {
    let settings = Arc::new(Settings::load(*args)?);
    let no_threads = |e| {
        Failure::other(format!(
            "cannot start threads: {e}. Raise the limit on threads (`ulimit -u`)."
        ))
    };
    logging::init(&settings).map_err(no_threads)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("cabrank")
        .build()
        .map_err(no_threads)?;
    let done = runtime.block_on(live(settings, helper));
    // Tasks that still run belong to connections that were cut off.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

async fn live(settings: Arc<Settings>, helper: Helper) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|e| Failure::caused_by(&e))?;
    let listener =
        acceptors::listen(settings.listen).map_err(|e| address_failure(&settings, &e))?;
    let address = listener.local_addr().map_err(|e| address_failure(&settings, &e))?;
    let user = settings.user.as_ref();
    let supervisor =
        Supervisor::start(helper, admin::NAME, user, settings.threads, Handle::current())?;
    let (pool, link) = build_pool(&settings, &supervisor)?;
    let options = settings.pool_options();
    // After the spawner: applications get the limit of open files that the server was started with.
    let shares = budget::raise();
    let max_in_progress = settings.max_requests_in_progress.unwrap_or(shares.requests);
    let admission = Arc::new(Admission::new(
        max_in_progress,
        settings.max_request_queue_size,
        settings.max_request_queue_time,
    ));
    let budget = Arc::new(Budget::new(settings.max_connections.unwrap_or(shares.connections)));
    let instance = supervisor.instance();
    let at = admin::socket(&instance.path());
    let admin_socket =
        admin::server::listen(&at).and_then(UnixListener::from_std).map_err(|e| {
            Failure::other(format!("cannot open the tools' socket {}: {e}.", at.display()))
        })?;
    tokio::spawn(admin::server::serve(
        admin_socket,
        instance,
        Arc::new(Admin {
            pool: pool.clone(),
            connections: supervisor.connections().clone(),
            options: options.clone(),
            admission: Arc::clone(&admission),
            settings: Arc::clone(&settings),
            address,
            since: Instant::now(),
            stop: Arc::clone(&signals.stop),
        }),
    ));
    let server = Server { settings, pool, link, supervisor };
    // The limit on the time in the queue is for clients.
    let boot_options = options.clone().with_max_queue_time(None);
    let booted = tokio::select! {
        booted = server.pool.get_async(&boot_options) => Some(booted.map(|s| s.process.concurrency)),
        () = signals.next() => None,
    };
    match booted {
        Some(Ok(concurrency)) => {
            admission.learn(concurrency);
            let processes = Processes::Pool { pool: server.pool.clone(), options, admission };
            let settings = &server.settings;
            let serving = Serving {
                limits: settings.limits,
                trusted_proxies: settings.trusted_proxies.clone(),
                buffers: Buffers::new(
                    Directory::Instance(server.supervisor.instance()),
                    &settings.limits,
                ),
                application: Arc::new(Application {
                    processes,
                    max_request_time: settings.limits.timeouts.request,
                    retries: settings.retry_requests,
                    shows_details: settings.shows_details(),
                }),
            };
            server.serve(listener, address, budget, serving, &mut signals).await
        }
        None => {
            server.end(Instant::now(), &mut signals).await;
            Ok(())
        }
        Some(Err(error)) => {
            let failure = boot_failure(&error);
            server.end(Instant::now(), &mut signals).await;
            Err(failure)
        }
    }
}

/// A running server: everything that its shutdown ends.
struct Server {
    settings: Arc<Settings>,
    pool: Pool,
    link: Link,
    supervisor: Supervisor,
}

impl Server {
    async fn serve(
        self,
        listener: TcpListener,
        address: SocketAddr,
        budget: Arc<Budget>,
        serving: Serving,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        announce(&self.settings, address);
        let mut acceptors =
            Acceptors::start(&listener, self.settings.threads, &budget, &Arc::new(serving))
                .map_err(|e| {
                    Failure::other(format!(
                        "cannot start threads: {e}. Raise the limit on threads (`ulimit -u`)."
                    ))
                })?;
        drop(listener); // each acceptor has its own
        signals.next().await;
        tracing::info!("shutting down: finishing open requests");
        let deadline = Instant::now() + self.settings.shutdown_timeout;
        acceptors.stop();
        let finished = tokio::time::timeout_at(deadline.into(), acceptors.all_served());
        tokio::select! {
            finished = finished => if finished.is_err() {
                tracing::warn!(
                    "cutting off requests that are still open after {} s (--shutdown-timeout)",
                    self.settings.shutdown_timeout.as_secs_f64()
                );
            },
            () = signals.next() => return Err(self.end_at_once()),
        }
        if !self.end(deadline, signals).await {
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

    /// Ends the processes and removes the directory. Returns false if a second signal cut it short.
    async fn end(self, deadline: Instant, signals: &mut Signals) -> bool {
        self.link.close();
        let pool = self.pool.clone();
        let close = tokio::task::spawn_blocking(move || {
            let closed = pool.close_timeout(deadline.saturating_duration_since(Instant::now()));
            closed.inspect_err(|left| tracing::warn!("ending at the deadline: {left}")).is_ok()
        });
        let gone = async {
            let drained = close.await.unwrap_or(false);
            if !drained
                && tokio::time::timeout_at(deadline.into(), self.supervisor.all_gone())
                    .await
                    .is_err()
            {
                self.supervisor.kill_all();
            }
            if tokio::time::timeout(EXIT_TIMEOUT, self.supervisor.all_gone()).await.is_err() {
                self.supervisor.kill_all();
            }
        };
        let graceful = tokio::select! {
            () = gone => true,
            () = signals.next() => false,
        };
        if !graceful {
            self.end_at_once();
        }
        graceful
    }

    fn end_at_once(&self) -> Failure {
        self.supervisor.kill_all();
        self.supervisor.remove_dir();
        Failure::other("ended at once by a second signal.")
    }
}

fn build_pool(settings: &Settings, supervisor: &Supervisor) -> Result<(Pool, Link), Failure> {
    let spawner = supervisor
        .spawner(settings.spawner_options())
        .map_err(|e| Failure::other(format!("cannot start threads: {e}.")))?;
    let link = spawner.link();
    let pool = ApplicationPool::builder(spawner)
        .max(settings.max_pool_size)
        .max_per_app(settings.max_instances_per_app)
        .max_idle_time(settings.pool_idle_time)
        .drain_timeout(settings.shutdown_timeout)
        .stat_throttle(settings.stat_throttle_rate)
        .restart_files(|path| path.metadata()?.modified())
        .observer(log_event())
        .build()
        .map_err(|e| Failure::caused_by(&e))?;
    link.set(&pool);
    Ok((pool, link))
}

fn log_event() -> impl Fn(&Event) {
    let booted = AtomicBool::new(false);
    let last_failure = Mutex::default();
    move |event| match event {
        // `start` itself reports that the first process did not boot.
        Event::SpawnFailed { .. } if !booted.load(Ordering::Relaxed) => {}
        Event::Spawned { group, pid, .. } => {
            booted.store(true, Ordering::Relaxed);
            tracing::info!(pid, "{group}: process {} is ready", pid.unwrap_or(0));
        }
        Event::SpawnFailed { group, error, retry_in, .. } => {
            tracing::error!(
                "{group}: {} (next attempt in {:.1} s at the earliest)",
                Chain(error),
                retry_in.as_secs_f64()
            );
            log_start(error, &last_failure);
        }
        Event::Detached { group, pid, reason: DetachReason::Failed, .. } => {
            tracing::warn!(
                pid,
                "{group}: process {} has failed and gets no more requests",
                pid.unwrap_or(0)
            );
        }
        Event::Detached { group, pid, reason, .. } => {
            tracing::info!(pid, "{group}: process {} is leaving: {reason}", pid.unwrap_or(0));
        }
        Event::Restarting { group, mode: RestartMode::Rolling, .. } => {
            tracing::info!("{group}: restarting, one process after the other");
        }
        Event::Restarting { group, .. } => {
            tracing::info!("{group}: restarting, all processes at once");
        }
        _ => {}
    }
}

/// Logs how a process was started that did not become ready, unless the last one failed in the same way.
fn log_start(error: &SpawnError, last: &Mutex<Option<String>>) {
    let Some(boot) = error.cause().downcast_ref::<BootError>() else { return };
    let error = boot.to_string();
    let known = last.lock().unwrap_or_else(PoisonError::into_inner).replace(error.clone());
    if known != Some(error)
        && let Some(explanation) = &boot.explanation
    {
        tracing::info!("the process that did not become ready: {}", explanation.start_line());
    }
}

fn announce(settings: &Settings, address: SocketAddr) {
    let kind = &settings.app.description;
    tracing::info!(
        "serving {} ({kind}, {}) at http://{address}",
        settings.app.root.display(),
        settings.environment
    );
    if rustix::process::geteuid().is_root() && settings.user.is_none() {
        tracing::warn!(
            "running as root: the application may do everything on this machine. Name another user for \
             it with --user, or start cabrank as another user."
        );
    }
    if io::stdout().is_terminal() {
        let summary = format!(
            "\n  cabrank {}\n\n  Application  {} ({kind}: {})\n  Environment  {}\n  URL          \
             http://{address}\n  PID          {}\n\n  Press Ctrl-C to stop.\n\n",
            env!("CARGO_PKG_VERSION"),
            settings.app.root.display(),
            settings.app.start(),
            settings.environment,
            std::process::id()
        );
        // A terminal that is stopped (Ctrl-S) or gone must not keep the server from serving.
        tokio::task::spawn_blocking(move || io::stdout().write_all(summary.as_bytes()));
    }
}

fn address_failure(settings: &Settings, e: &io::Error) -> Failure {
    let at = settings.listen;
    let remedy = match e.kind() {
        io::ErrorKind::AddrInUse => {
            "Another program listens there: stop it, or choose another port with --port."
        }
        io::ErrorKind::PermissionDenied => {
            "Ports below 1024 need special rights: choose another port with --port."
        }
        io::ErrorKind::AddrNotAvailable => {
            "This machine does not have the address: choose another with --address."
        }
        _ => "Choose another with --address and --port.",
    };
    let message = format!("cannot listen on port {} of {}: {e}. {remedy}", at.port(), at.ip());
    Failure::new(Kind::Address, message)
}

fn boot_failure(error: &GetError) -> Failure {
    let boot = match error {
        GetError::Spawn(error) => error.cause().downcast_ref::<BootError>(),
        _ => None,
    };
    let message = boot.map_or_else(|| Chain(error).to_string(), boot_message);
    Failure::new(Kind::Boot, message)
}

/// Returns all that is known about a failed boot, for the terminal.
fn boot_message(boot: &BootError) -> String {
    let mut message = boot.summary.clone();
    let output = boot.details();
    if !output.is_empty() {
        message.push_str(&format!(" Its output:\n\n  {}\n", output.replace('\n', "\n  ")));
    }
    let facts = boot.facts();
    if output.is_empty() && !facts.is_empty() {
        message.push('\n');
    }
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, text) in facts {
        message.push_str(&format!("\n  {name:width$}  {text}"));
    }
    message
}
