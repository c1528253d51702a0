//! What thread and task have in common: Q1 to Q7, wakes during a call, the minimum interval, reopening.

use crate::both::{Executor, Rig, SECOND, Threads, gate};
use crate::common::before_long;
use cabrank::{AsyncPeriodicExecutor, Flow, JoinError, Joined, PeriodicExecutor, Phase};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One test for each flavour.
macro_rules! both {
    ($($(#[$doc:meta])* $name:ident, $of_tasks:ident => $body:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $body::<PeriodicExecutor>();
        }
        $(#[$doc])*
        #[test]
        fn $of_tasks() {
            $body::<AsyncPeriodicExecutor<Threads>>();
        }
    )*};
}

both! {
    q01_join_before_the_first_open_returns, q01_a_task_is_joined_before_the_first_open => q01;
    q02_a_target_that_says_no_stops, q02_an_async_target_that_says_no_stops => q02;
    q03_skip_sleep_leaves_out_one_pause, q03_skip_sleep_of_a_task => q03;
    q04_wake_runs_early, q04_wake_runs_a_task_early => q04;
    q05_a_new_interval_counts_from_the_next_pause, q05_a_new_interval_of_a_task => q05;
    q06_what_has_stopped_can_be_opened_again, q06_a_task_that_has_stopped_can_be_opened_again => q06;
    q07_a_panic_stops_it_and_is_given_to_join, q07_a_panic_of_a_task => q07;
    a_wake_during_a_call_causes_another, a_wake_during_a_tasks_call => wake_during_a_call;
    wakes_are_held_back_by_the_minimum_interval, a_tasks_wakes_are_held_back => held_back;
    wakes_before_a_call_are_served_by_it, wakes_before_a_tasks_call => coalesced;
    a_target_chooses_its_pause, an_async_target_chooses_its_pause => chosen_pause;
    close_ends_a_sleep_at_once, close_ends_a_tasks_sleep => close_ends_a_sleep;
    an_open_that_follows_a_close_runs_at_once, a_task_runs_at_once_when_reopened => reopen;
    opens_during_a_call_cause_one_more, opens_during_a_tasks_call => reopened_twice;
    opening_what_is_open_changes_nothing, opening_an_open_task_changes_nothing => open_twice;
}

fn q01<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Continue);
    assert_eq!(rig.executor.join(), Ok(Joined::NeverOpened));
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::NeverOpened));
}

fn q02<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| Flow::from(call < 3));
    rig.executor.open();
    for called in [&[0][..], &[0, 1], &[0, 1, 2]] {
        rig.has_called(called);
        rig.advance(1);
    }
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 1, 2]);
}

fn q03<E: Executor>() {
    let skips: Arc<OnceLock<E>> = Arc::default();
    let executor = skips.clone();
    let rig = Rig::<E>::new(10 * SECOND, 5 * SECOND, move |call| {
        if call == 2 {
            executor.get().expect("it is set").skip_sleep();
        }
        Flow::from(call < 4)
    });
    assert!(skips.set(rig.executor.clone()).is_ok());
    rig.executor.open();
    rig.advance(10);
    // One pause is left out, and one only.
    rig.has_called(&[0, 10, 10]);
    rig.advance(10);
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 10, 10, 20]);
}

fn q04<E: Executor>() {
    let rig = Rig::<E>::new(30 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.advance(3);
    rig.has_called(&[0]);
    rig.wake();
    rig.has_called(&[0, 3]);
    rig.advance(29);
    // The interval begins anew.
    rig.has_called(&[0, 3]);
    rig.advance(1);
    rig.has_called(&[0, 3, 33]);
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
}

fn q05<E: Executor>() {
    let rig = Rig::<E>::new(30 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.settle();
    rig.executor.update_interval(2 * SECOND);
    rig.advance(29);
    // The pause under way stays.
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 30]);
    rig.advance(2);
    rig.has_called(&[0, 30, 32]);
    rig.advance(2);
    rig.has_called(&[0, 30, 32, 34]);
    rig.executor.close();
}

fn q06<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Stop);
    for opened in 1..=3 {
        rig.executor.open();
        assert_eq!(rig.executor.join(), Ok(Joined::Finished));
        assert_eq!((rig.calls().len(), rig.executor.phase()), (opened, Phase::Stopped));
    }
}

fn q07<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| match call {
        // Without the report that a panic makes.
        1 => std::panic::resume_unwind(Box::new("no such host")),
        _ => Flow::Stop,
    });
    rig.executor.open();
    for _ in 0..2 {
        // Kept: each who asks is told.
        let panic = rig.executor.join().expect_err("it panicked");
        assert_eq!(panic, JoinError::Panicked("no such host".into()));
        assert_eq!(panic.to_string(), "the executor's target panicked: no such host");
    }
    assert_eq!(rig.executor.phase(), Phase::Stopped);
    rig.executor.open();
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    assert_eq!(rig.calls().len(), 2);
}

fn wake_during_a_call<E: Executor>() {
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let rig = Rig::<E>::new(Duration::MAX, Duration::ZERO, move |call| {
        if call == 1 {
            entered.send(()).expect("the test waits");
            gone.recv().expect("the test lets it go");
        }
        Flow::Continue
    });
    rig.executor.open();
    inside.recv().expect("it is called");
    rig.executor.wake();
    go.send(()).expect("it waits");
    before_long(|| rig.calls().len() == 2);
    rig.settle();
    assert_eq!(rig.calls().len(), 2);
}

fn held_back<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, 5 * SECOND, |_| Flow::Continue);
    rig.executor.open();
    rig.advance(1);
    rig.wake();
    rig.advance(3);
    // It knows: more wakes leave it asleep.
    rig.executor.wake();
    assert_eq!(rig.executor.phase(), Phase::Asleep);
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 5]);
    // What was held back is not owed any more.
    rig.advance(10);
    rig.has_called(&[0, 5]);
    rig.wake();
    rig.has_called(&[0, 5, 15]);
    // Closing is not held back.
    rig.wake();
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    rig.has_called(&[0, 5, 15]);
}

fn coalesced<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.wake();
    rig.executor.wake();
    rig.executor.open();
    rig.advance(1);
    rig.has_called(&[0]);
}

fn chosen_pause<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, 2 * SECOND, |call| match call {
        1 => Flow::After(7 * SECOND),
        2 => Flow::After(Duration::ZERO),
        3 => Flow::Idle,
        _ => Flow::Continue,
    });
    rig.executor.open();
    rig.advance(6);
    rig.advance(1);
    rig.has_called(&[0, 7]);
    rig.advance(2);
    // Not before the minimum interval.
    rig.has_called(&[0, 7, 9]);
    rig.advance(1000);
    rig.has_called(&[0, 7, 9]);
    rig.wake();
    rig.has_called(&[0, 7, 9, 1009]);
    rig.advance(60);
    rig.has_called(&[0, 7, 9, 1009, 1069]);
}

fn close_ends_a_sleep<E: Executor>() {
    let rig = Rig::<E>::new(Duration::MAX, Duration::MAX, |_| Flow::Continue);
    rig.executor.open();
    before_long(|| rig.calls().len() == 1);
    rig.settle();
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    rig.executor.wake();
    assert_eq!((rig.calls().len(), rig.executor.phase()), (1, Phase::Stopped));
}

fn reopen<E: Executor>() {
    let rig = Rig::<E>::new(Duration::MAX, Duration::MAX, |_| Flow::Continue);
    for opened in 1..=100 {
        rig.executor.open();
        before_long(|| rig.calls().len() == opened);
        // Obeyed or not: the next open is a call more.
        rig.executor.close();
    }
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    assert_eq!(rig.calls().len(), 100);
}

fn reopened_twice<E: Executor>() {
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let rig = Rig::<E>::new(Duration::MAX, Duration::ZERO, move |call| {
        if call == 1 {
            entered.send(()).expect("the test waits");
            gone.recv().expect("the test lets it go");
        }
        Flow::Continue
    });
    rig.executor.open();
    inside.recv().expect("it is called");
    for _ in 0..2 {
        rig.executor.close();
        rig.executor.open();
    }
    go.send(()).expect("it waits");
    before_long(|| rig.calls().len() == 2);
    rig.settle();
    assert_eq!(rig.calls().len(), 2);
}

fn open_twice<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.has_called(&[0]);
    for _ in 0..10 {
        rig.settle();
        rig.executor.open();
    }
    rig.advance(1);
    rig.has_called(&[0, 1]);
}
