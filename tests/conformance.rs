//! What the original's own test suite checks: see `tests/README.md`.

mod common;
use common::{Rig, app};

#[test]
fn o01_a_session_reaches_the_application() {
    let rig = Rig::new(|b| b);
    let session = rig.pool.get(&app("x")).expect("a session");
    assert_eq!(session.request("hello"), "hello from /srv/x");
}

#[test]
fn o02_a_process_is_kept_after_its_session() {
    let rig = Rig::new(|b| b);
    let session = rig.pool.get(&app("x")).expect("a session");
    assert_eq!(rig.counts(), (1, 1));
    session.close();
    assert_eq!(rig.counts(), (0, 1));
}
