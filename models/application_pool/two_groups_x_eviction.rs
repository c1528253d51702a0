//! A get for a new group meets a full pool in which a process is just being freed (errata E17, E18).

use crate::models::rig::*;

/// One busy process takes any number of sessions. The starving group marks it for eviction, or evicts it if it is
/// idle already.
///
/// Guards `State::mark_victims`: without it, the process takes one more session while the other group waits, then
/// another, and is never idle (erratum E18: PROP-NO-GROUP-STARVES). Asserted: once the new group is in line, the
/// process serves no newcomer. A process of its own serves the new group.
#[test]
fn two_groups_x_eviction() {
    let ways = ["in line first", "in line meanwhile", "late"];
    explore("two_groups_x_eviction", &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.spawner.always("/a", unlimited());
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || {
            let session = pool.get(&app("b")).expect("a session");
            assert_eq!(session.request("r"), "r from /b");
        });
        // Whether the other get is in line already.
        let waits = rig.pool.counts().waiting == 1;
        let newcomer = rig.pool.try_get(&app("a"));
        assert!(!waits || newcomer.is_err(), "a process marked for eviction served a newcomer");
        let outcome = match (waits, newcomer.is_ok()) {
            (true, _) => "in line first",
            (false, true) => "late",
            (false, false) => "in line meanwhile",
        };
        drop(newcomer);
        drop(session);
        getter.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
        assert_eq!(rig.spawner.shut_down().len(), 1);
        outcomes.note(outcome);
    });
}

/// Of two busy processes, one is marked for eviction, and the other is freed first.
///
/// Guards in `State::close_session` that a freed process is offered to the groups that wait for room. Guards in
/// `State::new_app_group_creatable` that it is evicted for them and the marked process is unmarked. Without the
/// first, the get waits for the marked process, which is freed only after the get is served. Asserted: the freed
/// process is evicted, and the other serves its group again.
#[test]
fn marked_x_other_freed() {
    explore("marked_x_other_freed", &["in line", "late"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        let (first, second) = (rig.session(&app("a")), rig.session(&app("a")));
        let pool = rig.pool.clone();
        let getter = spawn(move || drop(pool.get(&app("b")).expect("a session")));
        let waits = rig.pool.counts().waiting == 1;
        drop(second);
        getter.join().expect("no panic");
        drop(first);
        let again = rig.pool.try_get(&app("a")).expect("the first has room again");
        assert_eq!(again.pid(), 1);
        assert_eq!(rig.spawner.shut_down().len(), 1);
        outcomes.note(if waits { "in line" } else { "late" });
    });
}
