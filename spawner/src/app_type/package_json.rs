//! The startup file that a `package.json` names, and its script `start`.

use super::node_command::{NO_FILE, NodeCommand, StartScript};
use super::text_file::{self, read_text};
use serde_json::Value;
use std::path::Path;

const NAME: &str = "package.json";

/// The parts of a `package.json` that say how its application starts.
#[derive(Debug, Default)]
pub(super) struct Package {
    start: Option<String>,
    main: Option<String>,
    /// Whether npm runs something before the script `start`.
    has_prestart: bool,
}

impl Package {
    /// Reads the file in `root`.
    ///
    /// # Errors
    /// The file is absent (`None`) or unusable (the problem, with the remedy).
    pub(super) fn read(root: &Path) -> Result<Package, Option<String>> {
        let path = root.join(NAME);
        // Not a pipe or a device, which could block the reader.
        if !text_file::is_file(&path) {
            return Err(None);
        }
        let unusable = |problem: String| {
            Some(format!("{} {problem}. Correct it, or use --startup-file.", path.display()))
        };
        let text = read_text(&path).map_err(|e| unusable(format!("cannot be read: {e}")))?;
        let json: Value =
            serde_json::from_str(&text).map_err(|e| unusable(format!("is not valid JSON: {e}")))?;
        let text_at = |pointer| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(Package {
            start: text_at("/scripts/start"),
            main: text_at("/main"),
            has_prestart: text_at("/scripts/prestart").is_some(),
        })
    }

    /// Returns the startup file and the command of the script `start`. The file is named as Node finds it.
    ///
    /// # Errors
    /// There is no such script (`None`), or it cannot be started as it is written (the reason).
    fn start(&self, root: &Path) -> Result<(String, NodeCommand), Option<String>> {
        let text = self.start.as_deref().ok_or(None)?;
        let command = NodeCommand::parse(text).map_err(|part| {
            Some(match &*part {
                NO_FILE => format!("The script `start` in {NAME} is `{text}`, which names no file."),
                _ => format!(
                    "The script `start` in {NAME} is `{text}`. cabrank understands only `node FILE`, with variables, options \
                     and arguments around it, and not `{part}`."
                ),
            })
        })?;
        let file = match &*command.file {
            "." | "./" => self.main_file(root).or_else(|| module(root, "index.js")),
            file => module(root, file),
        };
        match file {
            Some(file) => Ok((file, command)),
            None => Err(Some(format!(
                "The script `start` in {NAME} names {}, which does not exist.",
                command.file
            ))),
        }
    }

    /// Returns the file of a script `start` that can be started as it is written.
    pub(super) fn start_file(&self, root: &Path) -> Option<String> {
        self.start(root).ok().map(|(file, _)| file)
    }

    /// Returns the file that `main` names, as Node finds the file.
    pub(super) fn main_file(&self, root: &Path) -> Option<String> {
        module(root, self.main.as_deref()?)
    }

    /// Returns advice about a script `start` that cannot be started as it is written.
    pub(super) fn start_of_another_kind(&self, root: &Path) -> Option<String> {
        let problem = self.start(root).err()??;
        Some(format!(
            "{problem} If it listens on the port in the variable PORT, add --start-command 'npm start'."
        ))
    }
}

/// Returns the script `start` of the application in `root` that starts by `startup_file`, and a remark where the script says
/// something else.
pub(super) fn script_of(root: &Path, startup_file: &str) -> (Option<StartScript>, Option<String>) {
    let package = match Package::read(root) {
        Ok(package) => package,
        Err(problem) => return (None, problem),
    };
    match package.start(root) {
        Ok((file, command)) if file == startup_file => {
            let remark = package.has_prestart.then(|| {
                format!(
                    "The script `prestart` in {NAME} does not run before the script `start`. Run it when you deploy."
                )
            });
            let text = package.start.unwrap_or_default().trim().to_owned();
            let NodeCommand { variables, options, arguments, .. } = command;
            let script = StartScript { text, variables, options, arguments };
            (Some(script).filter(StartScript::says_more), remark)
        }
        // It was replaced meanwhile.
        Ok(_) => (None, None),
        Err(problem) => {
            let remark = problem.map(|problem| {
                format!(
                    "{problem} The application starts by {startup_file} instead. Name the file with --startup-file, or run the \
                     script with --start-command 'npm start'."
                )
            });
            (None, remark)
        }
    }
}

/// Returns whether the script `start` of the application in `root` names this startup file.
pub(super) fn names(root: &Path, startup_file: &str) -> bool {
    Package::read(root).is_ok_and(|p| p.start_file(root).is_some_and(|file| file == startup_file))
}

/// Returns the file that Node runs for this name: the extension may be missing, and a directory has an `index.js`.
fn module(root: &Path, name: &str) -> Option<String> {
    let name = name.strip_prefix("./").unwrap_or(name);
    if name.is_empty() || name.starts_with('-') {
        return None;
    }
    let forms = [name.to_owned(), format!("{name}.js"), format!("{name}/index.js")];
    forms.into_iter().find(|file| text_file::is_file(&root.join(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(package: &str) -> (Option<String>, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(root.join("lib")).unwrap();
        for file in ["bin/www", "server.mjs", "web.js", "lib/index.js"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        std::fs::write(root.join(NAME), package).unwrap();
        let package = Package::read(root).unwrap();
        (package.start_file(root), package.main_file(root))
    }

    #[test]
    fn files_are_found_as_node_finds_them() {
        for (name, file) in [
            ("bin/www", "bin/www"),
            ("./server.mjs", "server.mjs"),
            ("web", "web.js"),
            ("./lib", "lib/index.js"),
        ] {
            let start = format!(r#"{{"scripts": {{"start": "node {name}"}}, "main": "{name}"}}"#);
            assert_eq!(files(&start), (Some(file.into()), Some(file.into())));
        }
        let dot = r#"{"main": "web.js", "scripts": {"start": "node ."}}"#;
        assert_eq!(files(dot).0.as_deref(), Some("web.js"));
    }

    #[test]
    fn a_script_that_cannot_be_started_as_it_is_written_names_no_startup_file() {
        for start in ["next start", "node --watch web.js", "node web.js && x", "node gone", ""] {
            let start = format!(r#"{{"scripts": {{"start": "{start}"}}}}"#);
            assert_eq!(files(&start), (None, None), "{start}");
        }
        assert_eq!(files(r#"{"scripts": 3, "main": ["web.js"]}"#), (None, None));
        assert_eq!(files("[]"), (None, None));
    }

    #[test]
    fn what_stands_around_the_file_is_a_part_of_the_script() {
        let dir = tempfile::tempdir().unwrap();
        let script = |start: &str, file: &str| {
            let package = serde_json::json!({"scripts": {"start": start}});
            std::fs::write(dir.path().join(NAME), package.to_string()).unwrap();
            std::fs::write(dir.path().join("web.js"), "").unwrap();
            script_of(dir.path(), file)
        };
        assert_eq!(script("node web.js", "web.js"), (None, None));
        let (found, remark) = script(" A=b node --trace-warnings ./web -v ", "web.js");
        let found = found.unwrap();
        assert_eq!((&*found.text, remark), ("A=b node --trace-warnings ./web -v", None));
        assert_eq!(found.variables, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(
            (found.options, found.arguments),
            (vec!["--trace-warnings".into()], vec!["-v".into()])
        );
        for (start, part) in [
            ("npx tsx web.ts", "and not `npx`. The application starts by web.js instead."),
            ("node", "is `node`, which names no file."),
            ("node gone.js", "names gone.js, which does not exist."),
        ] {
            let (found, remark) = script(start, "web.js");
            let remark = remark.unwrap();
            assert!(found.is_none() && remark.contains(part), "{remark}");
            for part in ["script `start`", "--startup-file", "--start-command 'npm start'"] {
                assert!(remark.contains(part), "{remark}");
            }
        }
        // The script is of another file than the one that starts.
        assert_eq!(script("A=b node web.js", "other.js"), (None, None));
        let package = r#"{"scripts": {"prestart": "x", "start": "node web.js"}}"#;
        std::fs::write(dir.path().join(NAME), package).unwrap();
        let (found, remark) = script_of(dir.path(), "web.js");
        assert!(found.is_none() && remark.unwrap().contains("script `prestart`"));
    }

    #[test]
    fn a_file_that_is_not_json_is_a_problem_and_an_absent_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Package::read(dir.path()).unwrap_err(), None);
        std::fs::write(dir.path().join(NAME), "{").unwrap();
        let problem = Package::read(dir.path()).unwrap_err().unwrap();
        assert!(problem.contains("package.json is not valid JSON"), "{problem}");
    }
}
