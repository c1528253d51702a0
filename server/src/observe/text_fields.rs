//! The fields of a log line in text: those that its message does not name.

use std::error::Error;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// The fields for programs that read the log as JSON. Each message names them in words.
const IN_WORDS: [&str; 2] = ["pid", "stream"];

/// Formats fields as the subscriber does by default, without [`IN_WORDS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut rest = Rest(DefaultVisitor::new(writer, true));
        fields.record(&mut rest);
        rest.0.finish()
    }
}

/// Visits the fields that are left.
struct Rest<'w>(DefaultVisitor<'w>);

impl Rest<'_> {
    fn has(field: &Field) -> bool {
        !IN_WORDS.contains(&field.name())
    }
}

impl Visit for Rest<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if Rest::has(field) {
            self.0.record_str(field, value);
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        if Rest::has(field) {
            self.0.record_error(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if Rest::has(field) {
            self.0.record_debug(field, value);
        }
    }
}
