//! The parts of the server that requests need.

use crate::configuration::ServerLimits;
use crate::exchange::buffers::Buffers;
use crate::exchange::served::Served;
use crate::request::head::Head;
use crate::request::trust::Trust;
use cabrank_spawner::connections::Connections;
use std::sync::Arc;
use std::time::Duration;

/// The parts of the server that requests need.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) limits: ServerLimits,
    /// The proxies whose word on the client's address and scheme counts.
    pub(crate) trust: Trust,
    pub(crate) buffers: Buffers,
    /// The connections to the processes of all applications.
    pub(crate) connections: Connections,
    /// At least one.
    pub(crate) applications: Vec<Arc<Served>>,
}

impl Serving {
    /// Returns the application that a request with this head asks.
    pub(crate) fn application_of(&self, _: &Head) -> &Arc<Served> {
        &self.applications[0]
    }

    /// Returns how often a core looks at the time-outs of its connections.
    pub(crate) fn sweep_pause(&self) -> Duration {
        let works = self.applications.iter().filter_map(|served| served.max_request_time);
        self.limits.timeouts.sweep_pause(works)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::played::{LIMITS, Played};
    use crate::exchange::processes::Processes;
    use crate::request::spool::Directory;
    use std::path::Path;
    use tokio::runtime::Handle;

    #[tokio::test]
    async fn the_shortest_limit_of_all_applications_decides_how_often_a_core_looks() {
        let served = |millis| {
            Arc::new(Served {
                processes: Processes::Played(Played::default()),
                max_request_time: Some(Duration::from_millis(millis)),
                retries: true,
                underscores: false,
                base_uri: String::new(),
                has_noted_outside: false.into(),
                shows_details: false,
            })
        };
        let connections = Connections::new(Handle::current(), 1).unwrap();
        for limits in [[100, 5000], [5000, 100]] {
            let serving = Serving {
                limits: LIMITS,
                trust: Trust::default(),
                buffers: Buffers::new(Directory::Fixed(Path::new("/").into()), &LIMITS),
                connections: connections.clone(),
                applications: limits.map(served).into(),
            };
            assert_eq!(serving.sweep_pause(), Duration::from_millis(25), "{limits:?}");
        }
    }
}
