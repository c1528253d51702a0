//! Panics and errors of the factory, of resources, keys, wakers and the listener: each is contained, told
//! where it can be, and costs no place (rulings 1 and 13).

use crate::common::pool;

/// A test that panics is told as that, whatever the test is for.
#[test]
fn a_panicking_test_is_told_by_its_name() {
    let rig = pool(|b| b.test_on_return(true));
    rig.script.panics("validate");
    drop(rig.lend());
    assert_eq!(rig.events(), [r#"m: ValidatePanicked("on purpose")"#]);
}
