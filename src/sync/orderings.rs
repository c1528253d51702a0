//! The memory orderings of the library's lock-free words, for the native and the modelled facade alike.
//!
//! Both facades read these constants, so loom checks the orderings that ship. Each word changes by read-modify-writes
//! only, and the changes of one word are in one order, whatever the ordering. The ordering determines which *other*
//! memory a thread sees after its change. At each change the modelled words assert that by loom's causality
//! (`published.rs`). Planted faults of `models/*/faults.txt` weaken each constant that could be weaker.
//!
//! The models cannot see everything:
//! - They read a word by a read-modify-write, because a load can end loom's search early (`models/README.md`). So
//!   no model meets a read of an old value. A caller that decides by [`FLAGS_READ`] must bear one.
//! - shuttle treats each ordering as the strongest.
//! - The slot of a waker (`atomic-waker`), locks, parking and reference counts have the orderings of their crates.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed};

/// Each change of a [`Flags`](super::Flags) word.
///
/// A change happens before each later one. So the target's call sees what a thread wrote before it woke the executor,
/// and a run sees what the run before it wrote.
pub(super) const FLAGS_UPDATE: Ordering = AcqRel;

/// A read of a [`Flags`](super::Flags) word. Each change that it sees happens before it.
pub(super) const FLAGS_READ: Ordering = Acquire;

/// The first look at a [`Flags`](super::Flags) word before a change. Its value is a guess, which the change confirms.
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
pub(super) const GUESS: Ordering = Relaxed;

/// Both ends of a [`Flag`](super::Flag).
///
/// A thread that sees the flag touches no memory of the other thread's. One that does not see it takes the
/// lock and looks again. There is no weaker ordering.
pub(super) const FLAG: Ordering = Relaxed;
