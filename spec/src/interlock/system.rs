//! The load interlock as a system: its promises, the words of its stories, its defects and configurations.

use crate::checking::defects::{Defects, Shown};
use crate::checking::machine::Machine;
use crate::checking::promises::{Invariant, Liveness, Promises, StepProperty};
use crate::checking::system::{self, Listed, Named, System};
use crate::interlock::rules::{Defect, Rules};
use crate::interlock::script::{Action, Script, World};
use crate::interlock::state::{Interlock, Owner};
use crate::interlock::{properties, scenarios, story};

impl Promises for World {
    const INVARIANTS: &'static [Invariant<World>] = properties::INVARIANTS;
    const STEP_PROPERTIES: &'static [StepProperty<World>] = properties::STEP_PROPERTIES;
    const LIVENESS: &'static [Liveness<World>] = properties::LIVENESS;
    const DEADLOCK: &'static str = "an owner has not ended, and no owner can move";

    fn kind_and_class(_: &Interlock, action: &Action) -> (u8, u8) {
        properties::kind_and_class(action)
    }
    fn opening(&self) -> String {
        story::opening(self)
    }
    fn sentence(&self, _: &Interlock, action: &Action, after: &Interlock) -> String {
        story::sentence(self, action, after)
    }
    fn draw(&self, s: &Interlock) -> String {
        story::draw(self, s)
    }
    /// Returns the refusals, once every program has ended.
    fn ending(&self, s: &Interlock) -> Option<String> {
        if !self.actions(s).is_empty() {
            return None;
        }
        let refused = |(script, owner): (&Script, &Owner)| {
            owner.refused.map(|why| format!("{}: {why:?}", script.name))
        };
        let refused: Vec<_> = self.scripts.iter().zip(&s.owners).filter_map(refused).collect();
        Some(if refused.is_empty() { "all are served".into() } else { refused.join(", ") })
    }
}

impl Defects for Defect {
    type Machine = World;
    const ORIGIN: &'static str = "rails";
    const HEADS: [&'static str; 2] = ["As in Rails 8.0.0", "As mended"];

    fn shown(self) -> Shown<World> {
        let (breaks, shows) = match self {
            Defect::PermitErased => ("INV-ILK-ONE-GENERATION", "load-in-permit"),
            Defect::StarvedRequest => ("PROP-ILK-UNLOADS-END", "stream-x-pending-unload"),
            Defect::UpgradeDeadlock => ("deadlock", "two-unnamed"),
            Defect::ChildBehindUnload => ("deadlock", "permit-x-unload-x-child"),
            Defect::LeakedShare => ("deadlock", "dies-with-a-share"),
        };
        let mended = scenarios::named(shows).expect("it is in the list");
        let original = World { rules: Rules::AS_MENDED.but(&[self]), ..mended.clone() };
        Shown { breaks, original, mended }
    }
}

/// The load interlock.
pub struct LoadInterlock;

impl System for LoadInterlock {
    type Machine = World;
    const WORD: &'static str = "interlock";
    const TITLE: &'static str = "The load interlock";
    const ERRORS: &'static str = "defects of Rails 8.0.0";

    fn configurations() -> Vec<Named<World>> {
        scenarios::all()
    }
    fn errors() -> Vec<Listed> {
        system::defects::<Defect>()
    }
    fn tell(error: &str) -> Option<String> {
        system::defect_story::<Defect>(error)
    }
}
