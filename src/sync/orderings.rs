//! The memory orderings of the library's lock-free words, for the native and the modelled facade alike.
//!
//! Both facades read these constants, so loom checks the orderings that ship. An ordering says nothing about
//! the order in which the threads change a word: each word is changed by read-modify-writes alone, and all of
//! them are in one order in any case. It says which *other* memory a thread sees after its own change. The
//! modelled words hold that against loom's causality at each change (`published.rs`), and a planted fault of
//! `models/faults.toml` weakens each constant.
//!
//! loom cannot see two things. The models read a word by a read-modify-write, because a load can end loom's search
//! early (`models/README.md`); so no model meets a read that returns an old value. Natively, a caller that
//! decides by [`FLAGS_READ`] must bear an old value. And shuttle knows one ordering only: the strongest.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed};

/// Each change of a [`Flags`](super::Flags) word.
///
/// A change happens before each later one: the target's call sees what a thread wrote before it woke the
/// executor, and a run sees what the run before it wrote.
pub(super) const FLAGS_UPDATE: Ordering = AcqRel;

/// A read of a [`Flags`](super::Flags) word: each change that it sees happens before it.
pub(super) const FLAGS_READ: Ordering = Acquire;

/// Each successful change of a [`Word`](super::Word).
///
/// A change happens before each later one: a holder sees what every owner wrote that has left by the word, and an
/// owner that enters sees what the last holder wrote.
pub(super) const WORD_CHANGE: Ordering = AcqRel;

/// The first look at a word before a change, and a change that another thread forestalled.
///
/// Its value is a guess. The change that follows confirms it, or the caller takes the lock.
pub(super) const GUESS: Ordering = Relaxed;

/// Both ends of a [`Flag`](super::Flag).
///
/// A thread that sees the flag touches nothing that the other thread wrote; one that does not see it takes the
/// lock and looks again. No ordering is weaker.
pub(super) const FLAG: Ordering = Relaxed;
