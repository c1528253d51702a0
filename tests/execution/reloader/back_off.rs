//! When a failed reload is tried again: at once after a new change, and otherwise after a pause.

use crate::common::log::{Log, failed};
use crate::reloader::noting::on;
use cabrank::ManualClock;
use cabrank::execution::{BoxError, Executor, Refused, Reloader};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// A reloader that notes its unloads, which fail while the flag is set.
struct Rig {
    log: Log,
    time: ManualClock,
    broken: Arc<AtomicBool>,
    reloader: Reloader,
}

impl Rig {
    fn new(
        configure: impl FnOnce(
            cabrank::execution::ReloaderBuilder,
        ) -> cabrank::execution::ReloaderBuilder,
    ) -> Self {
        let (log, time, broken) =
            (Log::default(), ManualClock::new(), Arc::new(AtomicBool::new(true)));
        let executor = Executor::builder().interlock(on(&time)).build();
        let (unload, fails) = (log.noting("unload"), broken.clone());
        let builder = Reloader::builder(executor).unload(move |_| {
            unload()?;
            if fails.load(SeqCst) { Err("on purpose".into()) } else { Ok(()) }
        });
        let reloader = configure(builder).build().expect("valid");
        Rig { log, time, broken, reloader }
    }
    /// Begins an execution that fails. Returns whether it has tried to reload.
    #[track_caller]
    fn fails(&self) -> bool {
        let error = failed(self.reloader.wrap(|_| Ok(())));
        let tried = self.log.take() == ["unload"];
        let refused =
            matches!(error.first().cause().downcast_ref(), Some(Refused::ReloadFailed(_)));
        assert_eq!(tried, !refused, "{error}");
        let failure = if tried {
            error.to_string()
        } else {
            error.source().expect("the failure").to_string()
        };
        assert_eq!(failure, "unloading failed: on purpose");
        tried
    }
    #[track_caller]
    fn runs(&self) -> Vec<String> {
        self.reloader.wrap(|_| Ok::<_, BoxError>(())).expect("it runs");
        self.log.take()
    }
}
const MS: Duration = Duration::from_millis(1);

#[test]
fn the_pause_doubles_up_to_five_seconds() {
    let rig = Rig::new(|builder| builder.check(|| true));
    assert!(rig.fails(), "the first attempt");
    for pause in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
        assert!(!rig.fails());
        rig.time.advance((pause - 1) * MS);
        assert!(!rig.fails(), "{pause} ms have not passed");
        rig.time.advance(MS);
        assert!(rig.fails(), "{pause} ms have passed");
    }
    rig.broken.store(false, SeqCst);
    rig.time.advance(5000 * MS);
    assert_eq!(rig.runs(), ["unload"]);
}

/// A version that differs from the one that failed is a new change, and begins with a short pause again.
#[test]
fn a_new_version_is_tried_at_once() {
    let version = Arc::new(AtomicU32::new(0));
    let watched = version.clone();
    let rig = Rig::new(|builder| builder.watch(move || watched.load(SeqCst)));
    assert!(rig.runs().is_empty());
    version.store(1, SeqCst);
    assert!(rig.fails());
    rig.time.advance(100 * MS);
    assert!(rig.fails(), "the pause has doubled");
    for edit in [2, 0, 3] {
        assert!(!rig.fails());
        version.store(edit, SeqCst);
        assert!(rig.fails(), "the edit is new");
        rig.time.advance(99 * MS);
        assert!(!rig.fails());
        rig.time.advance(MS);
        assert!(rig.fails(), "the pause is short again");
    }
    rig.broken.store(false, SeqCst);
    version.store(4, SeqCst);
    assert_eq!(rig.runs(), ["unload"]);
    assert!(rig.runs().is_empty());
}

/// The closure may go on reporting the change that failed. A new one counts once it has returned false.
#[test]
fn a_check_that_stays_true_is_no_new_change() {
    let says = Arc::new(AtomicBool::new(true));
    let checked = says.clone();
    let rig = Rig::new(|builder| builder.check(move || checked.load(SeqCst)));
    assert!(rig.fails());
    assert!(!rig.fails());
    says.store(false, SeqCst);
    assert!(!rig.fails());
    says.store(true, SeqCst);
    assert!(rig.fails(), "it has returned false in between");
    assert!(!rig.fails());
}
