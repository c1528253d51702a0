//! Data structures over the entries of arenas. They live under their owner's lock and take no lock themselves.
//!
//! - [`arena`]: tables of entries; lists, heaps and queues refer to an entry by its [`Key`](arena::Key).
//! - [`smaller`]: how tables that are mostly empty become smaller.
//! - [`touched`]: tables that note which entries a section has changed.
//! - [`list`]: doubly linked lists, with the links inside the entries.
//! - [`rank_list`]: entries ordered by a small number, each operation in O(1).
//! - [`indexed_heap`]: entries ordered by any number, each operation in O(log n).
//! - [`wait_queue`]: waiting threads and tasks, first come, first served.
//! - [`seat`]: a waiter's place, which it takes at its first look.

pub(crate) mod arena;
pub(crate) mod indexed_heap;
pub(crate) mod list;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod list_tests;
pub(crate) mod rank_list;
pub(crate) mod seat;
pub(crate) mod smaller;
pub(crate) mod touched;
pub(crate) mod wait_queue;
