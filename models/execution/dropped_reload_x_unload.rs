//! A future that reloads, and fails to, is dropped while another asks to unload: it still waits, or that one has its
//! turn.
//!
//! Guards, in `Execution::unload_async`, that what has failed is noted before others have their turn, and that what is
//! to be reloaded last is so until it may unload, and again while others have their turn after it. Without the first
//! the world is half reloaded, and nobody is told; without the others what goes on is unloaded by nobody. Asserted:
//! whenever it is dropped, the reporter is told once of the reload that has failed, and whoever comes to it next
//! makes it good. What ends the execution is called by this thread, or by the other one where that lets the share in.
//!
//! It begins to wait before the other asks: entering beside it, too, is more than loom goes through in a minute.

use crate::execution::{ExecutionError, Reloader};
use crate::models::rig::*;
use crate::models::world::{World, execute};
use crate::sync::thread::JoinHandle;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

const WAYS: [&str; 3] = ["while it waits", "while the other has its turn", "too late"];

/// Polls it until it waits to unload, and once more beside another that asks to. In which way it is dropped, and the
/// other.
fn dropped_beside_an_unload<T>(
    reloader: &Reloader,
    world: &World,
    mut future: Pin<Box<impl Future<Output = Result<T, ExecutionError>>>>,
) -> (usize, JoinHandle<()>) {
    let interlock = reloader.executor().interlock().expect("it has one");
    let (mut other, third) = (interlock.enter(), interlock.enter());
    assert!(poll_once(future.as_mut()).is_pending(), "two run");
    let other = spawn(move || other.unload(|_| ()).expect("no deadlock"));
    drop(third); // whoever has asked by now is let in, the first first
    let way = match poll_once(future.as_mut()) {
        Poll::Pending => usize::from(world.is_broken()),
        Poll::Ready(ended) => {
            assert!(ended.is_err(), "its reload was to fail");
            2
        }
    };
    (way, other)
}

/// An execution of a reloader that always reloads is reset, and goes on.
#[test]
fn dropped_reset_x_unload() {
    explore("dropped_reset_x_unload", &WAYS, |outcomes| {
        let (world, builder) = World::new(1);
        let reloader = builder.always().build().expect("valid");
        let mut execution = reloader.run().expect("nothing is due");
        world.fail_once();
        let reset = Box::pin(execution.reset_async());
        let (way, other) = dropped_beside_an_unload(&reloader, &world, reset);
        let joins = || other.join().expect("no panic");
        let ended = match way {
            0 => (execution.complete(), joins()).0, // the other waits for that
            _ => (joins(), execution.complete()).1,
        };
        assert_eq!(ended.is_err(), way < 2, "its end tells of what was not told");
        assert_eq!((world.told(), world.completed()), (1, 1));
        assert_eq!(world.unloads(), usize::from(way == 1), "its end unloads");
        outcomes.note(WAYS[way]);
    });
}

/// One of a reloader on change begins, and does not come to its body.
#[test]
fn dropped_run_x_unload() {
    explore("dropped_run_x_unload", &WAYS, |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        world.fail_once();
        let run = Box::pin(reloader.run_async());
        let (way, other) = dropped_beside_an_unload(&reloader, &world, run);
        other.join().expect("no panic");
        assert_eq!((world.told(), world.completed()), (usize::from(way > 0), 1));
        assert_eq!(execute(&reloader, &world).is_err(), way == 0, "it is tried again");
        assert_eq!((world.told(), world.unloads()), (1, usize::from(way > 0)));
        outcomes.note(WAYS[way]);
    });
}
