//! User code that the pool calls: it may call the pool back, and it may panic. The pool makes every
//! such call without its lock, so no call back deadlocks, and each panic is contained in its call.

mod errors;
mod hung_files;
mod observers;
mod processes;
mod threads;
mod wakers;

use crate::common::{Pool, Rig, SECOND, app, before_long, soon};
use cabrank::application_pool::Identifier;

/// The message of a scripted panic.
pub(crate) const ON_PURPOSE: &str = "scripted panic";

/// Makes every call that may be made at any time and does not wait for long.
pub(crate) fn call_back(pool: &Pool) {
    let snapshot = pool.snapshot();
    assert!(snapshot.active <= snapshot.count);
    let _ = pool.set_max(snapshot.max);
    pool.set_max_per_app(None).expect("not zero");
    pool.set_max_idle_time(300 * SECOND).expect("not zero");
    pool.clean();
    drop(pool.try_get(&app("other")));
    drop(pool.try_checkout(&app("other")));
    assert!(!pool.detach(Identifier::from_u64(u64::MAX)));
    pool.detach_group("/srv/other");
}

/// Checks that the pool serves, and that its counts are right.
#[track_caller]
pub(crate) fn assert_usable(rig: &Rig) {
    rig.spawner.on_call(|_| {});
    rig.clock.advance(100 * SECOND);
    rig.eventually(|c| c.spawning == 0);
    let session = rig.get(&app("x"));
    assert_eq!(session.request("hello"), "hello from /srv/x");
    assert_eq!(rig.group(&app("x")).processes.iter().map(|p| p.sessions).sum::<usize>(), 1);
    drop(session);
    let pool = rig.pool.clone();
    soon(move || pool.close());
    let pool = rig.pool.clone();
    assert!(soon(move || pool.wait_closed(SECOND)));
    before_long(|| rig.spawner.processes().is_empty());
}
