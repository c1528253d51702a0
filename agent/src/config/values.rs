//! Values of options that need more than a number: parsed from text for the command line and the
//! environment, and from TOML for the file, by the same rules.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time in seconds; fractions are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl Seconds {
    fn checked(seconds: f64) -> Result<Self, String> {
        // A billion seconds are 31 years: more is a slip, and would overflow when added to a clock.
        if (0.0..=1e9).contains(&seconds) {
            Ok(Seconds(Duration::from_secs_f64(seconds)))
        } else {
            Err("must be a number of seconds from 0 to 1000000000".into())
        }
    }
}

impl FromStr for Seconds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Seconds::checked(text.parse().unwrap_or(f64::NAN))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Seconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Seconds, E> {
                Seconds::checked(v as f64).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Seconds, E> {
                Seconds::checked(v as f64).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Seconds, E> {
                Seconds::checked(v).map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}

/// How much is logged.
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

/// In which form it is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_whole_or_not_and_never_negative_or_endless() {
        assert_eq!("0.05".parse::<Seconds>().unwrap().0, Duration::from_millis(50));
        assert_eq!("300".parse::<Seconds>().unwrap().0, Duration::from_secs(300));
        for bad in ["-1", "NaN", "inf", "1e12", "soon", ""] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }
}
