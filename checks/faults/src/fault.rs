//! A fault: how it is planted, and what it may cost.

use crate::app::App;
use crate::healthy::Healthy;
use crate::server::Server;
use crate::setup::Setup;
use std::time::Duration;

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
