//! The executor: what the original's tests check of it (R33 to R45), and what is promised beyond.

mod asynchronous;
mod futures;
mod hooks;
mod nesting;
