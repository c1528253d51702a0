//! The processes of each server: processor time and memory, from /proc.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

/// The clock ticks of /proc: every Linux has 100 in a second (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Process {
    parent: u32,
    pub(crate) name: String,
    /// User and system time of all threads so far.
    pub(crate) time: Duration,
}

/// Returns all processes of the machine.
pub(crate) fn all() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parse(&stat)?))
        })
        .collect()
}

fn parse(stat: &str) -> Option<Process> {
    // The name may contain spaces and parentheses.
    let (begin, rest) = stat.rsplit_once(')')?;
    let name = begin.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
    let (parent, ticks) = (number(1)?, number(11)? + number(12)?);
    Some(Process { parent, name, time: TICK * ticks })
}

/// Returns the children of one process.
pub(crate) fn children(all: &BTreeMap<u32, Process>, of: u32) -> BTreeSet<u32> {
    all.iter().filter(|(_, process)| process.parent == of).map(|(pid, _)| *pid).collect()
}

/// Returns these processes and all their descendants.
pub(crate) fn tree(all: &BTreeMap<u32, Process>, roots: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut found = roots.clone();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, process)| found.contains(&process.parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Returns the proportional set size in bytes: shared pages are divided among their processes.
pub(crate) fn memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns whether the process has ended. It stays in /proc until its parent has reaped it.
pub(crate) fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_spaces_and_parentheses() {
        let stat = "7 (a) b (c) S 3 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 100 0 0";
        let process = parse(stat).unwrap();
        assert_eq!((process.parent, process.name.as_str()), (3, "a) b (c"));
        assert_eq!(process.time, Duration::from_millis(110));
    }

    #[test]
    fn a_tree_has_all_descendants() {
        let process = |parent| Process { parent, name: String::new(), time: Duration::ZERO };
        let all =
            BTreeMap::from([(2, process(1)), (3, process(2)), (4, process(3)), (5, process(1))]);
        assert_eq!(tree(&all, &BTreeSet::from([2])), BTreeSet::from([2, 3, 4]));
    }
}
