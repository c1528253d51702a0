//! The directories in which the latest processes have started, for the people who look.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The directories of each group that starts processes.
#[derive(Debug, Default)]
pub(crate) struct ReleaseDirs(Mutex<HashMap<String, Dirs>>);

#[derive(Debug, Default)]
struct Dirs {
    /// The directory of the latest process that became ready.
    serving: Option<PathBuf>,
    /// The directory of the next process.
    next: Option<PathBuf>,
}

impl ReleaseDirs {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Dirs>> {
        // Code under this lock does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the directory in which processes start from now on.
    pub(crate) fn note_next(&self, group: &str, dir: &Path) {
        self.lock().entry(group.into()).or_default().next = Some(dir.into());
    }

    /// Notes the directory of a process that has become ready.
    pub(crate) fn note_serving(&self, group: &str, dir: &Path) {
        self.lock().entry(group.into()).or_default().serving = Some(dir.into());
    }

    /// Returns the directory of the group's latest process that became ready.
    pub(crate) fn serving(&self, group: &str) -> Option<PathBuf> {
        self.lock().get(group).and_then(|dirs| dirs.serving.clone())
    }

    /// Returns the directory of the group's next process, if it is another one.
    pub(crate) fn next(&self, group: &str) -> Option<PathBuf> {
        let all = self.lock();
        let dirs = all.get(group)?;
        dirs.next.clone().filter(|next| dirs.serving.as_ref() != Some(next))
    }
}
