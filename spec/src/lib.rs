//! The ApplicationPool algorithm as a pure state machine: executable documentation.
//!
//! The text is *ApplicationPool algorithm* (Phusion Passenger 3.0.5), with its pseudocode. This crate says the
//! same thing in a form that can be run and searched: no threads, no clock but a counter, no I/O. What
//! the text calls a critical section is one [`Action`](action::Action), and a
//! [`Pool`](pool::Pool) is a value. Each error of the text has a number, E1 to E34
//! ([`rules`]), and each is a switch: the machine runs *as ruled*, *as written*, or as ruled but for
//! one.
//!
//! # Reading it beside the pseudocode
//!
//! | in the text | here |
//! |---|---|
//! | types, instance variables, their invariants | [`pool`], [`action`], [`invariants`] |
//! | `PoolOptions` | [`configuration`] |
//! | `get` | [`mod@get`] |
//! | `checkout_without_lock`, `select_process` | [`checkout`] |
//! | `mutate_active`, `mutate_count`, `mutate_max`; who is woken | [`mutators`] |
//! | `needs_restart` | [`restart`] |
//! | `spawning_allowed`, `new_app_group_creatable` | [`capacity`] |
//! | `detach_without_lock`, `detach_group_without_lock` | [`detach`] |
//! | `spawn_in_background`, `spawner_thread_callback` | [`spawning`] |
//! | `session_has_been_closed` | [`session`] |
//! | `cleaner` | [`cleaner`] |
//!
//! What the text has not: draining is in [`detach`] and [`cleaner`], back-off in [`spawning`] and
//! [`cleaner`], the bound of the queue in [`checkout`], who makes room in [`capacity`], concurrency in
//! [`Pool::place`](pool::Pool::place).
//!
//! # Checking it
//! [`machine`] lists what may happen; [`normal`] keeps the space finite; [`checker`] and
//! [`fairness`] search it; [`properties`] has what holds beyond the invariants, of steps and in the end;
//! [`configurations`] are the pools that are explored, [`coverage`] is a table of them, [`exploration`] does it; [`errata`] has each
//! erratum's counterexample, [`story`] tells it; [`diagrams`] are drawn by the machine.
//!
//! # The load interlock
//! [`interlock`] is a second machine: who may run application code, load and unload it, and when. It is explored
//! by the same checker.
//!
//! # The resource pool
//! [`resource_pool`] is a third: who has which resource, who waits, and who is served next.
//!
//! # As an oracle
//! The machine is deterministic: each action has one outcome. A test that drives a real pool can drive a
//! machine beside it and compare: [`Pool::new`](pool::Pool::new), [`Pool::enabled`](pool::Pool::enabled),
//! [`Pool::apply`](pool::Pool::apply), and all fields are public. `told` says what the action did.
//!
//! ```
//! use cabrank_spec::configuration::{Config, Options};
//! use cabrank_spec::pool::{Action, Event, Pool, SpawnResult};
//!
//! let mut pool = Pool::new(Config::new(vec![Options::new("shop")], 2, 1));
//! pool.apply(&Action::Get { client: 0, group: 0 });
//! assert_eq!((pool.waiting, pool.reserved, pool.count), (1, 1, 0));
//! pool.apply(&Action::SpawnEnds { ticket: 1, result: SpawnResult::Process });
//! assert!(pool.told.contains(&Event::Served { client: 0, process: 1 }));
//! assert_eq!((pool.waiting, pool.reserved, pool.count), (0, 0, 1));
//! ```

pub mod action;
pub mod capacity;
mod chart;
pub mod checker;
pub mod checkout;
pub mod cleaner;
pub mod configuration;
pub mod configurations;
pub mod coverage;
pub mod detach;
pub mod diagrams;
pub mod errata;
pub mod exploration;
pub mod fairness;
pub mod get;
pub mod interlock;
pub mod invariants;
pub mod machine;
pub mod mutators;
pub mod normal;
pub mod pool;
pub mod properties;
pub mod resource_pool;
pub mod restart;
pub mod rules;
pub mod session;
pub mod spawning;
pub mod story;
pub mod switches;
