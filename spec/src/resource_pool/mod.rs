//! The resource pool as a pure state machine: who has which resource, who waits, and who is served next.
//!
//! A pool keeps resources that are costly to make. Whoever *borrows* one takes an idle one, or creates one if the
//! limits leave room, or waits; what comes back is idle, and goes to whoever waits. A *keyed* pool has resources of
//! several kinds, with limits for each and for all. The source is a text on such a pool, after Apache Commons Pool;
//! its published implementation has seven defects, `elixir-…` ([`rules`]). Each is a switch: the machine
//! runs *as mended*, or as mended but for one.
//!
//! # The state
//! One lock, no clock, no thread: a [`ResourcePool`](state::ResourcePool) is a value, and an
//! [`Action`](machine::Action) is one critical section. Factories (create, activate, validate, passivate, destroy)
//! run between two of them. A *slot* is one resource, or the place that is reserved for it:
//!
//! | a slot is | counts as | and goes on |
//! |---|---|---|
//! | being made room for, by its borrower, which destroys an idle one first | active | being created; or given back |
//! | making room for it | | destroyed; or idle, if its borrower gives up before it is awake |
//! | being created, by a borrower | active | activated; or given back; or idle, if its borrower leaves it; or dropped, if who takes it over does, too |
//! | being activated and validated | active | lent; or destroyed, and the borrower takes the next one; or leaves, if it was made for it |
//! | lent | active | idle; or leaves; or detached |
//! | being added | | idle; or given back; or idle, unfinished, if who adds it leaves it |
//! | idle, and perhaps being tested | idle | any of the first two; or leaves |
//! | leaving | | destroyed |
//!
//! All of them count in the total of their key, and in that of all: `max_total_per_key` and `max_total` bound what
//! exists, to the end of its destruction. But what makes room counts as one with what is created in its place: in
//! all, and of the key if that is the same.
//!
//! # Who is served
//! A borrower is served with stock of its key; else with a new one, where there is room; else with a new one in the
//! place of the least recently used idle one of another key ([`serving`]). Who cannot be served waits. A key whose
//! own limits leave room for one more is *eligible*; what becomes free goes to the oldest waiter of all eligible
//! keys. So a full key blocks nobody. If newcomers may *barge*, that waiter is called instead, to try again.
//!
//! Who was served keeps its place: if what it took is broken, it takes the next, and when there is none it creates
//! one. Who had waited comes for what it was handed when it is awake. What must not be lent any more by then is not:
//! its borrower takes the next, or creates one in its place. Who gives up after it was served passes on what it has.
//!
//! # What keeps the rules simple
//! * A newcomer never finds anything that a waiter of its key could have used: nobody waits who could be served
//!   (INV-RP-EXACT-WAKE-UP).
//! * If there is nothing for the first in line there is nothing for any: what serves another key, its stock or
//!   a place, would serve this one too.
//! * What is too much for a lowered limit is not idle: it leaves at once, or when it comes back. So no idle
//!   one need be kept from making room.
//! * A creation that was left by who began it is idle, and not finished. It may never be: so it is lent if there is
//!   nothing else, makes room before anything else does, and counts for `max_idle` but not for `min_idle`.
//! * What has been there for too long is not looked for: whoever comes upon it where it would be lent next
//!   has it leave, and takes the next.
//!
//! # Reading it
//! [`state`], [`serving`], [`borrow`], [`stock`] (about 700 lines); [`invariants`] and [`properties`];
//! [`machine`] says what may happen and what is fair, [`configurations`] where. [`exploration`] looks at every
//! state; [`defects`] has each defect's shortest counterexample, and [`story`] tells it.
//!
//! # As an oracle
//! The machine is deterministic: [`apply`](state::ResourcePool::apply) carries an action out and says what it
//! told, and all fields are public.
//!
//! ```
//! use cabrank_spec::resource_pool::configurations::named;
//! use cabrank_spec::resource_pool::machine::Action;
//! use cabrank_spec::resource_pool::state::Event;
//! use cabrank_spec::checker::Machine;
//!
//! let mut pool = named("rp-keyed-one").expect("two keys, one place").initial();
//! let first = pool.apply(&Action::Borrow { client: 0, key: 0, waits: true });
//! assert_eq!(first, [Event::Creates(0, 1, None)]);
//! pool.apply(&Action::Created { client: 0 });
//! pool.apply(&Action::Ready { client: 0 });
//! pool.apply(&Action::Return { client: 0 });
//! // The only place there is passes from key 0 to key 1.
//! let second = pool.apply(&Action::Borrow { client: 1, key: 1, waits: true });
//! assert_eq!(second, [Event::Creates(1, 2, Some(1))]);
//! assert_eq!((&pool.total[..], pool.num_total()), (&[1, 1][..], 1));
//! pool.apply(&Action::MadeRoom { client: 1 });
//! assert_eq!((&pool.total[..], pool.num_total()), (&[0, 1][..], 1));
//! ```
//!
//! # What is not promised
//! A borrower discards what is broken one by one, and takes what others return meanwhile. If all of that is broken
//! for ever, so is its borrow, unless it has a deadline. Where newcomers may barge, nothing is promised to
//! who waits while they come for ever. `tests/resource_pool.rs` shows both. What is abandoned, and what a borrower
//! finds broken and destroys in the time between two sections, is not in the machine.

pub mod borrow;
pub mod configurations;
pub mod defects;
pub mod exploration;
pub mod invariants;
pub mod machine;
pub mod properties;
pub mod rules;
pub mod serving;
pub mod state;
pub mod stock;
pub mod story;
