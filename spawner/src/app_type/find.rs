//! The search for the application in a directory.

use super::clue::{Clue, Evidence};
use super::{
    App, AppType, CustomType, GENERIC, Interpreter, Launch, REGISTRY, Service, StartCommand,
    module, package_json, procfile, text_file,
};
use crate::error::Error;
use std::path::Path;

/// A search for the application in a directory. Each part that is set narrows the search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search<'a> {
    /// The name of the type.
    pub app_type: Option<&'a str>,
    /// The file that starts the application.
    pub startup_file: Option<&'a str>,
    /// The module that defines a Python application, and its name there, such as `package.module:name`.
    pub module: Option<&'a str>,
    /// The command that starts the application.
    pub start_command: Option<&'a str>,
    /// The types of the user. They come before those of the registry.
    pub custom_types: &'a [CustomType],
}

/// A type by which an application can be served.
#[derive(Clone, Copy)]
enum Chosen<'a> {
    Custom(&'a CustomType),
    Known(&'static AppType),
}

/// Finds the application in `root`. The options of the same names override the search.
///
/// # Errors
/// The type is unknown, ambiguous or not served, or the startup file does not exist.
pub fn find(root: &Path, app_type: Option<&str>, startup_file: Option<&str>) -> Result<App, Error> {
    Search { app_type, startup_file, ..Search::default() }.find(root)
}

impl Search<'_> {
    /// Finds the application in `root`.
    ///
    /// # Errors
    /// The type is unknown, ambiguous or not served, the startup file does not exist, or the parts of the search
    /// contradict each other.
    pub fn find(&self, root: &Path) -> Result<App, Error> {
        if let Some(command) = self.start_command {
            return self.generic(root, command);
        }
        if let Some(text) = self.module {
            return self.of_module(root, text);
        }
        let chosen = match (self.app_type, self.startup_file) {
            (Some(name), _) => self.by_name(name)?,
            (None, Some(file)) => self.by_file(file)?,
            (None, None) => self.by_presence(root)?,
        };
        let app_type = match chosen {
            Chosen::Custom(custom) => return self.custom(root, custom),
            Chosen::Known(app_type) => app_type,
        };
        match &app_type.service {
            Service::Loader(loader) => {
                let startup_file = self.startup_file(root, app_type)?;
                // A file that the user has named starts by itself.
                let has_script =
                    self.startup_file.is_none() && app_type.clues.contains(&Clue::PackageStart);
                let (script, remark) = match has_script {
                    true => package_json::script_of(root, &startup_file),
                    false => (None, None),
                };
                let is_named_by_script = has_script && package_json::names(root, &startup_file);
                let launch = Launch::Loader { loader, startup_file, script };
                let app = App::new(root.to_owned(), app_type, launch);
                Ok(App { remark, is_named_by_script, ..app })
            }
            Service::Command => {
                let command = procfile::web(root).map_err(|problem| {
                    Error::not_found(problem.unwrap_or_else(|| {
                        format!(
                            "a {} application needs the command that starts it: use --start-command, or write \
                             the line `web: COMMAND` into {}.",
                            GENERIC.name,
                            root.join(procfile::NAME).display()
                        )
                    }))
                })?;
                self.generic(root, &command)
            }
            Service::Instead(advice) => Err(Error::not_found(format!(
                "{} is a {} application ({}), which has no loader. {advice}",
                root.display(),
                app_type.name,
                app_type.description,
            ))),
        }
    }

    fn custom(&self, root: &Path, custom: &CustomType) -> Result<App, Error> {
        custom.check(root).map_err(|invalid| {
            Error::usage(format!(
                "{} of the type {}: {}.",
                invalid.key, custom.name, invalid.problem
            ))
        })?;
        let startup_file = self.startup_file.unwrap_or(&custom.startup_file).to_owned();
        self.must_exist(root, &startup_file, &custom.name)?;
        Ok(custom.app(root, startup_file))
    }

    fn by_name(&self, name: &str) -> Result<Chosen<'_>, Error> {
        let custom = self.custom_types.iter().find(|custom| custom.name == name);
        if let Some(custom) = custom {
            return Ok(Chosen::Custom(custom));
        }
        by_name(name).map(Chosen::Known).ok_or_else(|| {
            let own = self.custom_types.iter().map(|t| &*t.name);
            let served = REGISTRY.iter().filter(|t| !matches!(t.service, Service::Instead(_)));
            Error::usage(format!(
                "unknown application type {name:?}. --app-type takes one of: {}.",
                own.chain(served.map(|t| t.name)).collect::<Vec<_>>().join(", ")
            ))
        })
    }

    /// Finds the type of a startup file that the user has named.
    fn by_file(&self, file: &str) -> Result<Chosen<'_>, Error> {
        let extension = |file: &str| Path::new(file).extension().map(ToOwned::to_owned);
        let same_name = self.custom_types.iter().find(|custom| custom.startup_file == file);
        let same_extension = || {
            let wanted = extension(file)?;
            let mut all = self.custom_types.iter();
            all.find(|custom| extension(&custom.startup_file).as_ref() == Some(&wanted))
        };
        match same_name.or_else(same_extension) {
            Some(custom) => Ok(Chosen::Custom(custom)),
            None => by_extension(file).map(Chosen::Known),
        }
    }

    fn by_presence(&self, root: &Path) -> Result<Chosen<'_>, Error> {
        let mut custom =
            self.custom_types.iter().filter(|t| text_file::exists(&root.join(&t.startup_file)));
        match (custom.next(), custom.next()) {
            (Some(one), None) => Ok(Chosen::Custom(one)),
            (Some(one), Some(other)) => {
                let signs = [one, other].map(|t| format!("{} ({})", t.startup_file, t.name));
                Err(ambiguous(root, &signs))
            }
            (None, _) => by_presence(root, self.custom_types).map(Chosen::Known),
        }
    }

    /// Returns the application that a command starts.
    fn generic(&self, root: &Path, command: &str) -> Result<App, Error> {
        let contradiction = match (self.app_type, self.startup_file, self.module) {
            (Some(name), ..) if name != GENERIC.name => {
                Some(format!("the application type {name}"))
            }
            (_, Some(file), _) => Some(format!("the startup file {file}")),
            (.., Some(module)) => Some(format!("the application {module}")),
            _ => None,
        };
        if let Some(other) = contradiction {
            return Err(Error::usage(format!(
                "the start command `{command}` contradicts {other}: an application starts by one of them. \
                 Leave out --start-command, or the other option."
            )));
        }
        let launch = Launch::Command(StartCommand::new(command)?);
        Ok(App::new(root.to_owned(), &GENERIC, launch))
    }

    /// Returns the Python application that a module defines.
    fn of_module(&self, root: &Path, text: &str) -> Result<App, Error> {
        let startup_file =
            module::normal(text).ok_or_else(|| Error::usage(module::RULE.to_owned()))?;
        let contradicts = |other| {
            Error::usage(format!(
                "the application {text} contradicts {other}: an application starts by one of them. Leave out --app, or the \
                 other option."
            ))
        };
        if let Some(file) = self.startup_file {
            return Err(contradicts(format!("the startup file {file}")));
        }
        let name = self.app_type.unwrap_or("python");
        match self.by_name(name)? {
            Chosen::Known(app_type @ AppType { service: Service::Loader(loader), .. })
                if loader.interpreter == Interpreter::Python =>
            {
                Ok(App::new(
                    root.to_owned(),
                    app_type,
                    Launch::Loader { loader, startup_file, script: None },
                ))
            }
            _ => Err(contradicts(format!("the application type {name}"))),
        }
    }

    fn startup_file(&self, root: &Path, app_type: &AppType) -> Result<String, Error> {
        let startup_file = match self.startup_file {
            Some(file) => file.to_owned(),
            None => startup_file_of(root, app_type)?,
        };
        self.must_exist(root, &startup_file, app_type.name)?;
        Ok(startup_file)
    }

    fn must_exist(&self, root: &Path, startup_file: &str, type_name: &str) -> Result<(), Error> {
        if text_file::is_file(&root.join(startup_file)) {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "the startup file {} of a {type_name} application does not exist. \
             Name another file with --startup-file, or another type with --app-type.",
            root.join(startup_file).display(),
        )))
    }
}

fn by_name(name: &str) -> Option<&'static AppType> {
    REGISTRY.iter().find(|t| t.name == name)
}

fn by_extension(file: &str) -> Result<&'static AppType, Error> {
    let name = match Path::new(file).extension().and_then(|e| e.to_str()) {
        Some("ru") => "rack",
        Some("py") => python_by_name(file),
        Some("js" | "mjs" | "cjs") => "node",
        _ => {
            return Err(Error::usage(format!(
                "the extension of --startup-file {file} does not identify the type of application. \
                 Name the type with --app-type, or a command with --start-command."
            )));
        }
    };
    Ok(by_name(name).expect("the registry has the types of all extensions"))
}

/// Returns the type of a Python file that the user has named.
fn python_by_name(file: &str) -> &'static str {
    let is_this = |clue: &Clue| match clue {
        Clue::File(known) | Clue::CommonFile(known) => Path::new(file).ends_with(known),
        _ => false,
    };
    REGISTRY.iter().find(|t| t.clues.iter().any(is_this)).map_or("python", |t| t.name)
}

/// A type of which the directory has signs.
struct Found {
    app_type: &'static AppType,
    /// The sign that names the startup file.
    clue: Clue,
    evidence: Evidence,
}

fn by_presence(root: &Path, custom: &[CustomType]) -> Result<&'static AppType, Error> {
    let mut found: Vec<Found> = REGISTRY
        .iter()
        .filter_map(|app_type| {
            let mut present = app_type.clues.iter().filter(|c| c.startup_file(root).is_some());
            let clue = *present.next()?;
            let evidence = present.map(|c| c.evidence()).fold(clue.evidence(), Evidence::max);
            Some(Found { app_type, clue, evidence })
        })
        .collect();
    let best = found.iter().map(|one| one.evidence).max();
    found.retain(|one| Some(one.evidence) == best);
    match &found[..] {
        [one] => Ok(one.app_type),
        [] => Err(Error::not_found(nothing_found(root, custom))),
        _ => {
            let all: Vec<_> =
                found.iter().map(|one| format!("{} ({})", one.clue, one.app_type.name)).collect();
            Err(ambiguous(root, &all))
        }
    }
}

fn ambiguous(root: &Path, signs: &[String]) -> Error {
    Error::not_found(format!(
        "the type of the application in {} is ambiguous: the directory has {}. \
         Choose one with --app-type.",
        root.display(),
        signs.join(" and ")
    ))
}

fn nothing_found(root: &Path, custom: &[CustomType]) -> String {
    let own = custom.iter().map(|t| (&*t.name, t.startup_file.clone()));
    let known = REGISTRY.iter().map(|t| (t.name, names(t.clues)));
    let looked = own.chain(known).map(|(name, files)| format!("\n  {name:14} {files}"));
    let near = REGISTRY.iter().flat_map(|t| t.clues).filter_map(|c| c.near_miss(root));
    format!(
        "found no application in {}.{} Looked for:\n{}\n\n\
         Name the application's directory, its startup file with --startup-file, or the command that starts it with \
         --start-command.",
        root.display(),
        near.map(|advice| format!(" {advice}")).collect::<String>(),
        looked.collect::<String>(),
    )
}

fn names(clues: &[Clue]) -> String {
    clues.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the startup file of an application whose type is known: a file of the type, or else of another type with the
/// same loader.
fn startup_file_of(root: &Path, app_type: &AppType) -> Result<String, Error> {
    let relatives =
        REGISTRY.iter().filter(|t| t.service == app_type.service && t.name != app_type.name);
    let clues: Vec<Clue> =
        app_type.clues.iter().chain(relatives.flat_map(|t| t.clues)).copied().collect();
    clues.iter().find_map(|clue| clue.startup_file(root)).ok_or_else(|| {
        Error::not_found(format!(
            "the startup file of a {} application does not exist in {}. Looked for: {}. \
             Name another file with --startup-file, or another type with --app-type.",
            app_type.name,
            root.display(),
            names(&clues),
        ))
    })
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
