//! A caller fills the idle list while another one adds to it.
//!
//! Guards `State::end_addition` (`refill.rs`), which lets the callers that fill look again. Without that, a caller sleeps for ever
//! beside an idle resource, or beside a free place.
//!
//! Asserted: the fill succeeds unless its own creation fails. One resource is idle if one of the two succeeds, and it is the only one.

use crate::models::resource_pool::rig::*;

fn fill_meets_addition(model: Model, end: Make) {
    let expected = ["the fill created", "the addition created"];
    explore_small(model, &expected, move |outcomes| {
        let rig = unkeyed(|b| b.max_total(1)).reentrant();
        rig.factory.next(&[end]);
        let pool = rig.pool.clone();
        let addition = spawn(move || pool.add().is_ok());
        let filled = rig.pool.prefill(1).is_ok();
        let added = addition.join().expect("no panic");
        match end {
            Make::Well => assert!(filled && rig.factory.made() == 1),
            // The first creation fails, for whichever thread began it. An addition that met it found no place.
            _ => assert!(!(filled && added)),
        }
        assert_eq!(rig.pool.num_idle(), usize::from(filled || added));
        outcomes.note(expected[usize::from(added)]);
        assert!(rig.factory.most() <= 1, "more than max_total");
        rig.end();
    });
}

#[test]
fn resource_fill_x_addition() {
    fill_meets_addition(Model("resource_fill_x_addition", 54), Make::Well);
}

#[test]
fn resource_fill_x_failed_addition() {
    fill_meets_addition(Model("resource_fill_x_failed_addition", 43), Make::Fail);
}
