//! The sources of the library's arena and list.

#[path = "../../../src/kernel/collections/arena.rs"]
#[allow(dead_code, reason = "only a part of the file is used here")]
pub(crate) mod arena;
#[path = "../../../src/kernel/collections/list.rs"]
#[allow(dead_code, reason = "only a part of the file is used here")]
pub(crate) mod list;
