//! The parts of which all systems are built: the interlock, the executors and both pools use them, and they use none of
//! these.
//!
//! - [`section`]: critical sections, and waits by which no wake-up is lost.
//! - [`effects`]: what a section leaves to be run without the lock.
//! - [`collections`]: arenas with typed keys, and lists, heaps and queues over their entries.
//! - [`alarm`]: until when an executor of timed work sleeps.
//! - [`at_work`]: the mark of a thread at work, on a stack of the thread ([`thread_stack`]).
//! - [`runtime`]: a user's runtime made safe, and without its type ([`any_runtime`]).
//! - [`user_code`]: calls, values and panics of the user's.
//! - [`origin`]: whether a process is a forked child.
//! - [`handle`]: handles that close their owner when the last one is dropped.
//! - [`clock`]: time, and the clock that a test advances.
//! - [`sync`]: one vocabulary for the operating system's scheduler and for those of the models.

pub(crate) mod alarm;
pub(crate) mod any_runtime;
pub(crate) mod at_work;
pub(crate) mod clock;
pub(crate) mod collections;
pub(crate) mod effects;
pub(crate) mod handle;
pub(crate) mod origin;
pub(crate) mod runtime;
pub(crate) mod section;
#[cfg(test)]
pub(crate) mod steps;
pub(crate) mod sync;
pub(crate) mod thread_stack;
pub(crate) mod user_code;
