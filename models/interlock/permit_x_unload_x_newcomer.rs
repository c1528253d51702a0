//! An execution permits loads while it waits for a thread, which begins an execution. Another owner wants to unload
//! (defect `rails-child-behind-unload` of Rails).
//!
//! Guards that a newcomer passes a waiting unload while a permit block is open (`State::may_enter`). Otherwise it
//! waits behind the unload, which waits for the end of the permit block, which waits for the newcomer. Asserted: all
//! three end, and the unload comes after the permit block, whether it asked before or after the newcomer came
//! (PROP-ILK-PROGRAMS-END, INV-ILK-NO-PERMIT-IN-UNLOAD).

use crate::models::interlock::rig::*;

#[test]
fn interlock_permit_x_unload_x_newcomer() {
    let expected = ["newcomer first", "unload waited already"];
    explore(Model("interlock_permit_x_unload_x_newcomer", 4_470), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let mut permits = owner(&interlock);
        let (there, ilk) = (code.clone(), interlock.clone());
        let newcomer = spawn(move || {
            let asked = in_state(&ilk, OwnerState::WaitingToUnload);
            ilk.run(|_| there.note("run")).expect("no limit");
            asked
        });
        let (theirs, there) = (interlock.clone(), code.clone());
        let unloader = spawn(move || theirs.unload(|_| there.alone("unload")).expect("no limit"));
        let asked = permits.permit_loads(|| newcomer.join().expect("no panic"));
        assert_eq!(code.log(), "run");
        drop(permits);
        unloader.join().expect("no panic");
        assert_eq!(code.log(), "run, unload");
        match asked.expect("no limit") {
            0 => outcomes.note("newcomer first"),
            _ => outcomes.note("unload waited already"),
        }
    });
}
