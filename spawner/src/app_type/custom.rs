//! Types that the user of the server defines, with a loader of their own.

use super::{App, CustomLoader, Launch, REGISTRY, text_file};
use crate::handshake::Protocol;
use std::path::{Component, Path, PathBuf};

/// A type of applications beside those of the [registry](super::REGISTRY).
///
/// Paths are absolute, or relative to the application's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomType {
    /// The name that `--app-type` takes.
    pub name: String,
    /// The file that identifies such an application, and that the loader loads.
    pub startup_file: String,
    /// The program that loads applications.
    pub loader: PathBuf,
    /// The program that runs the loader and the preloader; `None`: they are executable.
    pub interpreter: Option<PathBuf>,
    /// The program that loads an application once, and forks its processes.
    pub preloader: Option<PathBuf>,
    /// The beginning of the process title; `None`: the name.
    pub title: Option<String>,
    /// The protocol of the socket `main`; `None`: the loader's word counts.
    pub protocol: Option<Protocol>,
    /// The number of simultaneous sessions of a process, 0 being any number; `None`: the loader's word counts.
    pub concurrency: Option<usize>,
}

/// An error in the definition of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidType {
    /// The field at fault.
    pub key: &'static str,
    /// The problem, and the remedy.
    pub problem: String,
}

impl CustomType {
    /// Checks the definition for applications in `root`.
    ///
    /// # Errors
    /// A value cannot be used, or a program does not exist.
    pub fn check(&self, root: &Path) -> Result<(), InvalidType> {
        self.check_name()?;
        let startup_file = Path::new(&self.startup_file);
        let is_below = startup_file.components().all(|c| matches!(c, Component::Normal(_)));
        if self.startup_file.is_empty() || !is_below || self.startup_file.contains('\n') {
            let problem = "must be the name of a file in the application's directory".into();
            return Err(InvalidType { key: "startup_file", problem });
        }
        self.check_program("loader", root, &self.loader)?;
        if let Some(preloader) = &self.preloader {
            self.check_program("preloader", root, preloader)?;
        }
        if self.title.as_deref().is_some_and(|title| title.is_empty() || title.contains('\n')) {
            let problem = "must be text without a line break".into();
            return Err(InvalidType { key: "title", problem });
        }
        if self.protocol.is_some_and(|protocol| !protocol.may_be_main()) {
            let names = Protocol::names_of_main().join(" or ");
            let problem = format!("must be {names}, because the socket `main` has it");
            return Err(InvalidType { key: "protocol", problem });
        }
        Ok(())
    }

    fn check_name(&self) -> Result<(), InvalidType> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let problem = if REGISTRY.iter().any(|known| known.name == self.name) {
            "is the name of a built-in type. Choose another name"
        } else if self.name.is_empty() || !self.name.chars().all(is_plain) {
            "must be letters, digits, `-` and `_`"
        } else {
            return Ok(());
        };
        Err(InvalidType { key: "name", problem: problem.into() })
    }

    fn check_program(
        &self,
        key: &'static str,
        root: &Path,
        program: &Path,
    ) -> Result<(), InvalidType> {
        let path = root.join(program);
        let problem = if !text_file::is_file(&path) {
            format!("the file {} does not exist. Create it, or correct the path", path.display())
        } else if self.interpreter.is_none() && !text_file::is_executable(&path) {
            format!(
                "the file {} is not executable. Run `chmod +x` on it, or name its interpreter",
                path.display()
            )
        } else {
            return Ok(());
        };
        Err(InvalidType { key, problem })
    }

    /// Returns the application of this type in `root`.
    pub(super) fn app(&self, root: &Path, startup_file: String) -> App {
        App {
            launch: self.launch(root, startup_file),
            root: root.to_owned(),
            type_name: self.name.clone(),
            description: self.name.clone(),
            title: self.title.clone().unwrap_or_else(|| self.name.clone()),
            environment_variables: &[],
            has_threads: false,
            remark: None,
            is_named_by_script: false,
        }
    }

    /// Returns how an application in `root` is launched.
    fn launch(&self, root: &Path, startup_file: String) -> Launch {
        // The `PATH` leads to a plain name.
        let interpreter = self.interpreter.as_ref().map(|program| match program.parent() {
            Some(dir) if dir.as_os_str().is_empty() => program.clone(),
            _ => root.join(program),
        });
        Launch::Custom(CustomLoader {
            loader: root.join(&self.loader),
            preloader: self.preloader.as_ref().map(|preloader| root.join(preloader)),
            interpreter,
            startup_file,
            protocol: self.protocol,
            concurrency: self.concurrency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_key_and_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("loader"), "").unwrap();
        let good = CustomType {
            name: "perl".into(),
            startup_file: "app.pl".into(),
            loader: "loader".into(),
            interpreter: Some("perl".into()),
            ..CustomType::default()
        };
        assert_eq!(good.check(dir.path()), Ok(()));
        let bad = |change: fn(&mut CustomType)| {
            let mut bad = good.clone();
            change(&mut bad);
            let InvalidType { key, problem } = bad.check(dir.path()).unwrap_err();
            format!("{key}: {problem}")
        };
        for (problem, part) in [
            (bad(|t| t.name = "node".into()), "name: is the name of a built-in type"),
            (bad(|t| t.name = "a b".into()), "name: must be letters"),
            (bad(|t| t.startup_file = "../app.pl".into()), "startup_file: must be"),
            (bad(|t| t.startup_file = String::new()), "startup_file: must be"),
            (bad(|t| t.loader = "gone".into()), "loader: the file"),
            (bad(|t| t.interpreter = None), "loader: the file"),
            (bad(|t| t.preloader = Some("gone".into())), "preloader: the file"),
            (bad(|t| t.title = Some("a\nb".into())), "title: must be"),
            (bad(|t| t.protocol = Some(Protocol::KeptSession)), "protocol: must be"),
        ] {
            assert!(problem.starts_with(part), "{problem}");
        }
    }
}
