//! The cure of the Rails guide's deadlock: an execution permits loads while it waits for a thread whose execution
//! loads.
//!
//! Guards `State::permit`, which gives the share up; settling the section then lets waiters go on. Without that last
//! step, a load that waited already sleeps for ever. Guards `State::take_back`, which waits for the holder. Without
//! that, the execution runs on while the thread loads. Asserted: the thread loads alone, whether it waited for the
//! permit block or came during it, and the execution gets its share back.

use crate::models::interlock::rig::*;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

#[test]
fn interlock_permit_x_load() {
    let expected = ["load while permitted", "load waited"];
    explore(Model("interlock_permit_x_load", 2_176), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let loaded = Counter::new();
        let theirs = (interlock.clone(), code.clone(), loaded.clone());
        let mut outer = owner(&interlock);
        let thread = spawn(move || {
            let (interlock, code, loaded) = theirs;
            let run = interlock.run(|r| {
                r.load(|_| {
                    // Before the load ends: the permit block may end first.
                    loaded.up();
                    code.alone("load");
                })
                .expect("no limit");
                code.runs();
            });
            run.expect("no limit");
        });
        let waits = in_state(&interlock, OwnerState::WaitingToLoad) == 1;
        outer.permit_loads(|| loaded.wait(1)).expect("no limit");
        assert!(outer.has_share());
        code.runs();
        thread.join().expect("no panic");
        outcomes.note(if waits { "load waited" } else { "load while permitted" });
    });
}

/// A permit block ends before, between or after two loads.
///
/// Guards the order of `State::settle`: a waiting load goes before an owner that resumes. Asserted: the block's owner
/// has its share back before or after both loads (PROP-ILK-LOADS-FIRST), and every owner goes on.
#[test]
fn interlock_permit_x_two_loads() {
    explore(
        Model("interlock_permit_x_two_loads", 28_190),
        &["after both", "before both"],
        |outcomes| {
            let (interlock, code) = (Interlock::new(), LoadedCode::new());
            let (mut a, mut b) = (owner(&interlock), owner(&interlock));
            let (mut permits, there) = (owner(&interlock), code.clone());
            let thread = spawn(move || {
                permits.permit_loads(|| ()).expect("no limit");
                there.log().len()
            });
            let load = async |owner: &mut Running<'_>, name| {
                owner.load_async(async |_| code.note(name)).await.expect("no limit");
            };
            block_on(both(load(&mut a, "a"), load(&mut b, "b")));
            outcomes.note(match thread.join().expect("no panic") {
                0 => "before both",
                4 => "after both",
                _ => panic!("between the loads: {}", code.log()),
            });
        },
    );
}

/// A thread in two executions begins a third one in the permit block of the second, while another thread loads.
///
/// Guards `Inner::refuse_in_other`: a waiting load waits for the first execution, which its own thread stops. Asserted:
/// the third execution runs, or fails at once; and the load ends.
#[test]
fn interlock_permit_x_third_run() {
    explore(Model("interlock_permit_x_third_run", 384), &["it failed", "it ran"], |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let theirs = (interlock.clone(), code.clone());
        let second = |first: &mut Running<'_>| first.permit_loads(|| thread_owner(&interlock));
        let run = |first: &mut Running<'_>| {
            let mut second = second(first).expect("no other owner is in its way");
            let _inside = second.frame().enter();
            let load = spawn(move || {
                let (interlock, code) = theirs;
                let load = interlock.run(|r| r.load(|_| code.alone("load")));
                load.expect("no limit").expect("no limit");
            });
            let third = second.permit_loads(|| interlock.run(|_| code.runs()));
            (load, third.expect("no limit"))
        };
        let (load, third) = interlock.run(run).expect("no limit");
        load.join().expect("no panic");
        outcomes.note(match third {
            Ok(()) => "it ran",
            Err(AcquireError::Deadlock(_)) => "it failed",
            Err(other) => panic!("{other}"),
        });
    });
}

/// Runs two futures to their ends, side by side.
async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let mut ended = [false; 2];
    poll_fn(|cx| {
        ended[0] = ended[0] || a.as_mut().poll(cx).is_ready();
        ended[1] = ended[1] || b.as_mut().poll(cx).is_ready();
        if ended == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
