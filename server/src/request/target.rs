//! The target of a request, in whatever form it has come.

use crate::request::fields::{Field, Name, Span};
use crate::request::head::{BadRequest, Head};
use crate::request::host::names_a_host;

/// Reduces the target to its origin form. In the absolute form its host overrides the `Host` field.
///
/// The scheme of an absolute target is the client's claim, so nothing depends on it.
pub(crate) fn read(head: &mut Head, target: Span) -> Result<(), BadRequest> {
    let given = target.get(&head.bytes);
    let is_options = head.method.get(&head.bytes) == b"OPTIONS";
    if head.method.get(&head.bytes) == b"CONNECT" {
        return Err(BadRequest::new(405, "this server is not a proxy"));
    }
    let end = given.iter().position(|b| *b == b'#').unwrap_or(given.len());
    if given.first() == Some(&b'/') || (given == b"*" && is_options) {
        head.target = Span::of(&given[..end], &head.bytes);
    } else {
        let rest = after_scheme(&given[..end]);
        let rest = rest.ok_or(BadRequest::new(400, "the request's target is malformed"))?;
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
        let (host, rest) = rest.split_at(end);
        if !names_a_host(host) {
            return Err(BadRequest::new(400, "the host in the request's target is malformed"));
        }
        let (host, rest) = (Span::of(host, &head.bytes), Span::of(rest, &head.bytes));
        set_host(head, host);
        set_target_after_host(head, rest);
    }
    let target = head.target();
    head.path_length = target.iter().position(|b| *b == b'?').unwrap_or(target.len());
    Ok(())
}

fn set_host(head: &mut Head, host: Span) {
    head.host = host;
    match head.fields.iter_mut().find(|field| field.known == Name::Host) {
        Some(field) => field.value = host,
        None => {
            let name = head.compose(b"Host");
            head.fields.push(Field::new(name, host, Name::Host));
        }
    }
}

fn set_target_after_host(head: &mut Head, rest: Span) {
    head.target = rest;
    if rest.get(&head.bytes).first() != Some(&b'/') {
        let slash = head.compose(b"/");
        head.bytes.extend_from_within(rest.range());
        head.target = Span::from(slash.range().start..head.bytes.len());
    }
}

/// Returns the part of an absolute target after `http://` or `https://`.
fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    })
}
