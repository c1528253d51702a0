//! The types of option values.
//!
//! The command line and the environment give text, and the file gives TOML. Both follow the same rules
//! and report the same errors.

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

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

/// A whole number within bounds, which its errors name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Whole<T, const MIN: u64, const MAX: u64>(pub(crate) T);

impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Whole<T, MIN, MAX> {
    fn checked(number: u64) -> Option<Self> {
        let in_bounds = Some(number).filter(|n| (MIN..=MAX).contains(n));
        in_bounds.and_then(|n| T::try_from(n).ok()).map(Whole)
    }
    fn rule() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }
}

impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> FromStr for Whole<T, MIN, MAX> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok();
        number.and_then(Self::checked).ok_or_else(|| format!("must be {}", Self::rule()))
    }
}

impl<'de, T: TryFrom<u64>, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<T, const MIN: u64, const MAX: u64>(PhantomData<T>);
        impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Visitor<'_> for V<T, MIN, MAX> {
            type Value = Whole<T, MIN, MAX>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&Self::Value::rule())
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Self::Value, E> {
                let value = u64::try_from(v).ok().and_then(Self::Value::checked);
                value.ok_or_else(|| E::invalid_value(Unexpected::Signed(v), &self))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Self::Value, E> {
                let value = Self::Value::checked(v);
                value.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(v), &self))
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}

/// A time in seconds, with fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl Seconds {
    const RULE: &str = "a number of seconds from 0 to 1000000000";

    fn checked(seconds: f64) -> Option<Self> {
        // A billion seconds are 31 years. More is a typing error, and would overflow an `Instant`.
        (0.0..=1e9).contains(&seconds).then(|| Seconds(Duration::from_secs_f64(seconds)))
    }
}

impl FromStr for Seconds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.parse().ok();
        seconds.and_then(Seconds::checked).ok_or_else(|| format!("must be {}", Self::RULE))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Seconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Seconds::RULE)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Seconds, E> {
                self.visit_f64(v as f64)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Seconds, E> {
                self.visit_f64(v as f64)
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Seconds, E> {
                Seconds::checked(v).ok_or_else(|| E::invalid_value(Unexpected::Float(v), &self))
            }
        }
        d.deserialize_any(V)
    }
}

/// The IP address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Address(pub(crate) IpAddr);

impl FromStr for Address {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, &'static str> {
        text.parse().map(Address).map_err(|_| {
            "must be an IP address without a port, such as 127.0.0.1 (this machine only) or 0.0.0.0 \
             (all networks); set the port with --port"
        })
    }
}

impl TryFrom<String> for Address {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse()
    }
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// Whether the log has the output of applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppOutput {
    Logged,
    Dropped,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How the processes of an application start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SpawnMethod {
    /// Each loads the application.
    #[default]
    Direct,
    /// A preloader loads the application and forks them, if the language has one.
    Smart,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_fractions_and_are_neither_negative_nor_infinite() {
        assert_eq!("0.05".parse::<Seconds>().unwrap().0, Duration::from_millis(50));
        assert_eq!("300".parse::<Seconds>().unwrap().0, Duration::from_secs(300));
        for bad in ["-1", "NaN", "inf", "1e12", "soon", ""] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_stay_within_their_bounds() {
        assert_eq!("0".parse::<Port>().unwrap().0, 0);
        assert_eq!("65535".parse::<Port>().unwrap().0, 65535);
        assert_eq!("1".parse::<AtLeastOne>().unwrap().0, 1);
        for bad in ["65536", "-1", "1.5", "", "x", "99999999999999999999"] {
            assert!(bad.parse::<Port>().is_err(), "{bad}");
        }
        assert_eq!(
            "0".parse::<AtLeastOne>().unwrap_err(),
            "must be a whole number from 1 to 1000000000"
        );
    }
}
