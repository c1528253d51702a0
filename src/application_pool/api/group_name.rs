//! The name of a group, derived from its application's directory.

use std::path::Path;

/// Marks what a name cannot show, as [`String::from_utf8_lossy`] does.
const MARK: char = char::REPLACEMENT_CHARACTER;

/// Returns the name of the group of the application in `dir`: the path itself, if it is Unicode.
///
/// Two paths have the same name exactly if they are equal as [`Path`]s. So a trailing slash makes no other
/// group, and no two directories share one (erratum E39). A byte that is not Unicode becomes U+FFFD and two
/// hexadecimal digits. U+FFFD itself is doubled.
pub(crate) fn of_directory(dir: &Path) -> String {
    let mut name = String::new();
    // The components leave out trailing and doubled slashes.
    let dir = dir.components().collect::<std::path::PathBuf>();
    for chunk in dir.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            name.push(c);
            if c == MARK {
                name.push(MARK);
            }
        }
        for byte in chunk.invalid() {
            name += &format!("{MARK}{byte:02x}");
        }
    }
    name
}

#[cfg(all(test, unix, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn a_directory_in_unicode_is_its_own_name() {
        for name in ["", "/", ".", "/srv/shop", "srv/käse", "/srv/..", r"C:\shop", "/srv/%C3%28"] {
            assert_eq!(of_directory(Path::new(name)), name);
        }
        assert_eq!(of_directory(Path::new("/srv/\u{fffd}")), "/srv/\u{fffd}\u{fffd}");
        assert_eq!(of_directory(path(b"/srv/caf\xe9")), "/srv/caf\u{fffd}e9");
    }

    /// Characters of one, two and three bytes, whole and cut, a digit and a slash.
    const BYTES: &[u8] = b"/.e9\xc3\xa9\xef\xbf\xbd\xff";

    proptest! {
        #[test] // E39
        fn names_are_equal_exactly_if_the_paths_are(
            one in prop::collection::vec(prop::sample::select(BYTES), 0..8),
            other in prop::collection::vec(prop::sample::select(BYTES), 0..8),
        ) {
            let (one, other) = (path(&one), path(&other));
            prop_assert_eq!(of_directory(one) == of_directory(other), one == other);
        }
    }
}
