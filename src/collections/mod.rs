//! Data structures over slab-allocated entries. They live under their owner's lock and take no lock themselves.
//!
//! An entry belongs to one `slab::Slab`; lists, heaps and queues refer to it by its [`Key`](slab_list::Key).
//!
//! - [`slab_list`]: doubly linked lists, with the links inside the entries.
//! - [`rank_list`]: entries ordered by a small number, each operation in O(1).
//! - [`indexed_heap`]: entries ordered by any number, each operation in O(log n).
//! - [`wait_queue`]: waiting threads and tasks, first come, first served.

pub(crate) mod indexed_heap;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod list_tests;
pub(crate) mod rank_list;
pub(crate) mod slab_list;
pub(crate) mod wait_queue;
