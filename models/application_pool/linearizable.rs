//! Concurrent clients, spawns and other operations on a pool, compared with the specification. Shuttle only.
//!
//! Every operation is recorded with its beginning, its end and its result. The pool is *linearizable* if some
//! sequential order of the operations gives the same results in the machine of `spec/`. The order must keep an
//! operation that ended before another began in front of it. The machine's properties then hold for the concurrent
//! pool. stateright's tester searches for the order.
//!
//! One operation is one critical section. These are operations of their own:
//! - a later poll of a waiting get;
//! - the end of a spawn, from before the spawner returns until its process is reported;
//! - a get's look at the restart file.
//!
//! The first poll of a get may be two sections: it queues up, then looks for its outcome. The machine therefore
//! checks that poll's result when the client goes on.
//!
//! Each scenario adds an operation that may come between the sections of clients that get, close and try. Each also
//! asserts which ends are reached. User code does not re-enter the pool: such calls would have to be recorded inside
//! the operation that made them.

mod machine;
mod recorder;

use crate::kernel::sync::thread::JoinHandle;
use crate::models::rig::spawn;
use crate::models::tool::explore::explore_large;
use cabrank_spec::application_pool::pool::Failure;
use recorder::{Client, Recorder};

fn never(_: usize) -> bool {
    false
}

/// Starts `clients` clients, each on a thread of its own.
fn start<T: Send + 'static>(
    recorder: &Recorder,
    clients: usize,
    run: impl Fn(usize, Client) -> T + Clone + Send + 'static,
) -> Vec<JoinHandle<T>> {
    let start = |client| {
        let (recorder, run) = (recorder.clone(), run.clone());
        spawn(move || run(client, recorder.client(client)))
    };
    (0..clients).map(start).collect()
}

fn join<T>(clients: Vec<JoinHandle<T>>) -> Vec<T> {
    clients.into_iter().map(|client| client.join().expect("no panic")).collect()
}

/// A process is detached and the limit is raised: this changes which groups may spawn, and which get waits for which.
#[test]
fn linearizable() {
    explore_large("linearizable", &["all served"], |outcomes| {
        let recorder = Recorder::new(3, 1, never, false);
        let clients = start(&recorder, 3, |n, client| {
            client.get_and_close(n % 2).expect("nothing fails here");
            let _ = client.try_get_and_close(0);
        });
        recorder.counts();
        recorder.detach(1);
        recorder.set_max(2);
        recorder.counts();
        join(clients);
        recorder.totals();
        recorder.assert_linearizable();
        outcomes.note("all served");
    });
}

/// The first spawn fails. The same section ends the waits for it and lets the group back off; later gets fail at once
/// (errata E26, E27).
#[test]
fn linearizable_failing_spawn() {
    let outcomes = ["1 failed", "2 failed"];
    explore_large("linearizable_failing_spawn", &outcomes, |outcomes| {
        let recorder = Recorder::new(3, 2, |ticket| ticket == 1, false);
        let clients = start(&recorder, 3, |n, client| {
            let got = client.get_and_close(n % 2);
            let _ = client.try_get_and_close(n % 2);
            got == Err(Failure::Spawn)
        });
        recorder.counts();
        let failed = join(clients).into_iter().filter(|failed| *failed).count();
        recorder.totals();
        recorder.assert_linearizable();
        outcomes.note(format!("{failed} failed"));
    });
}

/// A get is given up while it waits, or after it was served without knowing (erratum E16). The next get then finds
/// the process free, as if it had never been granted.
#[test]
fn linearizable_giving_up() {
    let outcomes = ["given up", "served at once"];
    explore_large("linearizable_giving_up", &outcomes, |outcomes| {
        let recorder = Recorder::new(3, 1, never, false);
        let clients = start(&recorder, 3, |n, client| match n {
            0 => client.get_and_give_up(0),
            _ => {
                client.get_and_close(0).expect("nothing fails here");
                false
            }
        });
        recorder.counts();
        let given_up = join(clients)[0];
        recorder.totals();
        recorder.counts();
        recorder.assert_linearizable();
        outcomes.note(if given_up { "given up" } else { "served at once" });
    });
}

/// The pool is closed: from one moment on every get fails, and no process is attached (erratum E32).
#[test]
fn linearizable_closing() {
    let outcomes = ["0 refused", "1 refused", "2 refused"];
    explore_large("linearizable_closing", &outcomes, |outcomes| {
        let recorder = Recorder::new(2, 1, never, false);
        let clients = start(&recorder, 2, |_, client| {
            let got = client.get_and_close(0);
            let _ = client.try_get_and_close(0);
            got == Err(Failure::Closed)
        });
        recorder.counts();
        recorder.close();
        recorder.counts();
        let refused = join(clients).into_iter().filter(|refused| *refused).count();
        recorder.totals();
        recorder.assert_linearizable();
        outcomes.note(format!("{refused} refused"));
    });
}

/// A restart file is touched between the looks and the sections of gets (errata E22, E24).
///
/// The first get that sees it restarts the group, and an earlier look does not count as a change. Exactly one process
/// is detached.
#[test]
fn linearizable_restart() {
    let outcomes = ["2 spawned, 1 detached", "3 spawned, 1 detached"];
    explore_large("linearizable_restart", &outcomes, |outcomes| {
        let recorder = Recorder::new(3, 2, never, true);
        // Later looks are compared with the look of this get.
        recorder.client(2).try_until_served_and_close(0).expect("nothing fails here");
        let clients = start(&recorder, 2, |_, client| {
            client.try_until_served_and_close(0).expect("nothing fails here");
        });
        recorder.touch(0);
        recorder.counts();
        join(clients);
        let [spawned, _, detached, _, _] = recorder.totals();
        recorder.assert_linearizable();
        outcomes.note(format!("{spawned} spawned, {detached} detached"));
    });
}
