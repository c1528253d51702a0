//! Reads the files that describe an application. The owner of the application writes them, so their size has a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest text.
const MAX: usize = 1 << 20;

/// Reads a file of text, such as a `Procfile`.
///
/// # Errors
/// The file cannot be read, is longer than 1 MiB, or is no text in UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1 MiB"));
    }
    String::from_utf8(text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x".repeat(MAX)).unwrap();
        assert_eq!(read_text(file.path()).unwrap().len(), MAX);
        std::fs::write(file.path(), "x".repeat(MAX + 1)).unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().to_string(), "it is longer than 1 MiB");
        let sparse = File::options().write(true).open(file.path()).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
