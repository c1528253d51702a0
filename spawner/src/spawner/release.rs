//! The release of an application: the directory that its path names at present.
//!
//! A deployment lets a link in the path lead to another release. So the path is resolved for each process. The process gets the
//! directory without links, so that all that it loads later is of its own release, too.
//!
//! A spawn that finds another release than the spawn before begins a restart of the group. So the processes of a group are of one
//! release, except during a restart. A restart also finds the application again: its startup file or its command may
//! be another one. Its type stays as it was: a restart cannot change it.

use super::application::Application;
use crate::app_type::App;
use crate::file_rights::with_rights_of;
use crate::options::Options;
use crate::preloader::Preloading;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A directory that was found by the path of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    /// Without links.
    dir: PathBuf,
    /// Another directory may get the name.
    device: u64,
    inode: u64,
}

impl Release {
    fn at(path: &Path) -> io::Result<Release> {
        let dir = path.canonicalize()?;
        // The handshake has lines of text.
        if dir.to_str().is_none_or(|dir| dir.contains('\n')) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let facts = fs::metadata(&dir)?;
        Ok(Release { dir, device: facts.dev(), inode: facts.ino() })
    }
}

/// The releases of one application, one after the other.
pub(super) struct Releases {
    /// Its application as the program has found it. Its root is the path.
    first: Arc<Application>,
    /// Held without user code and without input or output.
    present: Mutex<Present>,
}

#[derive(Clone)]
struct Present {
    /// `None`: no process has started.
    release: Option<Release>,
    application: Arc<Application>,
}

impl Releases {
    pub(super) fn of(application: Application) -> Releases {
        let first = Arc::new(application);
        let present = Present { release: None, application: Arc::clone(&first) };
        Releases { first, present: Mutex::new(present) }
    }

    /// Returns the application as its latest process has found it.
    pub(super) fn present(&self) -> Arc<Application> {
        Arc::clone(&self.lock().application)
    }

    /// Returns the place of its preloader, if it has one.
    pub(super) fn preloading(&self) -> Option<&Arc<Preloading>> {
        self.first.preloading()
    }

    fn lock(&self) -> MutexGuard<'_, Present> {
        // Code under this lock does not panic.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the release for a new process. Returns whether it is another one than that of the latest process.
    pub(super) fn look(&self) -> bool {
        let former = self.lock().clone();
        let found = match self.found() {
            Ok(found) => found,
            Err(e) => {
                let Options { group_name, app, .. } = &self.first.options;
                tracing::warn!(
                    "{group_name}: cannot find {}: {e}. It starts as before.",
                    app.root.display()
                );
                return false;
            }
        };
        if former.release.as_ref() == Some(&found) {
            return false;
        }
        let is_other = former.release.is_some();
        if is_other {
            let group = &self.first.options.group_name;
            tracing::info!("{group}: its directory is another release: {}", found.dir.display());
            self.reload_preloader();
        }
        // The program has just looked for the first one.
        let app = if is_other { self.find(&found, &former.application) } else { None };
        self.set(found, app, &former.application);
        is_other
    }

    /// Finds release and application again, for the first process after a restart.
    pub(super) fn reload(&self) {
        self.reload_preloader();
        let Ok(found) = self.found() else { return }; // `look` follows, and says so
        let former = self.lock().application.clone();
        let app = self.find(&found, &former);
        self.set(found, app, &former);
    }

    fn found(&self) -> io::Result<Release> {
        let options = &self.first.options;
        // The user may put links on the way to its directory.
        with_rights_of(options.user.as_ref(), || Release::at(&options.app.root))
    }

    /// Ends the preloader, which has loaded the outdated code.
    fn reload_preloader(&self) {
        if let Some(preloading) = self.preloading() {
            preloading.reload();
        }
    }

    /// Finds the application in a release. `None`: it starts as before.
    fn find(&self, release: &Release, former: &Application) -> Option<App> {
        let options = &former.options;
        let finder = options.finder.as_ref()?;
        let dir = release.dir.display();
        let group = &options.group_name;
        // A link may stand in the place of each file.
        let found = with_rights_of(options.user.as_ref(), || Ok(finder.find(&release.dir)));
        match found {
            Err(e) => tracing::warn!("{group}: cannot look for the application in {dir}: {e}."),
            Ok(Err(e)) => tracing::warn!("{group}: {} It starts as before.", e.message()),
            Ok(Ok(app)) if app.type_name != options.app.type_name => tracing::warn!(
                "{group}: {dir} is an application of the type {}, which a restart cannot change: start the server again. \
                 Until then it starts as one of the type {}.",
                app.type_name,
                options.app.type_name,
            ),
            Ok(Ok(app)) => {
                if app.launch != options.app.launch {
                    tracing::info!("{group}: starts by {} now", app.start_line());
                }
                if let Some(remark) = app.remark.as_ref()
                    && app.remark != options.app.remark
                {
                    tracing::warn!("{group}: {remark}");
                }
                return Some(app);
            }
        }
        None
    }

    fn set(&self, release: Release, app: Option<App>, former: &Application) {
        let app = app.unwrap_or_else(|| former.options.app.clone());
        let application = Arc::new(former.with_app(App { root: release.dir.clone(), ..app }));
        self.first.shared.release_dirs.note_next(&self.first.options.group_name, &release.dir);
        let present = Present { release: Some(release), application };
        // An application has code of the program, its finder: it is dropped behind the lock.
        let outdated = std::mem::replace(&mut *self.lock(), present);
        drop(outdated);
    }
}
