//! The ApplicationPool algorithm as a pure state machine.

pub mod capacity;
pub mod checker;
pub mod checkout;
pub mod cleaner;
pub mod configuration;
pub mod configurations;
pub mod detach;
pub mod errata;
pub mod exploration;
pub mod fairness;
pub mod get;
pub mod invariants;
pub mod machine;
pub mod mutators;
pub mod normal;
pub mod pool;
pub mod properties;
pub mod restart;
pub mod rules;
pub mod session;
pub mod spawning;
pub mod story;
