//! A get that could not connect tries again, while another get restarts the group (erratum E24).
//!
//! There is an `always_restart.txt`, and the only process has crashed. Guards `first_attempt` in
//! `State::checkout_without_lock`, and that `get` and `get_async` count their attempts: the files are tested
//! in the first one only (PROP-RESTART-ONCE). Tested in the second, too, the get throws away what the
//! restart has just spawned, for itself or for the other. Asserted: both are served by a process that
//! lives, and there is at most one restart for each.
//!
//! A spawn runs to its end on the thread of the get that ordered it (`inline`), before that get goes on:
//! it has always ended when that get tries again. Whether it has makes no difference to the line, which
//! counts a get's failures to connect; what the other get or the close does comes in every order still.
//! With two gets foreign calls do not re-enter the pool: with that, loom is not through in 45 seconds.

use crate::application_pool::GetError;
use crate::models::rig::*;
use crate::sync::thread::inline;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// A pool with such a file, and an idle process that has crashed: it is replaced once its successor is
/// there, so that the get that restarts meets it.
fn crashed() -> Rig {
    let door = Door::default();
    let looks = door.clone();
    let rig = Rig::with_looks(door, |b| {
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

/// The one is a thread, the other a task: each counts its attempts for itself.
#[test]
fn second_attempt_x_get() {
    let outcomes = ["one restart", "two restarts"];
    explore("second_attempt_x_get", &outcomes, |outcomes| {
        let rig = crashed();
        let (pool, door) = (rig.pool.clone(), rig.door.clone());
        let other = spawn(move || {
            let session = inline(|| door.block_on(pool.get_async(&always())));
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
/// Guards the look at `closed` in `State::checkout_without_lock`, which comes before everything else:
/// without it the second attempt queues up in a pool in which nobody is served any more. Asserted:
/// the get is served or told, and whatever was spawned is shut down once.
#[test]
fn second_attempt_x_close() {
    let ways = ["told at the first", "told at the second", "served"];
    explore("second_attempt_x_close", &ways, |outcomes| {
        let rig = crashed().reentrant();
        let pool = rig.pool.clone();
        let closer = spawn(move || pool.close());
        let got = inline(|| rig.pool.get(&always()));
        outcomes.note(match &got {
            Ok(session) if session.pid() > 1 => "served",
            // Its first attempt would have restarted the group.
            Err(GetError::Closed) if rig.spawner.begun() == 1 => "told at the first",
            Err(GetError::Closed) => "told at the second",
            other => panic!("{other:?}"),
        });
        drop(got);
        closer.join().expect("no panic");
        rig.end();
    });
}
