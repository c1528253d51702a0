//! A pool of resources that are costly to create: connections, sessions, handles.
//!
//! A pool may be keyed, and serves threads and tasks alike. It has the options and operations of the known pools:
//! `borrow`, return (the drop of a guard), `add`, `invalidate`, `clear` and `close`; limits, tests, idle times,
//! lifetimes, a minimum of idle resources, and reports of loans that look abandoned.
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
//! drop(connection); // returns it to the pool
//! assert_eq!((pool.num_active(), pool.num_idle()), (0, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `F: Form` in the types is the factory: each [`ResourceFactory`], and [`Async`] of each [`AsyncResourceFactory`].
//!
//! # How it works
//! The state of a pool has one lock. Sections under it do arithmetic and move one address, because each resource is
//! boxed when it is created. They call no user code. The factory, wakers and the listener are called after the
//! section.
//!
//! A resource or place that becomes free is granted, under the lock, to the oldest waiter that can use it.
//! A guard reserves the place for a resource before its creation begins.
//!
//! Two periodic executors do the maintenance and sleep until something is due. One evicts and reports; the other tests
//! and refills.
//!
//! # Behaviour
//! - An idle resource at or below `min_idle` is lent like any other. The maintenance refills the idle list afterwards.
//! - A waiter whose resource turns out to be invalid gets another one. A grant whose waiter has given up goes to the
//!   next waiter.
//! - After `close` the pool lends nothing, not even to a waiter that was already granted a resource. A borrower that
//!   creates for itself, without a runtime, still gets its resource, which is destroyed on return.
//! - `clear` destroys idle resources only. [`clear_all`](Pool::clear_all) also destroys borrowed ones on return.
//! - If a borrower panics, the pool destroys its resource and frees the place.
//! - A borrow ends after [`max_wait`](Builder::max_wait), 30 seconds by default. Its [error](Shortage) says what the pool had. Only a
//!   pool without a timer ([`build_async`](Builder::build_async)) has no limit.
//! - A loan begins with activation, then the test. A return begins with the test, then passivation.
//!
//! # Creations
//! In a pool with a runtime ([`build_on`](Builder::build_on)), the pool creates, and never a borrower:
//! - A borrower that finds nothing idle waits in the order of arrival. The pool has as many creations of its key in flight as
//!   borrowers wait that the limits admit, each in a task of the runtime. A new resource goes to the oldest borrower. So a
//!   burst of borrowers begins one connect for each, whatever comes back meanwhile.
//! - A borrower that leaves, or is served by what comes back, leaves the creation alone. Its resource goes to the next borrower, or
//!   becomes idle.
//! - A creation that fails is the error of the oldest borrower of its key that waited when it began. If there is none, the
//!   listener is notified ([`Event::CreateFailed`]). So no borrower gets an error that is older than its call.
//! - A creation that takes longer than [`overdue_after`](Builder::overdue_after) may hang. The pool begins another beside it; or in
//!   its place, where the limits leave no room, once no borrower is left that waited when it began. It ends in any case after
//!   [`create_timeout`](Builder::create_timeout).
//! - The minimum is created in the same way, for all keys at once.
//!   [`max_creating`](Builder::max_creating) limits what is in flight.
//! - [`clear_all`](Pool::clear_all) and a close drop the creations in flight. After `clear_all` the pool begins others for the
//!   borrowers that wait.
//! - **The runtime has to be driven**, also while a borrower waits on another thread: a current-thread runtime that no thread
//!   is in creates nothing.
//! - Resources belong to that runtime: a socket's events come to its threads. If each thread has a runtime of its own, and
//!   uses its own resources, build the pool by [`build_async`](Builder::build_async), in which each borrower creates.
//! - A `create` that borrows from its own pool and key waits behind its own borrower, until its creation is overdue.
//! - If the runtime ends, or refuses a task, borrowers create for themselves until it takes tasks again. The listener is
//!   notified ([`Event::RuntimeEnded`]).
//!
//! Without a runtime ([`build`](Builder::build), [`build_async`](Builder::build_async)), a borrower creates:
//! - Its future is dropped with the creation, and all that it holds, which frees the place at once.
//! - It awaits its own resource, and takes no other. If it did, its creation would be dropped, and a pool whose loans are shorter
//!   than a connect would never fill.
//! - A blocking `create` runs on its borrower's thread, which takes nothing else meanwhile.
//!
//! # Destructions
//! In a pool with a runtime, tasks of that runtime destroy, so that a return or a close waits for nothing. They await
//! [`destroy_async`](AsyncResourceFactory::destroy_async), each at most for [`destroy_timeout`](Builder::destroy_timeout).
//! One task begins them, and yields between those that block. A resource counts until its destruction ends, and
//! [`wait_closed`](Pool::wait_closed) waits for that. A borrower whose resource fails its test keeps the place, and awaits the
//! destruction itself.
//!
//! Without a runtime, or after its end, the caller that lets a resource leave calls `destroy`: the borrower that returns it, the caller of
//! `close`, or the maintenance.
//!
//! # Forked children
//! A forked child shares its parent's resources, and must not speak over them. There the pool of the parent lends nothing
//! ([`BorrowError::Forked`]), and neither tests, passivates nor destroys: what is lent, idle, closed or dropped is
//! forgotten. The child builds a pool of its own. A call that looks into the parent's pool, such as `num_idle`, may hang if
//! another thread held its lock at the fork. Each borrow and return reads one number to notice a fork.
//!
//! # Panics
//! The pool catches panics of the factory, of the listener and of a waker's `wake`. They become errors or reports. A
//! panic of a key's `Hash`, `Eq` or `Clone`, or of a waker's `clone`, unwinds from the call that was given it. The pool
//! is unharmed.
//!
//! # Observation
//! A pool with a [`name`](Builder::name) passes its times and events on to the crates `metrics` and `tracing`, if the
//! features of these names are on. Each metric has the label `pool`. Durations are in seconds, by the system's clock.
//!
//! | metric | kind | other labels |
//! |---|---|---|
//! | `cabrank.resource_pool.borrow.duration` | histogram: from the call to the loan | |
//! | `cabrank.resource_pool.borrow.failures` | counter | `reason`: `closed`, `exhausted`, `would_block`, `timed_out`, `forked`, `create`, `activate`, `invalid` |
//! | `cabrank.resource_pool.loan.duration` | histogram: from the loan to the return | |
//! | `cabrank.resource_pool.create.duration` | histogram: creations that ended | `outcome`: `created`, `error`, `panicked`, `timed_out` |
//! | `cabrank.resource_pool.destroyed` | counter: destructions that ended | |
//! | `cabrank.resource_pool.events` | counter: [events](Event) | `event`: the variant, such as `create_failed` |
//! | `cabrank.resource_pool.active`, `.idle`, `.total`, `.waiting` | gauges, set by `Pool::record_gauges` | |
//!
//! `tracing` gets the same as events at the debug level, with the target `cabrank::resource_pool`. Without a name, or
//! without the features, none of this costs anything.
//!
//! # Waiting within an execution
//! A thread that waits for a resource under the [load interlock](crate::execution) keeps other threads from loading,
//! perhaps the very thread that has the resource. Wait in a permit block: `running.permit_loads(|| pool.borrow())`.
//!
//! # Limits
//! Costs:
//! - Four orders cost O(log n): the line of keys, the keys above their minimum (with a soft idle time), the keys that
//!   back off after a failed creation, and the waiters that retry in a barging pool.
//! - A section visits what it removes or wakes. A borrow visits the expired resources of its key. `clear`, `clear_key`,
//!   `clear_all`, `close` and the setters of limits visit what they destroy.
//! - The setters of limits, `clear`, `clear_all` and `close` visit the places of all keys: up to twice as many as there
//!   were keys at any time. An advance of a [`ManualClock`](crate::ManualClock) visits all waiters.
//! - [`Pool::snapshot`] and [`Pool::retain`] copy plain numbers of all resources under the lock.
//! - The search for an idle resource skips those that are being tested: one for each concurrent call that tests or
//!   retains. An eviction victim that is spared is re-inserted into the idle list in age order, which takes a scan.
//! - When a table grows, its entries are copied under the lock: O(1) on average, and longer for that one section. So they are when
//!   a key is forgotten and seven eighths of a table are empty. The table of resources becomes smaller only while all are idle.
//!
//! Keys:
//! - The minimum of a key holds once one of its resources was created, while any is left. When the last one is evicted,
//!   invalidated or cleared, the pool forgets the key. The idle list is refilled after the next borrow.
//! - A victim that is evicted for another key counts for its own key until the borrower has destroyed it. The totals of
//!   all keys may therefore exceed the total of the pool.
//!
//! Time:
//! - A creation keeps its place until it ends, at the latest after `create_timeout`. With a manual clock it has no time limit,
//!   and is never overdue.
//! - A grant keeps its place, and its victim, until the waiter picks it up or is dropped. A return whose test or
//!   passivation hangs keeps its place as well.
//! - An expired resource that was not evicted yet leaves when a borrower finds it. It counts for
//!   [`add`](ResourcePool::add) until then.
//! - A hanging `validate` in the background blocks other tests, up to its time limit; without a runtime, a hanging `create`
//!   blocks other refills, and a hanging `destroy` other evictions and reports. Neither blocks the other.
//! - [`Pool::retain`] skips resources that are being tested, or that a concurrent call looks at.
//! - In a pool that is not [`fair`](Builder::fair), a task that was woken to retry and is not polled keeps
//!   the next waiter asleep, until it is polled or dropped. A newcomer may take the resource meanwhile.
//! - If other callers keep returning broken resources, a borrower without a time limit may find one after the other.
//!
//! # Origin
//! The operations follow an Elixir pool with the interface of Apache Commons Pool. Seven of its defects are avoided
//! here: `elixir-forgotten-waiter`, `elixir-hoarded-minimum`, `elixir-unbounded-total`, `elixir-clear-takes-borrowed`,
//! `elixir-late-grant`, `elixir-missed-eviction` and `elixir-leaked-loan`. In the repository,
//! `cargo run -p cabrank-spec -- erratum elixir-late-grant` shows one step by step.

mod api;
mod state;
mod work;

pub use api::{
    AddError, Async, AsyncResourceFactory, AsyncResourcePool, BorrowError, Borrowed, BuildError,
    Builder, Event, Failure, Form, KeySnapshot, Keyed, KeyedResourcePool, LastFailure, LendOrder,
    Pool, ResourceFactory, ResourcePool, ResourceSnapshot, ResourceState, Shortage, Snapshot,
    Unkeyed, WeakKeyedResourcePool, WeakPool, WeakResourcePool, WhenExhausted,
};
