//! Two executions that have a share both want to load, or both to unload, and meet afterwards.
//!
//! Guards that `State::acquire` gives the share up. If an owner kept its share while it waits, each would wait for the
//! other (defect `rails-upgrade-deadlock` of Rails). Guards the drain in `State::release`: the first to hold lets the
//! other hold, too, before it runs on. Without it, the first runs on and waits for the second. Asserted: both hold,
//! each alone, in either order, and both get to the meeting (PROP-ILK-PROGRAMS-END).

use crate::models::interlock::rig::*;

/// Returns the order, and the number of unloads.
fn meet(request: fn(&mut Running<'_>, &LoadedCode, &'static str)) -> (String, u64) {
    let (interlock, code) = (Interlock::new(), LoadedCode::new());
    let (mut a, mut b) = (owner(&interlock), owner(&interlock));
    let (a_has, b_has) = (Counter::new(), Counter::new());
    let theirs = (code.clone(), a_has.clone(), b_has.clone());
    let thread = spawn(move || {
        let (code, a_has, b_has) = theirs;
        request(&mut b, &code, "b");
        code.runs();
        b_has.up();
        a_has.wait(1);
    });
    request(&mut a, &code, "a");
    code.runs();
    a_has.up();
    b_has.wait(1);
    thread.join().expect("no panic");
    (code.log(), interlock.generation())
}

#[test]
fn interlock_load_x_load() {
    explore(Model("interlock_load_x_load", 2_000), &["a, b", "b, a"], |outcomes| {
        let load = |owner: &mut Running<'_>, code: &LoadedCode, name| {
            owner.load(|_| code.alone(name)).expect("no limit");
        };
        outcomes.note(meet(load).0);
    });
}

#[test]
fn interlock_upgrade_x_upgrade() {
    explore(Model("interlock_upgrade_x_upgrade", 2_000), &["a, b", "b, a"], |outcomes| {
        let (order, unloads) = meet(|owner, code, name| unload(owner, || code.alone(name)));
        assert_eq!(unloads, 2);
        outcomes.note(order);
    });
}
