//! The processes of the machine: relations, memory, times and signals.

use procfs::process::{Process, Stat, all_processes};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// All processes of the machine at one time, zombies included.
pub type Processes = BTreeMap<u32, Stat>;

/// Returns all processes of the machine.
pub fn all() -> Processes {
    let found = all_processes().into_iter().flatten().flatten();
    found.filter_map(|process| Some((process.pid() as u32, process.stat().ok()?))).collect()
}

/// Returns the children of one process.
pub fn children(all: &Processes, of: u32) -> BTreeSet<u32> {
    all.iter().filter(|(_, stat)| stat.ppid as u32 == of).map(|(pid, _)| *pid).collect()
}

/// Returns these processes and all their descendants.
pub fn tree(all: &Processes, roots: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut found = roots.clone();
    loop {
        let more = found.iter().flat_map(|of| children(all, *of));
        let more: Vec<u32> = more.filter(|pid| !found.contains(pid)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Returns the processes that have this value of a variable, or work below this directory.
///
/// The caller may end all of them. So a directory that this process works in, such as `/`, does not count: other programs
/// work below it, too. Nor does this process itself.
pub fn with(variable: &str, value: &Path, dir: Option<&Path>) -> Vec<u32> {
    let own = std::env::current_dir();
    let dir = dir.filter(|dir| own.as_ref().is_ok_and(|own| !own.starts_with(dir)));
    let found = all_processes().into_iter().flatten().flatten();
    let is_wanted = |process: &Process| {
        let environment = process.environ().unwrap_or_default();
        environment.get(variable.as_ref() as &std::ffi::OsStr).is_some_and(|v| v == value)
            || dir.is_some_and(|dir| process.cwd().is_ok_and(|cwd| cwd.starts_with(dir)))
    };
    let found = found.filter(is_wanted).map(|process| process.pid() as u32);
    found.filter(|pid| *pid != std::process::id()).collect()
}

fn process(pid: u32) -> Option<Process> {
    Process::new(pid as i32).ok()
}

/// Returns whether the process has not ended. A zombie has, unless other threads go on after the main one.
pub fn is_alive(pid: u32) -> bool {
    let stat = process(pid).and_then(|process| process.stat().ok());
    stat.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1)
}

/// Returns the words of the process's command, with a space between two, or an empty text if it has ended.
pub fn command_line(pid: u32) -> String {
    process(pid).and_then(|process| process.cmdline().ok()).unwrap_or_default().join(" ")
}

/// Returns the number of descriptors that the process has open.
pub fn descriptors(pid: u32) -> usize {
    process(pid).and_then(|process| process.fd_count().ok()).unwrap_or(0)
}

/// Returns the memory of the process that is resident (RSS), in bytes.
pub fn resident_memory(pid: u32) -> u64 {
    let statm = process(pid).and_then(|process| process.statm().ok());
    statm.map_or(0, |statm| statm.resident * procfs::page_size())
}

/// Returns the memory of the process in bytes, with its part of each shared page (PSS).
pub fn proportional_memory(pid: u32) -> u64 {
    let maps = process(pid).and_then(|process| process.smaps_rollup().ok());
    let maps = maps.into_iter().flat_map(|maps| maps.memory_map_rollup);
    maps.filter_map(|map| map.extension.map.get("Pss").copied()).sum()
}

/// Returns the processor time of the process so far: user and system time of all its threads.
pub fn time(pid: u32) -> Duration {
    let stat = process(pid).and_then(|process| process.stat().ok());
    stat.map_or(Duration::ZERO, |stat| time_in(&stat))
}

/// Returns the processor time in this picture of a process.
pub fn time_in(stat: &Stat) -> Duration {
    Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// Sends a signal. An error means that the process has ended, which the caller will notice.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// A server that was started in `/` owns no process of another program.
    #[test]
    fn a_directory_of_this_process_selects_no_process() {
        let own = std::env::current_dir().unwrap();
        for dir in own.ancestors() {
            assert!(
                with("CABRANK_NO_SUCH_VARIABLE", dir, Some(dir)).is_empty(),
                "{}",
                dir.display()
            );
        }
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
        let found = with("CABRANK_NO_SUCH_VARIABLE", dir.path(), Some(dir.path()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [child.id()]);
    }

    #[test]
    fn a_tree_has_all_descendants() {
        let mine = Process::myself().and_then(|me| me.stat()).unwrap();
        let child = |(pid, parent): (u32, u32)| {
            let mut stat = mine.clone();
            stat.ppid = parent as i32;
            (pid, stat)
        };
        let all = [(2, 1), (3, 2), (4, 3), (5, 1)].map(child).into();
        assert_eq!(tree(&all, &BTreeSet::from([2])), BTreeSet::from([2, 3, 4]));
        assert_eq!(children(&all, 1), BTreeSet::from([2, 5]));
    }

    #[test]
    fn a_child_is_seen_until_it_is_reaped() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        assert!(is_alive(pid) && children(&all(), std::process::id()).contains(&pid));
        assert!(descriptors(pid) > 0 && resident_memory(pid) > 0 && proportional_memory(pid) > 0);
        signal(pid, Signal::KILL);
        assert!(crate::until(Duration::from_secs(30), || !is_alive(pid)), "a zombie has ended");
        assert!(all().contains_key(&pid), "and is still there");
        child.wait().unwrap();
        assert_eq!((descriptors(pid), command_line(pid)), (0, String::new()));
    }
}
