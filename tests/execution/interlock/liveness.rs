//! With finite bodies, every operation ends. The models explore every interleaving of small cases; these tests run
//! many threads in real time.

use crate::common::SOON;
use crate::interlock::actor::{Actor, start, until};
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::WaitingToUnload;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

/// Checks PROP-ILK-USE-UNDER-SHARE: while one owner is alone, no other runs.
#[derive(Default)]
struct World {
    running: AtomicUsize,
    alone: AtomicUsize,
    wrong: AtomicBool,
}

impl World {
    fn runs(&self) {
        self.running.fetch_add(1, SeqCst);
        self.expect(self.alone.load(SeqCst) == 0);
        std::thread::yield_now();
        self.expect(self.alone.load(SeqCst) == 0);
        self.running.fetch_sub(1, SeqCst);
    }
    fn alone(&self) {
        self.expect(self.alone.fetch_add(1, SeqCst) == 0);
        self.expect(self.running.load(SeqCst) == 0);
        std::thread::yield_now();
        self.expect(self.running.load(SeqCst) == 0);
        self.alone.fetch_sub(1, SeqCst);
    }
    fn expect(&self, right: bool) {
        if !right {
            self.wrong.store(true, SeqCst);
        }
    }
}

#[test]
fn many_loaders_with_a_share_all_end() {
    let interlock = Interlock::new();
    let actors: Vec<_> = (0..8).map(|_| Actor::enter(&interlock)).collect();
    let world = Arc::new(World::default());
    let doing: Vec<_> = actors
        .iter()
        .map(|actor| {
            let world = world.clone();
            actor.tell(move |r| {
                r.load(|_| world.alone()).expect("no deadlock");
                world.runs();
            })
        })
        .collect();
    // All keep their share until the last has loaded.
    for one in doing {
        one.done();
    }
    assert!(!world.wrong.load(SeqCst));
}

#[test]
fn the_guides_second_example_ends() {
    let interlock = Interlock::new();
    let inner = interlock.clone();
    let values = interlock.run(|r| {
        let futures: Vec<_> = (0..3)
            .map(|n| {
                let inner = inner.clone();
                std::thread::spawn(move || inner.run(|r| r.load(|_| n).expect("no deadlock")))
            })
            .collect();
        let all = || futures.into_iter().map(|future| future.join().expect("no panic"));
        r.permit_loads(|| all().collect::<Vec<i32>>()).expect("the only share")
    });
    assert_eq!(values, [0, 1, 2]);
}

#[test]
fn a_parent_that_waits_for_a_declared_child_ends_with_an_unload_queued() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    let waits = parent.tell(|r| {
        let child = r.child();
        let thread = std::thread::spawn(move || child.run(|_| 4));
        r.waiting(|| thread.join().expect("no panic")).expect("no deadlock")
    });
    assert_eq!(waits.done(), 4);
    parent.leave();
    unloads.done().expect("no deadlock");
}

/// PROP-ILK-REQUESTS-END.
#[test]
fn an_unload_is_granted_under_a_stream_of_sharers() {
    let interlock = Interlock::new();
    let stop = Arc::new(AtomicBool::new(false));
    let streams: Vec<_> = (0..4)
        .map(|_| {
            let (interlock, stop) = (interlock.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(SeqCst) {
                    interlock.run(|_| std::thread::yield_now());
                }
            })
        })
        .collect();
    let (alone, shared) = (interlock.clone(), interlock.clone());
    start(move || (0..100).for_each(|_| alone.unload(|_| ()).expect("no deadlock"))).done();
    start(move || {
        (0..100).for_each(|_| shared.run(|r| r.unload(|_| ())).expect("no deadlock"));
    })
    .done();
    stop.store(true, SeqCst);
    for stream in streams {
        stream.join().expect("no panic");
    }
    assert_eq!(interlock.generation(), 200);
}

/// PROP-ILK-NO-LOST-WAKE-UP, PROP-ILK-PROGRAMS-END and INV-ILK-SEES-ONE-WORLD: random operations for a while, all
/// of which end.
#[test]
fn no_wake_up_is_lost_in_a_crowd() {
    let (interlock, world) = (Interlock::new(), Arc::new(World::default()));
    let (tell, ended) = channel();
    for seed in 0..6_u64 {
        let (interlock, world, tell) = (interlock.clone(), world.clone(), tell.clone());
        std::thread::spawn(move || {
            let mut random = seed + 1;
            for _ in 0..500 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                one_thing(&interlock, &world, random % 8);
            }
            tell.send(()).expect("the test waits");
        });
    }
    for _ in 0..6 {
        let come = ended.recv_timeout(SOON * 3);
        assert!(come.is_ok(), "an owner hangs:\n{}", interlock.dump());
    }
    assert!(!world.wrong.load(SeqCst));
    assert!(interlock.dump().owners.is_empty());
}

fn one_thing(interlock: &Interlock, world: &World, what: u64) {
    match what {
        0 => interlock.load(|_| world.alone()).expect("no deadlock"),
        1 => interlock.unload(|_| world.alone()).expect("no deadlock"),
        2 => interlock.run(|r| {
            let before = interlock.generation();
            world.runs();
            assert_eq!(interlock.generation(), before, "unloaded under a share");
            r.load(|_| world.alone()).expect("no deadlock");
            world.runs();
        }),
        3 => interlock.run(|r| {
            r.unload(|_| world.alone()).expect("no deadlock");
            world.runs();
        }),
        4 => interlock.run(|r| {
            let before = interlock.generation();
            r.permit_loads(|| interlock.run(|r| r.load(|_| world.alone()).expect("no deadlock")))
                .expect("the only share");
            world.runs();
            assert_eq!(interlock.generation(), before, "unloaded in a permit block");
        }),
        5 => interlock.run(|r| {
            let child = r.child();
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| child.run(|r| r.load(|_| world.alone())));
                let joined = r.permit_loads(|| thread.join()).expect("the only share");
                joined.expect("no panic").expect("no deadlock");
            });
        }),
        6 => {
            let _ = interlock.try_run(|r| {
                world.runs();
                let _ = r.try_unload(|_| world.alone());
                world.runs();
            });
        }
        _ => interlock.run(|_| interlock.run(|_| world.runs())),
    }
}

/// Regression: each execution kept its predecessor's ancestors. Ended executions were never forgotten, and dropping
/// them recursively overflowed the stack.
#[test]
fn a_long_line_of_successors_remembers_only_living_ancestors() {
    crate::common::soon(|| {
        let interlock = Interlock::new();
        let ancestor = interlock.enter();
        let mut child = ancestor.child();
        for _ in 0..100_000 {
            let successor = child.enter(); // before it ends, it has a child, too
            child = successor.child();
        }
        let mut last = child.enter();
        assert!(matches!(last.unload(|_| ()), Err(AcquireError::Child)), "of the first of them");
        drop(ancestor);
        last.unload(|_| ()).expect("all its ancestors are over");
    });
}

/// Regression of living ancestors: visiting and dropping them takes no stack.
#[test]
fn a_deep_line_of_ancestors_overflows_no_stack() {
    let work = || {
        let interlock = Interlock::new();
        let mut line = vec![interlock.enter()];
        for _ in 0..1_000 {
            let child = line.last().expect("there is a first").child();
            line.push(child.enter());
        }
        let child = line.last().expect("there is a last").child();
        line.into_iter().rev().for_each(drop);
        drop(child);
        interlock.unload(|_| ()).expect("all are over");
    };
    let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}
