//! Passenger checks the text and XML of its status. Here: the snapshot from which the server makes
//! its status. The server's own tests check the texts, and who may see which.

use crate::common::{Rig, SECOND, app};
use cabrank::application_pool::ProcessState;

#[test]
fn the_snapshot_shows_the_maximum_and_the_pid() {
    let rig = Rig::new(|b| b.max(5));
    let session = rig.get(&app("x"));
    let snapshot = rig.pool.snapshot();
    assert_eq!((snapshot.max, snapshot.count, snapshot.active), (5, 1, 1));
    assert_eq!(snapshot.groups[0].name, "/srv/x");
    assert_eq!(snapshot.groups[0].processes[0].pid, Some(session.pid()));
}

#[test]
fn the_snapshot_shows_everything_about_a_process() {
    let rig = Rig::new(|b| b);
    let first = rig.get(&app("x").with_environment("staging").with_min_processes(1));
    let pid = first.pid();
    rig.clock.advance(3 * SECOND);
    drop(first);
    rig.clock.advance(4 * SECOND);
    let group = rig.group(&app("x"));
    assert_eq!((group.environment.as_str(), group.min_processes), ("staging", 1));
    assert_eq!(group.app_root.as_os_str(), "/srv/x");
    let process = &group.processes[0];
    assert_eq!((process.pid, process.state), (Some(pid), ProcessState::Idle));
    assert_eq!((process.sessions, process.processed, process.concurrency), (0, 1, Some(1)));
    assert_eq!((process.age, process.last_used), (7 * SECOND, 4 * SECOND));
    assert!(rig.pool.detach(process.identifier), "it is the process's name in the pool");
}

/// The library knows no addresses: only the spawner, which makes connections, does.
#[test]
fn the_snapshot_shows_no_addresses() {
    let rig = Rig::new(|b| b);
    let _session = rig.get(&app("x"));
    let shown = format!("{:?}", rig.group(&app("x")).processes[0]);
    let fields: Vec<&str> =
        shown.split([' ', '{', ',']).filter_map(|word| word.strip_suffix(':')).collect();
    let all = [
        "identifier",
        "pid",
        "state",
        "sessions",
        "processed",
        "concurrency",
        "age",
        "last_used",
        "outdated",
    ];
    assert_eq!(fields, all);
}
