//! Restart files in memory, and directories of real ones.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The answers to look-ups of files. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    entries: HashMap<PathBuf, Result<SystemTime, ErrorKind>>,
    seconds: u64,
    look_ups: Vec<PathBuf>,
}

impl Files {
    pub(crate) fn look_up(
        &self,
    ) -> impl Fn(&Path) -> io::Result<SystemTime> + Send + Sync + 'static {
        let files = self.clone();
        move |path| {
            let mut table = files.0.lock().expect("no panic under this lock");
            table.look_ups.push(path.to_owned());
            let entry = table.entries.get(path).copied();
            entry.unwrap_or(Err(ErrorKind::NotFound)).map_err(io::Error::from)
        }
    }
    /// Gives the file a time that it never had before.
    pub(crate) fn touch(&self, path: &Path) {
        let mut table = self.0.lock().expect("no panic under this lock");
        table.seconds += 1;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(table.seconds);
        table.entries.insert(path.to_owned(), Ok(time));
    }
    pub(crate) fn remove(&self, path: &Path) {
        self.0.lock().expect("no panic under this lock").entries.remove(path);
    }
    /// Makes look-ups of the file fail. Returns its former entry.
    pub(crate) fn deny(&self, path: &Path) -> Option<Result<SystemTime, ErrorKind>> {
        let mut table = self.0.lock().expect("no panic under this lock");
        table.entries.insert(path.to_owned(), Err(ErrorKind::PermissionDenied))
    }
    /// Restores the file's former entry.
    pub(crate) fn allow(&self, path: &Path, before: Option<Result<SystemTime, ErrorKind>>) {
        let mut table = self.0.lock().expect("no panic under this lock");
        match before {
            Some(entry) => table.entries.insert(path.to_owned(), entry),
            None => table.entries.remove(path),
        };
    }
    pub(crate) fn exists(&self, path: &Path) -> bool {
        let table = self.0.lock().expect("no panic under this lock");
        matches!(table.entries.get(path), Some(Ok(_)))
    }
    /// Returns the look-ups since the last call.
    pub(crate) fn take_look_ups(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().expect("no panic under this lock").look_ups)
    }
}

/// A real application root with a `tmp` in it, removed at the end of the test.
pub(crate) struct AppDir(PathBuf);

impl AppDir {
    pub(crate) fn new() -> AppDir {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let name = format!("cabrank-test-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(root.join("tmp")).expect("a directory for temporary files");
        AppDir(root)
    }
    pub(crate) fn root(&self) -> &Path {
        &self.0
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    pub(crate) fn create(&self, name: &str) {
        File::create(self.path(name)).expect("a file");
    }
    pub(crate) fn create_dir(&self, name: &str) {
        std::fs::create_dir(self.path(name)).expect("a directory");
    }
    /// Sets the time of modification, so that a test need not wait for a new one.
    pub(crate) fn set_modified(&self, name: &str, seconds: u64) {
        let file = File::open(self.path(name)).expect("it is there");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
        file.set_modified(time).expect("it is ours");
    }
}

impl Drop for AppDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The look-up for real files that the documentation suggests.
pub(crate) fn stat(path: &Path) -> io::Result<SystemTime> {
    path.metadata()?.modified()
}
