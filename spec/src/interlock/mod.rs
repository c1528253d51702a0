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
//! There is one lock, no clock and no thread: an [`Interlock`](state::Interlock) is a value. Each owner has:
//!
//! * `shares`;
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
//! | Resuming | given up its wait; it needs its shares back |
//!
//! # The guards
//! * X(o, p): no other owner holds or has shares, and every other entry accepts p.
//! * N(o): no owner holds, and every other entry accepts newcomers.
//! * C(o): no other owner holds.
//! * E(after): an owner waits for one of these purposes, and every other entry accepts it.
//!
//! The functions of these names are in [`guards`]. The rows of the table of transitions are in [`transitions`].
//!
//! # Which requests an owner accepts
//!
//! | while it | loads | unloads | newcomers |
//! |---|---|---|---|
//! | waits to load, and had shares | yes | | |
//! | waits to unload, and had shares | yes | yes | |
//! | waits, and had no shares | yes | yes | |
//! | permits | yes | | yes |
//! | drains after a load | yes | | |
//! | drains after an unload | yes | yes | |
//!
//! An owner never accepts a load or an unload that an outer permit block of its own keeps out. A child of a live
//! execution is no newcomer: it waits for the holder only.
//!
//! # Refusals
//! * `Deadlock`: a request, an entry or a declared wait that would close a cycle. Each owner waits for every owner
//!   in its way, so each cycle is a deadlock, and each deadlock is a cycle. A cycle is closed when an owner begins to
//!   wait ([`waits_for_itself`](state::Interlock::waits_for_itself)). For each such refusal, a test explores what
//!   would have followed.
//! * `Holding`: an owner that holds the lock declares a wait for a child. The child might have to end a permit
//!   block, which cannot be refused. So a holder never waits, and C eventually becomes true.
//! * `Child`: a child requests an unload while an ancestor is in an execution.
//! * `InsideLoad`: an unload inside a load. Permit blocks may be open during a load, but not during an unload.
//!
//! The interlock does not know of an undeclared wait (`Join`), inside a permit block or outside. It cannot see
//! a cycle through such a wait; only a time limit ends it (scenario `undeclared-through-a-permit`).
//!
//! # Checking it
//! Owners run small programs ([`script`]), and [`scenarios`] combine them. [`properties`] lists what holds in
//! every state (INV-ILK-…), and in every step and in the end (PROP-ILK-…). [`check`](crate::check) visits every
//! interleaving. Beside the scenarios, tests explore any three of [`programs`](scenarios::programs), and any
//! child with any parent. [`defects`] finds each defect's counterexample, and [`story`] writes it down.
//!
//! # What is not promised
//! The machine has no queue. While others load or unload for ever, three kinds of owners may starve:
//!
//! * a newcomer;
//! * an owner that wants to end a permit block. Its guard comes and goes, so weak fairness does not help;
//! * a request beside an endless stream of loads by owners outside any execution.
//!
//! `tests/interlock.rs` shows all three. The library has queues, and none of these starve there: the end of a permit
//! block has its turn between two holders, and newcomers and owners outside executions are served in the
//! order of their arrival. In this machine's terms, a request in that queue is made once the newcomers before it
//! have entered.
//!
//! [`diagrams`](crate::diagrams) draws the life of an owner.
//!
//! # Origin
//! Section 5 of the guide *Threading and Code Execution in Rails* describes this interlock. Rails v8.0.0 implements
//! it, with the five defects in [`rules`].

pub mod defects;
pub mod guards;
pub mod properties;
pub mod rules;
pub mod scenarios;
pub mod script;
pub mod state;
pub mod story;
pub mod transitions;
