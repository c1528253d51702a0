//! A request without its protocol: [`head`] and [`fields`], [`host`], [`origin`], and the `body`, in memory or in a file
//! (`spool`). [`framing`] and [`chunked`] find the ends of bodies, in both directions.

pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod host;
pub(crate) mod networks;
pub(crate) mod origin;
pub(crate) mod spool;
