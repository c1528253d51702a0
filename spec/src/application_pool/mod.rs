//! The *ApplicationPool algorithm* as a pure state machine: which get is given which process, which get waits, and
//! which process is spawned, evicted or detached.
//!
//! The specification is the pseudocode of Phusion Passenger 3.0.5, *ApplicationPool algorithm*. Each critical section
//! of the pseudocode is one [`Action`](action::Action), and a [`Pool`](pool::Pool) is a plain value. Each error of the
//! pseudocode is an *erratum* with a number ([`rules`]), and a switch of the machine. So the machine runs *as ruled*,
//! *as written*, or as ruled except for one erratum.
//!
//! # Reading it beside the pseudocode
//!
//! | in the pseudocode | here |
//! |---|---|
//! | types, instance variables, their invariants | [`pool`], [`action`], [`invariants`] |
//! | `PoolOptions` | [`configuration`] |
//! | `get` | [`mod@get`] |
//! | `checkout_without_lock`, `select_process` | [`checkout`] |
//! | `mutate_active`, `mutate_count`, `mutate_max`; the wake-ups | [`mutators`] |
//! | `needs_restart` | [`restart`] |
//! | `spawning_allowed`, `new_app_group_creatable` | [`capacity`] |
//! | `detach_without_lock`, `detach_group_without_lock` | [`detach`] |
//! | `spawn_in_background`, `spawner_thread_callback` | [`spawning`] |
//! | `session_has_been_closed` | [`session`] |
//! | `cleaner` | [`cleaner`] |
//!
//! The rulings add: draining ([`detach`], [`cleaner`]), back-off ([`spawning`], [`cleaner`]), a bound of
//! the queue ([`checkout`]), marking for eviction ([`capacity`]), and concurrency
//! ([`Pool::place`](pool::Pool::place)).
//!
//! # Checking it
//! [`machine`] lists the possible actions, and [`normal`] keeps the state space finite. [`invariants`], [`properties`]
//! and [`liveness`] state what holds. [`configurations`] lists the pools that [`check`](crate::checking::check) explores.
//! [`errata`] finds each erratum's counterexample, and [`story`] has the words for it. [`system`] joins them.
//!
//! # As an oracle
//! The machine is deterministic: each action has one outcome. A test can drive a machine beside a real
//! pool and compare the two, with [`Pool::new`](pool::Pool::new), [`Pool::enabled`](pool::Pool::enabled)
//! and [`Pool::apply`](pool::Pool::apply). All fields are public; `events` says what the action did.
//!
//! ```
//! use cabrank_spec::application_pool::configuration::{Config, Options};
//! use cabrank_spec::application_pool::pool::{Action, Event, Pool, SpawnResult};
//!
//! let mut pool = Pool::new(Config::new(vec![Options::new("shop")], 2, 1));
//! pool.apply(&Action::Get { client: 0, group: 0 });
//! assert_eq!((pool.waiting, pool.reserved, pool.count), (1, 1, 0));
//! pool.apply(&Action::SpawnEnds { ticket: 1, result: SpawnResult::Process });
//! assert!(pool.events.contains(&Event::Served { client: 0, process: 1 }));
//! assert_eq!((pool.waiting, pool.reserved, pool.count), (0, 0, 1));
//! ```

pub mod action;
pub mod capacity;
pub mod checkout;
pub mod cleaner;
pub mod configuration;
pub mod configurations;
pub mod detach;
pub mod errata;
pub mod get;
pub mod invariants;
pub mod liveness;
pub mod machine;
pub mod mutators;
pub mod normal;
pub mod pool;
pub mod properties;
pub mod restart;
pub mod rules;
pub mod session;
pub mod spawning;
pub mod story;
pub mod system;
