//! An empty pool is closed while its cleaner goes to sleep (erratum E32).
//!
//! Guards that the cleaner ends with what a closed pool has (`is_over` in `Inner::cleaner`), and is told of that end
//! wherever it sleeps (`Effect::NotifyClosed`, and that it counts as one that waits for it: `Inner::start_cleaner`).
//! Without either, its thread lives on as long as somebody keeps a handle to the closed pool. Asserted: who keeps one
//! sees it end, in its first pass or in one that the close has called for.

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
