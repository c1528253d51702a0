//! An empty pool is closed while its cleaner goes to sleep (erratum E32).
//!
//! Guards that the cleaner ends when a closed pool has ended (`Inner::cleaner`), and that the end wakes the cleaner
//! wherever it sleeps (`State::notify_if_ended`). Without either, its thread lives on as long as a handle to the
//! closed pool is kept. Asserted: the cleaner ends, in its first pass or in one that the close has called for.

use crate::models::rig::*;

#[test]
fn cleaner_x_close() {
    explore("cleaner_x_close", &["ended"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let inner = rig.pool.inner();
        inner.start_cleaner().expect("a thread");
        rig.pool.close();
        inner.cleaner.get().expect("started").join().expect("no panic");
        outcomes.note("ended");
    });
}
