//! The kept sessions that are explored, and the one that shows each defect.

use crate::checking::check::defect_story;
use crate::kept::machine::{Config, May};
use crate::kept::rules::{Defect, Rules};

const fn config(
    name: &'static str,
    about: &'static str,
    requests: usize,
    may: &'static [May],
) -> Config {
    Config { name, about, requests, may, rules: Rules::AS_MENDED }
}

/// Returns all of them.
pub fn all() -> Vec<Config> {
    use May::*;
    vec![
        config(
            "ks-plain",
            "clients that leave, applications that fail, and a process that dies",
            2,
            &[Abandon, Abort, Crash],
        ),
        config(
            "ks-reader",
            "a thread goes on reading, by single steps",
            2,
            &[Read, Abandon, Abort],
        ),
        config(
            "ks-reader-within",
            "a thread goes on reading, and may be within a read at the end",
            2,
            &[ReadWithin, Abandon, Abort],
        ),
        config("ks-writer", "a thread goes on writing", 2, &[Write, Abandon, Abort]),
        config("ks-child", "a forked child", 2, &[Fork, Abandon, Abort]),
        config("ks-all", "all of them at once", 2, &[ReadWithin, Write, Fork]),
        config("ks-three", "three requests, one after the other", 3, &[ReadWithin]),
    ]
}

/// Returns the one with this name.
pub fn named(name: &str) -> Option<Config> {
    all().into_iter().find(|config| config.name == name)
}

/// Returns the property that a defect breaks, and the session that shows it.
pub fn shown(defect: Defect) -> (&'static str, Config) {
    let config = match defect {
        Defect::LateReader => "ks-reader-within",
        Defect::LateWriter => "ks-writer",
        Defect::ChildGoesOn => "ks-child",
    };
    ("INV-KS-OWN-BYTES", named(config).expect("the session is in the list"))
}

/// Returns the story of a defect: the rule as written and as ruled, and the shortest way to the failure.
pub fn story(defect: Defect) -> String {
    let (breaks, config) = shown(defect);
    let rules =
        [format!("As written: {}", defect.is()), format!("As ruled:   {}", defect.instead())];
    let config = Config { rules: Rules::AS_MENDED.but(defect), ..config };
    defect_story(&config, &defect.name(), breaks, rules)
}
