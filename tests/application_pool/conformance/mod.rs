//! The scenarios of Passenger's own suite: its pool, and its checker of restart files.
//!
//! Where a ruling changes the outcome, the test follows the ruling and names the erratum.

mod limits;
mod restart_files;
mod restarts;
mod sessions;
mod status;
