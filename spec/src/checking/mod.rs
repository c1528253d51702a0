//! The checker, which all machines share: it explores a machine, and compares it with its promises.
//!
//! - [`machine`] says what a machine is, and [`search`] visits its states. [`key`] remembers them.
//! - [`fairness`] searches the visited space for broken liveness properties.
//! - [`promises`] says what a machine promises. [`check`] compares the two, and counts the states.
//! - [`story`] tells a counterexample, step by step.
//! - [`switches`] makes rules with a switch for each defect and each planted fault. [`defects`] shows what each breaks.
//! - [`system`] has what the command line does with a machine, and [`table`] prints the counts.
//! - With the feature `explore`, `explorer` hands a machine to stateright.

pub mod check;
pub mod defects;
#[cfg(feature = "explore")]
pub mod explorer;
pub mod fairness;
pub mod key;
pub mod machine;
pub mod promises;
pub mod search;
pub mod story;
pub mod switches;
pub mod system;
pub mod table;
