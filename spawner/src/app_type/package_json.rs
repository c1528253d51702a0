//! The startup file that a `package.json` names.

use super::text_file::{self, read_text};
use serde_json::Value;
use std::path::Path;

const NAME: &str = "package.json";

/// The parts of a `package.json` that say how its application starts.
#[derive(Debug, Default)]
pub(super) struct Package {
    start: Option<String>,
    main: Option<String>,
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
        Ok(Package { start: text_at("/scripts/start"), main: text_at("/main") })
    }

    /// Returns the file of a script `start` that is `node FILE`, as Node finds the file.
    pub(super) fn start_file(&self, root: &Path) -> Option<String> {
        let mut words = self.start.as_deref()?.split_whitespace();
        let (Some("node"), Some(file), None) = (words.next(), words.next(), words.next()) else {
            return None;
        };
        match file {
            "." | "./" => self.main_file(root),
            _ => module(root, file),
        }
    }

    /// Returns the file that `main` names, as Node finds the file.
    pub(super) fn main_file(&self, root: &Path) -> Option<String> {
        module(root, self.main.as_deref()?)
    }

    /// Returns advice about a script `start` that is another command than `node FILE`.
    pub(super) fn start_of_another_kind(&self) -> Option<String> {
        let start = self.start.as_deref()?;
        Some(match start.split_whitespace().collect::<Vec<_>>()[..] {
            ["node", file] => {
                format!("The script `start` in {NAME} names {file}, which does not exist.")
            }
            _ => format!(
                "The script `start` in {NAME} is `{start}`, and not `node FILE`. If it listens on the port in the \
                 variable PORT, add --start-command 'npm start'."
            ),
        })
    }
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
    fn only_a_plain_node_command_names_a_startup_file() {
        for start in ["next start", "node --inspect web.js", "node web.js --prod", "node gone", ""]
        {
            let start = format!(r#"{{"scripts": {{"start": "{start}"}}}}"#);
            assert_eq!(files(&start), (None, None), "{start}");
        }
        assert_eq!(files(r#"{"scripts": 3, "main": ["web.js"]}"#), (None, None));
        assert_eq!(files("[]"), (None, None));
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
