//! Each erratum that can be shown has its shortest counterexample, as ruled but for that one, and its
//! story is the one in `stories/`. If a change of the machine changes a story, look at it, and then
//! store the new one: `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test errata`.

use cabrank_spec::configuration::{Config, Options};
use cabrank_spec::errata::{Status, counterexample, further, status, story, the_text};
use cabrank_spec::rules::Erratum::{self, *};
use cabrank_spec::rules::Rules;
use std::path::Path;

#[test]
fn each_story_is_the_one_that_is_stored() {
    for &erratum in Erratum::ALL {
        let file = format!("{}/stories/{}.txt", env!("CARGO_MANIFEST_DIR"), erratum.name());
        let told = story(erratum);
        if std::env::var_os("CABRANK_STORE_STORIES").is_some() {
            std::fs::create_dir_all(Path::new(&file).parent().expect("a directory")).expect("made");
            std::fs::write(&file, &told).expect("stored");
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(told, stored, "the story of {} has changed", erratum.name());
    }
}

#[test]
fn what_is_shown_as_written_holds_as_ruled() {
    let mut shown = 0;
    let of_each = Erratum::ALL.iter().map(|&erratum| (erratum, status(erratum)));
    let others = Erratum::ALL.iter().flat_map(|&erratum| {
        further(erratum).into_iter().map(move |(_, status)| (erratum, status))
    });
    for (erratum, status) in of_each.chain(others) {
        let Status::Shown { breaks, written, world } = status else { continue };
        shown += 1;
        let ruled = counterexample(&world.clone().ruled(Rules::AS_RULED), breaks);
        assert!(ruled.is_err(), "{}: {breaks} does not hold as ruled", erratum.name());
        assert!(written.contains(&erratum));
        let as_written = counterexample(&world.ruled(Rules::AS_RULED.but(written)), breaks);
        assert!(as_written.is_ok(), "{}: {breaks} holds as written", erratum.name());
    }
    assert_eq!(shown, 29 + 4, "twenty-nine, E2's other two ways, the second halves of E16 and E19");
}

/// What has no place without another erratum is not shown by itself.
#[test]
fn a_second_erratum_is_needed_where_one_is_named() {
    for erratum in [E6, E24] {
        let Status::Shown { breaks, world, .. } = status(erratum) else { panic!("is shown") };
        let alone = counterexample(&world.ruled(Rules::AS_RULED.but(&[erratum])), breaks);
        assert!(alone.is_err(), "{} needs no other", erratum.name());
    }
}

/// The text's deadlock (E2) in all three ways: a restart, the cleaner, an eviction. Of the last two, neither
/// E2 nor E4 makes one by itself.
#[test]
fn the_lock_is_held_for_a_join_in_three_ways() {
    let Status::Shown { written, world, .. } = status(E2) else { panic!("is shown") };
    let steps = |world: &Config, written: &[Erratum]| {
        let world = world.clone().ruled(Rules::AS_RULED.but(written));
        counterexample(&world, "deadlock").ok().map(|found| found.actions.len())
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

/// The text's own counterexamples, with nothing mended: E2 and E3, as its errata tell them.
#[test]
fn the_text_itself_deadlocks_and_overshoots() {
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

/// E21: no wake-up is lost, in every state of the text once its two deadlocks are mended.
#[test]
fn the_text_loses_no_wake_up() {
    for (private, states) in [(false, 1_019_964), (true, 752_674)] {
        assert_eq!(counterexample(&the_text(private), "deadlock").err(), Some(states), "{private}");
    }
}

/// What the rulings guard against each other: to reserve capacity (E3) and yet to wake by the text's
/// mutators (E17) loses a wake-up, for a reservation that is given back changes no number they watch.
#[test]
fn reserving_alone_would_lose_a_wake_up() {
    let mut world = the_text(false);
    world.rules = world.rules.mended(&[E3]);
    let lost = counterexample(&world, "deadlock").expect("a lost wake-up");
    assert!(lost.actions.len() < 12, "{lost:?}");
}

#[test]
fn an_erratum_is_named_as_it_is_written() {
    for &erratum in Erratum::ALL {
        assert_eq!(Erratum::named(erratum.name()), Some(erratum));
    }
    assert_eq!((Erratum::named("12"), Erratum::named("e12")), (Some(E12), Some(E12)));
    for name in ["EE2", "eE2", "E", "", "E0", "E35", "E+2", "E02", "D1"] {
        assert_eq!(Erratum::named(name), None, "{name}");
    }
}
