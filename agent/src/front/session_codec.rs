//! The encoding of the session protocol: a request as CGI-style pairs, and the head of the reply.

use super::headers::remove_hop_by_hop;
use super::{Inbound, Peer};
use crate::http::{MAX_REPLY_FIELDS, MAX_REPLY_HEAD};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};

/// Encodes a request's head: a big-endian u32 length, then names and values, each ended by NUL.
///
/// # Errors
/// The protocol cannot express the request. The text is for the client.
pub(crate) fn encode(request: &Inbound, password: &str) -> Result<Vec<u8>, &'static str> {
    let Inbound { parts, peer, .. } = request;
    let mut out = Pairs(Vec::with_capacity(1024));
    out.0.extend_from_slice(&[0; 4]);
    target(&mut out, parts)?;
    out.pair("REQUEST_METHOD", parts.method.as_str().as_bytes());
    out.pair("SERVER_PROTOCOL", protocol(parts.version).as_bytes());
    out.pair("SERVER_SOFTWARE", concat!("cabrank/", env!("CARGO_PKG_VERSION")).as_bytes());
    out.pair("SERVER_NAME", &server_name(parts, peer));
    out.pair("SERVER_PORT", peer.local.port().to_string().as_bytes());
    out.pair("REMOTE_ADDR", peer.remote.ip().to_canonical().to_string().as_bytes());
    out.pair("REMOTE_PORT", peer.remote.port().to_string().as_bytes());
    fields(&mut out, parts);
    out.pair("PASSENGER_CONNECT_PASSWORD", password.as_bytes());
    let Pairs(mut bytes) = out;
    let size = u32::try_from(bytes.len() - 4).map_err(|_| "the request's head is too large")?;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    Ok(bytes)
}

struct Pairs(Vec<u8>);

impl Pairs {
    fn pair(&mut self, name: &str, value: &[u8]) {
        self.name(name.as_bytes());
        self.value(value);
    }
    fn name(&mut self, name: &[u8]) {
        self.0.extend_from_slice(name);
        self.0.push(0);
    }
    fn value(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
        self.0.push(0);
    }
}

/// Encodes the four variables of the target. CGI decodes `PATH_INFO`; `REQUEST_URI` stays encoded.
fn target(out: &mut Pairs, parts: &Parts) -> Result<(), &'static str> {
    let path = parts.uri.path();
    let decoded = percent_decode(path);
    if decoded.contains(&0) {
        return Err("the path has a NUL character");
    }
    let query = parts.uri.query();
    out.name(b"REQUEST_URI");
    out.0.extend_from_slice(path.as_bytes());
    if let Some(query) = query {
        out.0.push(b'?');
        out.0.extend_from_slice(query.as_bytes());
    }
    out.0.push(0);
    out.pair("SCRIPT_NAME", b"");
    out.pair("PATH_INFO", if path == "*" { b"" } else { &decoded });
    out.pair("QUERY_STRING", query.unwrap_or_default().as_bytes());
    Ok(())
}

fn percent_decode(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|b| (*b as char).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match (bytes[i], hex(i + 1), hex(i + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                i += 3;
            }
            (byte, ..) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    out
}

fn protocol(version: Version) -> &'static str {
    if version == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" }
}

fn server_name(parts: &Parts, peer: &Peer) -> Vec<u8> {
    let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let host = host.filter(|h| !h.is_empty());
    match host {
        // The colon of an IPv6 address is inside its brackets.
        Some(host) => match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        }
        .as_bytes()
        .to_vec(),
        None => peer.local.ip().to_string().into_bytes(),
    }
}

/// Encodes the header fields as `HTTP_*`.
fn fields(out: &mut Pairs, parts: &Parts) {
    let mut headers = parts.headers.clone();
    remove_hop_by_hop(&mut headers);
    // The agent has answered this field itself.
    headers.remove(header::EXPECT);
    // As HTTP_PROXY it would redirect the application's own requests (httpoxy).
    headers.remove("proxy");
    let mut name_buffer = Vec::with_capacity(64);
    for name in headers.keys() {
        // `-` becomes `_`, so a name with `_` could pass for another field.
        if name.as_str().contains('_') {
            tracing::debug!("left out a header with an underscore in its name: {name}");
            continue;
        }
        name_buffer.clear();
        match *name {
            header::CONTENT_LENGTH | header::CONTENT_TYPE => {}
            _ => name_buffer.extend_from_slice(b"HTTP_"),
        }
        name_buffer.extend(name.as_str().bytes().map(|b| match b {
            b'-' => b'_',
            b => b.to_ascii_uppercase(),
        }));
        out.name(&name_buffer);
        let separator: &[u8] = if name == header::COOKIE { b"; " } else { b", " };
        for (i, value) in headers.get_all(name).iter().enumerate() {
            if i > 0 {
                out.0.extend_from_slice(separator);
            }
            out.0.extend_from_slice(value.as_bytes());
        }
        out.0.push(0);
    }
}

/// The head of a reply.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content_length: Option<u64>,
    /// Its length in bytes.
    pub(crate) size: usize,
}

/// Parses a head at the start of `bytes`. Returns `None` if it is incomplete.
///
/// # Errors
/// The bytes are not a head, or the head must not be passed on.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_REPLY_FIELDS];
    let parsed = match httparse::parse_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete((size, fields))) => Some((size, fields)),
        Ok(httparse::Status::Partial) => None,
        Err(e) => return Err(e.to_string()),
    };
    let Some((size, fields)) = parsed else {
        return if bytes.len() >= MAX_REPLY_HEAD {
            Err(format!("it is longer than {MAX_REPLY_HEAD} bytes"))
        } else {
            Ok(None)
        };
    };
    let mut head = Head {
        status: StatusCode::OK,
        headers: HeaderMap::with_capacity(fields.len()),
        content_length: None,
        size,
    };
    for field in fields {
        take_field(&mut head, field)?;
    }
    if head.status.is_informational() {
        return Err(format!("its status is {}", head.status));
    }
    remove_hop_by_hop(&mut head.headers);
    Ok(Some(head))
}

fn take_field(head: &mut Head, field: &httparse::Header<'_>) -> Result<(), String> {
    let wrong = |what: &str| format!("{what}: {:?}", String::from_utf8_lossy(field.value));
    if field.name.eq_ignore_ascii_case("status") {
        let digits = field.value.get(..3).ok_or_else(|| wrong("a bad Status"))?;
        head.status = StatusCode::from_bytes(digits).map_err(|_| wrong("a bad Status"))?;
        return Ok(());
    }
    let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|e| e.to_string())?;
    let value = HeaderValue::from_bytes(field.value).map_err(|_| wrong("a bad header value"))?;
    if name == header::TRANSFER_ENCODING {
        // The agent does not decode bodies of this protocol, so the client would see the chunk headers.
        return Err(wrong("a Transfer-Encoding, which the session protocol does not have"));
    }
    if name == header::CONTENT_LENGTH {
        let digits = value.to_str().ok().filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
        let length = digits.and_then(|v| v.parse().ok());
        let length = length.ok_or_else(|| wrong("a bad Content-Length"))?;
        if head.content_length.is_some_and(|l| l != length) {
            return Err("two different lengths".into());
        }
        head.content_length = Some(length);
        head.headers.insert(name, value);
    } else {
        head.headers.append(name, value);
    }
    Ok(())
}

#[cfg(test)]
#[path = "session_codec_tests.rs"]
mod tests;
