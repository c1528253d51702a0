//! One vocabulary, three schedulers: the operating system's, loom's (every interleaving) and
//! shuttle's (many random ones).
//!
//! Only this file and those below it name `parking_lot`. The models' tool (`models/tool/`) replaces the scheduler, in the
//! library's own test harness only (`cfg(test)` and the feature). A crate that depends on this one always gets the
//! native facade, whatever features are on. If both features are on, loom wins.
//!
//! Both facades take their memory orderings from `orderings.rs`. The modelled one differs in this, for reasons in
//! `models/README.md`:
//! - The scheduler sees the counts of [`Arc`] and [`Weak`], because those of `std` are invisible to it. Plain sharing
//!   uses `std::sync::Arc` everywhere.
//! - A read of an atomic is a read-modify-write, because a load can end loom's search early.
//! - A timed wait never times out: a model advances a manual clock instead.
//! - Each operation is logged, so that a failing execution can be read.

pub(crate) mod orderings;

#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod native;
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod native_signals;
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
#[path = "sync/native_threads.rs"]
pub(crate) mod thread;
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
pub(crate) use {native::*, native_signals::*};

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use crate::models::tool::{me::me, modelled::*, modelled_signals::*, threads as thread};
