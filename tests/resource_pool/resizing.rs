//! Every limit can be changed at any time: what is too much leaves, and who can be served is.

use crate::common::{Pool, keyed, pool};
use cabrank::resource_pool::{BorrowError, Limit};
