//! The types and functions of the pool that users call and get.

mod build;
pub(crate) mod build_error;
pub(crate) mod builder;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod factory;
pub(crate) mod guard;
mod keyed;
#[cfg(doctest)]
mod misuse;
pub(crate) mod pool;
mod set_limits;
pub(crate) mod shortage;
pub(crate) mod snapshot;
mod unkeyed;

pub use super::state::options::{LendOrder, WhenExhausted};
pub use build_error::BuildError;
pub use builder::Builder;
pub use error::{AddError, BorrowError, Failure};
pub use event::Event;
pub use factory::{Async, AsyncResourceFactory, Form, ResourceFactory};
pub use guard::Borrowed;
pub use pool::{
    AsyncResourcePool, Keyed, KeyedResourcePool, Pool, ResourcePool, Unkeyed,
    WeakKeyedResourcePool, WeakPool, WeakResourcePool,
};
pub use shortage::{LastFailure, Shortage};
pub use snapshot::{KeySnapshot, ResourceSnapshot, ResourceState, Snapshot};
