//! The server's configuration.
//!
//! [`cli`] declares the options and [`file`](mod@file) reads `cabrank.toml`. [`settings`] merges the two.
//! [`app_type`](cabrank_spawner::app_type) finds the application, [`environment`] finds its environment, [`custom_types`] reads the
//! definitions of types, [`regular_file`] checks a file before it is opened, and [`source`] finds the source of a value for error messages.

pub(crate) mod cli;
pub(crate) mod custom_types;
pub(crate) mod environment;
pub(crate) mod file;
pub(crate) mod limits;
pub(crate) mod regular_file;
pub(crate) mod settings;
pub(crate) mod source;
pub(crate) mod values;

pub(crate) use limits::ServerLimits;
pub(crate) use settings::Settings;
