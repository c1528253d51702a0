//! The memory orderings of the library's lock-free words, for the native and the modelled facade alike.
//!
//! Both facades read these constants, so loom checks the orderings that ship. Each word changes by read-modify-writes
//! only, and the changes of one word are in one order, whatever the ordering. The ordering determines which *other*
//! memory a thread sees after its change. At each change the modelled words assert that by loom's causality
//! (`published.rs`). Planted faults of `models/*/faults.txt` weaken each constant that could be weaker.
//!
//! The models cannot see everything:
//! - They read a word by a read-modify-write, because a load can end loom's search early (`models/README.md`). So
//!   no model sees a stale read, and a caller that reads with [`FLAGS_READ`] must tolerate one.
//! - shuttle treats each ordering as the strongest.
//! - Some words stand outside the facade, because no decision about a wait or a place depends on them: hints that are
//!   checked again under a lock (`quiet` of the interlock, `group_hint`), settings (`interval`), and counters of
//!   changes that are read at the next look (`changes.rs`, `reload_state.rs`, `restart_files.rs`, `maintenance.rs`).
//! - The slot of a waker (`atomic-waker`), locks, parking and reference counts have the orderings of their crates.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed};

/// Each change of a [`Flags`](super::Flags) word.
///
/// A change happens before each later one. So the target's call sees what a thread wrote before it woke the executor,
/// and a run sees what the run before it wrote.
pub(crate) const FLAGS_UPDATE: Ordering = AcqRel;

/// A read of a [`Flags`](super::Flags) word. Each change that it sees happens before it.
pub(crate) const FLAGS_READ: Ordering = Acquire;

/// The read of a [`Flags`](super::Flags) word before a compare-exchange, which fails if the value was stale.
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
pub(crate) const GUESS: Ordering = Relaxed;

/// Both ends of a [`Flag`](super::Flag).
///
/// A thread that sees the flag set reads no other memory of the thread that set it. A thread that does not see it
/// takes the lock and looks again. So the weakest ordering is enough.
pub(crate) const FLAG: Ordering = Relaxed;
