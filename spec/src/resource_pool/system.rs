//! The resource pool as a system: its promises, the words of its stories, its defects and configurations.

use crate::checking::defects::{Defects, Shown};
use crate::checking::promises::{Invariant, Liveness, Promises, StepProperty};
use crate::checking::system::{self, Listed, Named, System};
use crate::resource_pool::action::Action;
use crate::resource_pool::machine::Config;
use crate::resource_pool::rules::{Defect, Rules};
use crate::resource_pool::state::ResourcePool;
use crate::resource_pool::{configurations, invariants, properties, story};

impl Promises for Config {
    const INVARIANTS: &'static [Invariant<Config>] = invariants::INVARIANTS;
    const STEP_PROPERTIES: &'static [StepProperty<Config>] = properties::STEP_PROPERTIES;
    const LIVENESS: &'static [Liveness<Config>] = properties::LIVENESS;
    const DEADLOCK: &'static str = "a borrower waits, and no operation of the pool can help it";

    fn kind_and_class(s: &ResourcePool, action: &Action) -> (u8, u8) {
        action.kind_and_class(s)
    }
    fn opening(&self) -> String {
        story::opening(self)
    }
    fn sentence(&self, before: &ResourcePool, action: &Action, after: &ResourcePool) -> String {
        story::sentence(before, action, after)
    }
    fn draw(&self, s: &ResourcePool) -> String {
        story::draw(s)
    }
}

impl Defects for Defect {
    type Machine = Config;
    const ORIGIN: &'static str = "elixir";
    const HEADS: [&'static str; 2] = ["As in the Elixir pool", "As mended"];

    fn shown(self) -> Shown<Config> {
        let (breaks, shows) = match self {
            Defect::ForgottenWaiter => ("deadlock", "rp-one"),
            Defect::HoardedMinimum => ("PROP-RP-IDLE-FIRST", "rp-minimum"),
            Defect::UnboundedTotal => ("INV-RP-MAX-TOTAL", "rp-clear"),
            Defect::ClearTakesBorrowed => ("INV-RP-COUNTS", "rp-clear"),
            Defect::LateGrant => ("INV-RP-EXACT-WAKE-UP", "rp-one"),
            Defect::MissedEviction => ("PROP-RP-EVICTED", "rp-minimum"),
            Defect::LeakedLoan => ("deadlock", "rp-one"),
        };
        let mended = configurations::named(shows).expect("it is in the list");
        let original = Config { rules: Rules::AS_MENDED.but(&[self]), ..mended.clone() };
        Shown { breaks, original, mended }
    }
}

/// The resource pool.
pub struct ResourcePools;

impl System for ResourcePools {
    type Machine = Config;
    const WORD: &'static str = "resource";
    const TITLE: &'static str = "The resource pool";
    const ERRORS: &'static str = "defects of the Elixir pool";

    fn configurations() -> Vec<Named<Config>> {
        configurations::all()
    }
    fn errors() -> Vec<Listed> {
        system::defects::<Defect>()
    }
    fn tell(error: &str) -> Option<String> {
        system::defect_story::<Defect>(error)
    }
}
