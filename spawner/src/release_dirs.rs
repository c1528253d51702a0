//! The directories in which the latest processes have started, for the people who look.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A directory for each group that has started a process.
#[derive(Debug, Default)]
pub(crate) struct ReleaseDirs(Mutex<HashMap<String, PathBuf>>);

impl ReleaseDirs {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, PathBuf>> {
        // Code under this lock does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the directory of a process that starts.
    pub(crate) fn note(&self, group: &str, dir: &Path) {
        self.lock().insert(group.into(), dir.into());
    }

    /// Returns the directory of the group's latest process.
    pub(crate) fn of(&self, group: &str) -> Option<PathBuf> {
        self.lock().get(group).cloned()
    }
}
