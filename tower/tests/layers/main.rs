//! The layers under axum's router and hyper's connections, with streamed bodies, requests that are dropped, and
//! handlers that panic.

#![allow(clippy::unit_arg, reason = "a hook that makes one call returns what that returns")]

mod begin;
mod connections;
mod end;
mod locks;
mod reload;
mod rig;
