//! With finite bodies, every operation ends. The models explore every interleaving of small cases; these tests run
//! many threads in real time.

use crate::common::SOON;
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

/// Checks PROP-ILK-USE-UNDER-SHARE: while one owner is alone, no other runs.
#[derive(Default)]
struct LoadedCode {
    running: AtomicUsize,
    alone: AtomicUsize,
    wrong: AtomicBool,
}

impl LoadedCode {
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

/// Random operations for a while, all of which end: entries (PROP-ILK-ENTERS), loads (PROP-ILK-REQUESTS-END), unloads
/// (PROP-ILK-UNLOADS-END) and permit blocks (PROP-ILK-RESUMES), so that the programs end (PROP-ILK-PROGRAMS-END). No
/// wake-up is lost (PROP-ILK-NO-LOST-WAKE-UP), and bodies see one generation (INV-ILK-ONE-GENERATION).
#[test]
fn no_wake_up_is_lost_in_a_crowd() {
    let (interlock, code) = (Interlock::new(), Arc::new(LoadedCode::default()));
    let (report, ended) = channel();
    for seed in 0..6_u64 {
        let (interlock, code, report) = (interlock.clone(), code.clone(), report.clone());
        std::thread::spawn(move || {
            let mut random = seed + 1;
            for _ in 0..500 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                one_thing(&interlock, &code, random % 7).expect("no deadlock");
            }
            report.send(()).expect("the test waits");
        });
    }
    for _ in 0..6 {
        let come = ended.recv_timeout(SOON * 3);
        assert!(come.is_ok(), "an owner hangs:\n{}", interlock.dump());
    }
    assert!(!code.wrong.load(SeqCst));
    assert!(interlock.dump().owners.is_empty());
}

fn one_thing(interlock: &Interlock, code: &LoadedCode, what: u64) -> Result<(), AcquireError> {
    match what {
        0 => interlock.run(|r| r.load(|_| code.alone()))?,
        1 => interlock.unload(|_| code.alone()),
        2 => interlock.run(|r| {
            let before = interlock.generation();
            code.runs();
            assert_eq!(interlock.generation(), before, "unloaded under a share");
            r.load(|_| code.alone())?;
            code.runs();
            assert_eq!(interlock.generation(), before, "unloaded while it waited to load");
            Ok(())
        })?,
        3 => interlock.run(|r| r.permit_loads(|| ()))?,
        4 => interlock.run(|r| {
            let before = interlock.generation();
            r.permit_loads(|| interlock.run(|r| r.load(|_| code.alone())))???;
            code.runs();
            assert_eq!(interlock.generation(), before, "unloaded in a permit block");
            Ok(())
        })?,
        5 => interlock.run(|r| {
            std::thread::scope(|scope| {
                let child = scope.spawn(|| interlock.run(|r| r.load(|_| code.alone())));
                r.permit_loads(|| child.join()).map(|child| child.expect("no panic"))
            })?
        })??,
        _ => interlock.run(|_| interlock.run(|_| code.runs()))?,
    }
}
