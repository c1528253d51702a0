//! Text that changes no state of a terminal.
//!
//! Applications choose parts of many texts: their output, the path of a socket, the text of an exception. A terminal obeys
//! control characters in them, and a carriage return lets the rest look like a line of the server's own. So
//! each line of the log and each text for the operator passes through this module last, whatever it is made of.

use std::borrow::Cow;

/// Returns a line of the log with a single line break, at its end. Only the colours of the log remain.
pub(crate) fn line(line: &[u8]) -> Cow<'_, [u8]> {
    let (body, end) = match line.strip_suffix(b"\n") {
        Some(body) => (body, &b"\n"[..]),
        None => (line, &b""[..]),
    };
    if !body.iter().any(|&b| is_suspect(b)) {
        return line.into();
    }
    // The subscriber replaces escape characters in the values of an event: the colours left are its own.
    let mut plain = Vec::with_capacity(line.len() + 16);
    let mut rest = &*String::from_utf8_lossy(body);
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        plain.extend_from_slice(escaped(before, "\t").as_bytes());
        let colour = colour(from).unwrap_or("");
        plain.extend_from_slice(colour.as_bytes());
        rest = &from[colour.len()..];
        if colour.is_empty() {
            plain.extend_from_slice(b"\\u001b");
            rest = &from[1..];
        }
    }
    plain.extend_from_slice(escaped(rest, "\t").as_bytes());
    plain.extend_from_slice(end);
    plain.into()
}

/// Returns a text of several lines without other control characters.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, "\n\t")
}

/// Returns whether the byte may belong to a control character in UTF-8.
fn is_suspect(byte: u8) -> bool {
    byte < 0x20 && byte != b'\t' || byte == 0x7f || byte == 0xc2
}

/// Returns the sequence at the beginning of the text that sets a colour or a face.
fn colour(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then(|| &text[..text.len() - parameters.len() + end + 1])
}

/// Replaces control characters as JSON does, in which a line of the log may be. `kept` remain.
fn escaped<'t>(text: &'t str, kept: &str) -> Cow<'t, str> {
    let is_bad = |c: char| c.is_control() && !kept.contains(c);
    if !text.contains(is_bad) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if is_bad(c) => plain.push_str("\\n"),
            '\r' => plain.push_str("\\r"),
            c if is_bad(c) => plain.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => plain.push(c),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_line(from: &str, to: &str) {
        assert_eq!(str::from_utf8(&line(from.as_bytes())).unwrap(), to);
    }

    #[test]
    fn a_line_of_the_log_stays_one_line_with_its_colours_only() {
        is_line("INFO é\ta\n", "INFO é\ta\n");
        is_line(
            "\u{1b}[2m12\u{1b}[0m \u{1b}[1;32mINFO\u{1b}[0m a\n",
            "\u{1b}[2m12\u{1b}[0m \u{1b}[1;32mINFO\u{1b}[0m a\n",
        );
        is_line("a\rERROR b\nERROR c\n", "a\\rERROR b\\nERROR c\n");
        is_line(
            "\u{1b}[6n\u{1b}]0;t\u{7}\u{1b}[\u{1b}",
            "\\u001b[6n\\u001b]0;t\\u0007\\u001b[\\u001b",
        );
        is_line("\u{9b}6n\u{7f}\u{8}\0", "\\u009b6n\\u007f\\u0008\\u0000");
        is_line("", "");
    }

    #[test]
    fn a_text_has_lines_and_no_other_control_characters() {
        assert_eq!(text("a\n\tb: é"), "a\n\tb: é");
        assert_eq!(text("a\r\n\u{1b}[31mb\u{9b}6n"), "a\\r\n\\u001b[31mb\\u009b6n");
    }

    #[test]
    fn a_line_in_json_stays_json() {
        let value = "a\u{7f}\u{9b}6n\r\u{1b}[6n";
        let plain = line(serde_json::to_string(value).unwrap().as_bytes()).into_owned();
        assert_eq!(serde_json::from_slice::<String>(&plain).unwrap(), value);
        assert!(!str::from_utf8(&plain).unwrap().contains(char::is_control));
    }
}
