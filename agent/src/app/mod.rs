//! Application processes.
//!
//! - [`spawner`] starts them on the thread of the [`forker`], each through [`prepare`], as a [`user`], and [`handshake`] is the dialogue with a loader meanwhile;
//! - [`process`] is a process that serves, and [`lifeline`] watches it to its end;
//! - [`held_socket`] keeps a process's socket reachable; [`connections`] stay open to processes, over a [`stream`];
//! - [`kept`] is the codec of connections that carry one request after another in the session protocol;
//! - [`output`] logs the output of processes, and [`boot_error`] carries it if a process fails to boot;
//! - [`children`] lists all living processes, and the [`watchdog`] ends them after a killed agent;
//! - [`orphans`] are reaped, if the agent is process 1.

pub(crate) mod boot_error;
pub(crate) mod children;
pub(crate) mod connections;
pub(crate) mod forker;
pub(crate) mod handshake;
pub(crate) mod held_socket;
pub(crate) mod kept;
pub(crate) mod lifeline;
pub(crate) mod orphans;
pub(crate) mod output;
pub(crate) mod prepare;
pub(crate) mod process;
pub(crate) mod spawner;
pub(crate) mod stream;
pub(crate) mod user;
pub(crate) mod watchdog;

pub(crate) use spawner::AppSpawner;

/// The pool of application processes.
pub(crate) type Pool = cabrank::ApplicationPool<AppSpawner>;
/// A reference to the pool that does not keep it alive.
pub(crate) type WeakPool = cabrank::application_pool::WeakPool<AppSpawner>;
/// One request's hold on a process.
pub(crate) type Session = cabrank::Session<AppSpawner>;
