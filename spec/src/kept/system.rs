//! The kept session as a system: its promises, the words of its stories, its defects and configurations.

use crate::checking::defects::{Defects, Shown};
use crate::checking::machine::UNFAIR;
use crate::checking::promises::{Invariant, Liveness, Promises, StepProperty};
use crate::checking::system::{self, Listed, Named, System};
use crate::kept::machine::{Action, Config};
use crate::kept::rules::{Defect, Rules};
use crate::kept::state::KeptSession;
use crate::kept::{configurations, properties, story};

impl Promises for Config {
    const INVARIANTS: &'static [Invariant<Self>] = properties::INVARIANTS;
    const STEP_PROPERTIES: &'static [StepProperty<Self>] = properties::STEP_PROPERTIES;
    const LIVENESS: &'static [Liveness<Self>] = properties::LIVENESS;
    const DEADLOCK: &'static str = "a client waits, and no actor can move";

    /// The server, the loader and the end of each answer are fair. The other actions of the application are not.
    fn kind_and_class(_: &KeptSession, action: &Action) -> (u8, u8) {
        let class = match action {
            Action::Connect | Action::Begin => 0,
            Action::Send => 1,
            Action::Receive => 2,
            Action::NoticeEnd => 3,
            Action::TakeHead | Action::Discard => 4,
            Action::EndAnswer => 5,
            _ => UNFAIR,
        };
        (0, class)
    }
    fn opening(&self) -> String {
        story::opening(self)
    }
    fn sentence(&self, before: &KeptSession, action: &Action, _: &KeptSession) -> String {
        story::sentence(before, *action)
    }
    fn draw(&self, s: &KeptSession) -> String {
        story::draw(s)
    }
    fn remark(&self, s: &KeptSession) -> String {
        story::foreign(s)
    }
}

impl Defects for Defect {
    type Machine = Config;
    const ORIGIN: &'static str = "kept";
    const HEADS: [&'static str; 2] = ["As written", "As ruled"];

    fn shown(self) -> Shown<Config> {
        let (breaks, shows) = match self {
            Defect::LateReader => ("INV-KS-OWN-BYTES", "ks-reader-within"),
            Defect::LateWriter => ("INV-KS-OWN-BYTES", "ks-writer"),
            Defect::ChildGoesOn => ("INV-KS-OWN-BYTES", "ks-child"),
        };
        let mended = configurations::named(shows).expect("it is in the list");
        let original = Config { rules: Rules::AS_MENDED.but(&[self]), ..mended.clone() };
        Shown { breaks, original, mended }
    }
}

/// The kept session.
pub struct KeptSessions;

impl System for KeptSessions {
    type Machine = Config;
    const WORD: &'static str = "kept";
    const TITLE: &'static str = "The kept session";
    const ERRORS: &'static str = "defects of the loaders before their rules";

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
