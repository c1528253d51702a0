//! The resource pool: the Elixir pool's suite, every option, keys, the asynchronous form,
//! maintenance, failures seen in other pools, and its refinement of the specification.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod shared;

mod abandoned;
mod asynchronous;
mod clearing;
mod common;
mod conformance;
mod creations;
mod crowds;
mod destroying;
mod edges;
mod ends;
mod executions;
mod failing;
mod failures;
mod filling;
mod grants;
mod guards;
mod histories;
mod keyed;
mod looking_up;
mod maintaining;
mod max_wait;
mod metrics;
mod minimum;
mod not_starting;
mod observed;
mod on_tokio;
mod options;
mod options_meet;
mod order_ends;
mod orders;
mod overdue;
mod real_clock;
mod refinement;
mod resizing;
mod runtime_ends;
mod runtimes;
mod shutdown;
mod slow_calls;
mod snapshots;
mod steps;
mod storms;
mod stress;
mod time_limits;
mod unwilling;
mod upkeep;
mod user_code;
