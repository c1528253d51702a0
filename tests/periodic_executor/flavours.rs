//! The behaviour that threads and tasks share. The first seven tests restate PyMongo's suite; the
//! others cover wakes during a call, the minimum interval and reopening.

use crate::both::{Executor, Rig, SECOND, both, gate};
use crate::common::before_long;
use cabrank::periodic_executor::{Flow, JoinError, Joined, Phase};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

both! {
    join_before_the_first_open_returns,
    a_target_that_says_no_stops,
    skip_sleep_before_an_open_leaves_out_its_first_pause,
    skip_sleep_leaves_out_one_pause,
    wake_runs_early,
    a_new_interval_counts_from_the_next_pause,
    a_stopped_executor_can_be_opened_again,
    a_panic_stops_it_and_is_given_to_join,
    a_wake_during_a_call_causes_another,
    wakes_are_held_back_by_the_minimum_interval,
    wakes_before_a_call_are_served_by_it,
    a_target_chooses_its_pause,
    close_ends_a_sleep_at_once,
    an_open_that_follows_a_close_runs_at_once,
    opens_during_a_call_cause_one_more,
    opening_an_open_executor_changes_no_state,
}

fn join_before_the_first_open_returns<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Continue);
    assert_eq!(rig.executor.join(), Ok(Joined::NeverOpened));
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::NeverOpened));
}

fn a_target_that_says_no_stops<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| Flow::from(call < 3));
    rig.executor.open();
    for called in [&[0][..], &[0, 1], &[0, 1, 2]] {
        rig.has_called(called);
        rig.advance(1);
    }
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 1, 2]);
}

fn skip_sleep_leaves_out_one_pause<E: Executor>() {
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
    // Exactly one pause is left out.
    rig.has_called(&[0, 10, 10]);
    rig.advance(10);
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 10, 10, 20]);
}

fn skip_sleep_before_an_open_leaves_out_its_first_pause<E: Executor>() {
    let rig = Rig::<E>::new(10 * SECOND, 5 * SECOND, |call| Flow::from(call < 3));
    rig.executor.skip_sleep();
    rig.executor.open();
    rig.has_called(&[0, 0]);
    rig.advance(10);
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    rig.has_called(&[0, 0, 10]);
}

fn wake_runs_early<E: Executor>() {
    let rig = Rig::<E>::new(30 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.advance(3);
    rig.has_called(&[0]);
    rig.wake();
    rig.has_called(&[0, 3]);
    rig.advance(29);
    // The interval starts again at the wake.
    rig.has_called(&[0, 3]);
    rig.advance(1);
    rig.has_called(&[0, 3, 33]);
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
}

fn a_new_interval_counts_from_the_next_pause<E: Executor>() {
    let rig = Rig::<E>::new(30 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.open();
    rig.settle();
    rig.executor.update_interval(Some(2 * SECOND));
    rig.advance(29);
    // The pause under way keeps its length.
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 30]);
    rig.advance(2);
    rig.has_called(&[0, 30, 32]);
    rig.advance(2);
    rig.has_called(&[0, 30, 32, 34]);
    rig.executor.close();
}

fn a_stopped_executor_can_be_opened_again<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |_| Flow::Stop);
    for opened in 1..=3 {
        rig.executor.open();
        assert_eq!(rig.executor.join(), Ok(Joined::Finished));
        assert_eq!((rig.calls().len(), rig.executor.phase()), (opened, Phase::Stopped));
    }
}

fn a_panic_stops_it_and_is_given_to_join<E: Executor>() {
    let rig = Rig::<E>::new(SECOND, Duration::ZERO, |call| match call {
        // Panics without calling the panic hook.
        1 => std::panic::resume_unwind(Box::new("no such host")),
        _ => Flow::Stop,
    });
    rig.executor.open();
    for _ in 0..2 {
        // Every join returns the kept panic.
        let panic = rig.executor.join().expect_err("it panicked");
        assert_eq!(panic, JoinError::Panicked("no such host".into()));
        assert_eq!(panic.to_string(), "the executor's target panicked: no such host");
    }
    assert_eq!(rig.executor.phase(), Phase::Stopped);
    rig.executor.open();
    assert_eq!(rig.executor.join(), Ok(Joined::Finished));
    assert_eq!(rig.calls().len(), 2);
}

/// Acts during the first call, and expects exactly one more.
fn one_more_call_after<E: Executor>(act: impl FnOnce(&E)) {
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
    act(&rig.executor);
    go.send(()).expect("it waits");
    before_long(|| rig.calls().len() == 2);
    rig.settle();
    assert_eq!(rig.calls().len(), 2);
}

fn a_wake_during_a_call_causes_another<E: Executor>() {
    one_more_call_after::<E>(|executor| executor.wake());
}

fn wakes_are_held_back_by_the_minimum_interval<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, 5 * SECOND, |_| Flow::Continue);
    rig.executor.open();
    rig.advance(1);
    rig.wake();
    rig.advance(3);
    // A wake is already pending: more wakes leave it asleep.
    rig.executor.wake();
    assert_eq!(rig.executor.phase(), Phase::Asleep);
    rig.has_called(&[0]);
    rig.advance(1);
    rig.has_called(&[0, 5]);
    // The postponed wake is served.
    rig.advance(10);
    rig.has_called(&[0, 5]);
    rig.wake();
    rig.has_called(&[0, 5, 15]);
    // A close is not postponed.
    rig.wake();
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    rig.has_called(&[0, 5, 15]);
}

fn wakes_before_a_call_are_served_by_it<E: Executor>() {
    let rig = Rig::<E>::new(60 * SECOND, Duration::ZERO, |_| Flow::Continue);
    rig.executor.wake();
    rig.executor.wake();
    rig.executor.open();
    rig.advance(1);
    rig.has_called(&[0]);
}

fn a_target_chooses_its_pause<E: Executor>() {
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

fn close_ends_a_sleep_at_once<E: Executor>() {
    let rig = Rig::<E>::new(Duration::MAX, Duration::MAX, |_| Flow::Continue);
    rig.executor.open();
    before_long(|| rig.calls().len() == 1);
    rig.settle();
    rig.executor.close();
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    rig.executor.wake();
    assert_eq!((rig.calls().len(), rig.executor.phase()), (1, Phase::Stopped));
}

fn an_open_that_follows_a_close_runs_at_once<E: Executor>() {
    let rig = Rig::<E>::new(Duration::MAX, Duration::MAX, |_| Flow::Continue);
    for opened in 1..=100 {
        rig.executor.open();
        before_long(|| rig.calls().len() == opened);
        // Whether the close took effect or not, the next open causes one more call.
        rig.executor.close();
    }
    assert_eq!(rig.executor.join(), Ok(Joined::Closed));
    assert_eq!(rig.calls().len(), 100);
}

fn opens_during_a_call_cause_one_more<E: Executor>() {
    one_more_call_after::<E>(|executor| {
        for _ in 0..2 {
            executor.close();
            executor.open();
        }
    });
}

fn opening_an_open_executor_changes_no_state<E: Executor>() {
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
