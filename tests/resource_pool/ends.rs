//! Ends that two threads and two tasks wait for: each of them is woken, once.

use crate::common::{Background, Keyed, Pool, Rig, keyed, pool};
use crate::shared::SECOND;
use crate::shared::task::Task;
use cabrank::resource_pool::{BorrowError, Borrowed};
use std::time::Duration;

/// Returns a task that waits for the end of a closed pool.
fn until_closed(rig: &Rig<Pool>) -> Task<()> {
    let pool = rig.pool.clone();
    let mut task = Task::new(async move { pool.wait_closed_async().await });
    assert!(task.poll().is_none(), "it waits");
    task
}

/// Starts a thread that waits for the end of a closed pool.
fn waits_for_end(rig: &Rig<Pool>, timeout: Duration) -> Background<bool> {
    let pool = rig.pool.clone();
    Background::start(move || pool.wait_closed(timeout))
}

#[test]
fn a_close_fails_each_borrower_that_waits() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    let threads = [rig.queue(), rig.queue()];
    let tasks = [rig.task(), rig.task()];
    rig.pool.close();
    for mut task in tasks {
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.poll().expect("it was woken").expect_err("closed"), BorrowError::Closed);
    }
    for thread in threads {
        assert_eq!(thread.end().expect_err("closed"), BorrowError::Closed);
    }
    assert_eq!(rig.pool.num_waiting(), 0);
    drop(lent);
}

#[test]
fn a_close_fails_the_borrowers_of_each_key() {
    let rig: Rig<Keyed> = keyed(|b| b.max_total(1));
    let lent = rig.lend("a");
    let threads = [rig.queue("a"), rig.queue("b")];
    let tasks = [rig.task("b"), rig.task("c"), rig.task("c")];
    rig.pool.close();
    for mut task in tasks {
        assert_eq!(task.poll().expect("it was woken").expect_err("closed"), BorrowError::Closed);
    }
    for thread in threads {
        assert_eq!(thread.end().expect_err("closed"), BorrowError::Closed);
    }
    drop(lent);
    assert_eq!((rig.pool.num_keys(), rig.pool.num_total()), (0, 0));
}

/// The borrowers that were granted a resource or a place, and have not picked it up.
#[test]
fn a_close_takes_each_grant_back() {
    for fair in [true, false] {
        let rig = pool(|b| b.max_active(3).fair(fair));
        let [one, two, three] = rig.lend_all();
        let tasks = [rig.task(), rig.task(), rig.task()];
        drop((one, two));
        Borrowed::invalidate(three);
        assert_eq!(tasks.each_ref().map(Task::wakes), [1; 3]);
        rig.pool.close();
        for mut task in tasks {
            let refused = task.poll().expect("it was granted").expect_err("closed");
            assert_eq!(refused, BorrowError::Closed);
        }
        assert!(rig.pool.wait_closed(Duration::ZERO), "{fair}");
        assert_eq!((rig.script.alive(), rig.script.made()), (0, 3));
    }
}

/// A grant that its task never picks up does not keep the others from their end.
#[test]
fn the_end_of_a_close_wakes_each_caller() {
    let rig = pool(|b| b.max_active(1));
    let lent = rig.lend();
    rig.pool.close();
    let tasks = [until_closed(&rig), until_closed(&rig)];
    let threads = [waits_for_end(&rig, Duration::MAX), waits_for_end(&rig, SECOND)];
    drop(lent);
    for mut task in tasks {
        assert_eq!((task.wakes(), task.poll()), (1, Some(())));
    }
    assert!(threads.map(Background::end).iter().all(|closed| *closed));
    // Later callers do not wait.
    assert!(rig.pool.wait_closed(Duration::ZERO));
    let pool = rig.pool.clone();
    assert_eq!(Task::new(async move { pool.wait_closed_async().await }).poll(), Some(()));
}

/// They began to wait before the pool was closed.
#[test]
fn the_close_of_an_empty_pool_wakes_each_caller() {
    let rig = pool(|b| b);
    let tasks = [until_closed(&rig), until_closed(&rig), until_closed(&rig)];
    let threads = [waits_for_end(&rig, Duration::MAX), waits_for_end(&rig, Duration::MAX)];
    rig.pool.close();
    for mut task in tasks {
        assert_eq!((task.wakes(), task.poll()), (1, Some(())));
    }
    assert!(threads.map(Background::end).iter().all(|closed| *closed));
}

/// The clock ends the waits of all threads whose time is over, and of no other caller.
#[test]
fn an_advance_ends_the_wait_of_each_thread() {
    let rig = pool(|b| b.max_active(1).max_wait(SECOND));
    let lent = rig.lend();
    let threads = [rig.queue(), rig.queue(), rig.queue()];
    let mut task = rig.task();
    rig.clock.advance(SECOND);
    for thread in threads {
        assert!(matches!(thread.end(), Err(BorrowError::TimedOut(_))));
    }
    assert_eq!((task.wakes(), task.poll().is_some(), rig.pool.num_waiting()), (0, false, 1));
    drop(lent);
    assert!(task.poll().expect("it was woken").is_ok());
}

#[test]
fn an_advance_ends_each_wait_for_the_end() {
    let rig = pool(|b| b);
    let lent = rig.lend();
    rig.pool.close();
    let threads = [waits_for_end(&rig, SECOND), waits_for_end(&rig, SECOND)];
    let patient = waits_for_end(&rig, Duration::MAX);
    let mut task = until_closed(&rig);
    assert_eq!(threads.map(|thread| thread.end_by(&rig.clock, SECOND)), [false; 2]);
    assert_eq!((task.wakes(), task.poll()), (0, None));
    drop(lent);
    assert!(patient.end());
    assert_eq!((task.wakes(), task.poll()), (1, Some(())));
}

/// A raised limit makes room for several waiters at once.
#[test]
fn a_raised_limit_serves_each_waiter() {
    let raises: [fn(&Pool); 3] = [
        |pool| pool.set_max_active(5).expect("valid"),
        |pool| pool.set_max_active(None).expect("valid"),
        |pool| pool.set_max_total(5).expect("valid"),
    ];
    for (nth, raise) in raises.into_iter().enumerate() {
        let rig = match nth {
            2 => pool(|b| b.max_active(None).max_idle(1).max_total(1)),
            _ => pool(|b| b.max_active(1)),
        };
        let lent = rig.lend();
        let threads = [rig.queue(), rig.queue()];
        let tasks = [rig.task(), rig.task()];
        raise(&rig.pool);
        let all: Vec<_> = tasks
            .map(|mut task| task.poll().expect("it was woken").expect("a place"))
            .into_iter()
            .chain(threads.map(|thread| thread.end().expect("a place")))
            .collect();
        assert_eq!((rig.counts(), rig.pool.num_waiting()), ((5, 0), 0), "{nth}");
        drop((all, lent));
    }
}
