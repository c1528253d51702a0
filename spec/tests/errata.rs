//! Finds the shortest counterexample of each erratum, and compares its story with the stored one.
//!
//! If a change of the machine changes a story, read it, and then store it:
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test errata`.

mod common;

use cabrank_spec::application_pool::configuration::{Config, Options};
use cabrank_spec::application_pool::errata::{Status, further, pseudocode, status, story};
use cabrank_spec::application_pool::rules::Erratum::{self, *};
use cabrank_spec::application_pool::rules::Rules;
use cabrank_spec::checking::check::{check_only, counterexample};
use cabrank_spec::checking::switches::Switch;
use common::compare_story;

#[test]
fn the_stored_stories_are_current() {
    for &erratum in Erratum::ALL {
        compare_story(&erratum.name(), &story(erratum));
    }
}

#[test]
fn each_broken_promise_holds_as_ruled() {
    let mut shown = 0;
    let of_each = Erratum::ALL.iter().map(|&erratum| (erratum, status(erratum)));
    let others = Erratum::ALL.iter().flat_map(|&erratum| {
        further(erratum).into_iter().map(move |(_, status)| (erratum, status))
    });
    for (erratum, status) in of_each.chain(others) {
        let Status::Shown { breaks, written, world } = status else { continue };
        shown += 1;
        let ruled = counterexample(&world.clone().ruled(Rules::AS_RULED), breaks);
        assert!(ruled.is_none(), "{}: {breaks} does not hold as ruled", erratum.name());
        assert!(written.contains(&erratum));
        let as_written = counterexample(&world.ruled(Rules::AS_RULED.but(written)), breaks);
        assert!(as_written.is_some(), "{}: {breaks} holds as written", erratum.name());
    }
    assert_eq!(
        shown,
        34 + 8,
        "34 errata, three more of E37, two of E2, one more each of E16, E19 and E38"
    );
}

/// E6 and E24 have an effect only beside a second erratum as written.
#[test]
fn two_errata_have_no_effect_alone() {
    for erratum in [E6, E24] {
        let Status::Shown { breaks, world, .. } = status(erratum) else { panic!("is shown") };
        let alone = counterexample(&world.ruled(Rules::AS_RULED.but(&[erratum])), breaks);
        assert!(alone.is_none(), "{} has an effect alone", erratum.name());
    }
}

/// E2 deadlocks in three ways: through a restart, the cleaner, or an eviction. The last two need E4 as
/// written, too.
#[test]
fn the_lock_is_held_for_a_join_in_three_ways() {
    let Status::Shown { written, world, .. } = status(E2) else { panic!("is shown") };
    let steps = |world: &Config, written: &[Erratum]| {
        let world = world.clone().ruled(Rules::AS_RULED.but(written));
        counterexample(&world, "deadlock").map(|found| found.actions.len())
    };
    assert_eq!(steps(&world, written), Some(3));
    let mut lengths = vec![];
    for (_, status) in further(E2) {
        let Status::Shown { world, .. } = status else { panic!("is shown") };
        assert_eq!((steps(&world, &[E2]), steps(&world, &[E4])), (None, None));
        lengths.push(steps(&world, &[E2, E4]));
    }
    assert_eq!(lengths, [Some(7), Some(5)]);
}

/// The counterexamples of E2 and E3 also exist with every other erratum except E1 as written.
#[test]
fn the_pseudocode_deadlocks_and_overshoots() {
    let private = || vec![Options::new("a").private(), Options::new("b").private()];
    let world = Config::new(private(), 2, 3).ruled(Rules::AS_WRITTEN.mended(&[E1]));
    let restarts = world.clone().with(|env| env.touch = true);
    let deadlock = counterexample(&restarts, "deadlock").expect("E2");
    // get a, its spawn, get a, touch, get a.
    assert_eq!(deadlock.actions.len(), 5, "{deadlock:?}");
    let overshoot = counterexample(&world, "INV-CAPACITY").expect("E3");
    // get a, its spawn, get a, get b, its spawn, the spawn that get a began.
    assert_eq!(overshoot.actions.len(), 6, "{overshoot:?}");
}

/// E21: the pseudocode loses no wake-up once its deadlocks (E2, E19) are mended.
#[test]
fn the_pseudocode_loses_no_wake_up() {
    for (private, states) in [(false, 1_019_964), (true, 752_674)] {
        let found = check_only(&pseudocode(private), "deadlock");
        assert_eq!(found.map_or(0, |found| found.states), states, "{private}");
    }
}

/// The ruling of E3 needs that of E17: returning a reservation changes no number that the pseudocode's
/// mutators watch, so the wake-up is lost.
#[test]
fn reserving_without_hand_off_loses_a_wake_up() {
    let mut world = pseudocode(false);
    world.rules = world.rules.mended(&[E3]);
    let lost = counterexample(&world, "deadlock").expect("a lost wake-up");
    assert!(lost.actions.len() < 12, "{lost:?}");
}

#[test]
fn an_erratum_is_found_by_its_name_or_number() {
    for &erratum in Erratum::ALL {
        assert_eq!(Erratum::named(&erratum.name()), Some(erratum));
    }
    assert_eq!((Erratum::named("12"), Erratum::named("e12")), (Some(E12), Some(E12)));
    for name in ["EE2", "eE2", "E", "", "E0", "E42", "E+2", "E02", "D1"] {
        assert_eq!(Erratum::named(name), None, "{name}");
    }
}
