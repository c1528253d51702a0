//! Many threads open, wake, close and join many executors while a shutdown closes all of them. Shuttle only.
//!
//! Guards the loop of `Registry::shutdown`, which no model of one executor can see: without it only the first
//! executor is closed. Asserts that every executor has stopped when the shutdown has returned, and stays so.

use crate::models::periodic_executor::rig::*;
use crate::models::tool::explore::explore_large;
use std::time::Duration;

#[test]
fn periodic_crowd_x_shutdown() {
    explore_large("periodic_crowd_x_shutdown", &["ended"], |outcomes| {
        let (registry, shut_down) = (Registry::new(), Count::default());
        let executors: Vec<_> = (0..8).map(|n| executor(n, &registry, &shut_down)).collect();
        let mut users = (0..3)
            .map(|n| {
                let mine: Vec<_> = executors.iter().skip(n).step_by(2).cloned().collect();
                spawn(move || use_all(n, &mine))
            })
            .collect::<Vec<_>>()
            .into_iter();
        let first = users.next().expect("there are three").join().expect("no panic");
        registry.shutdown(Duration::MAX).expect("no deadline");
        shut_down.up();
        let opened = first + users.map(|m| m.join().expect("no panic")).sum::<usize>();
        assert!(registry.is_empty());
        for executor in &executors {
            assert_eq!(executor.phase(), Phase::Stopped);
        }
        assert!((8..=OPENS).contains(&opened), "no open of the first user was refused");
        outcomes.note("ended");
    });
}

/// Three threads open 4, 4 and 3 executors, each of them twice.
const OPENS: usize = 2 * (4 + 4 + 3);

fn executor(n: usize, registry: &Registry, shut_down: &Count) -> PeriodicExecutor {
    let shut_down = shut_down.clone();
    let mut calls = 0;
    builder().registry(registry).build(move || {
        assert_eq!(shut_down.get(), 0, "called after the shutdown");
        calls += 1;
        match (n % 4, calls % 2) {
            (1, 0) => Flow::Stop,
            (2, 0) => scripted_panic(),
            _ => Flow::Continue,
        }
    })
}

/// Opens, wakes and closes these executors. Returns how many opens succeeded.
fn use_all(n: usize, executors: &[PeriodicExecutor]) -> usize {
    let mut opened = 0;
    for executor in executors {
        opened += usize::from(executor.open().is_ok());
        lock_free(|| executor.wake());
        if n > 0 {
            lock_free(|| executor.close());
            let _ = executor.join();
        }
        opened += usize::from(executor.open().is_ok());
        executor.skip_sleep();
    }
    opened
}
