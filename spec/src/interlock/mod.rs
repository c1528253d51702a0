//! The load interlock as a pure state machine.

pub mod exploration;
pub mod guards;
pub mod properties;
pub mod rules;
pub mod scenarios;
pub mod script;
pub mod state;
pub mod transitions;
