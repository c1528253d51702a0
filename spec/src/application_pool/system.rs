//! The application pool as a system: its promises, the words of its stories, its errata and configurations.

use crate::application_pool::configuration::Config;
use crate::application_pool::errata::{self, Status, status};
use crate::application_pool::pool::{Action, Pool};
use crate::application_pool::rules::Erratum;
use crate::application_pool::{configurations, invariants, liveness, properties, story};
use crate::checking::promises::{Invariant, Liveness, Promises, StepProperty};
use crate::checking::switches::Switch;
use crate::checking::system::{Listed, Named, System};

impl Promises for Config {
    const INVARIANTS: &'static [Invariant<Config>] = invariants::INVARIANTS;
    const STEP_PROPERTIES: &'static [StepProperty<Config>] = properties::STEP_PROPERTIES;
    const LIVENESS: &'static [Liveness<Config>] = liveness::LIVENESS;
    const DEADLOCK: &'static str = "a client waits, and no action of the system itself can help";

    fn kind_and_class(pool: &Pool, action: &Action) -> (u8, u8) {
        liveness::kind_and_class(pool, action)
    }
    fn opening(&self) -> String {
        format!("The pool: {}.\n", story::world(self))
    }
    fn sentence(&self, before: &Pool, action: &Action, after: &Pool) -> String {
        story::sentence(before, action, after)
    }
    fn draw(&self, pool: &Pool) -> String {
        story::draw(pool)
    }
    /// Between normal forms the names of processes change; a story keeps them.
    fn in_story(&self, pool: &Pool, action: &Action) -> Action {
        let names = pool.clone().normal_and_names();
        action.renamed(|id| names[id - 1])
    }
}

/// The application pool.
pub struct ApplicationPool;

impl System for ApplicationPool {
    type Machine = Config;
    const WORD: &'static str = "application";
    const TITLE: &'static str = "The application pool";
    const ERRORS: &'static str = "errata of the pseudocode";

    fn configurations() -> Vec<Named<Config>> {
        configurations::all()
    }
    fn errors() -> Vec<Listed> {
        let listed = |&erratum: &Erratum| {
            let effect = match status(erratum) {
                Status::Shown { breaks, .. } => format!("breaks {breaks}"),
                Status::Holds { property, .. } => format!("{property} holds"),
                Status::CannotBeSaid { .. } => "not expressible".into(),
            };
            Listed { name: erratum.name(), effect, is: erratum.is() }
        };
        Erratum::ALL.iter().map(listed).collect()
    }
    fn tell(error: &str) -> Option<String> {
        Erratum::named(error).map(errata::story)
    }
}
