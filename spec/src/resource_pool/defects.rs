//! The property that each defect of the Elixir pool breaks, and the pool that shows it: everything is as mended, except
//! that defect.

use crate::checking::check::defect_story;
use crate::resource_pool::configurations::named;
use crate::resource_pool::machine::Config;
use crate::resource_pool::rules::{Defect, Rules};

/// Returns the broken property and the pool.
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
    (breaks, named(pool).expect("the pool is in the list"))
}

/// Returns the story of a defect: the rule as in the Elixir pool and as mended, and the shortest way to the failure.
pub fn story(defect: Defect) -> String {
    let (breaks, pool) = shown(defect);
    let rules = [
        format!("As in the Elixir pool: {}", defect.is()),
        format!("As mended:             {}", defect.instead()),
    ];
    let pool = Config { rules: Rules::AS_MENDED.but(defect), ..pool };
    defect_story(&pool, &defect.name(), breaks, rules)
}
