//! A thread takes a permit, leaves it to the others, and goes to sleep behind them.
//!
//! Guards that a thread settles the state before it sleeps (`block` in `src/kernel/section.rs`). Its take has made something
//! free, and the sleep releases the lock without the end of a section. Otherwise the permit stays free, while the task
//! that could use it and the thread itself wait for ever. Asserted: both get a permit, and no permit is left over.

use super::rig::Permits;
use crate::kernel::section::Patience;
use crate::models::rig::*;
use std::pin::pin;

#[test]
fn section_passed_on_x_sleep() {
    let expected = ["the thread waited first", "the task waited first"];
    explore(Model("section_passed_on_x_sleep", 28_877), &expected, |outcomes| {
        let permits = Permits::new(0);
        let theirs = permits.clone();
        let thread = spawn(move || theirs.take_the_second());
        let first = permits.is_waited_for();
        let mut task = pin!(permits.take(Patience::Task));
        assert!(permits.reentry.poll_once(task.as_mut()).is_pending());
        permits.give();
        assert_eq!(permits.reentry.block_on(task), Some(true));
        permits.give();
        thread.join().expect("no panic");
        assert_eq!(permits.free(), 0);
        outcomes.note(if first { "the thread waited first" } else { "the task waited first" });
    });
}
