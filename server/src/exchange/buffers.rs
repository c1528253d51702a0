//! The place of bodies and answers that do not fit into memory.

use crate::configuration::ServerLimits;
use crate::observe::rare::Rare;
use crate::request::spool::{Directory, SpoolLimits};

/// The number of bytes of an answer, or of a body on its way to the application, that wait in memory.
pub(crate) const IN_MEMORY: usize = 64 * 1024;

/// The bounds of what waits in files, and their directory.
#[derive(Debug)]
pub(crate) struct Buffers {
    directory: Directory,
    request_in_memory: usize,
    request_in_file: u64,
    answer_in_file: u64,
    /// The line that says that the disk is full.
    full: Rare,
}

impl Buffers {
    pub(crate) fn new(directory: Directory, limits: &ServerLimits) -> Self {
        Buffers {
            directory,
            // Without any room no byte of a body could pass.
            request_in_memory: match limits.buffer_request {
                0 => IN_MEMORY,
                buffered => buffered,
            },
            request_in_file: limits.max_buffered_request,
            answer_in_file: limits.max_buffered_answer,
            full: Rare::default(),
        }
    }

    /// Logs that a request or an answer cannot be buffered in a file.
    pub(crate) fn no_space(&self, what: &str, e: &std::io::Error) {
        self.full.log(|left_out| {
            tracing::error!(
                "{what} cannot be buffered in {}: {e} ({left_out} more since the last such line)",
                self.directory
            );
        });
    }

    fn limits(&self, memory: usize, file: u64) -> SpoolLimits {
        SpoolLimits { memory, file, directory: self.directory.clone() }
    }

    /// Returns the bounds of a request's body.
    pub(crate) fn request(&self) -> SpoolLimits {
        self.limits(self.request_in_memory, self.request_in_file)
    }

    /// Returns the bounds of an answer, beyond what waits in memory anyway.
    pub(crate) fn answer(&self) -> SpoolLimits {
        self.limits(IN_MEMORY, self.answer_in_file)
    }
}
