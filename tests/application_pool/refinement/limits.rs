//! Limits that the specification does not have, told in its own actions: the time of a get in the queue, the time limit
//! of a caller, and the throttle of looks at the restart files.
//!
//! - A get whose time in the queue has ended gives up in the next pass of the cleaner, in the order of these ends.
//! - A caller whose time limit has passed gives up as soon as the clock has moved.
//! - While a look may be used again, a change of its restart file has not happened yet.

use cabrank_spec::application_pool::configuration::Config;
use cabrank_spec::application_pool::pool::{Action, At, Pool};
use std::collections::BTreeMap;
use std::time::Duration;

/// A world of the specification, and the limits that it does not have.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) config: Config,
    /// In seconds, by the sets of options.
    pub(crate) queue_times: Vec<Option<u8>>,
    /// In seconds; 0: each get looks.
    pub(crate) throttle: u8,
}

impl World {
    /// Returns the queue time of a set of options in quarters of a second: those of two groups never end at once.
    pub(crate) fn queue_time(&self, group: usize, options: usize) -> Option<i64> {
        let seconds = self.queue_times[(group + options) % self.queue_times.len()]?;
        Some(4 * i64::from(seconds) + i64::try_from(group).expect("few groups"))
    }
    pub(crate) fn throttle(&self) -> Duration {
        Duration::from_secs(self.throttle.into())
    }
}

pub(crate) fn quarters(quarters: i64) -> Duration {
    Duration::from_millis(250 * u64::try_from(quarters).expect("not negative"))
}

/// The get of one client.
#[derive(Clone, Copy, Default)]
struct Get {
    /// The queue time of its options, in quarters of a second.
    queue_time: Option<i64>,
    /// When its time in the queue ends, once it has waited.
    until: Option<i64>,
    /// Its time in the queue has ended.
    too_long: bool,
}

/// The limits of one run.
pub(crate) struct Limits {
    gets: Vec<Get>,
    /// The client that waits with a time limit of its own, and when that ends.
    timed: Option<(usize, i64)>,
    throttle: i64,
    /// When each directory was looked at last.
    looks: BTreeMap<usize, i64>,
    /// Changes of each restart file since its last look.
    unseen: BTreeMap<usize, Vec<Action>>,
}

impl Limits {
    pub(crate) fn new(world: &World) -> Limits {
        Limits {
            gets: vec![Get::default(); world.config.clients.len()],
            timed: None,
            throttle: world.throttle.into(),
            looks: BTreeMap::new(),
            unseen: BTreeMap::new(),
        }
    }

    /// A client begins a get with options of this queue time.
    pub(crate) fn begins(&mut self, client: usize, queue_time: Option<i64>) {
        self.gets[client] = Get { queue_time, ..Get::default() };
    }
    /// Notes which clients have begun to wait, after each step of the specification.
    pub(crate) fn note(&mut self, spec: &Pool) {
        for (get, client) in self.gets.iter_mut().zip(&spec.clients) {
            if let (At::Waiting(_), None, Some(time)) = (client.at, get.until, get.queue_time) {
                get.until = Some(4 * spec.now + time);
            }
        }
    }
    /// Returns the clients that may be late in the queue, the first to be late first.
    pub(crate) fn late(&mut self, spec: &Pool) -> Vec<usize> {
        let until = |client: &usize| self.gets[*client].until;
        let waits = |client: &usize| matches!(spec.clients[*client].at, At::Waiting(_));
        let is_late = |client: &usize| until(client).is_some_and(|until| until <= 4 * spec.now);
        let mut late: Vec<_> = (0..self.gets.len()).filter(waits).filter(is_late).collect();
        late.sort_by_key(until);
        late
    }
    /// These gets have ended in the pass, unless they were served before.
    pub(crate) fn note_late(&mut self, late: &[usize], spec: &Pool) {
        for &client in late {
            self.gets[client].too_long = spec.clients[client].at == At::Out;
        }
    }
    pub(crate) fn is_too_long(&self, client: usize) -> bool {
        self.gets[client].too_long
    }

    /// Whether a client may wait with a time limit: one at a time, so that two never end at once.
    pub(crate) fn may_be_timed(&self) -> bool {
        self.timed.is_none()
    }
    pub(crate) fn is_timed(&mut self, client: usize, until: i64) {
        self.timed = Some((client, until));
    }
    pub(crate) fn has_ended(&mut self, client: usize) {
        self.timed = self.timed.filter(|(timed, _)| *timed != client);
    }
    /// Returns the client whose time limit has passed while it waits.
    pub(crate) fn timed_out(&self, spec: &Pool) -> Option<usize> {
        let (client, until) = self.timed?;
        let waits = matches!(spec.clients[client].at, At::Waiting(_));
        (waits && until <= spec.now).then_some(client)
    }

    /// A restart file changes.
    pub(crate) fn changes(&mut self, dir: usize, action: Action) {
        self.unseen.entry(dir).or_default().push(action);
    }
    /// Returns the changes that the next get in this directory sees. Only `pre_start` looks anew in any case.
    pub(crate) fn sees(&mut self, dir: usize, now: i64, anew: bool) -> Vec<Action> {
        let is_recent = |at: &i64| now - at < self.throttle;
        if !anew && self.looks.get(&dir).is_some_and(is_recent) {
            return Vec::new();
        }
        self.looks.insert(dir, now);
        self.unseen.remove(&dir).unwrap_or_default()
    }
}
