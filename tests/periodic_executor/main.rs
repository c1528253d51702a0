//! The periodic executor, as a thread and as a task, on a manual clock. PyMongo's suite comes first;
//! the rest covers reopening, wakes during a call, the minimum interval and shutdowns.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod common;

mod at_exit;
mod both;
mod by_hand;
mod clients;
mod ends;
mod flavours;
mod joining;
mod limits;
mod many_wait;
mod on_tokio;
mod wakers;
