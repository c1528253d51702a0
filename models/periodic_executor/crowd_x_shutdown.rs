//! Many executors, opened, woken, closed and joined by many, while all are shut down. Shuttle only.
//!
//! Guards what the models of one executor cannot: that one shutdown ends them all, whatever each is
//! doing. Asserted: when it has returned, none runs and none begins to.

use crate::models::periodic_executor::rig::*;
use crate::sync::explore::explore_large;
use std::time::Duration;

#[test]
fn periodic_crowd_x_shutdown() {
    explore_large("periodic_crowd_x_shutdown", &["ended"], |outcomes| {
        let (registry, over) = (Registry::new(), Count::default());
        let executors: Vec<_> = (0..8).map(|n| executor(n, &registry, &over)).collect();
        let mut meddlers = (0..3)
            .map(|n| {
                let mine: Vec<_> = executors.iter().skip(n).step_by(2).cloned().collect();
                spawn(move || meddle(n, &mine))
            })
            .collect::<Vec<_>>()
            .into_iter();
        let first = meddlers.next().expect("there are three").join().expect("no panic");
        registry.shutdown(Duration::MAX).expect("no deadline");
        over.up();
        let opened = first + meddlers.map(|m| m.join().expect("no panic")).sum::<usize>();
        assert!(registry.is_empty());
        for executor in &executors {
            assert_eq!(executor.phase(), Phase::Stopped);
        }
        assert!((8..=OPENS).contains(&opened), "the first was not refused anything");
        outcomes.note("ended");
    });
}

/// 4, 4 and 3 executors, each opened twice.
const OPENS: usize = 2 * (4 + 4 + 3);

fn executor(n: usize, registry: &Registry, over: &Count) -> PeriodicExecutor {
    let over = over.clone();
    let mut calls = 0;
    builder().registry(registry).target(move || {
        assert_eq!(over.get(), 0, "called after the shutdown");
        calls += 1;
        match (n % 4, calls % 2) {
            (1, 0) => Flow::Stop,
            (2, 0) => scripted_panic(),
            _ => Flow::Continue,
        }
    })
}

/// How many opens were not refused.
fn meddle(n: usize, executors: &[PeriodicExecutor]) -> usize {
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
