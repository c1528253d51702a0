//! Application processes: [`handshake`] is what is said while one starts, [`spawner`] starts them,
//! [`output`] forwards what they print, [`process`] is one that serves, [`connections`] are kept to those
//! that speak HTTP, [`lifeline`] watches one until it has been reaped, [`children`] knows all that live.

pub(crate) mod boot_error;
pub(crate) mod children;
pub(crate) mod connections;
pub(crate) mod handshake;
pub(crate) mod lifeline;
pub(crate) mod output;
pub(crate) mod process;
pub(crate) mod spawner;
pub(crate) mod stream;

pub(crate) use spawner::AppSpawner;

/// The pool of application processes, and how tasks refer to it without keeping it.
pub(crate) type Pool = cabrank::ApplicationPool<AppSpawner>;
pub(crate) type WeakPool = cabrank::WeakPool<AppSpawner>;
/// One request's hold on a process.
pub(crate) type Session = cabrank::Session<AppSpawner>;
