//! The syntax of a host (RFC 3986, 3.2.2).

/// Returns whether the value is a host, or a host and a port. A part for the user is not allowed.
pub(crate) fn names_a_host(value: &[u8]) -> bool {
    let (host, port) = match value.iter().position(|b| *b == b']') {
        // The colons of an IPv6 address are inside its brackets.
        Some(end) => value.split_at(end + 1),
        None => value.split_at(value.iter().position(|b| *b == b':').unwrap_or(value.len())),
    };
    let host = match host {
        [b'[', address @ .., b']'] => {
            !address.is_empty()
                && address.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
        }
        name => !name.is_empty() && name.iter().all(|b| is_of_name(*b)),
    };
    host && match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    }
}

/// Returns whether the digits are a number of a port, or none.
fn is_port(digits: &[u8]) -> bool {
    let is_number = digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit);
    is_number && digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0')) <= 65_535
}

/// Returns whether a registered name may have this character.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

/// Returns the host without its port.
pub(crate) fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|b| *b == b':') {
        Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port_but_no_other_part() {
        for (good, name) in [
            ("a", "a"),
            ("a.example", "a.example"),
            ("a_b", "a_b"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
            ("[::ffff:1.2.3.4]:", "[::ffff:1.2.3.4]"),
            ("a:", "a"),
            ("a:65535", "a"),
            ("a:00080", "a"),
            ("xn--caf-dma", "xn--caf-dma"),
        ] {
            assert!(names_a_host(good.as_bytes()), "{good}");
            assert_eq!(without_port(good.as_bytes()), name.as_bytes());
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "me@a",
            "a@a",
            "a:b",
            "a:65536",
            "a:000080",
            "[::1]:123456",
            "a:1:2",
            "caf\u{e9}",
            "[]",
            "[",
            "]",
            "[::1",
            "[::1]a",
            "[g]",
            "a[::1]",
            "[::1]]",
            "\"a\"",
            "<a>",
        ] {
            assert!(!names_a_host(bad.as_bytes()), "{bad}");
        }
    }
}
