//! `cabrank start`: the life of one agent.
//!
//! The agent binds the port, boots the application and serves. To shut down, it stops accepting, finishes
//! requests, ends the processes and removes its directory. A failure before serving cleans up the same way.

use crate::admin::server::{self as admin, Admin};
use crate::app::boot_error::BootError;
use crate::app::children::Children;
use crate::app::connections::Connections;
use crate::app::orphans;
use crate::app::watchdog::Watchdog;
use crate::app::{AppSpawner, Pool, WeakPool};
use crate::chain::Chain;
use crate::config::Settings;
use crate::config::cli::StartArgs;
use crate::failure::{Failure, Kind};
use crate::front::Front;
use crate::front::server::{self, Server};
use crate::instance_dir::{Instance, InstanceDir};
use crate::logging;
use crate::signals::Signals;
use cabrank::ApplicationPool;
use cabrank::application_pool::{DetachReason, Event, GetError, RestartMode};
use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::runtime::Handle;

/// How long the agent waits for the last processes after the pool has detached them.
///
/// It exceeds the time in which the lifeline ends a process.
const EXIT_TIMEOUT: Duration = Duration::from_secs(12);

/// Runs an agent until a request to stop.
pub(crate) fn run(args: Box<StartArgs>) -> Result<(), Failure> {
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
    let done = runtime.block_on(live(settings));
    // Tasks that still run belong to connections that were cut off.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

async fn live(settings: Arc<Settings>) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|e| Failure::caused_by(&e))?;
    let listener = server::listen(settings.listen).map_err(|e| address_failure(&settings, &e))?;
    let address = listener.local_addr().map_err(|e| address_failure(&settings, &e))?;
    let dir = InstanceDir::create(settings.user.as_ref())?;
    let instance = dir.shared();
    let watchdog = Watchdog::start(&instance.path())
        .map_err(|e| Failure::other(format!("cannot start the watchdog: {e}.")))?;
    let children = Arc::new(Children::new(watchdog));
    orphans::reap(Arc::clone(&children))
        .map_err(|e| Failure::other(format!("cannot start threads: {e}.")))?;
    let connections = Connections::new(Handle::current(), settings.threads)
        .map_err(|e| Failure::caused_by(&e))?;
    let pool = build_pool(&settings, &instance, &children, &connections)?;
    let options = settings.pool_options();
    let admin_socket =
        admin::listen(&instance.admin_socket()).and_then(UnixListener::from_std).map_err(|e| {
            Failure::other(format!(
                "cannot open the tools' socket {}: {e}.",
                instance.admin_socket().display()
            ))
        })?;
    tokio::spawn(admin::serve(
        admin_socket,
        instance,
        Arc::new(Admin {
            pool: pool.clone(),
            connections,
            options: options.clone(),
            settings: Arc::clone(&settings),
            address,
            since: Instant::now(),
            stop: Arc::clone(&signals.stop),
        }),
    ));
    let agent = Agent { settings, pool, children, dir };
    // The limit on the time in the queue is for clients.
    let boot_options = options.clone().with_max_queue_time(None);
    let booted = tokio::select! {
        booted = agent.pool.get_async(&boot_options) => Some(booted.map(drop)),
        () = signals.next() => None,
    };
    match booted {
        Some(Ok(())) => agent.serve(listener, address, options, &mut signals).await,
        None => {
            agent.end(Instant::now(), &mut signals).await;
            Ok(())
        }
        Some(Err(error)) => {
            let failure = boot_failure(&error);
            agent.end(Instant::now(), &mut signals).await;
            Err(failure)
        }
    }
}

/// A running agent: everything that its shutdown ends.
struct Agent {
    settings: Arc<Settings>,
    pool: Pool,
    children: Arc<Children>,
    dir: InstanceDir,
}

impl Agent {
    async fn serve(
        self,
        listener: TcpListener,
        address: SocketAddr,
        options: cabrank::PoolOptions,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        announce(&self.settings, address);
        let settings = Arc::clone(&self.settings);
        let front = Front::new(self.pool.clone(), options, settings, self.dir.shared());
        let server = Server::start(&listener, Arc::new(front)).map_err(|e| {
            Failure::other(format!(
                "cannot start threads: {e}. Raise the limit on threads (`ulimit -u`)."
            ))
        })?;
        drop(listener); // the server has its own
        signals.next().await;
        tracing::info!("shutting down: finishing open requests");
        let deadline = Instant::now() + self.settings.shutdown_timeout;
        server.stop();
        let finished = tokio::time::timeout_at(deadline.into(), server.all_closed());
        tokio::select! {
            finished = finished => if finished.is_err() {
                tracing::warn!(
                    "cutting off requests that are still open after {} s (--shutdown-timeout)",
                    self.settings.shutdown_timeout.as_secs_f64()
                );
            },
            () = signals.next() => return Err(self.end_at_once()),
        }
        if self.end(deadline, signals).await {
            tracing::info!("shut down");
            Ok(())
        } else {
            Err(Failure::other("ended at once by a second signal."))
        }
    }

    /// Ends the processes and removes the directory. Returns false if a second signal cut it short.
    async fn end(self, deadline: Instant, signals: &mut Signals) -> bool {
        let pool = self.pool.clone();
        let close = tokio::task::spawn_blocking(move || {
            let closed = pool.close_timeout(deadline.saturating_duration_since(Instant::now()));
            closed.inspect_err(|left| tracing::warn!("ending at the deadline: {left}")).is_ok()
        });
        let gone = async {
            let drained = close.await.unwrap_or(false);
            if !drained
                && tokio::time::timeout_at(deadline.into(), self.children.all_gone()).await.is_err()
            {
                self.children.kill_all();
            }
            if tokio::time::timeout(EXIT_TIMEOUT, self.children.all_gone()).await.is_err() {
                self.children.kill_all();
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
        self.children.kill_all();
        self.dir.remove();
        Failure::other("ended at once by a second signal.")
    }
}

fn build_pool(
    settings: &Arc<Settings>,
    instance: &Instance,
    children: &Arc<Children>,
    connections: &Connections,
) -> Result<Pool, Failure> {
    let own: Arc<OnceLock<WeakPool>> = Arc::default();
    let spawner = AppSpawner::new(
        Arc::clone(settings),
        Arc::clone(instance),
        Arc::clone(children),
        connections.clone(),
        Arc::clone(&own),
        Handle::current(),
    )
    .map_err(|e| Failure::other(format!("cannot start threads: {e}.")))?;
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
    let _ = own.set(pool.downgrade());
    Ok(pool)
}

fn log_event() -> impl Fn(&Event) {
    let booted = AtomicBool::new(false);
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

fn announce(settings: &Settings, address: SocketAddr) {
    let kind = settings.app.app_type.description;
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
            "\n  cabrank {}\n\n  Application  {} ({kind})\n  Environment  {}\n  URL          \
             http://{address}\n  PID          {}\n\n  Press Ctrl-C to stop.\n\n",
            env!("CARGO_PKG_VERSION"),
            settings.app.root.display(),
            settings.environment,
            std::process::id()
        );
        // A terminal that is stopped (Ctrl-S) or gone must not keep the agent from serving.
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
    let message = match boot {
        Some(boot) if !boot.details().is_empty() => {
            let output = boot.details().replace('\n', "\n  ");
            format!("{} Its output:\n\n  {output}", boot.summary)
        }
        Some(boot) => boot.summary.clone(),
        None => Chain(error).to_string(),
    };
    Failure::new(Kind::Boot, message)
}
