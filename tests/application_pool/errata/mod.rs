//! Every erratum of the algorithm's text that can be seen through the public API, as it is ruled: E1 to
//! E34, in the numbering of `tests/README.md`.

mod capacity;
mod closing;
mod detaching;
mod idling;
mod policy;
mod queueing;
mod restarting;
mod rolling;
mod sessions;
