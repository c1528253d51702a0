//! The thread that forks application processes.
//!
//! The kernel kills a process with a parent-death signal when the thread that forked it ends, not when
//! the server does. The pool's threads come and go, so one thread of its own forks, and never ends.

use crate::children::{AppChild, Children};
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread;

type Born = io::Result<(AppChild, Child)>;
type Order = (Command, SyncSender<Born>);

/// Starts processes on its own thread.
#[derive(Debug)]
pub(crate) struct Forker(Sender<Order>);

impl Forker {
    /// Starts the thread. It adds each process to `children`.
    pub(crate) fn start(children: Arc<Children>) -> io::Result<Forker> {
        let (orders, incoming) = channel::<Order>();
        thread::Builder::new().name("fork".into()).spawn(move || {
            for (mut command, answer) in incoming {
                let child = children.start(&mut command);
                // The command holds the child's end of its channels, so it goes first.
                drop(command);
                let _ = answer.send(child);
            }
            // The processes of the last orders may still be alive.
            loop {
                thread::park();
            }
        })?;
        Ok(Forker(orders))
    }

    /// Starts a process, and waits until it executes.
    pub(crate) fn spawn(&self, command: Command) -> Born {
        let ended = || io::Error::other("the thread that starts processes has ended");
        let (answer, child) = sync_channel(1);
        self.0.send((command, answer)).map_err(|_| ended())?;
        child.recv().map_err(|_| ended())?
    }
}
