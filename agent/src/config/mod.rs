//! What the agent is told to do: [`cli`] declares the options, [`file`](mod@file) reads
//! `cabrank.toml`, [`settings`] lays one over the other, [`app_type`] finds out what is to be served.
//! [`origin`] says where a value came from.

pub(crate) mod app_type;
pub(crate) mod cli;
pub(crate) mod file;
pub(crate) mod origin;
pub(crate) mod settings;
pub(crate) mod values;

pub(crate) use settings::Settings;
