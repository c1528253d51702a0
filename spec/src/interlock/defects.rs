//! What each defect of the original breaks, and where: everything as mended, but for that one.

use crate::interlock::exploration::counterexample;
use crate::interlock::rules::{Defect, Rules};
use crate::interlock::scenarios::{Scenario, named};
use crate::interlock::story::tell;

/// What does not hold, and in which scenario.
pub fn shown(defect: Defect) -> (&'static str, Scenario) {
    let (breaks, scenario) = match defect {
        Defect::PermitErased => ("INV-ILK-SEES-ONE-WORLD", "load-in-permit"),
        Defect::StarvedRequest => ("PROP-ILK-REQUESTS-END", "stream-x-pending-unload"),
        Defect::UpgradeDeadlock => ("deadlock", "two-unnamed"),
        Defect::ChildBehindUnload => ("deadlock", "permit-x-unload-x-child"),
        Defect::LeakedShare => ("deadlock", "dies-with-a-share"),
    };
    (breaks, named(scenario).expect("it is in the list"))
}

/// The story of a defect: the rule as in the original and as mended, and the shortest way to what goes
/// wrong.
pub fn story(defect: Defect) -> String {
    let (breaks, scenario) = shown(defect);
    let world = scenario.world(Rules::AS_MENDED.but(defect));
    let told = match counterexample(&world, breaks) {
        Some(counterexample) => tell(&world, &counterexample),
        None => format!("{breaks} holds: no story to tell.\n"),
    };
    format!(
        "{}\nAs in Rails 8.0.0: {}.\nAs mended:         {}.\n\nEverything is as mended but for {}.\n{told}",
        defect.name(),
        defect.is(),
        defect.instead(),
        defect.name(),
    )
}
