//! The owner of an application as the user of its processes (`--user-by-owner`).

use crate::failure::Failure;
use cabrank_spawner::User;
use cabrank_spawner::app_type::{App, Launch};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the owner of the startup file, or of the directory of an application without one. `None`: the server's own user.
///
/// A server that is not root's cannot change its user, and starts the application as its own.
///
/// # Errors
/// The owner is root, or is unknown to this system. Or another user could have put the file there, by a link: that user's code
/// would run as the owner.
pub(crate) fn of(app: &App) -> Result<Option<User>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let path = startup_file(app).unwrap_or_else(|| app.root.clone());
    let place = path.display();
    let unusable = |problem: String| {
        let remedy = "Change that, or name a user with --user.";
        Failure::usage(format!("--user-by-owner: {problem}. {remedy}"))
    };
    let look = |e: io::Error| unusable(format!("cannot look at {place}: {e}"));
    let owner = match path == app.root {
        true => app.root.metadata().map_err(look)?.uid(),
        false => {
            let facts = path.symlink_metadata().map_err(look)?;
            if !facts.is_file() {
                return Err(unusable(format!("{place} is a link")));
            }
            // In each of these directories another user could have put a link to a file of the owner.
            let directories = path.ancestors().skip(1).enumerate();
            let is_near = |(i, dir): &(usize, &Path)| *i == 0 || dir.starts_with(&app.root);
            for (_, dir) in directories.take_while(is_near) {
                let directory = dir.metadata().map_err(look)?;
                let is_of_root = directory.uid() == 0 && directory.mode() & 0o022 == 0;
                if directory.uid() != facts.uid() && !is_of_root {
                    let dir = dir.display();
                    return Err(unusable(format!(
                        "{place} and its directory {dir} have different owners"
                    )));
                }
            }
            facts.uid()
        }
    };
    if owner == 0 {
        return Err(unusable(format!("{place} belongs to root")));
    }
    let unknown =
        || unusable(format!("{place} belongs to {owner}, and this system has no such user"));
    User::with_number(owner).ok_or_else(unknown).map(Some)
}

fn startup_file(app: &App) -> Option<PathBuf> {
    let name = match &app.launch {
        Launch::Loader { startup_file, .. } => startup_file,
        Launch::Custom(custom) => &custom.startup_file,
        Launch::Command(_) => return None,
    };
    // A module of Python has no such file.
    Some(app.root.join(name)).filter(|path| path.symlink_metadata().is_ok())
}
