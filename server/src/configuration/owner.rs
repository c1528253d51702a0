//! The owner of an application as the user of its processes (`--user-by-owner`).

use crate::failure::Failure;
use crate::listen::place::{MAX_LINKS, STICKY, names};
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
/// The owner is root, or is unknown to this system. Or another user may change the path: that user's code would run as the owner.
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
    let facts = match path == app.root {
        true => app.root.metadata(),
        false => path.symlink_metadata(),
    };
    let facts = facts.map_err(look)?;
    if !facts.is_file() && path != app.root {
        return Err(unusable(format!("{place} is a link")));
    }
    let owner = facts.uid();
    // The path leads to a release anew for each process.
    let last = if path == app.root { &app.root } else { path.parent().unwrap_or(&app.root) };
    if let Some(changeable) = changeable_by_others(last, owner).map_err(look)? {
        let changeable = changeable.display();
        return Err(unusable(format!(
            "{changeable} belongs to neither root alone nor the owner of {place}, so another user may put another application there"
        )));
    }
    if owner == 0 {
        return Err(unusable(format!("{place} belongs to root")));
    }
    let unknown =
        || unusable(format!("{place} belongs to {owner}, and this system has no such user"));
    User::with_number(owner).ok_or_else(unknown).map(Some)
}

/// Returns a remark if another release does not belong to the user of the former one. A restart changes no user.
pub(crate) fn differs(app: &App, user: &User) -> Option<String> {
    let problem = match of(app) {
        Ok(Some(owner)) if owner.uid == user.uid => return None,
        Ok(owner) => {
            let owner = owner.map_or_else(|| "another user".into(), |owner| owner.name);
            format!("--user-by-owner: {} belongs to {owner}.", app.root.display())
        }
        Err(failure) => failure.message,
    };
    Some(format!(
        "{problem} A restart does not change the user: until the server starts again, it runs as {}.",
        user.name
    ))
}

/// Returns the first directory or link, on the way to a directory, that another user than root and the owner may change.
///
/// It looks at one name after the other. As long as only root and the owner may change the way, nothing changes between the looks.
fn changeable_by_others(directory: &Path, owner: u32) -> io::Result<Option<PathBuf>> {
    let mut at = PathBuf::from("/");
    let mut left = names(&std::path::absolute(directory)?);
    let mut links = 0;
    loop {
        let facts = at.metadata()?;
        // With the sticky bit, only the owner of a name changes it. In the last directory, anyone could add a link to the file.
        let is_shared =
            facts.mode() & 0o022 != 0 && (facts.mode() & STICKY == 0 || left.is_empty());
        if facts.uid() != owner && (facts.uid() != 0 || is_shared) {
            return Ok(Some(at));
        }
        let Some(name) = left.pop_front() else { return Ok(None) };
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(name);
        let facts = next.symlink_metadata()?;
        if !facts.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("the path has too many links"));
        }
        if facts.uid() != owner && facts.uid() != 0 {
            return Ok(Some(next));
        }
        let target = next.read_link()?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            left.push_front(name);
        }
    }
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
