//! The facts of `cabrank status`: the pool's snapshot, and what `/proc` says of its processes.

use crate::app::Pool;
use crate::app::connections::Connections;
use crate::config::Settings;
use cabrank::{GroupSnapshot, Identifier, ProcessSnapshot, Snapshot};
use procfs::process::Process as ProcProcess;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

/// Everything there is to say about one agent. Times are in seconds, memory in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) version: String,
    pub(crate) date: String,
    pub(crate) instance: u32,
    pub(crate) address: SocketAddr,
    pub(crate) app_type: String,
    pub(crate) environment: String,
    pub(crate) uptime: f64,
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
    pub(crate) environment: String,
    pub(crate) min_instances: usize,
    pub(crate) requests_in_queue: usize,
    pub(crate) spawning: bool,
    pub(crate) restarting: bool,
    /// How long no spawn will be tried, after one that failed.
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
    pub(crate) concurrency: usize,
    pub(crate) uptime: f64,
    pub(crate) last_used: f64,
    /// Percent of one processor, over its whole life.
    pub(crate) cpu: Option<f64>,
    /// Its share of what it uses: shared pages count in proportion.
    pub(crate) memory: Option<u64>,
    /// Connections to it that are kept for the next requests.
    #[serde(default)]
    pub(crate) kept_connections: usize,
    /// Whether it has the code of before the last restart.
    pub(crate) outdated: bool,
}

/// What a report needs to know besides the pool.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) settings: &'a Settings,
    pub(crate) address: SocketAddr,
    pub(crate) since: Instant,
}

impl Report {
    /// Takes stock. Reads `/proc`, so not for a task that must not block.
    pub(crate) fn of(pool: &Pool, about: &About<'_>) -> Report {
        let Snapshot { max, count, active, spawning, draining, waiting, groups, .. } =
            pool.snapshot();
        let kept = about.connections.kept();
        Report {
            version: env!("CARGO_PKG_VERSION").into(),
            date: httpdate::fmt_http_date(SystemTime::now()),
            instance: std::process::id(),
            address: about.address,
            app_type: about.settings.app.app_type.name.into(),
            environment: about.settings.environment.clone(),
            uptime: about.since.elapsed().as_secs_f64(),
            memory: memory_of(std::process::id()),
            max_pool_size: max,
            processes: count,
            active,
            spawning,
            draining,
            requests_in_queue: waiting,
            groups: groups.into_iter().map(|g| group(g, &kept)).collect(),
        }
    }
}

/// Connections kept, by process.
type Kept = HashMap<Identifier, usize>;

fn group(g: GroupSnapshot, kept: &Kept) -> Group {
    Group {
        name: g.name,
        app_root: g.app_root.display().to_string(),
        environment: g.environment,
        min_instances: g.min_processes,
        requests_in_queue: g.waiting,
        spawning: g.spawning,
        restarting: g.restarting,
        back_off: g.backing_off.map(|d| d.as_secs_f64()),
        last_error: g.last_error,
        processes: g.processes.into_iter().map(|p| process(p, kept)).collect(),
    }
}

fn process(p: ProcessSnapshot, kept: &Kept) -> Process {
    Process {
        pid: p.pid,
        identifier: p.identifier.as_u64(),
        state: format!("{:?}", p.state).to_lowercase(),
        sessions: p.sessions,
        processed: p.processed,
        concurrency: p.concurrency,
        uptime: p.age.as_secs_f64(),
        last_used: p.last_used.as_secs_f64(),
        cpu: p.pid.and_then(|pid| cpu_of(pid, p.age)),
        memory: p.pid.and_then(memory_of),
        kept_connections: kept.get(&p.identifier).copied().unwrap_or(0),
        outdated: p.outdated,
    }
}

fn proc_of(pid: u32) -> Option<ProcProcess> {
    ProcProcess::new(i32::try_from(pid).ok()?).ok()
}

fn cpu_of(pid: u32, age: Duration) -> Option<f64> {
    let stat = proc_of(pid)?.stat().ok()?;
    let used = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
    Some(100.0 * used / age.as_secs_f64().max(0.01))
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
    fn proc_knows_this_process() {
        assert!(memory_of(std::process::id()).unwrap() > 1000);
        assert!(cpu_of(std::process::id(), Duration::from_secs(1)).unwrap() >= 0.0);
        assert!(memory_of(u32::MAX).is_none());
    }
}
