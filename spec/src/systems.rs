//! The systems of this crate, as the command line knows them.

use crate::application_pool::system::ApplicationPool;
use crate::checking::system::Commands;
use crate::interlock::system::LoadInterlock;
use crate::kept::system::KeptSessions;
use crate::resource_pool::system::ResourcePools;

/// All systems.
pub const ALL: [&dyn Commands; 4] =
    [&ApplicationPool, &LoadInterlock, &ResourcePools, &KeptSessions];
