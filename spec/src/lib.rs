//! cabrank's algorithms as pure state machines: executable documentation.
//!
//! A machine says what an algorithm does in a form that can be run and searched, without threads, clocks or I/O. Its
//! state is a plain value, and each of its actions is one critical section.
//!
//! | machine | decides |
//! |---|---|
//! | [`application_pool`] | which get is given which process; the pseudocode of Phusion Passenger 3.0.5 |
//! | [`interlock`] | which owner may run, load and unload application code |
//! | [`resource_pool`] | which borrower gets which resource |
//! | [`kept`] | whose bytes an application reads, and whose bytes a client gets |
//!
//! # Checking them
//! [`checking`] explores a machine to the last state, and compares it with its promises. [`diagrams`] draws the machines.
//!
//! # As an oracle
//! The machines are deterministic: each action has one outcome. A test can drive a machine beside the real code and
//! compare the two. [`application_pool`] and [`resource_pool`] have an example.

pub mod application_pool;
mod chart;
pub mod checking;
pub mod diagrams;
pub mod interlock;
pub mod kept;
pub mod resource_pool;
pub mod systems;
