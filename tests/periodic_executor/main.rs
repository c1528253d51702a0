//! The periodic executor, thread and task: what the original's own suite checks (Q1 to Q11), and what it
//! does not (reopening, wakes during a call, the minimum interval, shutdowns). Time is moved by hand.

#[path = "../common/mod.rs"]
mod common;

mod both;
mod by_hand;
mod clients;
mod ends;
mod flavours;
mod joining;
