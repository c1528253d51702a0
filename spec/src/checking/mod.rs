//! The checker, which all machines share: it explores a machine, and compares it with its promises.
//!
//! - [`machine`] says what a machine is, and [`search`] visits its states. [`key`] remembers them.
//! - [`fairness`] searches the visited space for broken liveness properties.
//! - [`check`] compares a machine with its promises, and counts its states.
//! - [`switches`] makes rules with a switch for each defect and each planted fault.

pub mod check;
pub mod fairness;
pub mod key;
pub mod machine;
pub mod search;
pub mod switches;
