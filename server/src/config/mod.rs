//! The server's configuration.
//!
//! [`cli`] declares the options and [`file`](mod@file) reads `cabrank.toml`. [`settings`] merges the two.
//! [`app_type`](cabrank_spawner::app_type) finds the application, [`environment`] finds its environment, [`custom_types`] reads the
//! definitions of types, [`networks`] parses the trusted proxies, and [`origin`] finds the source of a value for error messages.

pub(crate) mod cli;
pub(crate) mod custom_types;
pub(crate) mod environment;
pub(crate) mod file;
pub(crate) mod networks;
pub(crate) mod origin;
pub(crate) mod settings;
pub(crate) mod values;

pub(crate) use settings::Settings;
