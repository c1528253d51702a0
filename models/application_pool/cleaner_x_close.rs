//! An empty pool is closed while its cleaner goes to sleep (erratum E32).
//!
//! Guards that the cleaner ends once a closed pool has ended (`Inner::cleaner`), and that this end wakes the cleaner
//! (`State::notify_if_ended`). Without either, the thread lives as long as any handle to the closed pool. Asserted:
//! the cleaner ends, in its first pass or in a pass that the close requests.

use crate::models::rig::*;

#[test]
fn cleaner_x_close() {
    explore(Model("cleaner_x_close", 3_104), &["before the first pass", "asleep"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let inner = rig.pool.inner();
        inner.start_cleaner().expect("a thread");
        let asleep = super::cleaner_x_becoming_idle::sleeps(&rig);
        rig.pool.close();
        inner.cleaner.get().expect("started").join().expect("no panic");
        outcomes.note(if asleep { "asleep" } else { "before the first pass" });
    });
}
