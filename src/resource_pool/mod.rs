//! A pool of resources that are costly to make: connections, sessions, handles. Keyed or not, for threads
//! and for tasks.
//!
//! After the resource pool of seed 004 (an Elixir library with the interface of Apache Commons Pool), with
//! all of its options and its operations: `borrow`, return (by dropping the guard), `add`, `invalidate`,
//! `clear`, `close`; and what pools of today have besides: a limit for what exists at all, tests while
//! idle, lifetimes, a minimum that is filled up in the background, loans that look abandoned, keys.
//!
//! ```
//! use cabrank::resource_pool::{ResourceFactory, ResourcePool};
//!
//! struct Connections;
//! impl ResourceFactory for Connections {
//!     type Resource = String; // a connection
//!     type Metadata = String; // where to connect to
//!     type Error = std::io::Error;
//!     fn create(&self, address: &String) -> std::io::Result<String> {
//!         Ok(format!("connection to {address}"))
//!     }
//! }
//!
//! let pool = ResourcePool::builder(Connections, "db.example".to_owned()).max_active(4).build()?;
//! let connection = pool.borrow()?;
//! assert_eq!(*connection, "connection to db.example");
//! drop(connection); // it goes back
//! assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The `F: Form` of the types is the factory: every [`ResourceFactory`] is one, and [`Async`] of every
//! [`AsyncResourceFactory`], and nothing else can be.
//!
//! # How it works
//! One lock, and under it only arithmetic and the moving of one address, for a resource is boxed when it is
//! made and stays where it is, however large. The calls of the factory, of wakers and of the listener come
//! after it (`effects.rs`). What becomes free is handed, under the lock, to the oldest waiter that can use it
//! (`state.rs`, which has the argument); room for a resource is reserved, by a guard, before it is made
//! (`guard.rs`). What happens by the clock is done by two periodic executors that sleep until something is due:
//! one evicts and tells, the other tests and fills up (`maintenance.rs`).
//!
//! | in the source | here |
//! |---|---|
//! | `new` | [`ResourcePool::builder`], [`KeyedResourcePool::builder`] |
//! | `borrow`; `max_wait`, `when_exhausted_action` | [`ResourcePool::borrow`], [`WhenExhausted`] |
//! | `return` | the drop of [`Borrowed`], [`Borrowed::put_back`] |
//! | `add`, `invalidate`, `clear`, `close` | [`ResourcePool::add`], [`Borrowed::invalidate`], [`ResourcePool::clear`], [`ResourcePool::close`] |
//! | `get_num_active`, `get_num_idle`, `get_number` | [`ResourcePool::num_active`], [`num_idle`](ResourcePool::num_idle), [`num_total`](ResourcePool::num_total) |
//! | `resource_factory`, `resource_metadata` | [`ResourceFactory`], its `Metadata` |
//! | a negative limit | [`Limit::None`] |
//!
//! # Where it differs from the source
//! - Stock at or below `min_idle` is lent like any other, and filled up afterwards, in the background (defect
//!   `elixir-hoarded-minimum`). What is over and was kept for the minimum leaves when there are more
//!   (`elixir-missed-eviction`).
//! - A waiter whose resource turns out to be invalid gets another; nobody is left to time out
//!   (`elixir-forgotten-waiter`). What is handed to a waiter that has given up goes to the next, not into stock
//!   (`elixir-late-grant`).
//! - `max_total` bounds all that exist, active or idle (`elixir-unbounded-total`).
//! - A close serves nobody any more, not even who was handed something and has not come for it; who had begun to
//!   make a resource before gets it, and it is destroyed when it comes back.
//! - `clear` destroys idle ones only; [`clear_all`](ResourcePool::clear_all) has those that are lent
//!   destroyed when they come back (`elixir-clear-takes-borrowed`).
//! - What is returned twice, or by somebody else, cannot be: the guard owns it. What a borrower had that
//!   panics is destroyed, and its place given back (`elixir-leaked-loan`).
//! - A loan comes with activation, then the test; a return with the test, then passivation.
//!
//! # Panics
//! A panic of the factory, of the listener or of a waker that is woken goes no further than where it was
//! called: it is an error, or told. That of a key's `Hash`, `Eq` or `Clone` goes to whoever called the pool
//! with that key, that of a waker's `clone` to whoever polls with it; the pool is unharmed.
//!
//! # Waiting within an execution
//! Who waits for a resource in code that runs under the [load interlock](crate::execution) keeps others
//! from loading, perhaps the very one that has the resource. So wait in a permit section, as for anything
//! else: `running.permit_loads(|| pool.borrow())`.
//!
//! # Limits
//! - Some places cost O(log n): that of a key among those in line for the total, among those with more than the
//!   minimum (if there is a soft idle time), or among those whose creations failed lately; and that of who was
//!   woken in vain in a pool that lets newcomers barge, among the others that were. The search for stock passes
//!   over what is being tested: one for each call that tests or retains at that time.
//! - In a keyed pool, the minimum of a key counts from when something of it has been made, and while anything of
//!   it is left. When its last one is evicted, invalidated or cleared the key is forgotten: what there is to be
//!   in stock of it is made when it is borrowed again.
//! - A creation that was left by who had begun it is lent if nothing finished is there, and polled on by who adds
//!   or fills up stock. If it never ends, it costs whoever takes it over its patience, or holds up refills until
//!   the task of the maintenance is dropped; then it is dropped (`unfinished.rs`). As many are kept as may be idle.
//! - A loan begins when it is handed out: a waiter that was served, and never comes for it, keeps its place, and
//!   what is to make room for it, until its future is dropped. It ends when it is given back: a return whose test or
//!   passivation hangs keeps its place, too.
//! - What makes room for another key counts as one of its own key, too, until the borrower that takes its place
//!   has destroyed it. So the totals of all keys may come to more than that of the pool.
//! - Stock that must not be lent any more, and was not evicted yet, leaves or makes room when it is come upon by a
//!   borrower; for [`add`](ResourcePool::add) it counts until it is evicted.
//! - What was to make room for a waiter, and need not, finds its place in stock past those that are older and came
//!   back before it.
//! - A refill or a test that hangs holds up other refills and tests, and a destruction that hangs other
//!   evictions and reports; not the one the other.
//! - A section goes through what it removes or wakes: a borrow through what it comes upon of its key that must not be
//!   lent any more; `clear`, `clear_key`, `clear_all`, `close` and the setters of limits through what leaves by them,
//!   and what of it is being tested; whatever frees something through those who are served with it.
//! - [`ResourcePool::snapshot`] and [`ResourcePool::retain`] copy plain numbers of all resources under the
//!   lock; the setters of limits, `clear`, `clear_all` and `close` go through the places of keys, of which
//!   there are up to twice as many as there have been keys at a time. A [`ManualClock`](crate::ManualClock)
//!   that is moved goes through all who wait.
//! - When there is more of something than ever before, its places are copied to where there is room for more; and the
//!   table of keys is rebuilt now and then, where keys come and go. On average over all calls that is O(1), but the
//!   one whose section it is holds the lock for that long.
//! - [`ResourcePool::retain`] passes over what is being tested just then; and of two calls at a time each passes over
//!   what the other looks at, so that some of what is idle one of them never sees.
//! - In a pool that is not [`fair`](ResourcePoolBuilder::fair), a task that was woken to try again, and is not
//!   polled, keeps the next waiter asleep beside idle stock, until it is polled or dropped. (A newcomer may
//!   take that.)
//! - The line of keys is a tree: with a dozen keys in it, or more, a section in which one comes or goes may allocate.
//! - If others put broken resources into stock again and again, a borrower without a time limit may go on
//!   finding one after the other (`PROP-RP-EVERY-DISCARD-ENDS` of the machine is not promised).

mod builder;
mod creation;
mod due;
mod effects;
mod error;
mod event;
mod eviction;
mod factory;
mod grants;
mod guard;
mod handles;
mod idle;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
mod keys;
mod maintenance;
mod maintenance_task;
#[cfg(doctest)]
mod misuse;
mod options;
mod pool;
mod refill;
mod slot;
mod snapshot;
mod state;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod steps_tests;
mod testing;
mod unfinished;
mod waiting;

pub use builder::ResourcePoolBuilder;
pub use error::{AddError, BorrowError, Failure};
pub use event::PoolEvent;
pub use factory::{Async, AsyncResourceFactory, Form, ResourceFactory};
pub use guard::Borrowed;
pub use handles::{
    AsyncResourcePool, Keyed, KeyedResourcePool, Pool, ResourcePool, Unkeyed,
    WeakKeyedResourcePool, WeakPool, WeakResourcePool,
};
pub use options::{Limit, PoolBuildError, WhenExhausted};
pub use snapshot::{KeySnapshot, PoolSnapshot, ResourceSnapshot, ResourceState};
