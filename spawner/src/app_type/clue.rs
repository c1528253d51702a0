//! The signs by which a directory shows the type of its application.

use super::package_json::Package;
use super::{procfile, text_file};
use std::fmt;
use std::path::Path;

/// One sign of an application of some type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clue {
    /// A file or directory that only applications of this type have. It is the startup file.
    File(&'static str),
    /// A file that other programs have, too. It is the startup file.
    CommonFile(&'static str),
    /// A `package.json` whose script `start` is `node FILE`, with variables, options and arguments around it.
    PackageStart,
    /// A `package.json` whose `main` names a file.
    PackageMain,
    /// A `Procfile` with a line `web`.
    Procfile,
}

/// How certainly a clue identifies the type. A type counts only if no other one has stronger evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Applications of every type may have it.
    Faint,
    /// Other programs have it, too.
    Weak,
    /// Only applications of this type have it.
    Strong,
}

impl Clue {
    pub(super) fn evidence(self) -> Evidence {
        match self {
            Clue::File(_) => Evidence::Strong,
            Clue::CommonFile(_) | Clue::PackageStart | Clue::PackageMain => Evidence::Weak,
            Clue::Procfile => Evidence::Faint,
        }
    }

    /// Returns the startup file, relative to `root`, if the directory has this sign.
    pub(super) fn startup_file(self, root: &Path) -> Option<String> {
        match self {
            Clue::File(file) | Clue::CommonFile(file) => {
                text_file::exists(&root.join(file)).then(|| file.to_owned())
            }
            Clue::PackageStart => Package::read(root).ok()?.start_file(root),
            Clue::PackageMain => Package::read(root).ok()?.main_file(root),
            Clue::Procfile => procfile::web(root).ok().map(|_| procfile::NAME.to_owned()),
        }
    }

    /// Returns advice about a sign that the directory almost has.
    pub(super) fn near_miss(self, root: &Path) -> Option<String> {
        match self {
            Clue::PackageStart => match Package::read(root) {
                Ok(package) => package.start_of_another_kind(root),
                Err(problem) => problem,
            },
            Clue::Procfile => procfile::web(root).err().flatten(),
            _ => None,
        }
    }
}

impl fmt::Display for Clue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clue::File(file) | Clue::CommonFile(file) => file,
            Clue::PackageStart => "package.json with \"start\": \"node FILE\"",
            Clue::PackageMain => "package.json with \"main\"",
            Clue::Procfile => "Procfile with `web:`",
        })
    }
}
