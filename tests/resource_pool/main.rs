//! The resource pool: its conformance to the source's tests (L1 to L34), the sixteen rulings, every option,
//! keys, the asynchronous form, and the failures seen in other pools.

#[path = "../common/mod.rs"]
mod shared;

mod common;
mod failures;
mod resizing;
mod clearing;
mod maintaining;
mod keyed;
mod foreign_code;
mod real_clock;
mod stress;
mod conformance;
mod options;
mod asynchronous;
