//! The load interlock as a pure state machine: which owners may run, load and unload, and when.
//!
//! Application code *runs* with a share. An owner that wants to *load* or *unload* must be alone. It asks for
//! the lock, gives up its shares, and waits until every other owner has given up its shares and lets it in.
//! Inside a *permit* block, an owner waits for something else and lets others load meanwhile.
//!
//! The machine runs *as mended*, *as in Rails* with all of Rails' [defects](rules::Defect), or as mended with
//! one of them.
//!
//! # The state
//! There is one lock, no clock and no thread: an [`Interlock`](state::Interlock) is a value. An owner is a thread or a
//! task with its nested executions. Each owner has:
//!
//! * `shares`, one for each execution that nests in the same share;
//! * a stack of `frames`, one for each wait and each permit block that it is in. A frame keeps what the owner
//!   gets back at the end;
//! * an `entry`, which lists the requests that the owner lets in meanwhile.
//!
//! The owner's mode follows from these:
//!
//! | mode | the owner has |
//! |---|---|
//! | Out | no share and no frame |
//! | Running n | n shares |
//! | Waiting p | given up its shares and requested the lock for purpose p |
//! | Holding p d | acquired the lock d times |
//! | Yielded | given up its shares in a permit block |
//! | Draining | released the lock; requests that it accepts go first, so that owners that load in turn resume together |
//! | Resuming | ended its permit block or given up its wait; it needs its shares back |
//!
//! # The guards
//! * X(o, p): no other owner holds or has shares, and every other entry accepts p.
//! * N(o): no owner holds, and every other entry accepts newcomers. While a permit block is open, a waiting unload
//!   accepts them, too: the block keeps the unload out anyway, and it may wait for the newcomer.
//! * C(o): no other owner holds.
//! * E(after): an owner waits for one of these purposes, and every other entry accepts it.
//!
//! The functions of these names are in [`guards`]. The rows of the table of transitions are in [`transitions`].
//!
//! | an owner accepts, while it | loads | unloads | newcomers |
//! |---|---|---|---|
//! | waits to load, and had shares | yes | | |
//! | waits to unload | yes | yes | while a permit block is open |
//! | permits | yes | | yes |
//! | drains after a load | yes | | |
//! | drains after an unload | yes | yes | |
//! | resumes | yes | if it had requested one | |
//!
//! An owner never accepts a load or an unload that an outer permit block of its own keeps out. An execution inside a
//! permit block is a newcomer.
//!
//! # Refusals and time limits
//! * `Deadlock`, at once: a request that would wait for its own owner. That is an unload in a nested execution, in a
//!   permit block, or inside a load or an unload; and a permit block inside a load or an unload.
//! * `TimedOut`: an owner may give up any wait at any moment, and a dropped wait is the same. It is then Resuming: its
//!   program goes on, up to the next statement that needs a share. An owner that leaves does not wait.
//!
//! The interlock does not know of a wait for another thread (`Join`). With a permit block around each such wait, every
//! program ends, also while unloads are queued and newcomers come. Without it, or if the other thread unloads, only a
//! time limit ends the wait. Only a time limit ends the waits of others for a leaked guard, too.
//!
//! # Checking it
//! Owners run small programs ([`script`]), and [`scenarios`] combine them. [`properties`] lists what holds in
//! every state (INV-ILK-…), and in every step and in the end (PROP-ILK-…). [`check`](crate::checking::check) visits every
//! interleaving. Beside the scenarios, tests explore any three of [`programs`](scenarios::programs), and any
//! child with any parent. [`story`] writes the counterexample of each defect down.
//!
//! # What is not promised
//! * A newcomer may starve while others load or unload for ever: the machine has no queue. The library has one.
//! * An unload may starve while executions that permit loads overlap for ever. Each lets the next one in, so their
//!   permit blocks need not overlap.
//!
//! `tests/interlock.rs` shows both. [`diagrams`](crate::diagrams) draws the life of an owner.
//!
//! # Origin
//! Section 5 of the guide *Threading and Code Execution in Rails* describes this interlock. Rails v8.0.0 implements
//! it, with the five defects in [`rules`].

pub mod guards;
pub mod properties;
pub mod rules;
pub mod scenarios;
pub mod script;
pub mod state;
pub mod story;
pub mod system;
pub mod transitions;
