//! `cabrank restart` on the server's side: begins a restart, and tells how it goes.

use crate::admin::administered::Administered;
use crate::admin::{Reply, Restart};
use crate::configuration::file::Source;
use cabrank::application_pool::{GroupSnapshot, ProcessState};
use cabrank_spawner::Pool;
use std::time::Duration;

/// The longest wait for the look at `cabrank.toml`, whose file system may hang.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// Restarts the applications, as a new `restart.txt` would. Says so if the configuration has changed, which does not apply.
pub(super) async fn begin(pool: &Pool, applications: &[Administered], file: &Source) -> Reply {
    let mut restarted = applications.iter().map(|Administered { application, .. }| {
        pool.restart_group(&application.group_name(), application.restart_mode())
    });
    if !restarted.all(|done| done) {
        return Reply::Refused("the pool is closed. Look at the server's log.".into());
    }
    let begun = "The application is being restarted.";
    match change(file).await {
        None => Reply::Done(begun.into()),
        Some(change) => {
            tracing::warn!("{change}");
            Reply::Done(format!("{begun} {change}"))
        }
    }
}

/// Says that the file of the configuration is another one than at the start.
async fn change(file: &Source) -> Option<String> {
    let source = file.clone();
    let look = tokio::task::spawn_blocking(move || source.has_changed());
    // Without an answer nothing is said: the restart has begun.
    let has_changed =
        tokio::time::timeout(LOOK_TIMEOUT, look).await.is_ok_and(|r| r.unwrap_or(false));
    has_changed.then(|| {
        format!(
            "{} has changed since the start of the server. A restart does not apply that: stop the server, and start it again.",
            file.path.display()
        )
    })
}

/// Tells how the latest restart goes.
pub(super) fn progress(pool: &Pool, applications: &[Administered]) -> Restart {
    let ours = |group: &GroupSnapshot| {
        applications.iter().any(|a| a.application.group_name() == group.name)
    };
    let groups: Vec<_> = pool.snapshot().groups.into_iter().filter(ours).collect();
    let states: Vec<_> = groups.iter().map(of_group).collect();
    let decisive = |state: &&Restart| matches!(state, Restart::Failed { .. });
    let all =
        || states.iter().find(decisive).or_else(|| states.iter().find(|s| **s == Restart::Goes));
    match all() {
        Some(state) => state.clone(),
        None => Restart::Done {
            processes: states
                .iter()
                .map(|s| if let Restart::Done { processes } = s { *processes } else { 0 })
                .sum(),
        },
    }
}

fn of_group(group: &GroupSnapshot) -> Restart {
    let serving = group.processes.iter().filter(|process| process.state != ProcessState::Draining);
    let processes = serving.clone().count();
    let outdated = serving.filter(|process| process.outdated).count();
    // The beginning of the restart has ended an earlier pause, so this one is of the restart.
    if group.backing_off.is_some() {
        let error = group.last_error.clone().unwrap_or_else(|| "the reason is in the log.".into());
        return Restart::Failed { error, outdated };
    }
    // Without a minimum, and without requests, no process starts.
    let needs_none = processes == 0 && group.min_processes == 0 && group.waiting == 0;
    let is_up = !group.restarting && processes >= group.min_processes.max(1);
    match !group.spawning && (is_up || needs_none) {
        true => Restart::Done { processes },
        false => Restart::Goes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabrank::application_pool::ProcessSnapshot;

    fn group(processes: &[(ProcessState, bool)]) -> GroupSnapshot {
        let mut group = GroupSnapshot::default();
        group.min_processes = 1;
        group.processes = processes
            .iter()
            .map(|&(state, outdated)| {
                let mut process = ProcessSnapshot::default();
                (process.state, process.outdated) = (state, outdated);
                process
            })
            .collect();
        group
    }

    #[test]
    fn a_restart_is_done_when_each_process_is_new() {
        let (old, new) = ((ProcessState::Idle, true), (ProcessState::Busy, false));
        let mut rolling = group(&[new, old]);
        rolling.restarting = true;
        assert_eq!(of_group(&rolling), Restart::Goes);
        let mut more = group(&[new]);
        assert_eq!(of_group(&more), Restart::Done { processes: 1 });
        more.spawning = true;
        assert_eq!(of_group(&more), Restart::Goes);
    }

    #[test]
    fn a_process_that_leaves_is_not_up() {
        let leaving = group(&[(ProcessState::Draining, true)]);
        assert_eq!(of_group(&leaving), Restart::Goes);
    }

    #[test]
    fn a_failed_spawn_ends_the_wait_and_counts_the_old_processes() {
        let mut failed = group(&[(ProcessState::Idle, true), (ProcessState::Draining, true)]);
        (failed.restarting, failed.backing_off) = (true, Some(Duration::ZERO));
        failed.last_error = Some("no database".into());
        let expected = Restart::Failed { error: "no database".into(), outdated: 1 };
        assert_eq!(of_group(&failed), expected);
    }

    #[test]
    fn without_a_minimum_and_without_requests_nothing_is_to_be_awaited() {
        let mut none = group(&[]);
        (none.min_processes, none.restarting) = (0, true);
        assert_eq!(of_group(&none), Restart::Done { processes: 0 });
        none.waiting = 1;
        assert_eq!(of_group(&none), Restart::Goes);
    }
}
