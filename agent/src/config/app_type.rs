//! The registry of application types: one table, and the search in it.
//!
//! The startup file identifies the type. If two types match in one directory, the error names both.

use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// One kind of application.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AppType {
    /// The name that `--app-type` takes.
    pub(crate) name: &'static str,
    /// The file (or directory) that identifies the type.
    pub(crate) startup_file: &'static str,
    /// The beginning of the process title that the agent asks for.
    pub(crate) title: &'static str,
    /// The variables that name the environment of such an application, in the order in which they count.
    pub(crate) environment_variables: &'static [&'static str],
    /// The name for people.
    pub(crate) description: &'static str,
    /// The loader, or `None` if this version cannot serve the type.
    pub(crate) loader: Option<Loader>,
}

/// The program that loads applications of one type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loader {
    /// The name of the file in the instance directory.
    pub(crate) file: &'static str,
    /// Its text. It is part of the binary, so that an installation is the binary alone.
    pub(crate) source: &'static str,
    /// The interpreter that runs it.
    pub(crate) interpreter: Interpreter,
}

/// The programs that run loaders. Each has its own option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interpreter {
    Python,
    Node,
}

/// All types.
pub(crate) const REGISTRY: [AppType; 5] = [
    AppType {
        name: "rack",
        startup_file: "config.ru",
        title: "RubyApp",
        environment_variables: &["RACK_ENV", "RAILS_ENV"],
        description: "Ruby (Rack)",
        loader: None,
    },
    AppType {
        name: "wsgi",
        startup_file: "passenger_wsgi.py",
        title: "PythonApp",
        environment_variables: &["WSGI_ENV"],
        description: "Python (WSGI)",
        loader: Some(Loader {
            file: "wsgi-loader.py",
            source: include_str!("../../loaders/wsgi-loader.py"),
            interpreter: Interpreter::Python,
        }),
    },
    AppType {
        name: "node",
        startup_file: "app.js",
        title: "NodeApp",
        environment_variables: &["NODE_ENV"],
        description: "Node.js",
        loader: Some(Loader {
            file: "node-loader.js",
            source: include_str!("../../loaders/node-loader.js"),
            interpreter: Interpreter::Node,
        }),
    },
    AppType {
        name: "classic-rails",
        startup_file: "config/environment.rb",
        title: "RailsApp",
        environment_variables: &["RAILS_ENV", "RACK_ENV"],
        description: "Ruby on Rails 1 and 2",
        loader: None,
    },
    AppType {
        name: "meteor",
        startup_file: ".meteor",
        title: "MeteorApp",
        environment_variables: &["NODE_ENV"],
        description: "Meteor",
        loader: None,
    },
];

/// An application that can be served.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) root: PathBuf,
    pub(crate) app_type: &'static AppType,
    pub(crate) loader: &'static Loader,
    /// The startup file, relative to the root or absolute.
    pub(crate) startup_file: String,
}

/// Finds the application in `root`. The options of the same names override the search.
///
/// # Errors
/// The type is unknown, ambiguous or not served yet, or the startup file does not exist.
pub(crate) fn find(
    root: &Path,
    app_type: Option<&str>,
    startup_file: Option<&str>,
) -> Result<App, Failure> {
    let app_type = match (app_type, startup_file) {
        (Some(name), _) => by_name(name)?,
        (None, Some(file)) => by_extension(file)?,
        (None, None) => by_presence(root)?,
    };
    let Some(loader) = &app_type.loader else {
        let can: Vec<_> = REGISTRY.iter().filter(|t| t.loader.is_some()).map(|t| t.name).collect();
        return Err(Failure::not_found(format!(
            "{} is a {} application ({}), which this version cannot serve yet. It serves: {}.",
            root.display(),
            app_type.name,
            app_type.description,
            can.join(", ")
        )));
    };
    let startup_file = startup_file.unwrap_or(app_type.startup_file).to_owned();
    if !root.join(&startup_file).is_file() {
        return Err(Failure::not_found(format!(
            "the startup file {} of a {} application does not exist. \
             Name another file with --startup-file, or another type with --app-type.",
            root.join(&startup_file).display(),
            app_type.name,
        )));
    }
    Ok(App { root: root.to_owned(), app_type, loader, startup_file })
}

fn by_name(name: &str) -> Result<&'static AppType, Failure> {
    REGISTRY.iter().find(|t| t.name == name).ok_or_else(|| {
        let known: Vec<_> = REGISTRY.iter().map(|t| t.name).collect();
        Failure::usage(format!(
            "unknown application type {name:?}. --app-type takes one of: {}.",
            known.join(", ")
        ))
    })
}

fn by_extension(file: &str) -> Result<&'static AppType, Failure> {
    let name = match Path::new(file).extension().and_then(|e| e.to_str()) {
        Some("ru") => "rack",
        Some("py") => "wsgi",
        Some("js" | "mjs" | "cjs") => "node",
        _ => {
            return Err(Failure::usage(format!(
                "the extension of --startup-file {file} does not identify the type of application. \
                 Name the type with --app-type."
            )));
        }
    };
    by_name(name)
}

fn by_presence(root: &Path) -> Result<&'static AppType, Failure> {
    let found: Vec<_> = REGISTRY.iter().filter(|t| root.join(t.startup_file).exists()).collect();
    match found[..] {
        [one] => Ok(one),
        [] => {
            let looked: Vec<_> =
                REGISTRY.iter().map(|t| format!("{} ({})", t.startup_file, t.name)).collect();
            Err(Failure::not_found(format!(
                "found no application in {}. Looked for: {}. \
                 Name the application's directory, or its startup file with --startup-file.",
                root.display(),
                looked.join(", ")
            )))
        }
        _ => {
            let both: Vec<_> =
                found.iter().map(|t| format!("{} ({})", t.startup_file, t.name)).collect();
            Err(Failure::not_found(format!(
                "the type of the application in {} is ambiguous: the directory has {}. \
                 Choose one with --app-type.",
                root.display(),
                both.join(" and ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for f in files {
            std::fs::write(dir.path().join(f), "").unwrap();
        }
        dir
    }

    #[test]
    fn the_startup_file_identifies_the_type() {
        let dir = root(&["app.js"]);
        assert_eq!(find(dir.path(), None, None).unwrap().app_type.name, "node");
        let dir = root(&["passenger_wsgi.py", "README"]);
        assert_eq!(find(dir.path(), None, None).unwrap().app_type.name, "wsgi");
    }

    #[test]
    fn the_error_for_an_ambiguous_root_names_both_types_and_the_option() {
        let dir = root(&["app.js", "passenger_wsgi.py"]);
        let message = find(dir.path(), None, None).unwrap_err().message;
        for part in ["app.js", "passenger_wsgi.py", "--app-type"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(find(dir.path(), Some("node"), None).unwrap().app_type.name, "node");
    }

    #[test]
    fn the_error_for_an_empty_root_lists_the_startup_files() {
        let dir = root(&[]);
        let failure = find(dir.path(), None, None).unwrap_err();
        assert!(failure.message.contains("config.ru") && failure.message.contains("app.js"));
        assert_eq!(failure.kind as u8, 3);
    }

    #[test]
    fn the_error_for_an_unserved_type_says_so() {
        let dir = root(&["config.ru"]);
        let message = find(dir.path(), None, None).unwrap_err().message;
        assert!(message.contains("rack") && message.contains("yet"), "{message}");
    }

    #[test]
    fn the_extension_of_a_startup_file_identifies_the_type() {
        let dir = root(&["server.mjs", "run"]);
        assert_eq!(find(dir.path(), None, Some("server.mjs")).unwrap().app_type.name, "node");
        assert!(find(dir.path(), None, Some("run")).unwrap_err().message.contains("--app-type"));
        assert!(find(dir.path(), Some("wsgi"), Some("gone.py")).is_err());
    }
}
