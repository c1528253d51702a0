//! Logs: `tracing` to standard error, as text or as JSON.

use crate::config::values::{LogFormat, LogLevel};
use std::io::IsTerminal;
use tracing_subscriber::filter::LevelFilter;

/// Sets up what `tracing` events go through. Call once.
pub(crate) fn init(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // An error here means that a subscriber is set already: then that one serves.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
