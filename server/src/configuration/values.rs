//! The types of option values.
//!
//! The command line and the environment give text, and the file gives TOML. Both follow the same rules
//! and report the same errors: what a value must be.

use crate::request::networks::{self, Networks};
use clap::builder::ValueParser;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;

/// The type of an option's value.
pub(crate) trait OptionValue: Clone + Send + Sync + Sized + 'static {
    /// Whether the option may be given without a value, for `true`.
    const IS_SWITCH: bool = false;
    /// Whether the option may stand several times.
    const IS_LIST: bool = false;

    /// Reads the value from the command line or the environment.
    ///
    /// # Errors
    /// What the value must be.
    fn of_text(text: &str) -> Result<Self, String>;

    /// Reads the value from the file.
    ///
    /// # Errors
    /// As [`of_text`](Self::of_text).
    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::of_text(text),
            None => Err(IN_QUOTES.into()),
        }
    }

    /// Returns clap's parser of the value.
    fn parser() -> ValueParser {
        ValueParser::new(|text: &str| Self::of_text(text))
    }

    /// Joins two values of an option that stands several times.
    fn and(self, later: Self) -> Self {
        later
    }

    /// Returns the value of an option that has no fixed default.
    fn absent() -> Option<Self> {
        None
    }
}

pub(crate) const IN_QUOTES: &str = "must be text in quotes";

/// A number of things. The limit catches typing errors.
pub(crate) type Count = Whole<usize, 0, 1_000_000_000>;
/// A number of things of which at least one is required.
pub(crate) type AtLeastOne = Whole<usize, 1, 1_000_000_000>;
/// A number of threads.
pub(crate) type Threads = Whole<usize, 1, 1024>;
pub(crate) type Port = Whole<u16, 0, 65_535>;
/// A process id. The limit is Linux's.
pub(crate) type Pid = Whole<u32, 1, 4_194_304>;
/// The size of a request's head in bytes. The lower limit is what browsers may send.
pub(crate) type HeadSize = Whole<usize, 8192, 1_048_576>;
/// The size of a buffer in memory, in bytes.
pub(crate) type BufferSize = Whole<usize, 0, 1_073_741_824>;
/// The size of a body in bytes, up to a pebibyte.
pub(crate) type BodySize = Whole<u64, 0, { 1 << 50 }>;

/// The size of a WebSocket message in bytes, which is always bounded.
pub(crate) type MessageSize = Whole<u64, 1, 1_073_741_824>;

/// A whole number within bounds, which its errors name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Whole<T, const MIN: u64, const MAX: u64>(pub(crate) T);

impl<T, const MIN: u64, const MAX: u64> OptionValue for Whole<T, MIN, MAX>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    fn of_text(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|n| (MIN..=MAX).contains(n));
        let number = number.and_then(|n| T::try_from(n).ok());
        number.map(Whole).ok_or_else(|| format!("must be a whole number from {MIN} to {MAX}"))
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        Self::of_text(&decimal(value).unwrap_or_default())
    }
}

impl<T: Copy + Default + PartialEq, const MIN: u64, const MAX: u64> Whole<T, MIN, MAX> {
    /// Returns the number as a limit. The options have Passenger's convention, in which 0 is no limit.
    pub(crate) fn limit(self) -> Option<T> {
        (self.0 != T::default()).then_some(self.0)
    }
}

/// Returns an integer in decimal digits. TOML also has hexadecimal, octal and binary ones.
fn decimal(value: &DeValue<'_>) -> Option<String> {
    let number = value.as_integer()?;
    let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
    Some(number.to_string())
}

/// A time in seconds, with fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl Seconds {
    /// Returns the time as a limit; 0 is no limit.
    pub(crate) fn limit(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

impl OptionValue for Seconds {
    fn of_text(text: &str) -> Result<Self, String> {
        // A billion seconds are 31 years. More is a typing error, and would overflow an `Instant`.
        let seconds = text.parse().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
        let time = seconds.map(|seconds| Seconds(Duration::from_secs_f64(seconds)));
        time.ok_or_else(|| "must be a number of seconds from 0 to 1000000000".into())
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let fraction = || value.as_float().map(|number| number.as_str().to_owned());
        Self::of_text(&decimal(value).or_else(fraction).unwrap_or_default())
    }
}

impl OptionValue for bool {
    const IS_SWITCH: bool = true;

    fn of_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "must be true or false".into())
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| "must be true or false".into())
    }
}

impl OptionValue for String {
    fn of_text(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
}

impl OptionValue for PathBuf {
    fn of_text(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    /// On the command line, a path need not be UTF-8.
    fn parser() -> ValueParser {
        ValueParser::path_buf()
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    const IS_SWITCH: bool = T::IS_SWITCH;
    const IS_LIST: bool = T::IS_LIST;

    fn of_text(text: &str) -> Result<Self, String> {
        T::of_text(text).map(Some)
    }

    fn of_toml(value: &DeValue<'_>) -> Result<Self, String> {
        T::of_toml(value).map(Some)
    }

    fn and(self, later: Self) -> Self {
        match (self, later) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => other.or(one),
        }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl OptionValue for Networks {
    fn of_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|networks::Invalid| networks::RULE.into())
    }
}

/// Defines a type with a few named values.
macro_rules! names {
    ($(#[$about:meta])* $type:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $type {
            $($(#[$of_variant])* $variant,)+
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($type::$variant => $name,)+
                })
            }
        }

        impl $crate::configuration::values::OptionValue for $type {
            fn of_text(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok($type::$variant),)+
                    _ => Err(concat!("must be one of", $(" ", $name, ","),+).trim_end_matches(',').into()),
                }
            }

            fn of_toml(value: &toml::de::DeValue<'_>) -> Result<Self, String> {
                match value.as_str() {
                    Some(text) => Self::of_text(text),
                    None => Err(concat!("must be one of", $(" \"", $name, "\","),+).trim_end_matches(',').into()),
                }
            }
        }
    };
}

names! {
    /// The least severe level that is logged.
    LogLevel { Error = "error", Warn = "warn", Info = "info", Debug = "debug", Trace = "trace" }
}

names! {
    /// The format of log lines.
    LogFormat { Text = "text", Json = "json" }
}

names! {
    /// How the processes of an application start.
    SpawnMethod {
        /// Each loads the application.
        Direct = "direct",
        /// A preloader loads the application and forks them, if the language has one.
        Smart = "smart",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_fractions_and_are_neither_negative_nor_infinite() {
        assert_eq!(Seconds::of_text("0.05").unwrap().0, Duration::from_millis(50));
        assert_eq!(Seconds::of_text("300").unwrap().0, Duration::from_secs(300));
        for bad in ["-1", "NaN", "inf", "1e12", "soon", ""] {
            assert!(Seconds::of_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_stay_within_their_bounds() {
        assert_eq!(Port::of_text("0").unwrap().0, 0);
        assert_eq!(Port::of_text("65535").unwrap().0, 65535);
        assert_eq!(AtLeastOne::of_text("1").unwrap().0, 1);
        for bad in ["65536", "-1", "1.5", "", "x", "99999999999999999999"] {
            assert!(Port::of_text(bad).is_err(), "{bad}");
        }
        assert_eq!(
            AtLeastOne::of_text("0").unwrap_err(),
            "must be a whole number from 1 to 1000000000"
        );
    }

    #[test]
    fn names_are_listed_in_the_error() {
        assert_eq!(LogFormat::of_text("json"), Ok(LogFormat::Json));
        assert_eq!(LogFormat::of_text("xml").unwrap_err(), "must be one of text, json");
    }

    #[test]
    fn a_file_follows_the_same_rules() {
        fn read<T: OptionValue>(text: &str) -> Result<T, String> {
            T::of_toml(DeValue::parse(text).unwrap().get_ref())
        }
        assert_eq!(read("7"), Ok(Whole::<usize, 1, 9>(7)));
        assert_eq!(read("\"text\""), Ok(LogFormat::Text));
        let names = "must be one of \"text\", \"json\"";
        assert_eq!(read::<LogFormat>("3"), Err(names.into()));
        assert_eq!(read("1_0"), Ok(Whole::<usize, 1, 10>(10)));
        assert_eq!(read("0.5"), Ok(Seconds(Duration::from_millis(500))));
        assert_eq!(read("2"), Ok(Seconds(Duration::from_secs(2))));
        assert_eq!(read("true"), Ok(true));
        assert_eq!(read("'x'"), Ok(Some("x".to_owned())));
        for (text, number) in [("0x10", 16), ("0o17", 15), ("0b11", 3), ("0xf_f", 255), ("+7", 7)] {
            assert_eq!(read(text), Ok(Whole::<usize, 1, 255>(number)), "{text}");
            assert_eq!(read(text), Ok(Seconds(Duration::from_secs(number as u64))), "{text}");
        }
        for wrong in
            ["'7'", "-7", "7.0", "true", "0xa", "0x0", "0xffffffffffffffffffffffffffffffffff"]
        {
            assert!(read::<Whole<usize, 1, 9>>(wrong).unwrap_err().contains("from 1 to 9"));
        }
        for wrong in ["'7'", "-7", "inf", "true", "0xffffffff", "1979-05-27"] {
            assert!(read::<Seconds>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read::<bool>("1"), Err("must be true or false".into()));
        assert_eq!(read::<Networks>("3"), Err(IN_QUOTES.into()));
    }
}
