//! Shared by the commands: their outcome, a line of output, a shell, and the files of the tree.

use std::io::Write;
use std::process::Command;

/// A message says why a command failed.
pub(crate) type Outcome = Result<(), String>;

/// Prints a line, and ends quietly where the reader has gone, as `head` does.
pub(crate) fn say(line: &str) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// Runs lines of bash up to the first that fails, with arguments for the last.
pub(crate) fn shell(lines: &str, args: &[String]) -> Outcome {
    let with_args = if args.is_empty() { "" } else { " \"$@\"" };
    let script = format!("set -euo pipefail\n{}{with_args}", lines.trim());
    let status = Command::new("bash").args(["-c", &script, "xtask"]).args(args).status();
    match status {
        Err(error) => Err(format!("bash: {error}")),
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("failed: {status}")),
    }
}

/// Lists the files of the tree in the current directory, also new ones, whose path ends with `ending`.
pub(crate) fn tracked_files(ending: &str) -> Result<Vec<String>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output();
    let listed = listed.map_err(|error| format!("git: {error}"))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let mut files: Vec<String> =
        text.lines().filter(|file| file.ends_with(ending)).map(str::to_owned).collect();
    // A file that was removed may still be listed.
    files.retain(|file| std::path::Path::new(file).exists());
    files.sort();
    files.dedup();
    Ok(files)
}
