//! A get that could not connect tries again while another get restarts the group (erratum E24).
//!
//! There is an `always_restart.txt`, and the only process has crashed. Guards `first_attempt` in
//! `State::checkout_without_lock`, and that `get` and `get_async` count their attempts: only the first one tests the
//! files (PROP-RESTART-ONCE). If the second did, too, the get would throw away the process that its own restart or
//! the other has just spawned. Asserted: a live process serves both, with at most one restart each.
//!
//! A spawn ends on the thread of the get that ordered it (`inline`), so it has ended when that get tries again. The
//! guarded line counts failed connects, so this does not matter to it; the other get or the close still comes in
//! every order. With two gets user code does not re-enter the pool: loom would need more than 45 seconds.

use crate::application_pool::GetError;
use crate::kernel::sync::thread::inline;
use crate::models::rig::*;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Returns a pool with such a file and an idle process that has crashed.
///
/// The restart is rolling: the crashed process stays until its successor exists, so the get that restarts meets it.
fn crashed() -> Rig {
    let reentry = Reentry::default();
    let looks = reentry.clone();
    let rig = Rig::with_looks(reentry, |b| {
        b.max(1).restart_files(move |file: &Path| {
            looks.enter();
            match file.ends_with("always_restart.txt") {
                true => Ok(SystemTime::UNIX_EPOCH),
                false => Err(io::Error::from(io::ErrorKind::NotFound)),
            }
        })
    });
    rig.spawner.always("/a", unlimited());
    rig.idle(&always());
    rig.spawner.processes()[0].kill();
    rig
}

fn always() -> crate::PoolOptions {
    app("a").with_restart_mode(crate::application_pool::RestartMode::Rolling)
}

/// One get runs as a thread and the other as a task: each counts its attempts on its own.
#[test]
fn second_attempt_x_get() {
    let outcomes = ["one restart", "two restarts"];
    explore(Model("second_attempt_x_get", 943), &outcomes, |outcomes| {
        let rig = crashed();
        let (pool, reentry) = (rig.pool.clone(), rig.reentry.clone());
        let other = spawn(move || {
            let session = inline(|| reentry.block_on(pool.get_async(&always())));
            session.expect("a session").pid()
        });
        let session = inline(|| rig.pool.get(&always())).expect("a session");
        assert!(session.pid() > 1 && other.join().expect("no panic") > 1, "crashed");
        outcomes.note(match rig.generation(&always()) {
            1 => "one restart",
            2 => "two restarts",
            more => panic!("{more} restarts for two gets"),
        });
    });
}

/// The pool is closed between the two attempts.
///
/// Guards the look at `closed` in `State::checkout_without_lock`, which comes first. Without it, the second attempt
/// queues up in a closed pool, which serves no get. Asserted: the get is served or fails, and every spawned process
/// is shut down once.
#[test]
fn second_attempt_x_close() {
    let ways = ["refused at the first", "refused at the second", "served"];
    explore(Model("second_attempt_x_close", 12_723), &ways, |outcomes| {
        let rig = crashed().reentrant();
        let pool = rig.pool.clone();
        let closer = spawn(move || pool.close());
        let got = inline(|| rig.pool.get(&always()));
        outcomes.note(match &got {
            Ok(session) if session.pid() > 1 => "served",
            // Its first attempt would have restarted the group.
            Err(GetError::Closed) if rig.spawner.begun() == 1 => "refused at the first",
            Err(GetError::Closed) => "refused at the second",
            other => panic!("{other:?}"),
        });
        drop(got);
        closer.join().expect("no panic");
        rig.end();
    });
}
