//! A fault: how it is planted, and what it may cost.

use crate::healthy::Healthy;
use crate::server::Server;
use std::time::Duration;

/// The kind of application that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// Three processes, each with one request at a time.
    Wsgi,
    /// Three processes, each with any number of requests.
    Node,
}

impl std::fmt::Display for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == App::Wsgi { "WSGI" } else { "Node" })
    }
}

pub(crate) const BOTH: &[App] = &[App::Wsgi, App::Node];
pub(crate) const WSGI: &[App] = &[App::Wsgi];

/// One fault.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The cost that no server could avoid.
    pub(crate) cost: &'static str,
    pub(crate) apps: &'static [App],
    /// Belongs to the quick rows.
    pub(crate) quick: bool,
    /// Makes sense for other servers.
    pub(crate) peers: bool,
    pub(crate) setup: Setup,
    pub(crate) plant: fn(&mut Scene<'_>) -> Result<Seen, String>,
}

/// The server's options and limits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    /// Options of `cabrank start`, left out where the binary has no such option.
    pub(crate) options: &'static [&'static str],
    /// The hard limit of descriptors.
    pub(crate) descriptors: Option<fn() -> usize>,
    /// The server's directory is on a disk of 1 MB.
    pub(crate) tiny_disk: bool,
    /// The processes run as the user `nobody`, who may have [`USER_PROCESSES`](crate::server::USER_PROCESSES). Only root can do this.
    pub(crate) limits_processes: bool,
    /// The interpreter is a script that may misbehave: see [`crate::app::set_interpreter`].
    pub(crate) own_interpreter: bool,
}

/// A server and its healthy clients, in which a fault is planted.
pub(crate) struct Scene<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) healthy: &'a Healthy,
    pub(crate) app: App,
    pub(crate) is_quick: bool,
}

impl Scene<'_> {
    /// Returns a number of seconds, or fewer if the row shall be quick.
    pub(crate) fn seconds(&self, full: u64, quick: u64) -> Duration {
        Duration::from_secs(if self.is_quick { quick } else { full })
    }
}

/// The results of the fault's own clients.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) text: String,
    /// The results that miss the goal.
    pub(crate) wrong: Vec<String>,
    /// The answer that healthy clients may get by nature.
    pub(crate) by_nature: Option<&'static str>,
}

impl Seen {
    pub(crate) fn new(text: impl Into<String>) -> Seen {
        Seen { text: text.into(), ..Seen::default() }
    }
    /// Adds a result that misses the goal, if it is so.
    pub(crate) fn wrong_if(mut self, is: bool, what: impl Into<String>) -> Seen {
        if is {
            self.wrong.push(what.into());
        }
        self
    }
}
