//! Logs: `tracing` to standard error or to a file, as text or as JSON.
//!
//! The output of applications has a target of its own, which no level drops: a traceback is as important
//! as any error, and the server cannot tell it from other output.
//!
//! Lines go through a [queue](crate::observe::log_queue), so that no task waits for the reader of the log.

use crate::configuration::Log;
use crate::configuration::values::{LogFormat, LogLevel};
use crate::failure::Failure;
use crate::observe::log_file::LogFile;
use crate::observe::log_queue::Queue;
use crate::observe::plain;
use crate::observe::text_fields::TextFields;
use cabrank_spawner::APP_OUTPUT;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

static QUEUE: Queue = Queue::new();
/// Whether the queue leads to a file.
static HAS_FILE: AtomicBool = AtomicBool::new(false);

/// The longest time that the server waits at its end for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Installs the `tracing` subscriber and the panic hook. Call it once.
///
/// # Errors
/// The file of the log cannot be opened, or the thread of the log cannot be started.
pub(crate) fn init(log: &Log) -> Result<(), Failure> {
    match &log.file {
        None => QUEUE.start(io::stderr(), report_lost),
        Some(path) => {
            let file = LogFile::open(path).map_err(|e| {
                let path = path.display();
                Failure::usage(format!(
                    "cannot log to {path}: {e}. Name another file with --log-file."
                ))
            })?;
            HAS_FILE.store(true, Relaxed);
            QUEUE.start(file, report_lost)
        }
    }
    .map_err(Failure::no_threads)?;
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let app_output = if log.app_output { LevelFilter::INFO } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(level).with_target(APP_OUTPUT, app_output);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(|| &QUEUE)
        .with_ansi(log.file.is_none() && io::stderr().is_terminal())
        .with_target(false)
        // The subscriber would print its own errors to standard error, past the queue.
        .log_internal_errors(false);
    // An error means that a subscriber is installed already; it stays.
    let registry = tracing_subscriber::registry();
    let _ = match log.format {
        LogFormat::Text => {
            registry.with(layer.fmt_fields(TextFields).with_filter(filter)).try_init()
        }
        LogFormat::Json => {
            registry.with(layer.json().flatten_event(true).with_filter(filter)).try_init()
        }
    };
    // The default hook writes to standard error directly, and would wait there.
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Logs the number of lost lines. It is an error at every level, because the lines may have been errors.
fn report_lost(lines: usize) {
    tracing::error!(
        "log lines lost: {lines}. The reader of the log did not take them in time, or the disk is full. Read it faster, or log \
         less (--log-level, --app-output=false)."
    );
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("(no message)");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!("cabrank has a bug and panicked at {place}: {message}");
}

/// Prints the last message of a command, without dropping it.
pub(crate) fn final_message(text: &str) {
    let text = format!("{}\n", plain::text(text));
    if QUEUE.is_started() {
        QUEUE.line_kept(text.as_bytes());
    }
    if !QUEUE.is_started() || HAS_FILE.load(Relaxed) {
        // If this write fails, the exit code still reports the failure.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Waits for the last lines to be written, for at most [`FLUSH_TIMEOUT`]. Call it last.
pub(crate) fn flush() {
    QUEUE.flush(FLUSH_TIMEOUT);
}
