//! A thread of the pool looks at the restart files for a get with a time limit, while another get comes, the pool
//! closes, or the get gives up.
//!
//! A get that comes while a look is in flight waits for the next one (`State::wait_for_look`). Without that, it may be
//! given a look from before a touch that precedes it, and be served by old code.

use crate::application_pool::{Event, GetError, Looked, RestartMode, Seen};
use crate::kernel::section::{Patience, now};
use crate::kernel::sync::thread::inline;
use crate::models::rig::*;
use std::io;
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(1);

/// Looks as a get with a time limit does.
async fn look(rig: &Rig) -> Seen {
    let inner = rig.pool.inner();
    let files = inner.restart_files.as_ref().expect("the rig has a file");
    let patience = Patience::Thread(inner.clock().deadline(PATIENCE));
    match inner.look(files, &app("a"), patience).await.expect("an open pool") {
        Looked::Seen(look) => look.restart,
        Looked::Later(_) => panic!("its time has not passed"),
    }
}

/// Asserted: the look after the touch sees it, and both end.
#[test]
fn look_x_touch() {
    explore(Model("look_x_touch", 12_386), &["before", "after"], |outcomes| {
        let file = RestartFile::new();
        let rig = Rig::with_file(&file, |b| b);
        let [before, after] =
            [1, 2].map(|s| Seen::Modified(SystemTime::UNIX_EPOCH + Duration::from_secs(s)));
        let rig = std::sync::Arc::new(rig);
        let theirs = rig.clone();
        let other = spawn(move || now(look(&theirs)));
        rig.pool.counts(); // a step: the other look may begin, or have ended
        file.touch();
        assert_eq!(now(look(&rig)), after, "it begins after the touch");
        let seen = other.join().expect("no panic");
        outcomes.note(if seen == before { "before" } else { "after" });
    });
}

/// Guards that a look counts for the group of a get that has not waited for it (`State::has_looked_later`). Without
/// that, a caller that only polls never sees a touch. Asserted: the touch restarts the group.
#[test]
fn later_look_x_get() {
    explore(Model("later_look_x_get", 212), &["before the look ends", "after it"], |outcomes| {
        let (file, restarts) = (RestartFile::new(), Counter::new());
        let counted = restarts.clone();
        let rig = Rig::with_file(&file, |b| {
            b.observer(move |event| {
                if matches!(event, Event::Restarting { .. }) {
                    counted.up();
                }
            })
        });
        let immediate = app("a").with_restart_mode(RestartMode::Immediate);
        inline(|| drop(rig.pool.get(&immediate).expect("a session")));
        file.touch();
        drop(rig.pool.get_timeout(&immediate, Duration::ZERO).expect("an idle process"));
        let has_ended = rig.pool.counts().count == 0;
        restarts.wait(1);
        assert_eq!(rig.pool.counts().count, 0, "it has the old code");
        outcomes.note(if has_ended { "after it" } else { "before the look ends" });
    });
}

/// The look ends only after the get. Guards that a close ends the wait (`State::close_looks`). Asserted: the get ends.
#[test]
fn hung_look_x_close() {
    explore(Model("hung_look_x_close", 325), &["refused"], |outcomes| {
        let released = Counter::new();
        let hangs = released.clone();
        let rig = Rig::with_looks(Reentry::default(), |b| {
            b.restart_files(move |_| {
                hangs.wait(1);
                Err(io::ErrorKind::NotFound.into())
            })
        });
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get_timeout(&app("a"), PATIENCE).map(drop));
        rig.pool.close();
        let got = getter.join().expect("no panic");
        assert!(matches!(got, Err(GetError::Closed)), "{got:?}");
        outcomes.note("refused");
        released.up();
    });
}

/// Guards that a get that gives up leaves the look's queue (`WaitForLook::give_up`). Otherwise its place is never
/// freed. Asserted: no waiter is left.
#[test]
fn look_x_cancel() {
    explore(Model("look_x_cancel", 15), &["dropped", "ended"], |outcomes| {
        let file = RestartFile::new();
        let rig = Rig::with_file(&file, |b| b);
        let inner = rig.pool.inner();
        let files = inner.restart_files.as_ref().expect("the rig has a file");
        let app = app("a");
        let mut look = Box::pin(inner.look(files, &app, Patience::Task));
        let pending = rig.reentry.poll_once(look.as_mut()).is_pending();
        drop(look);
        outcomes.note(if pending { "dropped" } else { "ended" });
        assert_eq!(inner.critical(|state, _| state.waiters.len()), 0, "it has left the queue");
    });
}
