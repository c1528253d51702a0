//! The command of the process `web` in a `Procfile`, as Heroku and foreman read it.

use super::text_file::{self, read_text};
use std::path::Path;

pub(super) const NAME: &str = "Procfile";

/// Returns the command of the line `web: COMMAND` of the file in `root`.
///
/// # Errors
/// The file is absent (`None`) or has no such line (the problem, with the remedy).
pub(super) fn web(root: &Path) -> Result<String, Option<String>> {
    let path = root.join(NAME);
    // Not a pipe or a device, which could block the reader.
    if !text_file::is_file(&path) {
        return Err(None);
    }
    let text = read_text(&path).map_err(|e| {
        Some(format!("{} cannot be read: {e}. Correct it, or use --start-command.", path.display()))
    })?;
    let web = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == "web");
    match web.map(|(_, command)| command.trim()) {
        Some(command) if !command.is_empty() => Ok(command.to_owned()),
        _ => Err(Some(format!(
            "{} has no line `web: COMMAND`. Add it, or use --start-command.",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_web_has_the_command() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(web(dir.path()), Err(None));
        let text = "# web: no\nrelease: ./migrate\nweb:  ./serve -p $PORT: \nweb: second\n";
        std::fs::write(dir.path().join(NAME), text).unwrap();
        assert_eq!(web(dir.path()).unwrap(), "./serve -p $PORT:");
        for text in ["", "web", "web:  \n", "worker: x\n"] {
            std::fs::write(dir.path().join(NAME), text).unwrap();
            let problem = web(dir.path()).unwrap_err().unwrap();
            assert!(problem.contains("Procfile has no line `web: COMMAND`"), "{problem}");
        }
    }

    #[test]
    fn a_long_file_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NAME), "#".repeat((1 << 20) + 1)).unwrap();
        let problem = web(dir.path()).unwrap_err().unwrap();
        assert!(problem.contains("Procfile cannot be read: it is longer than 1 MiB"), "{problem}");
    }
}
