//! The mount of an application: the path below which it is served, such as `/blog` (`SCRIPT_NAME`).
//!
//! `--base-uri` names it, or else a front that speaks SCGI. A front has chosen the application by the path as it understands
//! it. So a path that another reader could understand in another way is outside:
//!
//! - The path begins with the mount byte by byte. An escape such as `%62` for `b` counts as it stands.
//! - The mount ends at the end of the path or at a slash. Neither `/blogx` nor `/blog%2fx` is below `/blog`.
//! - No `..` leads out of the mount, escaped or not, and whether `%2f` counts as a slash or not.

use crate::request::head::{BadRequest, Head};

const OUTSIDE: BadRequest = BadRequest::new(404, "no application is served at this path");

/// Returns the length of the mount at the start of the request's path. `base_uri` is the configured mount, which counts before
/// that of the front.
///
/// # Errors
/// The path is outside of the mount.
pub(crate) fn of(head: &Head, base_uri: &str) -> Result<usize, BadRequest> {
    let mount = if base_uri.is_empty() { head.script_name() } else { base_uri.as_bytes() };
    match mount.is_empty() || is_mount(mount) && is_below(mount, head.path()) {
        true => Ok(mount.len()),
        false => Err(OUTSIDE),
    }
}

/// Returns whether it is the path of a mount: it is empty, or has segments of unreserved characters (RFC 3986, 2.3).
pub(crate) fn is_mount(path: &[u8]) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let is_segment = |segment: &[u8]| {
        !segment.is_empty() && segment != b"." && segment != b".." && segment.iter().all(is_plain)
    };
    match path {
        [] => true,
        [b'/', rest @ ..] => rest.split(|b| *b == b'/').all(is_segment),
        _ => false,
    }
}

fn is_below(mount: &[u8], path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(mount) else { return false };
    matches!(rest, [] | [b'/', ..]) && !leads_out(rest, false) && !leads_out(rest, true)
}

/// Returns whether `..` leads above the start of the path. `is_decoded`: an escaped slash is a slash.
///
/// An empty segment counts as none, because some servers merge slashes.
fn leads_out(mut path: &[u8], is_decoded: bool) -> bool {
    let mut depth = 0_usize;
    loop {
        let (segment, rest) = split(path, is_decoded);
        match segment {
            Segment::Parent if depth == 0 => return true,
            Segment::Parent => depth -= 1,
            Segment::Name => depth += 1,
            Segment::None => {}
        }
        match rest {
            Some(rest) => path = rest,
            None => return false,
        }
    }
}

enum Segment {
    /// It is empty, or `.`.
    None,
    /// It is `..`.
    Parent,
    Name,
}

/// Returns the first segment, and the path behind its slash.
fn split(path: &[u8], is_decoded: bool) -> (Segment, Option<&[u8]>) {
    let (mut at, mut dots, mut others) = (0, 0, 0);
    let rest = loop {
        let slash = match &path[at..] {
            [] => break None,
            [b'/', ..] => 1,
            [b'%', b'2', b'f' | b'F', ..] if is_decoded => 3,
            _ => 0,
        };
        if slash > 0 {
            break Some(&path[at + slash..]);
        }
        let (count, size) = match &path[at..] {
            [b'.', ..] => (&mut dots, 1),
            [b'%', b'2', b'e' | b'E', ..] => (&mut dots, 3),
            _ => (&mut others, 1),
        };
        *count += 1;
        at += size;
    };
    let segment = match (others, dots) {
        (0, 0 | 1) => Segment::None,
        (0, 2) => Segment::Parent,
        _ => Segment::Name,
    };
    (segment, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http1::parse::parsed;

    fn mount(path: &str, base_uri: &str) -> Option<usize> {
        let (head, _) = parsed(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        of(&head, base_uri).inspect_err(|bad| assert_eq!(bad.status, 404)).ok()
    }

    #[test]
    fn a_path_below_the_mount_begins_with_it() {
        for path in [
            "/blog",
            "/blog?a=/..",
            "/blog/",
            "/blog/a%2fb",
            "/blog/a/../b",
            "/blog/.../x",
            "/blog/..a/x",
            "/blog/%2e/x",
            "/blog/a%2f..",
            "http://a/blog/x",
        ] {
            assert_eq!(mount(path, "/blog"), Some(5), "{path}");
            assert_eq!(mount(path, ""), Some(0), "{path}");
        }
        assert_eq!(mount("/a/b/c", "/a/b"), Some(4));
    }

    #[test]
    fn a_path_outside_of_the_mount_is_refused_however_it_is_written() {
        for path in [
            "/",
            "/blo",
            "/blogx",
            "/BLOG/",
            "//blog/",
            "/x/../blog/",
            "/%62log/",
            "/blog%2fx",
            "/blog%3f",
            "/blog;x/",
            "/blog/..",
            "/blog/../x",
            "/blog/./../x",
            "/blog//../x",
            "/blog/a/../../x",
            "/blog/%2e%2e/x",
            "/blog/.%2E/x",
            "/blog/..%2fx",
            "/blog/%2f../x",
            "/blog/a%2fb/../../x",
            "/blog/a%2f..%2f../x",
        ] {
            assert_eq!(mount(path, "/blog"), None, "{path}");
        }
        let (head, _) = parsed("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(of(&head, "/blog").is_err() && of(&head, "") == Ok(0));
    }
}
