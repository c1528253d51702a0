//! Waiting for a resource within an execution is a permit block: the resource's borrower may have
//! to load before it returns the resource.

use crate::common::{Background, pool};
use crate::shared::before_long;
use crate::shared::task::block_on;
use cabrank::Interlock;
use cabrank::execution::interlock::{AcquireError, OwnerState};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The borrower loads while another owner waits for its resource: both come to their end.
#[test]
fn a_thread_that_waits_for_a_resource_lets_its_borrower_load() {
    let rig = pool(|b| b.max_active(1));
    let interlock = Interlock::new();
    let (load, reported) = channel();
    let (has, it_has) = channel();
    let (ilk, theirs) = (interlock.clone(), rig.pool.clone());
    let holder = Background::start(move || {
        ilk.run(|r| {
            let lent = theirs.borrow().expect("the only one");
            has.send(()).expect("the test waits for it");
            reported.recv().expect("the test releases it");
            let loaded = r.load(|_| lent.number);
            drop(lent);
            loaded
        })?
    });
    it_has.recv().expect("it has it");
    let (ilk, theirs) = (interlock.clone(), rig.pool.clone());
    let waits = Background::start(move || {
        ilk.run(|r| r.permit_loads(|| theirs.borrow().map(|lent| lent.number)))?
    });
    before_long(|| rig.pool.num_waiting() == 1);
    assert!(interlock.dump().owners.iter().any(|owner| owner.state == OwnerState::Permitting));
    load.send(()).expect("it listens");
    assert_eq!(holder.end().expect("no deadlock"), 1);
    assert_eq!(waits.end().expect("no deadlock"), Ok(1));
}

/// The same with a task.
#[test]
fn a_task_that_waits_for_a_resource_lets_its_borrower_load() {
    let rig = pool(|b| b.max_active(1));
    let interlock = Interlock::new();
    let lent = rig.lend();
    let (ilk, theirs) = (interlock.clone(), rig.pool.clone());
    let waits = Background::start(move || {
        let borrows = async { theirs.borrow_async().await.map(|lent| lent.number) };
        block_on(ilk.run_async(async |r| r.permit_loads_async(borrows).await))?
    });
    before_long(|| rig.pool.num_waiting() == 1);
    let loaded = interlock.run(|r| r.load(|_| lent.number)).expect("no deadlock");
    assert_eq!(loaded.expect("no deadlock"), 1);
    drop(lent);
    assert_eq!(waits.end().expect("no deadlock"), Ok(1));
}

/// Without the permit block the borrower cannot load while the other waits. (The test ends the
/// wait.)
#[test]
fn without_a_permit_section_the_borrower_cannot_load() {
    let rig = pool(|b| b.max_active(1).max_wait(crate::shared::SECOND));
    let interlock = Interlock::builder().acquire_timeout(Duration::from_millis(30)).build();
    let lent = rig.lend();
    let (ilk, theirs) = (interlock.clone(), rig.pool.clone());
    let waits = Background::start(move || ilk.run(|_| theirs.borrow().map(drop)));
    before_long(|| rig.pool.num_waiting() == 1);
    let load = || interlock.run(|r| r.load(|_| ())).expect("no owner holds");
    assert!(matches!(load(), Err(AcquireError::TimedOut(_))));
    rig.clock.advance(crate::shared::SECOND);
    assert!(waits.end().expect("no owner holds").is_err());
    load().expect("no other owner runs");
    drop(lent);
}
