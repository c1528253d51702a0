//! The resource pool: its conformance to the source's tests (L1 to L34), the sixteen rulings, every option,
//! keys, the asynchronous form, and the failures seen in other pools.

#[path = "../common/mod.rs"]
mod shared;

mod abandoned;
mod asynchronous;
mod at_hand;
mod at_once;
mod at_once_histories;
mod clearing;
mod common;
mod conformance;
mod crowds;
mod executions;
mod failures;
mod foreign_code;
mod handed_over;
mod histories;
mod keyed;
mod looking_up;
mod maintaining;
mod minimum;
mod options;
mod real_clock;
mod refinement;
mod resizing;
mod steps;
mod stress;
mod unfinished;
mod unwilling;
mod upkeep;
