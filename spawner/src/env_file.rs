//! The file of variables for an application's processes: lines `NAME=value`, as dotenv has them.
//!
//! The application's user reads it: a file that only root may read would otherwise reach the application by a link. The process reads
//! it itself before it executes its program. So a restart takes new values, and no value stands in a list of arguments, which
//! every user of the system may see.

use crate::app_type::read_text;
use crate::file_rights::with_rights_of;
use crate::user::User;
use std::io;
use std::path::Path;

/// Returns the variables in the file, in its order, as this user reads it; `None`: with the rights of this process.
///
/// # Errors
/// The file cannot be read, or a line has no variable.
pub fn variables_of_file(path: &Path, user: Option<&User>) -> io::Result<Vec<(String, String)>> {
    let text = with_rights_of(user, || read_text(path))?;
    dotenvy::from_read_iter(text.as_bytes())
        .map(|pair| {
            pair.map_err(|e| match e {
                dotenvy::Error::LineParse(line, _) => {
                    let first = line.lines().next().unwrap_or_default();
                    let before = text.lines().take_while(|other| other.trim() != first.trim());
                    let number = before.count() + 1;
                    let rule = "it has a line that is no NAME=value";
                    io::Error::new(io::ErrorKind::InvalidData, format!("{rule}: line {number}"))
                }
                other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Vec<(String, String)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".env");
        std::fs::write(&path, text).unwrap();
        variables_of_file(&path, None)
    }

    #[test]
    fn lines_have_the_form_of_dotenv() {
        let text =
            "# ours\nA=1\n\nexport B='two words'\nC=\"a\\nb\"\nD=x # not this\nE=${A}2\nF=\n";
        let found = read(text).unwrap();
        let pairs: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(
            pairs,
            [("A", "1"), ("B", "two words"), ("C", "a\nb"), ("D", "x"), ("E", "12"), ("F", "")]
        );
    }

    #[test]
    fn an_error_names_the_line_and_no_value() {
        let error = read("A=1\nB='secret\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
        assert_eq!(
            variables_of_file("/nowhere/.env".as_ref(), None).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
