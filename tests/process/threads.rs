//! A join, and a shutdown, wait for the operating system's thread, not only for the last call on it.

use crate::common::before_long;
use cabrank::PeriodicExecutor;
use cabrank::periodic_executor::{Builder, Flow, JoinError, Joined, OnThread, Phase, Registry};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Runs a closure in the destructor of a thread-local, which the thread drops after its last call.
struct AtExit(Box<dyn FnOnce() + Send>);

impl Drop for AtExit {
    fn drop(&mut self) {
        std::mem::replace(&mut self.0, Box::new(|| ()))();
    }
}

std::thread_local! {
    static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

fn at_exit(f: impl FnOnce() + Send + 'static) {
    AT_EXIT.with_borrow_mut(|slot| *slot = Some(AtExit(Box::new(f))));
}

fn builder() -> Builder<OnThread> {
    PeriodicExecutor::builder(None).unregistered()
}

/// An executor that calls once; its thread then leaves slowly, and says at the very end that it has left.
fn leaves_slowly(builder: Builder<OnThread>) -> (PeriodicExecutor, Arc<AtomicBool>) {
    let left = Arc::new(AtomicBool::new(false));
    let theirs = left.clone();
    let executor = builder.build(move || {
        let theirs = theirs.clone();
        at_exit(move || {
            std::thread::sleep(Duration::from_millis(20));
            theirs.store(true, SeqCst);
        });
        Flow::Stop
    });
    (executor, left)
}

/// An executor that calls once; its thread does not leave before the test drops the sender.
fn leaves_late(builder: Builder<OnThread>) -> (PeriodicExecutor, Receiver<()>, Sender<()>) {
    let (leaving, is_leaving) = channel();
    let (go, gone) = channel();
    let mut gone = Some(gone);
    let executor = builder.build(move || {
        let (leaving, gone) = (leaving.clone(), gone.take());
        at_exit(move || {
            leaving.send(()).expect("the test waits");
            gone.map(|gone: Receiver<()>| gone.recv());
        });
        Flow::Stop
    });
    (executor, is_leaving, go)
}

#[test]
fn a_join_waits_for_the_destructors_of_thread_locals() {
    let (executor, left) = leaves_slowly(builder());
    executor.open().expect("a thread");
    assert_eq!(executor.join(), Ok(Joined::Finished));
    assert!(left.load(SeqCst));
}

#[test]
fn a_shutdown_waits_for_the_thread_of_a_run_that_has_ended_and_of_a_dropped_executor() {
    for is_dropped in [false, true] {
        let registry = Registry::new();
        let (executor, left) = leaves_slowly(builder().registry(&registry));
        executor.open().expect("a thread");
        while !registry.is_empty() {
            std::thread::yield_now();
        }
        let kept = (!is_dropped).then_some(executor);
        registry.shutdown(Duration::from_secs(60)).expect("it leaves in time");
        assert!(left.load(SeqCst), "dropped: {is_dropped}");
        drop(kept);
    }
}

#[test]
fn a_timeout_limits_the_wait_for_the_thread_too() {
    let registry = Registry::new();
    let (executor, is_leaving, go) = leaves_late(builder().name("slow").registry(&registry));
    executor.open().expect("a thread");
    is_leaving.recv().expect("it has been called");
    assert_eq!(executor.join_timeout(Duration::from_millis(1)), Err(JoinError::TimedOut));
    let late = registry.shutdown(Duration::from_millis(1)).expect_err("it is late");
    assert_eq!(late.to_string(), "not stopped in time: slow");
    drop(go);
    assert_eq!(executor.join_timeout(Duration::from_secs(60)), Ok(Joined::Finished));
    registry.shutdown(Duration::from_secs(60)).expect("it has left");
}

/// An open does not wait for the thread of the former run; a join waits for both threads.
#[test]
fn an_open_does_not_wait_for_the_former_thread_but_a_join_does() {
    let (executor, is_leaving, go) = leaves_late(builder());
    executor.open().expect("a thread");
    is_leaving.recv().expect("it has been called");
    executor.open().expect("a second thread");
    is_leaving.recv().expect("it has been called again, while the first thread leaves");
    assert_eq!(executor.join_timeout(Duration::from_millis(1)), Err(JoinError::TimedOut));
    drop(go);
    assert_eq!(executor.join(), Ok(Joined::Finished));
}

/// The thread cannot wait for its own end.
#[test]
fn a_join_on_the_thread_itself_returns_at_once_also_while_the_thread_leaves() {
    let me: Arc<OnceLock<PeriodicExecutor>> = Arc::default();
    let (sender, joined) = channel();
    let executor = {
        let me = me.clone();
        builder().build(move || {
            let own = me.get().expect("the test has set it").clone();
            sender.send(own.join()).expect("the test waits");
            let sender = sender.clone();
            at_exit(move || sender.send(own.join()).expect("the test waits"));
            Flow::Stop
        })
    };
    assert!(me.set(executor.clone()).is_ok());
    executor.open().expect("a thread");
    assert_eq!(joined.recv().expect("in the call"), Ok(Joined::Itself));
    assert_eq!(joined.recv().expect("in a destructor"), Ok(Joined::Finished));
    assert_eq!(executor.join(), Ok(Joined::Finished));
}

/// Returns the kernel's lines about this process's threads with the name.
///
/// It leaves out threads that the kernel takes down: these have run their last instruction.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> Vec<String> {
    const PF_EXITING: u64 = 4;
    let is_exiting = |stat: &String| {
        let flags = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(6));
        flags.expect("a line has flags").parse::<u64>().expect("a number") & PF_EXITING != 0
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let stats = tasks.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok());
    stats.filter(|stat| stat.contains(&format!("({name})")) && !is_exiting(stat)).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_is_left_after_a_join_or_a_shutdown() {
    for round in 0..1000 {
        let (registry, name) = (Registry::new(), format!("gone {round}"));
        let executor = PeriodicExecutor::builder(None).name(&name).registry(&registry).build(|| ());
        executor.open().expect("a thread");
        match round % 3 {
            0 => {
                executor.close();
                executor.join().expect("no panic");
            }
            1 => registry.shutdown(Duration::from_secs(60)).expect("in time"),
            _ => {
                drop(executor);
                registry.shutdown(Duration::from_secs(60)).expect("in time");
            }
        }
        assert_eq!(threads_named(&name), [""; 0], "round {round}");
    }
}

/// A thread's stack stays until the thread is joined. The stacks are large, so that they stand out from what the other
/// tests of this process map.
#[cfg(target_os = "linux")]
#[test]
fn an_executor_that_is_opened_again_and_never_joined_keeps_no_former_stack() {
    const STACK: usize = 64 << 20;
    let mapped = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages = statm.split(' ').next().and_then(|pages| pages.parse::<usize>().ok());
        // A page has at least this many bytes.
        pages.expect("the first number is the size") * 4096
    };
    let executor = builder().name("reopened").stack_size(STACK).build(|| Flow::Stop);
    let opens = |rounds: usize| {
        for _ in 0..rounds {
            executor.open().expect("a thread");
            before_long(|| executor.phase() == Phase::Stopped);
            before_long(|| threads_named("reopened").is_empty());
        }
    };
    opens(100);
    let before = mapped();
    opens(400);
    let grown = mapped().saturating_sub(before);
    assert!(grown < 100 * STACK, "{grown} bytes after 400 rounds");
}
