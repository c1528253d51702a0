//! The executor: Rails' suite (`hooks.rs`, `nesting.rs`), and the library's further promises.

mod asynchronous;
mod futures;
mod hooks;
mod nesting;
