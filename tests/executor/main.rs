//! The executor: what the original's tests check of it (R33 to R45), and what is promised beyond.

#[path = "../common/mod.rs"]
mod common;

mod asynchronous;
mod futures;
mod hooks;
mod nesting;
