//! A get finds the queue full while a close frees the process that the queue waits for (erratum E19).
//!
//! Guards the bound in `State::wait`. Without it, the queue grows without limit. Asserted: the get is turned away
//! while another waits; once that one is served, it waits or is served (PROP-QUEUE-BOUND).

use crate::application_pool::GetError;
use crate::models::rig::*;
use std::pin::pin;

#[test]
fn queue_bound_x_close() {
    explore(Model("queue_bound_x_close", 140), &["turned away", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let one = app("a").with_max_queue(1);
        let session = rig.session(&one);
        let mut first = pin!(rig.pool.get_async(&one));
        assert!(poll_once(first.as_mut()).is_pending());
        let closer = spawn(move || drop(session));
        {
            let mut second = pin!(rig.pool.get_async(&one));
            outcomes.note(match poll_once(second.as_mut()) {
                std::task::Poll::Pending => "waited",
                std::task::Poll::Ready(Err(GetError::QueueFull { max_queue: 1 })) => "turned away",
                other => panic!("{other:?}"),
            });
        }
        drop(block_on(first).expect("a session"));
        closer.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
    });
}
