//! The cases over SCGI: a front takes the request of a case from its client, and asks by SCGI.
//!
//! A case has a row there if a front would pass it on: one whole request without a coding. The other cases are decided between the
//! client and its front: framing by bytes, chunks, `Expect`, and all that follows the first answer of a connection.

use super::case::{Case, Expected, SILENCE, Step};
use cabrank_checks_harness::http::{Client, Reply, describe, scgi_head};
use std::path::Path;

/// The longest head that is the same in both protocols, as far as the limits are concerned.
const MAX_HEAD: usize = 4096;

/// A case as a front passes it on.
pub(super) struct Passed {
    head: Vec<u8>,
    body: Vec<u8>,
    method: String,
    /// The answer; `None`: it breaks off.
    expected: Option<Expected>,
}

impl Passed {
    /// Returns the case as a front passes it on, if it does.
    pub(super) fn of(case: &Case) -> Option<Passed> {
        let [Step::Send(bytes), rest @ ..] = &*case.steps else { return None };
        let is_interim =
            |step: &Step| matches!(step, Step::Reply(e) if e.statuses.iter().all(|s| *s < 200));
        let mut rest = rest.iter().skip_while(|step| is_interim(step));
        let expected = match rest.next()? {
            Step::Reply(expected) => Some(expected.clone()),
            // Over SCGI, the end of the connection ends an answer without a length.
            Step::BreaksOff if !bytes.windows(5).any(|part| part == b"chunk") => None,
            _ => return None,
        };
        if !rest.all(|step| matches!(step, Step::Open | Step::Closed)) {
            return None;
        }
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
        // The limit of a head counts the bytes of the protocol.
        if end > MAX_HEAD {
            return None;
        }
        let (head, body) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 4..]);
        let mut lines = head.split("\r\n");
        let words: Vec<_> = lines.next()?.split(' ').collect();
        let [method, target, version @ ("HTTP/1.0" | "HTTP/1.1")] = *words else { return None };
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if method.is_empty() || method == "CONNECT" || target.is_empty() || !is_plain(target) {
            return None;
        }
        let mut variables = Vec::new();
        let mut length = None;
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            let is_text = |c: char| (' '..='~').contains(&c) || c == '\t';
            let is_well =
                !name.is_empty() && name.bytes().all(is_name) && value.chars().all(is_text);
            if !is_well || matches!(&*name.to_ascii_lowercase(), "transfer-encoding" | "expect") {
                return None;
            }
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let is_first = length.replace(value.parse::<usize>().ok()?).is_none();
                if !is_first || value.starts_with('+') {
                    return None;
                }
                continue;
            }
            let name = format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_"));
            variables.push((name, value.to_owned()));
        }
        // A front refuses a request without a host, or with more than one.
        let hosts = variables.iter().filter(|(name, _)| name == "HTTP_HOST").count();
        if body.len() != length.unwrap_or(0) || hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
            return None;
        }
        let own =
            [("REQUEST_METHOD", method), ("REQUEST_URI", target), ("SERVER_PROTOCOL", version)];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let all: Vec<_> = own.chain(variables).collect();
        let all = all.iter().map(|(name, value)| (&**name, &**value));
        let head = scgi_head(body.len(), all);
        Some(Passed { head, body: body.into(), method: method.into(), expected })
    }

    /// Plays the case, or says what went wrong.
    pub(super) fn play(&self, socket: &Path) -> Result<(), String> {
        let client = Client::over_unix(socket, SILENCE);
        let mut client = client.map_err(|e| format!("connect: {e}"))?;
        // A server that refuses a request may have closed the connection: its answer tells.
        let _ = client.send(&[&self.head[..], &self.body].concat());
        let reply = Reply::read_cgi(&mut client.stream, &self.method);
        match (&self.expected, reply) {
            (None, Ok(reply)) => Err(format!("expected half an answer; got {}", reply.describe())),
            (None, Err(_)) => Ok(()),
            (Some(_), Err(error)) => Err(describe(&error)),
            (Some(expected), Ok(reply)) => {
                let mut expected = expected.clone();
                // The front frames the answer for its client.
                expected
                    .fields
                    .retain(|(name, _)| !["transfer-encoding", "connection"].contains(name));
                expected.check(&reply)
            }
        }
    }
}
