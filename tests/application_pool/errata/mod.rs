//! Each erratum of the pseudocode that can be seen through the public API (E1 to E40), as ruled. A
//! comment beside `#[test]` names the erratum.

mod capacity;
mod closing;
mod detaching;
mod idling;
mod policy;
mod queueing;
mod restarting;
mod rolling;
mod sessions;
