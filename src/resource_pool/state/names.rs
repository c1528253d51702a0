//! The keys of resources and of the pool's keys, and the user's metadata.

use crate::kernel::collections::arena::Key;
use crate::kernel::user_code::UserValue;
use crate::resource_pool::api::factory::Form;
use std::sync::Arc;

/// The user's metadata, shared. A panic of its drop is contained.
pub(crate) type Shared<T> = Arc<UserValue<T>>;

/// The metadata of a key; in a pool without keys, of all resources.
pub(crate) type Meta<F> = Shared<<F as Form>::Metadata>;

/// Names the resources in the types of their keys.
#[derive(Debug)]
pub(crate) enum Slots {}

/// The key of a resource.
pub(crate) type SlotKey = Key<Slots>;

/// Names the keys of the pool in the types of their keys.
#[derive(Debug)]
pub(crate) enum Subs {}

/// The key of the entry of a key.
pub(crate) type SubKey = Key<Subs>;
