//! Clients, spawns and whatever else happens to a pool, against the specification. Shuttle only.
//!
//! Every operation is recorded with its beginning, its end and what it gave. There must be an order in
//! which the machine of `spec/`, taking one operation after the other, gives the same, and which keeps what
//! ended before something else began in its place: then the pool is *linearizable*, and what was
//! found out about the machine holds of the pool under concurrency. stateright's tester looks for the
//! order.
//!
//! What is one operation here is one critical section: a later poll of a waiting get; the end of a spawn,
//! from before the spawner returns until its process is told of; a get's look at the restart file. The first poll
//! of a get may be two (it queues up, and looks whether it has been served since), so what it saw is then
//! held against the machine when its client goes on.
//!
//! Each scenario adds something to clients that get, close and try: what may come between their
//! sections is what it guards. Asserted besides: which ends there are. Foreign calls do not re-enter the
//! pool: what they did would have to be recorded, inside the operation that called them.

mod machine;
mod recorder;

use crate::models::rig::spawn;
use crate::sync::explore::explore_large;
use crate::sync::thread::JoinHandle;
use cabrank_spec::pool::Failure;
use recorder::{Client, Recorder};

fn none(_: usize) -> bool {
    false
}

/// Starts so many clients, each on a thread of its own.
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

/// A process is detached, and the limit raised: who may spawn, and who waits for whom.
#[test]
fn linearizable() {
    explore_large("linearizable", &["all served"], |outcomes| {
        let recorder = Recorder::new(3, 1, none, false);
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

/// The first spawn fails: who waits for it is told in the same section in which its group begins to back
/// off, and who comes later is told at once (errata E26, E27).
#[test]
fn linearizable_failing_spawn() {
    let outcomes = ["1 told", "2 told"];
    explore_large("linearizable_failing_spawn", &outcomes, |outcomes| {
        let recorder = Recorder::new(3, 2, |ticket| ticket == 1, false);
        let clients = start(&recorder, 3, |n, client| {
            let got = client.get_and_close(n % 2);
            let _ = client.try_get_and_close(n % 2);
            got == Err(Failure::Spawn)
        });
        recorder.counts();
        let told = join(clients).into_iter().filter(|told| *told).count();
        recorder.totals();
        recorder.assert_linearizable();
        outcomes.note(format!("{told} told"));
    });
}

/// A get is given up while it waits, or when it has been served and does not know it (erratum E16): then
/// the process is free for the next, as if it had not been given.
#[test]
fn linearizable_giving_up() {
    let outcomes = ["given up", "served at once"];
    explore_large("linearizable_giving_up", &outcomes, |outcomes| {
        let recorder = Recorder::new(3, 1, none, false);
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

/// The pool is closed: from one moment on everybody is told, and nothing is attached (erratum E32).
#[test]
fn linearizable_closing() {
    let outcomes = ["0 told", "1 told", "2 told"];
    explore_large("linearizable_closing", &outcomes, |outcomes| {
        let recorder = Recorder::new(2, 1, none, false);
        let clients = start(&recorder, 2, |_, client| {
            let got = client.get_and_close(0);
            let _ = client.try_get_and_close(0);
            got == Err(Failure::Closed)
        });
        recorder.counts();
        recorder.close();
        recorder.counts();
        let told = join(clients).into_iter().filter(|told| *told).count();
        recorder.totals();
        recorder.assert_linearizable();
        outcomes.note(format!("{told} told"));
    });
}

/// A restart file is touched between the looks and the sections of gets (errata E22, E24): whoever sees it
/// first restarts the group, and a look from before is no news: one process is detached for it, once.
#[test]
fn linearizable_restart() {
    let outcomes = ["2 spawned, 1 detached", "3 spawned, 1 detached"];
    explore_large("linearizable_restart", &outcomes, |outcomes| {
        let recorder = Recorder::new(3, 2, none, true);
        // What it sees is what the others compare with.
        recorder.client(2).get_and_close(0).expect("nothing fails here");
        let clients = start(&recorder, 2, |_, client| {
            client.get_and_close(0).expect("nothing fails here");
        });
        recorder.touch(0);
        recorder.counts();
        join(clients);
        let [spawned, _, detached, _, _] = recorder.totals();
        recorder.assert_linearizable();
        outcomes.note(format!("{spawned} spawned, {detached} detached"));
    });
}
