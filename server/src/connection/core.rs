//! The data of one core: its share of the connections, and what requests of that core use again.

use crate::client::Heads;
use crate::connection::input::Input;
use crate::connection::sweep::Sweep;
use crate::exchange::serving::Serving;
use crate::lane::reply_head::ReplyHead;
use crate::request::head::Head;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest number of buffer sets that a core keeps.
const MAX_RECYCLED: usize = 64;

/// One core. Its thread has a runtime of its own, so that a request never changes threads.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) serving: Arc<Serving>,
    /// The number of the core, which is a part of the keys of its connections to processes.
    pub(crate) index: usize,
    pub(crate) sweep: Arc<Sweep>,
    /// The number of clients' connections of this core.
    connections: AtomicUsize,
    recycled: Mutex<Vec<Scratch>>,
}

/// The head and the buffers of one request.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) head: Head,
    pub(crate) heads: Heads,
    pub(crate) bytes: Bytes,
}

/// The buffers of one request.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    /// Bytes of the client: the rest of the request, and those that follow it.
    pub(crate) input: Input,
    pub(crate) reply: ReplyHead,
    /// Bytes for the application.
    pub(crate) to_app: Vec<u8>,
    /// Bytes of the application.
    pub(crate) from_app: Input,
    /// Bytes for the client.
    pub(crate) to_client: Vec<u8>,
}

impl Core {
    pub(crate) fn new(serving: Arc<Serving>, index: usize) -> Self {
        let sweep = Arc::new(Sweep::new(serving.sweep_pause()));
        let (connections, recycled) = Default::default();
        Core { serving, index, sweep, connections, recycled }
    }

    fn recycled(&self) -> MutexGuard<'_, Vec<Scratch>> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid list.
        self.recycled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns empty buffers.
    pub(crate) fn scratch(&self) -> Scratch {
        self.recycled().pop().unwrap_or_default()
    }

    /// Takes buffers back.
    pub(crate) fn recycle(&self, mut scratch: Scratch) {
        scratch.clear();
        let mut recycled = self.recycled();
        if recycled.len() < MAX_RECYCLED {
            recycled.push(scratch);
        }
    }

    /// Returns the number of clients' connections of this core.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts a connection of this core.
    pub(crate) fn opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a connection of this core.
    pub(crate) fn closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Scratch {
    fn clear(&mut self) {
        let Scratch { head, heads, bytes } = self;
        let Bytes { input, reply, to_app, from_app, to_client } = bytes;
        heads.clear();
        input.shrink();
        from_app.shrink();
        head.clear();
        reply.clear();
        for buffer in [to_app, to_client] {
            shrink(buffer);
        }
    }
}

/// Empties a buffer, and releases one that a large message has made large.
pub(crate) fn shrink(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > 128 * 1024 {
        *buffer = Vec::new();
    }
}
