//! The shortest counterexample of each erratum.
//!
//! [`status`] says which promise an erratum breaks, and in which configuration. Where possible, the
//! erratum is isolated: every other one is as ruled. Two errata have a place only beside a second one as
//! written. Five cannot be expressed: the machine's steps are whole critical sections, its groups are
//! numbers, and it counts no cost. Two are not errors: they are properties that hold.

use crate::application_pool::configuration::{Config, Options};
use crate::application_pool::rules::{Erratum, Rules};
use crate::checking::defects::both_rules;
use crate::checking::story::story_of;

/// The effect of an erratum in this machine.
pub enum Status {
    /// With these errata as written, a promise is broken in this configuration.
    Shown {
        /// The broken promise: an invariant, a property, or `deadlock`.
        breaks: &'static str,
        /// The errata that are as written.
        written: &'static [Erratum],
        /// The configuration.
        world: Box<Config>,
    },
    /// The erratum is no error: this property holds as written and as ruled.
    Holds {
        /// The property that holds.
        property: &'static str,
        /// Why the list of errata has it.
        why: &'static str,
    },
    /// The machine cannot express the erratum.
    CannotBeSaid {
        /// Why not, and where it is checked instead.
        why: &'static str,
    },
}

/// Returns the status of an erratum.
pub fn status(erratum: Erratum) -> Status {
    use Erratum::*;
    let shown = |breaks, written, world| Status::Shown { breaks, written, world: Box::new(world) };
    let a = || vec![Options::new("a")];
    let private_a = || vec![Options::new("a").private()];
    let ab = || vec![Options::new("a"), Options::new("b")];
    match erratum {
        E1 => shown("INV-ACTIVE", &[E1], Config::new(a(), 6, 1)),
        E2 => shown("deadlock", &[E2], Config::new(a(), 2, 2).with(|env| env.touch = true)),
        E3 => shown("INV-CAPACITY", &[E3], Config::new(ab(), 1, 2)),
        E4 => shown("PROP-CLOSE-POSSIBLE", &[E4], Config::new(ab(), 2, 2)),
        E5 => {
            let world = Config::new(a(), 2, 2).with(|env| env.time = true);
            shown("PROP-IDLE-TIME", &[E5], world.but(|config| config.max_idle_time = 2))
        }
        E6 => shown("INV-GROUP-ACCESSIBLE", &[E4, E6], Config::new(ab(), 1, 1)),
        E7 => Status::CannotBeSaid {
            why: "an undefined name has no behaviour; the machine reads detach_group for \
                  remove_group_without_lock, and processed for processed_requests",
        },
        E8 => shown("PROP-DETACHED-STATED", &[E8], Config::new(a(), 1, 1)),
        E9 => shown("INV-GROUP-SIZE", &[E9], Config::new(a(), 1, 1).with(|env| env.touch = true)),
        E10 => Status::CannotBeSaid {
            why: "an action is one step, so no list is seen while it is walked; the lists of src/ are tested \
                  against an oracle",
        },
        E11 => {
            shown("INV-SPAWNING", &[E11], Config::new(a(), 1, 1).with(|env| env.no_thread = true))
        }
        E12 => shown("PROP-NO-ORPHAN", &[E12], Config::new(a(), 2, 2).with(|env| env.touch = true)),
        E13 => shown("INV-DRAINING", &[E13], Config::new(a(), 1, 1).with(|env| env.detach = true)),
        E14 => {
            let options = Options { max_requests: 1, ..Options::new("a").private() };
            shown("INV-MAX-REQUESTS", &[E14], Config::new(vec![options], 1, 2))
        }
        E15 => Status::CannotBeSaid {
            why: "an action is one step; models/application_pool/session_close_x_detach.rs reaches all four \
                  outcomes of the race in the real code",
        },
        E16 => shown("INV-WAITING", &[E16], Config::new(a(), 1, 1).with(|env| env.give_up = true)),
        E17 => shown("PROP-NO-OVERTAKING", &[E17], Config::new(a(), 1, 2)),
        E18 => {
            let groups = ab().into_iter().map(Options::private).collect();
            // Where sessions overlap, room is made at a deadline.
            let world = Config::new(groups, 1, 3).with(|env| env.time = true);
            shown(
                "PROP-EVERY-GET-ENDS",
                &[E18],
                world.but(|config| {
                    // Two clients ask for a in turn, and one asks for b.
                    config.clients = vec![vec![0], vec![0], vec![1]];
                }),
            )
        }
        E19 => shown("deadlock", &[E19], Config::new(a(), 1, 1).with(|env| env.set_max = vec![0])),
        E20 => {
            let world = Config::new(a(), 2, 2).with(|env| env.set_max_per_app = vec![2]);
            shown("PROP-WORK-CONSERVING", &[E20], world.but(|config| config.max_per_app = 1))
        }
        E21 => Status::Holds {
            property: "freedom from deadlock",
            why: "the pseudocode loses no wake-up, once its deadlocks (E2, E19) are mended and max keeps its \
                  value (E1); the code must keep this property",
        },
        E22 => {
            shown("PROP-RESTART-SEEN", &[E22], Config::new(ab(), 2, 1).with(|env| env.touch = true))
        }
        E23 => {
            let world = Config::new(a(), 1, 1).with(|env| env.delete = true);
            shown("PROP-RESTART-LOSS", &[E23], world.but(|config| config.restart_file = true))
        }
        E24 => {
            let options = Options { always_restart: true, ..Options::new("a") };
            shown("PROP-RESTART-ONCE", &[E17, E24], Config::new(vec![options], 1, 1))
        }
        E25 => {
            let world = Config::new(a(), 1, 2).with(|env| env.detach = true);
            shown("INV-LIVE", &[E25], world.but(|config| config.max_draining = Some(0)))
        }
        E26 => {
            let world = Config::new(private_a(), 2, 2).with(|env| env.spawns_fail = true);
            shown("PROP-HEALTHY-STAY", &[E26], world)
        }
        E27 => {
            let world = Config::new(ab(), 1, 1).with(|env| env.spawns_fail = true);
            shown("PROP-BACK-OFF-SPARES", &[E27], world)
        }
        E28 => {
            let world = Config::new(vec![Options::new("a").min(1)], 1, 1);
            shown("PROP-MINIMUM-REFILLED", &[E28], world.with(|env| env.detach = true))
        }
        E29 => {
            let groups = vec![Options::new("a").min(1), Options::new("b"), Options::new("c")];
            shown("PROP-VICTIM", &[E29], Config::new(groups, 2, 1))
        }
        E30 => {
            let world = Config::new(a(), 1, 1).with(|env| (env.time, env.punctual) = (true, true));
            shown("PROP-IDLE-BOUND", &[E30], world.but(|config| config.max_idle_time = 2))
        }
        E31 => {
            let world = Config::new(a(), 1, 1).with(|env| env.clients_fail = true);
            shown("PROP-LOCAL-FAILURE", &[E31], world.but(|config| config.connects = true))
        }
        E32 => shown("INV-CLOSED", &[E32], Config::new(a(), 1, 1).with(|env| env.close = true)),
        E33 => Status::Holds {
            property: "PROP-CHOICE",
            why: "the error is the cost of the scan, which the machine does not count; the sorted list that \
                  replaces it makes a choice that the scan may make, too",
        },
        E34 => {
            let groups = vec![Options::new("a").rolling()];
            shown("PROP-ROLLING", &[E34], Config::new(groups, 1, 1).with(|env| env.touch = true))
        }
        E35 => {
            let options = Options { concurrency: 2, ..Options::new("a") };
            shown("PROP-GROWTH", &[E35], Config::new(vec![options], 2, 2))
        }
        E36 => {
            let options = Options { max_requests: 1, ..Options::new("a") };
            shown("PROP-LAST-SESSION", &[E36], Config::new(vec![options], 1, 1))
        }
        E37 => {
            let world =
                Config::new(ab(), 1, 2).with(|env| (env.time, env.endless) = (true, vec![0, 1]));
            shown("PROP-ENDLESS-SESSIONS", &[E37], world)
        }
        E38 => {
            let world = Config::new(a(), 1, 2).with(|env| env.processes_fail = true);
            shown("PROP-KEEPS-TURN", &[E38], world.but(|config| config.connects = true))
        }
        E39 => Status::CannotBeSaid {
            why: "the machine numbers its groups; src/application_pool/api/group_name.rs compares the names of random \
                  paths",
        },
        E40 => {
            let world = Config::new(vec![Options::new("a").min(1)], 2, 2);
            let world = world.with(|env| (env.time, env.punctual) = (true, true));
            shown("PROP-IDLE-BOUND", &[E40], world.but(|config| config.max_idle_time = 2))
        }
        E41 => Status::CannotBeSaid {
            why: "the machine counts no cost; src/application_pool/state/inactive_apps.rs finds without a search what the \
                  machine finds by one, and INV-EVICTABLE compares them",
        },
    }
}

/// Returns what else an erratum breaks beyond its [`status`], each under a heading.
pub fn further(erratum: Erratum) -> Vec<(&'static str, Status)> {
    use Erratum::*;
    let shown = |breaks, written, world| Status::Shown { breaks, written, world: Box::new(world) };
    let second = |heading, status| vec![(heading, status)];
    let a = || vec![Options::new("a")];
    match erratum {
        // Only with E4 as written is a group detached because it has no process left.
        E2 => {
            let cleaned = Config::new(a(), 2, 2).with(|env| env.time = true);
            let cleaned = cleaned.but(|config| config.max_idle_time = 1);
            let evicted = Config::new(vec![Options::new("a"), Options::new("b")], 2, 3);
            vec![
                (
                    "The cleaner deadlocks, too. E4 is also as written: otherwise the cleaner detaches no group.",
                    shown("deadlock", &[E2, E4], cleaned),
                ),
                (
                    "An eviction deadlocks, too, again with E4 as written.",
                    shown("deadlock", &[E2, E4], evicted),
                ),
            ]
        }
        E16 => {
            let world = Config::new(a(), 1, 1).with(|env| env.give_up = true);
            let world = world.but(|config| config.connects = true);
            second("An interrupted connect.", shown("PROP-SESSIONS", &[E16], world))
        }
        E19 => {
            let options = Options { max_queue: 1, ..Options::new("a") };
            let world = Config::new(vec![options], 1, 2);
            second("The queue has no bound.", shown("PROP-QUEUE-BOUND", &[E19], world))
        }
        E37 => {
            let options = Options { concurrency: 2, ..Options::new("a") };
            let room = Config::new(vec![options, Options::new("b")], 1, 3);
            let others = Config::new(vec![Options::new("a"), Options::new("b")], 2, 4);
            let others =
                others.but(|config| config.clients = vec![vec![0], vec![0], vec![0], vec![1]]);
            let beside = Config::new(vec![Options::new("a"), Options::new("b")], 2, 3);
            let beside = beside.but(|config| config.clients = vec![vec![0], vec![0], vec![1]]);
            vec![
                (
                    "The group that holds the place is stopped, although its process has room.",
                    shown("PROP-SERVES-ON", &[E37], room),
                ),
                (
                    "The one process chosen to make room has an endless session; the others turn over for ever.",
                    shown(
                        "PROP-ENDLESS-SESSIONS",
                        &[E37],
                        others.with(|env| (env.time, env.endless) = (true, vec![0])),
                    ),
                ),
                (
                    "The only process of the group has an endless session, and a process of another group is idle.",
                    shown(
                        "PROP-ENDLESS-SESSIONS",
                        &[E37],
                        beside.with(|env| (env.time, env.endless) = (true, vec![0])),
                    ),
                ),
            ]
        }
        E38 => {
            let options = Options { max_queue: 1, ..Options::new("a") };
            let world = Config::new(vec![options], 1, 3).with(|env| env.processes_fail = true);
            let world = world.but(|config| config.connects = true);
            second("The queue is full meanwhile.", shown("PROP-KEEPS-TURN", &[E38], world))
        }
        _ => vec![],
    }
}

/// Returns a configuration that follows the pseudocode except for its deadlocks (E2, E19) and E1.
///
/// It has two groups, failing spawns, restarts, and `max` raised and lowered. No wake-up is lost (E21).
pub fn pseudocode(private: bool) -> Config {
    use Erratum::*;
    let mut groups = vec![Options::new("a"), Options::new("b")];
    if private {
        groups = groups.into_iter().map(Options::private).collect();
    }
    let world = Config::new(groups, 2, 3).ruled(Rules::AS_WRITTEN.mended(&[E1, E2, E19]));
    world.with(|env| {
        (env.spawns_fail, env.touch) = (true, true);
        env.set_max = vec![1, 2];
    })
}

/// Returns the story of an erratum: what is written, the ruling, and the shortest counterexample step by step.
pub fn story(erratum: Erratum) -> String {
    let rules = both_rules(["As written", "As ruled"], erratum);
    let mut story = format!("{}\n{rules}\n", erratum.name());
    let shown = |breaks: &str, written: &[Erratum], world: Config| {
        story_of(&world.ruled(Rules::AS_RULED.but(written)), breaks)
    };
    match status(erratum) {
        Status::CannotBeSaid { why } => {
            story += &format!("This machine cannot express it: {why}.\n")
        }
        Status::Holds { property, why } => {
            story += &format!("It is no error ({property} holds as written): {why}.\n");
        }
        Status::Shown { breaks, written, world } => {
            let others: Vec<String> =
                written.iter().filter(|e| **e != erratum).map(|e| e.name()).collect();
            let with = match others.is_empty() {
                true => String::new(),
                false => format!(" and {}, without which the rule has no place", others.join(", ")),
            };
            story += &format!("Every rule is as ruled, except {}{with}.\n", erratum.name());
            story += &shown(breaks, written, *world);
        }
    }
    for (heading, status) in further(erratum) {
        let Status::Shown { breaks, written, world } = status else { continue };
        story += &format!("\n{heading}\n");
        story += &shown(breaks, written, *world);
    }
    story
}
