//! The owner of an application as the user of its processes (`--user-by-owner`).

use crate::failure::Failure;
use crate::listen::place::{MAX_LINKS, STICKY, names};
use cabrank_spawner::User;
use cabrank_spawner::app_type::{App, Launch};
use std::fs::Metadata;
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
    let (path, owner) = place(app).map_err(Failure::usage)?;
    let place = path.display();
    let user = User::with_number(owner);
    check_place(app, &app.root, owner, user.as_ref()).map_err(Failure::usage)?;
    if owner == 0 {
        return Err(Failure::usage(unusable(format!("{place} belongs to root"))));
    }
    let unknown =
        || unusable(format!("{place} belongs to {owner}, and this system has no such user"));
    user.ok_or_else(|| Failure::usage(unknown())).map(Some)
}

/// Fails if another user than root and this one may change the application, or the way to it by `path`. The application would run as
/// this user.
pub(crate) fn check(path: &Path, app: &App, user: &User) -> Result<(), String> {
    place(app)?;
    check_place(app, path, user.uid, Some(user))
}

/// Returns a remark if another release does not belong to the user of the former one. A restart changes no user.
pub(crate) fn differs(app: &App, user: &User) -> Option<String> {
    // A release without such a place does not start.
    let (path, owner) = place(app).ok().filter(|(_, owner)| *owner != user.uid)?;
    let owner = User::with_number(owner).map_or_else(|| owner.to_string(), |owner| owner.name);
    Some(format!(
        "--user-by-owner: {} belongs to {owner}. A restart does not change the user: until the server starts again, it runs as {}.",
        path.display(),
        user.name
    ))
}

/// Returns the startup file, or the directory of an application without one, and the number of its owner.
fn place(app: &App) -> Result<(PathBuf, u32), String> {
    let look = |path: &Path, e| unusable(format!("cannot look at {}: {e}", path.display()));
    match startup_file(app) {
        None => match app.root.metadata() {
            Ok(facts) => Ok((app.root.clone(), facts.uid())),
            Err(e) => Err(look(&app.root, e)),
        },
        Some(path) => match path.symlink_metadata() {
            Ok(facts) if facts.is_file() => Ok((path, facts.uid())),
            Ok(_) => Err(unusable(format!("{} is a link", path.display()))),
            Err(e) => Err(look(&path, e)),
        },
    }
}

/// Fails if another user than root and the owner may change the startup file, its directory, the application's directory, or a
/// directory or link on the way there by `path`.
fn check_place(app: &App, path: &Path, owner: u32, user: Option<&User>) -> Result<(), String> {
    let look = |at: &Path, e| unusable(format!("cannot look at {}: {e}", at.display()));
    let file = startup_file(app);
    let below = file.as_ref().and_then(|file| file.parent()).filter(|dir| *dir != app.root);
    // The path leads to a release anew for each process.
    for directory in [Some(path), Some(&*app.root), below].into_iter().flatten() {
        check_way(directory, owner, user).map_err(|e| look(directory, e))??;
    }
    let Some(file) = file else { return Ok(()) };
    let facts = file.symlink_metadata().map_err(|e| look(&file, e))?;
    check_mode(&file, &facts, user)
}

/// Returns a problem, with the remedy.
fn unusable(problem: String) -> String {
    format!("--user-by-owner: {problem}. Change that, or name a user with --user.")
}

/// Checks each directory and link on the way to a directory.
///
/// It looks at one name after the other. As long as only root and the owner may change the way, nothing changes between the looks.
fn check_way(directory: &Path, owner: u32, user: Option<&User>) -> io::Result<Result<(), String>> {
    let foreign = |at: &Path, uid: u32| {
        let name = |uid| User::with_number(uid).map_or_else(|| format!("{uid}"), |user| user.name);
        let (at, other, owner) = (at.display(), name(uid), name(owner));
        unusable(format!(
            "{at} belongs to {other}, and to neither root nor {owner}, so another user may put another application there"
        ))
    };
    let mut at = PathBuf::from("/");
    let mut left = names(&std::path::absolute(directory)?);
    let mut links = 0;
    loop {
        let facts = at.metadata()?;
        if facts.uid() != owner && facts.uid() != 0 {
            return Ok(Err(foreign(&at, facts.uid())));
        }
        // With the sticky bit, only the owner of a name changes it. In the last directory, anyone could add a link to the file.
        if (facts.mode() & STICKY == 0 || left.is_empty())
            && let Err(shared) = check_mode(&at, &facts, user)
        {
            return Ok(Err(shared));
        }
        let Some(name) = left.pop_front() else { return Ok(Ok(())) };
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
            return Ok(Err(foreign(&next, facts.uid())));
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

/// Fails if others may write to a file or directory, or a group: the system cannot say which users have it as their first group.
fn check_mode(at: &Path, facts: &Metadata, user: Option<&User>) -> Result<(), String> {
    let mode = facts.mode();
    // With an access control list, the bits of the group are the most that any entry has.
    let change = match (mode & 0o020 != 0, mode & 0o002 != 0) {
        (false, false) => return Ok(()),
        (true, false) => "g-w",
        (false, true) => "o-w",
        (true, true) => "go-w",
    };
    let (at, mode) = (at.display(), mode & 0o7777);
    let users = user
        .filter(|user| user.uid != 0)
        .map_or(String::new(), |user| format!(" and {}", user.name));
    Err(format!(
        "--user-by-owner: {at} has the mode {mode:o}, so another user than root{users} may put another application there. \
         Change that (`chmod {change} {at}`), or name a user with --user."
    ))
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
