//! The values of the options that say where the server listens, and how it is called.

use crate::configuration::values::{IN_QUOTES, OptionValue};
use crate::request::mount::is_mount;
use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use toml::de::DeValue;

/// The IP addresses to listen on, at least one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Addresses(pub(crate) Vec<IpAddr>);

/// The paths of Unix sockets, at least one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sockets(pub(crate) Vec<PathBuf>);

/// Reads the values of a list in the file: one text, or an array of texts.
fn texts<T: OptionValue>(value: &DeValue<'_>) -> Result<T, String> {
    let Some(array) = value.as_array() else {
        return value.as_str().map_or_else(|| Err(IN_QUOTES.into()), T::of_text);
    };
    let mut all = None;
    for value in array {
        let Some(text) = value.get_ref().as_str() else { return Err(IN_QUOTES.into()) };
        let one = T::of_text(text)?;
        all = Some(match all {
            Some(others) => T::and(others, one),
            None => one,
        });
    }
    all.ok_or_else(|| "must have a value".into())
}

impl OptionValue for Addresses {
    const IS_LIST: bool = true;

    fn of_text(text: &str) -> Result<Self, String> {
        const RULE: &str = "must be an IP address without a port, such as 127.0.0.1 or localhost (this machine only), \
             0.0.0.0 (all networks) or :: (with IPv6, too), or several, separated by commas; set the port with --port, \
             and a Unix socket with --socket";
        let address = |text: &str| {
            let text = text.trim();
            if text == "localhost" {
                return Some(Ipv4Addr::LOCALHOST.into());
            }
            let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            match inner {
                Some(inner) => inner.parse().ok().filter(IpAddr::is_ipv6),
                None => text.parse().ok(),
            }
        };
        let all: Option<Vec<_>> = text.split(',').map(address).collect();
        all.map(Addresses).ok_or_else(|| RULE.into())
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        texts(value)
    }

    fn and(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

impl OptionValue for Sockets {
    const IS_LIST: bool = true;

    fn of_text(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("must be a path".into()),
            text => Ok(Sockets(vec![text.into()])),
        }
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        texts(value)
    }

    /// On the command line, a path need not be UTF-8.
    fn parser() -> ValueParser {
        ValueParser::new(PathBufValueParser::new().map(|path| Sockets(vec![path])))
    }

    fn and(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

/// The name of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerName(pub(crate) String);

impl OptionValue for ServerName {
    fn of_text(text: &str) -> Result<Self, String> {
        const LONGEST: usize = 64;
        let is_name = !text.is_empty() && text.len() <= LONGEST;
        match is_name && !text.contains(|c: char| c.is_control() || c == '/') {
            true => Ok(ServerName(text.into())),
            false => {
                Err("must be a name of 1 to 64 bytes, without / and control characters".into())
            }
        }
    }
}

/// The path below which an application is served, without a slash at its end. The root is the empty path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BaseUri(pub(crate) String);

impl OptionValue for BaseUri {
    fn of_text(text: &str) -> Result<Self, String> {
        const RULE: &str =
            "must be a path such as /blog: letters, digits and any of - . _ ~ between slashes";
        let path = text.strip_suffix('/').unwrap_or(text);
        let is_path = text.starts_with('/') && text.len() <= 1024 && is_mount(path.as_bytes());
        is_path.then(|| BaseUri(path.into())).ok_or_else(|| RULE.into())
    }
}

/// The mode of a file, in octal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FileMode(pub(crate) u32);

impl OptionValue for FileMode {
    fn of_text(text: &str) -> Result<Self, String> {
        let is_octal = text.bytes().all(|b| matches!(b, b'0'..=b'7'));
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
        mode.map(FileMode).ok_or_else(|| "must be a mode in octal, such as 0660".into())
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        const RULE: &str = "must be a mode in octal, such as \"0660\" or 0o660";
        if let Some(text) = value.as_str() {
            return Self::of_text(text);
        }
        // 660 in decimal digits would be another mode than the one that it looks like.
        let number = value.as_integer().filter(|number| number.radix() == 8);
        number.map_or_else(|| Err(RULE.into()), |number| Self::of_text(number.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: OptionValue>(text: &str) -> Result<T, String> {
        T::of_toml(DeValue::parse(text).unwrap().get_ref())
    }

    #[test]
    fn addresses_are_separated_by_commas_or_repeated() {
        let all = |texts: &[&str]| {
            let all = texts.iter().map(|text| Addresses::of_text(text).unwrap());
            all.reduce(Addresses::and).unwrap().0.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(all(&["localhost"]), ["127.0.0.1"]);
        assert_eq!(all(&["127.0.0.1, ::1", "[::]"]), ["127.0.0.1", "::1", "::"]);
        for bad in ["", "127.0.0.1,", "[127.0.0.1]", "[::1]:80", "unix:/x", "a.example"] {
            assert!(Addresses::of_text(bad).unwrap_err().contains("such as 127.0.0.1"), "{bad}");
        }
        assert_eq!(read::<Addresses>("['::1', 'localhost']").unwrap().0.len(), 2);
        assert!(read::<Addresses>("[]").is_err() && read::<Addresses>("[1]").is_err());
    }

    #[test]
    fn a_name_is_short_and_no_path() {
        assert_eq!(ServerName::of_text("shop 2"), Ok(ServerName("shop 2".into())));
        for bad in ["", "a/b", "a\n", &"x".repeat(65)] {
            assert!(ServerName::of_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_base_uri_is_a_plain_path() {
        for (text, path) in
            [("/blog", "/blog"), ("/blog/", "/blog"), ("/a/b.c", "/a/b.c"), ("/", "")]
        {
            assert_eq!(BaseUri::of_text(text), Ok(BaseUri(path.into())), "{text}");
        }
        for bad in [
            "", "blog", "//", "/a//b", "/a//", "/../a", "/a/.", "/a%2fb", "/a b", "/a;b", "/a?b",
            "/é",
        ] {
            assert!(BaseUri::of_text(bad).unwrap_err().contains("such as /blog"), "{bad}");
        }
    }

    #[test]
    fn a_mode_is_octal_wherever_it_stands() {
        assert_eq!(FileMode::of_text("0660"), Ok(FileMode(0o660)));
        assert_eq!(FileMode::of_text("600"), Ok(FileMode(0o600)));
        assert_eq!(read("0o660"), Ok(FileMode(0o660)));
        assert_eq!(read("'666'"), Ok(FileMode(0o666)));
        for bad in ["660", "0x1b0", "'rw'", "true", "0o1777"] {
            assert!(read::<FileMode>(bad).unwrap_err().contains("in octal"), "{bad}");
        }
        for bad in ["", "8", "+660", "1000"] {
            assert!(FileMode::of_text(bad).is_err(), "{bad}");
        }
    }
}
