//! The sections `[app_type.NAME]` of `cabrank.toml`, which define types of applications.
//!
//! The key `app_type` names a type, and the sections of the same name define types. So a file has either of them.

use crate::configuration::values::Count;
use cabrank_spawner::Protocol;
use cabrank_spawner::app_type::CustomType;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;

/// The description of a section in errors of the parser.
pub(crate) const SECTION: &str = "a section [app_type.NAME]";

/// The value of the option `app_type`.
#[derive(Clone, Debug)]
pub(crate) enum AppTypeOption {
    /// The name of a type.
    Name(String),
    /// Types that the file defines.
    Definitions(Vec<Definition>),
}

/// One section, with the places of its values in the file.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    name: String,
    keys: Keys,
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section [app_type.NAME]")]
struct Keys {
    startup_file: Option<Spanned<String>>,
    loader: Option<Spanned<PathBuf>>,
    interpreter: Option<PathBuf>,
    preloader: Option<Spanned<PathBuf>>,
    title: Option<Spanned<String>>,
    protocol: Option<SocketProtocol>,
    concurrency: Option<Count>,
}

/// The protocols that a socket `main` may have.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum SocketProtocol {
    Session,
    HttpSession,
}

impl AppTypeOption {
    /// Returns the name of a type.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            AppTypeOption::Name(name) => Some(name),
            AppTypeOption::Definitions(_) => None,
        }
    }
}

impl FromStr for AppTypeOption {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(AppTypeOption::Name(text.into()))
    }
}

impl<'de> Deserialize<'de> for AppTypeOption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = AppTypeOption;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a type in quotes")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<AppTypeOption, E> {
                Ok(AppTypeOption::Name(name.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AppTypeOption, A::Error> {
                let mut definitions = Vec::new();
                while let Some(name) = map.next_key()? {
                    definitions.push(Definition { name, keys: map.next_value()? });
                }
                Ok(AppTypeOption::Definitions(definitions))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// An error in a section: its place, as far as it is a value's, and its text.
pub(crate) struct Invalid {
    pub(crate) span: Option<Range<usize>>,
    pub(crate) text: String,
}

impl Definition {
    /// Returns the type, for applications in `root`.
    pub(crate) fn custom_type(&self, root: &Path) -> Result<CustomType, Invalid> {
        let (name, keys) = (&self.name, &self.keys);
        let missing = |key: &str, meaning: &str| Invalid {
            span: None,
            text: format!("the section [app_type.{name}] has no {key}. Add {key} = {meaning}."),
        };
        let Some(startup_file) = &keys.startup_file else {
            return Err(missing("startup_file", "\"FILE\", the file that such applications have"));
        };
        let Some(loader) = &keys.loader else {
            return Err(missing("loader", "\"FILE\", the program that loads them"));
        };
        let custom = CustomType {
            name: name.clone(),
            startup_file: startup_file.get_ref().clone(),
            loader: loader.get_ref().clone(),
            interpreter: keys.interpreter.clone(),
            preloader: keys.preloader.as_ref().map(|preloader| preloader.get_ref().clone()),
            title: keys.title.as_ref().map(|title| title.get_ref().clone()),
            protocol: keys.protocol.map(|protocol| match protocol {
                SocketProtocol::Session => Protocol::Session,
                SocketProtocol::HttpSession => Protocol::HttpSession,
            }),
            concurrency: keys.concurrency.map(|n| n.0),
        };
        custom.check(root).map_err(|invalid| {
            let span = match invalid.key {
                "startup_file" => Some(startup_file.span()),
                "loader" => Some(loader.span()),
                "preloader" => keys.preloader.as_ref().map(Spanned::span),
                "title" => keys.title.as_ref().map(Spanned::span),
                _ => None,
            };
            let what = match invalid.key {
                "name" => format!("the name {name} in [app_type.{name}]"),
                key => format!("bad value for {key} in [app_type.{name}]:"),
            };
            Invalid { span, text: format!("{what} {}.", invalid.problem) }
        })?;
        Ok(custom)
    }

    /// Returns the header of the section.
    pub(crate) fn header(&self) -> String {
        format!("[app_type.{}]", self.name)
    }
}
