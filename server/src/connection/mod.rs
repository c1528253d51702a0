//! A client's connection. One task does everything for it, and stays on one core.
//!
//! - [`serve`] is its life: it waits, and serves the [`requests`] that have arrived, for whose heads it waits in [`reading`];
//! - [`watched`] has its [`stream`], and the watch over its end;
//! - [`core`] has the data of one core: the [`sweep`] of time-outs, and recycled buffers ([`input`]);
//! - [`pace`] limits how slow a client may be.

pub(crate) mod core;
pub(crate) mod input;
pub(crate) mod pace;
pub(crate) mod reading;
pub(crate) mod requests;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod sweep;
pub(crate) mod watched;
