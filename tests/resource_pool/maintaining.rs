//! What is due at a time: what leaves, what is tested and what is filled up, and until when it sleeps.

use crate::common::{Pool, keyed, pool};
use crate::shared::task::Task;
use crate::shared::SECOND;
use cabrank::resource_pool::{BorrowError, Borrowed, Limit, ResourceState};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
