//! The resource pool as a pure state machine: which borrower has which resource, which borrower waits, and who is
//! served next.
//!
//! A pool keeps resources that are costly to create. A borrower takes an idle resource; or creates one if the limits
//! leave room; or waits. Where there is a place to run creations, the pool creates instead, and the borrower only waits
//! ([`orders`]). A returned resource is idle, and goes to a waiter if there is one. A *keyed* pool has
//! resources of several kinds, with limits for each key and in total.
//!
//! The machine runs *as mended*, or as mended with one of the [defects](rules::Defect) of the Elixir pool.
//!
//! # The state
//! There is one lock, no clock and no thread: a [`ResourcePool`](state::ResourcePool) is a value, and an
//! [`Action`](action::Action) is one critical section. Factory calls (create, activate, validate, passivate, destroy)
//! run between two actions. A *slot* is one resource, or the place that is reserved for it:
//!
//! | state of a slot | counts as active | next state |
//! |---|---|---|
//! | its borrower evicts an idle resource to make room for it | yes | being created; or given back |
//! | the eviction victim | | destroyed; or idle, if the borrower gives up before it picks up its grant |
//! | being created by a borrower | yes | being prepared; or given back |
//! | being prepared (activated and validated) | yes | lent; or destroyed, and the borrower takes the next; or leaving, if it is new |
//! | lent | yes | idle; or leaving; or detached |
//! | being created by the pool, perhaps after it has destroyed a victim | | idle; or given back; or leaving, if it is dropped |
//! | being added by a caller | | idle; or given back |
//! | idle, perhaps under test | | one of the first three; or leaving |
//! | leaving | | destroyed |
//!
//! Each slot counts in the total of its key and in the total of the pool. `max_total_per_key` and `max_total` bound the
//! existing resources until the end of their destruction. An eviction victim and the slot that is created in its place
//! count as one in the pool's total, and in the key's total if they have the same key.
//!
//! # The order of service
//! A borrower gets an idle resource of its key. Otherwise it creates one, where there is room; or in the place of the
//! least recently used idle resource of another key ([`serving`]). Otherwise it waits. A key is *eligible* if a
//! borrower waits for it and its own limits leave room for one more. A resource or place that becomes free goes to the
//! oldest waiter of all eligible keys, so a full key never blocks another. If newcomers may *barge*, that waiter is
//! only called to retry; once it has lost some races, it is served directly.
//!
//! Where the pool creates, nothing but an idle resource serves a borrower. A place that becomes free goes to the oldest
//! waiter that no creation in flight is for, of all eligible keys: the pool creates there.
//!
//! A served borrower keeps its place: if its resource is broken it takes the next one, or creates one if the idle list
//! is empty. A waiter picks up its grant when it is awake. If the granted resource has expired by then, the borrower
//! takes the next, or creates one in its place. A borrower that gives up after it was served passes its grant on. The end of
//! a task's `max_wait` is the drop of its future: the same action.
//!
//! # Simplifications
//! * A newcomer never finds a resource that a waiter of its key could use, because no waiter could be served
//!   (INV-RP-EXACT-WAKE-UP).
//! * Where borrowers create: if the first waiter in line cannot be served, no waiter can. An idle resource or a place for
//!   another key would serve the first one, too.
//! * A resource that exceeds a lowered limit is never idle. It leaves at once, or on its return. So every idle resource
//!   may be evicted.
//! * How long a creation takes until it is overdue, and when a hanging one ends by its limit, is left open.
//! * A refill begins at any time while the minimum lacks a resource. The real pool waits after a failure.
//! * The pool does not search for expired resources. A borrower that comes upon one where it would be lent next drops
//!   it and takes the next.
//!
//! # Reading it
//! Start with [`state`], [`serving`], [`orders`], [`borrow`] and [`idle`] (about 900 lines). [`invariants`] and [`properties`]
//! state what holds. [`action`] lists the actions and their fairness, [`machine`] says which are possible, and
//! [`configurations`] lists the explored pools. [`check`](crate::checking::check) visits every state. [`system`] names
//! the pool that shows each defect, and [`story`] has the words for it.
//!
//! # As an oracle
//! The machine is deterministic: [`apply`](state::ResourcePool::apply) carries an action out and returns its events.
//! All fields are public.
//!
//! ```
//! use cabrank_spec::resource_pool::configurations::named;
//! use cabrank_spec::resource_pool::action::Action;
//! use cabrank_spec::resource_pool::state::Event;
//! use cabrank_spec::checking::machine::Machine;
//!
//! let mut pool = named("rp-keyed-one").expect("two keys, one place").initial();
//! let first = pool.apply(&Action::Borrow { client: 0, key: 0, waits: true });
//! assert_eq!(first, [Event::Creates(0, 1, None)]);
//! pool.apply(&Action::Created { client: 0 });
//! pool.apply(&Action::Ready { client: 0 });
//! pool.apply(&Action::Return { client: 0 });
//! // The only place passes from key 0 to key 1.
//! let second = pool.apply(&Action::Borrow { client: 1, key: 1, waits: true });
//! assert_eq!(second, [Event::Creates(1, 2, Some(1))]);
//! assert_eq!((&pool.total[..], pool.num_total()), (&[1, 1][..], 1));
//! pool.apply(&Action::VictimDestroyed { client: 1 });
//! assert_eq!((&pool.total[..], pool.num_total()), (&[0, 1][..], 1));
//! ```
//!
//! # What is not promised
//! * A borrower discards broken resources one by one, and takes those that others return meanwhile. If all of them are
//!   broken for ever, its borrow never ends, unless it has a deadline.
//!
//! `tests/resource_pool.rs` shows this. The machine has no abandoned resources. It also has no state between the
//! section in which a borrower finds a resource broken and the section after its destruction.
//!
//! # Origin
//! The machine follows the description of a pool in Elixir, which has the interface of Apache Commons Pool. The
//! published Elixir pool deviates from its own description, with the seven defects in [`rules`].

pub mod action;
pub mod borrow;
pub mod configurations;
pub mod idle;
pub mod invariants;
pub mod machine;
pub mod orders;
pub mod properties;
pub mod rules;
pub mod serving;
pub mod state;
pub mod story;
pub mod system;
