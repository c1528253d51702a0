//! What the originals' own test suites check, scenario by scenario, in the numbering of
//! `tests/README.md`: O for the application pool, F for the checker of restart files.
//!
//! Where a ruling changes the outcome, the test follows the ruling and says which.

mod limits;
mod restart_files;
mod restarts;
mod sessions;
mod status;
