//! One vocabulary, three schedulers: the operating system's, loom's (every interleaving) and
//! shuttle's (many random ones).
//!
//! This and the files below it are the only ones that name `parking_lot`, `loom` or `shuttle`. The
//! models replace the scheduler in the library's own test harness only (`cfg(test)` and the feature):
//! whoever depends on the crate always gets the real thing, whatever features are on. If both are
//! on, loom wins.
//!
//! What the modelled half does differently, and why (the facts are in `models/README.md`):
//! - [`Arc`] and [`Weak`] are counted where the scheduler sees it, for `std`'s are invisible to it;
//!   plain sharing uses `std::sync::Arc` everywhere.
//! - atomics are read by a read-modify-write, because a load can end loom's search early.
//! - a timed wait never times out: models move a hand-driven clock instead.
//! - every operation is noted, so that a failing execution can be read ([`trace`]).

mod orderings;

#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod native;
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod native_signals;
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
pub(crate) use {native::*, native_signals::*};

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod modelled;
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod modelled_signals;
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod published;
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use {modelled::*, modelled_signals::*};

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) mod explore;
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) mod trace;
