//! The property that each defect of Rails breaks, and the scenario that shows it: everything is as mended, except that
//! defect.

use crate::check::defect_story;
use crate::interlock::rules::{Defect, Rules};
use crate::interlock::scenarios::{Scenario, named};

/// Returns the broken property and the scenario.
pub fn shown(defect: Defect) -> (&'static str, Scenario) {
    let (breaks, scenario) = match defect {
        Defect::PermitErased => ("INV-ILK-SEES-ONE-WORLD", "load-in-permit"),
        Defect::StarvedRequest => ("PROP-ILK-UNLOADS-END", "stream-x-pending-unload"),
        Defect::UpgradeDeadlock => ("deadlock", "two-unnamed"),
        Defect::ChildBehindUnload => ("deadlock", "permit-x-unload-x-child"),
        Defect::LeakedShare => ("deadlock", "dies-with-a-share"),
    };
    (breaks, named(scenario).expect("the scenario is in the list"))
}

/// Returns the story of a defect: the rule as in Rails and as mended, and the shortest way to the failure.
pub fn story(defect: Defect) -> String {
    let (breaks, scenario) = shown(defect);
    let rules = [
        format!("As in Rails 8.0.0: {}", defect.is()),
        format!("As mended:         {}", defect.instead()),
    ];
    defect_story(&scenario.world(Rules::AS_MENDED.but(defect)), &defect.name(), breaks, rules)
}
