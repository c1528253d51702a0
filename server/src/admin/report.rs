//! The report of `cabrank status`: the pool's snapshot, and the data of its processes from `/proc`.

use crate::admin::administered::Administered;
use crate::configuration::application::Application;
use crate::listen::listener::Place;
use cabrank::application_pool::{GroupSnapshot, Identifier, ProcessSnapshot, Snapshot};
use cabrank_spawner::connections::Connections;
use cabrank_spawner::{Link, Pool};
use procfs::Current;
use procfs::process::Process as ProcProcess;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// The report of one server. Times are in seconds, memory in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) version: String,
    pub(crate) date: String,
    pub(crate) instance: u32,
    #[serde(default)]
    pub(crate) name: String,
    /// The first place where it listens: `127.0.0.1:3000`, or `unix:/run/app.sock`.
    pub(crate) address: String,
    /// All places where it listens: `http://127.0.0.1:3000`, `unix:/run/app.sock`.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    pub(crate) app_type: String,
    pub(crate) environment: String,
    pub(crate) uptime: f64,
    /// Whether the server finishes its requests, to end then.
    #[serde(default)]
    pub(crate) shutting_down: bool,
    pub(crate) memory: Option<u64>,
    pub(crate) max_pool_size: usize,
    pub(crate) processes: usize,
    pub(crate) active: usize,
    pub(crate) spawning: usize,
    pub(crate) draining: usize,
    pub(crate) requests_in_queue: usize,
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) app_root: String,
    /// The directory in which its latest process that became ready has started: the one that `app_root` named then, without links.
    #[serde(default)]
    pub(crate) release: Option<String>,
    /// Another directory, in which its next process starts: none has become ready there.
    #[serde(default)]
    pub(crate) next_release: Option<String>,
    pub(crate) environment: String,
    pub(crate) min_instances: usize,
    pub(crate) requests_in_queue: usize,
    pub(crate) spawning: bool,
    pub(crate) restarting: bool,
    /// The time until the next spawn attempt, after a failed one.
    pub(crate) back_off: Option<f64>,
    pub(crate) last_error: Option<String>,
    pub(crate) processes: Vec<Process>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: Option<u32>,
    pub(crate) identifier: u64,
    pub(crate) state: String,
    pub(crate) sessions: usize,
    pub(crate) processed: usize,
    /// The number of sessions that it takes at once; 0: any number.
    pub(crate) concurrency: usize,
    pub(crate) uptime: f64,
    pub(crate) last_used: f64,
    /// Percent of one processor, averaged over the process's life.
    pub(crate) cpu: Option<f64>,
    /// The proportional set size: shared pages count in proportion.
    pub(crate) memory: Option<u64>,
    /// The number of idle connections to the process.
    #[serde(default)]
    pub(crate) kept_connections: usize,
    /// Whether the process runs the code from before the last restart.
    pub(crate) outdated: bool,
}

/// The inputs of a report besides the pool.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) link: &'a Link,
    pub(crate) applications: &'a [Administered],
    pub(crate) name: &'a str,
    pub(crate) places: &'a [Place],
    pub(crate) since: Instant,
    pub(crate) shutting_down: bool,
}

impl Report {
    /// Takes a report. The function reads `/proc`, so it blocks.
    pub(crate) fn of(pool: &Pool, about: &About<'_>) -> Report {
        let Snapshot { max, count, active, spawning, draining, waiting, groups, .. } =
            pool.snapshot();
        let idle = about.connections.idle_counts();
        let waiting_outside: usize = about.applications.iter().map(outside).sum();
        let Application { app, environment, .. } = &*about.applications[0].application;
        let groups = groups.into_iter().map(|g| {
            let has_name = |a: &&Administered| a.application.group_name() == g.name;
            let application = about.applications.iter().find(has_name);
            let releases = (about.link.release(&g.name), about.link.next_release(&g.name));
            group(g, releases, &idle, application)
        });
        Report {
            version: env!("CARGO_PKG_VERSION").into(),
            date: httpdate::fmt_http_date(SystemTime::now()),
            instance: std::process::id(),
            name: about.name.into(),
            address: about.places.first().map(first).unwrap_or_default(),
            addresses: about.places.iter().map(Place::to_string).collect(),
            app_type: app.type_name.clone(),
            environment: environment.clone(),
            uptime: about.since.elapsed().as_secs_f64(),
            shutting_down: about.shutting_down,
            memory: memory_of(std::process::id()),
            max_pool_size: max,
            processes: count,
            active,
            spawning,
            draining,
            requests_in_queue: waiting + waiting_outside,
            groups: groups.collect(),
        }
    }
}

/// Returns a place without the scheme, as versions with one address have reported it.
fn first(place: &Place) -> String {
    match place {
        Place::Tcp(address) => address.to_string(),
        unix @ (Place::Unix(_) | Place::Scgi(_)) => unix.to_string(),
    }
}

/// Returns the number of requests that wait before they may ask the pool.
fn outside(application: &Administered) -> usize {
    application.admission.waiting_outside()
}

/// The number of idle connections by process.
type IdleCounts = HashMap<Identifier, usize>;

fn group(
    g: GroupSnapshot,
    (release, next_release): (Option<PathBuf>, Option<PathBuf>),
    idle: &IdleCounts,
    application: Option<&Administered>,
) -> Group {
    let waiting_outside = application.map_or(0, outside);
    let path = |dir: PathBuf| dir.display().to_string();
    Group {
        name: g.name,
        app_root: g.app_root.display().to_string(),
        release: release.map(path),
        next_release: next_release.map(path),
        environment: g.environment,
        min_instances: g.min_processes,
        requests_in_queue: g.waiting + waiting_outside,
        spawning: g.spawning,
        restarting: g.restarting,
        back_off: g.backing_off.map(|d| d.as_secs_f64()),
        last_error: g.last_error,
        processes: g.processes.into_iter().map(|p| process(p, idle)).collect(),
    }
}

fn process(p: ProcessSnapshot, idle: &IdleCounts) -> Process {
    Process {
        pid: p.pid,
        identifier: p.identifier.as_u64(),
        state: format!("{:?}", p.state).to_lowercase(),
        sessions: p.sessions,
        processed: p.processed,
        concurrency: p.concurrency.unwrap_or(0),
        uptime: p.age.as_secs_f64(),
        last_used: p.last_used.as_secs_f64(),
        cpu: p.pid.and_then(|pid| cpu_of(pid, p.age)),
        memory: p.pid.and_then(memory_of),
        kept_connections: idle.get(&p.identifier).copied().unwrap_or(0),
        outdated: p.outdated,
    }
}

fn proc_of(pid: u32) -> Option<ProcProcess> {
    ProcProcess::new(i32::try_from(pid).ok()?).ok()
}

fn cpu_of(pid: u32, in_pool: Duration) -> Option<f64> {
    let stat = proc_of(pid)?.stat().ok()?;
    let ticks = procfs::ticks_per_second() as f64;
    // The boot counts, before the process was in the pool. The clock of a container may begin later than that of its kernel.
    let since_start = procfs::Uptime::current().ok()?.uptime - stat.starttime as f64 / ticks;
    let age = since_start.max(in_pool.as_secs_f64());
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Some(percent((stat.utime + stat.stime) as f64 / ticks, age, processors))
}

/// Returns the percentage of one processor. The kernel counts in ticks, so a young process could seem to use more than there is.
fn percent(used: f64, age: f64, processors: usize) -> f64 {
    (100.0 * used / age.max(0.01)).min(100.0 * processors as f64)
}

fn memory_of(pid: u32) -> Option<u64> {
    let rollup = proc_of(pid)?.smaps_rollup().ok()?;
    let map = rollup.memory_map_rollup.iter().next()?;
    map.extension.map.get("Pss").copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_uses_more_than_there_is() {
        assert_eq!(percent(1.0, 4.0, 2), 25.0);
        assert_eq!(percent(3.0, 2.0, 2), 150.0);
        assert_eq!(percent(0.03, 0.0, 2), 200.0);
    }

    #[test]
    fn proc_reports_this_process() {
        assert!(memory_of(std::process::id()).unwrap() > 1000);
        assert!(cpu_of(std::process::id(), Duration::ZERO).unwrap() >= 0.0);
        assert!(memory_of(u32::MAX).is_none());
    }
}
