//! What each defect of the original breaks, and where: everything as mended, but for that one.

use crate::resource_pool::configurations::named;
use crate::resource_pool::exploration::counterexample;
use crate::resource_pool::machine::Config;
use crate::resource_pool::rules::{Defect, Rules};
use crate::resource_pool::story::tell;

/// What does not hold, and in which pool.
pub fn shown(defect: Defect) -> (&'static str, Config) {
    let (breaks, pool) = match defect {
        Defect::ForgottenWaiter => ("deadlock", "rp-one"),
        Defect::HoardedMinimum => ("PROP-RP-IDLE-FIRST", "rp-minimum"),
        Defect::UnboundedTotal => ("INV-RP-MAX-TOTAL", "rp-clear"),
        Defect::ClearTakesBorrowed => ("INV-RP-COUNTS", "rp-clear"),
        Defect::LateGrant => ("INV-RP-EXACT-WAKE-UP", "rp-one"),
        Defect::MissedEviction => ("PROP-RP-EVICTED", "rp-minimum"),
        Defect::LeakedLoan => ("deadlock", "rp-one"),
    };
    (breaks, named(pool).expect("it is in the list"))
}

/// The story of a defect: the rule as in the original and as mended, and the shortest way to what goes
/// wrong.
pub fn story(defect: Defect) -> String {
    let (breaks, pool) = shown(defect);
    let pool = Config { rules: Rules::AS_MENDED.but(defect), ..pool };
    let told = match counterexample(&pool, breaks) {
        Some(counterexample) => tell(&pool, &counterexample),
        None => format!("{breaks} holds: no story to tell.\n"),
    };
    format!(
        "{}\nAs in the original: {}.\nAs mended:          {}.\n\nEverything is as mended but for {}.\n{told}",
        defect.name(),
        defect.is(),
        defect.instead(),
        defect.name(),
    )
}
