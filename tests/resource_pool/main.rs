//! The resource pool: its conformance to the source's tests (L1 to L34), the sixteen rulings, and the
//! failures seen in other pools.

mod common;
mod smoke;
