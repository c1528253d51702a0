//! A request without its protocol.
//!
//! It has a [`head`] with [`fields`], some of which may be [`repeats`], a [`host`], an [`origin`], and a `body`, in memory or in a file (`spool`). The
//! [`networks`] of trusted proxies, and the [`trust`] in the loopback, decide which origin the server believes. [`framing`] and [`chunked`] find the ends of
//! bodies, in both directions. [`numbers`] writes numbers and addresses.

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod host;
pub(crate) mod mount;
pub(crate) mod networks;
pub(crate) mod numbers;
pub(crate) mod origin;
pub(crate) mod peer;
pub(crate) mod repeats;
pub(crate) mod spool;
pub(crate) mod target;
pub(crate) mod trust;
