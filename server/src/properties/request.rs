//! The head of a request: each request that the server accepts means the same to the application.

use super::{peer, trusting, with_cut};
use crate::client::http1::parse::{Limits, MAX_FIELDS, Parser};
use crate::client::scgi::parse as scgi;
use crate::lane::Message;
use crate::lane::http::{Receiver, push_head};
use crate::lane::pairs::session_pairs;
use crate::request::fields::Name;
use crate::request::head::Head;
use crate::request::host::names_a_host;
use crate::request::mount;
use crate::request::origin::Forwarded;

const LIMITS: Limits = Limits { size: 64 * 1024, fields: MAX_FIELDS };

/// The head of a request in HTTP/1: all parts of it are incomplete, and the application reads one request.
pub fn request_head(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    let mut head = Head::default();
    let Ok(Some((size, _))) = Parser::default().parse(&mut head, input, &LIMITS) else { return };

    // A part of a valid head is neither a head nor an error, and leaves no trace.
    let (mut again, mut parser) = (Head::default(), Parser::default());
    let cut = cut.min(size - 1);
    assert!(matches!(parser.parse(&mut again, &input[..cut], &LIMITS), Ok(None)));
    assert!(matches!(parser.parse(&mut again, input, &LIMITS), Ok(Some((n, _))) if n == size));
    assert_eq!((&again.bytes, again.fields.len()), (&head.bytes, head.fields.len()));

    means_the_same(&head);
}

/// The head of a request in SCGI: all parts of it are incomplete, and the application reads one request.
pub fn scgi_head(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    // Each run reaches the rules on variables: the netstring is made here, too.
    let made = [format!("{}:", input.len()).as_bytes(), input, b","].concat();
    for input in [input, &made] {
        let mut head = Head::default();
        let Ok(Some(size)) = scgi::parse(&mut head, input, LIMITS.size) else { continue };
        let mut again = Head::default();
        let cut = cut.min(size - 1);
        assert_eq!(scgi::parse(&mut again, &input[..cut], LIMITS.size), Ok(None));
        assert_eq!(scgi::parse(&mut again, &input[..size], LIMITS.size), Ok(Some(size)));
        assert_eq!((&again.bytes, again.fields.len()), (&head.bytes, head.fields.len()));
        let script_name = head.script_name();
        assert!(mount::of(&head, "").is_err() || head.path().starts_with(script_name));
        means_the_same(&head);
    }
}

fn means_the_same(head: &Head) {
    let target = head.target();
    assert!(target.starts_with(b"/") || (target == b"*" && head.method() == "OPTIONS"));
    assert!(head.host().is_empty() || names_a_host(head.host()));

    let peer = peer([192, 0, 2, 1]);
    let origin = Forwarded::of(head, &peer, &trusting("10.0.0.0/8"));
    assert_eq!(origin.remote, peer.remote.ip());
    let message = Message {
        head,
        peer: &peer,
        origin: &origin,
        framing: head.framing(),
        mount: mount::of(head, "").unwrap_or_default(),
        underscores: true,
    };
    as_http(message, None);
    as_http(message, Some("secret"));
    as_pairs(message);
}

/// The application reads one request in HTTP, and the same one. With a password, the target stands behind its origin.
fn as_http(message: Message<'_>, password: Option<&str>) {
    let (head, mut out) = (message.head, Vec::new());
    push_head(&mut out, message, Receiver { is_foreign: false, password });
    let mut again = Head::default();
    let limits = Limits { size: 2 * LIMITS.size, ..LIMITS };
    let side = match Parser::default().parse(&mut again, &out, &limits) {
        Ok(read) => {
            let (size, side) = read.expect("a whole head");
            assert_eq!(size, out.len(), "another request is hidden in this one");
            side
        }
        // The server's own fields are too many for its own limit.
        Err(bad) => return assert_eq!(bad.status, 431, "{bad:?}"),
    };
    let mount = String::from_utf8_lossy(&head.target()[..message.mount]);
    let origin = match password {
        Some(_) if mount.is_empty() => "/secret,http;192.0.2.1;5555,".to_owned(),
        Some(_) => format!("/secret,http;192.0.2.1;5555;{mount},"),
        None => String::new(),
    };
    assert_eq!(again.target().strip_prefix(origin.as_bytes()), Some(head.target()));
    assert_eq!(again.method(), head.method());
    let has_host = head.values(Name::Host).next().is_some();
    assert_eq!(again.host(), if has_host { head.host() } else { b"127.0.0.1:3000" });
    assert_eq!(again.framing(), head.framing());
    assert!(side.go_ahead().is_none() && side.stays());
    assert_eq!(again.upgrade(), head.upgrade());
}

/// The application reads each variable once in the session protocols.
fn as_pairs(message: Message<'_>) {
    let mut out = Vec::new();
    if session_pairs(&mut out, message, "secret", true).is_err() {
        return assert!(out.is_empty());
    }
    let (size, pairs) = out.split_first_chunk().expect("a length");
    assert_eq!(u32::from_be_bytes(*size) as usize, pairs.len());
    let items: Vec<_> =
        pairs.strip_suffix(b"\0").expect("a NUL at the end").split(|b| *b == 0).collect();
    assert_eq!(items.len() % 2, 0);
    let mut names: Vec<_> = items.iter().step_by(2).collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a variable comes twice");
    assert!(!names.iter().any(|name| name.starts_with(b"HTTP_X_FORWARDED_PROTO")));
}
