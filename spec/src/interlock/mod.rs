//! The load interlock as a pure state machine: who may run, load and unload, and when.
//!
//! Application code *runs* with a share. Whoever wants to *load* or *unload* wants to be alone: it asks for the
//! lock, gives up its shares, and waits until all others have given up theirs and let it in. A *permit* block
//! is where an owner that waits for something else lets others load meanwhile. The guide *Threading and Code
//! Execution in Rails* describes it (its section 5); Rails v8.0.0 carries it out, with five defects,
//! PermitErased to LeakedShare ([`rules`]). Each is a switch: the machine runs *as mended*, *as in Rails*, or
//! as mended but for one.
//!
//! # The state
//! One lock, no clock, no thread: an [`Interlock`](state::Interlock) is a value. Each owner has `shares`; a
//! stack of `frames`, one for each wait and each permit block that it is in, which keeps what is put back
//! afterwards; and an `entry`, which says whom it lets in meanwhile. What it is doing follows from these:
//!
//! | mode | it has |
//! |---|---|
//! | Out | nothing |
//! | Running n | n shares |
//! | Waiting p | given up its shares, and asks for the lock |
//! | Holding p d | the lock, d times over |
//! | Yielded | given up its shares in a permit block |
//! | Draining | released the lock, and lets others of its kind go first: who load in turn resume together |
//! | Resuming | given up waiting, and needs its shares back |
//!
//! # The guards
//! * X(o, p): nobody else holds or has shares, and all other entries let p in.
//! * N(o): nobody holds, and all other entries let newcomers in.
//! * C(o): nobody else holds.
//! * E(after): somebody waits for one of these, and all others let it in.
//!
//! They are functions of these names in [`guards`], and the rows of the table are those of [`transitions`].
//!
//! # Whom an owner lets in
//!
//! | while it | loads | unloads | newcomers |
//! |---|---|---|---|
//! | waits to load, having had shares | yes | | |
//! | waits to unload, having had shares | yes | yes | |
//! | waits without having had shares | yes | yes | |
//! | permits | yes | | yes |
//! | drains after a load | yes | | |
//! | drains after an unload | yes | yes | |
//!
//! and never a load or an unload that an outer permit block keeps out. A child of a live execution is no
//! newcomer: it waits for the holder only.
//!
//! # Who is told what
//! * A request, an entry or a told wait that closes a circle: `Deadlock`. Everybody waits for all that is in
//!   its way, so a circle is a deadlock and nothing else is one; and it is closed by somebody's beginning to
//!   wait ([`waits_for_itself`](state::Interlock::waits_for_itself)). A test looks at what would follow each time.
//! * Whoever holds the lock and waits for a child, and says so: `Holding`. The child might have a permit block
//!   to end, and that cannot be refused. So a holder waits for nothing, and C comes.
//! * A child that asks for an unload while an ancestor is in an execution: `Child`.
//! * An unload inside a load: `InsideLoad`. A load lets permit blocks be, which an unload must not.
//!
//! Who waits and says so to nobody (`Join`), in a permit block or not, is not known to wait: a circle through
//! it is not seen, and only a time limit ends it (`untold-through-a-permit`).
//!
//! # Checking it
//! Owners run small programs ([`script`]); [`scenarios`] are who meets whom; [`properties`] has what holds in
//! every state (INV-ILK-ONE-HOLDER to INV-ILK-ENTRY), in every step (PROP-ILK-USE-UNDER-SHARE,
//! PROP-ILK-NO-LOST-WAKE-UP and others) and in the end; [`exploration`] looks at
//! every interleaving. Beside the scenarios any three of [`programs`](scenarios::programs) meet, and any child
//! with any parent. [`defects`] has each defect's counterexample, and [`story`] tells it.
//!
//! # What is not promised
//! Of whoever wants to enter, and of whoever wants to end a permit block, nothing is promised while others load
//! or unload for ever: there is no queue. Weak fairness does not help them, for their guard comes and
//! goes. Nor is anything promised of a request beside an endless stream of loads by owners that are in no
//! execution. `tests/interlock.rs` shows all three. The library has queues, and promises all three:
//! whoever ends a permit block has its turn between two holders, and newcomers and owners that are in no
//! execution have theirs in the order in which they came. A request that stands in that line is
//! made, in this machine's terms, when those before it have entered.
//!
//! What an owner goes through is drawn in [`diagrams`](crate::diagrams).

pub mod defects;
pub mod exploration;
pub mod guards;
pub mod properties;
pub mod rules;
pub mod scenarios;
pub mod script;
pub mod state;
pub mod story;
pub mod transitions;
