//! A background spawn ends while its get waits and the busy process is freed.
//!
//! Guards `State::spawn_has_ended`: it attaches the process, then settles the group. Without that, the get sleeps
//! although its process exists. Asserted: the old process or the new one serves the get. Each section uses or returns
//! the reservation (erratum E3: INV-CAPACITY, INV-RESERVED).

use crate::models::rig::*;

#[test]
fn background_spawn_x_get() {
    explore(Model("background_spawn_x_get", 93_199), &["by the old", "by the new"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).map(|s| s.pid()));
        drop(session);
        let by = getter.join().expect("no panic").expect("a session");
        outcomes.note(if by == 1 { "by the old" } else { "by the new" });
    });
}
