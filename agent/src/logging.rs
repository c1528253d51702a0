//! Logs: `tracing` to standard error, as text or as JSON, by way of a [queue](crate::log_queue): no
//! task waits for whoever reads them.

use crate::config::values::{LogFormat, LogLevel};
use crate::log_queue::Queue;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

static QUEUE: Queue = Queue::new();

/// How long the end of the program waits for the last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Sets up what `tracing` events go through. Call once.
pub(crate) fn init(level: LogLevel, format: LogFormat) -> io::Result<()> {
    QUEUE.start(io::stderr(), tell_of_lost)?;
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| &QUEUE)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // It would print them to standard error itself.
        .log_internal_errors(false);
    // An error here means that a subscriber is set already: then that one serves.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // The default hook writes to standard error itself, and would wait there.
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// An error, so that it is seen whatever the level is: the lines may have been errors.
fn tell_of_lost(lines: usize) {
    tracing::error!(
        "log lines lost: {lines}. Standard error did not take them in time: read it faster, or log \
         less (--log-level)."
    );
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let what = panic.payload_as_str().unwrap_or("(no message)");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!("an error of cabrank itself, at {place}: {what}");
}

/// Prints what a command has to say at its end.
pub(crate) fn last_word(text: &str) {
    let text = format!("{text}\n");
    if QUEUE.is_started() {
        QUEUE.last_word(text.as_bytes());
    } else {
        // Nobody to tell if this fails, and the exit code says it too.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Gives the last lines a moment to be written. Call last.
pub(crate) fn flush() {
    QUEUE.flush(LAST_LINES);
}
