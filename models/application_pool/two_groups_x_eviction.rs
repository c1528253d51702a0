//! A get for a new group meets a full pool of busy processes (errata E17, E18, E37).

use crate::models::rig::*;
use std::pin::pin;

/// One busy process takes any number of sessions. The get for the other group marks it for eviction, or evicts it if
/// it is idle already.
///
/// Guards that the marked process goes on serving its group (`Processes::first_with_room`). Without that, one endless
/// session would stop the group that has room (PROP-SERVES-ON). Asserted: a newcomer is served while the process
/// has a session. A process of its own serves the new group afterwards (PROP-NO-GROUP-STARVES).
#[test]
fn two_groups_x_eviction() {
    explore(Model("two_groups_x_eviction", 58_899), &["in line", "late"], |outcomes| {
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
        let newcomer = rig.pool.try_get(&app("a")).expect("the process has room, and its place");
        drop(newcomer);
        drop(session);
        getter.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
        assert_eq!(rig.spawner.shut_down().len(), 1);
        outcomes.note(if waits { "in line" } else { "late" });
    });
}

/// An endless session holds the only place, and the cleaner passes at the deadline.
///
/// Guards that a pass detaches the marked process at the deadline (`State::make_room`). Without that, the get waits
/// for as long as the session lasts (PROP-ENDLESS-SESSIONS). Asserted: the get is served while the session is open.
#[test]
fn endless_session_x_deadline() {
    explore(
        Model("endless_session_x_deadline", 29_058),
        &["before the deadline", "late"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1)).reentrant();
            rig.spawner.always("/a", unlimited());
            let endless = rig.session(&app("a"));
            let other = app("b");
            let mut get = pin!(rig.pool.get_async(&other));
            assert!(rig.reentry.poll_once(get.as_mut()).is_pending());
            rig.clock.advance(DRAIN);
            let pool = rig.pool.clone();
            let cleaner = spawn(move || pool.clean());
            let newcomer = rig.pool.try_get(&app("a"));
            outcomes.note(if newcomer.is_ok() { "before the deadline" } else { "late" });
            let session = rig.reentry.block_on(get).expect("a session");
            assert_eq!((session.pid(), rig.pool.counts().draining), (2, 1));
            cleaner.join().expect("no panic");
            drop((newcomer, endless, session));
        },
    );
}

/// Of two busy processes, one is freed while a get of its own group and a get for another group wait.
///
/// Guards in `State::close_session` that a freed process makes room before it serves its own group. Without that, gets
/// of its group keep the place for ever (PROP-ENDLESS-SESSIONS). Asserted: the get for the other group is served if it
/// is in line at the close.
#[test]
fn freed_process_x_own_waiter() {
    explore(Model("freed_process_x_own_waiter", 10_429), &["in line", "late"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        let (first, second) = (rig.session(&app("a")), rig.session(&app("a")));
        let a = app("a");
        let mut own = pin!(rig.pool.get_async(&a));
        assert!(rig.reentry.poll_once(own.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let getter = spawn(move || drop(pool.get(&app("b")).expect("a session")));
        let in_line = rig.pool.counts().waiting == 2;
        drop(second);
        outcomes.note(if in_line { "in line" } else { "late" });
        // The other get may have come into line between the look and the close.
        let granted = poll_once(own.as_mut());
        assert!(!in_line || granted.is_pending(), "the own get keeps the place");
        drop(first);
        let waits = granted.is_pending();
        drop(granted);
        if waits {
            assert_eq!(rig.reentry.block_on(own).expect("a session").pid(), 1);
        }
        getter.join().expect("no panic");
    });
}

/// Of two busy processes, the one whose group is above its minimum is marked, and the other becomes idle.
///
/// Guards in `State::close_session` that a freed process is offered to the groups that wait for room, also if its
/// own group is at its minimum. Guards in `State::new_app_group_creatable` that the other process is unmarked then.
/// Without the first, the get waits for the marked process, which is freed only after the get is served. Asserted: the
/// freed process makes room, and the other serves its group again.
#[test]
fn marked_x_other_freed() {
    explore(Model("marked_x_other_freed", 13_641), &["in line", "late"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        let first = rig.session(&app("a"));
        let second = rig.session(&app("c").with_min_processes(1));
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

/// An endless session holds the only process of a group whose get starves. The process of another group is freed while
/// the cleaner passes at the deadline, and a get of its own waits for it.
///
/// Guards that a freed process makes room for a group that starves, before it serves its own (`State::makes_room`), and
/// that the place is not given back at once (`State::most_urgent`). Without that, gets of its group keep the place for
/// ever (PROP-ENDLESS-SESSIONS). Asserted: the get is served while the endless session is open and its own still waits.
#[test]
fn starving_group_x_session_close() {
    explore(Model("starving_group_x_session_close", 2_772), &["it makes room"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        let (endless, busy) = (rig.session(&app("a")), rig.session(&app("b")));
        let (a, b) = (app("a"), app("b"));
        let mut get = pin!(rig.pool.get_async(&a));
        assert!(rig.reentry.poll_once(get.as_mut()).is_pending());
        let mut own = pin!(rig.pool.get_async(&b));
        assert!(rig.reentry.poll_once(own.as_mut()).is_pending());
        rig.clock.advance(DRAIN);
        let freed = spawn(move || drop(busy));
        rig.pool.clean();
        freed.join().expect("no panic");
        let served = rig.reentry.block_on(get).expect("a session");
        assert!(rig.reentry.poll_once(own.as_mut()).is_pending());
        outcomes.note("it makes room");
        drop((served, endless));
        drop(rig.reentry.block_on(own).expect("a session"));
    });
}

/// The same without a get that waits for the freed process: it may be idle before the pass.
///
/// Guards that an idle process is evicted for a group that starves (`State::new_app_group_creatable`). Without that, the
/// get waits beside the idle process for as long as the session lasts (PROP-ENDLESS-SESSIONS). Asserted: it is served
/// while the session is open.
#[test]
fn starving_group_x_idle_process() {
    explore(Model("starving_group_x_idle_process", 901), &["served"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        let (endless, busy) = (rig.session(&app("a")), rig.session(&app("b")));
        let a = app("a");
        let mut get = pin!(rig.pool.get_async(&a));
        assert!(rig.reentry.poll_once(get.as_mut()).is_pending());
        rig.clock.advance(DRAIN);
        let freed = spawn(move || drop(busy));
        rig.pool.clean();
        drop(rig.reentry.block_on(get).expect("a session"));
        freed.join().expect("no panic");
        assert_eq!(rig.spawner.shut_down().len(), 1);
        outcomes.note("served");
        drop(endless);
    });
}
